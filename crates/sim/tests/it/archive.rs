//! Partitions that nobody writes any more become one dense part each, once, with the same rows.

use crate::crash_images::{append, check};
use crate::ledger::{contents, options, rows, schema};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tickstone_engine::{Clock, Engine, EngineOptions};
use tickstone_sim::CrashDisk;

const DAY: i64 = 86_400_000_000_000;

/// Stands where it was set.
#[derive(Debug)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// For each part, in order, whether it is dense.
fn dense(engine: &Engine) -> Vec<bool> {
    let snapshot = engine.snapshot();
    let files = snapshot.table("trades").unwrap().partitions().iter().flat_map(|p| p.part_files());
    files.map(|file| file.to_str().unwrap().ends_with("-dense.part")).collect()
}

#[test]
fn archiving_survives() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    let archive = |engine: &Engine| {
        engine.archive(None).unwrap();
        assert_eq!(dense(engine), [true, true, true]);
    };
    check(
        &EngineOptions { compaction_parts_min: 0, archive_after: Duration::ZERO, ..options() },
        &[
            &create,
            &append("trades", 0, 30),
            &seal,
            &append("trades", 30, 7),
            &archive,
            &append("trades", 37, 24),
            &seal,
            &append("trades", 61, 3),
            &archive,
        ],
    );
}

#[test]
fn what_is_old_is_archived_once_also_after_reopening() {
    let disk = CrashDisk::new();
    let clock = Arc::new(SetClock(AtomicI64::new(20_000 * DAY)));
    let week = Duration::from_secs(7 * 86_400);
    let options = EngineOptions { compaction_parts_min: 0, archive_after: week, ..options() };
    let open =
        || Engine::open_on(Arc::new(disk.clone()), Arc::clone(&clock) as Arc<_>, options.clone()).unwrap();
    let engine = open();
    engine.create_table(schema("trades")).unwrap();
    for step in 0..3 {
        engine.append("trades", &rows(step * 10, 10), None).unwrap();
        engine.seal(None).unwrap();
    }
    let written = contents(&engine);
    assert_eq!(dense(&engine), [false; 9]);
    clock.0.fetch_add(6 * DAY, Ordering::Relaxed);
    drop(engine);
    // Nothing is old enough; then all is, but for what a snapshot of recent rows says is still written.
    let engine = open();
    engine.create_table(schema("other")).unwrap();
    engine.append("other", &rows(0, 1), None).unwrap();
    assert_eq!(dense(&engine), [false; 9]);
    clock.0.fetch_add(2 * DAY, Ordering::Relaxed);
    engine.append("other", &rows(1, 1), None).unwrap();
    assert_eq!(dense(&engine), [true; 3]);
    assert_eq!(contents(&engine)["trades"], written["trades"]);
    let compactions = engine.maintenance_stats().compactions;
    assert_eq!(compactions, 3);
    clock.0.fetch_add(30 * DAY, Ordering::Relaxed);
    engine.append("other", &rows(2, 1), None).unwrap();
    assert_eq!(engine.maintenance_stats().compactions, compactions, "once is enough");
    // Late rows make their partitions due again, a week after they were sealed.
    engine.append("trades", &rows(30, 10), None).unwrap();
    engine.seal(None).unwrap();
    let later = contents(&engine);
    assert_eq!(dense(&engine).iter().filter(|dense| !**dense).count(), 3);
    clock.0.fetch_add(8 * DAY, Ordering::Relaxed);
    drop(engine);
    let engine = open();
    engine.append("other", &rows(3, 1), None).unwrap();
    assert_eq!(dense(&engine), [true; 3]);
    assert_eq!(contents(&engine)["trades"], later["trades"]);
}
