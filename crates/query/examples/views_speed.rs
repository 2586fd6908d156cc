//! What a materialized view costs those who write, and spares those who read: one process on a real disk.
//!
//! `cargo run --release -p tickstone-query --example views_speed [millions of rows]`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for people")]

use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use tickstone_query::arrow::datatypes::UInt64Type;
use tickstone_query::{Database, DatabaseOptions};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const COMMIT_ROWS: usize = 10_000;
/// 2024-08-08T13:30:00Z.
const START: i64 = 1_723_123_800_000_000_000;
const MINUTE: i64 = 60_000_000_000;
const TRADES: &str =
    "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, sz BIGINT) TIMESTAMP(ts) PARTITION BY DAY";
const BARS: &str = "SELECT ts, sym, first(px) AS o, max(px) AS h, min(px) AS l, last(px) AS c, sum(sz) AS v, \
                    vwap(px, sz) AS vwap, count(*) AS n FROM trades SAMPLE BY 1m";

fn query(database: &Database, sql: &str) -> Vec<RecordBatch> {
    let mut session = database.session();
    database.runtime().block_on(session.query(sql)).unwrap()
}

fn commit(first: i64, rows: usize, step: i64, symbols: &[String]) -> RecordBatch {
    let row = |n: usize| first + n as i64;
    let times = (0..rows).map(|n| START + row(n) * step);
    let names = (0..rows).map(|n| symbols[(row(n) as usize * 7_919) % symbols.len()].as_str());
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("sym", Arc::new(StringArray::from_iter_values(names))),
        ("px", Arc::new((0..rows).map(|n| Some((row(n) % 1_000) as f64 / 4.0)).collect::<Float64Array>())),
        ("sz", Arc::new((0..rows).map(|n| Some(row(n) % 100)).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn symbols(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("S{n:05}")).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn timed(times: usize, mut work: impl FnMut()) -> f64 {
    work();
    let each = (0..times).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed().as_secs_f64() * 1e3
    });
    median(each.collect())
}

fn wait_until_current(database: &Database, view: &str) {
    let sql = format!("SELECT stale FROM views() WHERE view = '{view}'");
    while query(database, &sql)[0].column(0).as_primitive::<UInt64Type>().value(0) > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Commits rows at a rate and gives the median time of a commit (ms), and how long all took (s).
fn ingest(rows: usize, with_view: bool, rate: Option<f64>) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let symbols = symbols(1_000);
    query(&database, TRADES);
    if with_view {
        query(&database, &format!("CREATE MATERIALIZED VIEW bars AS {BARS}"));
        wait_until_current(&database, "bars");
    }
    let (begun, mut times) = (Instant::now(), Vec::new());
    // A minute has ten million rows.
    for number in 0..rows / COMMIT_ROWS {
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64((number * COMMIT_ROWS) as f64 / rate);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        let batch = commit((number * COMMIT_ROWS) as i64, COMMIT_ROWS, MINUTE / 10_000_000, &symbols);
        let before = Instant::now();
        database.engine().append("trades", &batch, None).unwrap();
        times.push(before.elapsed().as_secs_f64() * 1e3);
    }
    let took = begun.elapsed().as_secs_f64();
    (median(times), took)
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|of| of.parse().ok()).unwrap_or(30);
    let rows = millions * 1_000_000;
    let (mut plain, mut viewed) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        plain.push(ingest(rows, false, None).1);
        viewed.push(ingest(rows, true, None).1);
    }
    let (plain, viewed) = (median(plain), median(viewed));
    let rate = |took: f64| rows as f64 / took / 1e6;
    println!(
        "ingest of {millions} M rows: {:.2} M rows/s, with a minute-bar view {:.2}: {:+.1} %",
        rate(plain),
        rate(viewed),
        (viewed / plain - 1.0) * 100.0
    );
    let paced = |with_view| ingest(rows, with_view, Some(1e6));
    let (alone, beside) = (paced(false), paced(true));
    println!(
        "at 1 M rows/s: commit of 10,000 rows {:.2} ms (all in {:.1} s), with the view {:.2} ms ({:.1} s)",
        alone.0, alone.1, beside.0, beside.1
    );

    // A month of 20 symbols: 30 days of a minute's bar each, 20 trades a bar.
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    query(&database, TRADES);
    let names = symbols(20);
    let all = 30 * 24 * 60 * 20 * 20;
    let mut load = database.engine().load("trades").unwrap();
    for first in (0..all).step_by(100_000) {
        load.append(&commit(first, 100_000, MINUTE / 400, &names)).unwrap();
    }
    load.commit(None).unwrap();
    query(&database, &format!("CREATE MATERIALIZED VIEW bars AS {BARS}"));
    let begun = Instant::now();
    query(&database, "REFRESH MATERIALIZED VIEW bars");
    println!("first refresh of {} M rows: {:.2} s", all / 1_000_000, begun.elapsed().as_secs_f64());
    query(&database, "CHECKPOINT");
    let compare = |what: &str, from_view: &str, from_trades: &str| {
        let view = timed(11, || drop(query(&database, from_view)));
        let trades = timed(11, || drop(query(&database, from_trades)));
        println!(
            "{what}: {view:.2} ms from the view, {trades:.2} ms from trades: {:.0} times",
            trades / view
        );
    };
    compare("a month of bars, all 20 symbols", "SELECT * FROM bars", BARS);
    compare(
        "a month of bars, one symbol",
        "SELECT * FROM bars WHERE sym = 'S00007'",
        &BARS.replace("SAMPLE", "WHERE sym = 'S00007' SAMPLE"),
    );
    let hours = "first(o) AS o, max(h) AS h, min(l) AS l, last(c) AS c, sum(v) AS v FROM bars SAMPLE BY 1h";
    let of_trades =
        "first(px) AS o, max(px) AS h, min(px) AS l, last(px) AS c, sum(sz) AS v FROM trades SAMPLE BY 1h";
    compare(
        "a month of bars of an hour",
        &format!("SELECT ts, sym, {hours}"),
        &format!("SELECT ts, sym, {of_trades}"),
    );
    // One late row: one bucket.
    let refreshed = "SELECT refreshes, refreshed_rows FROM views()";
    let count = || {
        let batch = query(&database, refreshed).remove(0);
        [0, 1].map(|column| batch.column(column).as_primitive::<UInt64Type>().value(0))
    };
    let before = count();
    query(&database, "INSERT INTO trades VALUES ('2024-08-09T00:00:01', 'S00003', 1, 1)");
    compare("with one late row, all 20 symbols", "SELECT * FROM bars", BARS);
    wait_until_current(&database, "bars");
    let after = count();
    println!("one late row: {} bucket refreshed, {} rows", after[0] - before[0], after[1] - before[1]);

    // Ten thousand symbols, and a feed that goes on: the newest bar of each.
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    query(&database, TRADES);
    query(&database, &format!("CREATE MATERIALIZED VIEW bars AS {BARS}"));
    let names = symbols(10_000);
    for number in 0..600 {
        let batch = commit(number * 10_000, 10_000, MINUTE / 600_000, &names);
        database.engine().append("trades", &batch, None).unwrap();
    }
    let compare = |what: &str| {
        let view = timed(11, || drop(query(&database, "SELECT * FROM bars LATEST ON ts PARTITION BY sym")));
        let trades = format!("SELECT * FROM ({BARS}) LATEST ON ts PARTITION BY sym");
        let trades = timed(3, || drop(query(&database, &trades)));
        println!(
            "{what}: {view:.2} ms from the view, {trades:.2} ms from trades: {:.0} times",
            trades / view
        );
    };
    wait_until_current(&database, "bars");
    compare("newest bar of 10,000 symbols, nothing to do");
    let batch = commit(6_000_000, 300_000, MINUTE / 600_000, &names);
    database.engine().append("trades", &batch, None).unwrap();
    compare("newest bar of 10,000 symbols, half of an open minute of 600,000 rows");
    for row in query(&database, "EXPLAIN SELECT * FROM bars LATEST ON ts PARTITION BY sym") {
        println!("{}", tickstone_query::arrow::util::pretty::pretty_format_batches(&[row]).unwrap());
    }
}
