//! How a market moves before anyone trades in it: its fair price second by second and how busy each
//! minute is.
//!
//! A symbol has one path, whatever the scale and the venue: all exchanges quote around the same fair
//! price, and a tenth of the rows is a tenth of the updates of the same day, not another day.

use super::random::Random;

/// Seconds of a day.
pub(crate) const DAY_SECONDS: usize = 86_400;
/// Minutes of a day.
pub(crate) const DAY_MINUTES: usize = 1_440;

const PATH: u64 = 1;
const ACTIVITY: u64 = 2;

/// How a symbol's fair price moves. Prices are in units of 1e-8 of the quote currency.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathShape {
    /// The price at the start of the first day.
    pub(crate) start: i64,
    /// What the price slowly returns to.
    pub(crate) anchor: i64,
    /// Standard deviation of one quiet second.
    pub(crate) second_move: i64,
    /// Seconds after which a deviation from the anchor has faded to a third.
    pub(crate) fade_seconds: i64,
}

/// The fair price of one symbol over days that follow each other.
#[derive(Debug)]
pub(crate) struct PricePath {
    seed: u64,
    symbol: u64,
    shape: PathShape,
    next_day: i64,
    price: i64,
    seconds: Vec<i64>,
}

impl PricePath {
    /// A path that begins on `first_day` (days since the Unix epoch).
    pub(crate) fn new(seed: u64, symbol: u64, shape: PathShape, first_day: i64) -> Self {
        Self { seed, symbol, shape, next_day: first_day, price: shape.start, seconds: Vec::new() }
    }

    /// Moves on to `day`, through all days between, so that a day does not depend on where the
    /// caller began to look.
    pub(crate) fn advance_to(&mut self, day: i64) {
        while self.next_day <= day {
            self.walk_day();
        }
    }

    /// The fair price at a moment of the current day (µs since its midnight), in 1e-8.
    #[inline]
    pub(crate) fn price_at(&self, micros: u64) -> i64 {
        let second = ((micros / 1_000_000) as usize).min(DAY_SECONDS - 1);
        let (from, to) = (self.seconds[second], self.seconds[second + 1]);
        from + (to - from) * (micros % 1_000_000) as i64 / 1_000_000
    }

    fn walk_day(&mut self) {
        let day = self.next_day;
        let activity = minute_activity(self.seed, self.symbol, day);
        let mut random = Random::new(self.seed, &[PATH, self.symbol, day as u64]);
        self.seconds.clear();
        self.seconds.push(self.price);
        for second in 0..DAY_SECONDS {
            // Volatility grows with the square root of activity: twice the trades, 1.4 times the move.
            let busy = i64::from(activity[second / 60].isqrt());
            let pull = (self.shape.anchor - self.price) / self.shape.fade_seconds;
            let step = random.bell() * self.shape.second_move / 1_024 * busy / QUIET.isqrt() as i64;
            self.price = (self.price + pull + step).max(self.shape.anchor / 8);
            self.seconds.push(self.price);
        }
        self.next_day += 1;
    }
}

/// The activity of an ordinary minute.
const QUIET: u32 = 10_000;

/// How busy each minute of a day is; [`QUIET`] is ordinary. A day has its rhythm (Europe's morning, the
/// American session, a quiet night), a slow wander and bursts that decay over minutes.
pub(crate) fn minute_activity(seed: u64, symbol: u64, day: i64) -> Vec<u32> {
    let mut random = Random::new(seed, &[ACTIVITY, symbol, day as u64]);
    let mut wander: i64 = 0;
    let mut burst: i64 = 0;
    (0..DAY_MINUTES)
        .map(|minute| {
            wander = wander * 19 / 20 + random.bell();
            if random.chance(6) {
                burst += (2 + random.below(12) as i64) * i64::from(QUIET);
            }
            burst = burst * 3 / 4;
            let rhythm = RHYTHM[minute / 60];
            let level = i64::from(QUIET) * rhythm / 100 * (4_096 + wander).clamp(1_024, 12_288) / 4_096;
            (level + burst).max(i64::from(QUIET) / 20) as u32
        })
        .collect()
}

/// Activity by hour of the day, UTC, in per cent of the ordinary.
const RHYTHM: [i64; 24] = [
    90, 80, 75, 70, 65, 65, 75, 90, 105, 100, 95, 95, 110, 160, 190, 180, 150, 130, 120, 110, 100, 95, 85, 90,
];
