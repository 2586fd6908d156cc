//! Work that the partitions of a plan do together before any of them can go on.

use datafusion::common::{Result, internal_datafusion_err};
use datafusion::error::DataFusionError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Parts of some work: whoever comes takes the next that nobody has.
#[derive(Debug)]
pub(crate) struct Together<T> {
    next: AtomicUsize,
    parts: Mutex<Parts<T>>,
    all_done: Condvar,
}

#[derive(Debug)]
struct Parts<T> {
    results: Vec<Option<Result<T, Arc<DataFusionError>>>>,
    /// Those not done yet.
    left: usize,
}

impl<T> Together<T> {
    /// Work in so many parts.
    pub(crate) fn new(parts: usize) -> Self {
        let results = (0..parts).map(|_| None).collect();
        let parts = Mutex::new(Parts { results, left: parts });
        Self { next: AtomicUsize::new(0), parts, all_done: Condvar::new() }
    }

    /// Does parts as long as there are any, and then waits for those that others do, who are at it: a part is begun and
    /// ended without giving way.
    pub(crate) fn help(&self, part: impl Fn(usize) -> Result<T>) {
        let count = self.parts().results.len();
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            // One that panics is done, too, so that nobody waits for it.
            let _done = Done(self);
            let result = part(at).map_err(Arc::new);
            self.parts().results[at] = Some(result);
        }
        let mut parts = self.parts();
        while parts.left > 0 {
            parts = self.all_done.wait(parts).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The results of all parts, once [`Self::help`] has come back, for the first who asks.
    ///
    /// # Errors
    /// That of the first part that failed.
    pub(crate) fn results(&self) -> Result<Vec<T>> {
        let results = std::mem::take(&mut self.parts().results);
        let results = results.into_iter().map(|result| match result {
            Some(result) => result.map_err(DataFusionError::Shared),
            None => Err(internal_datafusion_err!("a part of some work was not done")),
        });
        results.collect()
    }

    fn parts(&self) -> MutexGuard<'_, Parts<T>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes at its end that a part is done.
struct Done<'a, T>(&'a Together<T>);

impl<T> Drop for Done<'_, T> {
    fn drop(&mut self) {
        let mut parts = self.0.parts();
        parts.left -= 1;
        if parts.left == 0 {
            self.0.all_done.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_done_once_whoever_helps() {
        let work = Together::new(100);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| work.help(|at| Ok(at * 2)));
            }
        });
        let expected: Vec<usize> = (0..100).map(|at| at * 2).collect();
        assert_eq!(work.results().unwrap(), expected);
    }

    #[test]
    fn nobody_waits_for_a_part_that_fails_or_panics() {
        let work = Together::new(2);
        let panicked = std::thread::scope(|scope| {
            let helped = scope.spawn(|| work.help(|_| -> Result<()> { panic!("for the test") }));
            helped.join().is_err()
        });
        assert!(panicked);
        work.help(|_| Err(internal_datafusion_err!("refused")));
        assert!(work.results().is_err());
        let nothing: Together<()> = Together::new(0);
        nothing.help(|_| Ok(()));
        assert!(nothing.results().unwrap().is_empty());
    }
}
