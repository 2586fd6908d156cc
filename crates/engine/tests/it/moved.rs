//! A database directory that is renamed, moved or removed while it is open.

#![allow(clippy::disallowed_methods, reason = "does to a directory what other programs do")]

use arrow_array::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::{Engine, EngineError, EngineOptions, ErrorKind};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};

fn options() -> EngineOptions {
    EngineOptions {
        background: false,
        threads: 1,
        segment_bytes: 4 << 10,
        tape_bytes_max: 32 << 10,
        sync_interval: Duration::from_millis(1),
        ..EngineOptions::default()
    }
}

fn create(engine: &Engine, name: &str) {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    engine.create_table(builder.timestamp("ts").build().unwrap()).unwrap();
}

fn append(engine: &Engine, table: &str, first: i64, sync: SyncPolicy) -> tickstone_engine::Result<()> {
    let ids = first..first + 50;
    let times = ids.clone().map(|id| (id % 2) * 86_400_000_000_000 + id);
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef, true),
        ("symbol", Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("S{id}")))), true),
        ("id", Arc::new(Int64Array::from_iter_values(ids)), true),
    ]);
    engine.append(table, &rows.unwrap(), Some(sync)).map(|_| ())
}

/// Everything that an engine does with files.
fn work(engine: &Engine, first: i64) {
    for commit in 0..20 {
        append(engine, "t", first + commit * 50, SyncPolicy::Always).unwrap();
        if commit % 6 == 5 {
            engine.seal(None).unwrap();
        }
    }
    engine.compact(Some("t")).unwrap();
    create(engine, "passing");
    append(engine, "passing", 0, SyncPolicy::Interval).unwrap();
    engine.seal(None).unwrap();
    engine.hold().unwrap();
    engine.release().unwrap();
    engine.drop_table("passing").unwrap();
    engine.maintain().unwrap();
}

fn rows(engine: &Engine) -> u64 {
    engine.snapshot().table("t").unwrap().rows()
}

fn holds(path: &Path, expected: u64) {
    let engine = Engine::open(path, options()).unwrap();
    assert_eq!(rows(&engine), expected);
    assert!(engine.snapshot().table("passing").is_none());
}

#[test]
fn a_directory_goes_on_under_its_new_name() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("elsewhere"));
    fs::create_dir(&new).unwrap();
    let new = new.join("new");
    let engine = Engine::open(&old, options()).unwrap();
    create(&engine, "t");
    work(&engine, 0);
    let reader = Engine::open_read_only(&old, options()).unwrap();
    fs::rename(&old, &new).unwrap();
    work(&engine, 1_000);
    assert!(!old.exists(), "nothing is made under the old name");
    reader.refresh().unwrap();
    assert_eq!(rows(&reader), 2_000);
    assert!(matches!(Engine::open(&new, options()), Err(EngineError::Locked { .. })));
    {
        // Another database may take the old name.
        let other = Engine::open(&old, options()).unwrap();
        create(&other, "t");
        append(&other, "t", 0, SyncPolicy::Always).unwrap();
        work(&other, 2_000);
    }
    drop(engine);
    holds(&old, 1_050);
    holds(&new, 2_000);
    reader.refresh().unwrap();
    assert_eq!(rows(&reader), 2_000);
}

#[test]
fn nothing_is_acknowledged_in_a_directory_that_was_removed() {
    for policy in [SyncPolicy::Always, SyncPolicy::Interval] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let engine = Engine::open(&path, options()).unwrap();
        create(&engine, "t");
        append(&engine, "t", 0, SyncPolicy::Always).unwrap();
        let reader = Engine::open_read_only(&path, options()).unwrap();
        fs::remove_dir_all(&path).unwrap();
        // Rows that need not be stable at once are refused once the next sync has found out.
        let outcomes = (1..5).map(|commit| {
            std::thread::sleep(Duration::from_millis(2));
            append(&engine, "t", commit * 50, policy)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let error = outcomes.last().unwrap().as_ref().unwrap_err();
        assert!(matches!(error, EngineError::TapeStopped { .. }), "{error}");
        assert!(policy != SyncPolicy::Always || outcomes[0].is_err());
        assert!(!path.exists(), "nothing is made anew");
        let error = reader.refresh().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FixRequest, "{error}");
        assert!(error.to_string().contains("removed"), "{error}");
    }
}

#[test]
fn a_reader_notices_that_the_files_were_removed() {
    let dir = tempfile::tempdir().unwrap();
    {
        let engine = Engine::open(dir.path(), options()).unwrap();
        create(&engine, "t");
        append(&engine, "t", 0, SyncPolicy::Always).unwrap();
    }
    let reader = Engine::open_read_only(dir.path(), options()).unwrap();
    // Nothing was sealed: all there is stands in the tape.
    fs::remove_dir_all(dir.path().join("tape")).unwrap();
    let error = reader.refresh().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FixRequest, "{error}");
    assert!(error.to_string().contains("removed"), "{error}");
    assert_eq!(rows(&reader), 50, "what was read stays");
}
