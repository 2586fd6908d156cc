//! Numbers in the order of values, and rows in the order of such numbers.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// The key of a row and where it is.
pub(in crate::operators) type Keyed = (u64, u32);

/// Bits of a digit.
const DIGIT_BITS: usize = 11;
/// Digits of a key.
const DIGITS: usize = 64_usize.div_ceil(DIGIT_BITS);
/// Fewer rows are sorted by comparing them.
const RADIX_ROWS_MIN: usize = 1 << 10;

/// Whether values of this type have keys.
pub(in crate::operators) fn has_keys(of: &DataType) -> bool {
    of.is_integer()
        || matches!(
            of,
            DataType::Float32
                | DataType::Float64
                | DataType::Date32
                | DataType::Timestamp(TimeUnit::Nanosecond, _)
        )
}

/// Numbers in the order of a column's values, or in the opposite one; of NULLs any. `None` of a type that has none.
pub(in crate::operators) fn keys_of(column: &ArrayRef, descending: bool) -> Option<Vec<u64>> {
    /// The order of signed numbers among unsigned ones.
    fn signed(value: i64) -> u64 {
        value.cast_unsigned() ^ (1 << 63)
    }
    /// The total order of doubles.
    fn real(value: f64) -> u64 {
        let bits = value.to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }
    /// The total order of floats, in as many digits as they have.
    fn single(value: f32) -> u64 {
        let bits = value.to_bits();
        u64::from(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
    }
    macro_rules! keys {
        ($of:ty, $key:expr) => {{
            let turn = if descending { u64::MAX } else { 0 };
            let values = column.as_primitive::<$of>().values();
            values.iter().map(|value| $key(*value) ^ turn).collect::<Vec<u64>>()
        }};
    }
    Some(match column.data_type() {
        DataType::Int8 => keys!(Int8Type, |value| signed(i64::from(value))),
        DataType::Int16 => keys!(Int16Type, |value| signed(i64::from(value))),
        DataType::Int32 => keys!(Int32Type, |value| signed(i64::from(value))),
        DataType::Int64 => keys!(Int64Type, signed),
        DataType::UInt8 => keys!(UInt8Type, u64::from),
        DataType::UInt16 => keys!(UInt16Type, u64::from),
        DataType::UInt32 => keys!(UInt32Type, u64::from),
        DataType::UInt64 => keys!(UInt64Type, |value| value),
        DataType::Date32 => keys!(Date32Type, |value| signed(i64::from(value))),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => keys!(TimestampNanosecondType, signed),
        DataType::Float32 => keys!(Float32Type, single),
        DataType::Float64 => keys!(Float64Type, real),
        _ => return None,
    })
}

/// Sorts rows by their keys; equal ones stay in the order they come.
pub(in crate::operators) fn sort(mut rows: Vec<Keyed>) -> Vec<Keyed> {
    if rows.len() < RADIX_ROWS_MIN {
        rows.sort_by_key(|(key, _)| *key);
        return rows;
    }
    let digit = |key: u64, at: usize| (key >> (at * DIGIT_BITS)) as usize & ((1 << DIGIT_BITS) - 1);
    let mut counts = vec![[0_u32; 1 << DIGIT_BITS]; DIGITS];
    for (key, _) in &rows {
        counts.iter_mut().enumerate().for_each(|(at, counts)| counts[digit(*key, at)] += 1);
    }
    let mut sorted = vec![(0, 0); rows.len()];
    for (at, counts) in counts.iter_mut().enumerate() {
        let first = rows[0].0;
        if counts[digit(first, at)] as usize == rows.len() {
            // All keys have the same digit.
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            (*count, next) = (next, next + *count);
        }
        for row in &rows {
            let place = &mut counts[digit(row.0, at)];
            sorted[*place as usize] = *row;
            *place += 1;
        }
        std::mem::swap(&mut rows, &mut sorted);
    }
    rows
}
