//! A run: a seed, its steps, and what came of them.
//!
//! Each step draws its chance from the seed and its own number, so that steps can be left out of a run
//! without changing what the others do: that is how a failing run is made shorter.

use crate::Random;
use crate::faulty_disk::{FaultCounts, Lies};
use crate::world::{ACTIONS, End, Failure, Settings, World};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of a run.
pub const STEPS: usize = 80;

/// How runs are made.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Steps of each.
    pub steps: usize,
    /// What the disk only pretends to do.
    pub lies: Lies,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { steps: STEPS, lies: Lies::default() }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Steps taken.
    pub steps: u64,
    /// Rows acknowledged.
    pub rows: u64,
    /// Faults by kind.
    pub faults: FaultCounts,
    /// Calls of the disk.
    pub calls: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// A hash over every call of the disk.
    pub hash: u64,
    /// What does not hold, with the last steps before it.
    pub failure: Option<String>,
}

impl Report {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.rows += other.rows;
        self.faults.add(&other.faults);
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// Runs a seed.
pub fn run(seed: u64, options: RunOptions) -> Report {
    run_without(seed, options, &BTreeSet::new())
}

/// Runs a seed without some of its steps.
fn run_without(seed: u64, options: RunOptions, left_out: &BTreeSet<usize>) -> Report {
    let mut random = Random::new(seed);
    let mut settings = Settings::new(&mut random, ACTIONS.len());
    settings.lies = options.lies;
    let mut world = match World::new(seed, settings) {
        Ok(world) => world,
        Err(failure) => return Report { failure: Some(failure), ..Report::default() },
    };
    let mut steps = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for step in (0..options.steps).filter(|step| !left_out.contains(step)) {
            steps += 1;
            take_step(&mut world, seed, step)?;
        }
        last_step(&mut world, seed)
    }));
    let failure = match outcome {
        Ok(outcome) => outcome.err(),
        Err(panic) => Some(format!("panicked: {}", panic_text(panic.as_ref()))),
    };
    let failure = failure.map(|failure| {
        let last = world.trace.len().saturating_sub(40);
        format!("{failure}\nlast steps:\n  {}", world.trace[last..].join("\n  "))
    });
    Report {
        steps,
        rows: world.rows_committed,
        faults: world.disk.counts(),
        calls: world.disk.calls(),
        bytes: world.disk.appended_bytes(),
        hash: world.disk.hash(),
        failure,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// Leaves steps out of a failing run as long as it fails, in at most `tries` more runs; gives how many
/// steps are left and how it fails then. `None` where it does not fail.
pub fn shrink(seed: u64, options: RunOptions, tries: usize) -> Option<(usize, String)> {
    let first = run(seed, options);
    let mut failure = first.failure?;
    let options = RunOptions { steps: first.steps as usize, ..options };
    let mut left_out = BTreeSet::new();
    let (mut tries_left, mut size) = (tries, options.steps / 2);
    while size > 0 && tries_left > 0 {
        let mut at = 0;
        while at < options.steps && tries_left > 0 {
            let mut without = left_out.clone();
            without.extend(at..(at + size).min(options.steps));
            if without.len() > left_out.len() {
                tries_left -= 1;
                if let Some(other) = run_without(seed, options, &without).failure {
                    (left_out, failure) = (without, other);
                }
            }
            at += size;
        }
        size /= 2;
    }
    Some((options.steps - left_out.len(), failure))
}

fn take_step(world: &mut World, seed: u64, step: usize) -> Result<(), Failure> {
    let mut random = Random::new(seed ^ (step as u64 + 1).wrapping_mul(0xA24B_AED4_963E_E407));
    let random = &mut random;
    let action = world.some_action(random);
    world.act(action, random)?;
    if world.disk.is_dead() {
        return world.end(End::PowerCut, random);
    }
    // A few more steps see what a stopped tape does.
    let crash_one_in = if world.stopped { 3 } else { world.settings.crash_one_in };
    if random.one_in(crash_one_in) {
        let end = [End::Close, End::Kill, End::PowerCut][random.below(3) as usize];
        return world.end(end, random);
    }
    if random.one_in(8) { world.check_live(random) } else { Ok(()) }
}

/// Everything is there at the end: now, after a power cut, and after a clean close.
fn last_step(world: &mut World, seed: u64) -> Result<(), Failure> {
    let mut random = Random::new(!seed);
    world.check_live(&mut random)?;
    world.end(End::PowerCut, &mut random)?;
    world.end(End::Close, &mut random)
}
