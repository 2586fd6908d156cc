//! The state of compaction: who merges, and what there is to look at.

use crate::lock::lock;
use crate::worker::Worker;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    pub(crate) worker: Worker,
    /// Held by the one who merges.
    pub(crate) turn: Mutex<()>,
    pub(crate) due: Mutex<Due>,
}

/// What is to be looked at for merges.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Tables whose parts have changed since they were found to need no merge.
    pub(crate) touched: BTreeSet<u32>,
    /// Parts that cannot be read: not tried again unasked.
    pub(crate) broken: HashSet<PathBuf>,
    /// When nothing was found to archive (s since the Unix epoch).
    pub(crate) looked_s: Option<u64>,
}

impl Compaction {
    /// Notes that parts of these tables have changed: they are looked at, and no others.
    pub(crate) fn touch(&self, tables: impl IntoIterator<Item = u32>) {
        lock(&self.due).touched.extend(tables);
    }
}
