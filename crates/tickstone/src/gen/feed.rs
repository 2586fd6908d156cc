//! One instrument's feed: when its trades and book updates happen, and what each says.

use super::book::Book;
use super::instrument::Instrument;
use super::path::{PricePath, minute_activity};
use super::random::Random;

/// Rows over the whole stretch of one feed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowCounts {
    /// Trades.
    pub(crate) trades: u64,
    /// Book updates.
    pub(crate) books: u64,
}

/// A trade or a book update. They order by time; at one time all book updates come first, so that a
/// trade happens in the book that stands at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// µs since the day's midnight.
    pub(crate) micros: u64,
    /// Whether it is a trade.
    pub(crate) is_trade: bool,
    /// Which feed it belongs to.
    pub(crate) feed: u16,
}

/// A trade as it is published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trade {
    /// Whether the buyer was the one who took.
    pub(crate) buyer_takes: bool,
    /// Price in ticks.
    pub(crate) price: i64,
    /// Amount in the smallest unit.
    pub(crate) amount: u64,
    /// The exchange's number of the trade.
    pub(crate) id: u64,
}

/// A feed that goes on from day to day.
#[derive(Debug)]
pub(crate) struct Feed {
    /// What it is a feed of.
    pub(crate) instrument: Instrument,
    seed: u64,
    key: u64,
    /// Rows of each block of [`BLOCK_DAYS`] days.
    counts: RowCounts,
    block_days: u64,
    random: Random,
    book: Option<Book>,
    last_trade: Option<(u64, bool, i64)>,
    next_id: u64,
}

const TIMES: u64 = 3;
const CONTENT: u64 = 4;
const WEIGHTS: u64 = 5;

const MINUTE_MICROS: u64 = 60_000_000;
/// Trades in a thousand that are a further fill of the order before them, at the same time.
const SAME_ORDER: u64 = 420;
/// Book updates in a thousand that carry the time of the one before.
const SAME_TIME: u64 = 120;
/// Trades in a thousand inside the spread (hidden orders).
const HIDDEN: u64 = 30;

impl Feed {
    /// A feed with `counts` rows in each `block_days` days. `key` tells feeds of one seed apart.
    pub(crate) fn new(
        seed: u64,
        key: u64,
        instrument: Instrument,
        counts: RowCounts,
        block_days: u64,
    ) -> Self {
        let random = Random::new(seed, &[CONTENT, key]);
        let next_id = 100_000_000 * (key % 7 + 3);
        Self { instrument, seed, key, counts, block_days, random, book: None, last_trade: None, next_id }
    }

    /// Appends the times of this feed's events on a day to `events`; `day` in days since the epoch,
    /// `index` counts days from the first.
    pub(crate) fn schedule(&mut self, feed: u16, day: i64, index: u64, events: &mut Vec<Event>) {
        self.last_trade = None;
        let activity = minute_activity(self.seed, self.instrument.symbol_index as u64, day);
        let mut random = Random::new(self.seed, &[TIMES, self.key, day as u64]);
        let clock = self.instrument.exchange.clock;
        let first = events.len();
        for (is_trade, total, same) in
            [(false, self.counts.books, SAME_TIME), (true, self.counts.trades, SAME_ORDER)]
        {
            let rows = self.rows_of_day(total, index, day);
            let mut times = minute_times(rows, &activity, clock, &mut random);
            for at in 1..times.len() {
                if random.chance(same) {
                    times[at] = times[at - 1];
                }
            }
            if !is_trade && index == 0 && !times.is_empty() {
                // The first thing ever heard of an instrument is its book.
                times[0] = 0;
            }
            events.extend(times.into_iter().map(|micros| Event { micros, is_trade, feed }));
        }
        events[first..].sort_unstable();
    }

    /// The next state of the book.
    pub(crate) fn update_book(&mut self, micros: u64, path: &PricePath) -> &Book {
        let fair = self.fair_tick(micros, path);
        let random = &mut self.random;
        let shape = self.instrument.book();
        let book = self.book.get_or_insert_with(|| Book::new(shape, fair, random));
        book.update(fair, random);
        book
    }

