//! DEDUP UPSERT KEYS: the last row of each key is there, before and after a power cut.

use crate::crash_images;
use crate::ledger::options;
use crate::model::{Row, TABLE, batch, random_rows, rows_of, table};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineOptions, Selection, SystemClock};
use tickstone_model::{SyncPolicy, TableSchema};
use tickstone_sim::{CrashDisk, Random};

fn schema() -> TableSchema {
    table().dedup(["symbol", "ts"]).build().unwrap()
}

fn contents(engine: &Engine) -> Vec<Row> {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table(TABLE) else { return Vec::new() };
    let segments = table.select(&Selection::default()).unwrap();
    let mut rows: Vec<Row> =
        segments.iter().flat_map(|segment| rows_of(table, segment)).map(|(_, row)| row).collect();
    rows.sort_by_key(|row| row.id);
    rows
}

#[test]
fn replaced_rows_stay_so() {
    let disk = CrashDisk::new();
    let options = EngineOptions { compaction_parts_min: 3, ..options() };
    let engine = crash_images::open(&disk, options.clone()).unwrap();
    engine.create_table(schema()).unwrap();
    let first = disk.calls();
    let (mut random, mut states) = (Random::new(11), vec![(first, Vec::new())]);
    for step in 0..14 {
        match step % 7 {
            2 | 5 => engine.seal(None).unwrap(),
            4 => {
                let mut load = engine.load(TABLE).unwrap();
                load.append(&batch(&random_rows(&mut random, step * 100, 25))).unwrap();
                load.commit(None).unwrap();
            }
            6 => engine.compact(None).unwrap(),
            _ => {
                engine.append(TABLE, &batch(&random_rows(&mut random, step * 100, 25)), None).unwrap();
            }
        }
        states.push((disk.calls(), contents(&engine)));
    }
    drop(engine);
    for image in disk.images(first, 3) {
        let engine = crash_images::open(&image.disk(), options.clone()).unwrap();
        let found = contents(&engine);
        let acknowledged = states.iter().rposition(|(calls, _)| *calls <= image.calls).unwrap();
        let allowed = &states[acknowledged..states.len().min(acknowledged + 2)];
        assert!(allowed.iter().any(|(_, state)| *state == found), "after call {}", image.calls);
    }
}

#[test]
fn a_row_sent_twice_is_one_row() {
    let disk = CrashDisk::new();
    let engine = crash_images::open(&disk, options()).unwrap();
    engine.create_table(table().dedup(["ts", "symbol", "id", "tag"]).build().unwrap()).unwrap();
    let rows = random_rows(&mut Random::new(5), 0, 60);
    for _ in 0..2 {
        engine.append(TABLE, &batch(&rows), None).unwrap();
        engine.seal(None).unwrap();
        engine.append(TABLE, &batch(&rows), None).unwrap();
        assert_eq!(contents(&engine), rows, "ids are among the keys: nothing else is replaced");
    }
    engine.compact(None).unwrap();
    assert_eq!(contents(&engine), rows);
}

