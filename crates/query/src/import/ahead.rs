//! Files made ready on some threads ahead of the one who takes them, in order.
//!
//! Invariants: no more than [`AHEAD`] times the threads are ready and not taken; when the taker stops, so do the threads;
//! a panic of one is the taker's.

use super::Result;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Files that may be ready, for each thread.
const AHEAD: usize = 2;

struct State<T> {
    ready: BTreeMap<usize, thread::Result<T>>,
    /// The next file that nobody makes ready yet.
    next: usize,
    /// How many were taken.
    taken: usize,
    stopped: bool,
}

/// Makes the files `0..count` ready on `threads`, and has each taken by this one, in order.
pub(super) fn ahead<T: Send>(
    count: usize,
    threads: usize,
    make: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let state = Mutex::new(State { ready: BTreeMap::new(), next: 0, taken: 0, stopped: false });
    let changed = Condvar::new();
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = |guard| changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    let work = || {
        loop {
            let mut now: MutexGuard<'_, State<T>> = lock();
            let number = loop {
                if now.stopped || now.next == count {
                    return;
                }
                if now.next < now.taken + threads * AHEAD {
                    break now.next;
                }
                now = wait(now);
            };
            now.next += 1;
            drop(now);
            let made = catch_unwind(AssertUnwindSafe(|| make(number)));
            lock().ready.insert(number, made);
            changed.notify_all();
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
        let mut take_next = |number| {
            let mut now = lock();
            let made = loop {
                match now.ready.remove(&number) {
                    Some(made) => break made,
                    None => now = wait(now),
                }
            };
            now.taken = number + 1;
            drop(now);
            changed.notify_all();
            match made {
                Ok(made) => take(number, made),
                Err(panic) => {
                    lock().stopped = true;
                    changed.notify_all();
                    resume_unwind(panic)
                }
            }
        };
        let done = (0..count).try_for_each(&mut take_next);
        lock().stopped = true;
        changed.notify_all();
        done
    })
}
