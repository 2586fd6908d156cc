//! Columns of the wire as arrays, each in the type that a column made for it has.
//!
//! Whole columns at a time: the bytes of numbers are copied, symbols become a dictionary of those that the column uses.
//! Decimals keep the scale they came with; types that a table does not have are texts.

mod arrays;
mod decimals;
mod texts;

use self::arrays::arrays;
use self::decimals::decimals;
use self::texts::{geohashes, shown, texts};
use super::Malformed;
use super::kind::WireType;
use super::nulls::Nulls;
use super::packed::read_packed;
use super::read::{Read, Reader};
use super::symbols::{Narrowing, Symbols};
use super::text::{put_char, put_ipv4, put_long256};
use crate::Fault;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
    UInt32Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use std::sync::Arc;
use tickstone_model::ElementType;

/// Why a column was not read.
#[derive(Debug)]
pub(super) enum Stop {
    Malformed(Malformed),
    /// The column as a whole.
    Column(Fault),
    /// A value that no column can hold; its row, and what it is.
    Value {
        row: usize,
        text: String,
        fault: Fault,
    },
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Stop::Malformed(malformed)
    }
}

/// What the columns of a message have in common.
#[derive(Debug)]
pub(super) struct Context<'a> {
    /// Whether columns of timestamps say how they are packed.
    pub(super) packed_times: bool,
    /// The connection's symbols; `None` where each column brings its own.
    pub(super) symbols: Option<&'a Symbols>,
    pub(super) narrowing: &'a mut Narrowing,
}

/// The array of a column, and how many digits of its decimals stand behind the point.
pub(super) struct Column {
    pub(super) array: ArrayRef,
    pub(super) scale: u8,
}

/// Reads a column of `rows` rows, at most eight times as many as bytes are left.
pub(super) fn read_column(
    reader: &mut Reader<'_>,
    of: WireType,
    rows: usize,
    context: &mut Context<'_>,
) -> Result<Column, Stop> {
    let nulls = Nulls::read(reader, rows)?;
    let mut scale = 0;
    let array = match of {
        WireType::Boolean => booleans(reader, nulls)?,
        // QuestDB has no NULL of these two.
        WireType::Byte => numbers::<Int8Type, 1>(reader, nulls, i8::from_le_bytes, |_| false)?,
        WireType::Short => numbers::<Int16Type, 2>(reader, nulls, i16::from_le_bytes, |_| false)?,
        WireType::Int => {
            numbers::<Int32Type, 4>(reader, nulls, i32::from_le_bytes, |value| *value == i32::MIN)?
        }
        WireType::Long => numbers::<Int64Type, 8>(reader, nulls, i64::from_le_bytes, is_null_long)?,
        WireType::Float => {
            numbers::<Float32Type, 4>(reader, nulls, f32::from_le_bytes, |value| value.is_nan())?
        }
        WireType::Double => {
            numbers::<Float64Type, 8>(reader, nulls, f64::from_le_bytes, |value| value.is_nan())?
        }
        WireType::Timestamp => times(reader, nulls, context.packed_times, 1_000)?,
        WireType::TimestampNanos => times(reader, nulls, context.packed_times, 1)?,
        WireType::Date => times(reader, nulls, false, 1_000_000)?,
        WireType::Uuid => uuids(reader, nulls)?,
        WireType::Symbol => symbols(reader, nulls, context)?,
        WireType::Varchar => {
            let (offsets, bytes, nulls) = texts(reader, nulls)?;
            let array = StringArray::try_new(offsets, bytes, nulls);
            Arc::new(array.map_err(|_| reader.malformed("a text is not valid UTF-8"))?)
        }
        WireType::Binary => {
            let (offsets, bytes, nulls) = texts(reader, nulls)?;
            Arc::new(BinaryArray::new(offsets, bytes, nulls))
        }
        WireType::Char => {
            let units = fixed::<2>(reader, &nulls)?;
            let units: Vec<u16> = nulls.spread(units.iter().map(|unit| u16::from_le_bytes(*unit)));
            shown(&units, nulls.or_values(&units, |unit| *unit == 0), put_char)?
        }
        WireType::Ipv4 => {
            let addresses = fixed::<4>(reader, &nulls)?;
            let addresses: Vec<u32> = nulls.spread(addresses.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            let nulls = nulls.or_values(&addresses, |address| *address == 0);
            shown(&addresses, nulls, |out, address| {
                put_ipv4(out, address);
                true
            })?
        }
        WireType::Long256 => {
            let words = fixed::<32>(reader, &nulls)?;
            let words: Vec<[u64; 4]> = nulls.spread(words.iter().map(words_of));
            let nulls = nulls.or_values(&words, |words| *words == [NULL_WORD; 4]);
            shown(&words, nulls, |out, words| {
                put_long256(out, words);
                true
            })?
        }
        WireType::Geohash => geohashes(reader, nulls)?,
        WireType::DoubleArray => arrays(reader, nulls, ElementType::Float64)?,
        WireType::LongArray => arrays(reader, nulls, ElementType::Int64)?,
        WireType::Decimal64 | WireType::Decimal128 | WireType::Decimal256 => {
            scale = reader.byte()?;
            decimals(reader, nulls, of, scale)?
        }
    };
    Ok(Column { array, scale })
}

/// The word that is NULL where no bit says so.
const NULL_WORD: u64 = 1 << 63;

fn is_null_long(value: &i64) -> bool {
    *value == i64::MIN
}

fn fixed<'a, const N: usize>(reader: &mut Reader<'a>, nulls: &Nulls) -> Read<&'a [[u8; N]]> {
    Ok(reader.values(nulls.values, N)?.as_chunks::<N>().0)
}

fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    words
        .iter_mut()
        .zip(bytes.as_chunks::<8>().0)
        .for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    words
}

fn numbers<T: ArrowPrimitiveType, const N: usize>(
    reader: &mut Reader<'_>,
    nulls: Nulls,
    number: impl Fn([u8; N]) -> T::Native,
    is_null: impl Fn(&T::Native) -> bool,
) -> Read<ArrayRef> {
    let bytes = fixed::<N>(reader, &nulls)?;
    let values = nulls.spread(bytes.iter().map(|bytes| number(*bytes)));
    let nulls = nulls.or_values(&values, is_null);
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)))
}

/// QuestDB has no NULL of these: it is false where no bit says otherwise.
fn booleans(reader: &mut Reader<'_>, nulls: Nulls) -> Read<ArrayRef> {
    let bytes = reader.take(nulls.values.div_ceil(8))?;
    let mut values = BooleanBuffer::new(Buffer::from(bytes), 0, nulls.values);
    if nulls.any() {
        values = nulls.spread(values.iter()).into_iter().collect();
    }
    Ok(Arc::new(BooleanArray::new(values, nulls.marked())))
}

fn times(reader: &mut Reader<'_>, nulls: Nulls, packed: bool, unit_ns: i64) -> Result<ArrayRef, Stop> {
    let is_packed = match packed {
        true => match reader.byte()? {
            0 => false,
            1 => true,
            _ => return Err(reader.malformed("timestamps are packed in a way that is not known").into()),
        },
        false => false,
    };
    let mut values = if is_packed {
        nulls.spread(read_packed(reader, nulls.values)?.into_iter())
    } else {
        nulls.spread(fixed::<8>(reader, &nulls)?.iter().map(|bytes| i64::from_le_bytes(*bytes)))
    };
    let nulls = nulls.or_values(&values, is_null_long);
    if unit_ns > 1 {
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let most = i64::MAX / unit_ns;
        if let Some(row) =
            (0..values.len()).find(|row| values[*row].unsigned_abs() > most as u64 && !is_null(*row))
        {
            return Err(Stop::Value { row, text: values[row].to_string(), fault: Fault::PastTime });
        }
        values.iter_mut().for_each(|value| *value = value.wrapping_mul(unit_ns));
    }
    Ok(Arc::new(PrimitiveArray::<TimestampNanosecondType>::new(ScalarBuffer::from(values), nulls)))
}

/// Two little-endian halves, the lower one first: the bytes of the text form backwards.
fn uuids(reader: &mut Reader<'_>, nulls: Nulls) -> Read<ArrayRef> {
    let bytes = fixed::<16>(reader, &nulls)?;
    let backwards = bytes.iter().map(|bytes| u128::from_le_bytes(*bytes).to_be_bytes());
    let values: Vec<[u8; 16]> = nulls.spread(backwards);
    let null = (u128::from(NULL_WORD) << 64 | u128::from(NULL_WORD)).to_be_bytes();
    let nulls = nulls.or_values(&values, |value| *value == null);
    Ok(Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(values.into_flattened()), nulls)))
}

fn symbols(reader: &mut Reader<'_>, nulls: Nulls, context: &mut Context<'_>) -> Read<ArrayRef> {
    let own = match context.symbols {
        Some(_) => Symbols::default(),
        None => Symbols::read_own(reader)?,
    };
    let symbols = context.symbols.unwrap_or(&own);
    let ids = context.narrowing.read(reader, nulls.values, symbols)?;
    let ids = nulls.spread(ids.into_iter());
    let keys = UInt32Array::new(ScalarBuffer::from(ids), nulls.marked());
    let array = DictionaryArray::<UInt32Type>::try_new(keys, Arc::new(symbols.take(&context.narrowing.used)));
    Ok(Arc::new(array.map_err(|_| reader.malformed("a symbol has an id that no message gave"))?))
}
