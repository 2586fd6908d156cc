//! Statements of SQL: on the database's threads, their rows handed over as they are asked for.
//!
//! A [`Conversation`] is the session of a connection; a request that has none gets one for its statement ([`run`]).
//!
//! Invariants:
//! - a statement ends when whoever asked is gone: dropping what waits for its [`Answer`], or its rows, cancels it;
//! - rows that wait for their client count towards `query_memory`, and a statement makes no more while
//!   [`WAITING_BYTES`] of them wait, or one batch that is larger.

use crate::metrics::Counter;
use crate::pg::catalog::Client;
use crate::shared::Shared;
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::{DataType, SchemaRef};
use tickstone_query::dialect::Statement;
use tickstone_query::{
    Access, Description, ErrorKind, HeldRows, Outcome, Parameters, QueryError, QueryProgress, Session,
    SqlState, Threads,
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::warn;

/// Batches that wait to be written out.
const BATCHES_WAITING: usize = 2;

/// Bytes of rows that are made ahead of the client, those included that are being written out.
const WAITING_BYTES: usize = 4 << 20;

/// What a statement gave.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Rows.
    Rows(Rows),
    /// It was carried out: what it was, and how many rows it stored.
    Done { tag: String, rows: Option<u64> },
}

/// Rows of a statement that runs.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) planning: Duration,
    progress: QueryProgress,
    batches: mpsc::Receiver<Piece>,
    /// Of the batch that was handed out last, and is written out.
    current: Option<Claim>,
    _running: Option<Running>,
}

/// A batch, or the end; a channel that ends without one was cut short.
type Piece = Result<Option<(RecordBatch, Option<Claim>)>, QueryError>;

/// What a batch holds until its client has taken it.
#[derive(Debug)]
struct Claim {
    _memory: HeldRows,
    /// Of [`WAITING_BYTES`].
    _room: OwnedSemaphorePermit,
}

impl Rows {
    /// Rows that are there already.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        let (send, batches) = mpsc::channel(BATCHES_WAITING);
        let schema = batch.schema();
        // There is room for both.
        let _ = send.try_send(Ok(Some((batch, None))));
        let _ = send.try_send(Ok(None));
        let (planning, progress) = (Duration::ZERO, QueryProgress::default());
        Self { schema, planning, progress, batches, current: None, _running: None }
    }

    /// What is to be known of the rows, once all of them came.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.progress.warnings()
    }

    /// The next batch; `None` after the last. Whoever asks is done with the one before.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, QueryError>> {
        self.current = None;
        match self.batches.recv().await {
            Some(Ok(Some((batch, claim)))) => {
                self.current = claim;
                Some(Ok(batch))
            }
            Some(Ok(None)) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(cut_short())),
        }
    }
}

/// A task that is cancelled when nobody waits for it any more.
#[derive(Debug)]
struct Running {
    task: AbortHandle,
    /// They are there as long as it runs.
    _threads: Option<Arc<Threads>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

enum Head {
    Rows { schema: SchemaRef, planning: Duration, progress: QueryProgress },
    Done { tag: String, rows: Option<u64> },
}

/// Runs the one statement of a text in a session of its own.
///
/// # Errors
/// Where it is not one statement, where it would change nothing but that session, and as [`Conversation::run`].
pub(crate) async fn run(
    shared: &Arc<Shared>,
    access: &Access,
    sql: &str,
    parameters: &Parameters,
) -> Result<Answer, QueryError> {
    let (text, statement) = one(shared.database.parse_with_texts(sql)?)?;
    if statement.is_of_its_session() {
        let what = format!("{} changes a session, and each request has one of its own", statement.kind());
        return Err(QueryError::request(what));
    }
    if statement.kind() == "SUBSCRIBE" {
        let error = QueryError::request("the rows of SUBSCRIBE do not end, and an answer does");
        return Err(error.hint("open a WebSocket on /subscribe, or use the PostgreSQL or the Flight port"));
    }
    let mut statement = [statement];
    parameters.bind(&mut statement)?;
    let [statement] = statement;
    let timeout = shared.settings.time("statement_timeout");
    Conversation::new(shared, access).run(shared, text, statement, timeout).await
}

/// The only statement of a text.
///
/// # Errors
/// Where there are none or several.
pub(crate) fn one(mut statements: Vec<(Arc<str>, Statement)>) -> Result<(Arc<str>, Statement), QueryError> {
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => {
            Err(QueryError::request("the text must hold exactly one statement").state(SqlState::SyntaxError))
        }
    }
}

