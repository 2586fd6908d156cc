//! Memory for row groups of Parquet that are put together: a row group is written when it is whole, so that its columns
//! wait in memory until then.

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use std::sync::Arc;

/// Most bytes that the row groups of one statement wait with.
const MOST: usize = 256 << 20;

/// The part of the memory of queries that one statement may have for them.
const PART: usize = 8;

/// Memory for the row groups of one statement.
///
/// A row group ends early where all that wait together would have more than 256 MiB, more than an eighth of
/// `query_memory`, or more than `query_memory` has left.
#[derive(Debug)]
pub struct Room {
    most: usize,
    /// `None`: nobody counts it.
    claim: Option<MemoryReservation>,
}

impl Default for Room {
    /// Room that is not counted.
    fn default() -> Self {
        Self { most: MOST, claim: None }
    }
}

impl Room {
    pub(crate) fn counted(memory: &Arc<dyn MemoryPool>) -> Self {
        let part = match memory.memory_limit() {
            MemoryLimit::Finite(all) => all / PART,
            _ => MOST,
        };
        let claim = MemoryConsumer::new("row groups that are written").register(memory);
        Self { most: part.min(MOST), claim: Some(claim) }
    }

    /// Whether row groups of so many bytes together may wait; what waits is counted where they may.
    pub(super) fn has(&self, bytes: usize) -> bool {
        bytes <= self.most && self.claim.as_ref().is_none_or(|claim| claim.try_resize(bytes).is_ok())
    }

    /// Counts what waits, though there may be no room for it: what is left of a row group that was ended.
    pub(super) fn count(&self, bytes: usize) {
        if let Some(claim) = &self.claim {
            claim.resize(bytes);
        }
    }
}
