//! What the partitions of one execution share: the plan, which the first of them makes, and the next task.

use super::execute::TASK_BATCHES;
use super::join::Joined;
use super::sides::Sides;
use super::tasks::{Finders, Plan};
use crate::operators::asof::exec::AsOfJoinExec;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Count;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One execution of a join by series.
#[derive(Debug)]
pub(in crate::operators) struct Work {
    join: AsOfJoinExec,
    sides: Sides,
    finders: Finders,
    fits: bool,
    task_rows: usize,
    plan: OnceLock<Result<Plan, Arc<DataFusionError>>>,
    /// For the plan.
    held: MemoryReservation,
    next: AtomicUsize,
    /// Whether rows are to be put in order.
    arrival: bool,
    /// Rows read of the left and the right scan.
    read: (Count, Count),
}

impl Work {
    /// An execution of `join` over its `sides`, which are counted as read from now on.
    pub(in super::super) fn new(
        join: &AsOfJoinExec,
        sides: Sides,
        (batch_rows, arrival): (usize, bool),
        held: MemoryReservation,
    ) -> Result<Self> {
        let finders = Finders::new(&sides)?;
        let read = (sides.left.scan.begin_reading(), sides.right.scan.begin_reading());
        let task_rows = batch_rows.saturating_mul(TASK_BATCHES);
        let (plan, next) = (OnceLock::new(), AtomicUsize::new(0));
        // Not the running execution, which holds this.
        let mut join = join.clone();
        join.running = Arc::default();
        let fits = finders.bytes().is_some_and(|bytes| held.try_grow(bytes).is_ok());
        Ok(Self { join, sides, finders, fits, task_rows, plan, held, next, arrival, read })
    }

    /// Whether there is memory for where the rows of each series are.
    pub(super) fn fits(&self) -> bool {
        self.fits
    }

    fn plan(&self) -> Result<&Plan> {
        self.finders.help(&self.sides)?;
        let plan = || {
            let plan = Plan::new(&self.join, &self.sides, &self.finders, self.task_rows)?;
            self.held.try_resize(plan.size())?;
            Ok(plan)
        };
        self.plan
            .get_or_init(|| plan().map_err(Arc::new))
            .as_ref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }

    /// How many left rows there are; whoever asks takes part in finding them.
    pub(super) fn left_rows(&self) -> Result<u64> {
        Ok(self.plan()?.left_series.iter().map(|series| series.rows as u64).sum())
    }

    /// The rows of the next task that nobody has taken; `None` where there is none.
    pub(in super::super) fn next(&self) -> Result<Option<Vec<Joined>>> {
        let plan = self.plan()?;
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(task) = plan.tasks.get(at) else { return Ok(None) };
        let (joined, read) = plan.run(task, self.arrival)?;
        self.read.0.add(read.left);
        self.read.1.add(read.right);
        Ok(Some(joined))
    }
}

/// The execution at hand, as long as some partition has not taken its share of it.
#[derive(Debug)]
pub(in crate::operators) struct Running<W>(Mutex<Option<(Vec<bool>, Arc<W>)>>);

impl<W> Default for Running<W> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<W> Running<W> {
    /// The work that `partition` takes part in: a new one where it has its share of the last already.
    pub(in crate::operators) fn join(
        &self,
        partition: usize,
        partitions: usize,
        begin: impl FnOnce() -> Result<W>,
    ) -> Result<Arc<W>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, work) = match running.take() {
            Some((taken, work)) if taken.get(partition) == Some(&false) => (taken, work),
            _ => (vec![false; partitions], Arc::new(begin()?)),
        };
        taken[partition] = true;
        if !taken.iter().all(|taken| *taken) {
            *running = Some((taken, Arc::clone(&work)));
        }
        Ok(work)
    }
}