/// A session that outlives its statements: a connection's.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    access: Access,
    session: Arc<Mutex<Session>>,
    /// How long rows wait for a client to take them.
    patience: Option<Duration>,
}

impl Conversation {
    pub(crate) fn new(shared: &Shared, access: &Access) -> Self {
        let patience = shared.settings.time("send_timeout");
        let mut session = access.session();
        if let Some(user) = access.user() {
            // What tools ask of PostgreSQL's catalog is answered as the user sees it.
            let client = Arc::new(Client::new(user, "tickstone", 0, access.clone()));
            session.set_system(Arc::new(shared.catalog.of_client(&client)));
        }
        Self { access: access.clone(), session: Arc::new(Mutex::new(session)), patience }
    }

    /// One whose clients read the rows of a statement when they like: its connection looks after them.
    pub(crate) fn of_connection(shared: &Shared, access: &Access) -> Self {
        Self { patience: None, ..Self::new(shared, access) }
    }

    /// Carries out a statement whose placeholders have values; its rows are read after it has returned, also beside those
    /// of other statements of the session.
    ///
    /// # Errors
    /// Where it names a file that is not allowed, takes longer than `timeout`, or fails before its first row.
    pub(crate) async fn run(
        &self,
        shared: &Arc<Shared>,
        text: Arc<str>,
        statement: Statement,
        timeout: Option<Duration>,
    ) -> Result<Answer, QueryError> {
        shared.metrics.add(Counter::Statements, 1);
        // No log has a password.
        let text = if statement.has_secret() { format!("{} …", statement.kind()).into() } else { text };
        let (kind, only_reads) = (statement.kind(), statement.only_reads());
        let limits = self.access.limits()?;
        let ends = !matches!(kind, "SUBSCRIBE" | "REPLAY");
        let timeout = match limits.statement_timeout().filter(|_| ends) {
            Some(most) => Some(timeout.map_or(most, |timeout| timeout.min(most))),
            None => timeout,
        };
        // Rows that a statement changed are changed by the time that it gives them.
        let rows_max = limits.rows().filter(|_| ends && only_reads);
        let audited = match self.access.auditor(only_reads) {
            None => None,
            Some(auditor) => {
                auditor.check()?;
                Some(Audited {
                    access: self.access.clone(),
                    kind,
                    text: Arc::clone(&text),
                    begun: Instant::now(),
                    outcome: None,
                })
            }
        };
        let (tell, told) = oneshot::channel();
        let (send, batches) = mpsc::channel(BATCHES_WAITING);
        let (session, patience) = (Arc::clone(&self.session), self.patience);
        let threads = self.access.threads(&limits)?;
        let access = self.access.clone();
        let run =
            Run { shared: Arc::clone(shared), access, session, text, timeout, patience, rows_max, audited };
        let task = run.carry_out(statement, tell, send);
        let runtime = threads.as_ref().map_or(shared.database.runtime().handle(), |threads| threads.handle());
        let running = Running { task: runtime.spawn(task).abort_handle(), _threads: threads };
        let head = told.await.unwrap_or_else(|_| Err(cut_short()));
        match head {
            Ok(Head::Rows { schema, planning, progress }) => {
                let (current, running) = (None, Some(running));
                Ok(Answer::Rows(Rows { schema, planning, progress, batches, current, _running: running }))
            }
            Ok(Head::Done { tag, rows }) => Ok(Answer::Done { tag, rows }),
            Err(error) => {
                shared.metrics.add(Counter::StatementsFailed, 1);
                Err(error)
            }
        }
    }

    /// What a statement takes and gives; `given` are the types of placeholders that the client said.
    ///
    /// # Errors
    /// As [`Session::describe`].
    pub(crate) async fn describe(
        &self,
        shared: &Arc<Shared>,
        statement: Statement,
        given: Vec<Option<DataType>>,
    ) -> Result<Description, QueryError> {
        let session = Arc::clone(&self.session);
        let task = async move { session.lock().await.describe(&statement, &given).await };
        shared.database.runtime().spawn(task).await.unwrap_or_else(|_| Err(cut_short()))
    }

    /// Calls something short of the session.
    pub(crate) async fn with<T>(&self, call: impl FnOnce(&mut Session) -> T) -> T {
        call(&mut *self.session.lock().await)
    }

