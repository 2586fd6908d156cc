//! The data of the benchmark suite's high-frequency part, after Barez, Bilokon and Xiong,
//! "Benchmarking Specialized Databases for High-frequency Data" (2023): row counts by symbol and
//! date range are the paper's, times the scale.

use std::fs;

use super::feed::RowCounts;
use super::instrument::{COINBASE, VENUES};
use super::job::{Job, Written};
use super::{GenError, OutputArgs};

/// 2022-06-18, days since the Unix epoch.
const MONTH_BEGINS: i64 = 19_161;
const MONTH_DAYS: u64 = 30;
/// 2022-06-01.
const WRITE_DAY: i64 = 19_144;
/// 2022-07-20.
const VENUES_DAY: i64 = 19_193;
/// Levels a side of the books.
const SUITE_LEVELS: usize = 20;

/// Rows of the month by symbol.
const MONTH: [RowCounts; 3] = [
    RowCounts { trades: 8_810_000, books: 15_660_000 },
    RowCounts { trades: 10_010_000, books: 14_060_000 },
    RowCounts { trades: 760_000, books: 920_000 },
];
/// Book updates of the day with five exchanges by symbol, over all of them.
const VENUES_DAY_BOOKS: [u64; 3] = [1_430_000, 1_220_000, 110_000];
/// Rows of the load test by symbol: one million trades and one and a half million book updates.
const WRITE: [RowCounts; 3] = [
    RowCounts { trades: 450_000, books: 766_600 },
    RowCounts { trades: 511_000, books: 688_300 },
    RowCounts { trades: 39_000, books: 45_100 },
];

/// A part of the suite's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// trades.csv: 2022-06-18 to 2022-07-17, Coinbase.
    Trades,
    /// books.csv: the same days.
    Books,
    /// venues.csv: books of five exchanges, 2022-07-20.
    Venues,
    /// write_trades.csv and write_books.csv: 2022-06-01, what the load test loads.
    Write,
}

/// Options of `tickstone gen suite`.
#[derive(Debug, clap::Args)]
pub(crate) struct SuiteArgs {
    /// Size of the data; 1 is the paper's (20 million trades, 31 million book updates, 30 GB of CSV).
    #[arg(long, default_value_t = 0.1, value_parser = parse_scale)]
    scale: f64,
    /// Days of trades and books, from 2022-06-18; more or fewer at the same rows a day.
    #[arg(long, default_value_t = MONTH_DAYS, value_parser = clap::value_parser!(u64).range(1..=3_650))]
    days: u64,
    /// Which parts to make.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "trades,books,venues,write")]
    what: Vec<Part>,
    #[command(flatten)]
    output: OutputArgs,
}

#[cfg(test)]
impl SuiteArgs {
    /// What the command line would have parsed.
    pub(crate) fn new(scale: f64, days: u64, what: Vec<Part>, output: OutputArgs) -> Self {
        Self { scale, days, what, output }
    }
}

/// A scale: above 0, at most 100.
pub(crate) fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 100.0 => Ok(scale),
        _ => Err(String::from("a number above 0 and at most 100")),
    }
}

/// Makes the parts asked for.
///
/// # Errors
/// [`GenError::Write`] when a file cannot be written.
pub(crate) fn write_suite(args: &SuiteArgs) -> Result<Vec<Written>, GenError> {
    let folder = &args.output.out;
    fs::create_dir_all(folder).map_err(GenError::write(folder))?;
    let wants = |part| args.what.contains(&part);
    let mut jobs = Vec::new();
    if wants(Part::Trades) || wants(Part::Books) {
        let mut job = Job { title: "month ", days: args.days, ..coinbase(args, MONTH, MONTH_BEGINS) };
        job.trades = wants(Part::Trades).then_some("trades.csv");
        job.books = wants(Part::Books).then_some("books.csv");
        job.block_days = MONTH_DAYS;
        jobs.push(job);
    }
    if wants(Part::Venues) {
        jobs.push(venues(args));
    }
    if wants(Part::Write) {
        let mut job = Job { title: "write ", key: 2, ..coinbase(args, WRITE, WRITE_DAY) };
        job.trades = Some("write_trades.csv");
        job.books = Some("write_books.csv");
        jobs.push(job);
    }
    let mut written = Vec::new();
    for job in jobs {
        written.extend(job.write(folder, args.output.compression())?);
    }
    Ok(written)
}

fn coinbase(args: &SuiteArgs, counts: [RowCounts; 3], first_day: i64) -> Job<'static> {
    let feeds = counts.into_iter().enumerate().map(|(symbol, counts)| {
        let counts =
            RowCounts { trades: scaled(counts.trades, args.scale), books: scaled(counts.books, args.scale) };
        (COINBASE, symbol, counts)
    });
    Job {
        title: "",
        seed: args.output.seed,
        key: 1,
        first_day,
        days: 1,
        block_days: 1,
        feeds: feeds.collect(),
        trades: None,
        books: None,
        levels: SUITE_LEVELS,
    }
}

fn venues(args: &SuiteArgs) -> Job<'static> {
    let mut feeds = Vec::new();
    for exchange in VENUES {
        for (symbol, total) in VENUES_DAY_BOOKS.into_iter().enumerate() {
            let books = scaled(total * exchange.share / 1_000, args.scale);
            feeds.push((exchange, symbol, RowCounts { trades: 0, books }));
        }
    }
    let books = Some("venues.csv");
    Job { title: "venues", key: 3, feeds, books, ..coinbase(args, MONTH, VENUES_DAY) }
}

/// A row count times the scale.
pub(crate) fn scaled(rows: u64, scale: f64) -> u64 {
    (rows as f64 * scale).round() as u64
}
