//! What the outputs of one execution of an operator share: its work, and the tasks of it that are still to be done.
//!
//! An operator whose outputs do one list of tasks holds a [`Shared`] of what these need, with [`Tasks`] in it. One that
//! starts its workers itself ([`super::workers`]) gives each its [`Turns`].

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The execution at hand, as long as some output has not begun on it.
#[derive(Debug)]
pub(super) struct Shared<W>(Mutex<Option<(Vec<bool>, Arc<W>)>>);

impl<W> Default for Shared<W> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// That of a like operator, which runs by itself: the work at hand may hold its own.
impl<W> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<W> Shared<W> {
    /// The work that one of so many outputs takes part in: a new one where it has begun on the last already.
    ///
    /// # Errors
    /// Where the work cannot begin.
    pub(super) fn join(
        &self,
        output: usize,
        outputs: usize,
        begin: impl FnOnce() -> Result<W>,
    ) -> Result<Arc<W>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut begun, work) = match running.take() {
            Some((begun, work)) if begun.get(output) == Some(&false) => (begun, work),
            _ => (vec![false; outputs], Arc::new(begin()?)),
        };
        begun[output] = true;
        if !begun.iter().all(|begun| *begun) {
            *running = Some((begun, Arc::clone(&work)));
        }
        Ok(work)
    }
}

/// Tasks of a plan that whoever comes first makes, and the rest wait for; whoever is free takes the next.
#[derive(Debug)]
pub(super) struct Tasks<P> {
    plan: OnceLock<Result<P, Arc<DataFusionError>>>,
    next: AtomicUsize,
}

impl<P> Default for Tasks<P> {
    fn default() -> Self {
        Self { plan: OnceLock::new(), next: AtomicUsize::new(0) }
    }
}

impl<P> Tasks<P> {
    /// The plan, which `make` makes for the first who asks.
    ///
    /// # Errors
    /// Where it could not be made, for all who ask.
    pub(super) fn plan(&self, make: impl FnOnce() -> Result<P>) -> Result<&P> {
        self.plan
            .get_or_init(|| make().map_err(Arc::new))
            .as_ref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }

    /// The number of the next task, which may be past the last.
    pub(super) fn next(&self) -> usize {
        // Relaxed: the counter guards nothing but itself.
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// The numbers of the tasks that a worker does.
#[derive(Debug)]
pub(super) enum Turns {
    /// Whichever is next of so many, shared by all workers.
    Next(Arc<AtomicUsize>, usize),
    /// A stretch of its own, where states are to be merged in the order of tasks.
    Own(Range<usize>),
}

impl Turns {
    /// Those of so many workers.
    pub(super) fn of(tasks: usize, workers: usize, in_any_order: bool) -> Vec<Self> {
        let next = Arc::new(AtomicUsize::new(0));
        let edge = |worker: usize| tasks * worker / workers;
        let turns = |worker| match in_any_order {
            true => Self::Next(Arc::clone(&next), tasks),
            false => Self::Own(edge(worker)..edge(worker + 1)),
        };
        (0..workers).map(turns).collect()
    }
}

impl Iterator for Turns {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            // Relaxed: the counter guards nothing but itself.
            Self::Next(next, tasks) => Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| at < tasks),
            Self::Own(rest) => rest.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::internal_datafusion_err;

    #[test]
    fn outputs_share_one_execution_and_the_next_is_a_new_one() {
        let shared = Shared::default();
        let mut begun = 0;
        let mut join = |output| {
            *shared
                .join(output, 3, || {
                    begun += 1;
                    Ok(begun)
                })
                .unwrap()
        };
        assert_eq!([0, 2, 1].map(&mut join), [1, 1, 1]);
        // One that begins anew leaves the others of the last behind.
        assert_eq!([1, 1, 0, 2].map(&mut join), [2, 3, 3, 3]);
        let refused: Result<Arc<i32>> = shared.join(0, 1, || Err(internal_datafusion_err!("refused")));
        assert!(refused.is_err());
    }

    #[test]
    fn a_plan_is_made_once_and_its_error_is_that_of_all() {
        let tasks = Tasks::default();
        assert_eq!(tasks.plan(|| Ok(7)).unwrap(), &7);
        assert_eq!(tasks.plan(|| panic!("made twice")).unwrap(), &7);
        assert_eq!([tasks.next(), tasks.next()], [0, 1]);
        let failed = Tasks::<i32>::default();
        for _ in 0..2 {
            let error = failed.plan(|| Err(internal_datafusion_err!("refused"))).unwrap_err();
            assert!(error.to_string().contains("refused"));
        }
    }

    #[test]
    fn each_task_is_done_once_by_any_number_of_workers() {
        for (tasks, workers) in [(0, 1), (1, 3), (10, 3), (10, 1)] {
            for in_any_order in [true, false] {
                let each = Turns::of(tasks, workers, in_any_order);
                assert_eq!(each.len(), workers);
                let done: Vec<usize> = each.into_iter().flatten().collect();
                assert_eq!(done, (0..tasks).collect::<Vec<_>>(), "{tasks} {workers} {in_any_order}");
            }
        }
    }
}
