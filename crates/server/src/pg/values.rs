//! Values in PostgreSQL's text and binary formats ("Data Types" and the send functions of each type in its manual).
//!
//! What a column is gets found out once a batch; a row then costs a match a value.

use super::digits::{
    Digits, put_date, put_double, put_float, put_interval, put_numeric, put_time, put_timestamp,
};
use bytes::{BufMut, BytesMut};
use std::ops::Range;
use std::sync::Arc;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::cast::AsArray;
use tickstone_query::arrow::array::types::{
    Date32Type, Decimal128Type, DurationNanosecondType, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64NanosecondType, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use tickstone_query::arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray, RecordBatch, StringArray,
};
use tickstone_query::arrow::buffer::NullBuffer;
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use tickstone_query::export::{Cells, TimeStyle};

/// Days and nanoseconds from 1970 to 2000, where PostgreSQL begins.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// A batch in the types that there are formats for.
#[derive(Debug)]
pub(super) struct Canonical(Vec<ArrayRef>, usize);

impl Canonical {
    /// # Errors
    /// Where a column cannot be cast: a defect.
    pub(super) fn of(batch: &RecordBatch) -> Result<Self, QueryError> {
        let columns = batch.columns().iter().map(canonical);
        Ok(Self(columns.collect::<Result<_, QueryError>>()?, batch.num_rows()))
    }

    pub(super) fn rows(&self) -> usize {
        self.1
    }

    /// The columns, to be written.
    ///
    /// # Errors
    /// Where Arrow cannot show a type.
    pub(super) fn columns(&self) -> Result<Vec<Column<'_>>, QueryError> {
        self.0.iter().map(Column::of).collect()
    }
}

fn canonical(array: &ArrayRef) -> Result<ArrayRef, QueryError> {
    let wanted = match array.data_type() {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::Float16 => DataType::Float32,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Nanosecond => {
            DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())
        }
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Microsecond) => {
            DataType::Time64(TimeUnit::Nanosecond)
        }
        DataType::Duration(unit) if *unit != TimeUnit::Nanosecond => DataType::Duration(TimeUnit::Nanosecond),
        DataType::Interval(unit) if *unit != IntervalUnit::MonthDayNano => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(key, values) if **key == DataType::UInt32 && **values == DataType::Utf8 => {
            return Ok(ArrayRef::clone(array));
        }
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            DataType::List(Arc::clone(element))
        }
        DataType::List(element) if !element.data_type().is_nested() && !is_canonical(element) => {
            let lists = array.as_list::<i32>();
            let values = match element.data_type() {
                DataType::Dictionary(_, values) => canonical(&cast(lists.values(), values)?)?,
                _ => canonical(lists.values())?,
            };
            let element = Arc::new(element.as_ref().clone().with_data_type(values.data_type().clone()));
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            return Ok(Arc::new(ListArray::try_new(element, offsets, values, nulls)?));
        }
        _ => return Ok(ArrayRef::clone(array)),
    };
    canonical(&cast(array, &wanted)?)
}

