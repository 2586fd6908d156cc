//! What both merges behind ASOF JOIN share: an input that is read batch by batch, and joined rows.

use super::node::AsOfOptions;
use crate::arrays::pinned::{NOWHERE, PinnedRows, Place};
use crate::operators::below::batch_of;
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, TimestampNanosecondArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{BaselineMetrics, Time};
use futures::StreamExt;
use std::sync::Arc;

/// Both inputs, and the right rows that are held.
pub(super) struct Both {
    pub(super) left: Side,
    pub(super) right: Side,
    /// Ids of both sides' keys.
    pub(super) ids: KeyIds,
    pub(super) pinned: PinnedRows,
    right_columns: Vec<usize>,
    pub(super) options: AsOfOptions,
    schema: SchemaRef,
    pub(super) reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Both {
    pub(super) fn try_new(
        exec: &TimeJoinExec,
        of: &AsOf,
        (left, right): (SendableRecordBatchStream, SendableRecordBatchStream),
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let right_schema = exec.right_schema();
        let right_types = of.right_columns.iter().map(|index| right_schema.field(*index).data_type().clone());
        Ok(Self {
            left: Side::new(left, &exec.times.0, &exec.keys.0),
            right: Side::new(right, &exec.times.1, &exec.keys.1),
            ids: KeyIds::of(&exec.keys.0, &exec.left_schema())?,
            pinned: PinnedRows::new(right_types.collect()),
            right_columns: of.right_columns.clone(),
            options: of.options,
            schema: exec.schema(),
            reservation,
            baseline,
        })
    }

    /// Where the time that work takes is counted.
    pub(super) fn elapsed(&self) -> Time {
        self.baseline.elapsed_compute().clone()
    }

    /// Begins on left rows.
    pub(super) fn begin_left(&mut self, rows: &RecordBatch) -> Result<()> {
        self.left.begin(rows, &mut self.ids)
    }

    /// Begins on right rows, which are held.
    pub(super) fn begin_right(&mut self, rows: &RecordBatch) -> Result<()> {
        self.right.begin(rows, &mut self.ids)?;
        self.pinned.grow(self.ids.len());
        let columns = self.right_columns.iter().map(|index| Arc::clone(rows.column(*index)));
        self.pinned.add_batch(columns.collect(), rows.num_rows());
        Ok(())
    }

    /// Left rows with the right rows at their places; those that have none are dropped by an inner join.
    pub(super) fn joined(&self, left: &RecordBatch, mut places: Vec<Place>) -> Result<RecordBatch> {
        let _timer = self.baseline.elapsed_compute().timer();
        let mut columns = left.columns().to_vec();
        if self.options.inner && places.contains(&NOWHERE) {
            let found: BooleanArray = places.iter().map(|place| Some(*place != NOWHERE)).collect();
            columns = filter_record_batch(left, &found)?.columns().to_vec();
            places.retain(|place| *place != NOWHERE);
        }
        columns.extend(self.pinned.rows(&places)?);
        self.baseline.record_output(places.len());
        batch_of(&self.schema, columns, places.len())
    }
}

/// One input and how far it has been read.
pub(super) struct Side {
    stream: SendableRecordBatchStream,
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    reader: KeyReader,
    pub(super) times: TimestampNanosecondArray,
    pub(super) ids: Vec<u32>,
    /// The next row to look at.
    pub(super) row: usize,
    pub(super) done: bool,
}

impl Side {
    fn new(
        stream: SendableRecordBatchStream,
        time: &Arc<dyn PhysicalExpr>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Self {
        Self {
            stream,
            time: Arc::clone(time),
            keys: keys.to_vec(),
            reader: KeyReader::new(keys.len()),
            times: TimestampNanosecondArray::from(Vec::<i64>::new()),
            ids: Vec::new(),
            row: 0,
            done: false,
        }
    }

    /// The next batch, `None` after the last.
    pub(super) async fn pull(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.stream.next().await.transpose()?;
        self.done |= rows.is_none();
        Ok(rows)
    }

    /// Reads the times and key ids of a batch.
    fn begin(&mut self, batch: &RecordBatch, ids: &mut KeyIds) -> Result<()> {
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        self.times = evaluate(&self.time)?.as_primitive::<TimestampNanosecondType>().clone();
        let keys = self.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        self.ids.clear();
        ids.read(&keys, rows, &mut self.reader, &mut self.ids)?;
        self.row = 0;
        Ok(())
    }
}
