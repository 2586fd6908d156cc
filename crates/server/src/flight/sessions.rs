//! Sessions and transactions that clients refer to by a handle, and statements of neither.

use super::connection::{Caller, Charge};
use super::failure::{missing, status};
use super::handles::{Used, lock};
use super::service::Inner;
use crate::shared::Shared;
use crate::statement::{Answer, Conversation};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tickstone_query::dialect::Statement;
use tickstone_query::{Access, Description, Frame, QueryError, SqlState};
use tonic::Status;

/// A session of a client's.
#[derive(Debug)]
pub(super) struct Session {
    /// That of the user who began it: nobody else knows of it.
    access: Access,
    conversation: Conversation,
    /// What it is where a client began a transaction, not a session.
    transaction: Option<Transaction>,
    /// The tables that only it sees, and what they take.
    tables: Mutex<Vec<(Arc<Frame>, Arc<Charge>)>>,
}

/// A transaction of a client's.
#[derive(Debug)]
struct Transaction {
    /// The connection that it began on.
    connection: u64,
    /// Whether a statement of it failed: nothing is done until it is rolled back.
    failed: AtomicBool,
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

    /// Has a transaction take nothing but its end: something of it failed.
    pub(super) fn fail(&self) {
        if let Within::Session(session) = self {
            session.fail();
        }
    }

    /// # Errors
    /// Where it is a transaction that has failed.
    pub(super) fn admit(&self) -> Result<(), QueryError> {
        match self {
            Within::Session(session) if session.has_failed() => {
                let what =
                    "a statement of this transaction has failed: nothing is done until it is rolled back";
                Err(QueryError::request(what).state(SqlState::FailedTransaction))
            }
            _ => Ok(()),
        }
    }

    /// Carries out a statement whose placeholders have values; one that fails fails its transaction.
    ///
    /// # Errors
    /// Where it would change nothing but its own session, and as [`Conversation::run`].
    pub(super) async fn run(
        &self,
        inner: &Inner,
        text: &Arc<str>,
        statement: Statement,
    ) -> Result<Answer, QueryError> {
        self.run_until(inner, text, statement, std::future::pending()).await
    }

    /// As [`Self::run`], until its client cancels it.
    ///
    /// # Errors
    /// As [`Self::run`], and as [`Conversation::run_until`].
    pub(super) async fn run_until(
        &self,
        inner: &Inner,
        text: &Arc<str>,
        statement: Statement,
        cancelled: impl Future<Output = QueryError>,
    ) -> Result<Answer, QueryError> {
        let ends = matches!(statement, Statement::Rollback);
        let timeout = inner.shared.settings.time("statement_timeout");
        let run = async {
            self.check(&statement)?;
            let text = Arc::clone(text);
            self.conversation().run_until(&inner.shared, text, statement, timeout, cancelled).await
        };
        let done = run.await.inspect_err(|_| self.fail())?;
        if let (Within::Session(session), true) = (self, ends) {
            session.set_failed(false);
        }
        Ok(done)
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
        let describe = async {
            self.check(statement)?;
            self.conversation().describe(&inner.shared, statement.clone(), Vec::new()).await
        };
        describe.await.inspect_err(|_| self.fail())
    }

    fn check(&self, statement: &Statement) -> Result<(), QueryError> {
        if !matches!(statement, Statement::Rollback) {
            self.admit()?;
        }
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
    fn fail(&self) {
        self.set_failed(true);
    }

    fn set_failed(&self, failed: bool) {
        if let Some(transaction) = &self.transaction {
            transaction.failed.store(failed, Ordering::Release);
        }
    }

    fn has_failed(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.failed.load(Ordering::Acquire))
    }

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

    /// Commits its transaction; one that has failed is rolled back.
    async fn commit(&self, shared: &Arc<Shared>) -> Result<(), QueryError> {
        if self.has_failed() {
            self.roll_back(shared).await?;
            let what =
                "a statement of this transaction has failed: it is rolled back, nothing of it was stored";
            return Err(QueryError::request(what).state(SqlState::FailedTransaction));
        }
        self.conversation.run(shared, "COMMIT".into(), Statement::Commit, None).await.map(|_| ())
    }

