//! A connection: its state, and which message goes where.

use super::cancel::Registered;
use super::catalog::Client;
use super::channel::{Came, Channel};
use super::error::{Fault, PROTOCOL_VIOLATION};
use super::guc::Guc;
use super::listen::Listening;
use super::portal::{Portal, Prepared};
use super::startup;
use crate::shared::Shared;
use crate::statement::{Answer, Conversation};
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tickstone_query::dialect::Statement;
use tickstone_query::{Access, QueryError, Session, SqlState};
use tokio::sync::watch;

/// What a statement ends with that its client cancelled.
const CANCELLED: &str = "the statement was cancelled at the client's request";

/// What ends a piece of work.
#[derive(Debug)]
pub(super) enum Stop {
    /// An error that the client is told of.
    Fault(Box<Fault>),
    /// The connection is gone.
    Gone(io::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(Box::new(fault))
    }
}

impl From<QueryError> for Stop {
    fn from(error: QueryError) -> Self {
        Fault::from(error).into()
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Gone(error)
    }
}

/// The transaction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// None, as far as the client knows.
    Idle,
    /// None that the client began: INSERTs that came together are in one.
    Implicit,
    /// The client began one.
    Open,
    /// It began one, and a statement of it failed.
    Failed,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) channel: Channel,
    pub(super) conversation: Conversation,
    pub(super) guc: Guc,
    pub(super) registered: Registered,
    /// What the catalog says of the connection.
    pub(super) client: Arc<Client>,
    pub(super) status: Status,
    pub(super) prepared: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    /// Whether the session has its transactions READ ONLY.
    pub(super) read_only: bool,
    /// The tables that the transaction of INSERTs that came together has rows for.
    pub(super) inserted_into: Vec<String>,
    /// Rows that the open transaction has inserted, and its savepoints with how many there were.
    pub(super) inserted: u64,
    pub(super) savepoints: Vec<(String, u64)>,
    /// The channels it listens to.
    pub(super) listening: Listening,
    pub(super) stopping: watch::Receiver<bool>,
    /// What its user may do.
    pub(super) access: Access,
    /// Whether messages are passed over up to the next Sync.
    passing_over: bool,
}

