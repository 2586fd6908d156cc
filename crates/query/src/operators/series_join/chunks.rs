//! Two inputs in order of time, joined a chunk at a time: what any input can be joined by.
//!
//! A chunk is some left rows and the right rows that they may look at; both are put together by key, and then
//! joined as series are. Of the right rows those stay for the next chunk that its left rows may look at: the
//! rows of the widest window, and the last one of each key before it. Of a splice a chunk is the rows of both
//! sides before the time up to which both are known, and the last row of each key stays.
//!
//! A chunk grows with what is kept beside it, so that the work stays in proportion to the rows.

use super::node::Kind;
use super::rows::{Joined, Matched, Shape, SideRows};
use crate::operators::joins::exec::TimeJoinExec;
use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{Stream, StreamExt, TryStreamExt};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a result that a chunk makes at most, but for the first left row.
const RESULT_ROWS_MAX: usize = 1 << 20;

/// A chunk has a left row for at most so many rows kept beside it.
const KEPT_RATIO: usize = 8;

/// No time: after all others, as the inputs have them.
const NO_TIME: i64 = i64::MAX;

/// One input, read as far as it was needed.
struct Side {
    stream: SendableRecordBatchStream,
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    reader: KeyReader,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Of all rows in the batches: their times, their keys, and whether they can match: both are there.
    times: Vec<i64>,
    ids: Vec<u32>,
    matches: Vec<bool>,
    done: bool,
}

