//! Parts merge without losing, doubling or reordering a row, whatever moment the power goes at.

use crate::crash_images::{append, check, open};
use crate::ledger::{contents, options, rows, schema};
use tickstone_engine::{Engine, EngineOptions};
use tickstone_sim::CrashDisk;

fn parts(engine: &Engine) -> Vec<usize> {
    let snapshot = engine.snapshot();
    snapshot.table("trades").unwrap().partitions().iter().map(|partition| partition.parts()).collect()
}

#[test]
fn compaction_survives() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    let compact = |engine: &Engine| {
        engine.compact(None).unwrap();
        assert_eq!(parts(engine), [1, 1, 1]);
    };
    check(
        &EngineOptions { compaction_parts_min: 0, ..options() },
        &[
            &create,
            &append("trades", 0, 30),
            &seal,
            &append("trades", 30, 7),
            &seal,
            &append("trades", 37, 24),
            &compact,
            &append("trades", 61, 3),
            &append("trades", 64, 3),
            &compact,
        ],
    );
}

#[test]
fn compaction_unasked_survives() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let step = |first: i64| {
        move |engine: &Engine| {
            engine.append("trades", &rows(first, 6), None).unwrap();
            engine.seal(None).unwrap();
        }
    };
    let merged = |engine: &Engine| {
        engine.append("trades", &rows(60, 1), None).unwrap();
        assert!(parts(engine).iter().all(|parts| *parts <= 3), "{:?}", parts(engine));
        assert!(engine.maintenance_stats().compactions > 0);
        assert_eq!(engine.maintenance_stats().last_failure, None);
    };
    check(
        &EngineOptions { compaction_parts_min: 3, ..options() },
        &[&create, &step(0), &step(6), &step(12), &step(18), &merged],
    );
}

#[test]
fn old_files_go_when_nobody_holds_them() {
    let disk = CrashDisk::new();
    let engine = open(&disk, EngineOptions { compaction_parts_min: 0, ..options() }).unwrap();
    engine.create_table(schema("trades")).unwrap();
    for step in 0..5 {
        engine.append("trades", &rows(step * 10, 10), None).unwrap();
        engine.seal(None).unwrap();
    }
    let files = || disk.files().iter().filter(|(path, _)| path.extension() == Some("part".as_ref())).count();
    let (before, held) = (contents(&engine), engine.snapshot());
    assert_eq!(files(), 15);
    engine.compact(Some("trades")).unwrap();
    assert_eq!(files(), 18, "a snapshot still holds the old parts");
    assert_eq!(crate::ledger::ids(&held, "trades").unwrap(), before["trades"]);
    drop(held);
    assert_eq!(files(), 3);
    assert_eq!(contents(&engine), before);
    let stats = engine.maintenance_stats();
    assert_eq!((stats.parts_merged, stats.compactions), (15, 3));
    assert!(stats.write_amplification() > 1.0 && stats.write_amplification() < 2.5, "{stats:?}");
}
