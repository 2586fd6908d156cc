//! What both merges behind ASOF JOIN share: an input that is read batch by batch, and joined rows.

use crate::arrays::pinned::{NOWHERE, PinnedRows, Place};
use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, TimestampNanosecondArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// One input and how far it has been read.
pub(super) struct Side {
    pub(super) stream: SendableRecordBatchStream,
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
    pub(super) fn new(
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

    /// Reads the times and key ids of a batch.
    pub(super) fn begin(&mut self, batch: &RecordBatch, ids: &mut KeyIds) -> Result<()> {
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

/// Left rows with the right rows at their places; those that have none are dropped where `inner`.
pub(super) fn with_right_rows(
    left: &RecordBatch,
    mut places: Vec<Place>,
    right: &PinnedRows,
    inner: bool,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut columns = left.columns().to_vec();
    if inner && places.contains(&NOWHERE) {
        let found: BooleanArray = places.iter().map(|place| Some(*place != NOWHERE)).collect();
        columns = filter_record_batch(left, &found)?.columns().to_vec();
        places.retain(|place| *place != NOWHERE);
    }
    columns.extend(right.rows(&places)?);
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
