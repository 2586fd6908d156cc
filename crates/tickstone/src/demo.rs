//! `tickstone demo`: a tour. Makes ticks, imports them durably, and runs six analyses.
//!
//! It calls what the other commands call: [`crate::gen`](mod@crate::r#gen), the import and a session.
//! Nothing here knows how a query is answered.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use comfy_table::{CellAlignment, Table, presets};
use futures::TryStreamExt;
use tickstone_query::import::{ImportError, ImportRequest, import};
use tickstone_query::{Database, DatabaseOptions, Outcome, QueryError, Session};

use crate::r#gen::{Compression, GenError, TicksRequest, write_ticks};

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

/// What can go wrong in the demo.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The folder is there already: the demo never touches what it did not make.
    #[error("{path} exists already; remove it, or choose another folder with --data", path = path.display())]
    FolderExists {
        /// The folder.
        path: PathBuf,
    },
    /// The folder could not be removed at the end.
    #[error("cannot remove {path}: {source}", path = path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// Standard output is gone.
    #[error("cannot write the results: {0}")]
    Output(#[from] io::Error),
    /// The ticks could not be made.
    #[error(transparent)]
    Gen(#[from] GenError),
    /// The ticks could not be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
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
WHERE sym = 'BTC-USD' AND timestamp IN '2022-06-19'
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
/// [`DemoError`]; the folder stays as it is then.
pub(crate) fn run(args: &Args) -> Result<(), DemoError> {
    if args.data.exists() {
        return Err(DemoError::FolderExists { path: args.data.clone() });
    }
    let (ticks, data) = (args.data.join("ticks"), args.data.join("tickstone-data"));
    make_ticks(args.rows, &ticks)?;
    {
        let database = Database::open(&data, DatabaseOptions::default())?;
        import_ticks(&database, &ticks)?;
        let mut session = database.session();
        for (number, analysis) in (1..).zip(&ANALYSES) {
            println!("\n{number}. {}\n\n{};\n", analysis.title, analysis.sql);
            analyse(&database, &mut session, analysis.sql)?;
        }
    }
    println!();
    if args.keep {
        println!("The ticks and the database stay in {}. Explore them with", args.data.display());
        println!("  tickstone sql --data {}", data.display());
        println!("and remove them with");
        println!("  rm -r {}", args.data.display());
        return Ok(());
    }
    std::fs::remove_dir_all(&args.data)
        .map_err(|source| DemoError::Remove { path: args.data.clone(), source })?;
    println!("Removed {}; `tickstone demo --keep` leaves it to explore.", args.data.display());
    Ok(())
}

fn make_ticks(rows: u64, folder: &Path) -> Result<(), DemoError> {
    println!("Making {} trades and book updates over {DAYS} days", grouped(rows));
    let began = Instant::now();
    let request = TicksRequest { rows, days: DAYS, levels: LEVELS, seed: 1 };
    for file in write_ticks(request, folder, Compression::None)? {
        let (rows, megabytes) = (grouped(file.rows), file.text_bytes as f64 / 1e6);
        println!("  {}: {rows} rows, {megabytes:.1} MB", file.path.display());
    }
    println!("  {:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn import_ticks(database: &Database, folder: &Path) -> Result<(), DemoError> {
    println!("\nImporting them; each file is one commit, on stable storage when it is done");
    for table in ["trades", "books"] {
        let request = ImportRequest::new(table, [folder.join(format!("{table}.csv"))]);
        let began = Instant::now();
        let report = import(database, &request, &mut |_| ())?;
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "  {table}: {} rows in {seconds:.2} s ({} rows/s, {:.0} MB/s)",
            grouped(report.rows()),
            grouped((report.rows() as f64 / seconds) as u64),
            report.bytes() as f64 / 1e6 / seconds,
        );
    }
    Ok(())
}

/// Runs a query and prints its first rows and its time.
fn analyse(database: &Database, session: &mut Session, sql: &str) -> Result<(), DemoError> {
    let began = Instant::now();
    let mut planned = Duration::ZERO;
    let batches: Vec<RecordBatch> = database.runtime().block_on(async {
        let mut rows = Vec::new();
        for statement in session.parse(sql)? {
            if let Outcome::Rows { stream, planning, .. } = session.run(statement).await? {
                planned += planning;
                rows.extend(stream.try_collect::<Vec<_>>().await.map_err(QueryError::from)?);
            }
        }
        Ok::<_, QueryError>(rows)
    })?;
    let taken = began.elapsed();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    println!("{}", first_rows(&batches)?);
    let shown = rows.min(SHOWN_ROWS);
    println!(
        "{shown} of {} rows; {:.1} ms, of which planning {:.1} ms",
        grouped(rows as u64),
        taken.as_secs_f64() * 1e3,
        planned.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// The first rows as an aligned table, numbers to the right.
fn first_rows(batches: &[RecordBatch]) -> Result<Table, DemoError> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let Some(first) = batches.first() else { return Ok(table) };
    let schema = first.schema();
    table.set_header(schema.fields().iter().map(|field| field.name().clone()));
    for (column, field) in table.column_iter_mut().zip(schema.fields()) {
        if field.data_type().is_numeric() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let options = FormatOptions::default();
    let mut left = SHOWN_ROWS;
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()
            .map_err(|error| QueryError::from(datafusion_error(error)))?;
        for row in 0..batch.num_rows().min(left) {
            table.add_row(columns.iter().map(|column| column.value(row).to_string()));
        }
        left -= batch.num_rows().min(left);
    }
    Ok(table)
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
