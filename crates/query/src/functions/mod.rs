//! Functions of market data.
//!
//! Owns `time_bucket` and the bucketing it shares with SAMPLE BY ([`bucket`]), the aggregates first,
//! last, vwap, ohlc and candle, min and max where NaN counts, corr that keeps its digits, the scalars of a quote and the window functions of returns; each file's
//! header has the definitions. Never touches storage.
//!
//! Enter at [`install`].

pub(crate) mod bucket;
mod correlation;
mod extreme;
mod first_last;
mod hidden_time;
mod ohlc;
mod quote;
mod returns;
pub(crate) mod stride;
mod time_bucket;
mod vwap;

use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use std::sync::Arc;

/// Adds the functions to a session, and the rule that gives some of them their time.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.scalar_functions().get_or_insert_default().extend(scalars());
    builder.aggregate_functions().get_or_insert_default().extend(aggregates());
    builder.window_functions().get_or_insert_default().extend(windows());
    builder.with_analyzer_rule(Arc::new(hidden_time::AddHiddenTime))
}

fn scalars() -> Vec<Arc<ScalarUDF>> {
    let quotes = quote::Quote::ALL.into_iter().map(|quote| quote::QuoteFunction::new(quote).into());
    let bucket: ScalarUDF = time_bucket::TimeBucket::default().into();
    quotes.chain([bucket]).map(Arc::new).collect()
}

fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let all: [AggregateUDF; 8] = [
        correlation::Correlation::default().into(),
        extreme::Extreme::min().into(),
        extreme::Extreme::max().into(),
        first_last::FirstLast::first().into(),
        first_last::FirstLast::last().into(),
        vwap::Vwap::default().into(),
        ohlc::Ohlc::prices().into(),
        ohlc::Ohlc::candle().into(),
    ];
    all.into_iter().map(Arc::new).collect()
}

fn windows() -> Vec<Arc<WindowUDF>> {
    let all: [WindowUDF; 2] = [returns::Return::log().into(), returns::Return::simple().into()];
    all.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests;
