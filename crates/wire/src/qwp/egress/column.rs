//! Columns of results onto the wire, whole runs of values at a time.
//!
//! A column begins with the rows that are NULL, where there are any; of these no value follows.

use super::results::Fault;
use super::texts::{put_fixed, put_texts, put_views};
use crate::qwp::kind::WireType;
use crate::qwp::write::{put_all, put_varint};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, ListArray, PrimitiveArray, downcast_dictionary_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ToByteSlice};
use arrow_schema::{DataType, TimeUnit};

/// The type that values of an Arrow type are sent as; `None` for a type that is to be made another, text say, first.
///
/// NULL has no place in BOOLEAN, where it is false, nor in BYTE and SHORT: whole numbers are at least INT.
pub fn wire_type(data_type: &DataType) -> Option<WireType> {
    Some(match data_type {
        DataType::Boolean => WireType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            WireType::Int
        }
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => WireType::Long,
        DataType::Float32 => WireType::Float,
        DataType::Float64 => WireType::Double,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => WireType::TimestampNanos,
        DataType::Timestamp(..) => WireType::Timestamp,
        DataType::Date32 | DataType::Date64 => WireType::Date,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => WireType::Varchar,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => WireType::Binary,
        DataType::FixedSizeBinary(16) => WireType::Uuid,
        DataType::FixedSizeBinary(_) => WireType::Binary,
        DataType::Dictionary(_, values) if values.is_string() => WireType::Symbol,
        DataType::Decimal32(_, 0..) | DataType::Decimal64(_, 0..) => WireType::Decimal64,
        DataType::Decimal128(_, 0..) => WireType::Decimal128,
        DataType::Decimal256(_, 0..) => WireType::Decimal256,
        DataType::List(element) => match element.data_type() {
            DataType::Float32 | DataType::Float64 => WireType::DoubleArray,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => WireType::LongArray,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => WireType::LongArray,
            _ => return None,
        },
        _ => return None,
    })
}

/// Appends a column; `ids` are those of a dictionary's symbols.
pub(super) fn put_column(out: &mut Vec<u8>, array: &dyn Array, ids: &[u32]) -> Result<(), Fault> {
    if let Some(booleans) = array.as_boolean_opt() {
        put_booleans(out, booleans);
        return Ok(());
    }
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    put_nulls(out, nulls.as_ref());
    let runs = Runs { nulls: nulls.as_ref(), rows: array.len() };
    match array.data_type() {
        DataType::Int8 => put_as::<Int8Type, 4>(out, array, runs, |value| i32::from(value).to_le_bytes()),
        DataType::Int16 => put_as::<Int16Type, 4>(out, array, runs, |value| i32::from(value).to_le_bytes()),
        DataType::UInt8 => put_as::<UInt8Type, 4>(out, array, runs, |value| i32::from(value).to_le_bytes()),
        DataType::UInt16 => put_as::<UInt16Type, 4>(out, array, runs, |value| i32::from(value).to_le_bytes()),
        DataType::UInt32 => put_as::<UInt32Type, 8>(out, array, runs, |value| i64::from(value).to_le_bytes()),
        DataType::Int32 => put_plain::<Int32Type>(out, array, runs),
        DataType::Int64 => put_plain::<Int64Type>(out, array, runs),
        DataType::UInt64 => {
            let fits = |value| i64::try_from(value).is_ok();
            check::<UInt64Type>(array, runs, fits, "is past what a LONG holds: cast it to DECIMAL")?;
            put_plain::<UInt64Type>(out, array, runs);
        }
        DataType::Float32 => put_plain::<Float32Type>(out, array, runs),
        DataType::Float64 => put_plain::<Float64Type>(out, array, runs),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            put_plain::<TimestampNanosecondType>(out, array, runs)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            put_plain::<TimestampMicrosecondType>(out, array, runs)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            put_micros::<TimestampMillisecondType>(out, array, runs, 1_000)?;
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            put_micros::<TimestampSecondType>(out, array, runs, 1_000_000)?
        }
        DataType::Date32 => {
            put_as::<Date32Type, 8>(out, array, runs, |days| (i64::from(days) * 86_400_000).to_le_bytes());
        }
        DataType::Date64 => put_plain::<Date64Type>(out, array, runs),
        DataType::Utf8 => put_texts(out, array.as_string::<i32>(), runs)?,
        DataType::LargeUtf8 => put_texts(out, array.as_string::<i64>(), runs)?,
        DataType::Utf8View => put_views(out, array.as_string_view(), runs)?,
        DataType::Binary => put_texts(out, array.as_binary::<i32>(), runs)?,
        DataType::LargeBinary => put_texts(out, array.as_binary::<i64>(), runs)?,
        DataType::BinaryView => put_views(out, array.as_binary_view(), runs)?,
        DataType::FixedSizeBinary(width) => put_fixed(out, array, *width, runs)?,
        DataType::Null => out.extend_from_slice(&[0; 4]),
        DataType::Dictionary(..) => downcast_dictionary_array!(
            array => put_symbols(out, array, ids, runs),
            _ => {}
        ),
        DataType::Decimal32(_, scale) => {
            out.push(scale.cast_unsigned());
            put_as::<Decimal32Type, 8>(out, array, runs, |value| i64::from(value).to_le_bytes());
        }
        DataType::Decimal64(_, scale) => {
            out.push(scale.cast_unsigned());
            put_plain::<Decimal64Type>(out, array, runs);
        }
        DataType::Decimal128(_, scale) => {
            out.push(scale.cast_unsigned());
            put_plain::<Decimal128Type>(out, array, runs);
        }
        DataType::Decimal256(_, scale) => {
            out.push(scale.cast_unsigned());
            put_as::<Decimal256Type, 32>(out, array, runs, |value| value.to_le_bytes());
        }
        DataType::List(_) => put_lists(out, array.as_list(), runs)?,
        _ => return Err(Fault::Type),
    }
    Ok(())
}

