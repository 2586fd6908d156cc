//! Runs a join by series: workers take tasks until none is left.

use super::exec::SeriesJoinExec;
use super::rows::{Joined, Shape};
use super::tasks::Plan;
use crate::operators::asof::by_series::{AHEAD_BYTES, Joined as Placed, Sides, Sorted, in_time_order};
use crate::operators::asof::exec::are_ordered;
use crate::operators::workers;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows of a task for each row of a batch.
const TASK_BATCHES: usize = 16;

/// Batches of rows for which a join, whose rows are put in order, is done by several workers.
const WORKER_BATCHES_MIN: u64 = 8;

/// One execution of a join by series.
#[derive(Debug)]
pub(super) struct Work {
    join: SeriesJoinExec,
    sides: Sides,
    task_rows: usize,
    plan: OnceLock<Result<Plan, Arc<DataFusionError>>>,
    /// For the plan.
    held: MemoryReservation,
    next: AtomicUsize,
    /// Rows read of the left and the right scan.
    read: (Count, Count),
}

impl Work {
    fn new(join: &SeriesJoinExec, sides: Sides, batch_rows: usize, held: MemoryReservation) -> Self {
        let read = (sides.left.scan.begin_reading(), sides.right.scan.begin_reading());
        let task_rows = batch_rows.saturating_mul(TASK_BATCHES);
        let (plan, next) = (OnceLock::new(), AtomicUsize::new(0));
        // Not the running execution, which holds this.
        let mut join = join.clone();
        join.running = Arc::default();
        Self { join, sides, task_rows, plan, held, next, read }
    }

    fn plan(&self) -> Result<&Plan> {
        let plan = || {
            let (join, kind) = (&self.join, &self.join.shape.kind);
            let plan = Plan::new(&self.sides, &join.times, join.schemas(), kind, self.task_rows)?;
            self.held.try_resize(plan.size())?;
            Ok(plan)
        };
        self.plan
            .get_or_init(|| plan().map_err(Arc::new))
            .as_ref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }

    /// The next task that nobody has taken, and its rows; `None` where there is none.
    fn next(&self, reservation: &MemoryReservation) -> Result<Option<(usize, Joined)>> {
        let plan = self.plan()?;
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(task) = plan.tasks.get(at) else { return Ok(None) };
        let (matched, read) = plan.read(task)?;
        reservation.try_grow(matched.left.size() + matched.right.size())?;
        self.read.0.add(read.left);
        self.read.1.add(read.right);
        Ok(Some((at, self.join.shape.join(matched)?)))
    }
}

/// One of those who do the tasks of a join by series.
struct Worker {
    work: Arc<Work>,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Worker {
    /// The rows of the next task.
    fn next(&self) -> Result<Option<Joined>> {
        let _timer = self.baseline.elapsed_compute().timer();
        self.reservation.free();
        let Some((_, joined)) = self.work.next(&self.reservation)? else { return Ok(None) };
        self.reservation.try_resize(joined.size())?;
        self.baseline.record_output(joined.rows());
        Ok(Some(joined))
    }

    /// The rows of all tasks that are left to it.
    async fn all(self) -> Result<(Vec<Placed>, MemoryReservation)> {
        let mut all = Vec::new();
        let shape = &self.work.join.shape;
        let passing = self.reservation.new_empty();
        loop {
            let timer = self.baseline.elapsed_compute().timer();
            let Some((task, joined)) = self.work.next(&passing)? else { break };
            let batch = joined.batch(shape, 0..joined.rows())?;
            let placed = Placed::new(batch, joined.times, task as u64);
            self.reservation.try_grow(placed.size())?;
            passing.free();
            all.push(placed);
            drop(timer);
            tokio::task::yield_now().await;
        }
        Ok((all, self.reservation))
    }
}

impl SeriesJoinExec {
    fn sides(&self) -> Result<Sides> {
        self.scans()
            .ok_or_else(|| internal_datafusion_err!("SeriesJoinExec by series is not above two scans"))
    }

    /// The most rows it yields; `None` where that is not known yet.
    pub(super) fn rows_of(&self, sides: &Sides) -> Option<u64> {
        let (left, right) = (sides.left.rows()?, sides.right.rows()?);
        Some(match self.shape.kind {
            super::node::Kind::Splice => left.saturating_add(right),
            _ => left.saturating_mul(self.shape.kind.rows_per_left() as u64),
        })
    }

    pub(super) fn by_series(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties().partitioning.partition_count();
        let batch_rows = context.session_config().batch_size().max(1);
        let work = self.running.join(partition, partitions, || {
            Ok(Work::new(self, self.sides()?, batch_rows, self.reservation(context)))
        })?;
        let worker = Worker {
            work,
            reservation: self.reservation(context),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let shape = self.shape.clone();
        let tasks = futures::stream::try_unfold(worker, |worker| async move {
            Ok::<_, DataFusionError>(worker.next()?.map(|joined| (joined, worker)))
        });
        let batches = tasks.map_ok(move |joined| in_batches(joined, shape.clone(), batch_rows));
        let rows = RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten());
        Ok(make_cooperative(Box::pin(rows)))
    }

    pub(super) fn by_series_in_order(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let sides = self.sides()?;
        let rows = self.rows_of(&sides).unwrap_or(u64::MAX);
        let batch_rows = context.session_config().batch_size().max(1);
        if !are_ordered(rows, batch_rows) || !self.can_hold(rows, context) {
            let ahead = |input: &Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
                Ok(Arc::new(BufferExec::new(in_time_order(input)?, AHEAD_BYTES)))
            };
            let [left, right] = self.inputs();
            return self.merge([&ahead(left)?, &ahead(right)?], 0, context);
        }
        let read = sides.left.rows().unwrap_or(0) + sides.right.rows().unwrap_or(0);
        let wide = read > (batch_rows as u64).saturating_mul(WORKER_BATCHES_MIN);
        let workers = if wide { context.session_config().target_partitions().max(1) } else { 1 };
        let work = Arc::new(Work::new(self, sides, batch_rows, self.reservation(context)));
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let worker = || Worker {
            work: Arc::clone(&work),
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
        let rows = RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten());
        Ok(make_cooperative(Box::pin(rows)))
    }

    /// Whether there is memory now for so many rows of the result.
    fn can_hold(&self, rows: u64, context: &Arc<TaskContext>) -> bool {
        crate::operators::asof::by_series::can_hold(rows, &self.schema(), &self.reservation(context))
    }
}

/// The rows of a task in batches of at most so many rows, made as they are asked for.
pub(super) fn in_batches(
    joined: Joined,
    shape: Shape,
    most: usize,
) -> futures::stream::Iter<impl Iterator<Item = Result<datafusion::arrow::record_batch::RecordBatch>>> {
    let rows = joined.rows();
    let starts = (0..rows).step_by(most);
    futures::stream::iter(starts.map(move |start| joined.batch(&shape, start..rows.min(start + most))))
}

/// The rows of all workers.
async fn join_all(workers: Vec<Worker>) -> Result<(Vec<Placed>, Vec<MemoryReservation>)> {
    let done = workers::all(workers.into_iter().map(Worker::all)).await?;
    let (rows, reservations): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    Ok((rows.into_iter().flatten().collect(), reservations))
}
