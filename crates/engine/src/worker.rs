//! A thread that works when it is asked to, and the state it shares with those who ask.

use crate::lock::lock;
use crate::{EngineError, Result};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long after work that failed it is tried again unasked.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Whether work is wanted, what became of the last, and the thread that does it; without a thread, who asks works
/// himself and says how it ended.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    state: Mutex<State>,
    /// Signalled when work is asked for, and at the end.
    requested: Condvar,
    /// Signalled when some work has ended.
    ended: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    stopping: bool,
    /// Why the last work failed; cleared by one that does not.
    failure: Option<String>,
}

impl Worker {
    /// Starts the thread: `run` calls [`Self::next`] until it is over.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(run);
        *lock(&self.thread) = Some(thread.map_err(EngineError::io("start the thread of", name))?);
        Ok(())
    }

    /// Waits for a request, or until `patience` ends; `false` at the end.
    pub(crate) fn next(&self, patience: Option<Duration>) -> bool {
        let mut state = lock(&self.state);
        while !state.wanted && !state.stopping {
            // What failed for want of space goes on once there is some, also where nobody asks.
            let retry = state.failure.is_some().then_some(RETRY_INTERVAL);
            let Some(patience) = patience.into_iter().chain(retry).min() else {
                state = self.requested.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.requested.wait_timeout(state, patience);
            let (woken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() {
                break;
            }
        }
        state.wanted = false;
        !state.stopping
    }

    /// Asks for work.
    pub(crate) fn request(&self) {
        lock(&self.state).wanted = true;
        self.requested.notify_one();
    }

    /// Asks for work and waits until some has ended.
    ///
    /// # Errors
    /// Why the last failed.
    pub(crate) fn request_and_wait(&self) -> std::result::Result<(), String> {
        let mut state = lock(&self.state);
        state.wanted = true;
        self.requested.notify_one();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        drop(self.ended.wait(state).unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Notes how some work ended.
    pub(crate) fn finish(&self, outcome: Result<()>) {
        lock(&self.state).failure = outcome.err().map(|error| error.to_string());
        self.ended.notify_all();
    }

    /// Why the last work failed, `None` where it did not.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.state).failure.clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        lock(&self.state).stopping
    }

    /// Waits, unless it is to stop.
    pub(crate) fn rest(&self, pause: Duration) {
        let state = lock(&self.state);
        drop(self.requested.wait_timeout_while(state, pause, |state| !state.stopping));
    }

    /// Ends the thread, when what it is at has ended.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.requested.notify_all();
        let thread = lock(&self.thread).take();
        // The thread itself may be the one that drops the engine: it ends right after.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }
}
