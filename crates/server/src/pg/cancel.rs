//! Cancelling: a client opens a second connection that names the first by its number and key.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The connections that can be cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    next: AtomicI32,
    known: Mutex<HashMap<i32, (i32, Arc<Cancel>)>>,
}

/// Whether the statement of a connection was cancelled.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    cancelled: AtomicBool,
    notify: Notify,
}

impl Cancel {
    /// Begins a statement: what came before it is not meant.
    pub(super) fn begin(&self) {
        self.cancelled.store(false, Ordering::SeqCst);
    }

    /// Returns once the statement is cancelled.
    pub(super) async fn wait(&self) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.cancelled.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }
}

/// A connection that can be cancelled, until it goes.
#[derive(Debug)]
pub(super) struct Registered {
    cancels: Arc<Cancels>,
    pub(super) number: i32,
    pub(super) key: i32,
    pub(super) cancel: Arc<Cancel>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancels.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Cancels {
    /// Gives a connection a number and a key that nobody guesses.
    pub(super) fn register(self: &Arc<Self>) -> Registered {
        let number = self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_i32(number);
        let bytes = hasher.finish().to_le_bytes();
        let key = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let cancel = Arc::new(Cancel::default());
        let entry = (key, Arc::clone(&cancel));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(number, entry);
        Registered { cancels: Arc::clone(self), number, key, cancel }
    }

    /// Cancels what a connection runs, where the key is its own.
    pub(super) fn cancel(&self, number: i32, key: i32) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((own, cancel)) = known.get(&number)
            && *own == key
        {
            cancel.cancelled.store(true, Ordering::SeqCst);
            cancel.notify.notify_waiters();
        }
    }
}
