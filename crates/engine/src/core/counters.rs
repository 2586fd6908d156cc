//! What commits, sealing, loading, merging and rewriting wrote: counters of one opening of the engine.

use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals; relaxed, since nothing is decided by them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    committed_rows: AtomicU64,
    parts_sealed: AtomicU64,
    sealed_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    rewritten_bytes: AtomicU64,
    compactions: AtomicU64,
    parts_merged: AtomicU64,
}

impl Counters {
    /// Rows were acknowledged.
    pub(crate) fn committed(&self, rows: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.committed_rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Commits of rows so far, and the rows in them.
    pub(crate) fn commits(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.committed_rows.load(Ordering::Relaxed))
    }

    /// A part was sealed.
    pub(crate) fn sealed(&self, bytes: u64) {
        self.parts_sealed.fetch_add(1, Ordering::Relaxed);
        self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A bulk load wrote a part.
    pub(crate) fn loaded(&self, bytes: u64) {
        self.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `parts` parts were merged into one, of `bytes`.
    pub(crate) fn compacted(&self, parts: usize, bytes: u64) {
        self.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.parts_merged.fetch_add(parts as u64, Ordering::Relaxed);
    }

    /// DELETE or UPDATE wrote parts anew.
    pub(crate) fn rewrote(&self, bytes: u64) {
        self.rewritten_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The totals so far.
    pub(crate) fn read(&self, last_failure: Option<String>) -> MaintenanceStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MaintenanceStats {
            parts_sealed: read(&self.parts_sealed),
            sealed_bytes: read(&self.sealed_bytes),
            loaded_bytes: read(&self.loaded_bytes),
            compacted_bytes: read(&self.compacted_bytes),
            rewritten_bytes: read(&self.rewritten_bytes),
            compactions: read(&self.compactions),
            parts_merged: read(&self.parts_merged),
            last_failure,
        }
    }
}

/// What maintenance wrote into parts since the engine was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceStats {
    /// How many parts were sealed from recent rows.
    pub parts_sealed: u64,
    /// Bytes of parts sealed from recent rows.
    pub sealed_bytes: u64,
    /// Bytes of parts that bulk loads wrote.
    pub loaded_bytes: u64,
    /// Bytes of parts made by merging others.
    pub compacted_bytes: u64,
    /// Bytes of parts that DELETE and UPDATE wrote anew.
    pub rewritten_bytes: u64,
    /// How often parts were merged.
    pub compactions: u64,
    /// How many parts were merged into others.
    pub parts_merged: u64,
    /// Why the last step of sealing or merging failed; `None` where it did not.
    pub last_failure: Option<String>,
}

impl MaintenanceStats {
    /// How often a byte of a part was written on average: all bytes written by those that brought new rows.
    /// 0 where nothing was written.
    pub fn write_amplification(&self) -> f64 {
        let fresh = self.sealed_bytes + self.loaded_bytes;
        let all = fresh + self.compacted_bytes + self.rewritten_bytes;
        if fresh == 0 { 0.0 } else { all as f64 / fresh as f64 }
    }
}
