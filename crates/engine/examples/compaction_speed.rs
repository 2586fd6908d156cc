//! Speed of sealing and of compaction, in MB of row data a second and core.
//!
//! Rows of 8 columns (56 bytes each in memory) of 500 series, two in five hundred late. They are appended
//! and sealed as parts of about a million rows, which then merge into one.
//!
//! ```text
//! cargo run --release -p tickstone-engine --example compaction_speed -- DIR [ROWS]
//! ```

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "an example measures and may fail")]

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::{Engine, EngineOptions};
use tickstone_model::{ColumnType, TableSchema};

const BATCH: usize = 100_000;
const SERIES: u64 = 500;
const ROW_BYTES: usize = 8 + 4 + 4 + 8 * 5;

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn schema() -> TableSchema {
    let mut builder = TableSchema::builder("quotes")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("venue", ColumnType::Symbol)
        .column("sequence", ColumnType::Int64);
    for name in ["bid", "bid_size", "ask", "ask_size"] {
        builder = builder.column(name, ColumnType::Float64);
    }
    builder.timestamp("ts").series(["symbol"]).build().unwrap()
}

fn batch(first: usize, state: &mut u64, px: &mut [i64]) -> RecordBatch {
    let (mut ts, mut symbols, mut venues, mut numbers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut bids, mut asks, mut bid_sizes, mut ask_sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in first..first + BATCH {
        let random = next(state);
        let symbol = (random % SERIES) as usize;
        let late = if random >> 32 & 255 == 0 { 5_000_000_000 } else { 0 };
        px[symbol] += (random >> 40 & 7) as i64 - 3;
        ts.push((row as i64 * 100_000 + (random >> 48 & 0xFFFF) as i64 - late).max(0));
        symbols.push(format!("S{symbol:03}"));
        venues.push(["XNAS", "XNYS", "ARCX"][(random >> 20) as usize % 3]);
        numbers.push(row as i64);
        bids.push((10_000 + px[symbol]) as f64 / 100.0);
        asks.push((10_001 + px[symbol] + (random >> 52 & 1) as i64) as f64 / 100.0);
        bid_sizes.push((random >> 10 & 31) as f64 * 100.0);
        ask_sizes.push((random >> 15 & 31) as f64 * 100.0);
    }
    let floats = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
    RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampNanosecondArray::from(ts)) as ArrayRef),
        ("symbol", Arc::new(StringArray::from(symbols))),
        ("venue", Arc::new(StringArray::from(venues))),
        ("sequence", Arc::new(Int64Array::from(numbers))),
        ("bid", floats(bids)),
        ("bid_size", floats(bid_sizes)),
        ("ask", floats(asks)),
        ("ask_size", floats(ask_sizes)),
    ])
    .unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| "compaction-speed".to_string());
    let rows = arguments.next().map_or(8_000_000, |rows| rows.parse().unwrap());
    let options =
        EngineOptions { background: false, threads: 1, compaction_parts_min: 0, ..EngineOptions::default() };
    let engine = Engine::open(&dir, options).unwrap();
    engine.create_table(schema()).unwrap();
    let (mut state, mut px) = (1, vec![0; SERIES as usize]);
    let mut sealing = 0.0;
    for first in (0..rows).step_by(BATCH) {
        engine.append("quotes", &batch(first, &mut state, &mut px), None).unwrap();
        if (first / BATCH) % 10 == 9 {
            let start = Instant::now();
            engine.seal(None).unwrap();
            sealing += start.elapsed().as_secs_f64();
        }
    }
    engine.seal(None).unwrap();
    let mb = (rows * ROW_BYTES) as f64 / 1e6;
    println!("sealing: {:.0} MB/s a core ({mb:.0} MB in {sealing:.2} s)", mb / sealing);
    let start = Instant::now();
    engine.compact(None).unwrap();
    let merging = start.elapsed().as_secs_f64();
    println!("compaction: {:.0} MB/s a core ({mb:.0} MB in {merging:.2} s)", mb / merging);
    let stats = engine.maintenance_stats();
    println!("{stats:?}, write amplification {:.2}", stats.write_amplification());
}
