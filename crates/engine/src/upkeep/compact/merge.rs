//! One merge: parts of a partition into a new file, stretch of time by stretch of time.

use super::windows::Windows;
use crate::Result;
use crate::clock::Clock;
use crate::core::memory::Memory;
use crate::core::{Compaction, EngineOptions};
use crate::disk::Disk;
use crate::lock::lock;
use crate::part::{Density, PartOptions, PositionRange, RowSource};
use crate::store::new_part::NewPart;
use crate::store::snapshot::{PartFile, Segment, TableSnapshot};
use arrow_array::ArrayRef;
use std::sync::Arc;
use std::time::Duration;
use tickstone_model::TimeRange;

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

/// A merge to be made.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) table: Arc<TableSnapshot>,
    pub(super) partition: TimeRange,
    /// Each with the rows of it that are superseded, which are left out.
    pub(super) parts: Vec<(Arc<PartFile>, Arc<[u32]>)>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: EngineOptions,
    /// Name of the file to be written.
    pub(super) file: String,
    pub(super) density: Density,
    pub(super) memory: Arc<Memory>,
    /// Whether the byte rate holds.
    pub(super) throttled: bool,
}

/// What became of a merge.
pub(super) enum Merged {
    /// The part to put in the place of the others; none where all their rows were superseded.
    Part(Option<Arc<PartFile>>),
    /// The engine closes, or someone else changes the table's parts.
    GivenUp,
}

impl Merge {
    /// Merges the parts into a new file, stretch of time by stretch of time.
    pub(super) fn run(&self, compaction: &Compaction) -> Result<Merged> {
        let _turn = lock(&compaction.turn);
        let new = NewPart::new(&self.table, self.partition.from, self.file.clone(), self.positions());
        let (slice_rows, bytes) = self.slice_rows();
        let mut held = self.memory.reserve_for_merge(bytes);
        // Unasked, it can wait; not for ever: a load may never add another row.
        let mut waits = if self.throttled { ROOM_WAITS_MAX } else { 0 };
        while waits > 0 && !self.memory.has_room(bytes) && !compaction.worker.is_stopping() {
            compaction.worker.rest(ROOM_WAIT);
            waits -= 1;
        }
        held.set(bytes);
        let options = PartOptions { slice_rows, threads: self.options.threads, density: self.density };
        let mut writer = new.writer(self.disk.as_ref(), options)?;
        let mut windows = Windows::new(&self.table, &self.parts, slice_rows)?;
        let read_bytes: u64 = self.parts.iter().map(|(part, _)| part.entry.file_bytes).sum();
        let rows: u64 = self.parts.iter().map(|(part, _)| part.entry.rows).sum();
        let mut written_rows = 0;
        let (mut since_ns, mut bytes) = (self.clock.now_ns(), writer.bytes());
        while let Some(segments) = windows.next()? {
            if compaction.worker.is_stopping() || lock(&self.table.dir.layout).rewriting {
                return Ok(Merged::GivenUp);
            }
            let rows_here = SegmentRows::of(&segments);
            written_rows += rows_here.rows();
            writer.add(&rows_here)?;
            if self.throttled {
                let read = read_bytes * rows_here.rows() as u64 / rows.max(1);
                let spent = writer.bytes() - bytes + read;
                compaction.worker.rest(self.pause(spent, self.clock.now_ns() - since_ns));
                (since_ns, bytes) = (self.clock.now_ns(), writer.bytes());
            }
        }
        if written_rows == 0 {
            return Ok(Merged::Part(None));
        }
        let summary = writer.finish()?;
        new.sync_name(self.disk.as_ref())?;
        Ok(Merged::Part(Some(new.opened(&summary))))
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

/// The rows of segments, one after the other.
struct SegmentRows<'a> {
    segments: &'a [Segment],
    rows: usize,
}

impl<'a> SegmentRows<'a> {
    /// All rows of `segments`.
    fn of(segments: &'a [Segment]) -> Self {
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
