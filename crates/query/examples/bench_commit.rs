//! Benchmark: threads that commit single rows with policy `always`; prints one JSON object.
//!
//! usage: bench_commit DIR [THREADS] [SECONDS]
//!
//! DIR must not exist; it is made and removed. `rows_per_sync` says how many commits share one sync.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use tickstone_engine::{Engine, EngineOptions};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};

/// One row of the table: when, what, price.
fn row(ts: i64, symbol: &str) -> Result<RecordBatch, Box<dyn Error + Send + Sync>> {
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![ts]))),
        ("symbol", Arc::new(StringArray::from(vec![symbol]))),
        ("price", Arc::new(Float64Array::from(vec![ts as f64]))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: bench_commit DIR [THREADS] [SECONDS]")?);
    let threads: u64 = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    if dir.exists() {
        return Err(format!("{} exists already", dir.display()).into());
    }
    let engine = Engine::open(&dir, EngineOptions::default())?;
    engine.create_table(
        TableSchema::builder("ticks")
            .column("ts", ColumnType::Timestamp)
            .column("symbol", ColumnType::Symbol)
            .column("price", ColumnType::Float64)
            .timestamp("ts")
            .build()?,
    )?;
    engine.append("ticks", &row(0, "S0")?, Some(SyncPolicy::Always))?;
    let (stop, rows, slowest_ns) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (syncs_before, began) = (engine.syncs(), Instant::now());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (engine, stop, rows, slowest_ns) = (&engine, &stop, &rows, &slowest_ns);
                scope.spawn(move || -> Result<(), Box<dyn Error + Send + Sync>> {
                    let symbol = format!("S{thread}");
                    let mut ts = 1;
                    while !stop.load(Ordering::Relaxed) {
                        let sent = Instant::now();
                        engine.append("ticks", &row(ts, &symbol)?, Some(SyncPolicy::Always))?;
                        slowest_ns.fetch_max(sent.elapsed().as_nanos() as u64, Ordering::Relaxed);
                        rows.fetch_add(1, Ordering::Relaxed);
                        ts += 1;
                    }
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked")?)
    })?;
    let (elapsed, syncs) = (began.elapsed().as_secs_f64(), engine.syncs() - syncs_before);
    let rows = rows.into_inner();
    println!(
        "{{\"threads\": {threads}, \"seconds\": {elapsed:.3}, \"rows\": {rows}, \"syncs\": {syncs}, \
         \"rows_per_sync\": {:.2}, \"rows_per_second\": {:.0}, \"slowest_ms\": {:.3}}}",
        rows as f64 / syncs.max(1) as f64,
        rows as f64 / elapsed,
        slowest_ns.into_inner() as f64 / 1e6,
    );
    drop(engine);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
