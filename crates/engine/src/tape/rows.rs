//! Columns of rows as bytes: the same buffers a run has, so that recovery parses nothing.
//!
//! Per column: total bytes (u32, so that an unknown table's rows can be passed over), one byte that
//! says whether a validity bitmap follows, the bitmap, then the values: fixed-width ones as they lie
//! in memory (little-endian), booleans as a bitmap, text and bytes as `rows + 1` u32 offsets and the
//! bytes themselves, arrays as such offsets and their elements: presence byte, bitmap and values again.

use crate::codec::{Decoder, Encoder, Malformed};
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, Utf8Type};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteArray, ListArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::ColumnType;

/// Appends all columns of a batch.
pub(crate) fn encode_columns(out: &mut Encoder, columns: &[ArrayRef]) {
    out.len(columns.len());
    for column in columns {
        let mut one = Encoder::default();
        encode_column(&mut one, column);
        out.len(one.size());
        out.raw(&one.finish());
    }
}

fn encode_column(out: &mut Encoder, column: &ArrayRef) {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    out.optional(nulls, |out, nulls| out.raw(&packed(nulls.inner())));
    match column.data_type() {
        DataType::Boolean => out.raw(&packed(column.as_boolean().values())),
        DataType::Utf8 => encode_bytes(out, column.as_bytes::<Utf8Type>()),
        DataType::Binary => encode_bytes(out, column.as_bytes::<BinaryType>()),
        DataType::List(_) => encode_lists(out, column.as_list()),
        fixed => {
            let width = fixed_width(fixed);
            let data = column.to_data();
            let start = data.offset() * width;
            out.raw(&data.buffers()[0].as_slice()[start..start + column.len() * width]);
        }
    }
}

/// The bits of a bitmap from its first byte on, whatever its offset was; unused bits are zero.
fn packed(bits: &BooleanBuffer) -> Vec<u8> {
    let mut bytes = vec![0_u8; bits.len().div_ceil(8)];
    if bits.offset().is_multiple_of(8) {
        let start = bits.offset() / 8;
        bytes.copy_from_slice(&bits.values()[start..start + bits.len().div_ceil(8)]);
        if let (Some(last), used @ 1..) = (bytes.last_mut(), bits.len() % 8) {
            *last &= (1 << used) - 1;
        }
    } else {
        bits.set_indices().for_each(|index| bytes[index / 8] |= 1 << (index % 8));
    }
    bytes
}

fn encode_bytes<T: ByteArrayType<Offset = i32>>(out: &mut Encoder, array: &GenericByteArray<T>) {
    let held = encode_offsets(out, array.value_offsets());
    out.raw(&array.value_data()[held]);
}

fn encode_lists(out: &mut Encoder, array: &ListArray) {
    let held = encode_offsets(out, array.value_offsets());
    encode_column(out, &array.values().slice(held.start, held.len()));
}

/// Appends offsets from 0 on; returns what they span of the values.
fn encode_offsets(out: &mut Encoder, offsets: &[i32]) -> Range<usize> {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    offsets.iter().for_each(|offset| out.u32((offset - first).cast_unsigned()));
    first.cast_unsigned() as usize..last.cast_unsigned() as usize
}

/// Reads the columns of a batch of `rows`; without `types` they are passed over and none returned.
pub(crate) fn decode_columns(
    input: &mut Decoder<'_>,
    rows: usize,
    types: Option<&[ColumnType]>,
) -> Result<Vec<ArrayRef>, Malformed> {
    let count = input.count(4)?;
    let mut columns = Vec::with_capacity(count);
    for index in 0..count {
        let size = input.count(1)?;
        let mut one = Decoder::new(input.raw(size)?);
        let Some(types) = types else { continue };
        let column_type = types.get(index).ok_or("more columns than the table has")?;
        columns.push(decode_column(&mut one, rows, &column_type.stored_type())?);
        one.finish()?;
    }
    match types {
        Some(types) if types.len() != count => Err(format!("{count} columns, the table has {}", types.len())),
        _ => Ok(columns),
    }
}

fn decode_column(input: &mut Decoder<'_>, rows: usize, data_type: &DataType) -> Result<ArrayRef, Malformed> {
    let nulls = input.optional(|input| bitmap(input, rows))?.map(NullBuffer::new);
    match data_type {
        DataType::Boolean => Ok(Arc::new(BooleanArray::new(bitmap(input, rows)?, nulls))),
        DataType::Utf8 => decode_bytes::<Utf8Type>(input, rows, nulls),
        DataType::Binary => decode_bytes::<BinaryType>(input, rows, nulls),
        DataType::List(field) => decode_lists(input, rows, nulls, field),
        fixed => {
            let bytes = rows.checked_mul(fixed_width(fixed)).ok_or("row count overflows")?;
            let data = arrow_data::ArrayData::builder(fixed.clone())
                .len(rows)
                .nulls(nulls)
                .add_buffer(aligned(input.raw(bytes)?))
                .build()
                .map_err(|error| error.to_string())?;
            Ok(make_array(data))
        }
    }
}

fn bitmap(input: &mut Decoder<'_>, rows: usize) -> Result<BooleanBuffer, Malformed> {
    Ok(BooleanBuffer::new(aligned(input.raw(rows.div_ceil(8))?), 0, rows))
}

fn decode_bytes<T: ByteArrayType<Offset = i32>>(
    input: &mut Decoder<'_>,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Malformed> {
    let (offsets, total) = decode_offsets(input, rows)?;
    let array = GenericByteArray::<T>::try_new(offsets, aligned(input.raw(total)?), nulls);
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

fn decode_lists(
    input: &mut Decoder<'_>,
    rows: usize,
    nulls: Option<NullBuffer>,
    field: &FieldRef,
) -> Result<ArrayRef, Malformed> {
    let (offsets, total) = decode_offsets(input, rows)?;
    let elements = decode_column(input, total, field.data_type())?;
    let array = ListArray::try_new(Arc::clone(field), offsets, elements, nulls);
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

/// Offsets of `rows` values, and where the last one ends.
fn decode_offsets(input: &mut Decoder<'_>, rows: usize) -> Result<(OffsetBuffer<i32>, usize), Malformed> {
    let bytes = input.raw((rows + 1).checked_mul(4).ok_or("row count overflows")?)?;
    let offsets = ScalarBuffer::<i32>::from(aligned(bytes));
    let ascending = offsets.first() == Some(&0) && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let total = offsets.last().filter(|_| ascending).ok_or("offsets do not ascend from 0")?;
    let total = total.cast_unsigned() as usize;
    Ok((OffsetBuffer::new(offsets), total))
}

/// A copy in memory aligned for any value.
fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::new(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}

/// Bytes a value of a fixed-width stored type takes.
fn fixed_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
        other => other.primitive_width().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
