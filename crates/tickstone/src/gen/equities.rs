//! A day of the American stock market: many stocks, few of them busy, in two files.
//!
//! The session is made minute by minute, so that memory holds the events of one minute and the state
//! of each stock, whatever the scale.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::feed::split;
use super::file::CsvFile;
use super::job::{Written, progress_bar};
use super::random::Random;
use super::rows::{Clock, push_digits, push_fixed};
use super::stock::{Quote, SESSION_MINUTES, Stock, StockEvent, StockTrade, VENUES};
use super::suite::{parse_scale, scaled};
use super::wide::{self, Moment, Wide};
use super::{GenError, OutputArgs};

/// 2024-08-08, a Thursday, days since the Unix epoch.
const SESSION_DAY: i64 = 19_943;
/// 09:30 in New York, which is 13:30 UTC that day, in µs since midnight UTC.
const SESSION_BEGINS: u64 = (13 * 60 + 30) * 60_000_000;
/// Stocks of the market.
const STOCKS: u16 = 2_000;
/// Rows at scale 1.
const QUOTES: u64 = 15_000_000;
const TRADES: u64 = 1_500_000;
/// Rows that even the rarest stock has, where there are enough.
const STOCK_ROWS_MIN: u64 = 3;

const QUOTES_HEADER: &str = "timestamp,symbol,exchange,bid,bid_size,ask,ask_size\n";
const TRADES_HEADER: &str = "timestamp,symbol,exchange,condition,price,size\n";

