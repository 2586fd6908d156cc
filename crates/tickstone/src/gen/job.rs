//! One stretch of days of some feeds, written to a trades file, a books file, or both.

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::GenError;
use super::feed::{Event, Feed, RowCounts};
use super::file::{Compression, CsvFile};
use super::instrument::{Exchange, Instrument, SYMBOLS};
use super::path::PricePath;
use super::rows::{self, Clock};

/// A finished file.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Rows in it.
    pub(crate) rows: u64,
    /// Bytes of CSV text, before compression.
    pub(crate) text_bytes: u64,
}

/// What feeds to make over which days, and where the rows go.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// What the progress bar calls it.
    pub(crate) title: &'static str,
    /// The seed of everything.
    pub(crate) seed: u64,
    /// Tells the feeds of this job from another's.
    pub(crate) key: u64,
    /// The first day, in days since the Unix epoch.
    pub(crate) first_day: i64,
    /// How many days.
    pub(crate) days: u64,
    /// The days that the row counts are for.
    pub(crate) block_days: u64,
    /// Who trades what (a place in [`SYMBOLS`]), and how many rows in `block_days`.
    pub(crate) feeds: Vec<(Exchange, usize, RowCounts)>,
    /// Name of the trades file, if wanted.
    pub(crate) trades: Option<&'a str>,
    /// Name of the books file, if wanted.
    pub(crate) books: Option<&'a str>,
    /// Levels a side in the books file.
    pub(crate) levels: usize,
}

/// The day all price paths begin, 2022-06-01: a day's data does not depend on where a job begins.
const PATHS_BEGIN: i64 = 19_144;

impl Job<'_> {
    /// Makes the data; rows stand in order of their exchange time.
    ///
    /// # Errors
    /// [`GenError::Write`] when a file cannot be written.
    pub(crate) fn write(&self, folder: &Path, compression: Compression) -> Result<Vec<Written>, GenError> {
        let create = |name: &str, header: &str| {
            CsvFile::create(folder, name, compression, header).map_err(GenError::write(&folder.join(name)))
        };
        let mut output = Output {
            trades: self.trades.map(|name| create(name, rows::TRADES_HEADER)).transpose()?,
            books: self.books.map(|name| create(name, &rows::books_header(self.levels))).transpose()?,
            levels: self.levels,
        };
        let mut feeds = self.make_feeds();
        let mut paths: Vec<PricePath> = (0..SYMBOLS.len())
            .map(|at| PricePath::new(self.seed, at as u64, SYMBOLS[at].path, PATHS_BEGIN))
            .collect();
        let progress = progress_bar(self.title, "day", self.days);
        let mut events = Vec::new();
        for index in 0..self.days {
            let day = self.first_day + index as i64;
            paths.iter_mut().for_each(|path| path.advance_to(day));
            events.clear();
            for (feed, at) in feeds.iter_mut().zip(0_u16..) {
                feed.schedule(at, day, index, &mut events);
            }
            // Each feed's events are in order already; a stable sort merges such runs.
            events.sort();
            output.write_day(day, &events, &mut feeds, &paths).map_err(GenError::write(folder))?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        output.finish().map_err(GenError::write(folder))
    }

    fn make_feeds(&self) -> Vec<Feed> {
        self.feeds
            .iter()
            .zip(0_u64..)
            .map(|((exchange, symbol, counts), at)| {
                let instrument = Instrument::new(*exchange, *symbol);
                Feed::new(self.seed, self.key * 100 + at, instrument, *counts, self.block_days)
            })
            .collect()
    }
}

struct Output {
    trades: Option<CsvFile>,
    books: Option<CsvFile>,
    levels: usize,
}

impl Output {
    /// Lets a day happen. All of it happens whatever is written, so that the trades are the same with
    /// and without the books.
    fn write_day(
        &mut self,
        day: i64,
        events: &[Event],
        feeds: &mut [Feed],
        paths: &[PricePath],
    ) -> std::io::Result<()> {
        let clock = Clock::new(day);
        for event in events {
            let feed = &mut feeds[usize::from(event.feed)];
            let path = &paths[feed.instrument.symbol_index];
            let times = (event.micros, event.micros + feed.latency());
            let instrument = feed.instrument;
            if event.is_trade {
                let trade = feed.trade(event.micros, path);
                if let Some(file) = &mut self.trades {
                    file.row(|out| rows::push_trade(out, &clock, times, &instrument, &trade))?;
                }
            } else {
                let book = feed.update_book(event.micros, path);
                if let Some(file) = &mut self.books {
                    file.row(|out| rows::push_book(out, &clock, times, &instrument, book, self.levels))?;
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> std::io::Result<Vec<Written>> {
        let mut written = Vec::new();
        for file in [self.trades, self.books].into_iter().flatten() {
            let (rows, text_bytes) = (file.rows(), file.text_bytes());
            written.push(Written { path: file.finish()?, rows, text_bytes });
        }
        Ok(written)
    }
}

/// A bar on standard error; nothing where that is no terminal.
pub(crate) fn progress_bar(title: &'static str, step: &str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = format!("{{msg}} [{{bar:40}}] {step} {{pos}} of {{len}}, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.set_message(title);
    bar
}
