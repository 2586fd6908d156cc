//! Sessions and transactions that clients refer to by a handle, and statements of neither.

use super::connection::Charge;
use super::failure::{missing, status};
use super::handles::{Used, lock};
use super::service::Inner;
use crate::statement::{Answer, Conversation};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tickstone_query::dialect::Statement;
use tickstone_query::{Description, Frame, QueryError, SqlState};
use tonic::Status;

/// A session of a client's.
#[derive(Debug)]
pub(super) struct Session {
    conversation: Conversation,
    /// The tables that only it sees, and what they take.
    tables: Mutex<Vec<(Arc<Frame>, Arc<Charge>)>>,
}

/// What a statement runs in: a session with a handle, or one of its own.
#[derive(Debug)]
pub(super) enum Within {
    /// One that outlives it.
    Session(Used<Session>),
    /// One of its own.
    Alone(Conversation),
}

impl Within {
    pub(super) fn conversation(&self) -> &Conversation {
        match self {
            Within::Session(session) => &session.conversation,
            Within::Alone(conversation) => conversation,
        }
    }

    /// Whether a transaction is open.
    pub(super) async fn in_transaction(&self) -> bool {
        match self {
            Within::Session(session) => session.conversation.with(|session| session.in_transaction()).await,
            Within::Alone(_) => false,
        }
    }

    /// Carries out a statement whose placeholders have values.
    ///
    /// # Errors
    /// Where it would change nothing but its own session, and as [`Conversation::run`].
    pub(super) async fn run(
        &self,
        inner: &Inner,
        text: &Arc<str>,
        statement: Statement,
    ) -> Result<Answer, QueryError> {
        self.check(&statement)?;
        let timeout = inner.shared.settings.time("statement_timeout");
        self.conversation().run(&inner.shared, Arc::clone(text), statement, timeout).await
    }

    /// What a statement gives and takes.
    ///
    /// # Errors
    /// As [`Self::run`], and as [`Conversation::describe`].
    pub(super) async fn describe(
        &self,
        inner: &Inner,
        statement: &Statement,
    ) -> Result<Description, QueryError> {
        self.check(statement)?;
        self.conversation().describe(&inner.shared, statement.clone(), Vec::new()).await
    }

    fn check(&self, statement: &Statement) -> Result<(), QueryError> {
        match self {
            _ if statement.is_of_its_connection() => {
                let what = format!("{} over Flight", statement.kind());
                Err(QueryError::not_supported(&what).hint("rows come and go as Arrow batches: DoPut, DoGet"))
            }
            Within::Alone(_) if statement.is_of_its_session() => {
                let what =
                    format!("{} changes a session, and this request has one of its own", statement.kind());
                Err(QueryError::request(what).hint("begin a session or a transaction, and name it"))
            }
            _ => Ok(()),
        }
    }
}

impl Session {
    /// Adds a table that only it sees, in the place of one of its name.
    pub(super) async fn add_table(&self, table: Arc<Frame>, charge: Arc<Charge>) {
        let all = {
            let mut tables = lock(&self.tables);
            tables.retain(|(there, _)| !there.name().eq_ignore_ascii_case(table.name()));
            tables.push((table, charge));
            tables.iter().map(|(table, _)| Arc::clone(table)).collect()
        };
        self.conversation.with(|session| session.set_frames(all)).await;
    }

    async fn forget_tables(&self) {
        lock(&self.tables).clear();
        self.conversation.with(|session| session.set_frames(Vec::new())).await;
    }
}

impl Inner {
    /// What a statement runs in that names this handle, or none.
    ///
    /// # Errors
    /// Where there is no such session.
    pub(super) fn within(&self, handle: &[u8]) -> Result<Within, Status> {
        if handle.is_empty() {
            return Ok(Within::Alone(Conversation::new(&self.shared)));
        }
        self.session(handle).map(Within::Session)
    }

    /// # Errors
    /// Where there is no such session.
    pub(super) fn session(&self, handle: &[u8]) -> Result<Used<Session>, Status> {
        self.sessions.get(handle).ok_or_else(|| {
            missing(
                "there is no such session or transaction",
                "it has ended, or nobody used it for flight_idle_timeout: begin another",
            )
        })
    }

    /// Begins a session, with a transaction in it or without; its handle.
    ///
    /// # Errors
    /// Where there are too many.
    pub(super) async fn begin(&self, transaction: bool) -> Result<Bytes, Status> {
        let conversation = Conversation::new(&self.shared);
        if transaction {
            // Clients that are in a transaction at all times make tables in it.
            conversation.with(|session| session.changes_at_once = true).await;
            let begin = Statement::Begin { read_only: None };
            let begun = conversation.run(&self.shared, "BEGIN".into(), begin, None).await;
            begun.map_err(|error| status(&error))?;
        }
        let (number, session) = (self.numbers.next(), Session { conversation, tables: Mutex::default() });
        match self.sessions.keep(number, session, self.handles_max) {
            Ok(()) => Ok(Bytes::copy_from_slice(&number)),
            Err(_) => Err(too_many(self.handles_max, "sessions and transactions")),
        }
    }

    /// Ends a transaction; its handle is none any more, also where it could not be committed.
    ///
    /// # Errors
    /// Where there is none, and where it cannot be committed.
    pub(super) async fn end_transaction(&self, handle: &[u8], commit: bool) -> Result<(), Status> {
        let session = self.session(handle)?;
        self.sessions.forget(handle);
        let (text, statement) = match commit {
            true => ("COMMIT", Statement::Commit),
            false => ("ROLLBACK", Statement::Rollback),
        };
        let done = session.conversation.run(&self.shared, text.into(), statement, None).await;
        done.map(|_| ()).map_err(|error| status(&error))
    }

    /// Ends a session; an open transaction is rolled back. One that has ended is none any more, and that is no error.
    pub(super) fn end_session(&self, handle: &[u8]) {
        self.sessions.forget(handle);
    }

    /// Forgets the tables that only a session sees.
    ///
    /// # Errors
    /// Where there is no such session.
    pub(super) async fn forget_tables(&self, handle: &[u8]) -> Result<(), Status> {
        self.session(handle)?.forget_tables().await;
        Ok(())
    }
}

/// The answer to one thing with a handle more than there may be.
pub(super) fn too_many(most: usize, what: &str) -> Status {
    let error = QueryError::new(
        tickstone_query::ErrorKind::Retry,
        format!("there are flight_handles_max, {most}, {what} already"),
    );
    status(&error.hint("close those that are not used, or raise flight_handles_max").state(SqlState::Retry))
}
