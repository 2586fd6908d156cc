//! Rows as CSV text: numbers are written from integers, digit by digit, so that output is fast and
//! never depends on how a library prints doubles.

use tickstone_model::format_nanos;

use super::book::{Book, LEVELS, Side};
use super::feed::Trade;
use super::instrument::Instrument;

const DAY_NANOS: i64 = 86_400_000_000_000;
const SECOND_MICROS: u64 = 1_000_000;

/// The digits of 0 to 99, two each.
const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
40414243444546474849505152535455565758596061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Appends `value` as decimal digits, at least `width` of them.
#[inline]
pub(crate) fn push_digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[value as usize * 2..value as usize * 2 + 2]);
    } else if value > 0 {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// Appends `units / 10^decimals` with all its decimals, as exchanges write prices.
#[inline]
pub(crate) fn push_fixed(out: &mut Vec<u8>, units: i64, decimals: u32) {
    if units < 0 {
        out.push(b'-');
    }
    let (units, one) = (units.unsigned_abs(), POWERS[decimals as usize]);
    push_digits(out, units / one, 1);
    if decimals > 0 {
        out.push(b'.');
        push_digits(out, units % one, decimals as usize);
    }
}

/// Appends `units / 10^decimals` without trailing zeros, but at least one decimal, so that every
/// reader takes the column for doubles.
#[inline]
pub(crate) fn push_short(out: &mut Vec<u8>, units: u64, decimals: u32) {
    push_fixed(out, units as i64, decimals);
    while out.ends_with(b"0") && out.get(out.len() - 2) != Some(&b'.') {
        out.pop();
    }
}

const POWERS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Writes one day's times: the date is spelled once.
#[derive(Debug)]
pub(crate) struct Clock {
    date: [u8; 11],
    next_date: [u8; 11],
}

impl Clock {
    /// The clock of a day (days since the Unix epoch).
    pub(crate) fn new(day: i64) -> Self {
        Self { date: date(day), next_date: date(day + 1) }
    }

    /// Appends the moment `micros` past the day's midnight (or into the next day) as ISO 8601 with
    /// µs and `Z`.
    #[inline]
    pub(crate) fn push(&self, out: &mut Vec<u8>, micros: u64) {
        let (date, micros) = match micros.checked_sub(86_400 * SECOND_MICROS) {
            Some(past) => (&self.next_date, past),
            None => (&self.date, micros),
        };
        let second = micros / SECOND_MICROS;
        out.extend_from_slice(date);
        push_digits(out, second / 3_600, 2);
        out.push(b':');
        push_digits(out, second / 60 % 60, 2);
        out.push(b':');
        push_digits(out, second % 60, 2);
        out.push(b'.');
        push_digits(out, micros % SECOND_MICROS, 6);
        out.push(b'Z');
    }
}

/// `2022-06-18T` of a day since the epoch; dates are four-digit years here.
fn date(day: i64) -> [u8; 11] {
    let text = format_nanos(day * DAY_NANOS);
    let mut date = *b"0000-00-00T";
    let length = date.len().min(text.len());
    date[..length].copy_from_slice(&text.as_bytes()[..length]);
    date
}

/// The header line of the trades.
pub(crate) const TRADES_HEADER: &str = "timestamp,receipt_timestamp,exchange,sym,side,price,amount,id\n";

/// The header line of books with `levels` levels a side: `b1price,b1size,…,a1price,a1size,…`.
pub(crate) fn books_header(levels: usize) -> String {
    let mut header = String::from("timestamp,receipt_timestamp,exchange,sym");
    for side in ["b", "a"] {
        for level in 1..=levels {
            header.push_str(&format!(",{side}{level}price,{side}{level}size"));
        }
    }
    header.push('\n');
    header
}

/// What every row begins with: both times, where and what.
#[inline]
fn push_start(out: &mut Vec<u8>, clock: &Clock, micros: u64, receipt: u64, instrument: &Instrument) {
    clock.push(out, micros);
    out.push(b',');
    clock.push(out, receipt);
    out.push(b',');
    out.extend_from_slice(instrument.exchange.name.as_bytes());
    out.push(b',');
    out.extend_from_slice(instrument.symbol.name.as_bytes());
}

/// Appends a row of the trades.
pub(crate) fn push_trade(
    out: &mut Vec<u8>,
    clock: &Clock,
    (micros, receipt): (u64, u64),
    instrument: &Instrument,
    trade: &Trade,
) {
    push_start(out, clock, micros, receipt, instrument);
    out.extend_from_slice(if trade.buyer_takes { b",buy," } else { b",sell," });
    push_fixed(out, trade.price, instrument.price_decimals());
    out.push(b',');
    push_short(out, trade.amount, instrument.symbol.size_decimals);
    out.push(b',');
    push_digits(out, trade.id, 1);
    out.push(b'\n');
}

/// Appends a row of the books, the best `levels` levels of each side.
pub(crate) fn push_book(
    out: &mut Vec<u8>,
    clock: &Clock,
    (micros, receipt): (u64, u64),
    instrument: &Instrument,
    book: &Book,
    levels: usize,
) {
    push_start(out, clock, micros, receipt, instrument);
    let (price_decimals, size_decimals) = (instrument.price_decimals(), instrument.symbol.size_decimals);
    let mut push_side = |side: &Side| {
        for level in 0..levels.min(LEVELS) {
            out.push(b',');
            push_fixed(out, side.prices[level], price_decimals);
            out.push(b',');
            push_short(out, side.sizes[level], size_decimals);
        }
    };
    push_side(&book.bids);
    push_side(&book.asks);
    out.push(b'\n');
}
