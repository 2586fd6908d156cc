//! Runs a join by series: workers take tasks until none is left.

use super::join::Joined;
use super::order::Sorted;
use super::running::Work;
use super::sides::{Sides, in_time_order};
use crate::operators::asof::exec::{AsOfJoinExec, are_ordered};
use crate::operators::workers;
use crate::scan::row_bytes;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::TryStreamExt;
use std::sync::Arc;

/// Bytes of rows that each input may be ahead where two scans are merged that were to be joined by series.
pub(in crate::operators) const AHEAD_BYTES: usize = 64 << 20;

/// Rows of a task for each row of a batch.
pub(super) const TASK_BATCHES: usize = 16;

/// Batches of rows for which a join by series, whose rows are put in order, is done by several workers.
const WORKER_BATCHES_MIN: u64 = 8;

/// What putting a row in order takes.
const ROW_BYTES: usize = 48;

impl AsOfJoinExec {
    fn sides(&self) -> Result<Sides> {
        Sides::of(self)
            .ok_or_else(|| internal_datafusion_err!("AsOfJoinExec by series is not above two scans"))
    }

    /// The rows of both inputs in order of time, merged.
    fn merge_ahead(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let ahead = |input: &Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
            Ok(Arc::new(BufferExec::new(in_time_order(input)?, AHEAD_BYTES)))
        };
        let [left, right] = self.inputs();
        self.merge([&ahead(left)?, &ahead(right)?], 0, context)
    }

    /// The left rows as they come, in order of time, merged with those of the right scan.
    pub(super) fn merge_right_ahead(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [left, right] = self.inputs();
        let right: Arc<dyn ExecutionPlan> = Arc::new(BufferExec::new(in_time_order(right)?, AHEAD_BYTES));
        self.merge([left, &right], 0, context)
    }

    pub(in super::super) fn by_series(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties().partitioning.partition_count();
        let batch_rows = context.session_config().batch_size().max(1);
        let work = self.running.join(partition, partitions, || {
            Work::new(self, self.sides()?, (batch_rows, false), self.reservation(context))
        })?;
        if !work.fits() {
            return match partition {
                0 => self.merge_ahead(context),
                _ => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
            };
        }
        let worker = Worker {
            work,
            reservation: self.reservation(context),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let schema = self.schema();
        let tasks = futures::stream::try_unfold(worker, |worker| async move {
            Ok::<_, DataFusionError>(worker.next()?.map(|joined| (joined, worker)))
        });
        let batches = tasks.map_ok(move |joined| {
            let schema = Arc::clone(&schema);
            let batches = joined.into_iter().map(move |joined| joined.batch(Arc::clone(&schema)));
            futures::stream::iter(batches.flat_map(move |batch| in_batches(batch, batch_rows)))
        });
        let rows = RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten());
        Ok(make_cooperative(Box::pin(rows)))
    }

    pub(in super::super) fn by_series_in_order(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let sides = self.sides()?;
        let rows = sides.left.rows().unwrap_or(u64::MAX);
        let batch_rows = context.session_config().batch_size().max(1);
        // How many rows fulfil a condition is known when they are found.
        let known = !sides.left.scan.has_condition();
        if known && !self.can_order(rows, context) {
            return self.merge_ahead(context);
        }
        let all = rows.saturating_add(sides.right.rows().unwrap_or(0));
        let wide = all > (batch_rows as u64).saturating_mul(WORKER_BATCHES_MIN);
        let workers = if wide { context.session_config().target_partitions().max(1) } else { 1 };
        let work = Arc::new(Work::new(self, sides, (batch_rows, true), self.reservation(context))?);
        if !work.fits() {
            return self.merge_ahead(context);
        }
        let (join, context) = (self.clone(), Arc::clone(context));
        let rows = async move {
            if !known && !join.can_order(found_rows(&work, workers).await?, &context) {
                return join.merge_ahead(&context);
            }
            Ok(join.ordered(&work, workers, (batch_rows, &context)))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    /// Whether so many left rows can be put in order at the end.
    fn can_order(&self, rows: u64, context: &Arc<TaskContext>) -> bool {
        let batch_rows = context.session_config().batch_size().max(1);
        are_ordered(rows, batch_rows) && can_hold(rows, &self.schema(), &self.reservation(context))
    }

    /// The rows of some work by so many workers, in order of time.
    fn ordered(
        &self,
        work: &Arc<Work>,
        workers: usize,
        (batch_rows, context): (usize, &Arc<TaskContext>),
    ) -> SendableRecordBatchStream {
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let worker = || Worker {
            work: Arc::clone(work),
            reservation: self.reservation(context),
            baseline: baseline.intermediate(),
        };
        let workers: Vec<Worker> = (0..workers).map(|_| worker()).collect();
        let schema = self.schema();
        let sorted = async move {
            let (joined, reservations) = join_all(workers).await?;
            let _timer = baseline.elapsed_compute().timer();
            let sorted = Sorted::new(joined, schema);
            baseline.record_output(sorted.rows());
            Ok::<_, DataFusionError>((sorted, reservations))
        };
        let batches = futures::stream::once(sorted).map_ok(move |(sorted, reservations)| {
            let starts = (0..sorted.rows()).step_by(batch_rows);
            futures::stream::iter(starts.map(move |start| {
                // Rows stay accounted for as long as they are held.
                let _held = &reservations;
                sorted.batch(start..sorted.rows().min(start + batch_rows))
            }))
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten()))
    }
}

/// How many left rows there are, which so many workers find.
async fn found_rows(work: &Arc<Work>, workers: usize) -> Result<u64> {
    let finding = Arc::clone(work);
    help_each_other(workers, move || finding.left_rows()).await
}

/// Does a piece of work by so many workers, each of which returns when all of it is done.
pub(super) async fn help_each_other<T: Send + 'static>(
    workers: usize,
    help: impl Fn() -> Result<T> + Clone + Send + 'static,
) -> Result<T> {
    let helping = (0..workers.max(1)).map(|_| {
        let help = help.clone();
        async move { help() }
    });
    let mut done = workers::all(helping).await?;
    Ok(done.swap_remove(0))
}

