//! Built with a bug in the engine: the simulator must find it (`make test-planted`).

#![cfg(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename"))]

use tickstone_sim::{RunOptions, run};

/// Seeds within which the bug must show.
const SEEDS: u64 = 50;

#[test]
fn the_planted_bug_is_found() {
    let failing: Vec<u64> =
        (1..=SEEDS).filter(|seed| run(*seed, RunOptions::default()).failure.is_some()).collect();
    println!("found by {} of {SEEDS} seeds: {failing:?}", failing.len());
    assert!(!failing.is_empty(), "{SEEDS} seeds do not find the planted bug");
}
