//! Benchmark: sums over random time ranges of events while a writer adds more; prints one JSON object.
//!
//! usage: bench_events DIR [SECONDS] [EVENTS]
//!
//! Events of 32 bytes (id, time, price, volume, stock, buyer, seller, trader: 16-bit fields after two of 64 bits)
//! over five trading days of seven hours; EVENTS of them (default 37,800,000) are loaded into DIR where it does not
//! exist. Then, for SECONDS (default 10) each, on one thread: `sum(volume)` over random ranges of time with the
//! values read (`SET block_statistics = false`), and by the statistics of blocks where they suffice. Meanwhile a
//! writer commits 3,000 events a second with policy `none`, thirty at a time, a sixth each late by up to 1, 2, 5, 10,
//! 30 and 60 s, to a table that keeps five days. DIR stays, with what the writer added.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{
    ArrayRef, Int16Array, Int64Array, RecordBatch, TimestampNanosecondArray, UInt16Array, cast::AsArray,
    types::Int64Type,
};
use futures::TryStreamExt;
use tickstone_engine::{Engine, EngineOptions};
use tickstone_model::{SyncPolicy, format_nanos};
use tickstone_query::{Database, DatabaseOptions, Outcome, Session};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// 2024-01-01, a Monday, 09:00.
const START_NS: i64 = 1_704_099_600_000_000_000;
const SESSION_NS: i64 = 7 * 3_600 * SECOND_NS;
const DAYS: i64 = 5;
/// Seconds that one of a sixth of the events is late at most.
const DELAYS: [i64; 6] = [1, 2, 5, 10, 30, 60];
const TICK: Duration = Duration::from_millis(10);
const EVENTS_A_TICK: usize = 30;

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Events of these times.
fn events(first: i64, times: Vec<i64>, random: &mut u64) -> Result<RecordBatch> {
    let draws: Vec<u64> = times.iter().map(|_| next(random)).collect();
    let sixteen = |shift: u32| UInt16Array::from_iter_values(draws.iter().map(|draw| (draw >> shift) as u16));
    let columns: [(&str, ArrayRef); 8] = [
        ("id", Arc::new(Int64Array::from_iter_values(first..first + times.len() as i64))),
        ("time", Arc::new(TimestampNanosecondArray::from(times))),
        ("price", Arc::new(sixteen(0))),
        (
            "volume",
            Arc::new(Int16Array::from_iter_values(draws.iter().map(|draw| (draw >> 16 & 0x3FFF) as i16))),
        ),
        (
            "stock",
            Arc::new(UInt16Array::from_iter_values(draws.iter().map(|draw| (draw >> 32) as u16 % 4_096))),
        ),
        ("buyer", Arc::new(sixteen(40))),
        ("seller", Arc::new(sixteen(44))),
        ("trader", Arc::new(sixteen(48))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Loads the five days.
fn load(database: &Database, count: i64) -> Result<()> {
    const BATCH: i64 = 262_144;
    let create = "CREATE TABLE events (id BIGINT, time TIMESTAMP, price SMALLINT UNSIGNED, volume SMALLINT, \
         stock SMALLINT UNSIGNED, buyer SMALLINT UNSIGNED, seller SMALLINT UNSIGNED, trader SMALLINT UNSIGNED) \
         TIMESTAMP(time) PARTITION BY DAY TTL 5 DAYS";
    let mut session = database.session();
    database.runtime().block_on(async {
        for statement in session.parse(create)? {
            session.run(statement).await?;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    })?;
    let (mut random, a_day) = (1, count / DAYS);
    let mut load = database.engine().load("events")?;
    for day in 0..DAYS {
        for first in (0..a_day).step_by(BATCH as usize) {
            let rows = first..a_day.min(first + BATCH);
            let begin = START_NS + day * DAY_NS;
            let times =
                rows.map(|row| begin + (row as i128 * SESSION_NS as i128 / a_day as i128) as i64).collect();
            load.append(&events(day * a_day + first, times, &mut random)?)?;
        }
    }
    load.commit(None)?;
    Ok(())
}

/// Adds events until told to stop; the time of each commit in µs.
fn write(engine: &Engine, stop: &AtomicBool, mut newest: i64) -> Result<Vec<f64>> {
    let (mut random, mut taken, began, mut ticks) = (2, Vec::new(), Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let times = (0..EVENTS_A_TICK).map(|at| {
            let late = DELAYS[at % DELAYS.len()] * SECOND_NS;
            newest + at as i64 - (next(&mut random) % late as u64) as i64
        });
        let batch = events(newest, times.collect(), &mut random)?;
        let sent = Instant::now();
        engine.append("events", &batch, Some(SyncPolicy::None))?;
        taken.push(sent.elapsed().as_secs_f64() * 1e6);
        newest += TICK.as_nanos() as i64;
        ticks += 1;
        std::thread::sleep((TICK * ticks).saturating_sub(began.elapsed()));
    }
    Ok(taken)
}

/// The two numbers of a one-row answer.
async fn numbers(session: &mut Session, sql: &str) -> Result<(i64, i64)> {
    let mut found = (0, 0);
    for statement in session.parse(sql)? {
        if let Outcome::Rows { stream, .. } = session.run(statement).await? {
            let batches: Vec<RecordBatch> = stream.try_collect().await?;
            for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
                let at = |column: usize| batch.column(column).as_primitive::<Int64Type>();
                found = (at(0).value(0), at(1).value(0));
            }
        }
    }
    Ok(found)
}

/// Changes a setting of the session.
async fn set(session: &mut Session, setting: &str) -> Result<()> {
    numbers(session, &format!("SET {setting}")).await.map(drop)
}

/// Sums over random ranges for so long: events a second.
async fn read(session: &mut Session, seconds: f64) -> Result<f64> {
    let (mut random, mut events, mut spent) = (3, 0, 0.0);
    while spent < seconds {
        let mut instant = || START_NS + (next(&mut random) % (DAYS * DAY_NS) as u64) as i64;
        let (a, b) = (instant(), instant());
        let (from, to) = (a.min(b), a.max(b));
        let range = format!("time >= '{}' AND time < '{}'", format_nanos(from), format_nanos(to));
        let began = Instant::now();
        let (_, count) =
            numbers(session, &format!("SELECT sum(volume), count(*) FROM events WHERE {range}")).await?;
        spent += began.elapsed().as_secs_f64();
        events += count;
    }
    Ok(events as f64 / spent)
}

fn percentile(ascending: &[f64], share: f64) -> f64 {
    ascending[((ascending.len() - 1) as f64 * share) as usize]
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: bench_events DIR [SECONDS] [EVENTS]")?;
    let seconds: f64 = arguments.next().map_or(Ok(10.0), |text| text.parse())?;
    let count: i64 = arguments.next().map_or(Ok(37_800_000), |text| text.parse())?;
    let there = Path::new(&dir).exists();
    let engine = EngineOptions { threads: 1, ..EngineOptions::default() };
    let options = DatabaseOptions { engine, query_threads: Some(1), ..DatabaseOptions::default() };
    let database = Database::open(&dir, options)?;
    if !there {
        load(&database, count)?;
    }
    let newest = {
        let snapshot = database.engine().snapshot();
        let table = snapshot.table("events").ok_or("no table of events in DIR")?;
        table
            .partitions()
            .iter()
            .filter_map(|partition| partition.times())
            .map(|times| times.1)
            .max()
            .unwrap_or(0)
    };
    let mut session = database.session();
    let stop = AtomicBool::new(false);
    let (read_values, with_statistics, mut taken) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(database.engine(), &stop, newest));
        let figures = database.runtime().block_on(async {
            set(&mut session, "block_statistics = false").await?;
            read(&mut session, seconds.min(1.0)).await?;
            let values = read(&mut session, seconds).await?;
            set(&mut session, "block_statistics = true").await?;
            Ok::<_, Box<dyn Error + Send + Sync>>((values, read(&mut session, seconds).await?))
        });
        stop.store(true, Ordering::Relaxed);
        let taken = writer.join().map_err(|_| "the writer panicked")??;
        let (values, statistics) = figures?;
        Ok::<_, Box<dyn Error + Send + Sync>>((values, statistics, taken))
    })?;
    taken.sort_unstable_by(f64::total_cmp);
    println!(
        "{{\"values_read_per_s\": {read_values:.0}, \"gb_per_s\": {:.2}, \"with_statistics_per_s\": \
         {with_statistics:.0}, \"commits\": {}, \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}}}",
        read_values * 2.0 / 1e9,
        taken.len(),
        percentile(&taken, 0.5),
        percentile(&taken, 0.99),
        percentile(&taken, 0.999)
    );
    Ok(())
}
