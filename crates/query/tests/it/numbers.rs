//! Numbers and seeds of tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// A small generator of numbers (xorshift64*), seeded.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Seeds that no run before has had, or the one that is asked for.
fn seeds(count: u64) -> Vec<u64> {
    if let Ok(seed) = std::env::var("SEED") {
        return vec![seed.parse().unwrap()];
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    (0..count).map(|n| now.wrapping_add(n)).collect()
}

/// Runs with each of so many seeds; one that fails says its own.
pub(crate) fn each_seed(count: u64, run: fn(u64)) {
    for seed in seeds(count) {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
