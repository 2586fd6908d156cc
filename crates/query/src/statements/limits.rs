//! Values of limits as texts.

use crate::access::limits::{Limit, WEIGHT_MAX};
use crate::error::{QueryError, Result};
use crate::texts::parse_size;

/// What a text says that a limit is to be.
///
/// # Errors
/// Where it says nothing that the limit can be.
pub(super) fn parse(limit: Limit, text: &str) -> Result<u64> {
    let (value, wanted) = match limit {
        Limit::StatementTimeout => (milliseconds(text), "a time, as in '30s', or milliseconds"),
        Limit::QueryMemory | Limit::TempDisk => (parse_size(text), "a size, as in '1GB'"),
        Limit::Weight => (text.parse().ok().filter(|weight| *weight <= WEIGHT_MAX), "a number from 1 to 100"),
        Limit::Connections => (text.parse().ok(), "a whole number; 0 lets nobody in"),
        _ => (text.parse().ok(), "a whole number from 1"),
    };
    let wrong = || QueryError::request(format!("{} = '{text}' cannot be: it wants {wanted}", limit.name()));
    value.filter(|value| *value > 0 || limit == Limit::Connections).ok_or_else(wrong)
}

fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown() {
        for (place, (limit, name)) in Limit::ALL.into_iter().enumerate() {
            assert_eq!((limit as usize, Limit::named(&name.to_uppercase()).expect("known")), (place, limit));
            assert!(["", "-1", "x"].iter().all(|text| parse(limit, text).is_err()), "{name}");
            assert_eq!(parse(limit, "0").ok(), (limit == Limit::Connections).then_some(0), "{name}");
            let value = parse(limit, "7").expect("a number");
            assert_eq!(parse(limit, &limit.shown(value)).expect("as shown"), value);
        }
        assert_eq!(parse(Limit::StatementTimeout, "2min").expect("a time"), 120_000);
        assert_eq!(parse(Limit::QueryMemory, "1KB").expect("a size"), 1_024);
        assert!(parse(Limit::Weight, "101").is_err() && Limit::named("x").is_err());
    }
}
