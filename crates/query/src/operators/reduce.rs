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

/// The state with all of `input` in it.
pub(super) async fn feed<S: Reduce>(
    mut state: S,
    mut input: SendableRecordBatchStream,
    baseline: BaselineMetrics,
) -> Result<S> {
    while let Some(batch) = input.next().await {
        let _timer = baseline.elapsed_compute().timer();
        state.update(&batch?)?;
    }
    Ok(state)
}

/// Runs a state over all of `input`; yields at most `batch_rows` rows at a time.
pub(super) fn reduce(
    state: impl Reduce,
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    batch_rows: usize,
    baseline: BaselineMetrics,
) -> SendableRecordBatchStream {
    let rows = async move {
        let mut state = feed(state, input, baseline.clone()).await?;
        let _timer = baseline.elapsed_compute().timer();
        let batch = state.finish()?;
        baseline.record_output(batch.num_rows());
        Ok(batch)
    };
    in_pieces(rows, schema, batch_rows)
}

/// A stream of the one batch that comes, in pieces of at most so many rows; an empty one has none.
pub(super) fn in_pieces(
    batch: impl Future<Output = Result<RecordBatch>> + Send + 'static,
    schema: SchemaRef,
    batch_rows: usize,
) -> SendableRecordBatchStream {
    let most = batch_rows.max(1);
    let pieces = futures::stream::once(batch).map_ok(move |batch| {
        let starts = (0..batch.num_rows()).step_by(most);
        futures::stream::iter(
            starts.map(move |start| Ok(batch.slice(start, most.min(batch.num_rows() - start)))),
        )
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, pieces.try_flatten()))
}
