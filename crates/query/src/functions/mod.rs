//! Functions of market data.
//!
//! Owns `time_bucket` and the bucketing it shares with SAMPLE BY ([`bucket`]); arithmetic of whole numbers that is
//! checked for overflow ([`checked`]) and of DECIMALs ([`decimals`]); aggregates by time (first and last, ohlc and candle,
//! twap, realized_vol), sum and avg of whole numbers, numbers of rows and places ([`signed`]), vwap, arg_min and arg_max,
//! mode, moments and the sum that keeps its digits, min and max where
//! NaN counts, corr and quantiles that keep their digits, regr_r2 of equal values; the scalars of a quote, a book and of
//! instants, the fields and the median of differences of times; functions of one row that other databases have
//! ([`rowwise`]), aggregates that need all values of a group ([`gather`]), and what is another function in other words
//! ([`defined`]); the window functions of returns and indicators; what functions are in windows ([`windowed`]);
//! functions of the user's own ([`user`]). Each file's header has the definitions. Never touches storage.
//!
//! Enter at [`install`].

pub(crate) mod bar_start;
mod book;
pub(crate) mod bucket;
mod by_time;
mod checked;
mod correlation;
mod count_distinct;
mod counts;
mod date_part;
mod date_trunc;
mod decimals;
mod defined;
pub(crate) mod documents;
mod edges;
mod exact;
mod extreme;
pub(crate) mod first_last;
mod gather;
pub(crate) mod generate_series;
pub(crate) mod growth;
mod handed_on;
pub(crate) mod indicators;
mod instant;
mod joined;
mod ksum;
mod list_order;
mod long_list;
pub(crate) mod maybe;
mod median;
mod moments;
mod named_cast;
mod neighbours;
mod nested_extreme;
mod not_null;
mod ohlc;
mod one_of;
pub(crate) mod order_key;
mod pick;
mod places;
mod plain;
mod product;
mod put_in_order;
pub(crate) mod quantile;
mod quote;
mod regression;
mod rowwise;
mod signed;
mod slow;
pub(crate) mod stride;
mod string_agg;
mod time_bucket;
mod units;
pub(crate) mod user;
mod vwap;
mod wall_time;
pub(crate) mod whole;
pub(crate) mod windowed;
mod zone;

pub(crate) use checked::difference;
pub(crate) use counts::PlacesInTexts;
pub(crate) use date_part::ExtractFields;
pub(crate) use defined::{DEFINED, Defined, Is, defined};
pub(crate) use list_order::list_order;
pub(crate) use moments::root_of_product;
pub(crate) use named_cast::{NAMED_CAST, NAMED_TRY_CAST, NEAREST_DOUBLE, named_cast};
pub(crate) use put_in_order::put_in_order;
pub(crate) use rowwise::{TO_DATE_BY, TO_TIMESTAMP_BY, TRUNC_LONG, elements, is_long, times_interval};
pub(crate) use signed::row_number;
pub(crate) use units::{DOUBLE_EXACT, Floor, exact_units, nearest_units, with_printed_digits};
pub use wall_time::CLOCK_KEY;
pub(crate) use wall_time::{AT_TIME_ZONE, OF_CLOCK, as_clock, of_clock};

use crate::lists::Apart;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use std::sync::Arc;

/// Adds the functions to a session, and the rules over them.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let built_in = builder.scalar_functions().take().unwrap_or_default();
    // It makes one type of all three arguments: `nvl2(ts, 1, 0)` is refused. Ours is a CASE ([`defined`]).
    let built_in = built_in.into_iter().filter(|function| function.name() != "nvl2").collect();
    let theirs = signed::functions(growth::claiming(date_trunc::downwards(slow::looking(edges::right(
        counts::of_any_type(built_in),
    )))));
    builder.scalar_functions().insert(theirs).extend(scalars());
    builder.aggregate_functions().get_or_insert_default().extend(aggregates());
    builder.window_functions().get_or_insert_default().extend(windows());
    builder
        .with_analyzer_rule(Arc::new(checked::CheckOverflow))
        .with_analyzer_rule(Arc::new(exact::DeterministicSums))
        .with_analyzer_rule(Arc::new(windowed::ForWindows))
}

