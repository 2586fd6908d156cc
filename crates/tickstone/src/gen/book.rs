//! The order book of one symbol at one exchange, made to look like one.
//!
//! Invariants after every update: bid prices fall strictly, ask prices rise strictly, the best bid
//! lies below the best ask, every size is positive. Prices are in ticks, sizes in the instrument's
//! smallest unit.

use super::random::Random;

/// Price levels kept on each side.
pub(crate) const LEVELS: usize = 20;

/// How a book is shaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BookShape {
    /// Usual distance between neighbouring levels, in ticks.
    pub(crate) gap: u64,
    /// The widest spread that stands, in ticks.
    pub(crate) spread_max: i64,
    /// Usual size of a level, in the smallest unit.
    pub(crate) size: u64,
    /// The lot that round sizes are a multiple of, in the smallest unit.
    pub(crate) lot: u64,
}

/// One side, best level first.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// +1 where worse prices are higher (asks), -1 for bids.
    away: i64,
    /// Price of each level, in ticks.
    pub(crate) prices: [i64; LEVELS],
    /// Size of each level, in the smallest unit.
    pub(crate) sizes: [u64; LEVELS],
}

/// Both sides of the book.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    shape: BookShape,
    /// Buyers.
    pub(crate) bids: Side,
    /// Sellers.
    pub(crate) asks: Side,
}

impl Book {
    /// A fresh book around a fair price in ticks.
    pub(crate) fn new(shape: BookShape, fair: i64, random: &mut Random) -> Self {
        let side = |away, touch, random: &mut Random| {
            let mut side = Side { away, prices: [touch; LEVELS], sizes: [1; LEVELS] };
            side.refill(0, touch, &shape, random);
            side
        };
        let bids = side(-1, fair, random);
        let asks = side(1, fair + 1 + random.below(shape.gap) as i64, random);
        Self { shape, bids, asks }
    }

    /// The next update of the book: it follows the fair price (in ticks), then one level changes.
    pub(crate) fn update(&mut self, fair: i64, random: &mut Random) {
        self.follow(fair, random);
        let (side, other_touch) = if random.bits() & 1 == 0 {
            (&mut self.bids, self.asks.prices[0])
        } else {
            (&mut self.asks, self.bids.prices[0])
        };
        side.change(other_touch, &self.shape, random);
    }

    /// A fill at the touch: what trades, at most the size that stands there.
    pub(crate) fn take(&mut self, buyer_takes: bool, wanted: u64, random: &mut Random) -> u64 {
        let shape = self.shape;
        let side = if buyer_takes { &mut self.asks } else { &mut self.bids };
        let amount = wanted.min(side.sizes[0]);
        side.sizes[0] -= amount;
        if side.sizes[0] == 0 {
            // Somebody refills the level before the next update is published.
            side.sizes[0] = shape.draw_size(random);
        }
        amount
    }

    /// Levels that the fair price has passed are gone, and the other side moves up behind it.
    fn follow(&mut self, fair: i64, random: &mut Random) {
        let shape = self.shape;
        self.bids.drop_past(fair, &shape, random);
        self.asks.drop_past(fair + 1, &shape, random);
        // A spread that is too wide fills with better quotes, none past the fair price.
        while self.asks.prices[0] - self.bids.prices[0] > shape.spread_max {
            let (bid, ask) = (self.bids.prices[0], self.asks.prices[0]);
            let step = random.below(shape.gap) as i64;
            if fair - bid >= ask - fair {
                let price = (fair - step).clamp(bid + 1, ask - 1);
                self.bids.insert(0, price, &shape, random);
            } else {
                let price = (fair + 1 + step).clamp(bid + 1, ask - 1);
                self.asks.insert(0, price, &shape, random);
            }
        }
    }
}

impl Side {
    /// Removes the levels better than `limit` (bids above it, asks below it).
    fn drop_past(&mut self, limit: i64, shape: &BookShape, random: &mut Random) {
        let past = self.prices.iter().take_while(|price| (limit - **price) * self.away > 0).count();
        if past == LEVELS {
            self.refill(0, limit, shape, random);
        } else if past > 0 {
            self.prices.copy_within(past.., 0);
            self.sizes.copy_within(past.., 0);
            let keep = LEVELS - past;
            let next = self.prices[keep - 1] + self.away * (1 + random.below(2 * shape.gap) as i64);
            self.refill(keep, next, shape, random);
        }
    }

    /// Makes new levels from index `from` on, the first of them at `price`.
    fn refill(&mut self, from: usize, price: i64, shape: &BookShape, random: &mut Random) {
        let mut price = price;
        for level in from..LEVELS {
            self.prices[level] = price;
            self.sizes[level] = shape.draw_size(random);
            price += self.away * (1 + random.below(2 * shape.gap) as i64);
        }
    }

    /// Puts a level in at `index`; the worst one leaves the book.
    fn insert(&mut self, index: usize, price: i64, shape: &BookShape, random: &mut Random) {
        self.prices.copy_within(index..LEVELS - 1, index + 1);
        self.sizes.copy_within(index..LEVELS - 1, index + 1);
        self.prices[index] = price;
        self.sizes[index] = shape.draw_size(random);
    }

    /// One order arrives, changes or leaves, most often near the touch.
    fn change(&mut self, other_touch: i64, shape: &BookShape, random: &mut Random) {
        let bits = random.bits();
        let level = ((bits >> 8).trailing_ones() as usize + (bits >> 40) as usize % 3).min(LEVELS - 1);
        match bits & 7 {
            // Leaves: only where the spread does not grow past its limit.
            0 if level > 0 || (self.prices[1] - other_touch).abs() <= shape.spread_max => {
                self.prices.copy_within(level + 1.., level);
                self.sizes.copy_within(level + 1.., level);
                let last = LEVELS - 1;
                let price = self.prices[last - 1] + self.away * (1 + random.below(2 * shape.gap) as i64);
                self.refill(last, price, shape, random);
            }
            // Arrives: between this level and the next better one (or the other side's touch).
            1 => {
                let better = if level == 0 { other_touch } else { self.prices[level - 1] };
                let room = (self.prices[level] - better).abs() - 1;
                if room > 0 {
                    let price = self.prices[level] - self.away * (1 + random.below(room as u64) as i64);
                    self.insert(level, price, shape, random);
                } else {
                    self.sizes[level] = shape.draw_size(random);
                }
            }
            _ => self.sizes[level] = shape.draw_size(random),
        }
    }
}

impl BookShape {
    /// The size of a level: a long tail, every third one a round lot.
    #[inline]
    fn draw_size(&self, random: &mut Random) -> u64 {
        let size = random.long_tail(self.size);
        if size.is_multiple_of(3) { (size / self.lot).max(1) * self.lot } else { size }
    }
}
