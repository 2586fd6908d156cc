//! DECIMALs in 256 bits: for results that 128 bits may not hold on their way, and quotients rounded to the nearest.
//!
//! A value of DECIMAL(p, s) is a whole number of 10^-s, of p digits at most. All results a user gets have 38 digits at
//! most ([`narrowed`]); what does not fit is an error with a way out ([`past`]).

use crate::error::type_name;
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, DecimalType, i256,
};
use datafusion::common::{Diagnostic, exec_datafusion_err};
use datafusion::error::DataFusionError;

/// `dividend * 10^digits / divisor`, rounded to the nearest whole number, halves away from zero; the divisor is not 0.
/// `None` where the product does not fit.
pub(super) fn quotient<N: ArrowNativeTypeOp>(dividend: N, digits: u32, divisor: N) -> Option<N> {
    let power = N::usize_as(10).pow_checked(digits).ok()?;
    let scaled = dividend.mul_checked(power).ok()?;
    let (whole, rest) = (scaled.div_checked(divisor).ok()?, scaled.mod_checked(divisor).ok()?);
    Some(rounded(whole, rest, dividend, divisor))
}

/// As [`quotient`], digit by digit: `None` only where the quotient does not fit 256 bits, or the divisor has 77 digits.
pub(super) fn long_quotient(dividend: i256, digits: u32, divisor: i256) -> Option<i256> {
    if let Some(found) = quotient(dividend, digits, divisor) {
        return Some(found);
    }
    let ten = i256::from_i128(10);
    let (mut whole, mut rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    for _ in 0..digits {
        let more = rest.checked_mul(ten)?;
        whole = whole.checked_mul(ten)?.checked_add(more.checked_div(divisor)?)?;
        rest = more.checked_rem(divisor)?;
    }
    Some(rounded(whole, rest, dividend, divisor))
}

/// What was cut off at `rest`, rounded.
fn rounded<N: ArrowNativeTypeOp>(whole: N, rest: N, dividend: N, divisor: N) -> N {
    let is_negative = |value: N| value.is_lt(N::ZERO);
    // Below zero, where every value has its opposite.
    let below = |value: N| if is_negative(value) { value } else { value.neg_wrapping() };
    let (rest, all) = (below(rest), below(divisor));
    let is_half = rest.is_le(all.sub_wrapping(rest));
    match (is_half, is_negative(dividend) == is_negative(divisor)) {
        (false, _) => whole,
        (true, true) => whole.add_wrapping(N::ONE),
        (true, false) => whole.sub_wrapping(N::ONE),
    }
}

/// The value in 128 bits, where it has no more than so many digits, at most 38.
pub(super) fn narrowed(value: i256, precision: u8) -> Option<i128> {
    let most = 10_i128.pow(precision.into());
    value.to_i128().filter(|value| -most < *value && *value < most)
}

/// A value of a type, as it is written.
pub(super) fn written(value: i256, data_type: &DataType) -> String {
    let scale = match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    Decimal256Type::format_decimal(value, DECIMAL256_MAX_PRECISION, scale)
}

/// The error of a result that does not fit: `of` is what it is a result of, `value` the result or how it came to be.
pub(super) fn past(of: &str, data_type: &DataType, value: Option<&str>) -> DataFusionError {
    let it_is = value.map_or(String::new(), |value| format!(": it is {value}"));
    let message = format!("{of} does not fit {}{it_is}", type_name(data_type));
    let hint = "cast its values to DOUBLE, or to a DECIMAL of fewer digits after the point";
    exec_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(&message, None).with_help(hint, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `dividend * 10^digits / divisor`, digit by digit on paper.
    fn on_paper(dividend: i64, digits: u32, divisor: i64) -> i256 {
        let (left, right) = (i128::from(dividend).unsigned_abs(), i128::from(divisor).unsigned_abs());
        let (mut whole, mut rest) = (i256::from_i128((left / right) as i128), left % right);
        for _ in 0..digits {
            rest *= 10;
            whole = whole.wrapping_mul(i256::from_i128(10));
            whole = whole.wrapping_add(i256::from_i128((rest / right) as i128));
            rest %= right;
        }
        if rest * 2 >= right {
            whole = whole.wrapping_add(i256::ONE);
        }
        if (dividend < 0) == (divisor < 0) { whole } else { whole.wrapping_neg() }
    }

    proptest! {
        #[test]
        fn quotients_are_rounded_once(
            dividend in any::<i64>(),
            divisor in any::<i64>().prop_filter("a divisor", |of| *of != 0),
            small in 1_i64..200,
            digits in 0_u32..45,
        ) {
            for divisor in [divisor, small, -small] {
                let expected = on_paper(dividend, digits, divisor);
                let [left, right] = [dividend, divisor].map(|of| i256::from_i128(of.into()));
                prop_assert_eq!(long_quotient(left, digits, right), Some(expected));
                if let Some(found) = quotient(i128::from(dividend), digits, i128::from(divisor)) {
                    prop_assert_eq!(i256::from_i128(found), expected);
                }
            }
        }
    }

    #[test]
    fn a_dividend_without_room_for_the_digits_is_divided_all_the_same() {
        let power = |of: u32| i256::from_i128(10).wrapping_pow(of);
        assert_eq!(quotient(power(50), 40, power(38)), None);
        assert_eq!(long_quotient(power(50), 40, power(38)), Some(power(52)));
        assert_eq!(long_quotient(power(70), 40, i256::ONE), None, "a quotient of 110 digits");
        let third = long_quotient(power(38), 38, i256::from_i128(3)).expect("76 digits");
        assert_eq!(third.to_string(), "3".repeat(76));
        let two = i256::from_i128(2);
        let thirds = long_quotient(power(38).wrapping_mul(two), 38, i256::from_i128(-3)).expect("76 digits");
        assert_eq!(thirds.to_string(), format!("-{}7", "6".repeat(75)));
    }

    #[test]
    fn digits_are_counted() {
        let value = |of: i128| i256::from_i128(of);
        assert_eq!(narrowed(value(999), 3), Some(999));
        assert_eq!(narrowed(value(-1_000), 3), None);
        assert_eq!(narrowed(value(i128::MAX), 38), None, "39 digits, which 128 bits hold");
        assert_eq!(written(value(-12_345), &DataType::Decimal128(38, 2)), "-123.45");
    }
}
