//! How soon subscribers hear of rows, and what they cost the one who writes: one process on a real disk, policy `always`.
//!
//! `cargo run --release -p tickstone-query --example subscribe_speed [seconds]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for people")]

use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use tickstone_query::arrow::datatypes::Int64Type;
use tickstone_query::{Database, DatabaseOptions, Outcome};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SYMBOLS: usize = 100;
const COMMIT_ROWS: usize = 1_000;
const RATE: usize = 100_000;
/// How often what is with subscribers and what is without is measured.
const TURNS: usize = 21;
const START: i64 = 1_723_107_600_000_000_000;

fn run(database: &Database, sql: &str) {
    let mut session = database.session();
    database.runtime().block_on(session.query(sql)).unwrap();
}

fn listen(database: &Database, sql: &str) -> SendableRecordBatchStream {
    let mut session = database.session();
    let statement = session.parse(sql).unwrap().remove(0);
    match database.runtime().block_on(session.run(statement)).unwrap() {
        Outcome::Rows { stream, .. } => stream,
        Outcome::Done { .. } => unreachable!("it gives rows"),
    }
}

/// A commit; `number` is in its last row.
fn commit(number: i64, rows: usize, symbols: &[String]) -> RecordBatch {
    let first = number * rows as i64;
    let row = |n: usize| first + n as i64;
    let times = (0..rows).map(|n| START + row(n) * 10_000);
    let names = (0..rows).map(|n| symbols[(row(n) % symbols.len() as i64) as usize].as_str());
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("sym", Arc::new(StringArray::from_iter_values(names))),
        ("px", Arc::new((0..rows).map(|n| Some(n as f64)).collect::<Float64Array>())),
        ("id", Arc::new((0..rows).map(|n| Some(row(n))).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn part(times: &[f64], of: f64) -> f64 {
    times[((times.len() - 1) as f64 * of) as usize]
}

struct Desk {
    database: Database,
    symbols: Vec<String>,
    number: i64,
}

impl Desk {
    /// Writes at `rate` rows a second (0 for as fast as it goes); how long each commit took (ms), when it was acknowledged.
    fn write(&mut self, seconds: f64, rate: usize) -> (Vec<f64>, Vec<(i64, Instant)>, f64) {
        let (begun, mut took, mut acknowledged) = (Instant::now(), Vec::new(), Vec::new());
        let mut rows = 0;
        while begun.elapsed().as_secs_f64() < seconds {
            if rate > 0 {
                let due = begun + Duration::from_secs_f64(rows as f64 / rate as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let batch = commit(self.number, COMMIT_ROWS, &self.symbols);
            let at = Instant::now();
            self.database.engine().append("trades", &batch, None).unwrap();
            let now = Instant::now();
            took.push((now - at).as_secs_f64() * 1e3);
            acknowledged.push(((self.number + 1) * COMMIT_ROWS as i64 - 1, now));
            (self.number, rows) = (self.number + 1, rows + COMMIT_ROWS);
        }
        let rate = rows as f64 / begun.elapsed().as_secs_f64();
        (took, acknowledged, rate)
    }

    /// Subscribers whose messages are counted, until the flag is set.
    fn subscribe(&self, queries: Vec<String>, stop: &Arc<AtomicBool>, heard: &Arc<AtomicU64>) {
        for query in queries {
            let mut stream = listen(&self.database, &query);
            let (stop, heard) = (Arc::clone(stop), Arc::clone(heard));
            self.database.runtime().spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match tokio::time::timeout(Duration::from_millis(200), stream.next()).await {
                        Ok(Some(Ok(batch))) => heard.fetch_add(batch.num_rows() as u64, Ordering::Relaxed),
                        Ok(_) => break,
                        Err(_) => continue,
                    };
                }
            });
        }
    }
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5.0);
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    run(
        &database,
        "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY",
    );
    let symbols = (0..SYMBOLS).map(|n| format!("S{n:03}")).collect();
    let mut desk = Desk { database, symbols, number: 0 };
    desk.write(1.0, RATE);

    // From acknowledgement to delivery.
    let mut stream = listen(&desk.database, "SUBSCRIBE TO trades");
    let (send, receive) = std::sync::mpsc::channel();
    desk.database.runtime().spawn(async move {
        while let Some(Ok(batch)) = stream.next().await {
            let now = Instant::now();
            let ids = batch.column(6).as_primitive::<Int64Type>();
            let last = if ids.is_empty() || ids.is_null(ids.len() - 1) {
                continue;
            } else {
                ids.value(ids.len() - 1)
            };
            if send.send((last, now)).is_err() {
                break;
            }
        }
    });
    let (_, acknowledged, rate) = desk.write(seconds, RATE);
    std::thread::sleep(Duration::from_millis(200));
    let delivered: Vec<(i64, Instant)> = receive.try_iter().collect();
    let mut waits: Vec<f64> = acknowledged
        .iter()
        .filter_map(|(id, at)| {
            let (_, heard) = delivered.get(delivered.partition_point(|(last, _)| last < id))?;
            Some(heard.saturating_duration_since(*at).as_secs_f64() * 1e3)
        })
        .collect();
    assert_eq!(waits.len(), acknowledged.len(), "everything was heard");
    waits.sort_by(f64::total_cmp);
    println!(
        "at {rate:.0} rows/s: from acknowledgement to delivery {:.3} ms in the middle, {:.3} ms p99, {:.3} ms at the longest",
        part(&waits, 0.5),
        part(&waits, 0.99),
        part(&waits, 1.0)
    );
    drop(receive);

    // What subscribers cost who writes: by turns, so that both see the same machine.
    let kinds: [(&str, Vec<String>); 2] = [
        (
            "100 of one symbol each",
            (0..SYMBOLS)
                .map(|n| format!("SUBSCRIBE TO (SELECT * FROM trades WHERE sym = 'S{n:03}')"))
                .collect(),
        ),
        (
            "1,000 of symbols that are not traded",
            (0..1_000)
                .map(|n| format!("SUBSCRIBE TO (SELECT * FROM trades WHERE sym = 'X{n:04}')"))
                .collect(),
        ),
    ];
    for (what, queries) in kinds {
        for rate in [RATE, 0] {
            // The disk's speed drifts: each turn is compared with the one beside it.
            let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..TURNS {
                let measured = |(mut took, _, reached): (Vec<f64>, _, f64)| match rate {
                    0 => reached,
                    _ => median(&mut took),
                };
                let alone = measured(desk.write(seconds / 8.0, rate));
                let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
                desk.subscribe(queries.clone(), &stop, &heard);
                let beside = measured(desk.write(seconds / 8.0, rate));
                stop.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(300));
                without.push(alone);
                with.push(beside);
                ratios.push(beside / alone);
            }
            let (without, with) = (median(&mut without), median(&mut with));
            let more = (median(&mut ratios) - 1.0) * 100.0;
            let (low, high) = (part(&ratios, 0.25), part(&ratios, 0.75));
            let spread = format!(
                "{more:+.1} %, half of the turns {:+.1} to {:+.1}",
                (low - 1.0) * 100.0,
                (high - 1.0) * 100.0
            );
            match rate {
                0 => println!("{what}: unpaced {with:.0} rows/s, {without:.0} without ({spread})"),
                _ => println!(
                    "{what}: a commit takes {with:.3} ms at {rate} rows/s, {without:.3} without ({spread})"
                ),
            }
        }
    }

    // Catching up.
    run(
        &desk.database,
        "CREATE TABLE day (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY SERIES BY (sym)",
    );
    run(
        &desk.database,
        "CREATE TABLE quotes (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY SERIES BY (sym)",
    );
    for table in ["day", "quotes"] {
        for number in 0..10 {
            let batch = commit(number, 1_000_000, &desk.symbols);
            desk.database.engine().append(table, &batch, None).unwrap();
        }
    }
    run(&desk.database, "CHECKPOINT");
    for (what, sql) in [
        ("catch-up FROM BEGINNING", "SUBSCRIBE TO day FROM BEGINNING"),
        ("replay of one table at MAX", "REPLAY day SPEED MAX"),
        ("replay of two tables at MAX", "REPLAY day, quotes SPEED MAX"),
    ] {
        let mut rates = Vec::new();
        for _ in 0..3 {
            let begun = Instant::now();
            let mut stream = listen(&desk.database, sql);
            let rows = desk.database.runtime().block_on(async {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    let batch = batch.unwrap();
                    let event =
                        batch.column(1).as_any_dictionary().values().as_string::<i32>().value(0).to_string();
                    if event == "caught_up" {
                        break;
                    }
                    rows += if event == "insert" { batch.num_rows() } else { 0 };
                }
                rows
            });
            rates.push(rows as f64 / begun.elapsed().as_secs_f64() / 1e6);
        }
        println!("{what}: {:.1} million rows/s", median(&mut rates));
    }
}
