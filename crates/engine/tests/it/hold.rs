//! CHECKPOINT HOLD on the real disk: its folder, copied file by file in any order while the database is written,
//! is a database of one state.

#![allow(clippy::disallowed_methods, reason = "copies files as rsync does")]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tickstone_engine::{Engine, EngineError, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};

const ROWS: i64 = 40;

fn options() -> EngineOptions {
    EngineOptions {
        threads: 1,
        memory_budget_bytes: 1 << 20,
        segment_bytes: 8 << 10,
        tape_bytes_max: 64 << 10,
        compaction_parts_min: 2,
        ..EngineOptions::default()
    }
}

fn schema(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    builder.timestamp("ts").build().unwrap()
}

/// Rows that bring a symbol of their own, spread over two partitions.
fn rows(first: i64) -> RecordBatch {
    let ids = first..first + ROWS;
    let times = ids.clone().map(|id| (id % 2) * 86_400_000_000_000 + id);
    let symbols = ids.clone().map(|id| format!("S{}", id / 100));
    RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef, true),
        ("symbol", Arc::new(StringArray::from_iter_values(symbols)), true),
        ("id", Arc::new(Int64Array::from_iter_values(ids)), true),
    ])
    .unwrap()
}

/// The ids in a table, in order.
fn ids(engine: &Engine, table: &str) -> Vec<i64> {
    let snapshot = engine.snapshot();
    let table = snapshot.table(table).unwrap();
    let mut ids = Vec::new();
    for segment in table.select(&Selection::default()).unwrap() {
        let values = segment.read_ranges(2, segment.rows()).unwrap();
        ids.extend_from_slice(values.as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

/// Commits to two tables at once, and everything that makes files come and go, until told to stop.
fn write(engine: &Engine, acknowledged: &AtomicI64, stop: &AtomicBool) {
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut transaction = engine.begin();
        transaction.append("trades", &rows(next)).unwrap();
        transaction.append("quotes", &rows(next)).unwrap();
        transaction.commit(Some(SyncPolicy::None)).unwrap();
        next += ROWS;
        acknowledged.store(next, Ordering::SeqCst);
        match (next / ROWS) % 12 {
            2 => engine.append("passing", &rows(next), None).map(|_| ()).unwrap(),
            4 => engine.seal(Some("quotes")).unwrap(),
            6 => engine.compact(None).unwrap(),
            8 => engine.truncate_table("passing").unwrap(),
            10 => {
                engine.drop_table("passing").unwrap();
                engine.create_table(schema("passing")).unwrap();
            }
            _ => {}
        }
    }
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// Copies a folder file by file, in an order that `seed` gives; returns what was copied.
fn copy(from: &Path, to: &Path, seed: u64) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files_below(from);
    files.sort_by_cached_key(|path| {
        let name = path.to_string_lossy();
        name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    });
    let mut copied = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(from).unwrap().to_path_buf();
        let bytes = fs::read(&file).unwrap();
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::write(to.join(&name), &bytes).unwrap();
        copied.insert(name, bytes);
        std::thread::sleep(Duration::from_millis(2));
    }
    copied
}

#[test]
fn a_hold_is_copied_in_any_order_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let engine = Engine::open(&data, options()).unwrap();
    for name in ["trades", "quotes", "passing"] {
        engine.create_table(schema(name)).unwrap();
    }
    let (acknowledged, stop) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| write(&engine, &acknowledged, &stop));
        for round in 0..4_u64 {
            while acknowledged.load(Ordering::SeqCst) < 2_000 * (round as i64 + 1) {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::SeqCst);
            let held = engine.hold().unwrap();
            let after = acknowledged.load(Ordering::SeqCst);
            assert!(matches!(engine.hold(), Err(EngineError::AlreadyHeld)));
            let (a, b) = (dir.path().join(format!("a{round}")), dir.path().join(format!("b{round}")));
            let first = copy(&data.join("hold"), &a, round);
            // Writing goes on beside a hold, as slow as the machine may be.
            while acknowledged.load(Ordering::SeqCst) <= after {
                std::thread::yield_now();
            }
            assert!(first == copy(&data.join("hold"), &b, !round), "a file of a hold has changed");
            engine.release().unwrap();
            for copy in [a, b] {
                let copy = Engine::open(copy, options()).unwrap();
                let found = ids(&copy, "trades");
                assert!(found.iter().copied().eq(0..found.len() as i64), "round {round}: a hole");
                assert_eq!(found, ids(&copy, "quotes"), "round {round}: half a commit");
                let count = found.len() as i64;
                assert!((before..=after + ROWS).contains(&count), "{count} of {before} to {after} rows");
                let count: u64 = copy.snapshot().tables().map(|table| table.rows()).sum();
                assert_eq!(count, held.rows);
                copy.append("trades", &rows(found.len() as i64), None).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_hold_takes_no_room_outlives_its_process_and_goes_when_released() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), options()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    engine.append("trades", &rows(0), None).unwrap();
    assert!(matches!(engine.release(), Err(EngineError::NotHeld)));
    let held = engine.hold().unwrap();
    assert_eq!((held.tables, held.rows, held.parts, held.parts_copied), (1, ROWS as u64, 2, 0));
    // What was held goes from the database, and stays in the hold.
    engine.drop_table("trades").unwrap();
    drop(engine);
    let engine = Engine::open(dir.path(), options()).unwrap();
    assert!(engine.is_held().unwrap());
    assert!(engine.snapshot().table("trades").is_none());
    let read = Engine::open_read_only(dir.path().join("hold"), options()).unwrap();
    assert_eq!(ids(&read, "trades").len(), ROWS as usize);
    drop(read);
    engine.release().unwrap();
    assert!(!engine.is_held().unwrap() && !dir.path().join("hold").exists());
    let read_only = Engine::open_read_only(dir.path(), options()).unwrap();
    assert!(matches!(read_only.hold(), Err(EngineError::ReadOnly { .. })));
}
