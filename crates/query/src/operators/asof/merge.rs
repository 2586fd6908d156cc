//! The merge behind ASOF JOIN that looks back: a left row at a time, the right side up to it.
//!
//! Invariants between two left rows:
//! - every right row not later than the last left row has been seen, and no other;
//! - for each key the newest of them is kept, the last to come among equals.

use super::side::Both;
use crate::arrays::pinned::{NOWHERE, Place};
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use datafusion::arrow::array::Array;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;

pub(in crate::operators) struct Merge {
    both: Both,
    /// The left batch at hand: rows before `emitted` are out, rows before `left.row` are matched.
    batch: RecordBatch,
    emitted: usize,
    matches: Vec<Place>,
}

impl Merge {
    pub(in crate::operators) fn try_new(
        exec: &TimeJoinExec,
        of: &AsOf,
        inputs: (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let batch = RecordBatch::new_empty(exec.left_schema());
        let both = Both::try_new(exec, of, inputs, reservation, baseline)?;
        Ok(Self { both, batch, emitted: 0, matches: Vec::new() })
    }

    /// The next batch of the result.
    pub(in crate::operators) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.both.left.row == self.batch.num_rows() {
                if self.emitted < self.both.left.row {
                    return self.emit().map(Some);
                }
                if !self.next_left().await? {
                    return Ok(None);
                }
                continue;
            }
            if self.match_rows() {
                continue;
            }
            // The right side must go on. Rows already matched go out before their batches are let go.
            if self.both.pinned.is_heavy() {
                if self.emitted < self.both.left.row {
                    return self.emit().map(Some);
                }
                self.both.pinned.compact()?;
            }
            self.next_right().await?;
        }
    }

    async fn next_left(&mut self) -> Result<bool> {
        let Some(batch) = self.both.left.pull().await? else { return Ok(false) };
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        self.both.begin_left(&batch)?;
        self.batch = batch;
        self.emitted = 0;
        Ok(true)
    }

    async fn next_right(&mut self) -> Result<()> {
        let Some(batch) = self.both.right.pull().await? else { return Ok(()) };
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        self.both.begin_right(&batch)?;
        self.both.reservation.try_resize(self.both.pinned.size() + self.both.ids.size())
    }

    /// Matches left rows until the batch ends (`true`) or more of the right side is needed (`false`).
    fn match_rows(&mut self) -> bool {
        let elapsed = self.both.elapsed();
        let _timer = elapsed.timer();
        let rows = self.batch.num_rows();
        while self.both.left.row < rows {
            let row = self.both.left.row;
            if self.both.left.times.is_null(row) {
                self.matches.push(NOWHERE);
                self.both.left.row += 1;
                continue;
            }
            let time = self.both.left.times.value(row);
            if !self.advance_right(time) {
                return false;
            }
            let place = self.look_up(self.both.left.ids[row], time);
            self.matches.push(place);
            self.both.left.row += 1;
        }
        true
    }

    /// Takes the right rows that a left row at `time` may match; `false` if the batch at hand ends first.
    fn advance_right(&mut self, time: i64) -> bool {
        let right = &mut self.both.right;
        if right.done {
            return true;
        }
        let times = right.times.values();
        let has_nulls = right.times.null_count() > 0;
        while let Some(&at) = times.get(right.row) {
            // NULL times come last, so nothing after one can match.
            if has_nulls && right.times.is_null(right.row) {
                right.done = true;
                return true;
            }
            if at > time || (self.both.options.strict && at == time) {
                return true;
            }
            self.both.pinned.keep(right.ids[right.row], right.row, at);
            right.row += 1;
        }
        false
    }

    fn look_up(&self, key: u32, time: i64) -> Place {
        let (place, at) = self.both.pinned.get(key);
        let stands = place != NOWHERE && self.both.options.tolerates(time, at) && !self.both.ids.is_null(key);
        if stands { place } else { NOWHERE }
    }

    /// The left rows matched since the last time, with their right rows.
    fn emit(&mut self) -> Result<RecordBatch> {
        let left = self.batch.slice(self.emitted, self.both.left.row - self.emitted);
        self.emitted = self.both.left.row;
        self.both.joined(&left, std::mem::take(&mut self.matches))
    }
}
