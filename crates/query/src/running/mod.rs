//! [`RunningStatements`]: what the sessions of a database run now, for SHOW QUERIES and CANCEL QUERY.
//!
//! A statement enters when it begins and leaves when it is done, or when its rows are read to the end, dropped, or
//! have failed. Each has a number that no other had since the database was opened.
//!
//! Flow of a cancellation: the statement's [`Wanted`] is told and whoever waits for rows is woken; the stream of the
//! rows ([`Watched`]) sees it when it is next polled, drops what makes the rows, and ends with an error. Loops below
//! ask [`crate::wanted::look`]. A [`CancelToken`] does the same from outside. Rows that are dropped, by Ctrl-C for one,
//! end the statement in the same way. A statement that has changed what it changes is no longer cancelled.
//!
//! A panic below the stream ends the statement with an error of the kind "report".

mod memory;
mod progress;
mod texts;
mod token;
mod waiting;

pub(crate) use memory::SessionMemory;
pub use progress::QueryProgress;
pub(crate) use texts::{PARSED, claim_text, parse_with_texts};
pub use token::CancelToken;
pub use waiting::{HeldRows, WaitingRows};

use crate::access::Who;
use crate::audit::Origin;
use crate::dialect::Statement;
use crate::error::{ErrorKind, QueryError, Result, SqlState};
use crate::stack::on_enough_stack;
use crate::wanted::{self, Wanted};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as StreamResult;
use datafusion::error::DataFusionError;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The statements under way, of all sessions of a database.
#[derive(Debug)]
pub(crate) struct RunningStatements {
    /// When the database was opened.
    opened: Instant,
    running: Mutex<Vec<Arc<Running>>>,
    /// The number of the last statement.
    last: AtomicU64,
    counts: Counts,
    /// Bytes of rows that wait for their readers ([`WaitingRows`]).
    waiting_bytes: AtomicUsize,
}

/// How many statements there were.
#[derive(Debug, Default)]
struct Counts {
    failed: AtomicU64,
    cancelled: AtomicU64,
}

/// What became of the statements since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatementCounts {
    /// Statements begun.
    pub(crate) begun: u64,
    /// Of these, those that ended with an error of their own.
    pub(crate) failed: u64,
    /// Of these, those that CANCEL QUERY, a client or `statement_timeout` ended.
    pub(crate) cancelled: u64,
    /// Those that are under way.
    pub(crate) running: u64,
}

impl Default for RunningStatements {
    fn default() -> Self {
        let (running, last, counts) = (Mutex::default(), AtomicU64::new(0), Counts::default());
        Self { opened: Instant::now(), running, last, counts, waiting_bytes: AtomicUsize::new(0) }
    }
}

impl RunningStatements {
    /// Notes that a statement begins, until the guard goes; `None` for those that are done at once.
    pub(crate) fn enter(
        self: &Arc<Self>,
        statement: &Statement,
        text: Option<Arc<str>>,
        memory: &Arc<SessionMemory>,
    ) -> Option<Entered> {
        if statement.is_instant() {
            return None;
        }
        Some(self.add(statement.kind(), statement.reads_rows(), text, memory))
    }

    /// Notes that the query that a text is begins.
    pub(crate) fn enter_query(self: &Arc<Self>, text: Arc<str>, memory: &Arc<SessionMemory>) -> Entered {
        self.add("SELECT", true, Some(text), memory)
    }

    fn add(
        self: &Arc<Self>,
        kind: &'static str,
        can_be_cancelled: bool,
        text: Option<Arc<str>>,
        memory: &Arc<SessionMemory>,
    ) -> Entered {
        // Relaxed: the counter guards nothing but itself.
        let id = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        let one = Arc::new(Running {
            id,
            wanted: Arc::new(Wanted::new(text.clone(), Arc::clone(memory) as _)),
            kind,
            text,
            can_be_cancelled,
            begun_ns: AtomicU64::new(self.now_ns()),
            state: AtomicU8::new(State::Planning as u8),
            rows: AtomicU64::new(0),
            progress: OnceLock::new(),
            memory: Arc::clone(memory),
            reader: AtomicWaker::new(),
        });
        self.lock().push(Arc::clone(&one));
        Entered { all: Arc::clone(self), one }
    }

    /// The statements under way, in the order they began; those whose rows nobody has asked for yet are left out.
    pub(crate) fn list(&self) -> Vec<Arc<Running>> {
        let mut running = self.lock().clone();
        running.retain(|one| one.state() != State::Ready);
        running.sort_unstable_by_key(|one| one.id);
        running
    }

