//! The instruments of the generated markets and how each looks: prices, ticks, sizes, row counts.

use super::book::BookShape;
use super::path::PathShape;

/// A symbol, the same at every exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    /// Its name in the data.
    pub(crate) name: &'static str,
    /// Decimals of sizes.
    pub(crate) size_decimals: u32,
    /// How its fair price moves.
    pub(crate) path: PathShape,
    /// How its books look, on a venue with the finest tick.
    book: BookShape,
    /// Decimals of prices on a venue with the finest tick.
    price_decimals: u32,
    /// Decimals of prices elsewhere.
    coarse_decimals: u32,
    /// Usual amount of one trade, in the smallest unit.
    pub(crate) trade_size: u64,
}

/// An exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    /// Its name in the data.
    pub(crate) name: &'static str,
    /// Its share of an update total over all exchanges, in thousandths.
    pub(crate) share: u64,
    /// Whether it quotes with the finest tick.
    fine_ticks: bool,
    /// The grain of its clock, in µs.
    pub(crate) clock: u64,
}

/// One order book: a symbol at an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instrument {
    /// Where.
    pub(crate) exchange: Exchange,
    /// What.
    pub(crate) symbol: Symbol,
    /// Place of the symbol in [`SYMBOLS`].
    pub(crate) symbol_index: usize,
}

impl Instrument {
    /// The instrument of a symbol (its place in [`SYMBOLS`]) at an exchange.
    pub(crate) fn new(exchange: Exchange, symbol_index: usize) -> Self {
        Self { exchange, symbol: SYMBOLS[symbol_index], symbol_index }
    }

    /// Decimals of prices.
    pub(crate) fn price_decimals(&self) -> u32 {
        if self.exchange.fine_ticks { self.symbol.price_decimals } else { self.symbol.coarse_decimals }
    }

    /// The tick in units of 1e-8.
    pub(crate) fn tick(&self) -> i64 {
        10_i64.pow(8 - self.price_decimals())
    }

    /// The shape of its book, in its own ticks.
    pub(crate) fn book(&self) -> BookShape {
        let ratio = 10_u64.pow(self.symbol.price_decimals - self.price_decimals());
        let shape = self.symbol.book;
        BookShape {
            gap: (shape.gap / ratio).max(1),
            spread_max: (shape.spread_max / ratio as i64).max(1),
            size: shape.size * self.exchange.share.max(100) / 400,
            ..shape
        }
    }
}

const COIN: i64 = 100_000_000;

/// The symbols, at the price levels of June 2022.
pub(crate) const SYMBOLS: [Symbol; 3] = [
    Symbol {
        name: "BTC-USD",
        size_decimals: 8,
        path: PathShape {
            start: 31_792 * COIN,
            anchor: 21_500 * COIN,
            second_move: 2 * COIN,
            fade_seconds: 900_000,
        },
        book: BookShape { gap: 60, spread_max: 300, size: 25_000_000, lot: 1_000_000 },
        price_decimals: 2,
        coarse_decimals: 2,
        trade_size: 2_000_000,
    },
    Symbol {
        name: "ETH-USD",
        size_decimals: 8,
        path: PathShape {
            start: 1_942 * COIN,
            anchor: 1_150 * COIN,
            second_move: COIN / 6,
            fade_seconds: 900_000,
        },
        book: BookShape { gap: 6, spread_max: 30, size: 300_000_000, lot: 10_000_000 },
        price_decimals: 2,
        coarse_decimals: 2,
        trade_size: 30_000_000,
    },
    Symbol {
        name: "USDT-USD",
        size_decimals: 2,
        path: PathShape { start: 99_935_000, anchor: 99_960_000, second_move: 150, fade_seconds: 20_000 },
        book: BookShape { gap: 2, spread_max: 4, size: 1_200_000, lot: 100_000 },
        price_decimals: 5,
        coarse_decimals: 4,
        trade_size: 40_000,
    },
];

/// The exchange of the month's data.
pub(crate) const COINBASE: Exchange = Exchange { name: "COINBASE", share: 400, fine_ticks: true, clock: 1 };

/// The exchanges of the day with several venues.
pub(crate) const VENUES: [Exchange; 5] = [
    COINBASE,
    Exchange { name: "BINANCE_US", share: 220, fine_ticks: false, clock: 1_000 },
    Exchange { name: "FTX", share: 220, fine_ticks: false, clock: 1 },
    Exchange { name: "FTX_US", share: 90, fine_ticks: false, clock: 1 },
    Exchange { name: "BITSTAMP", share: 70, fine_ticks: false, clock: 1_000 },
];
