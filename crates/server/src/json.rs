//! Values as JSON. What a column is gets found out once a batch, not once a value.

use serde_json::ser::{CompactFormatter, Formatter};
use std::ops::Range;
use tickstone_model::format_nanos;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::cast::AsArray;
use tickstone_query::arrow::array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use tickstone_query::arrow::array::{
    Array, ArrayRef, BooleanArray, GenericListArray, LargeStringArray, RecordBatch, StringArray,
    StringViewArray,
};
use tickstone_query::arrow::buffer::NullBuffer;
use tickstone_query::arrow::datatypes::{DataType, TimeUnit};
use tickstone_query::export::{Cells, TimeStyle};

/// The values of a batch.
pub(crate) struct Values<'a> {
    columns: Vec<Column<'a>>,
}

impl<'a> Values<'a> {
    /// Those of `batch`; `quote_large`: numbers of 64 bits as texts, for readers that have doubles only.
    pub(crate) fn of(batch: &'a RecordBatch, quote_large: bool) -> Result<Self, QueryError> {
        let columns = batch.columns().iter().map(|array| Column::of(array, quote_large));
        Ok(Self { columns: columns.collect::<Result<_, QueryError>>()? })
    }

    /// Puts a row behind `out` as an array.
    pub(crate) fn array(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'[');
        for (place, column) in self.columns.iter_mut().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            column.put(row, out);
        }
        out.push(b']');
    }

    /// Puts a row behind `out` as an object; `keys` are the names of the columns as [`key`] makes them.
    pub(crate) fn object(&mut self, keys: &[Vec<u8>], row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        members(&mut self.columns, keys, row, out);
        out.push(b'}');
    }
}

/// A name as it stands before a value: `"name":`.
pub(crate) fn key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    quoted(name, &mut key);
    key.push(b':');
    key
}

fn members(columns: &mut [Column<'_>], keys: &[Vec<u8>], row: usize, out: &mut Vec<u8>) {
    for (place, (column, key)) in columns.iter_mut().zip(keys).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        column.put(row, out);
    }
}

/// The values of one column.
pub(crate) struct Column<'a> {
    /// Also those that stand in a dictionary's values.
    nulls: Option<NullBuffer>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Symbol(&'a [u32], &'a StringArray),
    Timestamp(&'a [i64], Day),
    List(Ends<'a>, Box<Column<'a>>),
    Struct(Vec<Vec<u8>>, Vec<Column<'a>>),
    /// A number of 64 bits in quotes.
    Quoted(Box<Kind<'a>>),
    /// Anything else, as it looks elsewhere.
    Other(Cells<'a>, Look, String),
}

/// How a value that is written as text stands in JSON.
#[derive(Clone, Copy)]
enum Look {
    Number,
    /// A number but for NaN and the infinities.
    Float,
    Text,
}

/// Where the elements of a list's rows are.
enum Ends<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
    Fixed(usize),
}

impl Ends<'_> {
    fn range(&self, row: usize) -> Range<usize> {
        // Arrow checks offsets when an array is made.
        match self {
            Ends::Small(ends) => ends[row].cast_unsigned() as usize..ends[row + 1].cast_unsigned() as usize,
            Ends::Large(ends) => {
                usize::try_from(ends[row]).unwrap_or(0)..usize::try_from(ends[row + 1]).unwrap_or(0)
            }
            Ends::Fixed(length) => row * length..(row + 1) * length,
        }
    }
}

impl<'a> Column<'a> {
    /// Those of `array`; `quote_large` as [`Values::of`] has it.
    pub(crate) fn of(array: &'a ArrayRef, quote_large: bool) -> Result<Self, QueryError> {
        let kind = Kind::of(array, quote_large)?;
        let kind = match kind {
            large @ (Kind::Int64(_) | Kind::UInt64(_)) if quote_large => Kind::Quoted(Box::new(large)),
            other => other,
        };
        Ok(Self { nulls: array.logical_nulls(), kind })
    }

    /// Puts a value behind `out`.
    pub(crate) fn put(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => out.extend_from_slice(b"null"),
            false => self.kind.put(row, out),
        }
    }
}

