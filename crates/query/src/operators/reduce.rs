//! What operators that need their whole input before the first row share: feed a state batch by batch,
//! then yield its one result in pieces.
//!
//! A state reserves the memory it takes; a result of several pieces is reserved until the last of them has left.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
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

/// Runs a state over all of `input`; yields at most `batch_rows` rows at a time, for which `held` is claimed.
pub(super) fn reduce(
    state: impl Reduce,
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    (batch_rows, held): (usize, MemoryReservation),
    baseline: BaselineMetrics,
) -> SendableRecordBatchStream {
    let rows = async move {
        let mut state = feed(state, input, baseline.clone()).await?;
        let _timer = baseline.elapsed_compute().timer();
        let batch = state.finish()?;
        baseline.record_output(batch.num_rows());
        Ok(batch)
    };
    in_pieces(rows, schema, batch_rows, held)
}

/// A stream of the one batch that comes, in pieces of at most so many rows, for which `held` is claimed; an empty one
/// has none.
pub(super) fn in_pieces(
    batch: impl Future<Output = Result<RecordBatch>> + Send + 'static,
    schema: SchemaRef,
    batch_rows: usize,
    held: MemoryReservation,
) -> SendableRecordBatchStream {
    let most = batch_rows.max(1);
    let pieces = futures::stream::once(batch).and_then(move |batch| {
        let held = held.new_empty();
        std::future::ready(claim(&held, &batch, most).map(|()| {
            let starts = (0..batch.num_rows()).step_by(most);
            futures::stream::iter(starts.map(move |start| {
                let _held = &held;
                Ok(batch.slice(start, most.min(batch.num_rows() - start)))
            }))
        }))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, pieces.try_flatten()))
}

/// Claims memory for a result that does not leave at once. What symbols mean belongs to their table.
fn claim(held: &MemoryReservation, batch: &RecordBatch, most: usize) -> Result<()> {
    if batch.num_rows() <= most {
        return Ok(());
    }
    let columns = batch.columns().iter().map(|column| match column.as_any_dictionary_opt() {
        Some(symbols) => symbols.keys().get_array_memory_size(),
        None => column.get_array_memory_size(),
    });
    held.try_resize(columns.sum())
}
