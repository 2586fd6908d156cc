//! Compaction: neighbouring parts of a partition merge into one, off every other path.
//!
//! ```text
//! policy (which neighbours) ─► windows (stretches of time) ─► PartWriter ─► swap ─► manifest
//! ```
//!
//! Invariants:
//! - only neighbours in the order of positions merge, so that later rows stay later;
//! - the new part is on stable storage before a snapshot has it; the old files stay until a manifest no
//!   longer names them and no snapshot holds them: a crash leaves the old parts or the new one;
//! - memory is that of one slice's columns under way, whatever the parts' size;
//! - nothing else waits for a merge: it holds no lock but for the swap, and gives way to a rewrite.

mod archive;
mod policy;
mod stats;
mod windows;

pub use stats::MaintenanceStats;

pub(crate) use stats::Counters;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::engine::{Core, EngineOptions, lock};
use crate::maintenance::RETRY_INTERVAL;
use crate::memory::Memory;
use crate::part::{Density, PartOptions, PartWriter, PositionRange, RowSource};
use crate::snapshot::{PartFile, PartitionSnapshot, Segment, Source, TableSnapshot, part_path};
use crate::tape::change::PartEntry;
use crate::{EngineError, Result};
use arrow_array::ArrayRef;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tickstone_model::TimeRange;
use windows::Windows;

/// Part of the memory budget that a merge may hold.
const BUDGET_SHARE: usize = 4;
/// Bytes a row takes while a slice is put in order: time, series, place.
const ORDER_ROW_BYTES: usize = 32;
/// Bytes a row takes in each column that is read and encoded at the moment, about: text takes what it takes.
const COLUMN_ROW_BYTES: usize = 32;
/// Bytes a row takes in a dense part besides: the times that others are stored by.
const DENSE_ROW_BYTES: usize = 16;
/// How long a merge waits for loads to make room, at a time and how often.
const ROOM_WAIT: Duration = Duration::from_millis(10);
const ROOM_WAITS_MAX: usize = 3_000;
/// Fewest rows of a slice, however short memory is.
const SLICE_ROWS_MIN: usize = 4_096;

/// A part of which more than one row in so many is superseded is written anew by itself.
const SUPERSEDED_SHARE: u64 = 4;

/// The state of compaction: who merges, and whether it is asked to.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// Held by the one who merges.
    turn: Mutex<()>,
    requests: Mutex<Requests>,
    /// Signalled when merging is asked for, and at the end.
    requested: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Requests {
    wanted: bool,
    stopping: bool,
    failure: Option<String>,
    /// Tables whose parts have changed since they were found to need no merge.
    touched: BTreeSet<u32>,
    /// Parts that cannot be read: not tried again unasked.
    broken: HashSet<PathBuf>,
    /// When nothing was found to archive (s since the Unix epoch).
    looked_s: Option<u64>,
}