/// The values of one column.
pub(super) struct Column<'a> {
    /// Also the NULLs that stand in a dictionary's values.
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Bool(&'a BooleanArray),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Oid(&'a [u32]),
    Unsigned(&'a [u64]),
    Float(&'a [f32]),
    Double(&'a [f64]),
    Decimal(&'a [i128], i8),
    Text(&'a StringArray),
    Symbol(&'a [u32], &'a StringArray),
    Bytes(&'a BinaryArray),
    Fixed(&'a FixedSizeBinaryArray),
    Uuid(&'a FixedSizeBinaryArray, Cells<'a>),
    Timestamp(&'a [i64], bool),
    Date(&'a [i32]),
    Time(&'a [i64]),
    Interval(&'a [IntervalMonthDayNano]),
    Duration(&'a [i64]),
    List(&'a [i32], Box<Column<'a>>, u32),
    /// As text in both formats.
    Other(Cells<'a>),
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, QueryError> {
        let cells = || Cells::new(array, TimeStyle::Short);
        let values = match array.data_type() {
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt32 => Values::Oid(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::Unsigned(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Values::Float(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::Double(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(_, scale) if *scale >= 0 => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::Binary => Values::Bytes(array.as_binary()),
            DataType::FixedSizeBinary(16) => Values::Uuid(array.as_fixed_size_binary(), cells()?),
            DataType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary()),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                let times = array.as_primitive::<TimestampNanosecondType>().values();
                Values::Timestamp(times, zone.is_some())
            }
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values()),
            DataType::Time64(TimeUnit::Nanosecond) => {
                Values::Time(array.as_primitive::<Time64NanosecondType>().values())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Values::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values())
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                Values::Duration(array.as_primitive::<DurationNanosecondType>().values())
            }
            DataType::List(element) if !element.data_type().is_nested() && is_canonical(element) => {
                let lists = array.as_list::<i32>();
                let oid = super::types::of(element.data_type()).oid();
                Values::List(lists.value_offsets(), Box::new(Column::of(lists.values())?), oid)
            }
            _ => match array.as_dictionary_opt::<UInt32Type>() {
                Some(symbols) => match symbols.values().as_string_opt::<i32>() {
                    Some(texts) => Values::Symbol(symbols.keys().values(), texts),
                    None => Values::Other(cells()?),
                },
                None => Values::Other(cells()?),
            },
        };
        Ok(Self { nulls: array.logical_nulls(), values })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Puts a value behind `out` as in DataRow and binary COPY: its length and its bytes, -1 for NULL.
    pub(super) fn put_sized(&self, row: usize, binary: bool, digits: Digits, out: &mut BytesMut) {
        if self.is_null(row) {
            out.put_i32(-1);
            return;
        }
        let start = out.len();
        out.put_i32(0);
        match binary {
            true => self.put_binary(row, out),
            false => self.put_text(row, digits, out),
        }
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Puts a value that is not NULL behind `out` as text.
    pub(super) fn put_text(&self, row: usize, digits: Digits, out: &mut BytesMut) {
        match &self.values {
            Values::Bool(values) => out.put_u8(if values.value(row) { b't' } else { b'f' }),
            Values::Int16(values) => put_integer(i64::from(values[row]), out),
            Values::Int32(values) => put_integer(i64::from(values[row]), out),
            Values::Int64(values) => put_integer(values[row], out),
            Values::Oid(values) => put_integer(i64::from(values[row]), out),
            Values::Unsigned(values) => put_display(values[row], out),
            Values::Float(values) => put_float(values[row], out),
            Values::Double(values) => put_double(values[row], out),
            Values::Decimal(values, scale) => put_numeric(values[row], *scale, out),
            Values::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Symbol(keys, texts) => out.extend_from_slice(texts.value(keys[row] as usize).as_bytes()),
            Values::Bytes(values) => put_hex(values.value(row), out),
            Values::Fixed(values) => put_hex(values.value(row), out),
            Values::Timestamp(values, zoned) => {
                put_timestamp(values[row], digits, out);
                if *zoned {
                    out.extend_from_slice(b"+00");
                }
            }
            Values::Date(values) => put_date(values[row], out),
            Values::Time(values) => put_time(values[row], digits, out),
            Values::Interval(values) => put_interval(values[row], digits, out),
            Values::Duration(values) => {
                put_interval(IntervalMonthDayNano::new(0, 0, values[row]), digits, out)
            }
            Values::List(ends, elements, _) => elements.put_array(range(ends, row), digits, out),
            Values::Uuid(_, cells) | Values::Other(cells) => {
                let mut text = String::new();
                cells.write(row, &mut text);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Puts a value that is not NULL behind `out` in binary.
    fn put_binary(&self, row: usize, out: &mut BytesMut) {
        match &self.values {
            Values::Bool(values) => out.put_u8(u8::from(values.value(row))),
            Values::Int16(values) => out.put_i16(values[row]),
            Values::Int32(values) => out.put_i32(values[row]),
            Values::Int64(values) => out.put_i64(values[row]),
            Values::Oid(values) => out.put_u32(values[row]),
            Values::Unsigned(values) => put_binary_numeric(i128::from(values[row]), 0, out),
            Values::Float(values) => out.put_f32(values[row]),
            Values::Double(values) => out.put_f64(values[row]),
            Values::Decimal(values, scale) => put_binary_numeric(values[row], *scale, out),
            Values::Bytes(values) => out.extend_from_slice(values.value(row)),
            Values::Fixed(values) | Values::Uuid(values, _) => out.extend_from_slice(values.value(row)),
            Values::Timestamp(values, _) => out.put_i64(micros(values[row]) - EPOCH_MICROS),
            Values::Date(values) => out.put_i32(values[row].saturating_sub(EPOCH_DAYS)),
            Values::Time(values) => out.put_i64(values[row] / 1_000),
            Values::Interval(values) => put_binary_interval(values[row], out),
            Values::Duration(values) => {
                put_binary_interval(IntervalMonthDayNano::new(0, 0, values[row]), out)
            }
            Values::List(ends, elements, oid) => elements.put_binary_array(range(ends, row), *oid, out),
            Values::Text(_) | Values::Symbol(..) | Values::Other(_) => self.put_text(row, Digits::Nanos, out),
        }
    }

    /// `{1,2,NULL}`.
    fn put_array(&self, rows: Range<usize>, digits: Digits, out: &mut BytesMut) {
        out.put_u8(b'{');
        let first = rows.start;
        for row in rows {
            if row > first {
                out.put_u8(b',');
            }
            if self.is_null(row) {
                out.extend_from_slice(b"NULL");
                continue;
            }
            let start = out.len();
            self.put_text(row, digits, out);
            let text = &out[start..];
            let odd =
                |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\');
            if text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(odd) {
                let text = out.split_off(start);
                out.put_u8(b'"');
                for byte in text {
                    if matches!(byte, b'"' | b'\\') {
                        out.put_u8(b'\\');
                    }
                    out.put_u8(byte);
                }
                out.put_u8(b'"');
            }
        }
        out.put_u8(b'}');
    }

    /// Dimensions, whether there are NULLs, the type; then each dimension's length and lower bound; then the elements.
    fn put_binary_array(&self, rows: Range<usize>, oid: u32, out: &mut BytesMut) {
        let count = i32::try_from(rows.len()).unwrap_or(i32::MAX);
        out.put_i32(i32::from(count > 0));
        out.put_i32(i32::from(rows.clone().any(|row| self.is_null(row))));
        out.put_u32(oid);
        if count > 0 {
            out.put_i32(count);
            out.put_i32(1);
        }
        for row in rows {
            self.put_sized(row, true, Digits::Nanos, out);
        }
    }
}

/// Whole microseconds of an instant, cut downwards; upwards where nothing is below.
fn micros(ns: i64) -> i64 {
    let below = ns.div_euclid(1_000);
    if below.checked_mul(1_000).is_some() { below } else { below + 1 }
}

/// Whether elements of this type are written as they stand: a list's are not cast.
fn is_canonical(element: &Field) -> bool {
    matches!(
        element.data_type(),
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(..)
            | DataType::Utf8
            | DataType::Binary
            | DataType::FixedSizeBinary(_)
            | DataType::Timestamp(TimeUnit::Nanosecond, _)
            | DataType::Date32
            | DataType::Time64(TimeUnit::Nanosecond)
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | DataType::Duration(TimeUnit::Nanosecond)
    )
}

fn range(ends: &[i32], row: usize) -> Range<usize> {
    ends[row].cast_unsigned() as usize..ends[row + 1].cast_unsigned() as usize
}

fn put_integer(value: i64, out: &mut BytesMut) {
    use serde_json::ser::{CompactFormatter, Formatter};
    // A buffer takes all that is written.
    let _ = CompactFormatter.write_i64(&mut out.writer(), value);
}

fn put_display(value: impl std::fmt::Display, out: &mut BytesMut) {
    use std::io::Write;
    let _ = write!(out.writer(), "{value}");
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.put_u8(HEX[usize::from(byte >> 4)]);
        out.put_u8(HEX[usize::from(byte & 15)]);
    }
}

/// Groups of four decimal digits: how many, the weight of the first, the sign, the digits after the point; then they.
fn put_binary_numeric(value: i128, scale: i8, out: &mut BytesMut) {
    let scale = u32::from(scale.cast_unsigned());
    // Digits are grouped from the point: those after it are filled up to whole groups.
    let (fraction_groups, last) = (scale.div_ceil(4), scale % 4);
    let mut rest = value.unsigned_abs();
    let mut groups: Vec<u16> = Vec::with_capacity(12);
    let mut take = |digits: u32, fill: u32| {
        groups.push(u16::try_from(rest % 10_u128.pow(digits) * 10_u128.pow(fill)).unwrap_or(0));
        rest /= 10_u128.pow(digits);
        rest > 0
    };
    let mut more = last == 0 || take(last, 4 - last);
    while more {
        more = take(4, 0);
    }
    let skipped = groups.iter().take_while(|group| **group == 0).count();
    let top = groups.iter().rposition(|group| *group != 0);
    let digits = top.map_or(&[][..], |top| &groups[skipped..=top]);
    let weight = top.map_or(0, |top| i64::try_from(top).unwrap_or(0) - i64::from(fraction_groups));
    out.put_u16(u16::try_from(digits.len()).unwrap_or(0));
    out.put_i16(i16::try_from(weight).unwrap_or(0));
    out.put_u16(if value < 0 { 0x4000 } else { 0 });
    out.put_u16(u16::try_from(scale).unwrap_or(0));
    digits.iter().rev().for_each(|group| out.put_u16(*group));
}

fn put_binary_interval(value: IntervalMonthDayNano, out: &mut BytesMut) {
    out.put_i64(value.nanoseconds / 1_000);
    out.put_i32(value.days);
    out.put_i32(value.months);
}
