//! Where the current snapshot is, and the one place that swaps it.

use crate::lock::lock;
use crate::store::feed::Feed;
use crate::store::snapshot::{Effect, Snapshot, TableSnapshot};
use crate::tape::writer::{Publish, Written};
use crate::{EngineError, Result};
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex};

/// The files that a frame of the tape names: its position, the table, and each file with its partition.
pub(crate) type NamedFiles = (u64, u32, Vec<(i64, String)>);

/// The current snapshot. Readers load a pointer; changes are made one after the other.
#[derive(Debug)]
pub(crate) struct Publisher {
    current: ArcSwap<Snapshot>,
    changing: Mutex<()>,
    feed: Feed,
}

impl Publisher {
    /// Begins with a snapshot, and with what is kept for those who follow.
    pub(crate) fn new(snapshot: Snapshot, feed: Feed) -> Self {
        Self { current: ArcSwap::from_pointee(snapshot), changing: Mutex::new(()), feed }
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Has the feed keep every change after the position that is returned.
    pub(crate) fn follow(&self) -> u64 {
        let _changing = lock(&self.changing);
        let position = self.current.load().position();
        self.feed.follow(position);
        position
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Keeps the parts that frames of the tape name, as far as tables still have them.
    pub(crate) fn pin(&self, named: Vec<NamedFiles>, now_ns: i64) {
        let snapshot = self.snapshot();
        for (position, table, files) in named {
            let Some(table) = snapshot.table_by_id(table).filter(|table| table.created_at < position) else {
                continue;
            };
            let parts = files.iter().map(|(partition, file)| table.held_part(*partition, file));
            match parts.collect() {
                Some(parts) => self.feed.pin(position, now_ns, parts),
                None => self.feed.note_unpinned(position),
            }
        }
    }

    /// The table of this name, as of now.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`].
    pub(crate) fn table(&self, name: &str) -> Result<Arc<TableSnapshot>> {
        let table = self.snapshot().table(name).map(Arc::clone);
        table.ok_or_else(|| EngineError::NoSuchTable { name: name.to_string() })
    }

    /// Makes the next snapshot from the current one.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        let _changing = lock(&self.changing);
        let mut next = Snapshot::clone(&self.current.load());
        let result = change(&mut next);
        self.current.store(Arc::new(next));
        result
    }

    /// Puts a snapshot that was read from files in the place of the current one.
    pub(crate) fn replace(&self, next: Snapshot) {
        let _changing = lock(&self.changing);
        self.current.store(Arc::new(next));
    }
}

impl Publish<Effect> for Publisher {
    fn publish(&self, group: Vec<Written<Effect>>) {
        let out = self.change(|snapshot| {
            let mut coming = Vec::new();
            for written in group {
                coming.extend(self.feed.coming(snapshot, &written));
                snapshot.apply(written);
            }
            self.feed.push(snapshot, coming)
        });
        out.let_go();
    }
}
