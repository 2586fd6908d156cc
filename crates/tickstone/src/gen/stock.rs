//! One stock over one session: its fair price, when its quotes and trades happen, and what each says.

use super::feed::split;
use super::random::Random;

/// Minutes of a session.
pub(crate) const SESSION_MINUTES: usize = 390;
/// µs of a minute.
pub(crate) const MINUTE_MICROS: u64 = 60_000_000;

/// Where stocks are quoted and traded.
pub(crate) const VENUES: [&str; 12] =
    ["ARCA", "BATS", "BATY", "BX", "EDGA", "EDGX", "IEX", "MEMX", "MIAX", "NASDAQ", "NYSE", "PHLX"];
/// Venues (places in [`VENUES`]) as often as they are met.
const VENUE_SLOTS: [u8; 32] =
    [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 5, 5, 6, 6, 7, 7, 7, 8, 9, 9, 9, 9, 9, 9, 10, 10, 10, 10, 10, 11];
/// The venues that list stocks, NASDAQ and NYSE.
const LISTING_VENUES: [u8; 2] = [9, 10];
/// Quotes and trades in a thousand at the listing venue, before its share of the others.
const AT_LISTING: u64 = 200;

/// How a trade came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The first of the day.
    Open,
    /// The last of the day.
    Close,
    /// An ordinary one.
    Regular,
    /// A part of an order that took from several venues at once.
    Sweep,
    /// Less than 100 shares.
    OddLot,
    /// Buyer and seller met by arrangement.
    Cross,
    /// Reported late.
    Late,
    /// At an average price.
    Average,
}

impl Condition {
    /// Its name in the data.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Close => "CLOSE",
            Self::Regular => "REGULAR",
            Self::Sweep => "SWEEP",
            Self::OddLot => "ODD_LOT",
            Self::Cross => "CROSS",
            Self::Late => "LATE",
            Self::Average => "AVERAGE",
        }
    }
}

/// The best bid and ask. Prices in cents, sizes in shares; `bid` is less than `ask`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quote {
    /// Place of the venue in [`VENUES`].
    pub(crate) venue: u8,
    /// What buyers bid.
    pub(crate) bid: i64,
    /// How much they want.
    pub(crate) bid_size: u64,
    /// What sellers ask.
    pub(crate) ask: i64,
    /// How much they have.
    pub(crate) ask_size: u64,
}

/// A trade, never outside the standing quote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StockTrade {
    /// Place of the venue in [`VENUES`].
    pub(crate) venue: u8,
    /// How it came about.
    pub(crate) condition: Condition,
    /// Price in cents.
    pub(crate) price: i64,
    /// Shares.
    pub(crate) size: u64,
}

/// A quote or a trade to come, as one number that sorts by time, quotes before trades of the same
/// time, so that a trade happens in the quote that stands at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StockEvent(u64);

/// Bits of the stock's index in an event.
const STOCK_BITS: u32 = 11;

impl StockEvent {
    /// An event of the stock with an index, `micros` past the session's open.
    fn new(micros: u64, is_trade: bool, stock: u16) -> Self {
        Self((micros << 1 | u64::from(is_trade)) << STOCK_BITS | u64::from(stock))
    }

    /// µs since the session's open.
    pub(crate) fn micros(self) -> u64 {
        self.0 >> (STOCK_BITS + 1)
    }

    /// Whether it is a trade.
    pub(crate) fn is_trade(self) -> bool {
        self.0 >> STOCK_BITS & 1 == 1
    }

    /// The stock's index, below 2,048.
    pub(crate) fn stock(self) -> usize {
        (self.0 & ((1 << STOCK_BITS) - 1)) as usize
    }
}

/// A stock that goes through the session minute by minute.
#[derive(Debug)]
pub(crate) struct Stock {
    index: u16,
    /// Activity of all minutes before each minute; the last entry is that of the session.
    activity: Vec<u64>,
    quotes: Spread,
    trades: Spread,
    trades_done: u64,
    path: Path,
    /// What the times are drawn from.
    times: Random,
    /// What the quotes and trades are drawn from.
    content: Random,
    listing: u8,
    /// The widest spread, in cents.
    spread_max: i64,
    /// Usual size of a quote, in lots of 100 shares.
    lots: u64,
    quote: Quote,
    last_trade: Option<(u64, i64)>,
}

/// Rows spread over the session.
#[derive(Debug, Clone, Copy)]
struct Spread {
    rows: u64,
    /// Where between two rows the session begins, so that not all stocks' rows come in step.
    phase: u64,
}

/// The fair price within one minute, in millionths of a dollar.
#[derive(Debug)]
struct Path {
    random: Random,
    /// Standard deviation of one step in a quiet minute.
    step_move: i64,
    floor: i64,
    /// The price at the minute's beginning and after each step.
    steps: [i64; MINUTE_STEPS + 1],
}

/// Steps of the fair price in a minute.
const MINUTE_STEPS: usize = 6;
const STEP_MICROS: u64 = MINUTE_MICROS / MINUTE_STEPS as u64;
/// The square root of the steps of a session.
const SESSION_STEPS_SQRT: i64 = 48;
/// Millionths of a dollar in a cent.
const CENT: i64 = 10_000;

