//! Tables of many partitions: more than a chunk holds, so that chunks are cut, packed, unpacked and emptied;
//! and orphans, which are sought while the engine works.

use crate::crash_images::{check, open};
use crate::ledger::{DAY, contents, options, schema};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{Engine, EngineOptions, Selection, SystemClock};
use tickstone_model::{ColumnType, TableSchema, TimeRange};
use tickstone_sim::CrashDisk;

/// Rows numbered from `first`, three a day from the third on, as the ledger would have them: its times are made
/// of ids.
fn sparse(first: i64, count: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + count).map(|n| n / 3 * (DAY / 1_000) + n % 3 * 3).collect();
    let times = ids.iter().map(|id| 3 * DAY + id * 1_000);
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        (
            "symbol",
            Arc::new(StringArray::from_iter_values(ids.iter().map(|id| format!("BTC-USD{}", id / 20)))),
        ),
        ("id", Arc::new(Int64Array::from(ids.clone()))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn load(engine: &Engine, first: i64, count: i64) {
    let mut load = engine.load("trades").unwrap();
    load.append(&sparse(first, count)).unwrap();
    load.commit(None).unwrap();
}

#[test]
fn power_cuts_among_many_partitions() {
    let options = EngineOptions { compaction_parts_min: 2, ..options() };
    check(
        &options,
        &[
            &|engine| engine.create_table(schema("trades")).unwrap(),
            &|engine| load(engine, 0, 3 * 70),
            // One in the middle, one before the first that is left, one past the end.
            &|engine| {
                engine.append("trades", &sparse(3 * 35, 2), None).unwrap();
            },
            &|engine| {
                engine.drop_partitions("trades", TimeRange::new(0, 40 * DAY)).unwrap();
            },
            &|engine| {
                engine.append("trades", &sparse(3, 1), None).unwrap();
            },
            &|engine| {
                engine.append("trades", &sparse(3 * 90, 1), None).unwrap();
            },
            &|engine| engine.seal(None).unwrap(),
            &|engine| {
                let mut rewrite = engine.rewrite("trades").unwrap();
                let table = Arc::clone(rewrite.table());
                let time = TimeRange::new(60 * DAY, 62 * DAY);
                for segment in table.select(&Selection { time, ..Selection::default() }).unwrap() {
                    rewrite.delete(&segment, &[segment.rows()[0].start]).unwrap();
                }
                rewrite.commit().unwrap();
            },
        ],
    );
}

#[test]
fn what_a_manifest_says_is_the_same_after_many_openings() {
    let disk = CrashDisk::new();
    let engine = open(&disk, options()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    load(&engine, 0, 3 * 200);
    let mut before = contents(&engine);
    drop(engine);
    for round in 0..20 {
        let engine = open(&disk, options()).unwrap();
        let snapshot = engine.snapshot();
        let partitions = snapshot.table("trades").unwrap().partitions();
        assert_eq!(partitions.iter().count(), partitions.len());
        assert_eq!(partitions.iter().map(|partition| partition.rows()).sum::<u64>(), partitions.rows());
        assert_eq!(contents(&engine), before, "opened {round} times");
        engine.append("trades", &sparse(round * 31, 1), None).unwrap();
        if round % 3 == 0 {
            engine.drop_partitions("trades", TimeRange::new(round * DAY, (round + 2) * DAY)).unwrap();
        }
        if round % 2 == 0 {
            engine.seal(None).unwrap();
        }
        before = contents(&engine);
    }
}

fn put(disk: &MemoryDisk, path: &str) {
    disk.create(Path::new(path)).unwrap().append(b"half a file").unwrap();
}

fn is_there(disk: &MemoryDisk, path: &str) -> bool {
    disk.read(Path::new(path)).is_ok()
}

/// The files of a database, as a process leaves them that is killed now.
fn killed(disk: &MemoryDisk) -> MemoryDisk {
    fn copy(from: &MemoryDisk, dir: &Path, to: &MemoryDisk) {
        for entry in from.list(dir).unwrap() {
            let path = dir.join(&entry.name);
            if entry.is_dir {
                copy(from, &path, to);
            } else {
                to.create(&path).unwrap().append(&from.read(&path).unwrap()).unwrap();
            }
        }
    }
    let to = MemoryDisk::new();
    copy(disk, Path::new(""), &to);
    to
}

/// Orphans go while rows are committed, sealed, loaded and merged; nothing of these goes with them.
#[test]
fn orphans_go_beside_work_and_nothing_else_goes() {
    let options = || EngineOptions { memory_budget_bytes: 1 << 20, compaction_parts_min: 2, ..options() };
    let inline = || EngineOptions { background: false, ..options() };
    let disk = MemoryDisk::new();
    let engine = Engine::open_on(Arc::new(disk.clone()), Arc::new(SystemClock), inline()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    load(&engine, 0, 3 * 100);
    engine.append("trades", &sparse(5, 4), None).unwrap();
    let disk = killed(&disk);
    let before = contents(&engine).values().map(Vec::len).sum::<usize>();
    let orphans = [
        "tables/1/1970-01-05/000000-000000ff.part",
        "tables/1/1970-01-05/000000-000000fe.part.tmp",
        "tables/1/1970-01-06/what is this",
        "tables/1/manifest.tmp",
        "tables/1/symbols-1.tmp",
        "tables/0/1970-01-05/000000-00000001.part",
        "tables/0/symbols-1",
    ];
    orphans.iter().for_each(|path| put(&disk, path));
    let engine = Engine::open_on(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        EngineOptions { background: true, ..options() },
    )
    .unwrap();
    let start = Instant::now();
    let mut added = 0;
    while added < 200 || orphans.iter().any(|path| is_there(&disk, path)) {
        assert!(start.elapsed() < Duration::from_secs(60), "orphans stay");
        let first = 1_000 + added as i64;
        match added % 10 {
            3 => load(&engine, first, 1),
            _ => drop(engine.append("trades", &sparse(first % 300, 1), None).unwrap()),
        }
        added += 1;
        if added % 7 == 0 {
            engine.seal(None).unwrap();
        }
    }
    // A table made now has the next number; its folder is new.
    let schema = TableSchema::builder("more").column("name", ColumnType::Varchar).build().unwrap();
    engine.create_table(schema).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from(vec!["one"]));
    engine.append("more", &RecordBatch::try_from_iter([("name", names)]).unwrap(), None).unwrap();
    engine.seal(None).unwrap();
    drop(engine);
    for disk in [killed(&disk), disk] {
        let engine = Engine::open_on(Arc::new(disk), Arc::new(SystemClock), inline()).unwrap();
        let snapshot = engine.snapshot();
        assert_eq!(snapshot.table("trades").unwrap().rows(), (before + added) as u64);
        assert_eq!(snapshot.table("more").unwrap().rows(), 1);
        // Every part can be read.
        for table in snapshot.tables() {
            for segment in table.select(&Selection::default()).unwrap() {
                segment.read_ranges(0, segment.rows()).unwrap();
            }
        }
    }
}