/// The rows that have a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs<'a> {
    nulls: Option<&'a NullBuffer>,
    rows: usize,
}

impl Runs<'_> {
    /// Calls back with the begin and the end of each run of them.
    pub(super) fn each(self, mut run: impl FnMut(usize, usize)) {
        match self.nulls {
            None => run(0, self.rows),
            Some(nulls) => nulls.valid_slices().for_each(|(start, end)| run(start, end)),
        }
    }

    /// How many.
    pub(super) fn values(self) -> usize {
        self.rows - self.nulls.map_or(0, NullBuffer::null_count)
    }
}

fn put_nulls(out: &mut Vec<u8>, nulls: Option<&NullBuffer>) {
    let Some(nulls) = nulls else { return out.push(0) };
    out.push(1);
    put_bits(out, &!nulls.inner());
}

/// Eight values a byte, the first in the lowest bit, zeros behind the last.
fn put_bits(out: &mut Vec<u8>, bits: &BooleanBuffer) {
    let start = out.len();
    let chunks = bits.bit_chunks();
    put_all(out, chunks.iter().map(u64::to_le_bytes));
    out.extend_from_slice(&chunks.remainder_bits().to_le_bytes());
    out.truncate(start + bits.len().div_ceil(8));
}

fn put_booleans(out: &mut Vec<u8>, array: &BooleanArray) {
    out.push(0);
    match array.nulls() {
        None => put_bits(out, array.values()),
        Some(nulls) => put_bits(out, &(array.values() & nulls.inner())),
    }
}

fn put_plain<T: ArrowPrimitiveType>(out: &mut Vec<u8>, array: &dyn Array, runs: Runs<'_>) {
    let values: &[T::Native] = array.as_primitive::<T>().values();
    out.reserve(size_of::<T::Native>() * runs.values());
    runs.each(|start, end| out.extend_from_slice(values[start..end].to_byte_slice()));
}

fn put_as<T: ArrowPrimitiveType, const N: usize>(
    out: &mut Vec<u8>,
    array: &dyn Array,
    runs: Runs<'_>,
    bytes: impl Fn(T::Native) -> [u8; N],
) {
    let values: &[T::Native] = array.as_primitive::<T>().values();
    out.reserve(N * runs.values());
    runs.each(|start, end| put_all(out, values[start..end].iter().map(|value| bytes(*value))));
}

