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
        std::future::ready(
            claim(&held, &batch, most)
                .map(|()| futures::stream::iter(Pieces::new(batch, most, held).map(Ok))),
        )
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, pieces.try_flatten()))
}

/// A batch in pieces of at most so many rows; what is held for it stays accounted for as long as they are.
pub(super) struct Pieces<H = ()> {
    /// `None` where all is out.
    batch: Option<RecordBatch>,
    next: usize,
    most: usize,
    _held: H,
}

impl<H> Pieces<H> {
    pub(super) fn new(batch: RecordBatch, most: usize, held: H) -> Self {
        let batch = Some(batch).filter(|batch| batch.num_rows() > 0);
        Self { batch, next: 0, most, _held: held }
    }
}

impl<H> Iterator for Pieces<H> {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.batch.as_ref()?;
        let piece = batch.slice(self.next, self.most.min(batch.num_rows() - self.next));
        self.next += piece.num_rows();
        if self.next == batch.num_rows() {
            self.batch = None;
        }
        Some(piece)
    }
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
