//! [`Wanted`]: whether anybody still wants what a statement does, for every loop below it, and the net that catches
//! its panics.
//!
//! A statement has one; it is the current one of a thread while the thread plans the statement, asks for its rows, or
//! polls a task that was spawned for it. Whatever may run for longer than some milliseconds asks [`look`] now and
//! then: the leaves of plans, operators that make many batches (`operators::give_way`), conditions of joins, functions
//! (`functions::growth`), claims of memory (`session::memory`), and rules of planning.
//!
//! ```text
//! CANCEL QUERY, a CancelToken, rows that are dropped -> Wanted -> look() in any thread of the statement -> an error
//! ```
//!
//! Tasks that DataFusion spawns inherit it by DataFusion's hook for tracing, which a process has once: a program that
//! sets its own before it opens a database keeps it, and its cancelled statements end when their tasks next yield.

use crate::error::{ErrorKind, QueryError, SqlState};
use datafusion::common::Result;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use futures::future::BoxFuture;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// What the user wrote, for the report of a defect.
    text: Option<Arc<str>>,
    over: Arc<AtomicBool>,
    /// Whether `ending` is [`Ending::Cancelled`].
    cancelled: AtomicBool,
    ending: Mutex<Ending>,
    /// What its functions claim of.
    memory: Option<Arc<dyn MemoryPool>>,
    /// What the first panic of the statement said.
    panic: Mutex<Option<String>>,
    /// What whoever reads its rows must know of them.
    warnings: Mutex<Vec<String>>,
}

/// Whether a statement can still end before it has done what it does.
#[derive(Debug, Default)]
enum Ending {
    #[default]
    Open,
    /// It ends with this.
    Cancelled(QueryError),
    /// It has changed what it changes.
    Settled,
}

/// How long a task works before it lets others have its thread: short beside what a person notices.
pub(crate) const TURN: Duration = Duration::from_millis(10);

/// One stretch of work for a statement on a thread.
#[derive(Debug)]
struct Turn {
    wanted: Arc<Wanted>,
    begun: Instant,
    /// Whether a batch was made in it: a turn that were over before that would never get anywhere.
    moved: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// An error where nobody wants the current statement any more.
///
/// # Errors
/// A [`QueryError`] of the kind "retry", which ends the statement.
#[inline]
pub(crate) fn look() -> Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(turn) if turn.wanted.is_over() => Err(DataFusionError::External(Box::new(turn.wanted.ended()))),
        _ => Ok(()),
    })
}

