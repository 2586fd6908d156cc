//! Functions as PostgreSQL counts them.

use super::derived::Routine;
use super::relation::{PG_CATALOG, PUBLIC};

/// The type of what takes and gives values of several types.
pub(super) const ANY: u32 = 2276;

/// The number of the first function.
const FIRST: u32 = 14_000;

/// Those for time series and markets, with what they take: tools list them as the user's own beside the many that every
/// SQL has.
const OF_MARKETS: [(&str, &str); 47] = [
    ("approx_quantile", "x q"),
    ("arg_max", "x by"),
    ("arg_min", "x by"),
    ("atr", "high low close n"),
    ("bollinger", "x n k"),
    ("candle", "price size"),
    ("count_distinct", "x"),
    ("dateadd", "unit n ts"),
    ("delta", "x"),
    ("depth", "sizes n"),
    ("drawdown", "x"),
    ("ema", "x kind n"),
    ("fills", "x"),
    ("first", "x"),
    ("first_not_null", "x"),
    ("haversine", "lat1 lon1 lat2 lon2"),
    ("imbalance", "bid_size ask_size"),
    ("ksum", "x"),
    ("kurtosis", "x"),
    ("l2price", "size sizes prices"),
    ("last", "x"),
    ("last_not_null", "x"),
    ("log_return", "x"),
    ("macd", "x fast slow signal"),
    ("mid", "bid ask"),
    ("mode", "x"),
    ("obv", "price size"),
    ("ohlc", "price"),
    ("prev", "x"),
    ("quantile", "x q"),
    ("ratio", "x"),
    ("realized_vol", "x"),
    ("rsi", "x n"),
    ("simple_return", "x"),
    ("skewness", "x"),
    ("spread", "bid ask"),
    ("spread_bps", "bid ask"),
    ("time_bucket", "stride ts"),
    ("timestamp_ms", "n"),
    ("timestamp_ns", "n"),
    ("timestamp_s", "n"),
    ("timestamp_us", "n"),
    ("today", ""),
    ("twap", "price ts"),
    ("vpin", "buys sells n"),
    ("vwap", "price size"),
    ("wmid", "bid_size bid ask ask_size"),
];

/// The functions with their numbers.
pub(super) fn numbered(all: &[Routine]) -> impl Iterator<Item = (u32, &Routine)> {
    (FIRST..).zip(all)
}

/// The function of a number.
pub(super) fn get(all: &[Routine], oid: u32) -> Option<&Routine> {
    all.get(usize::try_from(oid.checked_sub(FIRST)?).ok()?)
}

/// The number of the first function of a name.
pub(super) fn named(all: &[Routine], name: &str) -> Option<u32> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    numbered(all).find(|(_, of)| of.name.eq_ignore_ascii_case(name)).map(|(oid, _)| oid)
}

/// The schema that it is shown in.
pub(super) fn namespace(of: &Routine) -> u32 {
    if of_markets(of).is_some() { PUBLIC } else { PG_CATALOG }
}

fn of_markets(of: &Routine) -> Option<&'static str> {
    OF_MARKETS.iter().find(|(name, _)| *name == of.name).map(|(_, arguments)| *arguments)
}

/// The names of what it takes.
pub(super) fn names(of: &Routine) -> Vec<String> {
    match of_markets(of) {
        Some(names) => names.split_whitespace().map(str::to_string).collect(),
        None => of.arguments.clone(),
    }
}

/// What it takes, as SQL would declare it.
pub(super) fn arguments(of: &Routine) -> String {
    let declared = |name: &String| format!("{} \"any\"", super::relation::quoted(name));
    names(of).iter().map(declared).collect::<Vec<_>>().join(", ")
}
