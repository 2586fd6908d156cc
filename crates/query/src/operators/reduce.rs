//! What operators that need their whole input before the first row share: feed a state batch by batch,
//! then yield its one result in pieces.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

/// The state of one execution.
pub(super) trait Reduce: Send + 'static {
    /// Takes in some rows.
    fn update(&mut self, batch: &RecordBatch) -> Result<()>;

    /// The result, when all rows are in.
    fn finish(&mut self) -> Result<RecordBatch>;
}

/// Runs a state over all of `input`; yields at most `batch_rows` rows at a time.
pub(super) fn reduce(
    mut state: impl Reduce,
    mut input: SendableRecordBatchStream,
    schema: SchemaRef,
    batch_rows: usize,
    baseline: BaselineMetrics,
) -> SendableRecordBatchStream {
    let rows = async move {
        while let Some(batch) = input.next().await {
            let _timer = baseline.elapsed_compute().timer();
            state.update(&batch?)?;
        }
        let _timer = baseline.elapsed_compute().timer();
        let batch = state.finish()?;
        baseline.record_output(batch.num_rows());
        Ok::<_, datafusion::error::DataFusionError>(pieces(&batch, batch_rows))
    };
    let stream =
        futures::stream::once(rows).map_ok(|pieces| futures::stream::iter(pieces).map(Ok)).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// A batch in pieces of at most so many rows; an empty batch has none.
fn pieces(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts.map(|start| batch.slice(start, rows.max(1).min(batch.num_rows() - start))).collect()
}