    /// Calls something of the session that waits for the disk, on a thread for such.
    ///
    /// # Errors
    /// Those of the call.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        shared: &Shared,
        call: impl FnOnce(&mut Session) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let session = Arc::clone(&self.session);
        let task = shared.database.runtime().spawn_blocking(move || call(&mut session.blocking_lock()));
        task.await.unwrap_or_else(|_| Err(cut_short()))
    }
}

fn cut_short() -> QueryError {
    QueryError::new(ErrorKind::Report, "the statement was cut short")
}

/// Whoever waits to be told what a statement gives, until that is known.
type Tell = Option<oneshot::Sender<Result<Head, QueryError>>>;

fn told(tell: &mut Tell, head: Result<Head, QueryError>) -> bool {
    tell.take().is_some_and(|tell| tell.send(head).is_ok())
}

/// A statement on its way.
struct Run {
    shared: Arc<Shared>,
    access: Access,
    session: Arc<Mutex<Session>>,
    text: Arc<str>,
    timeout: Option<Duration>,
    patience: Option<Duration>,
    /// Most rows that it may give.
    rows_max: Option<u64>,
    audited: Option<Audited>,
}

/// A statement that the audit log is told of when it ends, however it does.
struct Audited {
    access: Access,
    kind: &'static str,
    text: Arc<str>,
    begun: Instant,
    /// How many rows it gave or changed, and its error; `None` until it has ended by itself.
    outcome: Option<(u64, Option<QueryError>)>,
}

impl Drop for Audited {
    fn drop(&mut self) {
        let (rows, error) = self.outcome.take().unwrap_or_else(|| {
            let gone = QueryError::request("whoever asked is gone").state(SqlState::Cancelled);
            (0, Some(gone))
        });
        self.access.tell(self.kind, Arc::clone(&self.text), rows, self.begun.elapsed(), error.as_ref());
    }
}

/// What a statement came to: the rows that were sent, and those that are told of.
#[derive(Default)]
struct Ended {
    sent: u64,
    changed: Option<u64>,
    /// What it was, where it was carried out, and how long that waits to be told.
    done: Option<(String, Duration)>,
    error: Option<QueryError>,
}

impl Ended {
    fn failed(sent: u64, error: &QueryError) -> Self {
        Self { sent, error: Some(error.clone()), ..Self::default() }
    }
}

