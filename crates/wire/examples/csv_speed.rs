//! How fast CSV is parsed on one core: `cargo run --release -p tickstone-wire --example csv_speed`.
//!
//! Two shapes: a book of 84 columns (times, symbols, 80 prices and sizes), and narrow trades.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;
use tickstone_model::ColumnType;
use tickstone_wire::{ColumnPlan, EpochUnit, Plan, TimeFormat, csv};

const CHUNK_BYTES: usize = 2 << 20;
const RUNS: usize = 15;

fn column(name: &str, column_type: ColumnType, time: TimeFormat) -> ColumnPlan {
    ColumnPlan { source: name.to_string(), column_type, time, required: false, inferred: true }
}

/// A multiplicative step: the same numbers in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn measure(name: &str, plan: Plan, text: &str) {
    let rows_expected = text.lines().count();
    let mut parser = csv::Parser::new(Arc::new(plan), b',');
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let (mut rest, mut rows) = (text.as_bytes(), 0);
            while !rest.is_empty() {
                let window = &rest[..rest.len().min(CHUNK_BYTES)];
                let end = csv::last_record_end(window, b',');
                let chunk = parser.parse(&rest[..end], true);
                assert!(chunk.bad.is_empty(), "{:?}", chunk.bad);
                rows += chunk.rows;
                rest = &rest[end..];
            }
            assert_eq!(rows, rows_expected);
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds[RUNS / 2];
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{name}: {megabytes:.0} MB, {:.0} MB/s, {:.2} million rows/s",
        megabytes / median,
        rows_expected as f64 / median / 1e6
    );
}

fn main() {
    let mut state = 42;
    let mut book = String::new();
    for row in 0..60_000_u64 {
        let _ =
            write!(book, "2022-06-01T{:02}:{:02}:{:02}.{:06}Z,", row / 3600, row / 60 % 60, row % 60, row);
        let _ = write!(book, "{},coinbase,BTC-USD", 1_654_041_600_000_000_000 + row * 1_000_003);
        for _ in 0..80 {
            let _ = write!(book, ",{}.{:02}", 20_000 + next(&mut state) % 10_000, next(&mut state) % 100);
        }
        book.push('\n');
    }
    let mut columns = vec![
        column("timestamp", ColumnType::Timestamp, TimeFormat::Iso),
        column("receipt_timestamp", ColumnType::Timestamp, TimeFormat::Epoch(EpochUnit::Nanosecond)),
        column("exchange", ColumnType::Symbol, TimeFormat::Iso),
        column("sym", ColumnType::Symbol, TimeFormat::Iso),
    ];
    columns.extend((0..80).map(|i| column(&format!("c{i}"), ColumnType::Float64, TimeFormat::Iso)));
    let fields = (0..columns.len()).map(Some).collect();
    measure("book of 84 columns", Plan { columns, fields }, &book);

    let mut trades = String::new();
    for row in 0..500_000_u64 {
        let symbol = ["BTC-USD", "ETH-USD", "USDT-USD"][(next(&mut state) % 3) as usize];
        let side = ["buy", "sell"][(next(&mut state) % 2) as usize];
        let (price, amount) = (next(&mut state) % 1_000_000, next(&mut state) % 100_000_000);
        let time = 1_654_041_600_000_000_000 + row * 1_000_003;
        let _ = write!(trades, "{time},coinbase,{symbol},{side},{}.{:02},", price / 100, price % 100);
        let _ = writeln!(trades, "{}.{:08},{row}", amount / 100_000_000, amount % 100_000_000);
    }
    let columns = vec![
        column("timestamp", ColumnType::Timestamp, TimeFormat::Epoch(EpochUnit::Nanosecond)),
        column("exchange", ColumnType::Symbol, TimeFormat::Iso),
        column("sym", ColumnType::Symbol, TimeFormat::Iso),
        column("side", ColumnType::Symbol, TimeFormat::Iso),
        column("price", ColumnType::Float64, TimeFormat::Iso),
        column("amount", ColumnType::Float64, TimeFormat::Iso),
        column("id", ColumnType::Int64, TimeFormat::Iso),
    ];
    let fields = (0..columns.len()).map(Some).collect();
    measure("trades of 7 columns", Plan { columns, fields }, &trades);
}
