//! `tickstone gen`: market data made from a seed.
//!
//! Owns the generated markets: the fair price of each symbol ([`path`]), each instrument's order book
//! ([`book`]) and feed ([`feed`]), a session of many stocks ([`equities`], [`stock`]) and its wide form
//! ([`wide`]), and how they are written ([`rows`], [`file`]). The same arguments give the same bytes on
//! every machine and in every version; a test pins a hash of them.
//!
//! ```text
//! seed ──► price path and activity ──► times of events ──► book updates, trades ──► CSV rows
//! ```
//!
//! Enter at [`run`], at [`job::Job`], which writes the files of one stretch of days, or at
//! [`equities::write_equities`].

mod book;
mod equities;
mod feed;
mod file;
mod instrument;
mod job;
mod path;
mod random;
mod rows;
mod stock;
mod suite;
mod ticks;
mod wide;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use crate::units;

pub(crate) use file::Compression;
pub(crate) use ticks::{TicksRequest, write_ticks};

/// What `tickstone gen` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// The data of the benchmark suite: a month of trades and book updates of three symbols, a day of
    /// five exchanges, and the two files of the load test.
    Suite(suite::SuiteArgs),
    /// A few days of trades and book updates, the data of `tickstone demo`.
    Ticks(ticks::TicksArgs),
    /// One session of American stocks, 2024-08-08: quotes and trades of 2,000 symbols, few of them busy.
    Equities(equities::EquitiesArgs),
}

/// Options that all generated data has.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Folder the files are written to (made if missing; files in it are replaced).
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The seed: the same one gives the same files.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compress the files with gzip (.csv.gz).
    #[arg(long, conflicts_with = "zstd")]
    gzip: bool,
    /// Compress the files with Zstandard (.csv.zst).
    #[arg(long)]
    zstd: bool,
}

impl OutputArgs {
    fn compression(&self) -> Compression {
        match (self.gzip, self.zstd) {
            (true, _) => Compression::Gzip,
            (_, true) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// What can go wrong while data is made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GenError {
    /// A file or folder could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
}

impl GenError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> GenError {
        move |source| GenError::Write { path: path.to_path_buf(), source }
    }
}

/// Makes the data and prints one line for each file: its path, rows and size.
///
/// # Errors
/// [`GenError::Write`] when a file cannot be written; files already finished stay, unfinished ones end
/// in `.partial`.
pub(crate) fn run(args: &Args) -> Result<(), GenError> {
    let written = match &args.command {
        Command::Suite(suite) => suite::write_suite(suite)?,
        Command::Ticks(ticks) => ticks::run_ticks(ticks)?,
        Command::Equities(equities) => equities::write_equities(equities)?,
    };
    for file in &written {
        let (rows, bytes) = (units::rows(file.rows), units::bytes(file.text_bytes));
        println!("{}: {rows}, {bytes} of CSV", file.path.display());
    }
    Ok(())
}
