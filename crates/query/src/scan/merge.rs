//! Rows in order of time.
//!
//! The segments of each partition fall into stretches that do not overlap in time. A stretch that is
//! one ascending sequence passes as it lies; any other is read whole, its times sorted (stable, so
//! that ties keep the order of arrival) and its columns gathered. A stretch of too many rows is cut
//! in two by time and selected again, so that memory holds a bounded number of rows at once, and fewer where the
//! memory of queries is short.

use super::columns::{Columns, Piece, read_column};
use super::condition::{Test, kept};
use super::natural::{BLOCK_ROWS, NaturalCursor};
use super::selected::Selected;
use crate::error::{external, from_arrow};
use arrow_select::take::take;
use datafusion::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray, UInt32Array};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::{Segment, Selection};
use tickstone_model::TimeRange;

/// Most rows that are merged at once, in batches, unless they share one instant.
const MERGE_BATCHES_MAX: u64 = if cfg!(test) { 8 } else { 128 };

/// Bytes of a row's time and place while its stretch is sorted.
const ORDER_BYTES: usize = 28;

/// Yields rows by the designated timestamp, ascending or descending.
#[derive(Debug)]
pub(super) struct MergeCursor {
    selected: Arc<Selected>,
    columns: Arc<Columns>,
    batch_rows: usize,
    descending: bool,
    remaining: usize,
    /// Most rows to merge at once: few at first where few are wanted.
    merge_rows: u64,
    /// Stretches still to read, the next one last.
    pending: Vec<Stretch>,
    current: Current,
    /// What rows must fulfil.
    test: Option<Arc<Test>>,
    /// Holds what is merged.
    reservation: MemoryReservation,
}

/// Rows that are tested at once.
const TESTED_ROWS: usize = 64 * BLOCK_ROWS;

/// Of how many rows those that fulfil the condition are looked for before it is known whether they can be merged at once.
const TESTED_MAX: u64 = 16;

/// Segments (indices among `of`) that overlap each other in time and no others.
#[derive(Debug)]
struct Stretch {
    of: Arc<Selected>,
    segments: Vec<usize>,
    /// Least and greatest time, both inside.
    times: (i64, i64),
    rows: u64,
}

#[derive(Debug)]
enum Current {
    None,
    /// One ascending sequence, read forwards.
    Forward(NaturalCursor),
    /// Rows gathered in order, from `next` on.
    Merged {
        stored: Vec<ArrayRef>,
        order: UInt32Array,
        next: usize,
    },
}

impl MergeCursor {
    pub(super) fn new(
        selected: Arc<Selected>,
        columns: Arc<Columns>,
        descending: bool,
        (fetch, test): (Option<usize>, Option<Arc<Test>>),
        (batch_rows, reservation): (usize, MemoryReservation),
    ) -> Self {
        let remaining = fetch.unwrap_or(usize::MAX);
        let merge_rows =
            (remaining as u64).saturating_mul(2).clamp(batch_rows as u64, merge_rows_max(batch_rows));
        let mut pending = stretches(&selected);
        if !descending {
            pending.reverse();
        }
        let current = Current::None;
        Self {
            selected,
            columns,
            batch_rows,
            descending,
            remaining,
            merge_rows,
            pending,
            current,
            test,
            reservation,
        }
    }

