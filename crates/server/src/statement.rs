//! Statements of SQL: on the database's threads, their rows handed over as they are asked for.
//!
//! A [`Conversation`] is the session of a connection; a request that has none gets one for its statement ([`run`]).
//!
//! Invariants:
//! - a statement ends when whoever asked is gone: dropping what waits for its [`Answer`], or its rows, cancels it;
//! - a statement that changes the database is never dropped: one that is cancelled or late ends by itself before it has
//!   changed anything, or is done, and whoever waits is told which;
//! - rows that wait for their client count towards `query_memory`, and a statement makes no more while
//!   [`WAITING_BYTES`] of them wait, or one batch that is larger.

use crate::metrics::Counter;
use crate::pg::catalog::Client;
use crate::shared::Shared;
use futures::StreamExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::{DataType, SchemaRef};
use tickstone_query::dialect::Statement;
use tickstone_query::{
    Access, CancelToken, Description, ErrorKind, HeldRows, Outcome, Parameters, QueryError, QueryProgress,
    Session, SqlState, Threads,
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
    /// Whether they are of a statement that has changed the database: cancelling it comes too late.
    pub(crate) changed: bool,
    progress: QueryProgress,
    batches: mpsc::Receiver<Piece>,
    /// How many rows were taken so far.
    given: Arc<AtomicU64>,
    /// Of the batch that was handed out last, and is written out.
    current: Option<Claim>,
    audited: Option<Arc<Audited>>,
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
        let given = Arc::default();
        Self {
            schema,
            planning,
            changed: false,
            progress,
            batches,
            given,
            current: None,
            audited: None,
            _running: None,
        }
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
                self.given.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                self.current = claim;
                Some(Ok(batch))
            }
            Some(Ok(None)) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(cut_short())),
        }
    }

    /// Says that so many of the rows that were taken are given to nobody.
    pub(crate) fn keep_back(&self, rows: u64) {
        self.given.fetch_sub(rows, Ordering::Relaxed);
    }

    /// Says why its client may not have the rest of them, however many there are.
    pub(crate) fn refuse(&self, error: &QueryError) {
        if let Some(audited) = &self.audited {
            let _ = audited.refusal.set(error.clone());
        }
    }

    /// Says that its client has all the rows that it asked for: that there may be more is no failure.
    pub(crate) fn enough(&self) {
        if let Some(audited) = self.audited.as_ref().filter(|_| !self.changed) {
            let _ = audited.outcome.set((Ended::default(), audited.begun.elapsed()));
        }
    }
}

/// A task that is cancelled when nobody waits for it any more.
#[derive(Debug)]
struct Running {
    task: AbortHandle,
    /// Of a statement that changes the database, whose task goes on until it has ended.
    token: Option<CancelToken>,
}

impl Drop for Running {
    fn drop(&mut self) {
        match &self.token {
            Some(token) => token.cancel(gone()),
            None => self.task.abort(),
        }
    }
}

/// What a statement ends with that nobody waits for.
fn gone() -> QueryError {
    QueryError::request("whoever asked is gone").state(SqlState::Cancelled)
}

enum Head {
    Rows { schema: SchemaRef, planning: Duration, changed: bool, progress: QueryProgress },
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
    run_until(shared, access, sql, parameters, std::future::pending()).await
}

