//! Numbers in the order of values, and rows in the order of such numbers.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use std::sync::Arc;

/// The key of a row and where it is.
pub(in crate::operators) trait Keyed: Copy + Default {
    /// Bits of keys.
    const BITS: usize;

    fn key(self) -> u64;

    fn row(self) -> u32;
}

/// Any key.
pub(in crate::operators) type Wide = (u64, u32);

impl Keyed for Wide {
    const BITS: usize = 64;

    #[inline]
    fn key(self) -> u64 {
        self.0
    }

    #[inline]
    fn row(self) -> u32 {
        self.1
    }
}

/// A key of 32 bits, in the upper half, and a row.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operators) struct Narrow(u64);

impl Narrow {
    /// The key must have no more than 32 bits.
    #[inline]
    pub(in crate::operators) fn new(key: u64, row: u32) -> Self {
        Self(key << 32 | u64::from(row))
    }
}

impl Keyed for Narrow {
    const BITS: usize = 32;

    #[inline]
    fn key(self) -> u64 {
        self.0 >> 32
    }

    #[inline]
    fn row(self) -> u32 {
        self.0 as u32
    }
}

/// Bits of a digit.
const DIGIT_BITS: usize = 11;
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

/// The values whose keys, as [`keys_of`] makes them, these are.
pub(in crate::operators) fn values_of(
    keys: impl Iterator<Item = u64>,
    of: &DataType,
    descending: bool,
) -> Option<ArrayRef> {
    fn signed(key: u64) -> i64 {
        (key ^ (1 << 63)).cast_signed()
    }
    fn real(key: u64) -> f64 {
        f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
    }
    fn single(key: u64) -> f32 {
        let key = key as u32;
        f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
    }
    macro_rules! values {
        ($of:ty, $value:expr) => {{
            let turn = if descending { u64::MAX } else { 0 };
            let values: Vec<_> = keys.map(|key| $value(key ^ turn)).collect();
            Arc::new(PrimitiveArray::<$of>::new(values.into(), None).with_data_type(of.clone())) as ArrayRef
        }};
    }
    Some(match of {
        DataType::Int8 => values!(Int8Type, |key| signed(key) as i8),
        DataType::Int16 => values!(Int16Type, |key| signed(key) as i16),
        DataType::Int32 => values!(Int32Type, |key| signed(key) as i32),
        DataType::Int64 => values!(Int64Type, signed),
        DataType::UInt8 => values!(UInt8Type, |key| key as u8),
        DataType::UInt16 => values!(UInt16Type, |key| key as u16),
        DataType::UInt32 => values!(UInt32Type, |key| key as u32),
        DataType::UInt64 => values!(UInt64Type, |key| key),
        DataType::Date32 => values!(Date32Type, |key| signed(key) as i32),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => values!(TimestampNanosecondType, signed),
        DataType::Float32 => values!(Float32Type, single),
        DataType::Float64 => values!(Float64Type, real),
        _ => return None,
    })
}

/// Sorts rows by their keys; equal ones stay in the order they come.
pub(in crate::operators) fn sort<K: Keyed>(mut rows: Vec<K>) -> Vec<K> {
    if rows.len() < RADIX_ROWS_MIN {
        rows.sort_by_key(|row| row.key());
        return rows;
    }
    let digit = |key: u64, at: usize| (key >> (at * DIGIT_BITS)) as usize & ((1 << DIGIT_BITS) - 1);
    let mut counts = vec![[0_u32; 1 << DIGIT_BITS]; K::BITS.div_ceil(DIGIT_BITS)];
    for row in &rows {
        counts.iter_mut().enumerate().for_each(|(at, counts)| counts[digit(row.key(), at)] += 1);
    }
    let mut sorted = vec![K::default(); rows.len()];
    for (at, counts) in counts.iter_mut().enumerate() {
        let first = rows[0].key();
        if counts[digit(first, at)] as usize == rows.len() {
            // All keys have the same digit.
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            (*count, next) = (next, next + *count);
        }
        for row in &rows {
            let place = &mut counts[digit(row.key(), at)];
            sorted[*place as usize] = *row;
            *place += 1;
        }
        std::mem::swap(&mut rows, &mut sorted);
    }
    rows
}