    /// The next batch, `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.remaining > 0 {
            let batch = match &mut self.current {
                Current::None => None,
                Current::Forward(cursor) => cursor.next()?,
                Current::Merged { stored, order, next } => {
                    let rows = self.batch_rows.min(order.len() - *next).min(self.remaining);
                    let wanted = order.slice(*next, rows);
                    *next += rows;
                    if rows == 0 { None } else { Some(gather(&self.columns, stored, &wanted)?) }
                }
            };
            match batch {
                Some(batch) => {
                    let batch = batch.slice(0, batch.num_rows().min(self.remaining));
                    self.remaining -= batch.num_rows();
                    return Ok(Some(batch));
                }
                None => {
                    let Some(stretch) = self.pending.pop() else { return Ok(None) };
                    self.current = self.begin(stretch)?;
                }
            }
        }
        Ok(None)
    }

    /// Starts on a stretch, or cuts it in two and starts on neither.
    fn begin(&mut self, stretch: Stretch) -> Result<Current> {
        // What was merged before has left.
        self.current = Current::None;
        self.reservation.free();
        if let [segment] = stretch.segments[..]
            && !self.descending
            && stretch.of.ascends(&stretch.of.segments[segment])
        {
            return Ok(Current::Forward(self.forward(&stretch, segment)));
        }
        let (first, last) = stretch.times;
        let tested_max = if self.test.is_some() { TESTED_MAX } else { 1 };
        if stretch.rows > self.merge_rows.saturating_mul(tested_max) && first < last {
            self.cut(&stretch)?;
            return Ok(Current::None);
        }
        let pieces = self.pieces(&stretch)?;
        let rows = pieces.iter().map(|piece| piece.rows.len() as u64).sum::<u64>();
        if rows > self.merge_rows && first < last {
            self.cut(&stretch)?;
            return Ok(Current::None);
        }
        let row_bytes = self.columns.row_bytes() + ORDER_BYTES;
        let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes);
        if let Err(refused) = self.reservation.try_resize(bytes) {
            if first == last {
                return Err(refused);
            }
            self.merge_rows = rows / 2;
            self.cut(&stretch)?;
            return Ok(Current::None);
        }
        self.merge_rows = (self.merge_rows * 4).min(merge_rows_max(self.batch_rows));
        self.merge(&stretch, &pieces)
    }

    /// The rows of a stretch, those of them that fulfil the condition.
    fn pieces(&self, stretch: &Stretch) -> Result<Vec<Piece>> {
        let segments = &stretch.of.segments;
        let all = stretch.segments.iter().flat_map(|&segment| pieces(segments, segment));
        let Some(test) = &self.test else { return Ok(all.collect()) };
        let mut left = Vec::new();
        let all: Vec<Piece> = all.collect();
        for of in all.chunk_by(|a, b| a.segment == b.segment) {
            let mut ranges = Vec::new();
            let mut rows = 0;
            let mut look = |ranges: &mut Vec<Range<usize>>| -> Result<()> {
                crate::wanted::look()?;
                let segment = of[0].segment;
                let found = kept(ranges, &test.rows(&segments[segment], ranges)?);
                left.extend(found.into_iter().map(|rows| Piece { segment, rows }));
                ranges.clear();
                Ok(())
            };
            for piece in of {
                let mut start = piece.rows.start;
                while start < piece.rows.end {
                    let end = piece.rows.end.min(start + (TESTED_ROWS - rows));
                    ranges.push(start..end);
                    rows += end - start;
                    start = end;
                    if rows == TESTED_ROWS {
                        look(&mut ranges)?;
                        rows = 0;
                    }
                }
            }
            if !ranges.is_empty() {
                look(&mut ranges)?;
            }
        }
        Ok(left)
    }

    fn forward(&self, stretch: &Stretch, segment: usize) -> NaturalCursor {
        let rows_before: usize = stretch.of.segments[..segment].iter().map(Segment::row_count).sum();
        let share = rows_before..rows_before + stretch.of.segments[segment].row_count();
        let (of, columns) = (Arc::clone(&stretch.of), Arc::clone(&self.columns));
        NaturalCursor::new(of, columns, share, self.batch_rows).tested(self.test.clone(), usize::MAX)
    }

    /// Selects the two halves of a stretch's time in its place.
    fn cut(&mut self, stretch: &Stretch) -> Result<()> {
        let (first, last) = stretch.times;
        let middle = first.midpoint(last) + 1;
        let halves = [TimeRange::new(first, middle), TimeRange::new(middle, last.saturating_add(1))];
        let mut parts = Vec::new();
        for half in halves {
            let selection = &self.selected.selection;
            let selection = Selection { time: selection.time.intersect(&half), ..selection.clone() };
            let selected = Selected::new(&self.selected.table, selection).map_err(external)?;
            parts.extend(stretches(&Arc::new(selected)));
        }
        if !self.descending {
            parts.reverse();
        }
        self.pending.extend(parts);
        Ok(())
    }

    /// Reads a stretch and sorts its rows by time.
    fn merge(&self, stretch: &Stretch, pieces: &[Piece]) -> Result<Current> {
        let segments = &stretch.of.segments;
        if pieces.is_empty() {
            return Ok(Current::None);
        }
        let timestamp = self.selected.table.schema().timestamp();
        let timestamp =
            timestamp.ok_or_else(|| internal_datafusion_err!("time order without a timestamp"))?;
        let times = read_column(segments, pieces, timestamp)?;
        let times = times
            .as_any()
            .downcast_ref::<TimestampNanosecondArray>()
            .ok_or_else(|| internal_datafusion_err!("designated timestamps are {}", times.data_type()))?;
        let mut order: Vec<(i64, u32)> = times.values().iter().copied().zip(0u32..).collect();
        // The rows are a few ascending sequences one after the other: this sort finds and merges them.
        order.sort_by_key(|&(time, _)| time);
        let order: UInt32Array = match self.descending {
            false => order.into_iter().map(|(_, row)| row).collect::<Vec<_>>().into(),
            true => order.into_iter().rev().map(|(_, row)| row).collect::<Vec<_>>().into(),
        };
        let stored = self.columns.read(segments, pieces)?;
        Ok(Current::Merged { stored, order, next: 0 })
    }
}

fn merge_rows_max(batch_rows: usize) -> u64 {
    MERGE_BATCHES_MAX * batch_rows as u64
}

fn gather(columns: &Columns, stored: &[ArrayRef], rows: &UInt32Array) -> Result<RecordBatch> {
    let taken = stored.iter().map(|array| take(array.as_ref(), rows, None).map_err(from_arrow));
    columns.batch(taken.collect::<Result<Vec<_>>>()?, rows.len())
}

/// A segment's rows as stretches of adjacent ones.
fn pieces(segments: &[Segment], segment: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for Range { start, end } in segments[segment].rows().iter().cloned() {
        match pieces.last_mut() {
            Some(last) if last.rows.end == start => last.rows.end = end,
            _ => pieces.push(Piece { segment, rows: start..end }),
        }
    }
    pieces
}

/// The segments that overlap in time, grouped, in order of time.
fn stretches(selected: &Arc<Selected>) -> Vec<Stretch> {
    let bounds = |index: usize| selected.times(&selected.segments[index]).unwrap_or((i64::MIN, i64::MAX));
    let mut order: Vec<usize> =
        (0..selected.segments.len()).filter(|&index| selected.segments[index].row_count() > 0).collect();
    order.sort_by_key(|&index| bounds(index));
    let mut stretches: Vec<Stretch> = Vec::new();
    for index in order {
        let (first, last) = bounds(index);
        let rows = selected.segments[index].row_count() as u64;
        match stretches.last_mut() {
            // Bounds that only touch are merged too, since the tie must go to the earlier source.
            Some(stretch) if first <= stretch.times.1 => {
                stretch.segments.push(index);
                stretch.times.1 = stretch.times.1.max(last);
                stretch.rows += rows;
            }
            _ => {
                let of = Arc::clone(selected);
                stretches.push(Stretch { of, segments: vec![index], times: (first, last), rows });
            }
        }
    }
    for stretch in &mut stretches {
        stretch.segments.sort_unstable();
    }
    stretches
}