impl Connection {
    pub(super) fn new(
        shared: &Arc<Shared>,
        channel: Channel,
        guc: Guc,
        (registered, client): (Registered, Arc<Client>),
        access: Access,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            channel,
            conversation: Conversation::of_connection(shared, &access),
            access,
            guc,
            registered,
            client,
            status: Status::Idle,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            read_only: false,
            inserted_into: Vec::new(),
            inserted: 0,
            savepoints: Vec::new(),
            listening: Listening::default(),
            stopping,
            passing_over: false,
        }
    }

    /// Serves it to its end.
    ///
    /// # Errors
    /// Where the connection breaks, or the client sends what is no message.
    pub(super) async fn serve(mut self) -> io::Result<()> {
        let catalog = Arc::new(self.shared.catalog.of_client(&self.client));
        let begin = |session: &mut Session| {
            session.changes_at_once = true;
            session.set_system(catalog);
        };
        self.conversation.with(begin).await;
        if let Err(Stop::Fault(fault)) = self.settings_changed().await {
            return startup::refuse(&mut self.channel, *fault).await;
        }
        self.ready();
        loop {
            let patience = self.guc.idle_in_transaction_timeout().filter(|_| self.is_in_transaction());
            let may_notify = self.may_notify() && !self.passing_over && !self.channel.is_behind();
            let message = tokio::select! {
                message = self.channel.next() => message,
                (channel, payload) = self.listening.next(), if may_notify => {
                    self.notify(channel, payload);
                    continue;
                }
                () = tokio::time::sleep(patience.unwrap_or_default()), if patience.is_some() => {
                    let what = "the transaction was idle for idle_in_transaction_session_timeout, and is rolled back";
                    return startup::refuse(&mut self.channel, Fault::new("25P03", what)).await;
                }
                _ = self.stopping.changed() => {
                    let fault = Fault::new("57P01", "the server is stopping");
                    return startup::refuse(&mut self.channel, fault).await;
                }
            };
            let message = match message {
                Ok(Some(Came::Message(message))) => message,
                Ok(Some(Came::NoText(kind, place))) => {
                    self.no_text(kind, place).await?;
                    continue;
                }
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let fault = Fault::new(PROTOCOL_VIOLATION, error.to_string());
                    return startup::refuse(&mut self.channel, fault).await;
                }
                Err(error) => return Err(error),
            };
            if matches!(message, Message::Terminate(_)) {
                return Ok(());
            }
            match self.take(message).await {
                Ok(()) => {}
                Err(Stop::Gone(error)) => return Err(error),
                Err(Stop::Fault(fault)) => self.failed(*fault).await?,
            }
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), Stop> {
        match message {
            Message::Query(query) => {
                self.passing_over = false;
                return self.simple(&query.query).await;
            }
            Message::Sync(_) => {
                self.passing_over = false;
                let ended = self.end_implicit().await;
                self.close_portal("");
                if let Err(Stop::Fault(fault)) = ended {
                    self.channel.put(&fault.response("ERROR"));
                }
                self.ready();
                return Ok(());
            }
            // What a COPY that has failed had still on its way.
            Message::CopyData(_) | Message::CopyDone(_) | Message::CopyFail(_) => return Ok(()),
            _ if self.passing_over => return Ok(()),
            _ => {}
        }
        // An error of what follows passes over all up to Sync.
        self.passing_over = true;
        match message {
            Message::Parse(parse) => self.parse(parse).await,
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(describe) => self.describe(describe).await,
            Message::Execute(execute) => self.execute(execute).await,
            Message::Close(close) => self.close(&close),
            Message::Flush(_) => Ok(self.channel.send().await?),
            _ => Err(Fault::new(PROTOCOL_VIOLATION, "this message is not expected here").into()),
        }?;
        self.passing_over = false;
        Ok(())
    }

    /// Tells that the text of a message is none.
    async fn no_text(&mut self, kind: u8, place: usize) -> io::Result<()> {
        let is_query = kind == b'Q';
        if self.passing_over && !is_query {
            return Ok(());
        }
        self.passing_over = !is_query;
        let what = format!("the text of the message is no UTF-8 from byte {} on", place + 1);
        self.failed(Fault::new("22021", what)).await
    }

    /// Tells of an error, which ends what the client sent with it.
    async fn failed(&mut self, fault: Fault) -> io::Result<()> {
        self.channel.put(&fault.response("ERROR"));
        match self.status {
            Status::Open => self.status = Status::Failed,
            Status::Implicit => self.roll_back().await,
            Status::Idle | Status::Failed => {}
        }
        if !self.passing_over {
            self.ready();
        }
        Ok(())
    }

    /// Whether the client began a transaction that has not ended.
    pub(super) fn is_in_transaction(&self) -> bool {
        matches!(self.status, Status::Open | Status::Failed)
    }

    /// Says that the next may come.
    pub(super) fn ready(&mut self) {
        let status = match self.status {
            Status::Idle | Status::Implicit => TransactionStatus::Idle,
            Status::Open => TransactionStatus::Transaction,
            Status::Failed => TransactionStatus::Error,
        };
        self.channel.put(&ReadyForQuery::new(status));
    }

    /// Waits for something that may take long, as long as the client is there and, unless it `is_done`, does not cancel it.
    ///
    /// # Errors
    /// Where it goes or cancels.
    pub(super) async fn while_wanted<T>(
        channel: &mut Channel,
        registered: &Registered,
        is_done: bool,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        // The work last: where rows are always at hand, nobody would look at the others.
        tokio::select! {
            biased;
            () = registered.cancel.wait(), if !is_done => Err(Fault::new("57014", CANCELLED).into()),
            () = channel.gone() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            done = work => Ok(done),
        }
    }

    /// Carries out a statement whose client may cancel it.
    ///
    /// # Errors
    /// Where the client goes.
    pub(super) async fn run_unless_cancelled(
        &mut self,
        text: &Arc<str>,
        statement: Statement,
    ) -> Result<Result<Answer, QueryError>, Stop> {
        let (conversation, timeout) = (self.conversation.clone(), self.guc.statement_timeout());
        let registered = &self.registered;
        let cancelled = async {
            registered.cancel.wait().await;
            QueryError::request(CANCELLED).state(SqlState::Cancelled)
        };
        let run = conversation.run_until(&self.shared, Arc::clone(text), statement, timeout, cancelled);
        tokio::select! {
            biased;
            () = self.channel.gone() => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            done = run => Ok(done),
        }
    }
}