const ACTIVITY: u64 = 21;
const TIMES: u64 = 22;
const PATH: u64 = 23;
const CONTENT: u64 = 24;

/// The first quote of every stock comes in these µs, everything else after them.
const OPENING_MICROS: u64 = 5_000;
/// Quotes in a thousand that follow the one before at once, within µs.
const AT_ONCE: u64 = 150;
/// Trades in a thousand that are a further fill of the order before them: same time, same price.
const SAME_ORDER: u64 = 350;
/// Quotes in a thousand with new prices though the fair price stayed between the old ones.
const NEW_PRICES: u64 = 250;
/// Trades in a thousand inside the spread.
const INSIDE: u64 = 60;

impl Stock {
    /// The stock of a rank (0 is the busiest of `stocks`), with its rows over the session. It looks the
    /// same whatever the rows are.
    pub(crate) fn new(seed: u64, rank: u16, stocks: u64, quotes: u64, trades: u64) -> Self {
        let stream = |what| Random::new(seed, &[what, u64::from(rank)]);
        let (mut content, mut random) = (stream(CONTENT), stream(ACTIVITY));
        let activity = session_activity(&mut random);
        let phase = |random: &mut Random| random.below(activity[SESSION_MINUTES]);
        // The first quote stands at the open; the others spread.
        let quotes = Spread { rows: quotes, phase: phase(&mut random) };
        let trades = Spread { rows: trades, phase: phase(&mut random) };
        // From 3 to 1,536 dollars, most between 20 and 200.
        let dollars = 3 << (content.below(5) + content.below(5));
        let start = dollars * 1_000 * (1_000 + content.below(1_000) as i64);
        let cents = start / CENT;
        // A spread of a basis point for the busiest up to forty for the rarest.
        let spread_max = 1 + cents * (10 + 400 * i64::from(rank) / stocks as i64) / 100_000;
        // One to four per cent over the session.
        let step_move = start * (100 + content.below(300) as i64) / 10_000 / SESSION_STEPS_SQRT;
        let path =
            Path { random: stream(PATH), step_move, floor: start / 4, steps: [start; MINUTE_STEPS + 1] };
        let lots = 2 + (50_000 / cents as u64).min(100);
        let listing = LISTING_VENUES[content.below(2) as usize];
        let mut stock = Self {
            index: rank,
            activity,
            quotes,
            trades,
            trades_done: 0,
            path,
            times: stream(TIMES),
            content,
            listing,
            spread_max,
            lots,
            quote: Quote::default(),
            last_trade: None,
        };
        stock.requote(cents);
        stock
    }

    /// Moves on to a minute of the session (they come in order) and appends the times of its events.
    pub(crate) fn schedule(&mut self, minute: usize, events: &mut Vec<StockEvent>) {
        self.path.walk_minute(self.activity[minute + 1] - self.activity[minute]);
        let begins = minute as u64 * MINUTE_MICROS;
        let is_first = minute == 0;
        let opening = u64::from(is_first && self.quotes.rows > 0);
        if opening > 0 {
            events.push(StockEvent::new(self.times.below(OPENING_MICROS), false, self.index));
        }
        let from = if is_first { OPENING_MICROS } else { 0 };
        let first = events.len();

        let quotes = Spread { rows: self.quotes.rows.saturating_sub(1), ..self.quotes };
        let rows = self.rows_of_minute(quotes, minute);
        // Room for one µs more from each quote to the next: no two of a stock share a time.
        let room = MINUTE_MICROS.saturating_sub(from + rows).max(1);
        let drawn =
            (0..rows).map(|_| StockEvent::new(begins + from + self.times.below(room), false, self.index));
        events.extend(drawn);
        events[first..].sort_unstable();
        let mut before = begins + from;
        for (event, place) in events[first..].iter_mut().zip(0..) {
            let micros = if place > 0 && self.times.chance(AT_ONCE) { before } else { event.micros() };
            before = micros;
            *event = StockEvent::new(micros + place, false, self.index);
        }

        let first = events.len();
        let rows = self.rows_of_minute(self.trades, minute);
        let room = MINUTE_MICROS - from;
        let drawn =
            (0..rows).map(|_| StockEvent::new(begins + from + self.times.below(room), true, self.index));
        events.extend(drawn);
        events[first..].sort_unstable();
        for at in first + 1..events.len() {
            if self.times.chance(SAME_ORDER) {
                events[at] = events[at - 1];
            }
        }
    }

    /// The next quote, `micros` past the session's open.
    pub(crate) fn quote(&mut self, micros: u64) -> &Quote {
        let fair = self.path.price_at(micros % MINUTE_MICROS) / CENT;
        if fair < self.quote.bid || fair >= self.quote.ask || self.content.chance(NEW_PRICES) {
            self.requote(fair);
        } else {
            let size = self.quote_size();
            let bits = self.content.bits();
            *(if bits & 1 == 0 { &mut self.quote.bid_size } else { &mut self.quote.ask_size }) = size;
        }
        self.quote.venue = self.venue();
        &self.quote
    }