    /// Cancels a statement; `of` is the one user whose it must be, where they may not cancel others'.
    ///
    /// # Errors
    /// Where there is none of the number, or it cannot be cancelled.
    pub(crate) fn cancel(&self, id: u64, of: Option<u32>) -> Result<()> {
        let is_it = |one: &&Arc<Running>| one.id == id && of.is_none_or(|of| one.is_of(of));
        let found = self.lock().iter().find(is_it).map(Arc::clone);
        let Some(found) = found else {
            let message = match id > self.last.load(Ordering::Relaxed) || id == 0 {
                true => format!("there was no query {id} yet"),
                false => format!("query {id} has ended"),
            };
            return Err(QueryError::request(message).hint("SHOW QUERIES lists what runs"));
        };
        if !found.can_be_cancelled {
            let message = format!("query {id} cannot be cancelled: it is {}", found.kind);
            return Err(QueryError::request(message).hint("it ends by itself, with all it does or nothing"));
        }
        let why = QueryError::new(ErrorKind::Retry, format!("cancelled by CANCEL QUERY {id}"));
        found.cancel(why.state(SqlState::Cancelled));
        Ok(())
    }

    /// How many statements there were, and are.
    pub(crate) fn counts(&self) -> StatementCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatementCounts {
            begun: read(&self.last),
            failed: read(&self.counts.failed),
            cancelled: read(&self.counts.cancelled),
            running: self.list().len() as u64,
        }
    }

    /// How long the database has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.opened.elapsed()
    }

    fn waiting_bytes(&self) -> &AtomicUsize {
        &self.waiting_bytes
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, one: &Arc<Running>) {
        let mut running = self.lock();
        if let Some(at) = running.iter().position(|other| Arc::ptr_eq(other, one)) {
            running.swap_remove(at);
        }
    }
}

/// What a statement is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// It is planned, or it is one without rows and is carried out.
    Planning,
    /// It is planned, and nobody has asked for its rows yet.
    Ready,
    /// Its rows are made.
    Running,
    /// It made rows that its reader has not come back for.
    Waiting,
}

impl State {
    /// What SHOW QUERIES calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Planning => "planning",
            State::Ready => "ready",
            State::Running => "running",
            State::Waiting => "waiting",
        }
    }
}

/// One statement under way.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its number.
    pub(crate) id: u64,
    kind: &'static str,
    text: Option<Arc<str>>,
    can_be_cancelled: bool,
    /// When it began, in ns since the database was opened; of a query that waited for its reader, when that came.
    begun_ns: AtomicU64,
    state: AtomicU8,
    rows: AtomicU64,
    progress: OnceLock<QueryProgress>,
    memory: Arc<SessionMemory>,
    /// What code below it asks.
    wanted: Arc<Wanted>,
    /// Who waits for its rows.
    reader: AtomicWaker,
}

impl Running {
    /// Its text; of one that came without, its kind, such as "INSERT".
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(self.kind)
    }

    /// What it is at.
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Relaxed) {
            0 => State::Planning,
            1 => State::Ready,
            2 => State::Running,
            _ => State::Waiting,
        }
    }

    fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// How long ago it began.
    pub(crate) fn elapsed(&self, all: &RunningStatements) -> Duration {
        Duration::from_nanos(all.now_ns().saturating_sub(self.begun_ns.load(Ordering::Relaxed)))
    }

    /// Rows it has given so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// How far it is in what it reads.
    pub(crate) fn progress(&self) -> QueryProgress {
        self.progress.get().cloned().unwrap_or_default()
    }

    /// Bytes that the statements of its session have reserved.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.reserved_bytes()
    }

    /// Whether it is wanted.
    pub(crate) fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    /// Its user, where they said who they are.
    pub(crate) fn who(&self) -> Option<&Who> {
        self.memory.who()
    }

    /// Whether it is this user's.
    pub(crate) fn is_of(&self, user: u32) -> bool {
        self.who().is_some_and(|who| who.user == user)
    }

    /// Where it came from.
    pub(crate) fn origin(&self) -> Origin {
        self.memory.origin()
    }

    fn cancel(&self, why: QueryError) {
        self.wanted.cancel(why);
        self.reader.wake();
    }

    fn is_cancelled(&self) -> bool {
        self.wanted.is_cancelled()
    }

    /// Rows that end with an error when the statement is cancelled, for a statement that reads them itself.
    pub(crate) fn heeded(
        self: &Arc<Self>,
        rows: SendableRecordBatchStream,
        progress: QueryProgress,
    ) -> SendableRecordBatchStream {
        // A statement has one plan that it reads rows of.
        let _ = self.progress.set(progress);
        self.set_state(State::Running);
        Box::pin(Watched { schema: rows.schema(), rows: Some(rows), one: Arc::clone(self), entered: None })
    }
}

