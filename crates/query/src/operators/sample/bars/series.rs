//! Bars of rows that are read series by series: where keys tell series apart, each has all rows of its keys in
//! order of time, and no core waits for another.

use super::cut::{BarShape, BarState, Finished, joined};
use crate::operators::series::BySeries;
use crate::operators::shared::Turns;
use crate::operators::workers;
use crate::scan::{ScanExec, SeriesReader, SeriesTask};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::BaselineMetrics;
use std::cmp::Reverse;
use std::sync::Arc;

/// Rows that are read at once: few enough to stay in the cache.
const TASK_ROWS: usize = if cfg!(test) { 16 } else { 61_440 };

/// What the workers of one execution share.
struct Work {
    reader: SeriesReader,
    /// The longest first.
    chains: Vec<Vec<SeriesTask>>,
    by: BySeries,
    shape: Arc<BarShape>,
    /// Bytes of a row on its way from the scan to the kernels, roughly.
    row_bytes: usize,
}

/// Cuts all rows on as many cores as the scan has outputs; one batch.
pub(super) async fn run(
    scan: ScanExec,
    by: BySeries,
    shape: Arc<BarShape>,
    reservation: impl Fn() -> MemoryReservation,
    baseline: BaselineMetrics,
) -> Result<RecordBatch> {
    let read = scan.read_by_another(0);
    let reader = SeriesReader::new(&scan, &by.columns)?
        .ok_or_else(|| internal_datafusion_err!("bars are not of series of the table"))?;
    let mut chains = reader.chains(TASK_ROWS);
    chains.sort_by_key(|chain| Reverse(chain.iter().map(|task| task.rows).sum::<usize>()));
    let workers = scan.outputs().min(chains.len()).max(1);
    let columns = scan.projection().len() + shape.reduced.input.fields().len() + shape.reduced.exprs.len();
    let row_bytes = 2 * columns * size_of::<u64>();
    let work = Arc::new(Work { reader, chains, by, shape, row_bytes });
    let schema = Arc::clone(&work.shape.reduced.output);
    let worker = |turns| {
        let reservations = (reservation(), reservation());
        work_off((Arc::clone(&work), turns), reservations, read.clone(), baseline.clone())
    };
    let turns = Turns::of(work.chains.len(), workers, true);
    let parts = workers::all(turns.into_iter().map(worker)).await?;
    let _timer = baseline.elapsed_compute().timer();
    let rows = joined(parts, &schema)?;
    baseline.record_output(rows.num_rows());
    Ok(rows)
}

/// Takes chains until none is left.
async fn work_off(
    (work, turns): (Arc<Work>, Turns),
    (of_state, of_rows): (MemoryReservation, MemoryReservation),
    read: BaselineMetrics,
    baseline: BaselineMetrics,
) -> Result<Finished> {
    let mut state = BarState::try_new(&work.shape, of_state)?;
    for chain in turns {
        for task in &work.chains[chain] {
            let timer = baseline.elapsed_compute().timer();
            of_rows.try_resize(task.rows * work.row_bytes)?;
            let (batch, ends) = work.by.rows(&work.reader, task)?;
            read.record_output(task.rows);
            state.update(&batch, work.by.whole.then_some(&ends[..]))?;
            drop(timer);
            tokio::task::yield_now().await;
        }
    }
    state.finish()
}
