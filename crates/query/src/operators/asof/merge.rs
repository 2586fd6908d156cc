//! The merge behind ASOF JOIN that looks back: a left row at a time, the right side up to it.
//!
//! Invariants between two left rows:
//! - every right row not later than the last left row has been seen, and no other;
//! - for each key the newest of them is kept, the last to come among equals.

use super::node::AsOfOptions;
use super::side::{Side, with_right_rows};
use crate::arrays::pinned::{NOWHERE, PinnedRows, Place};
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use crate::operators::key::KeyIds;
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use std::sync::Arc;

pub(in crate::operators) struct Merge {
    left: Side,
    right: Side,
    /// Ids of both sides' keys.
    ids: KeyIds,
    right_columns: Vec<usize>,
    kept: PinnedRows,
    /// The left batch at hand: rows before `emitted` are out, rows before `left.row` are matched.
    batch: RecordBatch,
    emitted: usize,
    matches: Vec<Place>,
    options: AsOfOptions,
    schema: SchemaRef,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Merge {
    pub(in crate::operators) fn try_new(
        exec: &TimeJoinExec,
        of: &AsOf,
        (left, right): (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        use datafusion::physical_plan::ExecutionPlan;
        let (left_schema, right_schema) = (exec.left_schema(), exec.right_schema());
        let types =
            exec.keys.0.iter().map(|key| key.data_type(&left_schema)).collect::<Result<Vec<DataType>>>()?;
        let right_types = of.right_columns.iter().map(|index| right_schema.field(*index).data_type().clone());
        Ok(Self {
            left: Side::new(left, &exec.times.0, &exec.keys.0),
            right: Side::new(right, &exec.times.1, &exec.keys.1),
            ids: KeyIds::try_new(&types)?,
            right_columns: of.right_columns.clone(),
            kept: PinnedRows::new(right_types.collect()),
            batch: RecordBatch::new_empty(left_schema),
            emitted: 0,
            matches: Vec::new(),
            options: of.options,
            schema: exec.schema(),
            reservation,
            baseline,
        })
    }

    /// The next batch of the result.
    pub(in crate::operators) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left.row == self.batch.num_rows() {
                if self.emitted < self.left.row {
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
            if self.kept.is_heavy() {
                if self.emitted < self.left.row {
                    return self.emit().map(Some);
                }
                self.kept.compact()?;
            }
            self.next_right().await?;
        }
    }

    async fn next_left(&mut self) -> Result<bool> {
        let Some(batch) = self.left.stream.next().await else { return Ok(false) };
        let batch = batch?;
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        self.left.begin(&batch, &mut self.ids)?;
        self.batch = batch;
        self.emitted = 0;
        Ok(true)
    }

    async fn next_right(&mut self) -> Result<()> {
        let Some(batch) = self.right.stream.next().await else {
            self.right.done = true;
            return Ok(());
        };
        let batch = batch?;
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        self.right.begin(&batch, &mut self.ids)?;
        self.kept.grow(self.ids.len());
        let columns = self.right_columns.iter().map(|index| Arc::clone(batch.column(*index)));
        self.kept.add_batch(columns.collect(), batch.num_rows());
        self.reservation.try_resize(self.kept.size() + self.ids.size())
    }

    /// Matches left rows until the batch ends (`true`) or more of the right side is needed (`false`).
    fn match_rows(&mut self) -> bool {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let rows = self.batch.num_rows();
        while self.left.row < rows {
            let row = self.left.row;
            if self.left.times.is_null(row) {
                self.matches.push(NOWHERE);
                self.left.row += 1;
                continue;
            }
            let time = self.left.times.value(row);
            if !self.advance_right(time) {
                return false;
            }
            let place = self.look_up(self.left.ids[row], time);
            self.matches.push(place);
            self.left.row += 1;
        }
        true
    }

    /// Takes the right rows that a left row at `time` may match; `false` if the batch at hand ends first.
    fn advance_right(&mut self, time: i64) -> bool {
        let right = &mut self.right;
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
            if at > time || (self.options.strict && at == time) {
                return true;
            }
            self.kept.keep(right.ids[right.row], right.row, at);
            right.row += 1;
        }
        false
    }

    fn look_up(&self, key: u32, time: i64) -> Place {
        let (place, at) = self.kept.get(key);
        let stands = place != NOWHERE && self.options.tolerates(time, at) && !self.ids.is_null(key);
        if stands { place } else { NOWHERE }
    }

    /// The left rows matched since the last time, with their right rows.
    fn emit(&mut self) -> Result<RecordBatch> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let count = self.left.row - self.emitted;
        let left = self.batch.slice(self.emitted, count);
        self.emitted = self.left.row;
        let places = std::mem::take(&mut self.matches);
        let joined = with_right_rows(&left, places, &self.kept, self.options.inner, &self.schema)?;
        self.baseline.record_output(joined.num_rows());
        Ok(joined)
    }
}