    /// Rolls its transaction back, where one is open.
    async fn roll_back(&self, shared: &Arc<Shared>) -> Result<(), QueryError> {
        if !self.conversation.with(|session| session.in_transaction()).await {
            return Ok(());
        }
        self.conversation.run(shared, "ROLLBACK".into(), Statement::Rollback, None).await.map(|_| ())
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
    pub(super) fn within(&self, access: &Access, handle: &[u8]) -> Result<Within, Status> {
        if handle.is_empty() {
            return Ok(Within::Alone(Conversation::new(&self.shared, access)));
        }
        self.session(access, handle).map(Within::Session)
    }

    fn session_of(&self, access: &Access, handle: &[u8]) -> Option<Used<Session>> {
        self.sessions.get(handle).filter(|session| session.access.is_of(access))
    }

    /// # Errors
    /// Where the user has no such session.
    pub(super) fn session(&self, access: &Access, handle: &[u8]) -> Result<Used<Session>, Status> {
        self.session_of(access, handle).ok_or_else(|| {
            missing(
                "there is no such session or transaction",
                "it has ended, or nobody used it for flight_idle_timeout: begin another",
            )
        })
    }

    /// Begins a session; its handle.
    ///
    /// # Errors
    /// Where there are too many.
    pub(super) fn begin_session(&self, access: &Access) -> Result<Bytes, Status> {
        self.keep(Session {
            access: access.clone(),
            conversation: Conversation::new(&self.shared, access),
            transaction: None,
            tables: Mutex::default(),
        })
    }

    /// Begins a transaction on a connection; its handle.
    ///
    /// # Errors
    /// Where there are too many.
    pub(super) async fn begin_transaction(&self, caller: &Caller) -> Result<Bytes, Status> {
        let Caller { access, connection } = caller.clone();
        let conversation = Conversation::new(&self.shared, &access);
        // Clients that are in a transaction at all times make tables in it.
        conversation.with(|session| session.changes_at_once = true).await;
        let begin = Statement::Begin { read_only: None };
        let begun = conversation.run(&self.shared, "BEGIN".into(), begin, None).await;
        begun.map_err(|error| status(&error))?;
        let is_only = !self.has_transaction(connection);
        let transaction = Some(Transaction { connection, failed: AtomicBool::new(false) });
        let handle = self.keep(Session { access, conversation, transaction, tables: Mutex::default() })?;
        if is_only {
            self.take_over(connection, &handle);
        }
        Ok(handle)
    }

    fn keep(&self, session: Session) -> Result<Bytes, Status> {
        let number = self.numbers.next();
        let access = session.access.clone();
        let is_theirs = |other: &Session| access.owner().is_some() && other.access.is_of(&access);
        match self.sessions.keep(number, session, self.handles_max, is_theirs) {
            Ok(()) => Ok(Bytes::copy_from_slice(&number)),
            Err(_) => Err(too_many(self.handles_max, "sessions and transactions")),
        }
    }

    /// Whether a transaction is open that began on a connection.
    pub(super) fn has_transaction(&self, connection: u64) -> bool {
        let began_there = |transaction: &Transaction| transaction.connection == connection;
        self.sessions.any(|session| session.transaction.as_ref().is_some_and(began_there))
    }

    /// Ends a transaction, as a connection asks; its handle is none any more, also where it could not be committed. One
    /// that is gone was rolled back.
    ///
    /// # Errors
    /// Where it cannot be committed: what was prepared in it waits for the rollback then.
    pub(super) async fn end_transaction(
        &self,
        handle: &[u8],
        commit: bool,
        caller: &Caller,
    ) -> Result<(), Status> {
        let session = self.session_of(&caller.access, handle);
        if session.is_some() {
            self.sessions.forget(handle);
        }
        let done = match (commit, session) {
            (true, Some(session)) => session.commit(&self.shared).await,
            (false, Some(session)) => session.roll_back(&self.shared).await,
            (true, None) => return self.session(&caller.access, handle).map(|_| ()),
            (false, None) => Ok(()),
        };
        done.map_err(|error| status(&error))?;
        self.leave(handle, caller.connection);
        Ok(())
    }

    /// Has a transaction take nothing but its end, where there is one.
    pub(super) fn fail(&self, access: &Access, handle: &[u8]) {
        if let Some(session) = self.session_of(access, handle) {
            session.fail();
        }
    }

    /// Ends a session; an open transaction is rolled back. One that has ended is none any more, and that is no error.
    pub(super) fn end_session(&self, access: &Access, handle: &[u8]) {
        if self.session_of(access, handle).is_some() {
            self.sessions.forget(handle);
        }
    }

    /// Forgets the tables that only a session sees.
    ///
    /// # Errors
    /// Where there is no such session.
    pub(super) async fn forget_tables(&self, access: &Access, handle: &[u8]) -> Result<(), Status> {
        self.session(access, handle)?.forget_tables().await;
        Ok(())
    }
}

/// The answer to one thing with a handle more than there may be.
pub(super) fn too_many(most: usize, what: &str) -> Status {
    let error = QueryError::new(
        tickstone_query::ErrorKind::Retry,
        format!("there are flight_handles_max, {most}, {what} already, or half as many of one user"),
    );
    status(&error.hint("close those that are not used, or raise flight_handles_max").state(SqlState::Retry))
}
