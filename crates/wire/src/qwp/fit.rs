//! Columns of the wire into a table's columns, where nothing is lost.
//!
//! A column of the same type is taken as it is. Any other goes value by value, as a field of line protocol does
//! (`ColumnBuilder::push_value`), and is refused by its first value that does not fit.

use super::column::{Column, Stop};
use super::kind::WireType;
use crate::chunk::shown;
use crate::column::ColumnBuilder;
use crate::ilp::{Value, decimal_of};
use crate::{ColumnPlan, Fault, TimeFormat};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray, new_null_array};
use arrow_buffer::{ScalarBuffer, ToByteSlice};
use std::fmt::Write as _;
use std::sync::Arc;
use tickstone_model::ColumnType;

const DAY_NS: i64 = 86_400_000_000_000;

/// The type of the column that is made for a column of the wire.
pub(super) fn new_type(column: &Column, of: WireType) -> ColumnType {
    if !of.is_decimal() {
        return of.column_type();
    }
    let values = column.array.as_primitive::<Decimal128Type>();
    let digits = |value: i128| value.unsigned_abs().checked_ilog10().map_or(1, |last| last as usize + 1);
    let most = values.iter().flatten().map(digits).max().unwrap_or(1);
    let scale = usize::from(column.scale);
    decimal_of(most.saturating_sub(scale), scale)
}

/// The values in the edge type of a table's column.
pub(super) fn fit(column: &Column, of: WireType, wanted: ColumnType) -> Result<ArrayRef, Stop> {
    let array = &column.array;
    let Some(first) = (0..array.len()).find(|row| array.is_valid(*row)) else {
        return Ok(new_null_array(&wanted.edge_type(), array.len()));
    };
    if of.column_type() == wanted && !of.is_decimal() {
        return Ok(Arc::clone(array));
    }
    let is_text = matches!(wanted, ColumnType::Symbol | ColumnType::Varchar);
    match of {
        WireType::Boolean => {
            let values = array.as_boolean();
            each(array, wanted, |row| Value::Boolean(values.value(row)))
        }
        WireType::Byte => integers(array, wanted, array.as_primitive::<Int8Type>().values()),
        WireType::Short => integers(array, wanted, array.as_primitive::<Int16Type>().values()),
        WireType::Int => integers(array, wanted, array.as_primitive::<Int32Type>().values()),
        WireType::Long => integers(array, wanted, array.as_primitive::<Int64Type>().values()),
        WireType::Float => {
            let values = array.as_primitive::<Float32Type>().values();
            each(array, wanted, |row| Value::Double(f64::from(values[row]), None))
        }
        WireType::Double => {
            let values = array.as_primitive::<Float64Type>().values();
            each(array, wanted, |row| Value::Double(values[row], None))
        }
        WireType::Decimal64 | WireType::Decimal128 | WireType::Decimal256 => decimals(column, wanted),
        WireType::Date if wanted == ColumnType::Date => days(array),
        WireType::Timestamp | WireType::TimestampNanos => {
            let values = array.as_primitive::<TimestampNanosecondType>().values();
            each(array, wanted, |row| Value::Time(values[row]))
        }
        WireType::Varchar => each_text(array.as_string(), wanted),
        WireType::Char | WireType::Ipv4 | WireType::Geohash | WireType::Long256 if is_text => {
            each_text(array.as_string(), wanted)
        }
        WireType::Symbol if is_text => {
            let symbols = array.as_dictionary::<UInt32Type>();
            let (keys, values) = (symbols.keys(), symbols.values().as_string::<i32>());
            each(array, wanted, |row| Value::Text(values.value(keys.value(row) as usize).as_bytes()))
        }
        WireType::Uuid if is_text => each_text(&uuid_texts(array), wanted),
        WireType::DoubleArray => {
            let lists = array.as_list::<i32>();
            let elements = lists.values().as_primitive::<Float64Type>().values().to_byte_slice();
            each(array, wanted, |row| {
                let place = |end: usize| lists.value_offsets()[end] as usize * 8;
                Value::Doubles(&elements[place(row)..place(row + 1)])
            })
        }
        _ => {
            let fault = Fault::Conflict { sent: of.value_name(), wanted };
            Err(Stop::Value { row: first, text: value_text(array, first), fault })
        }
    }
}

/// Value by value, as fields of line protocol.
fn each<'a>(
    array: &ArrayRef,
    wanted: ColumnType,
    value: impl Fn(usize) -> Value<'a>,
) -> Result<ArrayRef, Stop> {
    let plan = ColumnPlan {
        source: String::new(),
        column_type: wanted,
        time: TimeFormat::Iso,
        required: false,
        inferred: false,
    };
    let mut builder = ColumnBuilder::new(&plan);
    builder.reserve(array.len());
    for row in 0..array.len() {
        let pushed = match array.is_valid(row) {
            true => builder.push_value(&value(row)),
            false => builder.push_null(),
        };
        pushed.map_err(|fault| Stop::Value { row, text: value_text(array, row), fault })?;
    }
    Ok(builder.finish())
}

