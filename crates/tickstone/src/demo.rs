//! `tickstone demo`: a tour. Makes ticks, imports them durably, and runs six analyses.
//!
//! It calls what the other commands call: [`crate::r#gen`], the import and a session.
//! Nothing here knows how a query is answered.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tickstone_query::import::{ImportRequest, import};
use tickstone_query::{Database, DatabaseOptions, Outcome, Session};

use crate::failure::{Failure, Result};
use crate::r#gen::{Compression, TicksRequest, write_ticks};
use crate::sql::table;
use crate::units;

/// Options of `tickstone demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the ticks and the database, to explore them.
    #[arg(long)]
    keep: bool,
    /// Folder to work in; it must not exist yet.
    #[arg(long, value_name = "DIR", default_value = "tickstone-demo")]
    data: PathBuf,
    /// Rows to make, two trades to three book updates.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    rows: u64,
}

/// A question to the ticks.
struct Analysis {
    title: &'static str,
    sql: &'static str,
}

const ANALYSES: [Analysis; 6] = [
    Analysis {
        title: "Bars: open, high, low, close and volume of each hour",
        sql: "SELECT timestamp, sym, first(price) AS open, max(price) AS high, min(price) AS low,
       last(price) AS close, sum(amount) AS volume, count(*) AS trades
FROM trades
SAMPLE BY 1h
ORDER BY timestamp, sym",
    },
    Analysis {
        title: "VWAP: the average price paid, weighted by size, every five minutes",
        sql: "SELECT timestamp, vwap(price, amount) AS vwap, sum(amount) AS volume
FROM trades
WHERE sym = 'BTC-USD' AND timestamp >= '2022-06-19' AND timestamp < '2022-06-20'
SAMPLE BY 5m
ORDER BY timestamp",
    },
    Analysis {
        title: "Spread: what it costs to cross the book",
        sql: "SELECT sym, avg(spread(b1price, a1price)) AS spread,
       avg(10000 * spread(b1price, a1price) / mid(b1price, a1price)) AS bps, count(*) AS updates
FROM books
GROUP BY sym
ORDER BY sym",
    },
    Analysis {
        title: "As-of join: each trade against the book that stood when it happened",
        sql: "SELECT t.sym, t.side, count(*) AS trades,
       avg(2 * abs(t.price - mid(b.b1price, b.a1price))) AS effective_spread
FROM trades t ASOF JOIN books b ON (sym)
GROUP BY t.sym, t.side
ORDER BY t.sym, t.side",
    },
    Analysis {
        title: "Depth: how much stands in the best five levels, every four hours",
        sql: "SELECT timestamp, sym, avg(b1size + b2size + b3size + b4size + b5size) AS bid_depth,
       avg(a1size + a2size + a3size + a4size + a5size) AS ask_depth
FROM books
SAMPLE BY 4h
ORDER BY timestamp, sym",
    },
    Analysis {
        title: "Volatility: of five-minute mid-quote returns, by day, in per cent",
        sql: "WITH mids AS (
  SELECT timestamp, sym, last(mid(b1price, a1price)) AS mid FROM books SAMPLE BY 5m
), returns AS (
  SELECT timestamp, sym, log_return(mid) OVER (PARTITION BY sym ORDER BY timestamp) AS r FROM mids
)
SELECT time_bucket('1d', timestamp) AS day, sym, 100 * sqrt(288) * stddev(r) AS volatility
FROM returns
GROUP BY day, sym
ORDER BY day, sym",
    },
];

/// Rows shown of each result.
const SHOWN_ROWS: usize = 5;
/// Days the ticks cover.
const DAYS: u64 = 5;
/// Levels of the book.
const LEVELS: usize = 5;

/// Runs the demo.
///
/// # Errors
/// Where the folder exists already, and those of making, importing and querying; the folder stays as it
/// is then.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.data.exists() {
        let path = args.data.display();
        return Err(Failure::Usage(format!("{path} exists already; remove it, or name another with --data")));
    }
    let (ticks, data) = (args.data.join("ticks"), args.data.join("tickstone-data"));
    make_ticks(args.rows, &ticks)?;
    let database = Database::open(&data, DatabaseOptions::default())?;
    import_ticks(&database, &ticks)?;
    let mut session = database.session();
    for (number, analysis) in (1..).zip(&ANALYSES) {
        println!("\n{number}. {}\n\n{};\n", analysis.title, analysis.sql);
        analyse(&database, &mut session, analysis.sql)?;
    }
    drop((session, database));
    println!();
    if args.keep {
        println!("The ticks and the database stay in {}. Explore them with", args.data.display());
        println!("  tickstone sql --data {}", data.display());
        println!("and remove them with");
        println!("  rm -r {}", args.data.display());
        return Ok(());
    }
    std::fs::remove_dir_all(&args.data).map_err(|source| Failure::Io {
        action: "remove",
        path: args.data.clone(),
        source,
    })?;
    println!("Removed {}; `tickstone demo --keep` leaves it to explore.", args.data.display());
    Ok(())
}

fn make_ticks(rows: u64, folder: &Path) -> Result<()> {
    println!("Making {} trades and book updates over {DAYS} days", units::count(rows));
    let began = Instant::now();
    let request = TicksRequest { rows, days: DAYS, levels: LEVELS, seed: 1 };
    for file in write_ticks(request, folder, Compression::None)? {
        println!(
            "  {}: {}, {} of CSV",
            file.path.display(),
            units::rows(file.rows),
            units::bytes(file.text_bytes)
        );
    }
    println!("  in {}", units::duration(began.elapsed()));
    Ok(())
}

fn import_ticks(database: &Database, folder: &Path) -> Result<()> {
    println!("\nImporting them; each file is one commit, on stable storage when it is done");
    for table in ["trades", "books"] {
        let request = ImportRequest::new(table, [folder.join(format!("{table}.csv"))]);
        let began = Instant::now();
        let report = import(database, &request, &mut |_| ())?;
        let elapsed = began.elapsed();
        let a_second = |number: u64| (number as f64 / elapsed.as_secs_f64()) as u64;
        println!(
            "  {table}: {} in {} ({}/s, {}/s)",
            units::rows(report.rows()),
            units::duration(elapsed),
            units::rows(a_second(report.rows())),
            units::bytes(a_second(report.bytes())),
        );
    }
    Ok(())
}

/// Runs a query and prints its first rows and its time.
fn analyse(database: &Database, session: &mut Session, sql: &str) -> Result<()> {
    for statement in session.parse(sql)? {
        let began = Instant::now();
        let shown = database.runtime().block_on(async {
            match session.run(statement).await? {
                Outcome::Rows { schema, stream, planning, .. } => {
                    let rows = table::collect(schema, stream, SHOWN_ROWS).await?;
                    Ok::<_, Failure>(Some((rows, planning)))
                }
                Outcome::Done { .. } => Ok(None),
            }
        })?;
        if let Some((rows, planning)) = shown {
            print_result(&rows, planning, began.elapsed())?;
        }
    }
    Ok(())
}

fn print_result(rows: &table::Rows, planning: Duration, elapsed: Duration) -> Result<()> {
    print!("{}", rows.text()?);
    let (elapsed, planning) = (units::duration(elapsed), units::duration(planning));
    let all = units::rows(rows.total());
    match rows.cut() {
        true => println!("the first {} of {all}, in {elapsed} (planning {planning})", rows.kept()),
        false => println!("{all} in {elapsed} (planning {planning})"),
    }
    Ok(())
}
