//! The memory budget of the process: recent rows, and what loads, transactions and merges hold beside them.
//!
//! Invariants:
//! - who holds rows or buffers has a [`Reservation`] of as many bytes, and gives it back when it is dropped;
//! - recent rows give way: they can be sealed. A load writes parts out; a transaction is refused where it
//!   would exceed the budget together with others (one alone is limited by the size of a frame).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes held beside recent rows.
#[derive(Debug)]
pub(crate) struct Memory {
    budget_bytes: usize,
    held: AtomicUsize,
    /// Of these, bytes of merges: they come and go by themselves, so that nobody is refused because of them.
    merging: AtomicUsize,
    /// Loads under way, which share half of the budget, less what merges hold of it.
    loads: AtomicUsize,
}

/// Who holds a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Transaction,
    Load,
    /// With the bytes it announced.
    Merge(usize),
}

/// Bytes that one holder has.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<Memory>,
    bytes: usize,
    holder: Holder,
}

impl Memory {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let none = || AtomicUsize::new(0);
        Self { budget_bytes, held: none(), merging: none(), loads: none() }
    }

    /// Bytes held by all reservations.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes of recent rows above which writers wait for sealing: what is left of the budget, at least half,
    /// and no more while there are loads, which may take the other half at any time.
    pub(crate) fn recent_bytes_max(&self) -> usize {
        let half = self.budget_bytes / 2;
        let loading = self.loads.load(Ordering::Relaxed) > 0;
        self.budget_bytes - if loading { half } else { self.held_bytes().min(half) }
    }

    /// A transaction that holds nothing yet.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { memory: Arc::clone(self), bytes: 0, holder: Holder::Transaction }
    }

    /// The buffers of a merge that is to begin: loads make room for them from now on.
    pub(crate) fn reserve_for_merge(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.merging.fetch_add(bytes, Ordering::Relaxed);
        Reservation { memory: Arc::clone(self), bytes: 0, holder: Holder::Merge(bytes) }
    }

    /// Whether loads leave room for so many bytes more in the half that recent rows have not.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let loading = self.loads.load(Ordering::Relaxed) > 0;
        !loading || self.held_bytes() + bytes <= self.budget_bytes / 2
    }

    /// A load that holds nothing yet.
    pub(crate) fn reserve_for_load(self: &Arc<Self>) -> Reservation {
        self.loads.fetch_add(1, Ordering::Relaxed);
        Reservation { memory: Arc::clone(self), bytes: 0, holder: Holder::Load }
    }
}

impl Reservation {
    /// Holds so many bytes from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.memory.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.memory.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it, being a load, holds more than its share, or all together hold too much.
    pub(crate) fn must_write(&self) -> bool {
        let budget = self.memory.budget_bytes;
        // Recent rows may have the other half: what merges hold is taken from that of the loads.
        let merging = self.memory.merging.load(Ordering::Relaxed);
        let share = (budget / 2).saturating_sub(merging) / self.memory.loads.load(Ordering::Relaxed).max(1);
        self.bytes > share || (self.bytes > 0 && self.memory.held_bytes() > budget / 4 * 3)
    }

    /// Bytes that others hold where, together with `bytes` of its own, that is more than the budget.
    pub(crate) fn crowded_by(&self, bytes: usize) -> Option<usize> {
        let merging = self.memory.merging.load(Ordering::Relaxed);
        let others = self.memory.held_bytes().saturating_sub(self.bytes + merging);
        (others > 0 && others + bytes > self.memory.budget_bytes).then_some(others)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.holder {
            Holder::Transaction => {}
            Holder::Load => {
                self.memory.loads.fetch_sub(1, Ordering::Relaxed);
            }
            Holder::Merge(bytes) => {
                self.memory.merging.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_share_half_of_the_budget() {
        let memory = Arc::new(Memory::new(1_000));
        let mut first = memory.reserve_for_load();
        first.set(500);
        assert!(!first.must_write());
        let mut second = memory.reserve_for_load();
        assert!(first.must_write(), "the first one's share shrank");
        second.set(300);
        assert!(second.must_write());
        first.set(0);
        second.set(250);
        assert!(!second.must_write());
        drop(second);
        assert_eq!(memory.held_bytes(), 0);
        first.set(500);
        assert!(!first.must_write());
    }

    #[test]
    fn merges_take_from_the_share_of_loads() {
        let memory = Arc::new(Memory::new(1_000));
        let mut load = memory.reserve_for_load();
        load.set(400);
        assert!(!load.must_write());
        let mut merge = memory.reserve_for_merge(200);
        assert!(load.must_write() && !memory.has_room(200));
        load.set(300);
        assert!(!load.must_write() && memory.has_room(200));
        merge.set(200);
        assert!(memory.held_bytes() + memory.recent_bytes_max() <= 1_000);
        drop(merge);
        load.set(500);
        assert!(!load.must_write());
    }

    #[test]
    fn transactions_are_refused_only_beside_others() {
        let memory = Arc::new(Memory::new(1_000));
        let mut first = memory.reserve();
        assert_eq!(first.crowded_by(5_000), None);
        first.set(700);
        let second = memory.reserve();
        assert_eq!(second.crowded_by(300), None);
        assert_eq!(second.crowded_by(301), Some(700));
        assert_eq!(memory.recent_bytes_max(), 500);
    }
}