/// Options of `tickstone gen equities`.
#[derive(Debug, clap::Args)]
pub(crate) struct EquitiesArgs {
    /// Size of the data; 1 is 15 million quotes and 1.5 million trades (1 GB of CSV).
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    scale: f64,
    /// Quotes of 19 columns and trades of 15, as consolidated feeds have them: codes of venues, conditions,
    /// flags, sequence numbers, ids, the venues' own times. The rows are the same (2 GB of CSV at scale 1).
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[cfg(test)]
impl EquitiesArgs {
    /// What the command line would have parsed.
    pub(crate) fn new(scale: f64, wide: bool, output: OutputArgs) -> Self {
        Self { scale, wide, output }
    }
}

/// Writes `quotes.csv` and `trades.csv`; rows stand in order of time.
///
/// # Errors
/// [`GenError::Write`] when a file cannot be written.
pub(crate) fn write_equities(args: &EquitiesArgs) -> Result<Vec<Written>, GenError> {
    let folder = &args.output.out;
    fs::create_dir_all(folder).map_err(GenError::write(folder))?;
    let create = |name: &str, header: &str| {
        CsvFile::create(folder, name, args.output.compression(), header)
            .map_err(GenError::write(&folder.join(name)))
    };
    let (quotes, trades) =
        if args.wide { (wide::QUOTES_HEADER, wide::TRADES_HEADER) } else { (QUOTES_HEADER, TRADES_HEADER) };
    let mut market = Market {
        names: stock_names(),
        stocks: stocks(args.output.seed, args.scale),
        wide: args.wide.then(|| Wide::new(args.output.seed, STOCKS)),
        quotes: create("quotes.csv", quotes)?,
        trades: create("trades.csv", trades)?,
    };
    market.run_session().map_err(GenError::write(folder))?;
    market.finish(folder)
}

/// The stocks, the busiest first: the one of rank n has about a share of 1/n (Zipf's law).
fn stocks(seed: u64, scale: f64) -> Vec<Stock> {
    let (quotes, trades) = (zipf_rows(scaled(QUOTES, scale)), zipf_rows(scaled(TRADES, scale)));
    (0..STOCKS)
        .zip(quotes.into_iter().zip(trades))
        .map(|(rank, (quotes, trades))| Stock::new(seed, rank, u64::from(STOCKS), quotes, trades))
        .collect()
}

/// The rows of each rank; together they are `rows`.
fn zipf_rows(rows: u64) -> Vec<u64> {
    let stocks = u64::from(STOCKS);
    // At most half of the rows go to all alike.
    let least = (rows / (2 * stocks)).min(STOCK_ROWS_MIN);
    let rest = rows - least * stocks;
    let weights: Vec<u64> = (1..=stocks).map(|rank| (1 << 40) / rank).collect();
    let whole = weights.iter().sum();
    let mut upto = 0;
    weights
        .into_iter()
        .map(|weight| {
            let before = split(rest, upto, whole);
            upto += weight;
            least + split(rest, upto, whole) - before
        })
        .collect()
}

/// Words that some readers of CSV take for something else than text.
const NO_NAMES: [&str; 6] = ["INF", "NA", "NAN", "NONE", "NULL", "TRUE"];

/// The stocks' names, by rank: made up, two to four letters, the same for all seeds.
fn stock_names() -> Vec<String> {
    let mut random = Random::new(0, &[25]);
    let mut taken: BTreeSet<String> = NO_NAMES.into_iter().map(String::from).collect();
    let mut names = Vec::with_capacity(usize::from(STOCKS));
    while names.len() < usize::from(STOCKS) {
        let length = [2, 3, 3, 3, 3, 4, 4, 4, 4, 4][random.below(10) as usize];
        let name: String = (0..length).map(|_| char::from(b'A' + random.below(26) as u8)).collect();
        if taken.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

struct Market {
    names: Vec<String>,
    stocks: Vec<Stock>,
    /// What the wide form adds, where it is asked for.
    wide: Option<Wide>,
    quotes: CsvFile,
    trades: CsvFile,
}

impl Market {
    fn run_session(&mut self) -> io::Result<()> {
        let clock = Clock::new(SESSION_DAY);
        let progress = progress_bar("equities", "minute", SESSION_MINUTES as u64);
        let mut events: Vec<StockEvent> = Vec::new();
        for minute in 0..SESSION_MINUTES {
            events.clear();
            self.stocks.iter_mut().for_each(|stock| stock.schedule(minute, &mut events));
            events.sort_unstable();
            for event in &events {
                self.write(&clock, *event)?;
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn write(&mut self, clock: &Clock, event: StockEvent) -> io::Result<()> {
        let (stock, name) = (&mut self.stocks[event.stock()], &self.names[event.stock()]);
        let of_session = event.micros();
        let micros = SESSION_BEGINS + of_session;
        let moment = Moment { clock, micros, of_session, stock: event.stock(), name };
        match (&mut self.wide, event.is_trade()) {
            (None, true) => {
                let trade = stock.trade(of_session);
                self.trades.row(|out| push_trade(out, clock, micros, name, &trade))
            }
            (None, false) => {
                let quote = stock.quote(of_session);
                self.quotes.row(|out| push_quote(out, clock, micros, name, quote))
            }
            (Some(wide), true) => {
                let trade = stock.trade(of_session);
                self.trades.row(|out| wide.push_trade(out, moment, &trade, stock.standing()))
            }
            (Some(wide), false) => {
                let quote = stock.quote(of_session);
                self.quotes.row(|out| wide.push_quote(out, moment, quote))
            }
        }
    }

    fn finish(self, folder: &Path) -> Result<Vec<Written>, GenError> {
        let finish = |file: CsvFile| -> io::Result<Written> {
            let (rows, text_bytes) = (file.rows(), file.text_bytes());
            Ok(Written { path: file.finish()?, rows, text_bytes })
        };
        [self.quotes, self.trades]
            .into_iter()
            .map(finish)
            .collect::<io::Result<_>>()
            .map_err(GenError::write(folder))
    }
}

/// What every row begins with: when, what and where.
#[inline]
fn push_start(out: &mut Vec<u8>, clock: &Clock, micros: u64, name: &str, venue: u8) {
    clock.push(out, micros);
    out.push(b',');
    out.extend_from_slice(name.as_bytes());
    out.push(b',');
    out.extend_from_slice(VENUES[usize::from(venue)].as_bytes());
    out.push(b',');
}

fn push_quote(out: &mut Vec<u8>, clock: &Clock, micros: u64, name: &str, quote: &Quote) {
    push_start(out, clock, micros, name, quote.venue);
    push_fixed(out, quote.bid, 2);
    out.push(b',');
    push_digits(out, quote.bid_size, 1);
    out.push(b',');
    push_fixed(out, quote.ask, 2);
    out.push(b',');
    push_digits(out, quote.ask_size, 1);
    out.push(b'\n');
}

fn push_trade(out: &mut Vec<u8>, clock: &Clock, micros: u64, name: &str, trade: &StockTrade) {
    push_start(out, clock, micros, name, trade.venue);
    out.extend_from_slice(trade.condition.name().as_bytes());
    out.push(b',');
    push_fixed(out, trade.price, 2);
    out.push(b',');
    push_digits(out, trade.size, 1);
    out.push(b'\n');
}
