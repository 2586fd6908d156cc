//! Runs a join by series: workers take tasks until none is left.

use super::exec::{TimeJoinExec, are_ordered};
use super::order::{Placed, Sorted, TaskRows};
use super::sides::Sides;
use super::tasks::{Finders, Plan};
use crate::operators::exec::Operator;
use crate::operators::shared::Tasks;
use crate::operators::workers;
use crate::scan::row_bytes;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::TryStreamExt;
use std::sync::Arc;

/// Bytes of rows that each input may be ahead where two scans are merged that were to be joined by series.
pub(super) const AHEAD_BYTES: usize = 64 << 20;

/// Rows of a task for each row of a batch.
pub(in crate::operators) const TASK_BATCHES: usize = 16;

/// Batches of rows for which a join by series, whose rows are put in order, is done by several workers.
const WORKER_BATCHES_MIN: u64 = 8;

/// What putting a row in order takes.
const ROW_BYTES: usize = 48;

/// One execution of a join by series.
#[derive(Debug)]
pub(super) struct Work {
    join: TimeJoinExec,
    sides: Sides,
    finders: Finders,
    /// Whether there is memory for where the rows of each series are.
    fits: bool,
    task_rows: usize,
    tasks: Tasks<Plan>,
    /// For the plan.
    held: MemoryReservation,
    /// Whether rows are to be put in order.
    arrival: bool,
    /// Rows read of the left and the right scan.
    read: (Count, Count),
}

impl Work {
    /// An execution of `join`, whose sides are counted as read from now on.
    fn new(join: &TimeJoinExec, batch_rows: usize, arrival: bool, held: MemoryReservation) -> Result<Self> {
        let sides = join.sides()?;
        let finders = Finders::new(&sides, &join.matching)?;
        let read = (sides.left.scan.begin_reading(), sides.right.scan.begin_reading());
        let task_rows = batch_rows.saturating_mul(TASK_BATCHES);
        let join = join.clone();
        let fits = finders.bytes().is_some_and(|bytes| held.try_grow(bytes).is_ok());
        Ok(Self { join, sides, finders, fits, task_rows, tasks: Tasks::default(), held, arrival, read })
    }

    fn plan(&self) -> Result<&Plan> {
        self.finders.help(&self.sides)?;
        self.tasks.plan(|| {
            let plan = Plan::new(&self.join, &self.sides, &self.finders, (self.task_rows, self.arrival))?;
            self.held.try_resize(plan.size())?;
            Ok(plan)
        })
    }

    /// The next task that nobody has taken, by number, and its rows; `None` where there is none. What the work holds
    /// on the way is claimed of `held`.
    fn next(&self, held: &MemoryReservation) -> Result<Option<(usize, Vec<TaskRows>)>> {
        let plan = self.plan()?;
        let at = self.tasks.next();
        let Some((matcher, task)) = plan.task(at) else { return Ok(None) };
        crate::wanted::look()?;
        let (rows, read) = matcher.run(&task, held)?;
        self.read.0.add(read.left);
        self.read.1.add(read.right);
        Ok(Some((at, rows)))
    }
}

impl TimeJoinExec {
    fn sides(&self) -> Result<Sides> {
        Sides::of(self).ok_or_else(|| internal_datafusion_err!("a join by series is not above two scans"))
    }

    /// The most rows of a join by series; `None` where that is known once they are found.
    pub(super) fn most_rows(&self, sides: &Sides) -> Option<u64> {
        let of = |side: &super::sides::Side| side.rows().filter(|_| !side.scan.has_condition());
        let left = of(&sides.left)?.saturating_mul(self.matching.rows_per_left() as u64);
        if self.matching.is_splice() { Some(left.saturating_add(of(&sides.right)?)) } else { Some(left) }
    }

    pub(super) fn by_series(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size().max(1);
        let work = self.running.join(partition, self.core.outputs(), || {
            Work::new(self, batch_rows, false, self.reservation(context))
        })?;
        if !work.fits {
            return match partition {
                0 => self.merge_ahead(context),
                _ => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
            };
        }
        let worker =
            Worker { work, reservation: self.reservation(context), baseline: self.core.baseline(partition) };
        let tasks = futures::stream::try_unfold(worker, |worker| async move {
            Ok::<_, DataFusionError>(worker.next()?.map(|rows| (rows, worker)))
        });
        let schema = self.schema();
        let batches = tasks.map_ok(move |rows| {
            let schema = Arc::clone(&schema);
            let batches = rows.into_iter().flat_map(move |rows| {
                let schema = Arc::clone(&schema);
                let starts = (0..rows.count()).step_by(batch_rows);
                starts.map(move |start| rows.batch(&schema, start..rows.count().min(start + batch_rows)))
            });
            futures::stream::iter(batches)
        });
        Ok(make_cooperative(self.stream(batches.try_flatten())))
    }

