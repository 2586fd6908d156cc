//! Numbers that are texts, in units of the last digit of a DECIMAL: exactly, or with what is next to them.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use std::sync::Arc;

/// Every whole number up to here is a DOUBLE.
pub(crate) const DOUBLE_EXACT: i128 = 1 << 53;

/// A number in units of the last of so many digits after the point; `None` where it is no whole number of them, and for
/// what is no number.
pub(crate) fn exact_units(text: &str, scale: i8) -> Option<i128> {
    Floor::of(text, scale).filter(|floor| floor.exact).map(|floor| floor.value)
}

/// A number in units of the last of so many digits after the point, rounded, halves away from zero; `None` for what is past
/// every DECIMAL, and for what is no number.
pub(crate) fn nearest_units(text: &str, scale: i8) -> Option<i128> {
    if let Some(exact) = exact_units(text, scale).filter(|units| units.unsigned_abs() < Floor::PAST as u128) {
        return Some(exact);
    }
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let one_more = Floor::of(text, scale.checked_add(1)?).filter(|floor| floor.value < Floor::PAST)?.value;
    let value = (one_more + 5) / 10;
    Some(if negative { -value } else { value })
}

/// The largest value of so many digits after the point that is no larger than a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Floor {
    /// In units of the last digit; 10^38 or more of either sign where it is past every DECIMAL.
    pub(crate) value: i128,
    /// Whether it is the number.
    pub(crate) exact: bool,
}

impl Floor {
    /// Past every DECIMAL.
    pub(crate) const PAST: i128 = 10_i128.pow(38);

    fn within(value: i128) -> i128 {
        value.min(Self::PAST)
    }

    /// `None` where the text is no number.
    pub(crate) fn of(text: &str, scale: i8) -> Option<Self> {
        let (negative, text) = match text.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        // How many of the digits are before the end of what is kept.
        let kept = whole.len() as i64 + exponent + i64::from(scale);
        let (mut value, mut exact) = (0_i128, true);
        for (place, digit) in (0..).zip(&digits) {
            if place >= kept {
                exact &= *digit == b'0';
            } else {
                value = Self::within(value.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
            }
        }
        let zeros = kept - digits.len() as i64;
        for _ in 0..zeros.clamp(0, 40) {
            value = Self::within(value.saturating_mul(10));
        }
        let value = match (negative, exact) {
            (false, _) => value,
            (true, true) => -value,
            (true, false) => -value - 1,
        };
        Some(Self { value, exact })
    }
}

/// What Arrow made of DOUBLEs cast to a DECIMAL, with the digits that they are printed with: it multiplies by a power of
/// ten, and has digits past 2^53 that nobody wrote, `0.1000000000000000117…` for 0.1.
pub(crate) fn with_printed_digits(values: &ArrayRef, made: ArrayRef) -> ArrayRef {
    let DataType::Decimal128(precision, scale) = *made.data_type() else { return made };
    let Some(decimals) = made.as_primitive_opt::<Decimal128Type>() else { return made };
    let most = 10_i128.pow(precision.into());
    let text_of: Box<dyn Fn(usize) -> String> = match values.data_type() {
        // A whole number has all of its digits.
        DataType::Float64 => Box::new(|row| match values.as_primitive::<Float64Type>().value(row) {
            whole if whole.fract() == 0.0 => format!("{whole:.0}"),
            other => other.to_string(),
        }),
        DataType::Float32 => Box::new(|row| match values.as_primitive::<Float32Type>().value(row) {
            whole if whole.fract() == 0.0 => format!("{whole:.0}"),
            other => other.to_string(),
        }),
        _ => return made,
    };
    let is_exact = |units: i128| (-DOUBLE_EXACT..=DOUBLE_EXACT).contains(&units);
    if decimals.iter().flatten().all(is_exact) {
        return made;
    }
    let printed = decimals.iter().enumerate().map(|(row, units)| match units {
        Some(units) if !is_exact(units) => {
            nearest_units(&text_of(row), scale).filter(|units| units.abs() < most).or(Some(units))
        }
        units => units,
    });
    let printed: PrimitiveArray<Decimal128Type> = printed.collect();
    Arc::new(printed.with_data_type(made.data_type().clone()))
}

#[cfg(test)]
mod tests;