impl Run {
    async fn carry_out(
        mut self,
        statement: Statement,
        tell: oneshot::Sender<Result<Head, QueryError>>,
        send: mpsc::Sender<Piece>,
    ) {
        let begun = Instant::now();
        let mut tell = Some(tell);
        let run = self.told_and_sent(statement, &mut tell, &send);
        let ended = match self.timeout {
            None => run.await,
            Some(limit) => match tokio::time::timeout(limit, run).await {
                Ok(ended) => ended,
                Err(_) => {
                    let what = format!("the statement took longer than statement_timeout, {limit:?}");
                    let late = QueryError::new(ErrorKind::FixRequest, what).state(SqlState::Cancelled);
                    let late = late.hint("raise it, or ask for less");
                    let ended = Ended::failed(0, &late);
                    if tell.is_some() {
                        told(&mut tell, Err(late));
                    } else {
                        let _ = send.send(Err(late)).await;
                    }
                    ended
                }
            },
        };
        // It was carried out: no timeout says otherwise while its rows wait.
        if let Some((tag, wait)) = ended.done {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            told(&mut tell, Ok(Head::Done { tag, rows: ended.changed }));
        }
        let rows = ended.sent;
        if let Some(audited) = &mut self.audited {
            audited.outcome = Some((ended.changed.unwrap_or(rows), ended.error));
        }
        let (took, metrics) = (begun.elapsed(), &self.shared.metrics);
        metrics.add(Counter::StatementRows, rows);
        metrics.add(Counter::StatementMicroseconds, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if self.shared.settings.time("slow_statement").is_some_and(|slow| took > slow) {
            warn!(?took, rows, sql = &*self.text, "slow statement");
        }
    }

    /// Runs the statement; tells what it gives once its first rows are there, so that an error before them is its answer;
    /// then sends its rows, and how many these were.
    async fn told_and_sent(
        &self,
        statement: Statement,
        tell: &mut Tell,
        send: &mpsc::Sender<Piece>,
    ) -> Ended {
        let is_ingest =
            matches!(statement, Statement::Insert(_) | Statement::Merge(_) | Statement::CreateTable(_));
        let (outcome, waiting) = {
            let mut session = self.session.lock().await;
            let waiting = session.waiting_rows();
            (session.run_text(statement, Some(Arc::clone(&self.text))).await, waiting)
        };
        let (schema, mut stream, planning, progress) = match outcome {
            Ok(Outcome::Rows { schema, stream, planning, progress }) => (schema, stream, planning, progress),
            Ok(Outcome::Done { tag, rows }) => {
                let wait = rows.filter(|_| is_ingest).and_then(|rows| self.access.wait_for(rows).ok());
                let wait = wait.unwrap_or_default();
                return Ended { changed: rows, done: Some((tag, wait)), ..Ended::default() };
            }
            Err(error) => {
                let ended = Ended::failed(0, &error);
                told(tell, Err(error));
                return ended;
            }
        };
        let mut next = stream.next().await;
        if let Some(Err(error)) = next {
            let error = QueryError::from(error);
            let ended = Ended::failed(0, &error);
            told(tell, Err(error));
            return ended;
        }
        let gone = |sent| {
            let gone = QueryError::request("whoever asked took no more rows").state(SqlState::Cancelled);
            Ended::failed(sent, &gone)
        };
        if !told(tell, Ok(Head::Rows { schema, planning, progress: progress.clone() })) {
            return gone(0);
        }
        let room = Arc::new(Semaphore::new(WAITING_BYTES));
        let mut rows = 0;
        while let Some(batch) = next {
            let held = batch.map_err(QueryError::from).and_then(|batch| {
                self.check_rows(rows + batch.num_rows() as u64)?;
                Ok((waiting.hold(&batch)?, batch))
            });
            match held {
                Ok((memory, batch)) => {
                    rows += batch.num_rows() as u64;
                    if !self.taken(batch, memory, &room, send).await {
                        return gone(rows);
                    }
                }
                Err(error) => {
                    self.shared.metrics.add(Counter::StatementsFailed, 1);
                    warn!(sql = &*self.text, rows, "a statement failed after its first rows: {error}");
                    let ended = Ended::failed(rows, &error);
                    let _ = send.send(Err(error)).await;
                    return ended;
                }
            }
            next = stream.next().await;
        }
        progress.warnings().iter().for_each(|warning| warn!(sql = &*self.text, "{warning}"));
        let _ = send.send(Ok(None)).await;
        Ended { sent: rows, ..Ended::default() }
    }

    /// # Errors
    /// Where there are more than the user may have.
    fn check_rows(&self, rows: u64) -> Result<(), QueryError> {
        match self.rows_max.filter(|most| rows > *most) {
            None => Ok(()),
            Some(most) => {
                let what = format!("the statement gives more than max_rows, {most}, of its user");
                Err(QueryError::request(what).hint("ask for less: LIMIT, a shorter time, SAMPLE BY"))
            }
        }
    }

    /// Hands rows over, and waits until there is room for more; whether there is anybody who takes them.
    async fn taken(
        &self,
        batch: RecordBatch,
        memory: HeldRows,
        room: &Arc<Semaphore>,
        send: &mpsc::Sender<Piece>,
    ) -> bool {
        // More bytes may take more time.
        let windows = u32::try_from(1 + memory.bytes() / WAITING_BYTES).unwrap_or(u32::MAX);
        let sent = async {
            let bytes = u32::try_from(memory.bytes().clamp(1, WAITING_BYTES)).unwrap_or(u32::MAX);
            let Ok(claimed) = Arc::clone(room).acquire_many_owned(bytes).await else { return false };
            let claim = Claim { _memory: memory, _room: claimed };
            if send.send(Ok(Some((batch, Some(claim))))).await.is_err() {
                return false;
            }
            tokio::select! {
                free = room.acquire() => free.is_ok(),
                () = send.closed() => false,
            }
        };
        let Some(patience) = self.patience.map(|patience| patience.saturating_mul(windows)) else {
            return sent.await;
        };
        match tokio::time::timeout(patience, sent).await {
            Ok(sent) => sent,
            Err(_) => {
                self.shared.metrics.add(Counter::StatementsFailed, 1);
                warn!(
                    sql = &*self.text,
                    ?patience,
                    "a statement ended: its client took no rows for send_timeout"
                );
                false
            }
        }
    }
}
