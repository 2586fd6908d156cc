//! Benchmark of the engine without SQL; prints one JSON object.
//!
//! usage: bench_engine recovery|commit|hour DIR [ROWS]
//!
//! - `recovery`: ROWS (default 5,000,000) trades of 8 columns are committed by the thousand into the tape and
//!   never sealed; the process stops without closing the database, and another one opens it.
//! - `commit`: one thread commits ROWS (default 500,000) single rows with policy `none` to a table that is
//!   sealed and merged meanwhile; percentiles of the time one commit takes.
//! - `hour`: a year of ROWS (default 20,000,000) trades of 100 symbols in daily partitions; one symbol's hour
//!   at a time, located and read (time, price, amount), warm: median over many random hours.
//!
//! DIR must not exist; it is made and removed.

#![allow(missing_docs, clippy::disallowed_methods, reason = "a measurement, not an interface")]

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema, TimeRange};

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: bench_engine recovery|commit|hour DIR [ROWS]";
const SYMBOLS: u64 = 100;
const HOUR_NS: i64 = 3_600_000_000_000;
const YEAR_NS: i64 = 365 * 24 * HOUR_NS;
/// 2024-01-01.
const START_NS: i64 = 1_704_067_200_000_000_000;

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn schema() -> Outcome<TableSchema> {
    let mut builder = TableSchema::builder("trades").column("ts", ColumnType::Timestamp);
    builder = builder.column("received", ColumnType::Timestamp);
    for name in ["exchange", "symbol", "side"] {
        builder = builder.column(name, ColumnType::Symbol);
    }
    for name in ["price", "amount"] {
        builder = builder.column(name, ColumnType::Float64);
    }
    Ok(builder.column("id", ColumnType::Int64).timestamp("ts").series(["symbol"]).build()?)
}

/// Trades of 8 columns, the first at `ts` and each `step` ns after the one before.
fn trades(first: usize, rows: usize, ts: i64, step: i64, random: &mut u64) -> Outcome<RecordBatch> {
    let draws: Vec<u64> = (0..rows).map(|_| next(random)).collect();
    let times: Vec<i64> = (0..rows as i64).map(|row| ts + row * step).collect();
    let received: Vec<i64> =
        times.iter().zip(&draws).map(|(ts, draw)| ts + (draw >> 40 & 0xFFFF) as i64).collect();
    let texts =
        |text: &dyn Fn(u64) -> String| StringArray::from_iter_values(draws.iter().map(|draw| text(*draw)));
    let columns: [(&str, ArrayRef); 8] = [
        ("ts", Arc::new(TimestampNanosecondArray::from(times))),
        ("received", Arc::new(TimestampNanosecondArray::from(received))),
        ("exchange", Arc::new(texts(&|draw| ["XNAS", "XNYS", "ARCX"][(draw >> 20) as usize % 3].into()))),
        ("symbol", Arc::new(texts(&|draw| format!("S{:02}", draw % SYMBOLS)))),
        ("side", Arc::new(texts(&|draw| ["buy", "sell"][(draw >> 9) as usize & 1].into()))),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(draws.iter().map(|d| (10_000 + d % 512) as f64 / 100.0))),
        ),
        (
            "amount",
            Arc::new(Float64Array::from_iter_values(draws.iter().map(|d| (d >> 33 & 0x3FF) as f64 / 8.0))),
        ),
        ("id", Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| row as i64)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The value below which that share of ascending values lies.
fn percentile(ascending: &[f64], share: f64) -> f64 {
    ascending[((ascending.len() - 1) as f64 * share) as usize]
}

/// Commits rows and ends the process as it stands: nothing is closed, nothing sealed.
fn fill_tape(dir: &Path, rows: usize) -> Outcome<()> {
    let options =
        EngineOptions { memory_budget_bytes: 16 << 30, tape_bytes_max: 1 << 40, ..EngineOptions::default() };
    let engine = Engine::open(dir, options)?;
    engine.create_table(schema()?)?;
    let mut random = 1;
    for first in (0..rows).step_by(1_000) {
        let count = 1_000.min(rows - first);
        let batch = trades(first, count, START_NS + first as i64 * 10_000, 10_000, &mut random)?;
        engine.append("trades", &batch, Some(SyncPolicy::None))?;
    }
    std::process::abort();
}

