//! Columns of decimals, as counts of their last digits.

use super::{NULL_WORD, Stop, fixed, is_null_long, words_of};
use crate::Fault;
use crate::qwp::kind::WireType;
use crate::qwp::nulls::Nulls;
use crate::qwp::read::Reader;
use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use std::sync::Arc;

/// The most digits behind the point of a DECIMAL.
const SCALE_MAX: u8 = 38;

/// Two's complement, the lowest byte first.
pub(super) fn decimals(
    reader: &mut Reader<'_>,
    nulls: Nulls,
    of: WireType,
    scale: u8,
) -> Result<ArrayRef, Stop> {
    if scale > SCALE_MAX {
        return Err(Stop::Column(Fault::Field { what: "has more than 38 digits behind the point" }));
    }
    let (values, nulls) = match of {
        WireType::Decimal64 => {
            let values: Vec<i64> =
                nulls.spread(fixed::<8>(reader, &nulls)?.iter().map(|bytes| i64::from_le_bytes(*bytes)));
            let nulls = nulls.or_values(&values, is_null_long);
            (values.into_iter().map(i128::from).collect(), nulls)
        }
        WireType::Decimal128 => {
            let null = (u128::from(NULL_WORD) << 64 | u128::from(NULL_WORD)).cast_signed();
            let values: Vec<i128> =
                nulls.spread(fixed::<16>(reader, &nulls)?.iter().map(|bytes| i128::from_le_bytes(*bytes)));
            let nulls = nulls.or_values(&values, |value| *value == null);
            (values, nulls)
        }
        _ => {
            let words: Vec<[u64; 4]> = nulls.spread(fixed::<32>(reader, &nulls)?.iter().map(words_of));
            let nulls = nulls.or_values(&words, |words| *words == [NULL_WORD; 4]);
            let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let mut values = Vec::with_capacity(words.len());
            for (row, [low, second, third, high]) in words.into_iter().enumerate() {
                let value = (u128::from(second) << 64 | u128::from(low)).cast_signed();
                let sign = if value < 0 { u64::MAX } else { 0 };
                if (third, high) != (sign, sign) && !is_null(row) {
                    return Err(too_many_digits(row));
                }
                values.push(value);
            }
            (values, nulls)
        }
    };
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let most = 10_u128.pow(38);
    let too_large = (0..values.len()).find(|row| values[*row].unsigned_abs() >= most && !is_null(*row));
    if let Some(row) = too_large {
        return Err(too_many_digits(row));
    }
    Ok(Arc::new(PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls)))
}

fn too_many_digits(row: usize) -> Stop {
    let fault = Fault::Field { what: "has more digits than the 38 of a DECIMAL" };
    Stop::Value { row, text: "a decimal".to_string(), fault }
}