    /// The next trade.
    pub(crate) fn trade(&mut self, micros: u64, path: &PricePath) -> Trade {
        let fair = self.fair_tick(micros, path);
        let random = &mut self.random;
        let shape = self.instrument.book();
        let book = self.book.get_or_insert_with(|| Book::new(shape, fair, random));
        let (buyer_takes, price) = match self.last_trade {
            Some((at, buyer_takes, price)) if at == micros => (buyer_takes, price),
            last => {
                // Takers come in runs: three in five trade the way the last one did.
                let same_way = random.below(5) < 3;
                let buyer_takes = last.is_none_or(|(_, way, _)| way) == same_way;
                let (bid, ask) = (book.bids.prices[0], book.asks.prices[0]);
                let inside = (ask - bid - 1) as u64;
                let price = if inside > 0 && random.chance(HIDDEN) {
                    bid + 1 + random.below(inside) as i64
                } else if buyer_takes {
                    ask
                } else {
                    bid
                };
                (buyer_takes, price)
            }
        };
        let wanted = random.long_tail(self.instrument.symbol.trade_size);
        let amount = book.take(buyer_takes, wanted, random);
        self.last_trade = Some((micros, buyer_takes, price));
        self.next_id += 1;
        Trade { buyer_takes, price, amount, id: self.next_id }
    }

    /// How long a message took to arrive, in µs: a few milliseconds, now and then many.
    pub(crate) fn latency(&mut self) -> u64 {
        let bits = self.random.bits();
        let usual = 1_500 + (bits & 0x0FFF);
        if bits >> 58 == 0 { usual + (bits >> 20 & 0x7FFF) } else { usual }
    }

    fn fair_tick(&mut self, micros: u64, path: &PricePath) -> i64 {
        // A venue's own view of the fair price wavers by a part of its usual spread.
        let tick = self.instrument.tick();
        let waver = self.random.bell() * self.instrument.book().spread_max / 8_192;
        path.price_at(micros) / tick + waver
    }

    /// Rows of one day: a block's rows are split by the days' weights without remainder.
    fn rows_of_day(&self, total: u64, index: u64, day: i64) -> u64 {
        let (block, place) = (index / self.block_days, (index % self.block_days) as usize);
        let first_day = day - place as i64;
        let mut random = Random::new(self.seed, &[WEIGHTS, self.instrument.symbol_index as u64, block]);
        let weights: Vec<u64> = (0..self.block_days as i64)
            .map(|at| {
                // 1970-01-01 was a Thursday.
                let weekend = (first_day + at + 4).rem_euclid(7) % 6 == 0;
                (600 + random.below(800)) * if weekend { 7 } else { 10 }
            })
            .collect();
        let sum: u64 = weights.iter().sum();
        let share = |upto: usize| split(total, weights[..upto].iter().sum(), sum);
        share(place + 1) - share(place)
    }
}

/// `total * part / whole` without overflow.
pub(crate) fn split(total: u64, part: u64, whole: u64) -> u64 {
    (u128::from(total) * u128::from(part) / u128::from(whole.max(1))) as u64
}

/// `rows` ascending times (µs of the day) spread over the minutes by their activity, on a clock that
/// ticks every `clock` µs.
fn minute_times(rows: u64, activity: &[u32], clock: u64, random: &mut Random) -> Vec<u64> {
    let sum: u64 = activity.iter().map(|level| u64::from(*level)).sum();
    let mut times = Vec::with_capacity(rows as usize);
    let mut upto = 0;
    for (minute, level) in activity.iter().enumerate() {
        let before = split(rows, upto, sum);
        upto += u64::from(*level);
        let first = times.len();
        for _ in before..split(rows, upto, sum) {
            let offset = random.below(MINUTE_MICROS);
            times.push((minute as u64 * MINUTE_MICROS + offset) / clock * clock);
        }
        times[first..].sort_unstable();
    }
    times
}
