//! The thread that keeps materialized views current, and what it has done.
//!
//! What it does is its starter's; here it is started once, asked to end when the last user of the database goes, and
//! what became of each view is noted for SHOW VIEWS. One refreshes at a time: whoever stores rows of a view says as of
//! when they are, and nobody else's older ones come after.

use crate::error::{ErrorKind, QueryError, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What was done for a view since the database was opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refreshed {
    /// Stretches of buckets whose rows were stored anew.
    pub(crate) stretches: u64,
    /// Rows stored.
    pub(crate) rows: u64,
    /// Time it took.
    pub(crate) took: Duration,
    /// Why the last one failed, if it did.
    pub(crate) failure: Option<String>,
}

/// What the thread shares with those who ask.
#[derive(Debug, Default)]
pub(crate) struct Refreshing {
    stopping: AtomicBool,
    wake: (Mutex<()>, Condvar),
    views: Mutex<HashMap<u32, Refreshed>>,
    /// Held by the one who refreshes.
    one: tokio::sync::Mutex<()>,
}

impl Refreshing {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits, but no longer than until it is to end.
    pub(crate) fn wait(&self, patience: Duration) {
        let held = self.wake.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = self.wake.1.wait_timeout_while(held, patience, |()| !self.is_stopping());
        drop(asleep);
    }

    /// The right to refresh.
    pub(crate) async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one.lock().await
    }

    fn views(&self) -> MutexGuard<'_, HashMap<u32, Refreshed>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done for the view of this number.
    pub(crate) fn of(&self, view: u32) -> Refreshed {
        self.views().get(&view).cloned().unwrap_or_default()
    }

    /// Notes what was done for a view.
    pub(crate) fn note(&self, view: u32, note: impl FnOnce(&mut Refreshed)) {
        note(self.views().entry(view).or_default());
    }

    /// Lets go of what was noted of views that are gone.
    pub(crate) fn forget(&self, is_there: impl Fn(u32) -> bool) {
        self.views().retain(|view, _| is_there(*view));
    }
}

/// See the module. Ends its thread when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Refresher {
    shared: Arc<Refreshing>,
    thread: Mutex<Option<JoinHandle<()>>>,
    started: AtomicBool,
}

impl Refresher {
    pub(crate) fn shared(&self) -> &Arc<Refreshing> {
        &self.shared
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Starts the thread, unless it was started.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(&self, run: impl FnOnce(Arc<Refreshing>) + Send + 'static) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new().name("views".to_string()).spawn(move || run(shared));
        let started = started.map_err(|error| {
            QueryError::new(ErrorKind::Report, format!("cannot start the thread of views: {error}"))
        })?;
        *thread = Some(started);
        self.started.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(self.shared.wake.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.1.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // In an async task the thread may wait for this very thread.
        if let Some(thread) = thread
            && tokio::runtime::Handle::try_current().is_err()
        {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }
}
