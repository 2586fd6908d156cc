//! The merge behind ASOF JOIN that looks forward, or both ways: left rows wait for the next right row of their
//! key.
//!
//! Both sides are walked together in order of time. A left row that comes is entered as waiting; the next right
//! row of its key decides all that wait there. Looking both ways, the newest right row of the key so far is its
//! candidate meanwhile. Left batches go out in order, each once none of its rows waits any more, or none can be
//! matched by what is still to come.
//!
//! Memory holds the left batches from the oldest that waits on, and the right rows that they found: a key that
//! comes no more on the right holds them to the end of the right side, unless TOLERANCE says how long it may.

use super::node::AsOfOptions;
use super::side::{Side, with_right_rows};
use crate::arrays::pinned::{NOWHERE, PinnedRows, Place};
use crate::dialect::marker::Direction;
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use crate::operators::key::KeyIds;
use datafusion::arrow::array::{Array, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows entered as waiting, of batches that are out as well, above which the latter are looked for.
const ENTRIES_MIN: usize = 1 << 16;

pub(in crate::operators) struct WaitingMerge {
    left: Side,
    right: Side,
    /// Ids of both sides' keys.
    ids: KeyIds,
    right_columns: Vec<usize>,
    /// The right rows that were found; looking both ways, also the newest of each key.
    pinned: PinnedRows,
    /// Left batches that are not out, the oldest first, which has the number `first`.
    batches: VecDeque<LeftBatch>,
    first: usize,
    /// The left rows that wait, by key.
    waiting: Vec<Vec<Entry>>,
    entries: usize,
    options: AsOfOptions,
    schema: SchemaRef,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

struct LeftBatch {
    rows: RecordBatch,
    /// The right row of each row up to the one at hand.
    places: Vec<Place>,
    waiting: usize,
    /// Once right rows are past this time none of its rows can be matched any more.
    deadline: i64,
}

/// A left row that waits.
#[derive(Debug, Clone, Copy)]
struct Entry {
    batch: usize,
    row: usize,
    time: i64,
    /// The time of the right row before it, where it has one.
    candidate: Option<i64>,
}

impl WaitingMerge {
    pub(in crate::operators) fn try_new(
        exec: &TimeJoinExec,
        of: &AsOf,
        (left, right): (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let (left_schema, right_schema) = (exec.left_schema(), exec.right_schema());
        let types =
            exec.keys.0.iter().map(|key| key.data_type(&left_schema)).collect::<Result<Vec<DataType>>>()?;
        let right_types = of.right_columns.iter().map(|index| right_schema.field(*index).data_type().clone());
        Ok(Self {
            left: Side::new(left, &exec.times.0, &exec.keys.0),
            right: Side::new(right, &exec.times.1, &exec.keys.1),
            ids: KeyIds::try_new(&types)?,
            right_columns: of.right_columns.clone(),
            pinned: PinnedRows::new(right_types.collect()),
            batches: VecDeque::new(),
            first: 0,
            waiting: Vec::new(),
            entries: 0,
            options: of.options,
            schema: exec.schema(),
            reservation,
            baseline,
        })
    }

    /// The next batch of the result.
    pub(in crate::operators) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.pop_front_if(|batch| is_decided(batch, &self.right)) {
                self.first += 1;
                return self.emit(batch).map(Some);
            }
            if !self.left.done && self.left.row == self.left.times.len() {
                self.next_left().await?;
            } else if self.left.done && self.batches.is_empty() {
                return Ok(None);
            } else if !self.right.done && self.right.row == self.right.times.len() {
                self.next_right().await?;
            } else {
                self.walk();
            }
        }
    }

    async fn next_left(&mut self) -> Result<()> {
        let Some(rows) = self.left.stream.next().await else {
            self.left.done = true;
            return Ok(());
        };
        let rows = rows?;
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        self.left.begin(&rows, &mut self.ids)?;
        self.grow();
        let places = Vec::with_capacity(rows.num_rows());
        self.batches.push_back(LeftBatch { rows, places, waiting: 0, deadline: i64::MIN });
        self.account()
    }

    async fn next_right(&mut self) -> Result<()> {
        let Some(rows) = self.right.stream.next().await else {
            self.right.done = true;
            return Ok(());
        };
        let rows = rows?;
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        if self.pinned.is_heavy() {
            let places = self.batches.iter_mut().flat_map(|batch| &mut batch.places);
            self.pinned.compact_with(places.collect())?;
        }
        self.right.begin(&rows, &mut self.ids)?;
        self.grow();
        let columns = self.right_columns.iter().map(|index| Arc::clone(rows.column(*index)));
        self.pinned.add_batch(columns.collect(), rows.num_rows());
        self.account()
    }

    fn grow(&mut self) {
        self.pinned.grow(self.ids.len());
        self.waiting.resize_with(self.ids.len(), Vec::new);
    }

    fn account(&self) -> Result<()> {
        let left = self
            .batches
            .iter()
            .map(|batch| batch.rows.get_array_memory_size() + batch.places.capacity() * size_of::<Place>());
        let waiting = self.entries * size_of::<Entry>();
        self.reservation.try_resize(self.pinned.size() + self.ids.size() + left.sum::<usize>() + waiting)
    }

    /// Goes on in both batches at hand until one of them ends.
    fn walk(&mut self) {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        while self.left.row < self.left.times.len() || self.left.done {
            let right = time(&self.right.times, self.right.row);
            if right.is_none() {
                // At the end of the batch, or NULLs: they come last, so nothing after one can match.
                self.right.done |= self.right.row < self.right.times.len();
                if !self.right.done {
                    return;
                }
            }
            let left = time(&self.left.times, self.left.row);
            let comes_first = |left: i64, right: i64| match self.options.direction {
                // An equal right row decides what waits already.
                Direction::Forward if !self.options.strict => left <= right,
                _ => left < right,
            };
            match (left, right) {
                (Some(left), Some(right)) if !comes_first(left, right) => self.take_right(right),
                (None, Some(right)) if self.left.row == self.left.times.len() => self.take_right(right),
                (left, _) if self.left.row < self.left.times.len() => self.take_left(left),
                _ => return,
            }
            if self.left.done && self.batches.front().is_none_or(|front| front.waiting == 0) {
                return;
            }
        }
    }

    /// Enters the left row at hand.
    fn take_left(&mut self, time: Option<i64>) {
        let (row, key) = (self.left.row, self.left.ids[self.left.row]);
        self.left.row += 1;
        let number = self.first + self.batches.len() - 1;
        let Some(batch) = self.batches.back_mut() else { return };
        let Some(time) = time.filter(|_| !self.ids.is_null(key)) else {
            batch.places.push(NOWHERE);
            return;
        };
        let (place, at) = self.pinned.get(key);
        let candidate = (place != NOWHERE).then_some(at);
        batch.places.push(if self.options.tolerates(time, at) { place } else { NOWHERE });
        if self.right.done || candidate == Some(time) {
            return;
        }
        batch.waiting += 1;
        let apart = candidate.map(|at| time.saturating_sub(at));
        let apart = apart.into_iter().chain(self.options.tolerance).min();
        // A match may be as far away as there are times.
        batch.deadline = batch.deadline.max(apart.map_or(i64::MAX, |apart| time.saturating_add(apart)));
        self.waiting[key as usize].push(Entry { batch: number, row, time, candidate });
        self.entries += 1;
        if self.entries > ENTRIES_MIN.max(2 * self.batches.iter().map(|batch| batch.waiting).sum::<usize>()) {
            self.forget_emitted();
        }
    }

    /// Decides what waits for the right row at hand.
    fn take_right(&mut self, now: i64) {
        let (row, key) = (self.right.row, self.right.ids[self.right.row]);
        self.right.row += 1;
        if self.ids.is_null(key) {
            return;
        }
        let place = self.pinned.last(row);
        for entry in self.waiting[key as usize].drain(..) {
            self.entries -= 1;
            let Some(at) = entry.batch.checked_sub(self.first) else { continue };
            let batch = &mut self.batches[at];
            batch.waiting -= 1;
            let nearer =
                entry.candidate.is_none_or(|before| now.abs_diff(entry.time) < entry.time.abs_diff(before));
            if nearer && self.options.tolerates(entry.time, now) {
                batch.places[entry.row] = place;
            }
        }
        if self.options.direction == Direction::Nearest {
            self.pinned.keep(key, row, now);
        }
    }

    /// Lets go of what waits of batches that are out.
    fn forget_emitted(&mut self) {
        for entries in &mut self.waiting {
            entries.retain(|entry| entry.batch >= self.first);
        }
        self.entries = self.waiting.iter().map(Vec::len).sum();
    }

    fn emit(&mut self, batch: LeftBatch) -> Result<RecordBatch> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let joined =
            with_right_rows(&batch.rows, batch.places, &self.pinned, self.options.inner, &self.schema)?;
        self.baseline.record_output(joined.num_rows());
        Ok(joined)
    }
}

/// Whether a batch, the oldest, has its right rows.
fn is_decided(batch: &LeftBatch, right: &Side) -> bool {
    let past = || time(&right.times, right.row).is_some_and(|now| now > batch.deadline);
    batch.places.len() == batch.rows.num_rows() && (batch.waiting == 0 || right.done || past())
}

fn time(times: &TimestampNanosecondArray, row: usize) -> Option<i64> {
    (row < times.len() && times.is_valid(row)).then(|| times.value(row))
}