/// As [`look`], before each batch that a leaf or an operator of many batches makes: pending where the task has worked
/// for a turn, so that a thread that waits for rows can look for signals and other statements get on.
///
/// # Errors
/// As [`look`].
#[inline]
pub(crate) fn give_way(context: &Context<'_>) -> Poll<Result<()>> {
    CURRENT.with_borrow_mut(|current| {
        let Some(turn) = current else { return Poll::Ready(Ok(())) };
        if turn.wanted.is_over() {
            return Poll::Ready(Err(DataFusionError::External(Box::new(turn.wanted.ended()))));
        }
        if turn.moved && turn.begun.elapsed() >= TURN {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        turn.moved = true;
        Poll::Ready(Ok(()))
    })
}

/// When this thread began to work for its statement, for the turn at hand.
pub(crate) fn turn() -> Option<Instant> {
    CURRENT.with_borrow(|current| current.as_ref().map(|turn| turn.begun))
}

/// That of the statement this thread works for.
pub(crate) fn current() -> Option<Arc<Wanted>> {
    CURRENT.with_borrow(|current| current.as_ref().map(|turn| Arc::clone(&turn.wanted)))
}

/// Tells whoever reads the rows of the current statement what they lack; the same once.
pub(crate) fn warn(what: String) {
    let Some(wanted) = current() else { return };
    let mut warnings = wanted.warnings.lock().unwrap_or_else(PoisonError::into_inner);
    if !warnings.contains(&what) {
        warnings.push(what);
    }
}

impl Wanted {
    pub(crate) fn new(text: Option<Arc<str>>, memory: Arc<dyn MemoryPool>) -> Self {
        Self { text, memory: Some(memory), ..Self::default() }
    }

    /// What its functions claim memory of.
    pub(crate) fn memory(&self) -> Option<Arc<dyn MemoryPool>> {
        self.memory.clone()
    }

    /// A flag that is set when it is over, for code that asks for one.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    /// Ends it with an error, unless it has changed what it changes. The first reason holds.
    pub(crate) fn cancel(&self, why: QueryError) {
        let mut ending = self.ending();
        if matches!(*ending, Ending::Open) {
            *ending = Ending::Cancelled(why);
            self.cancelled.store(true, Ordering::SeqCst);
            self.leave();
        }
    }

    /// Says that it has changed what it changes: whoever cancels it comes too late, also who did it already.
    pub(crate) fn settle(&self) {
        let mut ending = self.ending();
        *ending = Ending::Settled;
        self.cancelled.store(false, Ordering::SeqCst);
        self.over.store(false, Ordering::SeqCst);
    }

    /// Says that nobody waits for it any more.
    pub(crate) fn leave(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// What it ends with where it is over.
    pub(crate) fn ended(&self) -> QueryError {
        match &*self.ending() {
            Ending::Cancelled(why) => why.clone(),
            _ => {
                let message = "nobody waits for the rows of this statement any more";
                QueryError::new(ErrorKind::Retry, message).state(SqlState::Cancelled)
            }
        }
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a statement of which something panicked, in any of its threads.
    pub(crate) fn defect(&self) -> Option<QueryError> {
        let said = self.panic.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(QueryError::of_defect(&said, self.text.as_deref()))
    }

    /// What it warned of so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| QueryError::said(panic));
    }

    /// Makes it the current one of this thread until the guard goes.
    fn enter(self: &Arc<Self>) -> Inside {
        let turn = Turn { wanted: Arc::clone(self), begun: Instant::now(), moved: false };
        Inside { before: CURRENT.replace(Some(turn)) }
    }
}

/// Puts back what was current before.
struct Inside {
    before: Option<Turn>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// Does some work for a statement. A panic in it, or in a task it waited for, becomes the error it returns.
///
/// # Errors
/// That of the panic, of the kind "report".
pub(crate) fn caught<T>(
    wanted: Option<&Arc<Wanted>>,
    work: impl FnOnce() -> T,
) -> std::result::Result<T, QueryError> {
    let _inside = wanted.map(Wanted::enter);
    // What the work leaves half done is the statement's own, and goes with it.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let defect = wanted.and_then(|wanted| {
            wanted.panicked(panic.as_ref());
            wanted.defect()
        });
        defect.unwrap_or_else(|| QueryError::of_panic(panic.as_ref()))
    })
}

/// A future that works for a statement wherever it is polled; a panic in it becomes an error.
pub(crate) struct Within<F> {
    wanted: Option<Arc<Wanted>>,
    /// `None` once it is done or has panicked.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Within<F> {
    pub(crate) fn new(wanted: Option<Arc<Wanted>>, future: F) -> Self {
        Self { wanted, future: Some(Box::pin(future)) }
    }
}

impl<F: Future> Future for Within<F> {
    type Output = std::result::Result<F::Output, QueryError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(future) = this.future.as_mut() else { return Poll::Pending };
        let polled = caught(this.wanted.as_ref(), || future.as_mut().poll(context));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        let future = this.future.take();
        let dropped = caught(this.wanted.as_ref(), || drop(future));
        match polled {
            Ok(Poll::Ready(done)) => Poll::Ready(dropped.map(|()| done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Lets the tasks that DataFusion spawns work for the statement of the thread that spawns them.
pub(crate) fn follow_tasks() {
    static ONCE: Once = Once::new();
    // Where another has the hook, tasks end when they yield: see the file's header.
    ONCE.call_once(|| {
        let _ = set_join_set_tracer(&Follow);
    });
}

struct Follow;

impl JoinSetTracer for Follow {
    fn trace_future(
        &self,
        future: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(wanted) => Box::pin(Task { wanted, future }),
            None => future,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(wanted) => Box::new(move || noted(&wanted, work)),
            None => work,
        }
    }
}

/// A task of a statement. Its panic is noted, and goes on to whoever waits for it.
struct Task {
    wanted: Arc<Wanted>,
    future: BoxFuture<'static, Box<dyn Any + Send>>,
}

impl Future for Task {
    type Output = Box<dyn Any + Send>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wanted, future } = &mut *self;
        noted(wanted, || future.as_mut().poll(context))
    }
}

fn noted<T>(wanted: &Arc<Wanted>, work: impl FnOnce() -> T) -> T {
    let _inside = wanted.enter();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        wanted.panicked(panic.as_ref());
        resume_unwind(panic)
    })
}

#[cfg(test)]
mod tests;
