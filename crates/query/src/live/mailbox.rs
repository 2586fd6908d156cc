//! What waits for one who subscribed.

use crate::error::QueryError;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickstone_engine::{Heard, SealedPartition};
use tokio::sync::Notify;

/// Rows that wait in a mailbox at most; more are read from the tape when their time comes.
const ROWS_MAX: usize = 1 << 20;
/// Bytes of the changes that wait in a mailbox at most, whatever of their rows is to be heard.
const BYTES_MAX: usize = 64 << 20;
/// Changes that wait in a mailbox at most.
const ITEMS_MAX: usize = 1 << 16;

/// Something that happened to the table of a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The position of its frame, or of the newest one then.
    pub(crate) position: u64,
    pub(crate) what: What,
}

/// See [`Item`].
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A change, by its place among those of its frame; of rows only these of each piece, where some were picked.
    Change { heard: Arc<Heard>, place: usize, rows: Option<Vec<Vec<u32>>> },
    /// Rows of a partition went into a part.
    Sealed(SealedPartition),
    /// All changes up to the position were read.
    Reached,
    /// Rows of a later day (its first instant, ns) than any before have come.
    DayBegan(i64),
}

/// What was taken from a mailbox at once.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) items: Vec<Item>,
    /// It was full: what came after this position is not in it, and it gets no more.
    pub(crate) full: Option<u64>,
    /// So many rows waited, those included that it had no room for.
    pub(crate) waited: usize,
    pub(crate) error: Option<QueryError>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox {
    table: u32,
    /// The symbols of a column, by its id, that rows must have one of.
    symbols: Option<(u32, Vec<String>)>,
    held: Mutex<Held>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Held {
    items: VecDeque<Item>,
    rows: usize,
    bytes: usize,
    waited: usize,
    full: Option<u64>,
    error: Option<QueryError>,
}

impl Mailbox {
    /// For changes of a table; of rows those that have one of some symbols in a column, by its id.
    pub(crate) fn new(table: u32, symbols: Option<(u32, Vec<String>)>) -> Arc<Self> {
        Arc::new(Self { table, symbols, held: Mutex::default(), ready: Notify::new() })
    }

    /// The number of its table.
    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// The column, by id, and the symbols that rows must have one of.
    pub(crate) fn symbols(&self) -> Option<&(u32, Vec<String>)> {
        self.symbols.as_ref()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change of which so many rows are to be heard, and which takes so many bytes.
    pub(super) fn put(&self, item: Item, rows: usize, bytes: usize) {
        let mut held = self.held();
        held.waited += rows;
        let crowded = held.rows + rows > ROWS_MAX || held.bytes + bytes > BYTES_MAX;
        let is_change = item.position < u64::MAX;
        if is_change
            && held.full.is_none()
            && !held.items.is_empty()
            && (crowded || held.items.len() >= ITEMS_MAX)
        {
            held.full = Some(item.position.saturating_sub(1));
        }
        if held.full.is_none() {
            held.rows += rows;
            held.bytes += bytes;
            held.items.push_back(item);
        }
        drop(held);
        self.ready.notify_one();
    }

    /// Ends it with an error.
    pub(super) fn fail(&self, error: &QueryError) {
        self.held().error = Some(error.clone());
        self.ready.notify_one();
    }

    /// Takes all there is.
    pub(crate) fn take(&self) -> Taken {
        let mut held = self.held();
        (held.rows, held.bytes) = (0, 0);
        Taken {
            items: std::mem::take(&mut held.items).into(),
            full: held.full,
            waited: std::mem::take(&mut held.waited),
            error: held.error.clone(),
        }
    }

    /// Returns once something was added since the last time.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(position: u64) -> Item {
        let heard = Arc::new(Heard { position, received_ns: 0, changes: Vec::new() });
        Item { position, what: What::Change { heard, place: 0, rows: None } }
    }

    /// What has no room is read from the tape, whatever stands before it: the note of a day has its change's position.
    #[test]
    fn a_full_mailbox_says_what_it_lacks() {
        for before in [change(6), Item { position: 7, what: What::DayBegan(0) }] {
            let mailbox = Mailbox::new(1, None);
            mailbox.put(before, 1, 0);
            mailbox.put(change(7), ROWS_MAX, 0);
            mailbox.put(change(8), 1, 0);
            let taken = mailbox.take();
            assert_eq!((taken.items.len(), taken.full, taken.waited), (1, Some(6), ROWS_MAX + 2));
        }
        let mailbox = Mailbox::new(1, None);
        mailbox.put(change(1), 1, BYTES_MAX);
        mailbox.put(change(2), 1, 1);
        assert_eq!(mailbox.take().full, Some(1));
        // One that is larger than all there is room for comes alone.
        let mailbox = Mailbox::new(1, None);
        mailbox.put(change(1), 2 * ROWS_MAX, 2 * BYTES_MAX);
        assert_eq!(mailbox.take().full, None);
    }
}