fn recovery(dir: &Path, rows: usize) -> Outcome<String> {
    let child = Command::new(std::env::current_exe()?).arg("fill").arg(dir).arg(rows.to_string()).status()?;
    if child.success() {
        return Err("the process that fills the tape was to stop in the middle".into());
    }
    let tape: u64 =
        std::fs::read_dir(dir.join("tape"))?.map(|file| Ok(file?.metadata()?.len())).sum::<Outcome<_>>()?;
    let began = Instant::now();
    let engine =
        Engine::open(dir, EngineOptions { memory_budget_bytes: 16 << 30, ..EngineOptions::default() })?;
    let seconds = began.elapsed().as_secs_f64();
    let found = engine.snapshot().table("trades").map_or(0, |table| table.rows());
    if found != rows as u64 {
        return Err(format!("{found} rows of {rows} were recovered").into());
    }
    Ok(format!(
        "{{\"rows\": {rows}, \"tape_mb\": {:.0}, \"seconds\": {seconds:.3}, \"rows_per_second\": {:.0}}}",
        tape as f64 / 1e6,
        rows as f64 / seconds
    ))
}

fn commit(dir: &Path, rows: usize) -> Outcome<String> {
    let options = EngineOptions { memory_budget_bytes: 4 << 20, ..EngineOptions::default() };
    let engine = Engine::open(dir, options)?;
    engine.create_table(schema()?)?;
    let (mut random, mut times) = (1, Vec::with_capacity(rows));
    for row in 0..rows {
        let batch = trades(row, 1, START_NS + row as i64 * 1_000_000, 0, &mut random)?;
        let began = Instant::now();
        engine.append("trades", &batch, Some(SyncPolicy::None))?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    let at = |share| percentile(&times, share);
    let stats = engine.maintenance_stats();
    Ok(format!(
        "{{\"commits\": {rows}, \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}, \"max_us\": {:.1}, \
         \"maintenance\": {:?}}}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        format!("{stats:?}")
    ))
}

fn hour(dir: &Path, rows: usize) -> Outcome<String> {
    const BATCH: usize = 100_000;
    let engine = Engine::open(dir, EngineOptions::default())?;
    engine.create_table(schema()?)?;
    let (mut random, step) = (1, YEAR_NS / rows as i64);
    let mut load = engine.load("trades")?;
    for first in (0..rows).step_by(BATCH) {
        let ts = START_NS + first as i64 * step;
        load.append(&trades(first, BATCH.min(rows - first), ts, step, &mut random)?)?;
    }
    load.commit(None)?;
    engine.compact(None)?;
    let (mut times, mut found) = (Vec::new(), 0);
    for round in 0..3 {
        random = 7;
        for _ in 0..2_000 {
            let from = START_NS + (next(&mut random) % (365 * 24)) as i64 * HOUR_NS;
            let symbol = format!("S{:02}", next(&mut random) % SYMBOLS);
            let began = Instant::now();
            let snapshot = engine.snapshot();
            let table = snapshot.table("trades").ok_or("the table is gone")?;
            let id =
                table.dictionary(3).and_then(|dictionary| dictionary.id(&symbol)).ok_or("no such symbol")?;
            let time = TimeRange::new(from, from + HOUR_NS);
            let selection = Selection { time, series: vec![(3, vec![id])], ..Selection::default() };
            for segment in table.select(&selection)? {
                for column in [0, 5, 6] {
                    found += black_box(segment.read_ranges(column, segment.rows())?).len();
                }
            }
            if round > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(format!(
        "{{\"rows\": {rows}, \"hours\": {}, \"rows_an_hour\": {:.1}, \"median_us\": {:.1}, \"p99_us\": {:.1}}}",
        times.len(),
        found as f64 / 6_000.0,
        percentile(&times, 0.5),
        percentile(&times, 0.99)
    ))
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().ok_or(USAGE)?;
    let dir = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let rows = arguments.next().map(|text| text.parse()).transpose()?;
    if dir.exists() {
        return Err(format!("{} exists already", dir.display()).into());
    }
    let result = match what.as_str() {
        "fill" => return fill_tape(&dir, rows.ok_or(USAGE)?),
        "recovery" => recovery(&dir, rows.unwrap_or(5_000_000)),
        "commit" => commit(&dir, rows.unwrap_or(500_000)),
        "hour" => hour(&dir, rows.unwrap_or(20_000_000)),
        _ => return Err(USAGE.into()),
    };
    std::fs::remove_dir_all(&dir)?;
    println!("{}", result?);
    Ok(())
}