/// A statement that has begun; it leaves when this goes.
#[derive(Debug)]
pub(crate) struct Entered {
    all: Arc<RunningStatements>,
    one: Arc<Running>,
}

impl Entered {
    pub(crate) fn one(&self) -> &Arc<Running> {
        &self.one
    }

    /// Counts that it ended with an error.
    pub(crate) fn failed(&self) {
        let counts = &self.all.counts;
        let counter = if self.one.is_cancelled() { &counts.cancelled } else { &counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Its rows, with which it stays under way.
    pub(crate) fn watch(
        self,
        rows: SendableRecordBatchStream,
        progress: &QueryProgress,
    ) -> SendableRecordBatchStream {
        let _ = self.one.progress.set(progress.clone());
        self.one.set_state(State::Ready);
        let one = Arc::clone(&self.one);
        Box::pin(Watched { schema: rows.schema(), rows: Some(rows), one, entered: Some(self) })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.one.wanted.leave();
        self.all.leave(&self.one);
    }
}

/// The rows of a statement.
struct Watched {
    schema: SchemaRef,
    /// `None` once they have ended, failed or been cancelled.
    rows: Option<SendableRecordBatchStream>,
    one: Arc<Running>,
    /// `None` where the statement goes on after its rows have ended.
    entered: Option<Entered>,
}

impl Watched {
    fn begin(&self) {
        if let (State::Ready, Some(entered)) = (self.one.state(), &self.entered) {
            self.one.begun_ns.store(entered.all.now_ns(), Ordering::Relaxed);
        }
        self.one.set_state(State::Running);
    }

    fn end(&mut self, error: bool) {
        let rows = self.rows.take();
        let entered = self.entered.take();
        // What still works for the statement sees that it is over before it is waited for.
        if entered.is_some() || error {
            self.one.wanted.leave();
        }
        // A defect in the end of a statement that has its rows is of no concern to its reader.
        let _ = wanted::caught(Some(&self.one.wanted), || drop(rows));
        if let Some(entered) = entered.filter(|_| error) {
            entered.failed();
        }
    }

    fn failed(&mut self, error: QueryError) -> Poll<Option<StreamResult<RecordBatch>>> {
        self.end(true);
        Poll::Ready(Some(Err(DataFusionError::External(Box::new(error)))))
    }

    fn cancelled(&mut self) -> Poll<Option<StreamResult<RecordBatch>>> {
        let error = self.one.wanted.ended();
        self.failed(error)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.rows.is_some() {
            self.end(false);
        }
    }
}

impl Stream for Watched {
    type Item = StreamResult<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.begin();
        let Some(rows) = this.rows.as_mut() else { return Poll::Ready(None) };
        if this.one.is_cancelled() {
            return this.cancelled();
        }
        let polled = || wanted::caught(Some(&this.one.wanted), || rows.poll_next_unpin(context));
        let next = match on_enough_stack(polled) {
            Ok(next) => next,
            Err(defect) => return this.failed(defect),
        };
        match &next {
            Poll::Pending => {
                this.one.reader.register(context.waker());
                // It may have been cancelled before there was anybody to wake.
                if this.one.is_cancelled() {
                    return this.cancelled();
                }
            }
            Poll::Ready(Some(Ok(batch))) => {
                this.one.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                // A statement that reads its rows itself is at work on them.
                if this.entered.is_some() {
                    this.one.set_state(State::Waiting);
                }
            }
            // An operator that saw it first says so in an error of its own.
            Poll::Ready(Some(Err(_))) if this.one.is_cancelled() => return this.cancelled(),
            Poll::Ready(Some(Err(_))) => match this.one.wanted.defect() {
                Some(defect) => return this.failed(defect),
                // Where nobody waits for it any more, that is no failure of its own.
                None => {
                    let own = !this.one.wanted.is_over();
                    this.end(own);
                }
            },
            Poll::Ready(None) => this.end(false),
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.as_ref().map_or((0, Some(0)), |rows| rows.size_hint())
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests;