    /// The quote that stands.
    pub(crate) fn standing(&self) -> &Quote {
        &self.quote
    }

    /// The next trade, `micros` past the session's open.
    pub(crate) fn trade(&mut self, micros: u64) -> StockTrade {
        let Quote { bid, ask, .. } = self.quote;
        let price = match self.last_trade {
            Some((at, price)) if at == micros => price,
            _ if ask - bid > 1 && self.content.chance(INSIDE) => {
                bid + 1 + self.content.below((ask - bid - 1) as u64) as i64
            }
            _ if self.content.bits() & 1 == 0 => bid,
            _ => ask,
        };
        self.last_trade = Some((micros, price));
        let shares = self.content.long_tail(160);
        // Half of the larger ones are round lots.
        let is_round = shares > 50 && self.content.bits() & 1 == 0;
        let size = if is_round { shares.div_ceil(100) * 100 } else { shares };
        self.trades_done += 1;
        let condition = self.condition(size);
        StockTrade { venue: self.venue(), condition, price, size }
    }

    fn condition(&mut self, size: u64) -> Condition {
        if self.trades_done == 1 {
            return Condition::Open;
        } else if self.trades_done == self.trades.rows {
            return Condition::Close;
        }
        match self.content.below(1_000) {
            0..3 => Condition::Late,
            3..6 => Condition::Average,
            6..16 => Condition::Cross,
            _ if size < 100 => Condition::OddLot,
            16..320 => Condition::Sweep,
            _ => Condition::Regular,
        }
    }

    /// New prices on both sides of the fair one.
    fn requote(&mut self, fair: i64) {
        let usual = (self.spread_max as u64 / 4).max(1);
        let spread = (self.content.long_tail(usual) as i64).min(self.spread_max);
        let bid = (fair - self.content.below(spread as u64) as i64).max(1);
        let (bid_size, ask_size) = (self.quote_size(), self.quote_size());
        self.quote = Quote { bid, ask: bid + spread, bid_size, ask_size, ..self.quote };
    }

    fn quote_size(&mut self) -> u64 {
        self.content.long_tail(self.lots) * 100
    }

    fn venue(&mut self) -> u8 {
        if self.content.chance(AT_LISTING) {
            self.listing
        } else {
            VENUE_SLOTS[self.content.below(VENUE_SLOTS.len() as u64) as usize]
        }
    }

    fn rows_of_minute(&self, spread: Spread, minute: usize) -> u64 {
        let whole = self.activity[SESSION_MINUTES];
        let upto = |minute: usize| {
            let (rows, phase) = (u128::from(spread.rows), u128::from(spread.phase));
            ((rows * u128::from(self.activity[minute]) + phase) / u128::from(whole)) as u64
        };
        upto(minute + 1) - upto(minute)
    }
}

impl Path {
    /// Goes on by a minute of this activity.
    fn walk_minute(&mut self, activity: u64) {
        // Volatility grows with the square root of activity.
        let busy = activity.isqrt() as i64;
        self.steps[0] = self.steps[MINUTE_STEPS];
        for step in 0..MINUTE_STEPS {
            let moved = self.random.bell() * self.step_move / 1_024 * busy / MIDDAY.isqrt() as i64;
            self.steps[step + 1] = (self.steps[step] + moved).max(self.floor);
        }
    }

    /// The price at a moment of the minute.
    #[inline]
    fn price_at(&self, micros: u64) -> i64 {
        let step = (micros / STEP_MICROS) as usize;
        let (from, to) = (self.steps[step], self.steps[step + 1]);
        from + (to - from) * (micros % STEP_MICROS) as i64 / STEP_MICROS as i64
    }
}

/// The activity of a minute in the middle of the day.
const MIDDAY: u64 = 10_000;

/// The sums of activity before each minute. A session is busy at its open and its close, quiet in
/// between; each stock adds a slow wander and bursts that decay over minutes.
fn session_activity(random: &mut Random) -> Vec<u64> {
    let last = SESSION_MINUTES as u64 - 1;
    let (mut wander, mut burst, mut sum) = (0_i64, 0_u64, 0_u64);
    let mut sums = vec![0];
    for minute in 0..SESSION_MINUTES as u64 {
        wander = wander * 19 / 20 + random.bell();
        if random.chance(6) {
            burst += (2 + random.below(8)) * MIDDAY;
        }
        burst = burst * 3 / 4;
        let from_noon = (2 * minute).abs_diff(last);
        let rush = 12_u64.saturating_sub(minute) + 12_u64.saturating_sub(last - minute);
        let rhythm = MIDDAY + split(2 * MIDDAY, from_noon * from_noon, last * last) + rush * MIDDAY / 6;
        let level = rhythm * (4_096 + wander).clamp(2_048, 8_192) as u64 / 4_096;
        sum += level + burst;
        sums.push(sum);
    }
    sums
}