/// Producers, merging, sealing and compaction at once: the last of each key, whatever came between.
#[test]
fn many_producers_replace_rows_while_parts_merge() {
    let folder = std::env::temp_dir().join(format!("tickstone-dedup-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let options = EngineOptions {
        memory_budget_bytes: 60_000,
        compaction_parts_min: 2,
        slice_rows: 64,
        ..EngineOptions::default()
    };
    let disk = Arc::new(tickstone_engine::disk::FileDisk::open(&folder).unwrap());
    let engine = Engine::open_on(disk, Arc::new(SystemClock), options.clone()).unwrap();
    engine.create_table(schema()).unwrap();
    std::thread::scope(|scope| {
        for producer in 0..3_u64 {
            let engine = &engine;
            scope.spawn(move || {
                let mut random = Random::new(producer);
                for step in 0..60 {
                    // Each producer has instants of its own, so that its last row of a key is the last of all.
                    let mut rows = random_rows(&mut random, (step * 10_000 + producer * 100) as i64, 40);
                    rows.iter_mut().for_each(|row| row.ts = row.ts * 3 + producer as i64);
                    engine.append(TABLE, &batch(&rows), None).unwrap();
                }
            });
        }
    });
    let mut expected: BTreeMap<(i64, Option<&str>), Row> = BTreeMap::new();
    for producer in 0..3_u64 {
        let mut random = Random::new(producer);
        for step in 0..60 {
            for mut row in random_rows(&mut random, (step * 10_000 + producer * 100) as i64, 40) {
                row.ts = row.ts * 3 + producer as i64;
                expected.insert((row.ts, row.symbol), row);
            }
        }
    }
    let mut expected: Vec<Row> = expected.into_values().collect();
    expected.sort_by_key(|row| row.id);
    assert_eq!(contents(&engine), expected);
    let stats = engine.maintenance_stats();
    assert!(stats.sealed_bytes > 0, "{stats:?}");
    engine.compact(None).unwrap();
    assert_eq!(contents(&engine), expected);
    let files = engine.files();
    drop(engine);
    while files.are_in_use() {
        std::thread::yield_now();
    }
    let engine = Engine::open(&folder, options).unwrap();
    assert_eq!(contents(&engine), expected);
    drop(engine);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A row that replaced all of an earlier commit is deleted: the tape does not bring the earlier one back.
#[test]
fn what_a_deleted_row_replaced_does_not_come_back() {
    let disk = CrashDisk::new();
    let engine = crash_images::open(&disk, EngineOptions { segment_bytes: 1 << 20, ..options() }).unwrap();
    engine.create_table(schema()).unwrap();
    let row = |id: i64| Row { ts: 5, symbol: Some("A"), id, px: None, tag: None };
    for id in 0..3 {
        engine.append(TABLE, &batch(&[row(id)]), None).unwrap();
    }
    assert_eq!(contents(&engine), [row(2)]);
    assert_eq!(crate::model::delete(&engine, tickstone_model::TimeRange::ALL, |_| true), 1);
    drop(engine);
    for _ in 0..2 {
        let engine = crash_images::open(&disk, options()).unwrap();
        assert_eq!(contents(&engine), []);
    }
}

/// A row that was synced is replaced by one that was not, and the tape lets go of the first: a power cut leaves one of
/// them.
#[test]
fn the_tape_keeps_a_row_until_the_one_that_replaced_it_is_stable() {
    let disk = CrashDisk::new();
    let options = EngineOptions { segment_bytes: 600, tape_bytes_max: 0, ..options() };
    let engine = crash_images::open(&disk, options.clone()).unwrap();
    engine.create_table(schema()).unwrap();
    let row = |id: i64| Row { ts: 5, symbol: Some("A"), id, px: None, tag: None };
    // The manifest gets the symbol, and the tape lets go of it: nothing else asks for another manifest.
    engine.append(TABLE, &batch(&[Row { ts: i64::MAX / 2, ..row(7) }]), None).unwrap();
    engine.seal(None).unwrap();
    drop(engine);
    let engine = crash_images::open(&disk, options.clone()).unwrap();
    engine.append(TABLE, &batch(&[row(0)]), Some(SyncPolicy::Always)).unwrap();
    let (acknowledged, segments) = (disk.calls(), |disk: &CrashDisk| {
        let files = disk.files().into_iter().map(|(path, _)| path);
        files.filter(|path| path.extension().is_some_and(|ending| ending == "tape")).collect::<Vec<_>>()
    });
    let first = segments(&disk);
    drop(engine);
    let engine = crash_images::open(&disk, options.clone()).unwrap();
    engine.append(TABLE, &batch(&[row(1)]), Some(SyncPolicy::None)).unwrap();
    engine.maintain().unwrap();
    assert!(segments(&disk).iter().all(|segment| !first.contains(segment)), "the tape lets go of it");
    drop(engine);
    for image in disk.images(acknowledged, 2) {
        let engine = crash_images::open(&image.disk(), options.clone()).unwrap();
        let found = contents(&engine);
        let has_one = found.len() == 2 && [row(0), row(1)].contains(&found[0]);
        assert!(has_one, "after call {}: {found:?}", image.calls);
    }
}
