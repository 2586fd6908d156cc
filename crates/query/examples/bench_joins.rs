//! Benchmark: the joins of two series, end to end in the process; prints a line each.
//!
//! usage: bench_joins DIR [TRADES] [QUOTES] [SYMBOLS] [RUNS]
//!
//! Makes a day of trades (default a million) and quotes (ten million) of some symbols (100) in DIR, unless
//! they are there, and prints the median of RUNS (default 7) of each query, warm: WINDOW JOIN around every
//! trade, HORIZON JOIN of a tenth of the trades at 20 offsets, SPLICE JOIN, and ASOF JOIN each way.

use std::error::Error;
use std::time::Instant;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use tickstone_query::{Database, DatabaseOptions, Outcome, Session};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A day in nanoseconds, and its start.
const DAY: u64 = 86_400_000_000_000;
const START: u64 = 1_704_067_200_000_000_000;

/// The rows that a query yields, and the first column of the first of them where it is an integer.
async fn run(session: &mut Session, sql: &str) -> Result<(usize, Option<i64>), Box<dyn Error>> {
    let (mut rows, mut first) = (0, None);
    for statement in session.parse(sql)? {
        if let Outcome::Rows { stream, .. } = session.run(statement).await? {
            let batches: Vec<_> = stream.try_collect().await?;
            for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
                let value = batch.columns().first().and_then(|of| of.as_primitive_opt::<Int64Type>());
                first = first.or(value.map(|of| of.value(0)));
                rows += batch.num_rows();
            }
        }
    }
    Ok((rows, first))
}

/// Makes a table of so many rows, a day of them, whose symbols and prices look drawn at random.
async fn make(session: &mut Session, name: &str, rows: u64, symbols: u64) -> Result<(), Box<dyn Error>> {
    let (step, seed) = (DAY / rows.max(1), if name == "trades" { 7_919 } else { 104_729 });
    let values = match name {
        "trades" => "100 + (i * 31 % 1000) / 64.0 AS price, 1.0 + i % 50 AS size",
        _ => "100 + (i * 37 % 1000) / 64.0 AS bid, 100.25 + (i * 41 % 1000) / 64.0 AS ask",
    };
    let columns = match name {
        "trades" => "price DOUBLE, size DOUBLE",
        _ => "bid DOUBLE, ask DOUBLE",
    };
    run(session, &format!("CREATE TABLE {name} (ts TIMESTAMP, symbol SYMBOL, {columns}) TIMESTAMP(ts)"))
        .await?;
    // In pieces, so that no insert holds more than a million rows.
    for from in (0..rows).step_by(1_000_000) {
        let to = rows.min(from + 1_000_000) - 1;
        run(
            session,
            &format!(
                "INSERT INTO {name} SELECT to_timestamp_nanos({START} + i * {step} + i * 17 % {step}), \
                 'S' || (i * {seed} % {symbols}), {values} FROM generate_series({from}, {to}) AS t(i)"
            ),
        )
        .await?;
    }
    run(session, "CHECKPOINT").await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: bench_joins DIR [TRADES] [QUOTES] [SYMBOLS] [RUNS]")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (trades, quotes) = (number(1_000_000)?, number(10_000_000)?);
    let (symbols, runs) = (number(100)?, number(7)?.max(1));
    let database = Database::open(&dir, DatabaseOptions::default())?;
    let mut session = database.session();
    let near = "RANGE BETWEEN 1s PRECEDING AND 1s FOLLOWING";
    let asof = |way: &str| {
        format!(
            "SELECT count(q.bid), avg(q.bid - t.price) FROM trades t ASOF JOIN quotes q ON (symbol) DIRECTION {way}"
        )
    };
    let tenth = "SELECT * FROM trades WHERE ts < '2024-01-01T02:24:00'";
    let queries = [
        (
            "WINDOW JOIN, 3 aggregates",
            format!("SELECT sum(n), avg(a), max(m) FROM (SELECT count(*) AS n, avg(q.bid) AS a, max(q.ask) AS m FROM trades t WINDOW JOIN quotes q ON (symbol) {near})"),
        ),
        (
            "WINDOW JOIN, all rows in order",
            format!("SELECT t.ts, t.symbol, t.price, count(*), avg(q.bid), max(q.ask) FROM trades t WINDOW JOIN quotes q ON (symbol) {near}"),
        ),
        (
            "WINDOW JOIN, ten minutes",
            "SELECT sum(n), avg(a), max(m) FROM (SELECT count(*) AS n, avg(q.bid) AS a, max(q.ask) AS m FROM trades t WINDOW JOIN quotes q ON (symbol) RANGE BETWEEN 10m PRECEDING AND CURRENT ROW)".to_string(),
        ),
        (
            "HORIZON JOIN, a tenth at 20 offsets",
            format!("SELECT h.offset, count(q.bid), avg(q.bid - t.price) FROM ({tenth}) t HORIZON JOIN quotes q ON (symbol) RANGE FROM -1s TO 18s STEP 1s AS h GROUP BY h.offset"),
        ),
        (
            "SPLICE JOIN",
            "SELECT count(*), sum(t.price), sum(q.bid) FROM trades t SPLICE JOIN quotes q ON (symbol)".to_string(),
        ),
        ("ASOF JOIN BACKWARD", asof("BACKWARD")),
        ("ASOF JOIN FORWARD", asof("FORWARD")),
        ("ASOF JOIN NEAREST", asof("NEAREST")),
    ];
    database.runtime().block_on(async {
        for (name, rows) in [("trades", trades), ("quotes", quotes)] {
            if run(&mut session, &format!("SELECT count(*) FROM {name}")).await.is_err() {
                make(&mut session, name, rows, symbols).await?;
            }
        }
        for (name, sql) in queries {
            let mut times = Vec::new();
            let mut found = (0, None);
            for _ in 0..=runs {
                let began = Instant::now();
                found = run(&mut session, &sql).await?;
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            // The first run is not counted.
            times.remove(0);
            times.sort_by(f64::total_cmp);
            let (rows, first) = found;
            let first = first.map_or(String::new(), |value| format!(", first value {value}"));
            println!("{:9.1} ms  {name}: {rows} rows{first}", times[times.len() / 2]);
        }
        Ok(())
    })
}
