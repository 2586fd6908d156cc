//! A long day without crashes: what the database takes of memory, maps and files must not grow with time.

use crate::Random;
use crate::faulty_disk::FaultRates;
use crate::world::{ACTIONS, Action, Failure, Settings, World};
use std::sync::{Arc, Weak};
use tickstone_engine::Snapshot;

/// What the database takes at one moment, with no reader, writer or loader left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// When, ns since the beginning of the day.
    pub at_ns: i64,
    /// Contents of files held: what would be maps.
    pub maps: usize,
    /// Files open for appending.
    pub open_files: usize,
    /// Files on the disk.
    pub files: usize,
    /// Their bytes.
    pub disk_bytes: u64,
    /// Segments of the tape among them.
    pub segments: usize,
    /// Parts that the tables name.
    pub parts: usize,
    /// Runs in memory.
    pub runs: usize,
    /// Their bytes.
    pub recent_bytes: usize,
    /// Snapshots alive.
    pub snapshots: usize,
}

/// Simulates 24 hours in so many steps; gives the footprint at `samples` moments, evenly apart.
///
/// # Errors
/// What does not hold, in words.
pub fn simulate_day(seed: u64, steps: usize, samples: usize) -> Result<Vec<Footprint>, Failure> {
    let mut random = Random::new(seed);
    let mut settings = Settings::new(&mut random, ACTIONS.len());
    settings.rates = FaultRates { slow: 100, ..FaultRates::default() };
    settings.weights = ACTIONS.iter().map(|(action, _)| u64::from(is_of_a_day(*action))).collect();
    settings.rows_max = 600;
    settings.options.memory_budget_bytes = 600_000;
    settings.options.segment_bytes = 8_000;
    settings.options.tape_bytes_max = 64_000;
    // What is kept for those who follow has a bound of its own.
    settings.options.tape_keep_bytes = 0;
    let mut world = World::new(seed, settings)?;
    let start_ns = tickstone_engine::Clock::now_ns(world.clock.as_ref());
    let step_ns = 86_400_000_000_000 / steps as i64;
    let mut taken: Vec<Weak<Snapshot>> = Vec::new();
    let mut footprints = Vec::new();
    for step in 0..steps {
        world.clock.advance(step_ns);
        let action = world.some_action(&mut random);
        world.act(action, &mut random).map_err(|what| format!("step {step}: {what}"))?;
        world.trace.clear();
        if random.one_in(20) {
            taken.push(Arc::downgrade(&world.engine()?.snapshot()));
        }
        if (step + 1) % (steps / samples) == 0 {
            world.check_live(&mut random)?;
            // Who is under way holds the table as it was when they began.
            world.readers.clear();
            world.writers.clear();
            world.loaders.clear();
            // Another process's maps are not this one's.
            world.follower = None;
            taken.retain(|snapshot| snapshot.strong_count() > 0);
            let at_ns = step_ns * (step as i64 + 1);
            footprints.push(Footprint { at_ns, snapshots: taken.len(), ..footprint(&world)? });
        }
    }
    let passed_ns = tickstone_engine::Clock::now_ns(world.clock.as_ref()) - start_ns;
    if passed_ns < 86_400_000_000_000 { Err("the day was too short".to_string()) } else { Ok(footprints) }
}

fn is_of_a_day(action: Action) -> bool {
    !matches!(action, Action::FillDisk | Action::ArmPowerCut | Action::PassTime | Action::Hold)
}

fn footprint(world: &World) -> Result<Footprint, Failure> {
    let snapshot = world.engine()?.snapshot();
    let partitions = || snapshot.tables().flat_map(|table| table.partitions());
    let files = world.disk.files();
    Ok(Footprint {
        at_ns: 0,
        maps: usize::try_from(world.disk.held_contents()).unwrap_or(usize::MAX),
        open_files: usize::try_from(world.disk.open_files()).unwrap_or(usize::MAX),
        files: files.len(),
        disk_bytes: world.disk.used_bytes(),
        segments: files.iter().filter(|(path, _)| path.starts_with("tape")).count(),
        parts: partitions().map(|partition| partition.parts()).sum(),
        runs: partitions().map(|partition| partition.runs()).sum(),
        recent_bytes: snapshot.recent_bytes(),
        snapshots: 0,
    })
}