/// Whether there is memory now for so many joined rows.
pub(in crate::operators) fn can_hold(rows: u64, schema: &Schema, reservation: &MemoryReservation) -> bool {
    let row_bytes = row_bytes(schema) + ROW_BYTES;
    let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes);
    // What is held is accounted for as it comes.
    let fits = reservation.try_grow(bytes).is_ok();
    reservation.free();
    fits
}

/// One of those who do the tasks of a join by series.
struct Worker {
    work: Arc<Work>,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Worker {
    /// The rows of the next task.
    fn next(&self) -> Result<Option<Vec<Joined>>> {
        let _timer = self.baseline.elapsed_compute().timer();
        let Some(joined) = self.work.next()? else {
            self.reservation.free();
            return Ok(None);
        };
        self.reservation.try_resize(size(&joined))?;
        self.baseline.record_output(joined.iter().map(|joined| joined.rows).sum());
        Ok(Some(joined))
    }

    /// The rows of all tasks that are left to it.
    async fn all(self) -> Result<(Vec<Joined>, MemoryReservation)> {
        let mut all = Vec::new();
        loop {
            let timer = self.baseline.elapsed_compute().timer();
            let Some(joined) = self.work.next()? else { break };
            self.reservation.try_grow(size(&joined))?;
            all.extend(joined);
            drop(timer);
            tokio::task::yield_now().await;
        }
        Ok((all, self.reservation))
    }
}

fn size(joined: &[Joined]) -> usize {
    joined.iter().map(Joined::size).sum()
}

/// The rows of all workers.
async fn join_all(workers: Vec<Worker>) -> Result<(Vec<Joined>, Vec<MemoryReservation>)> {
    let done = workers::all(workers.into_iter().map(Worker::all)).await?;
    let (rows, reservations): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    Ok((rows.into_iter().flatten().collect(), reservations))
}

/// A batch in pieces of at most so many rows.
fn in_batches(batch: Result<RecordBatch>, most: usize) -> Vec<Result<RecordBatch>> {
    match batch {
        Ok(batch) => {
            let starts = (0..batch.num_rows()).step_by(most);
            starts.map(|start| Ok(batch.slice(start, most.min(batch.num_rows() - start)))).collect()
        }
        Err(error) => vec![Err(error)],
    }
}
