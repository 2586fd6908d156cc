//! What clients refer to by a handle: few things, and not longer than they are used.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Locks a mutex, also after a thread panicked with it: what these guard is changed in one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that nobody can guess.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    given: AtomicU64,
    keys: RandomState,
}

impl Numbers {
    /// One that was not given before, 16 bytes.
    pub(super) fn next(&self) -> [u8; 16] {
        let count = self.given.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.keys.hash_one(("handle", count)).to_be_bytes());
        bytes[8..].copy_from_slice(&count.to_be_bytes());
        bytes
    }
}

/// Things by their handles.
#[derive(Debug)]
pub(super) struct Handles<T> {
    held: Mutex<HashMap<[u8; 16], Arc<Held<T>>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { held: Mutex::default() }
    }
}

/// A thing and when it was used last.
#[derive(Debug)]
struct Held<T> {
    thing: T,
    used: Mutex<Instant>,
    users: AtomicUsize,
}

/// A thing that is used, until this is dropped.
#[derive(Debug)]
pub(super) struct Used<T> {
    held: Arc<Held<T>>,
}

impl<T> Used<T> {
    fn new(held: &Arc<Held<T>>) -> Self {
        held.users.fetch_add(1, Ordering::Relaxed);
        Self { held: Arc::clone(held) }
    }
}

impl<T> Deref for Used<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held.thing
    }
}

impl<T> Drop for Used<T> {
    fn drop(&mut self) {
        *lock(&self.held.used) = Instant::now();
        self.held.users.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Handles<T> {
    /// Keeps a thing under a number; gives it back where there are `most` already, or half as many of the user whose
    /// things `is_theirs` tells: nobody takes all from the others.
    pub(super) fn keep(
        &self,
        number: [u8; 16],
        thing: T,
        most: usize,
        is_theirs: impl Fn(&T) -> bool,
    ) -> Result<(), T> {
        let mut held = lock(&self.held);
        let theirs = || held.values().filter(|held| is_theirs(&held.thing)).count();
        if held.len() >= most || held.len() >= most.div_ceil(2) && theirs() >= most.div_ceil(2) {
            return Err(thing);
        }
        held.insert(
            number,
            Arc::new(Held { thing, used: Mutex::new(Instant::now()), users: AtomicUsize::new(0) }),
        );
        Ok(())
    }

    /// The thing of a handle, where there is one.
    pub(super) fn get(&self, handle: &[u8]) -> Option<Used<T>> {
        let number: [u8; 16] = handle.try_into().ok()?;
        lock(&self.held).get(&number).map(Used::new)
    }

    /// Calls something for each thing.
    pub(super) fn each(&self, call: impl FnMut(&T)) {
        lock(&self.held).values().map(|held| &held.thing).for_each(call);
    }

    /// Whether something is so for one thing at least.
    pub(super) fn any(&self, mut is: impl FnMut(&T) -> bool) -> bool {
        lock(&self.held).values().any(|held| is(&held.thing))
    }

    /// Forgets the thing of a handle: it goes when nobody uses it any more; whether there was one.
    pub(super) fn forget(&self, handle: &[u8]) -> Option<Used<T>> {
        let number: [u8; 16] = handle.try_into().ok()?;
        let held = lock(&self.held).remove(&number)?;
        Some(Used::new(&held))
    }

    /// Forgets what nobody has used for so long; how many things that were.
    pub(super) fn forget_idle(&self, idle: Duration) -> usize {
        let mut gone = Vec::new();
        lock(&self.held).retain(|_, held| {
            let keep = held.users.load(Ordering::Acquire) > 0 || lock(&held.used).elapsed() < idle;
            if !keep {
                gone.push(Arc::clone(held));
            }
            keep
        });
        // They go here, outside of the lock.
        gone.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_go_when_nobody_uses_them() {
        let (numbers, handles) = (Numbers::default(), Handles::default());
        let (first, second) = (numbers.next(), numbers.next());
        assert_ne!(first, second);
        let nobodys = |_: &&str| false;
        assert_eq!(handles.keep(first, "a", 2, nobodys), Ok(()));
        assert_eq!(handles.keep(second, "b", 2, nobodys), Ok(()));
        assert_eq!(handles.keep(numbers.next(), "c", 2, nobodys), Err("c"));
        // Half of them for one user, whoever has the others.
        assert_eq!(handles.keep(numbers.next(), "c", 4, |_| true), Err("c"));
        assert_eq!(handles.keep(numbers.next(), "c", 4, |of| *of == "a"), Ok(()));
        let used = handles.get(&first).expect("it is there");
        assert_eq!(*used, "a");
        assert_eq!(handles.forget_idle(Duration::ZERO), 2);
        assert!(handles.get(&second).is_none());
        drop(used);
        assert_eq!(handles.forget_idle(Duration::from_secs(60)), 0);
        assert!(handles.forget(&first).is_some());
        assert!(handles.get(&first).is_none() && handles.get(b"").is_none());
    }
}
