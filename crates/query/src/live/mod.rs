//! What is heard of tables as it happens: one thread hands the changes of the tape to those who subscribed.
//!
//! ```text
//! Follower (engine) ─► Hub, a thread ─► Mailbox of each who wants to hear it ─► his statement, at his own pace
//! ```
//!
//! Invariants:
//! - a mailbox gets every change of its table after the position at which it was registered, in order, and of those
//!   who name symbols only the rows of these;
//! - nobody waits for who is slow: a mailbox that is full keeps nothing any more, and its owner reads the tape from
//!   where he is.
//!
//! The thread is there while somebody listens. Enter at [`Hub::register`].

mod mailbox;
mod routes;

pub(crate) use mailbox::{Item, Mailbox, What};
pub(crate) use routes::day_began;

use crate::error::{ErrorKind, QueryError, Result};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use routes::Listeners;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tickstone_engine::{Engine, FollowFrom, Follower, Heard, SealedPartition};

/// How often the thread looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Names of the columns that every message has before those of its query.
pub(crate) const MESSAGE_COLUMNS: [&str; 3] = ["_position", "_event", "_detail"];

/// The columns of the messages of a subscription to a query of these columns: `_position`, from where to resume;
/// `_event`, what happened; `_detail` of events, as JSON; then the query's, NULL in messages without rows.
pub(crate) fn message_schema(columns: &Schema) -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
    let own = MESSAGE_COLUMNS.iter().map(|name| Arc::new(Field::new(*name, text.clone(), true)));
    let rest = columns.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    let fields: Vec<FieldRef> = own.chain(rest).collect();
    Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()))
}

/// See the module.
#[derive(Default)]
pub(crate) struct Hub {
    now: Mutex<Now>,
    /// Every change up to here is in the mailboxes of those who want it.
    position: AtomicU64,
    stopping: AtomicBool,
}

#[derive(Default)]
struct Now {
    thread: Option<JoinHandle<()>>,
    running: bool,
    tables: HashMap<u32, Listeners>,
}

impl Hub {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every change up to here is in the mailboxes.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Has a mailbox get what comes after the position that is returned.
    ///
    /// # Errors
    /// Those of following the tape; where the system has no thread left.
    pub(crate) fn register(self: &Arc<Self>, engine: &Engine, mailbox: &Arc<Mailbox>) -> Result<u64> {
        let mut now = self.now();
        if !now.running {
            if let Some(thread) = now.thread.take() {
                // It has ended, or is about to.
                let _ = thread.join();
            }
            let follower = engine.follow(FollowFrom::Now)?;
            self.position.store(follower.position(), Ordering::Release);
            let hub = Arc::clone(self);
            let thread = std::thread::Builder::new().name("subscriptions".to_string());
            let thread = thread.spawn(move || hub.run(follower)).map_err(|error| {
                QueryError::new(
                    ErrorKind::Report,
                    format!("cannot start the thread of subscriptions: {error}"),
                )
            })?;
            (now.thread, now.running) = (Some(thread), true);
        }
        let snapshot = engine.snapshot();
        let times = snapshot.tables().find(|table| table.id() == mailbox.table());
        let newest = times.and_then(|table| table.partitions().times()).map(|(_, newest)| newest);
        now.tables.entry(mailbox.table()).or_insert_with(|| Listeners::new(newest)).add(mailbox);
        Ok(self.position())
    }

    /// Takes a mailbox out.
    pub(crate) fn leave(&self, mailbox: &Arc<Mailbox>) {
        let mut now = self.now();
        if let Some(listeners) = now.tables.get_mut(&mailbox.table()) {
            listeners.remove(mailbox);
            if listeners.len() == 0 {
                now.tables.remove(&mailbox.table());
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        let thread = {
            let mut now = self.now();
            let error = QueryError::new(ErrorKind::Retry, "the database was closed");
            now.tables.values().for_each(|listeners| listeners.fail(&error));
            now.thread.take()
        };
        if let Some(thread) = thread {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }

    fn run(&self, mut follower: Follower) {
        loop {
            let news = follower.next(PATIENCE);
            let mut now = self.now();
            if self.stopping.load(Ordering::Relaxed) || now.tables.is_empty() {
                now.running = false;
                return;
            }
            match news {
                Ok(news) => {
                    news.heard.iter().for_each(|heard| now.hear(heard));
                    news.sealed.iter().for_each(|sealed| now.hear_sealed(sealed));
                    self.position.store(follower.position(), Ordering::Release);
                }
                Err(error) => {
                    let error: QueryError = error.into();
                    now.tables.values().for_each(|listeners| listeners.fail(&error));
                    now.tables.clear();
                    now.running = false;
                    return;
                }
            }
        }
    }
}

impl Now {
    fn hear(&mut self, heard: &Arc<Heard>) {
        for (place, change) in heard.changes.iter().enumerate() {
            if let Some(listeners) = self.tables.get_mut(&change.table) {
                listeners.hear(heard, place);
            }
        }
    }

    fn hear_sealed(&mut self, sealed: &SealedPartition) {
        if let Some(listeners) = self.tables.get_mut(&sealed.table) {
            listeners.tell(&What::Sealed(sealed.clone()), u64::MAX);
        }
    }
}
