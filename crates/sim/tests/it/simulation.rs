//! The simulator over many seeds, and what it must be able to do: repeat itself, and find lies.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_engine::disk::Disk;
use tickstone_sim::{FaultyDisk, Kept, Lies, Report, RunOptions, StepClock, run, shrink};

/// Seeds of each test run; the program runs any others.
const SEEDS: u64 = 1_000;

/// Seeds that failed once, one a line; what stands after it says why.
const KEPT: &str = include_str!("../../seeds.txt");

/// Runs seeds on all cores; the first failing one with its report.
fn first_failure(seeds: &[u64], options: RunOptions) -> Option<(u64, Report)> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(&seed) = seeds.get(place).filter(|_| failed.lock().unwrap().is_none()) else {
                        break;
                    };
                    let report = run(seed, options);
                    if report.failure.is_some() {
                        failed.lock().unwrap().get_or_insert((seed, report));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

fn expect_none(seeds: &[u64]) {
    let options = RunOptions::default();
    if let Some((seed, report)) = first_failure(seeds, options) {
        let (steps, failure) = shrink(seed, options, 100).unwrap_or_default();
        let first = report.failure.unwrap_or_default();
        panic!(
            "seed {seed}: {first}\n\nwith {steps} steps: {failure}\n\nkeep the seed in crates/sim/seeds.txt"
        );
    }
}

#[test]
fn a_thousand_seeds_hold() {
    expect_none(&(1..=SEEDS).collect::<Vec<_>>());
}

/// A number that is another one with every commit, and the same for all who test it. Without a repository it is
/// that of the moment.
fn seed_of_the_commit() -> u64 {
    let git =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let hash = git.ok().filter(|git| git.status.success());
    let hash =
        hash.and_then(|git| u64::from_str_radix(str::from_utf8(&git.stdout).ok()?.get(..10)?, 16).ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    hash.unwrap_or_else(now)
}

#[test]
fn a_thousand_seeds_of_this_commit_hold() {
    let first = seed_of_the_commit();
    println!("seeds {first}..{}", first + SEEDS);
    expect_none(&(first..first + SEEDS).collect::<Vec<_>>());
}

#[test]
fn seeds_that_failed_once_hold() {
    let number = |line: &str| line.split_whitespace().next().and_then(|word| word.parse().ok());
    let seeds: Vec<u64> = KEPT.lines().filter(|line| !line.starts_with('#')).filter_map(number).collect();
    assert!(!seeds.is_empty());
    expect_none(&seeds);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut hashes = Vec::new();
    for seed in 1..=20 {
        let (first, second) = (run(seed, RunOptions::default()), run(seed, RunOptions::default()));
        assert_eq!((first.hash, first.calls), (second.hash, second.calls), "seed {seed}");
        assert!(first.calls > 100, "seed {seed} does nothing");
        hashes.push(first.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20, "different seeds are different runs");
}

#[test]
fn a_disk_that_lies_about_syncs_is_found() {
    let seeds: Vec<u64> = (1..=50).collect();
    for lies in [Lies { sync: true, sync_dir: false }, Lies { sync: false, sync_dir: true }] {
        let options = RunOptions { lies, ..RunOptions::default() };
        assert!(first_failure(&seeds, options).is_some(), "{lies:?} went by unseen");
    }
}

/// The simulated disk: what stands in a new folder outlives the removal of an older one of its name.
#[test]
fn a_new_folder_is_not_the_one_that_went() {
    let disk = FaultyDisk::new(1, Arc::new(StepClock::new(0)));
    let write = |path: &str| {
        let mut file = disk.create(Path::new(path)).unwrap();
        file.append(b"text").unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new(path).parent().unwrap()).unwrap();
    };
    write("next/old/a");
    write("next/same/b");
    disk.sync_dir(Path::new("")).unwrap();
    disk.remove(Path::new("next")).unwrap();
    write("next/new/c");
    write("next/same/b");
    disk.sync_dir(Path::new("")).unwrap();
    let left = disk.power_cut(Kept::Nothing).files();
    let names: Vec<&str> = left.iter().filter_map(|(path, _)| path.to_str()).collect();
    assert_eq!(names, ["next/new/c", "next/same/b"]);
}