impl Side {
    fn new(
        stream: SendableRecordBatchStream,
        time: &Arc<dyn PhysicalExpr>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Self {
        Self {
            schema: stream.schema(),
            stream,
            time: Arc::clone(time),
            keys: keys.to_vec(),
            reader: KeyReader::new(keys.len()),
            batches: Vec::new(),
            times: Vec::new(),
            ids: Vec::new(),
            matches: Vec::new(),
            done: false,
        }
    }

    /// Reads one more batch.
    async fn pull(&mut self, ids: &mut KeyIds) -> Result<()> {
        let Some(batch) = self.stream.next().await else {
            self.done = true;
            return Ok(());
        };
        let batch = batch?;
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        let times = evaluate(&self.time)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let keys = self.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        let start = self.ids.len();
        ids.read(&keys, rows, &mut self.reader, &mut self.ids)?;
        self.times.extend(times.iter().map(|time| time.unwrap_or(NO_TIME)));
        let of_keys = self.ids[start..].iter().map(|id| !ids.is_null(*id));
        self.matches.extend(of_keys.enumerate().map(|(row, whole)| whole && times.is_valid(row)));
        self.batches.push(batch);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.times.len()
    }

    /// Bytes it holds, roughly.
    fn size(&self) -> usize {
        let batches: usize = self.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        batches + self.rows() * 13
    }

    /// All rows that are held, in one batch.
    fn batch(&mut self) -> Result<RecordBatch> {
        let batch = match self.batches.as_slice() {
            [only] => only.clone(),
            batches => concat_batches(&self.schema, batches)?,
        };
        self.batches = vec![batch.clone()];
        Ok(batch)
    }

    /// Lets go of all rows but these, which ascend.
    fn keep(&mut self, rows: Vec<u32>) -> Result<()> {
        self.times = rows.iter().map(|row| self.times[*row as usize]).collect();
        self.ids = rows.iter().map(|row| self.ids[*row as usize]).collect();
        self.matches = rows.iter().map(|row| self.matches[*row as usize]).collect();
        let batch = self.batch()?;
        self.batches = vec![take_record_batch(&batch, &UInt32Array::from(rows))?];
        Ok(())
    }

    /// The rows by key, in order of time: (key, row). Rows that cannot match are keys of their own, after the
    /// others by `apart`.
    fn by_key(&self, rows: Range<usize>, apart: u64) -> Vec<(u64, u32)> {
        let key = |row: usize| {
            if self.matches[row] { u64::from(self.ids[row]) } else { apart + u64::from(self.ids[row]) }
        };
        let mut ordered: Vec<(u64, u32)> = rows.map(|row| (key(row), row as u32)).collect();
        // Rows come in order of time.
        ordered.sort_unstable();
        ordered
    }

    /// Rows in an order, put together.
    fn gathered(&mut self, ordered: &[(u64, u32)], ends: Vec<usize>) -> Result<SideRows> {
        let rows: UInt32Array = ordered.iter().map(|(_, row)| *row).collect::<Vec<_>>().into();
        let times = ordered.iter().map(|(_, row)| self.times[*row as usize]).collect::<Vec<_>>();
        let batch = take_record_batch(&self.batch()?, &rows)?;
        Ok(SideRows { batch, times: times.into(), ends, numbers: None })
    }
}

pub(in crate::operators) struct Chunks {
    left: Side,
    right: Side,
    /// Ids of both sides' keys.
    ids: KeyIds,
    shape: Shape,
    /// Rows of a splice before this time are out.
    from: i64,
    /// Left rows of a chunk, at least, if there are as many.
    chunk_rows: usize,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Chunks {
    pub(in crate::operators) fn try_new(
        join: &TimeJoinExec,
        shape: &Shape,
        (left, right): (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let ids = KeyIds::of(&join.keys.0, &left.schema())?;
        Ok(Self {
            left: Side::new(left, &join.times.0, &join.keys.0),
            right: Side::new(right, &join.times.1, &join.keys.1),
            ids,
            shape: shape.clone(),
            from: i64::MIN,
            chunk_rows: 1,
            reservation,
            baseline,
        })
    }

    /// The rows in batches of at most so many, made as they are asked for.
    pub(in crate::operators) fn batches(self, most: usize) -> impl Stream<Item = Result<RecordBatch>> {
        let shape = self.shape.clone();
        let chunks = futures::stream::try_unfold(self, |mut chunks| async move {
            Ok::<_, DataFusionError>(chunks.next().await?.map(|joined| (joined, chunks)))
        });
        let batches = chunks.map_ok(move |joined| {
            let (shape, rows) = (shape.clone(), joined.rows());
            let starts = (0..rows).step_by(most);
            futures::stream::iter(
                starts.map(move |start| joined.batch(&shape, start..rows.min(start + most))),
            )
        });
        batches.try_flatten()
    }

    /// The result of the next chunk.
    async fn next(&mut self) -> Result<Option<Joined>> {
        let found = match self.shape.kind {
            Kind::Splice => self.next_of_both().await?,
            _ => self.next_of_left().await?,
        };
        let Some(mut joined) = found else {
            self.reservation.free();
            return Ok(None);
        };
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        if self.shape.kind == Kind::Splice {
            joined.sort();
        }
        self.reservation.try_resize(self.size() + joined.size())?;
        self.baseline.record_output(joined.rows());
        Ok(Some(joined))
    }

    fn size(&self) -> usize {
        self.left.size() + self.right.size() + self.ids.size()
    }

    fn account(&self) -> Result<()> {
        self.reservation.try_resize(self.size())
    }

    async fn next_of_left(&mut self) -> Result<Option<Joined>> {
        let (low, high) = self.shape.kind.reach();
        let most = (RESULT_ROWS_MAX / self.shape.kind.rows_per_left()).max(1);
        while !self.left.done && self.left.rows() < self.chunk_rows.min(most) {
            self.left.pull(&mut self.ids).await?;
            self.account()?;
        }
        let rows = self.left.rows().min(most);
        if rows == 0 {
            return Ok(None);
        }
        // Rows without a time come last.
        let timed = self.left.times[..rows].partition_point(|time| *time < NO_TIME);
        let last = timed.checked_sub(1).map(|row| self.left.times[row]);
        let needed = last.map(|last| last.saturating_add(high));
        while !self.right.done && needed.is_some_and(|to| self.right.times.last().is_none_or(|at| *at <= to))
        {
            self.right.pull(&mut self.ids).await?;
            self.account()?;
        }
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let (left, right) = (0..rows, 0..self.right.rows());
        let matched = self.matched(left, right, false)?;
        self.left.keep((rows as u32..self.left.rows() as u32).collect())?;
        if let Some(last) = last {
            self.keep_right(last.saturating_add(low))?;
        }
        self.chunk_rows = (self.right.rows() / KEPT_RATIO).max(1);
        self.shape.join(matched).map(Some)
    }

    /// Keeps the right rows that windows may hold that begin at a time or later.
    fn keep_right(&mut self, start: i64) -> Result<()> {
        let rows = self.right.times.partition_point(|time| *time < start);
        let mut kept = self.lasts(&Which::Right, rows);
        kept.extend((rows..self.right.rows()).filter(|row| self.right.matches[*row]).map(|row| row as u32));
        // Few go: most often it is not worth the copy.
        if kept.len() > self.right.rows() / 2 {
            return Ok(());
        }
        self.right.keep(kept)
    }

    /// The last row that can match of each key, of the first `rows`, in order.
    fn lasts(&self, side: &Which, rows: usize) -> Vec<u32> {
        let side = match side {
            Which::Left => &self.left,
            Which::Right => &self.right,
        };
        let mut last = vec![u32::MAX; self.ids.len()];
        for row in (0..rows).filter(|row| side.matches[*row]) {
            last[side.ids[row] as usize] = row as u32;
        }
        let mut lasts: Vec<u32> = last.into_iter().filter(|row| *row != u32::MAX).collect();
        lasts.sort_unstable();
        lasts
    }

    async fn next_of_both(&mut self) -> Result<Option<Joined>> {
        loop {
            // The time before which all rows of both sides are known.
            let edge = |side: &Side| (!side.done).then(|| side.times.last().copied().unwrap_or(i64::MIN));
            let (left, right) = (edge(&self.left), edge(&self.right));
            let to = left.into_iter().chain(right).min();
            let before = |side: &Side| match to {
                Some(to) => side.times.partition_point(|time| *time < to),
                None => side.rows(),
            };
            let rows = (before(&self.left), before(&self.right));
            let fresh = |side: &Side, rows: usize| {
                rows - side.times.partition_point(|time| *time < self.from).min(rows)
            };
            let found = fresh(&self.left, rows.0) + fresh(&self.right, rows.1);
            let kept = self.left.rows() + self.right.rows() - found;
            if to.is_none() && found == 0 {
                return Ok(None);
            }
            if to.is_some() && (found == 0 || found < kept / KEPT_RATIO) {
                let behind = if left.is_some() && left == to { &mut self.left } else { &mut self.right };
                behind.pull(&mut self.ids).await?;
                self.account()?;
                continue;
            }
            let elapsed = self.baseline.elapsed_compute().clone();
            let _timer = elapsed.timer();
            let matched = self.matched(0..rows.0, 0..rows.1, true)?;
            let keep = |this: &Self, which: Which, rows: usize, all: usize| {
                let mut kept = this.lasts(&which, rows);
                kept.extend(rows as u32..all as u32);
                kept
            };
            let left = keep(self, Which::Left, rows.0, self.left.rows());
            let right = keep(self, Which::Right, rows.1, self.right.rows());
            // At the end nothing stands beside anything any more.
            let ended = to.is_none();
            self.left.keep(if ended { Vec::new() } else { left })?;
            self.right.keep(if ended { Vec::new() } else { right })?;
            self.from = to.unwrap_or(NO_TIME);
            return self.shape.join(matched).map(Some);
        }
    }

    /// Rows of both sides by key; those that can match nothing only where `full`, or on the left.
    fn matched(&mut self, left: Range<usize>, right: Range<usize>, full: bool) -> Result<Matched> {
        let ids = self.ids.len() as u64;
        let left = self.left.by_key(left, ids);
        let mut right = self.right.by_key(right, 2 * ids);
        if !full {
            right.truncate(right.partition_point(|(key, _)| *key < ids));
        }
        let (mut left_ends, mut right_ends) = (Vec::new(), Vec::new());
        let (mut i, mut j, mut kept) = (0, 0, Vec::with_capacity(right.len()));
        while i < left.len() || (full && j < right.len()) {
            let key = match (left.get(i), right.get(j)) {
                (Some((l, _)), Some((r, _))) if full => *l.min(r),
                (Some((l, _)), _) => *l,
                (None, Some((r, _))) => *r,
                (None, None) => break,
            };
            i += left[i..].iter().take_while(|(of, _)| *of == key).count();
            // Right rows of keys that the left side lacks are left out.
            j += right[j..].iter().take_while(|(of, _)| *of < key).count();
            let of_key = right[j..].iter().take_while(|(of, _)| *of == key).count();
            kept.extend_from_slice(&right[j..j + of_key]);
            j += of_key;
            left_ends.push(i);
            right_ends.push(kept.len());
        }
        let order = (!full).then(|| left.iter().map(|(_, row)| *row).collect());
        let from = if full { self.from } else { i64::MIN };
        let left = self.left.gathered(&left, left_ends)?;
        let right = self.right.gathered(&kept, right_ends)?;
        Ok(Matched { left, right, from, order })
    }
}

enum Which {
    Left,
    Right,
}
