//! A few days of one exchange, small enough to make in a moment: what the demo runs on.

use std::fs;
use std::path::Path;

use super::feed::RowCounts;
use super::file::Compression;
use super::instrument::COINBASE;
use super::job::{Job, Written};
use super::{GenError, OutputArgs};

/// 2022-06-18, days since the Unix epoch.
const TICKS_BEGIN: i64 = 19_161;
/// Of a thousand rows, trades and book updates by symbol.
const SHARES: [(u64, u64); 3] = [(170, 280), (190, 260), (40, 60)];

/// Options of `tickstone gen ticks`.
#[derive(Debug, clap::Args)]
pub(crate) struct TicksArgs {
    /// Rows in all, two trades to three book updates.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    rows: u64,
    /// Days, from 2022-06-18.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_650))]
    days: u64,
    /// Price levels a side of each book update.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=20))]
    levels: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// What [`write_ticks`] is to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TicksRequest {
    /// Rows in all, two trades to three book updates.
    pub(crate) rows: u64,
    /// Days, from 2022-06-18.
    pub(crate) days: u64,
    /// Price levels a side of each book update, 1 to 20.
    pub(crate) levels: usize,
    /// The seed.
    pub(crate) seed: u64,
}

/// `tickstone gen ticks`.
///
/// # Errors
/// [`GenError::Write`] when a file cannot be written.
pub(crate) fn run_ticks(args: &TicksArgs) -> Result<Vec<Written>, GenError> {
    let request = TicksRequest {
        rows: args.rows,
        days: args.days,
        levels: args.levels as usize,
        seed: args.output.seed,
    };
    write_ticks(request, &args.output.out, args.output.compression())
}

/// Writes `trades.csv` and `books.csv` into a folder, which is made if missing.
///
/// # Errors
/// [`GenError::Write`] when a file cannot be written.
pub(crate) fn write_ticks(
    request: TicksRequest,
    folder: &Path,
    compression: Compression,
) -> Result<Vec<Written>, GenError> {
    fs::create_dir_all(folder).map_err(GenError::write(folder))?;
    let feeds = SHARES.into_iter().enumerate().map(|(symbol, (trades, books))| {
        let rows = |share| request.rows * share / 1_000;
        (COINBASE, symbol, RowCounts { trades: rows(trades), books: rows(books) })
    });
    let job = Job {
        title: "ticks",
        seed: request.seed,
        key: 4,
        first_day: TICKS_BEGIN,
        days: request.days,
        block_days: request.days,
        feeds: feeds.collect(),
        trades: Some("trades.csv"),
        books: Some("books.csv"),
        levels: request.levels,
    };
    job.write(folder, compression)
}
