//! Benchmark: bars, consolidated quotes and daily bars in a zone; prints one JSON object of medians in ms.
//!
//! usage: bench_bars DIR [ROWS] [RUNS]
//!
//! ROWS trades (default 10,000,000) of 100 symbols over ten days, and as many quotes of 20 symbols and 5 venues over
//! one, are loaded into DIR where it does not exist, and stay there. Each query is run until it is warm, then RUNS
//! times (default 11), its rows read to the last.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use futures::TryStreamExt;
use tickstone_query::{Database, DatabaseOptions, Outcome, Session};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DAY_NS: i64 = 86_400_000_000_000;
/// 2024-03-04, a Monday: the clocks of New York change within the ten days.
const START_NS: i64 = 1_709_510_400_000_000_000;
const BATCH: usize = 262_144;
const WARM_RUNS: usize = 3;

/// What is measured, by name.
const QUERIES: [(&str, &str); 9] = [
    (
        "volume_bars",
        "SELECT ts, symbol, first(price), max(price), min(price), last(price), sum(amount) FROM trades \
         SAMPLE BY VOLUME(amount) 5000",
    ),
    ("volume_bars_count", "SELECT ts, symbol, count(*) FROM trades SAMPLE BY VOLUME(amount) 5000"),
    ("value_bars", "SELECT ts, symbol, vwap(price, amount) FROM trades SAMPLE BY VALUE(price * amount) 1e6"),
    ("tick_bars", "SELECT ts, symbol, last(price), sum(amount) FROM trades SAMPLE BY TICKS 100"),
    (
        "volume_bars_of_one_symbol",
        "SELECT ts, first(price), sum(amount) FROM trades WHERE symbol = 'S000' SAMPLE BY VOLUME(amount) 5000",
    ),
    ("nbbo", "SELECT * FROM nbbo(TABLE quotes, series => symbol, venue => venue, bid => bid, ask => ask)"),
    (
        "nbbo_sizes_aggregated",
        "SELECT symbol, avg(ask - bid), max(bid_size) FROM nbbo(TABLE quotes, series => symbol, venue => venue, \
         bid => bid, ask => ask, bid_size => bid_size, ask_size => ask_size) GROUP BY symbol",
    ),
    ("daily_utc", "SELECT ts, symbol, sum(amount), max(price), last(price) FROM trades SAMPLE BY 1d"),
    (
        "daily_zone",
        "SELECT ts, symbol, sum(amount), max(price), last(price) FROM trades \
         SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'America/New_York'",
    ),
];

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn times(first: usize, rows: usize, all: usize, days: i64) -> ArrayRef {
    let at = |row: usize| START_NS + ((row as i128 * (days * DAY_NS) as i128) / all as i128) as i64;
    Arc::new(TimestampNanosecondArray::from_iter_values((first..first + rows).map(at)))
}

fn names(prefix: &str, of: impl Iterator<Item = usize>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(of.map(|at| format!("{prefix}{at:03}"))))
}

fn doubles(of: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(of))
}

/// Some trades: the busy symbols have most of them.
fn trades(first: usize, rows: usize, all: usize, random: &mut u64) -> Result<RecordBatch> {
    let draws: Vec<u64> = (0..rows).map(|_| next(random)).collect();
    let symbol = |draw: &u64| ((draw % 100) * ((draw >> 8) % 100) / 100) as usize;
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", times(first, rows, all, 10)),
        ("symbol", names("S", draws.iter().map(symbol))),
        ("price", doubles(draws.iter().map(|draw| 100.0 + ((draw >> 16) % 2_000) as f64 / 100.0))),
        ("amount", doubles(draws.iter().map(|draw| 1.0 + ((draw >> 32) % 100) as f64))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Some quotes of five venues, about a moving middle.
fn quotes(first: usize, rows: usize, all: usize, random: &mut u64) -> Result<RecordBatch> {
    let draws: Vec<u64> = (0..rows).map(|_| next(random)).collect();
    let middle = |at: usize| 10_000 + (((first + at) / 1_000) % 500) as i64;
    let cents = |at: usize, apart: i64| (middle(at) + apart) as f64 / 100.0;
    let size = |draw: u64| (1 + draw % 20) as f64 * 100.0;
    let each = || draws.iter().enumerate();
    let columns: [(&str, ArrayRef); 7] = [
        ("ts", times(first, rows, all, 1)),
        ("symbol", names("S", draws.iter().map(|draw| (draw % 20) as usize))),
        ("venue", names("V", draws.iter().map(|draw| ((draw >> 8) % 5) as usize))),
        ("bid", doubles(each().map(|(at, draw)| cents(at, -1 - ((draw >> 16) % 4) as i64)))),
        ("ask", doubles(each().map(|(at, draw)| cents(at, 1 + ((draw >> 24) % 4) as i64)))),
        ("bid_size", doubles(draws.iter().map(|draw| size(draw >> 32)))),
        ("ask_size", doubles(draws.iter().map(|draw| size(draw >> 40)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

type Make = fn(usize, usize, usize, &mut u64) -> Result<RecordBatch>;

fn load(database: &Database, rows: usize) -> Result<()> {
    let tables: [(&str, &str, Make); 2] = [
        ("trades", "price DOUBLE, amount DOUBLE", trades),
        ("quotes", "venue SYMBOL, bid DOUBLE, ask DOUBLE, bid_size DOUBLE, ask_size DOUBLE", quotes),
    ];
    let mut session = database.session();
    for (name, columns, make) in tables {
        let create = format!(
            "CREATE TABLE {name} (ts TIMESTAMP, symbol SYMBOL, {columns}) TIMESTAMP(ts) SERIES BY (symbol)"
        );
        database.runtime().block_on(run(&mut session, &create))?;
        let (mut load, mut random) = (database.engine().load(name)?, 1);
        for first in (0..rows).step_by(BATCH) {
            load.append(&make(first, BATCH.min(rows - first), rows, &mut random)?)?;
        }
        load.commit(None)?;
    }
    Ok(())
}

/// Runs a query to its last row; how many there were.
async fn run(session: &mut Session, sql: &str) -> Result<usize> {
    let mut rows = 0;
    for statement in session.parse(sql)? {
        if let Outcome::Rows { mut stream, .. } = session.run(statement).await? {
            while let Some(batch) = stream.try_next().await? {
                rows += batch.num_rows();
            }
        }
    }
    Ok(rows)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: bench_bars DIR [ROWS] [RUNS]")?;
    let rows: usize = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(11), |text| text.parse())?;
    let there = Path::new(&dir).exists();
    let database = Database::open(&dir, DatabaseOptions::default())?;
    if !there {
        load(&database, rows)?;
    }
    let mut session = database.session();
    let mut found = Vec::new();
    for (name, sql) in QUERIES {
        let mut taken: Vec<Duration> = Vec::with_capacity(runs);
        let mut yielded = 0;
        for at in 0..WARM_RUNS + runs.max(1) {
            let began = Instant::now();
            yielded = database.runtime().block_on(run(&mut session, sql))?;
            if at >= WARM_RUNS {
                taken.push(began.elapsed());
            }
        }
        taken.sort_unstable();
        let median = taken[taken.len() / 2].as_secs_f64() * 1e3;
        found.push(format!("\"{name}\": {{\"median_ms\": {median:.2}, \"rows\": {yielded}}}"));
    }
    println!("{{{}}}", found.join(", "));
    Ok(())
}