impl Compaction {
    /// Starts the thread that merges what is due, as long as the engine lives.
    pub(crate) fn start(core: &Arc<Core>) -> Result<()> {
        let weak: Weak<Core> = Arc::downgrade(core);
        let compaction = Arc::clone(&core.writing("compaction")?.compaction);
        let patience = Self::patience(core.options.archive_after);
        let run = move || {
            while compaction.next_request(patience) {
                // The engine is not held while parts merge, so that closing it does not wait for that.
                while let Some(job) = weak.upgrade().and_then(|core| core.next_due()) {
                    let merged = job.run(&compaction);
                    let Some(core) = weak.upgrade() else { return };
                    if !core.finish_merge(&job, merged) {
                        break;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("compaction".to_string()).spawn(run);
        let thread = thread.map_err(EngineError::io("start the thread of", "compaction"))?;
        *lock(&core.writing("compaction")?.compaction.thread) = Some(thread);
        Ok(())
    }

    /// Waits for a request, or until patience ends; `false` at the end.
    fn next_request(&self, patience: Option<Duration>) -> bool {
        let mut requests = lock(&self.requests);
        while !requests.wanted && !requests.stopping {
            // What failed for want of space goes on once there is some, also where nobody asks.
            let retry = requests.failure.is_some().then_some(RETRY_INTERVAL);
            let Some(patience) = patience.into_iter().chain(retry).min() else {
                requests = self.requested.wait(requests).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.requested.wait_timeout(requests, patience);
            let (woken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            requests = woken;
            if waited.timed_out() {
                break;
            }
        }
        requests.wanted = false;
        !requests.stopping
    }

    /// Notes that parts of these tables have changed: they are looked at, and no others.
    pub(crate) fn touch(&self, tables: impl IntoIterator<Item = u32>) {
        lock(&self.requests).touched.extend(tables);
    }

    /// Asks for what is due to be merged.
    pub(crate) fn request(&self) {
        lock(&self.requests).wanted = true;
        self.requested.notify_one();
    }

    /// Ends the thread; a merge under way is given up.
    pub(crate) fn stop(&self) {
        lock(&self.requests).stopping = true;
        self.requested.notify_all();
        let thread = lock(&self.thread).take();
        // The thread itself may be the one that drops the engine: it ends right after.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }

    fn is_stopping(&self) -> bool {
        lock(&self.requests).stopping
    }

    /// Waits, unless the engine closes.
    fn rest(&self, pause: Duration) {
        let requests = lock(&self.requests);
        let stopping = |requests: &mut Requests| !requests.stopping;
        drop(self.requested.wait_timeout_while(requests, pause, stopping));
    }
}

/// A merge to be made.
#[derive(Debug)]
struct Merge {
    table: Arc<TableSnapshot>,
    partition: TimeRange,
    /// Each with the rows of it that are superseded, which are left out.
    parts: Vec<(Arc<PartFile>, Arc<[u32]>)>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: EngineOptions,
    /// Name of the file to be written.
    file: String,
    density: Density,
    memory: Arc<Memory>,
    /// Whether the byte rate holds.
    throttled: bool,
}

/// What became of a merge.
enum Merged {
    /// The part to put in the place of the others; none where all their rows were superseded.
    Part(Option<Arc<PartFile>>),
    /// The engine closes, or someone else changes the table's parts.
    GivenUp,
}

impl Merge {
    /// Merges the parts into a new file, stretch of time by stretch of time.
    fn run(&self, compaction: &Compaction) -> Result<Merged> {
        let _turn = lock(&compaction.turn);
        let positions = self.positions();
        let path = part_path(self.table.id, self.table.schema(), self.partition.from, &self.file);
        let (slice_rows, bytes) = self.slice_rows();
        let mut held = self.memory.reserve_for_merge(bytes);
        // Unasked, it can wait; not for ever: a load may never add another row.
        let mut waits = if self.throttled { ROOM_WAITS_MAX } else { 0 };
        while waits > 0 && !self.memory.has_room(bytes) && !compaction.is_stopping() {
            compaction.rest(ROOM_WAIT);
            waits -= 1;
        }
        held.set(bytes);
        let options = PartOptions { slice_rows, threads: self.options.threads, density: self.density };
        let mut writer =
            PartWriter::create(self.disk.as_ref(), &path, self.table.schema(), positions, options)?;
        let mut windows = Windows::new(&self.table, &self.parts, slice_rows)?;
        let read_bytes: u64 = self.parts.iter().map(|(part, _)| part.entry.file_bytes).sum();
        let rows: u64 = self.parts.iter().map(|(part, _)| part.entry.rows).sum();
        let mut written_rows = 0;
        let (mut since_ns, mut bytes) = (self.clock.now_ns(), writer.bytes());
        while let Some(segments) = windows.next()? {
            if compaction.is_stopping() || lock(&self.table.dir.layout).rewriting {
                return Ok(Merged::GivenUp);
            }
            let rows_here = SegmentRows::of(&segments);
            written_rows += rows_here.rows();
            writer.add(&rows_here)?;
            if self.throttled {
                let read = read_bytes * rows_here.rows() as u64 / rows.max(1);
                let spent = writer.bytes() - bytes + read;
                compaction.rest(self.pause(spent, self.clock.now_ns() - since_ns));
                (since_ns, bytes) = (self.clock.now_ns(), writer.bytes());
            }
        }
        if written_rows == 0 {
            return Ok(Merged::Part(None));
        }
        let summary = writer.finish()?;
        let folder = path.parent().expect("a part is in its partition's folder");
        if let Err(error) = self.disk.sync_dir(folder) {
            // A file that stays is unnamed: the next start removes it.
            let _ = self.disk.remove(&path);
            return Err(EngineError::io("sync", folder)(error));
        }
        let (rows, times, file_bytes) = (summary.rows, summary.times, summary.file_bytes);
        let (partition, file) = (self.partition.from, self.file.clone());
        let schema_version = self.table.schema().version();
        let entry = PartEntry { partition, file, positions, rows, times, file_bytes, schema_version };
        Ok(Merged::Part(Some(Arc::new(PartFile::new(entry, self.table.schema(), &self.table.dir)))))
    }

    /// Rows of a slice, fewer where memory is short, and about how many bytes its columns under way take.
    fn slice_rows(&self) -> (usize, usize) {
        let besides = if self.density == Density::Dense { DENSE_ROW_BYTES } else { 0 };
        let row_bytes = ORDER_ROW_BYTES + self.options.threads.max(1) * (COLUMN_ROW_BYTES + besides);
        let fitting = self.options.memory_budget_bytes / BUDGET_SHARE / row_bytes;
        let slice_rows = self.options.slice_rows.min(fitting.max(SLICE_ROWS_MIN));
        let rows: u64 = self.parts.iter().map(|(part, _)| part.entry.rows).sum();
        (slice_rows, slice_rows.min(usize::try_from(rows).unwrap_or(usize::MAX)) * row_bytes)
    }

    fn positions(&self) -> PositionRange {
        let of = |(part, _): &(Arc<PartFile>, Arc<[u32]>)| part.entry.positions;
        let first = self.parts.iter().map(|part| of(part).first).min().unwrap_or_default();
        let last = self.parts.iter().map(|part| of(part).last).max().unwrap_or_default();
        PositionRange { first, last }
    }

    /// How long to wait after `bytes` in `elapsed_ns` to stay within the byte rate.
    fn pause(&self, bytes: u64, elapsed_ns: i64) -> Duration {
        let rate = self.options.compaction_bytes_per_s.max(1);
        let wanted = Duration::from_secs_f64(bytes as f64 / rate as f64);
        wanted.saturating_sub(Duration::from_nanos(elapsed_ns.max(0).cast_unsigned()))
    }
}

impl Core {
    /// Asks for compaction where it is on.
    pub(crate) fn request_compaction(&self) {
        if let Ok(writing) = self.writing("compaction")
            && (self.options.compaction_parts_min > 0 || !self.options.archive_after.is_zero())
        {
            writing.compaction.request();
        }
    }

    /// Merges what is due now; a failure is kept for [`Self::maintenance_stats`].
    pub(crate) fn compact_inline(&self) {
        let Ok(writing) = self.writing("compaction") else { return };
        while let Some(mut job) = self.next_due() {
            job.throttled = false;
            let merged = job.run(&writing.compaction);
            if !self.finish_merge(&job, merged) {
                break;
            }
        }
    }

    /// What sealing and merging did.
    pub(crate) fn maintenance_stats(&self) -> MaintenanceStats {
        let failure = self.writing("compaction").ok().and_then(|writing| {
            writing.maintenance.failure().or_else(|| lock(&writing.compaction.requests).failure.clone())
        });
        self.counters.read(failure)
    }

    /// The merge or archiving that is due, `None` where none is.
    fn next_due(&self) -> Option<Merge> {
        self.next_merge().or_else(|| self.next_archive())
    }

    /// The merge that is due, `None` where none is.
    fn next_merge(&self) -> Option<Merge> {
        let writing = self.writing("compaction").ok()?;
        let parts_min = self.options.compaction_parts_min;
        if parts_min == 0 || writing.compaction.is_stopping() {
            return None;
        }
        let (touched, broken) = {
            let mut requests = lock(&writing.compaction.requests);
            (std::mem::take(&mut requests.touched), requests.broken.clone())
        };
        let mut touched = touched.into_iter();
        while let Some(id) = touched.next() {
            // What was touched before this is in the snapshot.
            let snapshot = self.publisher.snapshot();
            let Some(table) = snapshot.table_by_id(id) else { continue };
            if lock(&table.dir.layout).rewriting {
                writing.compaction.touch([id]);
                continue;
            }
            let due = self.merge_of_table(table, parts_min, &broken);
            if due.is_some() {
                // There may be more to do in it.
                writing.compaction.touch(std::iter::once(id).chain(touched));
                return due;
            }
        }
        None
    }

    /// The merge that is due in a table, `None` where none is.
    fn merge_of_table(
        &self,
        table: &Arc<TableSnapshot>,
        parts_min: usize,
        broken: &HashSet<PathBuf>,
    ) -> Option<Merge> {
        for partition in table.partitions().worth_merging(parts_min) {
            let wasteful = |part: &&Arc<PartFile>| {
                let superseded = partition.superseded_of(part).len() as u64;
                superseded * SUPERSEDED_SHARE > part.entry.rows && !broken.contains(&part.path)
            };
            if let Some(part) = partition.part_sources().find(wasteful) {
                return self.merge_of(table, partition, vec![Arc::clone(part)]);
            }
            if partition.sources.len() < parts_min {
                continue;
            }
            let size = |source: &Source| match source {
                Source::Part(part) if !broken.contains(&part.path) => Some(part.entry.file_bytes),
                _ => None,
            };
            let sizes: Vec<Option<u64>> = partition.sources.iter().map(size).collect();
            if let Some(chosen) = policy::choose(&sizes, parts_min) {
                return self.merge_of(table, partition, parts_of(&partition.sources[chosen]));
            }
        }
        None
    }

    fn merge_of(
        &self,
        table: &Arc<TableSnapshot>,
        partition: &PartitionSnapshot,
        parts: Vec<Arc<PartFile>>,
    ) -> Option<Merge> {
        let density = archive::density_of(&parts);
        self.merge_as(table, partition, parts, density)
    }

    fn merge_as(
        &self,
        table: &Arc<TableSnapshot>,
        partition: &PartitionSnapshot,
        parts: Vec<Arc<PartFile>>,
        density: Density,
    ) -> Option<Merge> {
        let with_superseded =
            |part: Arc<PartFile>| (Arc::clone(&part), Arc::from(partition.superseded_of(&part)));
        // Without its rows: a merge must not keep in memory what is sealed meanwhile.
        Some(Merge {
            table: table.without_rows(),
            partition: partition.range,
            parts: parts.into_iter().map(with_superseded).collect(),
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.writing("compaction").ok()?.clock),
            options: self.options.clone(),
            file: self.new_part_name(density),
            density,
            memory: Arc::clone(&self.memory),
            throttled: true,
        })
    }

    /// Swaps the parts and saves the manifest; whether to go on merging.
    fn finish_merge(&self, job: &Merge, merged: Result<Merged>) -> bool {
        let outcome = merged.and_then(|merged| self.swap(job, merged));
        let Ok(writing) = self.writing("compaction") else { return false };
        let mut requests = lock(&writing.compaction.requests);
        match outcome {
            Ok(swapped) => {
                requests.failure = None;
                swapped
            }
            Err(error) => {
                if matches!(error, EngineError::Damaged { .. } | EngineError::NewerFormat { .. }) {
                    requests.broken.extend(job.parts.iter().map(|(part, _)| part.path.clone()));
                }
                requests.failure = Some(error.to_string());
                false
            }
        }
    }

    /// Puts a merged part in the place of the others; `false` where it was given up.
    fn swap(&self, job: &Merge, merged: Merged) -> Result<bool> {
        let Merged::Part(part) = merged else { return Ok(false) };
        let writing = self.writing("compaction")?;
        let pause = writing.maintenance.pause();
        let swapped = {
            let layout = lock(&job.table.dir.layout);
            let version = job.table.schema().version();
            // A part of an earlier schema than those before it might be one that history has forgotten.
            let same_schema = |table: &Arc<TableSnapshot>| table.schema().version() == version;
            !layout.rewriting
                && self.publisher.change(|next| {
                    next.table_by_id(job.table.id).is_some_and(same_schema)
                        && next.replace_parts(job.table.id, job.partition, &job.parts, part.clone())
                })
        };
        if !swapped {
            if let Some(part) = part {
                self.disk.remove(&part.path).map_err(EngineError::io("remove", &part.path))?;
            }
            return Ok(false);
        }
        self.counters.compacted(job.parts.len(), part.map_or(0, |part| part.entry.file_bytes));
        self.save_manifest_of(job.table.id, &pause)?;
        Ok(true)
    }

    /// Merges all neighbouring parts of one table, or of all.
    pub(crate) fn compact_fully(&self, table: Option<&str>) -> Result<()> {
        self.merge_fully(table, Self::next_full_merge)
    }

    /// Does the merges that `next` names, table by table, at full speed.
    fn merge_fully(&self, table: Option<&str>, next: impl Fn(&Self, u32) -> Option<Merge>) -> Result<()> {
        let compaction = Arc::clone(&self.writing("compaction")?.compaction);
        let tables: Vec<u32> = match table {
            Some(name) => vec![self.table(name)?.id],
            None => self.publisher.snapshot().tables().map(|table| table.id).collect(),
        };
        for id in tables {
            while let Some(mut job) = next(self, id) {
                job.throttled = false;
                let merged = job.run(&compaction)?;
                // Where the parts changed meanwhile, what is there now is looked at again.
                self.swap(&job, merged)?;
            }
        }
        Ok(())
    }

    fn next_full_merge(&self, id: u32) -> Option<Merge> {
        let snapshot = self.publisher.snapshot();
        let table = snapshot.table_by_id(id).filter(|table| !lock(&table.dir.layout).rewriting)?;
        for partition in table.partitions().worth_merging(2) {
            let is_part = |source: &Source| matches!(source, Source::Part(_));
            let stretches = partition.sources.split(|source| !is_part(source));
            let longest = stretches.max_by_key(|stretch| stretch.len()).map(parts_of).unwrap_or_default();
            if longest.len() > 1 {
                return self.merge_of(table, partition, longest);
            }
            let has_superseded = |part: &&Arc<PartFile>| !partition.superseded_of(part).is_empty();
            if let Some(part) = partition.part_sources().find(has_superseded) {
                return self.merge_of(table, partition, vec![Arc::clone(part)]);
            }
        }
        None
    }
}

fn parts_of(sources: &[Source]) -> Vec<Arc<PartFile>> {
    let part = |source: &Source| match source {
        Source::Part(part) => Some(Arc::clone(part)),
        Source::Run(_) => None,
    };
    sources.iter().filter_map(part).collect()
}

/// The rows of segments, one after the other.
pub(crate) struct SegmentRows<'a> {
    segments: &'a [Segment],
    rows: usize,
}

impl<'a> SegmentRows<'a> {
    /// All rows of `segments`.
    pub(crate) fn of(segments: &'a [Segment]) -> Self {
        Self { segments, rows: segments.iter().map(Segment::row_count).sum() }
    }
}

impl RowSource for SegmentRows<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, column: usize) -> Result<Vec<ArrayRef>> {
        self.segments.iter().map(|segment| segment.read_ranges(column, segment.rows())).collect()
    }
}