/// Refuses a column with a value that does not fit.
fn check<T: ArrowPrimitiveType>(
    array: &dyn Array,
    runs: Runs<'_>,
    fits: impl Fn(T::Native) -> bool,
    what: &'static str,
) -> Result<(), Fault> {
    let array: &PrimitiveArray<T> = array.as_primitive();
    let mut all = true;
    runs.each(|start, end| {
        all &= array.values()[start..end].iter().fold(true, |all, value| all & fits(*value))
    });
    if all { Ok(()) } else { Err(Fault::Value { what }) }
}

fn put_micros<T: ArrowPrimitiveType<Native = i64>>(
    out: &mut Vec<u8>,
    array: &dyn Array,
    runs: Runs<'_>,
    micros: i64,
) -> Result<(), Fault> {
    let most = (i64::MAX / micros).unsigned_abs();
    check::<T>(array, runs, |time| time.unsigned_abs() <= most, "is past what microseconds since 1970 hold")?;
    put_as::<T, 8>(out, array, runs, |time| time.wrapping_mul(micros).to_le_bytes());
    Ok(())
}

fn put_symbols<K: ArrowDictionaryKeyType>(
    out: &mut Vec<u8>,
    array: &DictionaryArray<K>,
    ids: &[u32],
    runs: Runs<'_>,
) {
    out.reserve(runs.values());
    let keys = array.keys().values();
    runs.each(|start, end| {
        for key in &keys[start..end] {
            put_varint(out, u64::from(ids[key.as_usize()]));
        }
    });
}

/// For each its one dimension, its length, then the elements. A NULL element is NaN, or the least LONG.
fn put_lists(out: &mut Vec<u8>, array: &ListArray, runs: Runs<'_>) -> Result<(), Fault> {
    let offsets = array.value_offsets();
    let first = offsets[0].as_usize();
    let elements = array.values().slice(first, offsets[array.len()].as_usize() - first);
    let elements = elements_of(&elements)?;
    out.reserve(8 * elements.len() + 5 * runs.values());
    runs.each(|start, end| {
        for row in start..end {
            let (start, end) = (offsets[row].as_usize() - first, offsets[row + 1].as_usize() - first);
            out.push(1);
            out.extend_from_slice(&((end - start) as u32).to_le_bytes());
            out.extend_from_slice(elements[start..end].to_byte_slice());
        }
    });
    Ok(())
}

fn elements_of(array: &ArrayRef) -> Result<Vec<u64>, Fault> {
    const NULL_DOUBLE: u64 = f64::NAN.to_bits();
    const NULL_LONG: u64 = 1 << 63;
    fn bits<T: ArrowPrimitiveType>(array: &ArrayRef, null: u64, bits: impl Fn(T::Native) -> u64) -> Vec<u64> {
        let array = array.as_primitive::<T>();
        match array.nulls() {
            None => array.values().iter().map(|value| bits(*value)).collect(),
            Some(_) => array.iter().map(|value| value.map_or(null, &bits)).collect(),
        }
    }
    fn longs<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Vec<u64> {
        bits::<T>(array, NULL_LONG, |value| value.into().cast_unsigned())
    }
    Ok(match array.data_type() {
        DataType::Float64 => bits::<Float64Type>(array, NULL_DOUBLE, f64::to_bits),
        DataType::Float32 => bits::<Float32Type>(array, NULL_DOUBLE, |value| f64::from(value).to_bits()),
        DataType::Int8 => longs::<Int8Type>(array),
        DataType::Int16 => longs::<Int16Type>(array),
        DataType::Int32 => longs::<Int32Type>(array),
        DataType::Int64 => longs::<Int64Type>(array),
        DataType::UInt8 => longs::<UInt8Type>(array),
        DataType::UInt16 => longs::<UInt16Type>(array),
        DataType::UInt32 => longs::<UInt32Type>(array),
        _ => return Err(Fault::Type),
    })
}
