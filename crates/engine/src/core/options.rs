//! How an engine works.

use crate::part::{Density, PartOptions, SLICE_ROWS};
use std::time::Duration;

/// How an engine works. [`Default`] suits a desktop.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Bytes of rows and buffers in memory, those of loads, transactions and merges included, above which
    /// writers wait for sealing, loads write parts and transactions are refused. Default 1 GiB.
    pub memory_budget_bytes: usize,
    /// Longest time rows of policy `interval` stay unsynced. Default 10 ms.
    pub sync_interval: Duration,
    /// Whether merging, sealing and syncing by interval run on threads of their own; without, each commit
    /// and [`Engine::maintain`] do what is due before they return (for tests and simulation). Default true.
    pub background: bool,
    /// Threads that sort and encode parts. Default: the machine's.
    pub threads: usize,
    /// Most rows of a part's slice. Default [`SLICE_ROWS`](crate::part::SLICE_ROWS).
    pub slice_rows: usize,
    /// Bytes of documents of streams in memory, above which who appends waits, or is to. Default 1 GiB.
    pub stream_memory_bytes: usize,
    /// A tape segment is closed once it is this long. Default 64 MiB.
    pub segment_bytes: usize,
    /// Bytes of tape past which the partitions that hold it back are sealed. Default 1 GiB.
    pub tape_bytes_max: u64,
    /// Bytes of tape that stay though nobody needs them, and of parts that were merged or rewritten since their frames,
    /// so that who follows can go on from a place in them. Default 256 MiB.
    pub tape_keep_bytes: u64,
    /// How long they stay at most. Default one hour.
    pub tape_keep_age: Duration,
    /// Bytes of the newest changes in memory while somebody follows; who is further behind reads the tape. Default
    /// 64 MiB.
    pub follow_memory_bytes: usize,
    /// Fewest neighbouring parts of a partition that are merged unasked; 0 for never. Default 4.
    pub compaction_parts_min: usize,
    /// Bytes a second that merging parts unasked may read and write together. Default 256 MiB.
    pub compaction_bytes_per_s: u64,
    /// A partition whose newest part was written so long ago is merged into one dense part, once; zero for
    /// never. Default 7 days.
    pub archive_after: Duration,
}

impl EngineOptions {
    /// How parts are written that are not the result of merging.
    pub(crate) fn part_options(&self, density: Density) -> PartOptions {
        PartOptions { slice_rows: self.slice_rows, threads: self.threads, density }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 1 << 30,
            sync_interval: Duration::from_millis(10),
            background: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            slice_rows: SLICE_ROWS,
            stream_memory_bytes: 1 << 30,
            segment_bytes: 64 << 20,
            tape_bytes_max: 1 << 30,
            tape_keep_bytes: 256 << 20,
            tape_keep_age: Duration::from_secs(3600),
            follow_memory_bytes: 64 << 20,
            compaction_parts_min: 4,
            compaction_bytes_per_s: 256 << 20,
            archive_after: Duration::from_secs(7 * 86_400),
        }
    }
}