fn integers<T: Copy + Into<i64>>(
    array: &ArrayRef,
    wanted: ColumnType,
    values: &[T],
) -> Result<ArrayRef, Stop> {
    each(array, wanted, |row| Value::Integer(values[row].into()))
}

fn each_text(texts: &StringArray, wanted: ColumnType) -> Result<ArrayRef, Stop> {
    let array: ArrayRef = Arc::new(texts.clone());
    each(&array, wanted, |row| Value::Text(texts.value(row).as_bytes()))
}

fn decimals(column: &Column, wanted: ColumnType) -> Result<ArrayRef, Stop> {
    let values = column.array.as_primitive::<Decimal128Type>();
    let scaled = |row: usize| Value::Scaled { unscaled: values.value(row), scale: column.scale };
    let ColumnType::Decimal { precision, scale } = wanted else {
        return each(&column.array, wanted, scaled).map_err(|stop| with_scale(stop, column));
    };
    let more = i32::from(scale) - i32::from(column.scale);
    let factor = 10_i128.pow(more.unsigned_abs());
    let most = 10_i128.pow(u32::from(precision));
    let rescale = |value: i128| match more {
        0.. => value.checked_mul(factor),
        _ => (value % factor == 0).then_some(value / factor),
    };
    let mut rescaled = vec![0; values.len()];
    for (row, slot) in rescaled.iter_mut().enumerate().filter(|(row, _)| values.is_valid(*row)) {
        let value = rescale(values.value(row)).filter(|value| value.unsigned_abs() < most.unsigned_abs());
        let fault = Fault::OutOfRange { wanted, fits: ColumnType::Float64 };
        let stop = || with_scale(Stop::Value { row, text: String::new(), fault }, column);
        *slot = value.ok_or_else(stop)?;
    }
    let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(rescaled), values.nulls().cloned());
    let array = array.with_precision_and_scale(precision, scale);
    Ok(Arc::new(array.expect("a ColumnType's precision and scale are Arrow's")))
}

/// A decimal at fault with its point.
fn with_scale(stop: Stop, column: &Column) -> Stop {
    match stop {
        Stop::Value { row, fault, .. } => {
            let unscaled = column.array.as_primitive::<Decimal128Type>().value(row);
            let digits =
                format!("{:0width$}", unscaled.unsigned_abs(), width = usize::from(column.scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(column.scale));
            let sign = if unscaled < 0 { "-" } else { "" };
            let point = if fraction.is_empty() { "" } else { "." };
            Stop::Value { row, text: format!("{sign}{whole}{point}{fraction}"), fault }
        }
        other => other,
    }
}

/// Dates that are days.
fn days(array: &ArrayRef) -> Result<ArrayRef, Stop> {
    let times = array.as_primitive::<TimestampNanosecondType>();
    let broken = (0..times.len()).find(|row| times.is_valid(*row) && times.value(*row) % DAY_NS != 0);
    if let Some(row) = broken {
        return Err(Stop::Value { row, text: value_text(array, row), fault: Fault::NoWholeDay });
    }
    // Days of 64 bits of nanoseconds are fewer than 2^17.
    Ok(Arc::new(times.unary::<_, Date32Type>(|time| (time / DAY_NS) as i32)))
}

fn uuid_texts(array: &ArrayRef) -> StringArray {
    let uuids = array.as_fixed_size_binary();
    let text = |bytes: &[u8]| {
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            // A String takes all that is written to it.
            let _ = write!(text, "{dash}{byte:02x}");
        }
        text
    };
    (0..array.len()).map(|row| array.is_valid(row).then(|| text(uuids.value(row)))).collect()
}

/// A value as an error quotes it.
fn value_text(array: &ArrayRef, row: usize) -> String {
    if let Some(texts) = array.as_string_opt::<i32>() {
        return shown(texts.value(row).as_bytes());
    }
    if let Some(symbols) = array.as_dictionary_opt::<UInt32Type>() {
        let symbol = symbols.keys().value(row) as usize;
        return shown(symbols.values().as_string::<i32>().value(symbol).as_bytes());
    }
    let text = format!("{:?}", array.slice(row, 1));
    let value = text.split_once("[\n").map_or("", |(_, values)| values.trim_end_matches([']', '\n', ',']));
    shown(value.split_whitespace().collect::<Vec<_>>().join(" ").as_bytes())
}