    pub(super) fn by_series_in_order(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size().max(1);
        let sides = self.sides()?;
        let known = self.most_rows(&sides);
        if known.is_some_and(|rows| !self.can_order(rows, context)) {
            return self.merge_ahead(context);
        }
        let read = [&sides.left, &sides.right].map(|side| side.rows().unwrap_or(u64::MAX));
        let wide = read[0].saturating_add(read[1]) > (batch_rows as u64).saturating_mul(WORKER_BATCHES_MIN);
        let workers = if wide { context.session_config().target_partitions().max(1) } else { 1 };
        let work = Arc::new(Work::new(self, batch_rows, true, self.reservation(context))?);
        if !work.fits {
            return self.merge_ahead(context);
        }
        let (join, context) = (self.clone(), Arc::clone(context));
        let rows = async move {
            if known.is_none() && !join.can_order(found_rows(&work, workers).await?, &context) {
                return join.merge_ahead(&context);
            }
            Ok(join.ordered(&work, workers, (batch_rows, &context)))
        };
        Ok(make_cooperative(self.stream(futures::stream::once(rows).try_flatten())))
    }

    /// Whether so many rows can be put in order at the end.
    fn can_order(&self, rows: u64, context: &Arc<TaskContext>) -> bool {
        let batch_rows = context.session_config().batch_size().max(1);
        let row_bytes = row_bytes(&self.schema()) + ROW_BYTES;
        let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes);
        // Whether there is memory now: what is held is accounted for as it comes.
        are_ordered(rows, batch_rows) && self.reservation(context).try_grow(bytes).is_ok()
    }

    /// The rows of some work by so many workers, in order of time.
    fn ordered(
        &self,
        work: &Arc<Work>,
        workers: usize,
        (batch_rows, context): (usize, &Arc<TaskContext>),
    ) -> SendableRecordBatchStream {
        let baseline = self.core.baseline(0);
        let worker = || Worker {
            work: Arc::clone(work),
            reservation: self.reservation(context),
            baseline: baseline.intermediate(),
        };
        let workers: Vec<Worker> = (0..workers).map(|_| worker()).collect();
        let schema = self.schema();
        let sorted = async move {
            let done = workers::all(workers.into_iter().map(Worker::all)).await?;
            let (rows, reservations): (Vec<_>, Vec<_>) = done.into_iter().unzip();
            let _timer = baseline.elapsed_compute().timer();
            let sorted = Sorted::new(rows.into_iter().flatten().collect(), schema);
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
        self.stream(batches.try_flatten())
    }
}

/// How many rows of the result there are, at most, which so many workers find.
async fn found_rows(work: &Arc<Work>, workers: usize) -> Result<u64> {
    let finding = Arc::clone(work);
    help_each_other(workers, move || Ok(finding.plan()?.rows())).await
}

/// Does a piece of work by so many workers, each of which returns when all of it is done.
pub(in crate::operators) async fn help_each_other<T: Send + 'static>(
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

/// One of those who do the tasks of a join by series.
struct Worker {
    work: Arc<Work>,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl Worker {
    /// The rows of the next task.
    fn next(&self) -> Result<Option<Vec<TaskRows>>> {
        let _timer = self.baseline.elapsed_compute().timer();
        self.reservation.free();
        let Some((_, rows)) = self.work.next(&self.reservation)? else { return Ok(None) };
        self.reservation.try_resize(rows.iter().map(TaskRows::size).sum())?;
        self.baseline.record_output(rows.iter().map(TaskRows::count).sum());
        Ok(Some(rows))
    }

    /// The rows of all tasks that are left to it.
    async fn all(self) -> Result<(Vec<Placed>, MemoryReservation)> {
        let mut all = Vec::new();
        let passing = self.reservation.new_empty();
        loop {
            let timer = self.baseline.elapsed_compute().timer();
            let Some((task, rows)) = self.work.next(&passing)? else { break };
            for rows in rows {
                let rows = rows.placed(task)?;
                self.reservation.try_grow(rows.size())?;
                all.push(rows);
            }
            passing.free();
            drop(timer);
            tokio::task::yield_now().await;
        }
        Ok((all, self.reservation))
    }
}