impl<'a> Kind<'a> {
    fn of(array: &'a ArrayRef, quote_large: bool) -> Result<Self, QueryError> {
        let list = |ends, elements| Ok(Kind::List(ends, Box::new(Column::of(elements, quote_large)?)));
        Ok(match array.data_type() {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean(array.as_boolean()),
            DataType::Int8 => Kind::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Kind::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Kind::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Kind::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Kind::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Kind::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Kind::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Kind::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Kind::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Kind::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Utf8 => Kind::Text(array.as_string()),
            DataType::LargeUtf8 => Kind::LargeText(array.as_string()),
            DataType::Utf8View => Kind::TextView(array.as_string_view()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Kind::Timestamp(array.as_primitive::<TimestampNanosecondType>().values(), Day::default())
            }
            DataType::List(_) => {
                let lists: &GenericListArray<i32> = array.as_list();
                return list(Ends::Small(lists.value_offsets()), lists.values());
            }
            DataType::LargeList(_) => {
                let lists: &GenericListArray<i64> = array.as_list();
                return list(Ends::Large(lists.value_offsets()), lists.values());
            }
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or(0);
                return list(Ends::Fixed(length), array.as_fixed_size_list().values());
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().map(|array| Column::of(array, quote_large));
                let keys = fields.iter().map(|field| key(field.name())).collect();
                Kind::Struct(keys, columns.collect::<Result<_, QueryError>>()?)
            }
            other => match symbols(array) {
                Some((keys, values)) => Kind::Symbol(keys, values),
                None => Kind::Other(Cells::new(array, TimeStyle::Full)?, look(other), String::new()),
            },
        })
    }

    /// Puts a value that is not NULL behind `out`.
    fn put(&mut self, row: usize, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match self {
            Kind::Null => CompactFormatter.write_null(out),
            Kind::Boolean(values) => CompactFormatter.write_bool(out, values.value(row)),
            Kind::Int8(values) => CompactFormatter.write_i8(out, values[row]),
            Kind::Int16(values) => CompactFormatter.write_i16(out, values[row]),
            Kind::Int32(values) => CompactFormatter.write_i32(out, values[row]),
            Kind::Int64(values) => CompactFormatter.write_i64(out, values[row]),
            Kind::UInt8(values) => CompactFormatter.write_u8(out, values[row]),
            Kind::UInt16(values) => CompactFormatter.write_u16(out, values[row]),
            Kind::UInt32(values) => CompactFormatter.write_u32(out, values[row]),
            Kind::UInt64(values) => CompactFormatter.write_u64(out, values[row]),
            Kind::Float32(values) if values[row].is_finite() => CompactFormatter.write_f32(out, values[row]),
            Kind::Float64(values) if values[row].is_finite() => CompactFormatter.write_f64(out, values[row]),
            Kind::Float32(_) | Kind::Float64(_) => CompactFormatter.write_null(out),
            Kind::Text(values) => return quoted(values.value(row), out),
            Kind::LargeText(values) => return quoted(values.value(row), out),
            Kind::TextView(values) => return quoted(values.value(row), out),
            Kind::Symbol(keys, values) => return quoted(values.value(keys[row] as usize), out),
            Kind::Timestamp(values, day) => return day.put(values[row], out),
            Kind::List(ends, elements) => {
                let range = ends.range(row);
                out.push(b'[');
                for at in range.clone() {
                    if at > range.start {
                        out.push(b',');
                    }
                    elements.put(at, out);
                }
                out.push(b']');
                Ok(())
            }
            Kind::Struct(keys, columns) => {
                out.push(b'{');
                members(columns, keys, row, out);
                out.push(b'}');
                Ok(())
            }
            Kind::Quoted(number) => {
                out.push(b'"');
                number.put(row, out);
                out.push(b'"');
                Ok(())
            }
            Kind::Other(cells, look, text) => {
                text.clear();
                cells.write(row, text);
                match look {
                    Look::Text => return quoted(text, out),
                    Look::Float if !text.contains(|c: char| c.is_ascii_digit()) => {
                        out.extend_from_slice(b"null")
                    }
                    Look::Number | Look::Float => out.extend_from_slice(text.as_bytes()),
                }
                Ok(())
            }
        };
    }
}

fn look(data_type: &DataType) -> Look {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Look::Float,
        DataType::Dictionary(_, values) => look(values),
        // Readers of JSON have doubles, which do not hold its digits.
        other if other.is_decimal() => Look::Text,
        other if other.is_numeric() => Look::Number,
        _ => Look::Text,
    }
}

fn symbols(array: &ArrayRef) -> Option<(&[u32], &StringArray)> {
    let dictionary = array.as_dictionary_opt::<UInt32Type>()?;
    Some((dictionary.keys().values(), dictionary.values().as_string_opt::<i32>()?))
}

/// Puts a text behind `out` in quotes (RFC 8259).
pub(crate) fn quoted(text: &str, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

const DAY_NANOS: i64 = 86_400_000_000_000;

/// The day of the time before, as it is written: mostly the next one's too.
#[derive(Debug, Default)]
struct Day {
    number: i64,
    /// `2024-08-08T`; nothing before the first.
    text: Vec<u8>,
}

impl Day {
    /// Puts a time behind `out` in ISO 8601 with nine digits of its second.
    fn put(&mut self, ts: i64, out: &mut Vec<u8>) {
        let (day, nanos) = (ts.div_euclid(DAY_NANOS), ts.rem_euclid(DAY_NANOS).cast_unsigned());
        if self.text.is_empty() || self.number != day {
            let whole = format_nanos(ts);
            let end = whole.find('T').map_or(whole.len(), |at| at + 1);
            *self = Self { number: day, text: whole.as_bytes()[..end].to_vec() };
        }
        let (seconds, nanos) = ((nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32);
        let mut clock = *b"00:00:00.000000000Z\"";
        let pairs = [
            (0, seconds / 3600),
            (3, seconds / 60 % 60),
            (6, seconds % 60),
            (9, nanos / 10_000_000),
            (11, nanos / 100_000 % 100),
            (13, nanos / 1_000 % 100),
            (15, nanos / 10 % 100),
        ];
        for (place, number) in pairs {
            clock[place] = b'0' + (number / 10) as u8;
            clock[place + 1] = b'0' + (number % 10) as u8;
        }
        clock[17] = b'0' + (nanos % 10) as u8;
        out.push(b'"');
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&clock);
    }
}

#[cfg(test)]
mod tests;