/// As [`run`], until its client cancels it.
///
/// # Errors
/// As [`run`], and as [`Conversation::run_until`].
pub(crate) async fn run_until(
    shared: &Arc<Shared>,
    access: &Access,
    sql: &str,
    parameters: &Parameters,
    cancelled: impl Future<Output = QueryError>,
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
    Conversation::new(shared, access).run_until(shared, text, statement, timeout, cancelled).await
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
        self.run_until(shared, text, statement, timeout, std::future::pending()).await
    }

    /// As [`Self::run`], until its client cancels it: `cancelled` gives the error that it then ends with. A statement that
    /// changes the database may be done all the same.
    ///
    /// # Errors
    /// As [`Self::run`], and that of `cancelled`.
    pub(crate) async fn run_until(
        &self,
        shared: &Arc<Shared>,
        text: Arc<str>,
        statement: Statement,
        timeout: Option<Duration>,
        cancelled: impl Future<Output = QueryError>,
    ) -> Result<Answer, QueryError> {
        shared.metrics.add(Counter::Statements, 1);
        // No log has a password.
        let text = statement.without_secret().map_or(text, Arc::from);
        let (kind, only_reads) = (statement.kind(), statement.only_reads());
        let limits = self.access.limits()?;
        let ends = !matches!(kind, "SUBSCRIBE" | "REPLAY");
        let timeout = timeout.into_iter().chain(limits.statement_timeout()).min().filter(|_| ends);
        // Rows that a statement changed are changed by the time that it gives them.
        let rows_max = limits.rows().filter(|_| ends && only_reads);
        let given = Arc::<AtomicU64>::default();
        let audited = match self.access.auditor() {
            None => None,
            Some(auditor) => {
                let is_wanted = auditor.wants(only_reads);
                if is_wanted {
                    auditor.check()?;
                }
                Some(Arc::new(Audited {
                    is_wanted,
                    access: self.access.clone(),
                    kind,
                    text: Arc::clone(&text),
                    begun: Instant::now(),
                    given: Arc::clone(&given),
                    outcome: OnceLock::new(),
                    refusal: OnceLock::new(),
                }))
            }
        };
        let (tell, mut told) = oneshot::channel();
        let (send, batches) = mpsc::channel(BATCHES_WAITING);
        let (session, patience) = (Arc::clone(&self.session), self.patience);
        let threads = self.access.threads(&limits)?;
        let runtime = threads.as_ref().map_or(shared.database.runtime().handle(), |threads| threads.handle());
        let runtime = runtime.clone();
        let token = (!only_reads).then(CancelToken::default);
        let run = Run {
            shared: Arc::clone(shared),
            access: self.access.clone(),
            session,
            text,
            ends,
            timeout,
            patience,
            rows_max,
            given: Arc::clone(&given),
            audited: audited.clone(),
            token: token.clone(),
            _threads: threads,
        };
        let task = runtime.spawn(run.carry_out(statement, tell, send)).abort_handle();
        let running = Running { task, token };
        let head = tokio::select! {
            biased;
            why = cancelled => match &running.token {
                None => Err(why),
                Some(token) => {
                    token.cancel(why);
                    told.await.unwrap_or_else(|_| Err(cut_short()))
                }
            },
            head = &mut told => head.unwrap_or_else(|_| Err(cut_short())),
        };
        match head {
            Ok(Head::Rows { schema, planning, changed, progress }) => Ok(Answer::Rows(Rows {
                schema,
                planning,
                changed,
                progress,
                batches,
                given,
                current: None,
                audited,
                _running: Some(running),
            })),
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

    /// Whose it is.
    pub(crate) fn access(&self) -> &Access {
        &self.access
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

/// What is told where rows were changed, and those of RETURNING cannot be sent.
fn unsent(error: &QueryError) -> QueryError {
    let what = format!("the statement was carried out, but its rows cannot be sent: {error}");
    QueryError::new(ErrorKind::Report, what).hint("do not repeat it; read the rows from the table")
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
    /// Whether it ends by itself, as all but subscriptions do.
    ends: bool,
    timeout: Option<Duration>,
    patience: Option<Duration>,
    /// Most rows that it may give.
    rows_max: Option<u64>,
    /// How many rows its client has taken so far.
    given: Arc<AtomicU64>,
    audited: Option<Arc<Audited>>,
    /// Of a statement that changes the database.
    token: Option<CancelToken>,
    /// They are there as long as it runs.
    _threads: Option<Arc<Threads>>,
}

/// A statement that the audit log is told of once it has ended, however it did, and its rows were taken or left.
#[derive(Debug)]
struct Audited {
    /// Whether it is kept whatever comes of it; else where it is refused for its user.
    is_wanted: bool,
    access: Access,
    kind: &'static str,
    text: Arc<str>,
    begun: Instant,
    /// How many rows its client has taken so far.
    given: Arc<AtomicU64>,
    /// Nothing until it has ended by itself.
    outcome: OnceLock<(Ended, Duration)>,
    /// Why its client may not have the rest of its rows.
    refusal: OnceLock<QueryError>,
}

impl Drop for Audited {
    fn drop(&mut self) {
        let left = || (Ended { error: Some(gone()), ..Ended::default() }, self.begun.elapsed());
        let (Ended { changed, error, .. }, took) = self.outcome.take().unwrap_or_else(left);
        let rows = changed.unwrap_or_else(|| self.given.load(Ordering::Relaxed));
        let error = self.refusal.take().or(error);
        // What a user may not see does not exist for them.
        let is_refusal = |error: &QueryError| {
            matches!(error.sql_state(), SqlState::Denied | SqlState::Unknown | SqlState::UndefinedTable)
        };
        if !self.is_wanted && !error.as_ref().is_some_and(is_refusal) {
            return;
        }
        self.access.tell(self.kind, Arc::clone(&self.text), rows, took, error.as_ref());
    }
}

/// What a statement came to: the rows that were sent, and those that are told of.
#[derive(Debug, Default)]
struct Ended {
    sent: u64,
    changed: Option<u64>,
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
        let ended = match self.timeout {
            None => self.told_and_sent(statement, &mut tell, &send).await,
            Some(limit) => self.within(limit, statement, &mut tell, &send).await,
        };
        let rows = ended.sent;
        let (took, metrics) = (begun.elapsed(), &self.shared.metrics);
        if let Some(audited) = self.audited.take() {
            let _ = audited.outcome.set((ended, took));
        }
        metrics.add(Counter::StatementRows, rows);
        metrics.add(Counter::StatementMicroseconds, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if self.ends && self.shared.settings.time("slow_statement").is_some_and(|slow| took > slow) {
            let user = self.access.user().unwrap_or_default();
            warn!(?took, rows, user, sql = &*self.text, "slow statement");
        }
    }

    /// As [`Self::told_and_sent`], for so long at most: what changes the database may be done all the same.
    async fn within(
        &self,
        limit: Duration,
        statement: Statement,
        tell: &mut Tell,
        send: &mpsc::Sender<Piece>,
    ) -> Ended {
        let late = {
            let mut run = Box::pin(self.told_and_sent(statement, tell, send));
            if let Ok(ended) = tokio::time::timeout(limit, &mut run).await {
                return ended;
            }
            let what = format!("the statement took longer than statement_timeout, {limit:?}");
            let late = QueryError::new(ErrorKind::FixRequest, what).state(SqlState::Cancelled);
            let late = late.hint("raise it, or ask for less");
            if let Some(token) = &self.token {
                token.cancel(late);
                return run.await;
            }
            late
        };
        let ended = Ended::failed(self.given.load(Ordering::Relaxed), &late);
        if tell.is_some() {
            told(tell, Err(late));
        } else {
            let _ = send.send(Err(late)).await;
        }
        ended
    }

    /// Runs the statement; tells what it gives once its first rows are there, so that an error before them is its answer;
    /// then sends its rows, and how many these were.
    async fn told_and_sent(
        &self,
        statement: Statement,
        tell: &mut Tell,
        send: &mpsc::Sender<Piece>,
    ) -> Ended {
        let (outcome, waiting, changes, adds) = {
            let mut session = self.session.lock().await;
            let (waiting, text) = (session.waiting_rows(), Some(Arc::clone(&self.text)));
            let executed = session.executed(&statement);
            let (changes, adds) = (!executed.only_reads(), executed.adds_rows());
            let turn = if adds { self.turn().await } else { Ok(()) };
            let outcome = match (turn, &self.token) {
                (Err(why), _) => Err(why),
                (Ok(()), Some(token)) => session.run_until(statement, text, token).await,
                (Ok(()), None) => session.run_text(statement, text).await,
            };
            (outcome, waiting, changes, adds)
        };
        let (schema, stream, planning, progress) = match outcome {
            Ok(Outcome::Rows { schema, stream, planning, progress }) => (schema, stream, planning, progress),
            Ok(Outcome::Done { tag, rows }) => {
                rows.filter(|_| adds).into_iter().for_each(|rows| self.access.charge(rows));
                told(tell, Ok(Head::Done { tag, rows }));
                return Ended { changed: rows, ..Ended::default() };
            }
            Err(error) => {
                let ended = Ended::failed(0, &error);
                told(tell, Err(error));
                return ended;
            }
        };
        let mut stream = stream.boxed();
        let mut next = stream.next().await;
        if let Some(Err(error)) = next {
            let error = QueryError::from(error);
            let ended = Ended::failed(0, &error);
            told(tell, Err(error));
            return ended;
        }
        // What RETURNING gives was changed before, all of it.
        let mut left = 0;
        if changes {
            let mut batches = next.into_iter().collect::<Vec<_>>();
            batches.extend(stream.collect::<Vec<_>>().await);
            left = batches.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
            stream = futures::stream::iter(batches).boxed();
            next = stream.next().await;
        }
        if adds {
            self.access.charge(left);
        }
        let gone = || {
            let sent = self.given.load(Ordering::Relaxed);
            let gone = QueryError::request("whoever asked took no more rows").state(SqlState::Cancelled);
            match changes {
                true => Ended { sent, changed: Some(left), ..Ended::default() },
                false => Ended::failed(sent, &gone),
            }
        };
        let head = Head::Rows { schema, planning, changed: changes, progress: progress.clone() };
        if !told(tell, Ok(head)) {
            return gone();
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
                        return gone();
                    }
                }
                Err(error) => {
                    let error = if changes { unsent(&error) } else { error };
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
        Ended { sent: rows, changed: changes.then_some(left), ..Ended::default() }
    }

    /// Waits until the user may add rows, or the statement is to end.
    ///
    /// # Errors
    /// Why it is to end, and as [`Access::turn`].
    async fn turn(&self) -> Result<(), QueryError> {
        let mut turn = Box::pin(self.access.turn(true));
        loop {
            if let Ok(turn) = tokio::time::timeout(Duration::from_millis(50), &mut turn).await {
                return turn;
            }
            if let Some(why) = self.token.as_ref().and_then(CancelToken::cancelled) {
                return Err(why.hint("its rows waited for their turn, by ingest_rows_per_second of its user"));
            }
        }
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
