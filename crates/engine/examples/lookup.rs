//! What filters of an indexed column take, and what a look-up costs with and without them:
//! `cargo run --release -p tickstone-engine --example lookup -- [rows]`.
//!
//! Rows are orders of 200 instruments over a day, with ids that are random numbers, sealed into parts. A look-up
//! selects, and reads the ids of what is left.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement, not the engine"
)]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::disk::MemoryDisk;
use tickstone_engine::{ColumnPoints, Engine, EngineOptions, Selection, SystemClock};
use tickstone_model::{ColumnType, TableSchema};

const BATCH: u64 = 500_000;
const LOOK_UPS: u64 = 2_000;

/// Mixes a number (splitmix64): the id of a row.
fn id(row: u64) -> i64 {
    let z = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 1).cast_signed()
}

fn rows(first: u64, step_ns: i64) -> RecordBatch {
    let rows = || first..first + BATCH;
    let times = rows().map(|row| row.cast_signed() * step_ns);
    RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef),
        ("symbol", Arc::new(StringArray::from_iter_values(rows().map(|row| format!("S{}", id(row) % 200))))),
        ("id", Arc::new(Int64Array::from_iter_values(rows().map(id)))),
    ])
    .unwrap()
}

fn database(count: u64, indexed: bool) -> (Engine, f64) {
    let disk = Arc::new(MemoryDisk::new());
    let engine = Engine::open_on(disk, Arc::new(SystemClock), EngineOptions::default()).unwrap();
    let table = TableSchema::builder("orders")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64)
        .timestamp("ts")
        .indexed(indexed.then_some("id"));
    engine.create_table(table.build().unwrap()).unwrap();
    let step_ns = 86_400_000_000_000 / count.cast_signed();
    let mut load = engine.load("orders").unwrap();
    let batches: Vec<RecordBatch> =
        (0..count).step_by(BATCH as usize).map(|row| rows(row, step_ns)).collect();
    let start = Instant::now();
    batches.iter().for_each(|batch| load.append(batch).unwrap());
    load.commit(None).unwrap();
    (engine, start.elapsed().as_secs_f64())
}

/// Microseconds of a look-up, rows left, and rows found.
fn look_ups(engine: &Engine, ids: impl Iterator<Item = i64>, indexed: bool) -> (f64, u64, u64) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("orders").unwrap();
    let (mut count, mut left, mut found) = (0_u32, 0, 0);
    let start = Instant::now();
    for id in ids {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![id]));
        let points = if indexed {
            vec![ColumnPoints::new(2, ColumnType::Int64, &values).unwrap()]
        } else {
            Vec::new()
        };
        for segment in table.select(&Selection { points, ..Selection::default() }).unwrap() {
            let read = segment.read_ranges(2, segment.rows()).unwrap();
            left += read.len() as u64;
            found +=
                read.as_primitive::<Int64Type>().values().iter().filter(|other| **other == id).count() as u64;
        }
        count += 1;
    }
    (start.elapsed().as_secs_f64() * 1e6 / f64::from(count), left / u64::from(count), found)
}

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(20_000_000, |rows| rows.parse().unwrap());
    let mut bytes = Vec::new();
    for indexed in [false, true] {
        let (engine, seconds) = database(count, indexed);
        let snapshot = engine.snapshot();
        let disk: u64 = snapshot.table("orders").unwrap().partitions().iter().map(|p| p.disk_bytes()).sum();
        bytes.push(disk);
        println!(
            "indexed: {indexed}; {:.2} bytes a row, loaded in {seconds:.2} s",
            disk as f64 / count as f64
        );
        let times = if indexed { LOOK_UPS } else { 5 };
        for round in ["cold", "warm"] {
            let there = (0..times).map(|n| id(n * (count / times)));
            let (us, left, found) = look_ups(&engine, there, indexed);
            println!("  {round}: ids that are there {us:.1} us, {left} rows read, {found} found");
            let (us, left, found) = look_ups(&engine, (0..times).map(|n| id(count + n)), indexed);
            println!("  {round}: ids that are not {us:.1} us, {left} rows read, {found} found");
        }
    }
    println!("filters: {:.3} bytes a value", (bytes[1] - bytes[0]) as f64 / count as f64);
}