fn scalars() -> Vec<Arc<ScalarUDF>> {
    let quotes = quote::Quote::ALL.into_iter().map(|quote| quote::QuoteFunction::new(quote).into());
    let bucket: ScalarUDF = time_bucket::TimeBucket::default().into();
    let bar: ScalarUDF = bar_start::BarStart::default().into();
    let apart: ScalarUDF = Apart::default().into();
    let wall: ScalarUDF = wall_time::AtTimeZone::clock().into();
    let part: ScalarUDF = date_part::DatePart::default().into();
    let list: ScalarUDF = long_list::Written::default().into();
    let instants = instant::InstantFunction::all().map(ScalarUDF::from);
    let books = book::BookFunction::all().map(ScalarUDF::from);
    let places = places::Places::all().map(ScalarUDF::from);
    let casts = named_cast::NamedCast::all().map(ScalarUDF::from);
    quotes
        .chain([apart, bucket, bar, wall, part, list])
        .chain(casts)
        .chain(one_of::OneOf::all().map(ScalarUDF::from))
        .chain(instants)
        .chain(books)
        .chain(places)
        .map(Arc::new)
        .chain(growth::claiming(rowwise::all().collect()))
        .collect()
}

fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let plain = [
        ksum::KSUM,
        product::PRODUCT,
        moments::SKEWNESS,
        moments::KURTOSIS,
        by_time::twap(),
        by_time::realized_vol(),
    ];
    let plain = plain.map(|of| AggregateUDF::from(plain::PlainAggregate::new(of)));
    let all: [AggregateUDF; 20] = [
        whole::WholeSum::sum().into(),
        whole::WholeSum::avg().into(),
        median::Median::default().into(),
        regression::RSquared::default().into(),
        extreme::Extreme::min().into(),
        extreme::Extreme::max().into(),
        first_last::FirstLast::first().into(),
        first_last::FirstLast::last().into(),
        vwap::Vwap::default().into(),
        ohlc::Ohlc::prices().into(),
        ohlc::Ohlc::candle().into(),
        first_last::FirstLast::first_not_null().into(),
        first_last::FirstLast::last_not_null().into(),
        string_agg::StringAgg::default().into(),
        pick::PickFunction::arg_min().into(),
        pick::PickFunction::arg_max().into(),
        pick::PickFunction::mode().into(),
        count_distinct::CountDistinct::default().into(),
        quantile::Quantile::default().into(),
        approx_percentile_cont_udaf().as_ref().clone().with_aliases(["approx_quantile"]),
    ];
    let gathered = gather::Gather::all().map(AggregateUDF::from);
    let joint = correlation::Joint::all().map(AggregateUDF::from);
    all.into_iter()
        .chain(plain)
        .chain(gathered)
        .chain(joint)
        .chain(signed::aggregates())
        .map(Arc::new)
        .collect()
}

/// `arg_min(x, key)`.
pub(crate) fn arg_min() -> Arc<AggregateUDF> {
    Arc::new(pick::PickFunction::arg_min().into())
}

/// `arg_max(x, key)`.
pub(crate) fn arg_max() -> Arc<AggregateUDF> {
    Arc::new(pick::PickFunction::arg_max().into())
}

/// `min(x)`.
pub(crate) fn min() -> Arc<AggregateUDF> {
    Arc::new(extreme::Extreme::min().into())
}

/// `max(x)`.
pub(crate) fn max() -> Arc<AggregateUDF> {
    Arc::new(extreme::Extreme::max().into())
}

fn windows() -> Vec<Arc<WindowUDF>> {
    let neighbours = [neighbours::Neighbour::prev(), neighbours::Neighbour::fills()];
    let indicators = indicators::all().map(WindowUDF::from);
    let neighbours = neighbours.map(WindowUDF::from);
    indicators.chain(neighbours).chain(not_null::all()).chain(signed::windows()).map(Arc::new).collect()
}

#[cfg(test)]
mod tests;
