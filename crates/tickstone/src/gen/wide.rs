//! The wide form of a session: what a consolidated feed says of quotes and trades beside prices and sizes.
//!
//! The rows are those of the narrow form: the same times, prices and sizes. What is added is drawn from
//! streams of random numbers of its own, one for each stock.

use std::ops::Range;

use super::random::Random;
use super::rows::{Clock, push_digits, push_fixed};
use super::stock::{MINUTE_MICROS, Quote, SESSION_MINUTES, StockTrade};

/// The header line of the quotes: 19 columns.
pub(crate) const QUOTES_HEADER: &str = "timestamp,symbol,venue,bid,bid_size,ask,ask_size,condition,sequence,\
source,nbbo,retail,short_sale,luld,halt,cancelled,maker,participant_time,adf_time\n";
/// The header line of the trades: 15 columns.
pub(crate) const TRADES_HEADER: &str = "timestamp,symbol,venue,condition,price,size,side,id,sequence,\
source,exempt,retail,halt,cancelled,participant_time\n";

/// The venues' codes: those of [`super::stock::VENUES`] in their order, then the ones that only this form has.
const CODES: [&str; 19] =
    ["P", "Z", "Y", "B", "J", "K", "V", "U", "H", "Q", "N", "X", "A", "C", "D", "I", "L", "M", "W"];
/// Where trades off the exchanges are reported, and the quotes of those who make markets there.
const OFF_EXCHANGE: usize = 14;
/// The small exchanges, places in [`CODES`].
const SMALL: [usize; 6] = [12, 13, 15, 16, 17, 18];
/// Rows in a thousand of the small exchanges.
const AT_SMALL: u64 = 25;
/// Quotes and trades in a thousand off the exchanges.
const QUOTES_OFF_EXCHANGE: u64 = 4;
const TRADES_OFF_EXCHANGE: u64 = 300;

