//! `__order_key(x)`: numbers as timestamps in the same order, so that an ASOF JOIN may go by them.
//!
//! Whole numbers and decimals are their digits; a float's bits are put in the order of its values, where NaN is the
//! greatest and both zeros are one. Nobody reads the result, which is compared and sorted alone.

use datafusion::arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit, UInt64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

const NAME: &str = "__order_key";

/// Digits of the widest decimals that fit.
const DIGITS_MAX: u8 = 18;

/// A number as a timestamp in the same order.
pub(crate) fn order_key(of: Expr) -> Expr {
    ScalarUDF::from(OrderKey { signature: Signature::any(1, Volatility::Immutable) }).call(vec![of])
}

/// Whether numbers of this type have such a key.
pub(crate) fn has_order_key(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(digits, _) => *digits <= DIGITS_MAX,
        other => other.is_integer() || other.is_floating(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderKey {
    signature: Signature,
}

impl ScalarUDFImpl for OrderKey {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, None))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[..], [ColumnarValue::Scalar(_)]);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let keys: ArrayRef = Arc::new(keys(&args.args[0].to_array(rows)?)?);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&keys, 0)?),
            false => ColumnarValue::Array(keys),
        })
    }
}

fn keys(numbers: &ArrayRef) -> Result<TimestampNanosecondArray> {
    Ok(match numbers.data_type() {
        DataType::Decimal128(..) => numbers.as_primitive::<Decimal128Type>().unary(|digits| digits as i64),
        DataType::UInt64 => numbers.as_primitive::<UInt64Type>().unary(|x| (x ^ (1 << 63)) as i64),
        of if of.is_integer() => cast(numbers, &DataType::Int64)?.as_primitive::<Int64Type>().unary(|x| x),
        of if of.is_floating() => {
            cast(numbers, &DataType::Float64)?.as_primitive::<Float64Type>().unary(float_key)
        }
        other => return exec_err!("{NAME} does not take {other}"),
    })
}

/// Whole numbers in the order of the floats.
fn float_key(x: f64) -> i64 {
    let x = if x.is_nan() { f64::NAN } else { x + 0.0 };
    let bits = x.to_bits() as i64;
    // Of negative ones the greater bits are the lesser number.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_floats(a: f64, b: f64) {
            let order = match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(&b).expect("numbers"),
                (a, b) => a.cmp(&b),
            };
            prop_assert_eq!(float_key(a).cmp(&float_key(b)), order);
        }
    }

    #[test]
    fn both_zeros_are_one_and_every_nan_is_the_greatest() {
        assert_eq!(float_key(0.0), float_key(-0.0));
        assert_eq!(float_key(f64::NAN), float_key(-f64::NAN));
        assert!(float_key(f64::NAN) > float_key(f64::INFINITY));
        assert!(float_key(f64::NEG_INFINITY) < float_key(f64::MIN));
    }
}
