//! Where the current snapshot is, and the one place that swaps it.

use crate::lock::lock;
use crate::store::snapshot::{Effect, Snapshot, TableSnapshot};
use crate::tape::writer::{Publish, Written};
use crate::{EngineError, Result};
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex};

/// The current snapshot. Readers load a pointer; changes are made one after the other.
#[derive(Debug)]
pub(crate) struct Publisher {
    current: ArcSwap<Snapshot>,
    changing: Mutex<()>,
}

impl Publisher {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self { current: ArcSwap::from_pointee(snapshot), changing: Mutex::new(()) }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
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
        self.change(|snapshot| group.into_iter().for_each(|written| snapshot.apply(written)));
    }
}