/// What a column may say, with its share in a thousand; what is left of the thousand is empty.
type Choices = [(u64, &'static str)];

const QUOTE_CONDITIONS: &Choices =
    &[(975, "REGULAR"), (12, "ONE_SIDED"), (6, "SLOW_BID"), (6, "SLOW_ASK"), (1, "NON_FIRM")];
const NBBO: &Choices = &[(380, "NEITHER"), (250, "BID"), (250, "ASK"), (120, "BOTH")];
const RETAIL_QUOTES: &Choices = &[(15, "BID"), (15, "ASK"), (5, "BOTH")];
const LULD: &Choices = &[(2, "LIMIT_UP"), (2, "LIMIT_DOWN")];
const RETAIL_TRADES: &Choices = &[(30, "IMPROVED"), (10, "AT_MID")];
const EXEMPT: &Choices = &[(60, "EXEMPT")];
const CANCELLED: &Choices = &[(2, "CANCELLED"), (1, "CORRECTED")];
const MAKERS: &Choices = &[(400, "CDRG"), (300, "VIRT"), (150, "JNST"), (100, "GTSX"), (50, "UBSS")];
const SOURCES: [&str; 2] = ["CTA", "UTP"];

/// Stocks in a thousand whose short sales are restricted, and that are paused once in the session.
const RESTRICTED: u64 = 15;
const PAUSED: u64 = 25;
/// Minutes of a pause, and of what counts as the resumption after it.
const PAUSE_MINUTES: u64 = 5;
const RESUMED_MINUTES: u64 = 1;
/// µs of the way from a venue to the feed at the least, and usually beyond that.
const WAY_MICROS: u64 = 15;
const WAY_TAIL_MICROS: u64 = 120;
/// The lines of a feed; each numbers its own messages.
const LINES: usize = 24;
/// The first trade id of each venue is a multiple of this.
const IDS_OF_VENUE: u64 = 1_000_000_000_000;

const DETAILS: u64 = 26;

/// A row under way: when, and of which stock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// Writes times.
    pub(crate) clock: &'a Clock,
    /// µs since midnight.
    pub(crate) micros: u64,
    /// µs since the session's open.
    pub(crate) of_session: u64,
    /// Place of the stock.
    pub(crate) stock: usize,
    /// Its name.
    pub(crate) name: &'a str,
}

/// The columns that the narrow form has not, of all stocks.
#[derive(Debug)]
pub(crate) struct Wide {
    details: Vec<Details>,
    quote_sequences: [u64; LINES],
    trade_sequences: [u64; LINES],
    /// Trades so far at each venue.
    trades: [u64; CODES.len()],
}

/// What is so of one stock, and what its rows are drawn from.
#[derive(Debug)]
struct Details {
    random: Random,
    source: &'static str,
    short_sale: &'static str,
    /// µs since the session's open in which it is paused; none where it never is.
    pause: Range<u64>,
}

impl Wide {
    /// The columns of so many stocks.
    pub(crate) fn new(seed: u64, stocks: u16) -> Self {
        Self {
            details: (0..stocks).map(|rank| Details::new(seed, rank)).collect(),
            quote_sequences: [0; LINES],
            trade_sequences: [0; LINES],
            trades: [0; CODES.len()],
        }
    }

    /// Appends a row of the quotes.
    pub(crate) fn push_quote(&mut self, out: &mut Vec<u8>, at: Moment<'_>, quote: &Quote) {
        let details = &mut self.details[at.stock];
        let venue = details.venue(quote.venue, QUOTES_OFF_EXCHANGE);
        push_start(out, at, venue);
        push_fixed(out, quote.bid, 2);
        push_number(out, quote.bid_size);
        out.push(b',');
        push_fixed(out, quote.ask, 2);
        push_number(out, quote.ask_size);
        push_text(out, details.one_of(QUOTE_CONDITIONS));
        push_number(out, next(&mut self.quote_sequences[at.stock % LINES]));
        push_text(out, details.source);
        push_text(out, details.one_of(NBBO));
        push_text(out, details.one_of(RETAIL_QUOTES));
        push_text(out, details.short_sale);
        push_text(out, details.one_of(LULD));
        push_text(out, details.halt(at.of_session));
        push_text(out, details.one_of(CANCELLED));
        let is_made = venue == OFF_EXCHANGE;
        push_text(out, if is_made { details.one_of(MAKERS) } else { "" });
        out.push(b',');
        let sent = at.micros - details.way();
        at.clock.push(out, sent);
        out.push(b',');
        if is_made {
            at.clock.push(out, sent - details.way());
        }
        out.push(b'\n');
    }

    /// Appends a row of the trades; `standing` is the quote that it happened in.
    pub(crate) fn push_trade(
        &mut self,
        out: &mut Vec<u8>,
        at: Moment<'_>,
        trade: &StockTrade,
        standing: &Quote,
    ) {
        let details = &mut self.details[at.stock];
        let venue = details.venue(trade.venue, TRADES_OFF_EXCHANGE);
        push_start(out, at, venue);
        out.extend_from_slice(trade.condition.name().as_bytes());
        out.push(b',');
        push_fixed(out, trade.price, 2);
        push_number(out, trade.size);
        push_text(out, details.side(trade, standing));
        push_number(out, venue as u64 * IDS_OF_VENUE + next(&mut self.trades[venue]));
        push_number(out, next(&mut self.trade_sequences[at.stock % LINES]));
        push_text(out, details.source);
        push_text(out, details.one_of(EXEMPT));
        push_text(out, details.one_of(RETAIL_TRADES));
        push_text(out, details.halt(at.of_session));
        push_text(out, details.one_of(CANCELLED));
        out.push(b',');
        at.clock.push(out, at.micros - details.way());
        out.push(b'\n');
    }
}

impl Details {
    fn new(seed: u64, rank: u16) -> Self {
        let mut random = Random::new(seed, &[DETAILS, u64::from(rank)]);
        let source = SOURCES[random.below(2) as usize];
        let short_sale = if random.chance(RESTRICTED) { "RESTRICTED" } else { "FREE" };
        let is_paused = random.chance(PAUSED);
        let begins = random.below(SESSION_MINUTES as u64 - PAUSE_MINUTES) * MINUTE_MICROS;
        let ends = if is_paused { begins + PAUSE_MINUTES * MINUTE_MICROS } else { begins };
        Self { random, source, short_sale, pause: begins..ends }
    }

    /// The place in [`CODES`] of the venue that a row comes from, which is `usual` for most.
    fn venue(&mut self, usual: u8, off_exchange: u64) -> usize {
        match self.random.below(1_000) {
            drawn if drawn < off_exchange => OFF_EXCHANGE,
            drawn if drawn < off_exchange + AT_SMALL => SMALL[self.random.below(SMALL.len() as u64) as usize],
            _ => usize::from(usual),
        }
    }

    /// One of these by their shares, or nothing.
    fn one_of(&mut self, choices: &Choices) -> &'static str {
        let mut drawn = self.random.below(1_000);
        for (share, text) in choices {
            match drawn.checked_sub(*share) {
                Some(rest) => drawn = rest,
                None => return text,
            }
        }
        ""
    }

    fn halt(&self, of_session: u64) -> &'static str {
        let resumes = self.pause.end;
        if self.pause.contains(&of_session) {
            "PAUSED"
        } else if !self.pause.is_empty()
            && (resumes..resumes + RESUMED_MINUTES * MINUTE_MICROS).contains(&of_session)
        {
            "RESUMED"
        } else {
            ""
        }
    }

    /// Who took: the buyer at the ask, the seller at the bid, either in between.
    fn side(&mut self, trade: &StockTrade, standing: &Quote) -> &'static str {
        let buyer_takes =
            trade.price >= standing.ask || (trade.price > standing.bid && self.random.bits() & 1 == 0);
        if buyer_takes { "buy" } else { "sell" }
    }

    /// µs from a venue to the feed.
    fn way(&mut self) -> u64 {
        WAY_MICROS + self.random.long_tail(WAY_TAIL_MICROS)
    }
}

/// What every row begins with, a comma after it.
#[inline]
fn push_start(out: &mut Vec<u8>, at: Moment<'_>, venue: usize) {
    at.clock.push(out, at.micros);
    push_text(out, at.name);
    push_text(out, CODES[venue]);
    out.push(b',');
}

#[inline]
fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b',');
    out.extend_from_slice(text.as_bytes());
}

#[inline]
fn push_number(out: &mut Vec<u8>, number: u64) {
    out.push(b',');
    push_digits(out, number, 1);
}

/// The number after the one there.
#[inline]
fn next(number: &mut u64) -> u64 {
    *number += 1;
    *number
}
