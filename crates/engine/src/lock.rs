//! Locking that outlives a panic.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a thread panicked with it: what it guards is changed in one step at the end.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A right that one thread has at a time, given in the order in which it is asked for: whoever asks for it over and over
/// keeps nobody from it. A mutex goes to whoever comes first when it is free, which is mostly the one that had it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number that the next one gets.
    next: u64,
    /// The number whose turn it is.
    now: u64,
}

/// The right, until it goes.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits until all who asked before are done.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut state = lock(&self.state);
        let own = state.next;
        state.next += 1;
        while state.now != own {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).now += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those who wait come in the order in which they asked, and before the one who has it and asks again.
    #[test]
    fn turns_come_in_order() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let first = turns.take();
            for number in 0..8_u64 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.take();
                    lock(order).push(number);
                });
                while lock(&turns.state).next < number + 2 {
                    std::thread::yield_now();
                }
            }
            drop(first);
            drop(turns.take());
            assert_eq!(lock(&order).len(), 8);
        });
        assert_eq!(*lock(&order), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_panic_gives_the_turn_on() {
        let turns = Turns::default();
        let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = turns.take();
            panic!("in the midst of it");
        }));
        assert!(thrown.is_err());
        drop(turns.take());
    }
}
