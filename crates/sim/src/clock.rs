//! A clock that moves one microsecond with each look, and further when it is told to.

use std::sync::atomic::{AtomicI64, Ordering};
use tickstone_engine::Clock;

/// Starts at an instant (ns since the Unix epoch) and advances by 1,000 ns a call.
#[derive(Debug)]
pub struct StepClock(AtomicI64);

impl StepClock {
    /// A clock that begins at `start_ns`.
    pub fn new(start_ns: i64) -> Self {
        Self(AtomicI64::new(start_ns))
    }

    /// Lets `ns` pass; less than 0 is a step back.
    pub fn advance(&self, ns: i64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for StepClock {
    fn now_ns(&self) -> i64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
}
