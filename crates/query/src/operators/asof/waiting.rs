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

use super::side::{Both, Side};
use crate::arrays::pinned::{NOWHERE, Place};
use crate::dialect::marker::Direction;
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use datafusion::arrow::array::{Array, TimestampNanosecondArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use std::collections::VecDeque;

/// Rows entered as waiting, of batches that are out as well, above which the latter are looked for.
const ENTRIES_MIN: usize = 1 << 16;

pub(in crate::operators) struct WaitingMerge {
    /// Holds the right rows that were found; looking both ways, also the newest of each key.
    both: Both,
    /// Left batches that are not out, the oldest first, which has the number `first`.
    batches: VecDeque<LeftBatch>,
    first: usize,
    /// The left rows that wait, by key.
    waiting: Vec<Vec<Entry>>,
    entries: usize,
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
        inputs: (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let both = Both::try_new(exec, of, inputs, reservation, baseline)?;
        Ok(Self { both, batches: VecDeque::new(), first: 0, waiting: Vec::new(), entries: 0 })
    }

    /// The next batch of the result.
    pub(in crate::operators) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.pop_front_if(|batch| is_decided(batch, &self.both.right)) {
                self.first += 1;
                return self.both.joined(&batch.rows, batch.places).map(Some);
            }
            if !self.both.left.done && self.both.left.row == self.both.left.times.len() {
                self.next_left().await?;
            } else if self.both.left.done && self.batches.is_empty() {
                return Ok(None);
            } else if !self.both.right.done && self.both.right.row == self.both.right.times.len() {
                self.next_right().await?;
            } else {
                self.walk();
            }
        }
    }

    async fn next_left(&mut self) -> Result<()> {
        let Some(rows) = self.both.left.pull().await? else { return Ok(()) };
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        self.both.begin_left(&rows)?;
        self.both.pinned.grow(self.both.ids.len());
        let places = Vec::with_capacity(rows.num_rows());
        self.batches.push_back(LeftBatch { rows, places, waiting: 0, deadline: i64::MIN });
        self.account()
    }

    async fn next_right(&mut self) -> Result<()> {
        let Some(rows) = self.both.right.pull().await? else { return Ok(()) };
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        if self.both.pinned.is_heavy() {
            let places = self.batches.iter_mut().flat_map(|batch| &mut batch.places);
            self.both.pinned.compact_with(places.collect())?;
        }
        self.both.begin_right(&rows)?;
        self.account()
    }

    /// Makes room for the keys and accounts for what is held.
    fn account(&mut self) -> Result<()> {
        self.waiting.resize_with(self.both.ids.len(), Vec::new);
        let left = self
            .batches
            .iter()
            .map(|batch| batch.rows.get_array_memory_size() + batch.places.capacity() * size_of::<Place>());
        let waiting = self.entries * size_of::<Entry>();
        self.both
            .reservation
            .try_resize(self.both.pinned.size() + self.both.ids.size() + left.sum::<usize>() + waiting)
    }

    /// Goes on in both batches at hand until one of them ends.
    fn walk(&mut self) {
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        while self.both.left.row < self.both.left.times.len() || self.both.left.done {
            let right = time(&self.both.right.times, self.both.right.row);
            if right.is_none() {
                // At the end of the batch, or NULLs: they come last, so nothing after one can match.
                self.both.right.done |= self.both.right.row < self.both.right.times.len();
                if !self.both.right.done {
                    return;
                }
            }
            let left = time(&self.both.left.times, self.both.left.row);
            let comes_first = |left: i64, right: i64| match self.both.options.direction {
                // An equal right row decides what waits already.
                Direction::Forward if !self.both.options.strict => left <= right,
                _ => left < right,
            };
            match (left, right) {
                (Some(left), Some(right)) if !comes_first(left, right) => self.take_right(right),
                (None, Some(right)) if self.both.left.row == self.both.left.times.len() => {
                    self.take_right(right)
                }
                (left, _) if self.both.left.row < self.both.left.times.len() => self.take_left(left),
                _ => return,
            }
            if self.both.left.done && self.batches.front().is_none_or(|front| front.waiting == 0) {
                return;
            }
        }
    }

    /// Enters the left row at hand.
    fn take_left(&mut self, time: Option<i64>) {
        let (row, key) = (self.both.left.row, self.both.left.ids[self.both.left.row]);
        self.both.left.row += 1;
        let number = self.first + self.batches.len() - 1;
        let Some(batch) = self.batches.back_mut() else { return };
        let Some(time) = time.filter(|_| !self.both.ids.is_null(key)) else {
            batch.places.push(NOWHERE);
            return;
        };
        let (place, at) = self.both.pinned.get(key);
        let candidate = (place != NOWHERE).then_some(at);
        batch.places.push(if self.both.options.tolerates(time, at) { place } else { NOWHERE });
        if self.both.right.done || candidate == Some(time) {
            return;
        }
        batch.waiting += 1;
        let apart = candidate.map(|at| time.saturating_sub(at));
        let apart = apart.into_iter().chain(self.both.options.tolerance).min();
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
        let (row, key) = (self.both.right.row, self.both.right.ids[self.both.right.row]);
        self.both.right.row += 1;
        if self.both.ids.is_null(key) {
            return;
        }
        let place = self.both.pinned.last(row);
        for entry in self.waiting[key as usize].drain(..) {
            self.entries -= 1;
            let Some(at) = entry.batch.checked_sub(self.first) else { continue };
            let batch = &mut self.batches[at];
            batch.waiting -= 1;
            let nearer =
                entry.candidate.is_none_or(|before| now.abs_diff(entry.time) < entry.time.abs_diff(before));
            if nearer && self.both.options.tolerates(entry.time, now) {
                batch.places[entry.row] = place;
            }
        }
        if self.both.options.direction == Direction::Nearest {
            self.both.pinned.keep(key, row, now);
        }
    }

    /// Lets go of what waits of batches that are out.
    fn forget_emitted(&mut self) {
        for entries in &mut self.waiting {
            entries.retain(|entry| entry.batch >= self.first);
        }
        self.entries = self.waiting.iter().map(Vec::len).sum();
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
