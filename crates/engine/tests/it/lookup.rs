//! Values of indexed columns are looked up in parts of every origin, and most blocks are passed over.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use std::sync::Arc;
use tickstone_engine::disk::MemoryDisk;
use tickstone_engine::{Clock, ColumnPoints, Engine, EngineOptions, Selection};
use tickstone_model::{AlterTable, ColumnType, TableSchema};

const ROWS: i64 = 20_000;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> i64 {
        0
    }
}

fn open(disk: &MemoryDisk) -> Engine {
    let options = EngineOptions {
        background: false,
        threads: 1,
        compaction_parts_min: 0,
        archive_after: std::time::Duration::ZERO,
        ..EngineOptions::default()
    };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(Still), options).unwrap()
}

fn schema(indexed: &[&str]) -> TableSchema {
    let builder = TableSchema::builder("orders")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64)
        .column("note", ColumnType::Varchar);
    builder.timestamp("ts").indexed(indexed.iter().copied()).build().unwrap()
}

/// Ids in no order, each once over all rows.
fn id(row: i64) -> i64 {
    (row * 7_919) % 1_000_003
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let rows = || first..first + count;
    RecordBatch::try_from_iter_with_nullable([
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from_iter_values(rows().map(|n| n % ROWS))) as ArrayRef,
            true,
        ),
        ("symbol", Arc::new(StringArray::from_iter_values(rows().map(|n| format!("S{}", n % 50)))), true),
        ("id", Arc::new(Int64Array::from_iter_values(rows().map(id))), true),
        ("note", Arc::new(StringArray::from_iter_values(rows().map(|n| format!("note {n}")))), true),
    ])
    .unwrap()
}

/// Rows that a look-up of an id leaves, and how many of them have it.
fn look_up(engine: &Engine, id: i64) -> (usize, usize) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("orders").unwrap();
    let column = table.schema().column_index("id").unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    let points = vec![ColumnPoints::new(column, ColumnType::Int64, &values).unwrap()];
    let (mut left, mut have) = (0, 0);
    for segment in table.select(&Selection { points, ..Selection::default() }).unwrap() {
        let values = segment.read_ranges(column, segment.rows()).unwrap();
        left += values.len();
        have += values.as_primitive::<Int64Type>().iter().filter(|value| *value == Some(id)).count();
    }
    (left, have)
}

/// Every id that is there is found in few rows, others in none or few.
fn check(engine: &Engine, last: i64) {
    let mut left = 0;
    for row in (0..last).step_by(1_013) {
        let (rows, have) = look_up(engine, id(row));
        assert_eq!(have, 1, "row {row}");
        left += rows;
    }
    let looked_up = (last as usize).div_ceil(1_013);
    assert!(left < looked_up * 16_384 * 5 / 4, "{left} rows are left of {looked_up} look-ups");
    let none: usize = (0..100).map(|n| look_up(engine, 2_000_000 + n).0).sum();
    assert!(none < 100 * last as usize / 20, "{none} rows are left of ids that are not there");
}

#[test]
fn parts_of_every_origin_have_filters() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_table(schema(&["id", "note"])).unwrap();
    engine.append("orders", &rows(0, ROWS), None).unwrap();
    assert_eq!(look_up(&engine, id(5)), (ROWS as usize, 1), "of runs every row is left");
    engine.seal(None).unwrap();
    check(&engine, ROWS);
    let mut load = engine.load("orders").unwrap();
    load.append(&rows(ROWS, ROWS)).unwrap();
    load.commit(None).unwrap();
    check(&engine, 2 * ROWS);
    engine.compact(None).unwrap();
    assert_eq!(engine.snapshot().table("orders").unwrap().partitions().iter().next().unwrap().parts(), 1);
    check(&engine, 2 * ROWS);
    // A rewrite leaves the others where they can be found.
    let mut rewrite = engine.rewrite("orders").unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection::default()).unwrap() {
        let ids = segment.read_ranges(2, segment.rows()).unwrap();
        let numbers = segment.rows().iter().cloned().flatten().zip(ids.as_primitive::<Int64Type>().values());
        let gone: Vec<usize> = numbers.filter(|(_, n)| **n == id(3)).map(|(row, _)| row).collect();
        rewrite.delete(&segment, &gone).unwrap();
    }
    rewrite.commit().unwrap();
    assert_eq!(look_up(&engine, id(3)).1, 0);
    check(&engine, 2 * ROWS);
    engine.archive(None).unwrap();
    check(&engine, 2 * ROWS);
    drop(engine);
    check(&open(&disk), 2 * ROWS);
}

#[test]
fn an_index_comes_and_goes_with_the_parts_written_later() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_table(schema(&[])).unwrap();
    engine.append("orders", &rows(0, ROWS), None).unwrap();
    engine.seal(None).unwrap();
    engine.alter_table("orders", &AlterTable::AddIndex("ID".to_string())).unwrap();
    assert_eq!(look_up(&engine, id(5)), (ROWS as usize, 1), "the part is as it was");
    engine.append("orders", &rows(ROWS, ROWS), None).unwrap();
    engine.seal(None).unwrap();
    let (left, have) = look_up(&engine, id(5));
    assert!(have == 1 && left < (ROWS + 200) as usize, "{left}");
    drop(engine);
    let engine = open(&disk);
    assert_eq!(engine.snapshot().table("orders").unwrap().schema().indexed(), [2]);
    engine.compact(None).unwrap();
    check(&engine, 2 * ROWS);
    // A column before it goes, and its own place changes.
    engine
        .alter_table("orders", &AlterTable::RenameColumn { from: "id".into(), to: "number".into() })
        .unwrap();
    engine
        .alter_table("orders", &AlterTable::RenameColumn { from: "number".into(), to: "id".into() })
        .unwrap();
    engine.alter_table("orders", &AlterTable::DropColumn("note".into())).unwrap();
    check(&engine, 2 * ROWS);
    engine.alter_table("orders", &AlterTable::DropIndex("id".into())).unwrap();
    check(&engine, 2 * ROWS);
    drop(engine);
    let engine = open(&disk);
    assert!(engine.snapshot().table("orders").unwrap().schema().indexed().is_empty());
}
