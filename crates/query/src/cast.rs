//! Values from outside as a column holds them: exactly, or an error that names the row and the column.
//!
//! INSERT and append share these rules. Text becomes a time or a UUID as it does in files; a number that an
//! integer column would hold only in part, or a value out of range, is refused.

use crate::error::{QueryError, Result, SqlState};
use crate::functions::with_printed_digits;
use crate::rules::texts::{is_long_decimal, nearest_doubles};
use crate::texts::{
    array_elements, has_digits, parse_bytes, parse_instant, parse_time_of_day, without_exponent,
};
use arrow_cast::{CastOptions, cast_with_options};
use datafusion::arrow::array::builder::{ListBuilder, StringBuilder};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray, ListArray, StringArray,
    Time64NanosecondArray, TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, Float64Type};
use datafusion::arrow::util::display::FormatOptions;
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, ElementType, TableSchema};
use tickstone_wire::parse_uuid;

/// A value that does not fit is an error, never a NULL.
const STRICT: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// Whether a type is one of text.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The values of `array` for `column`, as arrays of type `target`; `before` rows came earlier.
///
/// # Errors
/// Where a value cannot be held exactly, with its row (from 1) and the column.
pub(crate) fn cast_exactly(
    array: &ArrayRef,
    target: &DataType,
    column: &Column,
    before: u64,
) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    cast(array, target, column.column_type).map_err(|reason| {
        let fails = |row: &usize| cast(&array.slice(*row, 1), target, column.column_type).is_err();
        let row = (0..array.len()).find(fails);
        let place = row.map(|row| format!("row {}: ", before + row as u64 + 1)).unwrap_or_default();
        let reason = row
            .and_then(|row| cast(&array.slice(row, 1), target, column.column_type).err())
            .unwrap_or(reason);
        let (name, wanted) = (&column.name, column.column_type);
        let error = QueryError::request(format!("{place}the value for column '{name}' is no {wanted}"))
            .state(SqlState::InvalidText)
            .detail(reason);
        let of = array.data_type();
        let fraction = (of.is_floating() || of.is_decimal()) && target.is_integer();
        match wanted.is_array() && elements_of(array.data_type()).is_none() {
            true => error.hint("write an array: ARRAY[1.5, 2.0], or [1.5, 2.0]"),
            false if fraction => error.hint("round(…) or trunc(…) makes it whole"),
            false => error,
        }
    })
}

/// The type of the elements of Arrow's lists, whichever of their forms.
pub(crate) fn elements_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Some(field.data_type()),
        _ => None,
    }
}

/// The values of `array` as arrays of type `target`, exactly.
///
/// # Errors
/// What does not fit.
pub(crate) fn cast(
    array: &ArrayRef,
    target: &DataType,
    wanted: ColumnType,
) -> std::result::Result<ArrayRef, String> {
    let from = array.data_type();
    if let Some(element) = wanted.element() {
        return cast_lists(array, element);
    }
    let is_read =
        matches!(wanted, ColumnType::Timestamp | ColumnType::Time | ColumnType::Uuid | ColumnType::Binary);
    if is_text(from) && is_read {
        return read_text(array, wanted);
    }
    if is_text(from) && matches!(target, DataType::Decimal128(..)) {
        return strictly(&plain_digits(array)?, target);
    }
    if from.is_floating() && target.is_integer() {
        check_whole(array)?;
    }
    if from.is_decimal() && target.is_integer() {
        check_no_fraction(array)?;
    }
    if is_long_decimal(from) && *target == DataType::Float64 {
        return nearest_doubles(array).map_err(|error| error.to_string());
    }
    if *target == DataType::Float32 && !from.is_nested() {
        check_finite(array)?;
    }
    if matches!((from, target), (DataType::Timestamp(_, _) | DataType::Date64, DataType::Date32)) {
        check_midnight(array)?;
    }
    if from.is_numeric() && *target == DataType::Date32 {
        return Err("it is a number: a day is written DATE '2024-08-08'".to_string());
    }
    if from.is_numeric() && wanted == ColumnType::Time {
        return Err("it is a number: a time of day is written '09:30:00'".to_string());
    }
    if is_text(from) && target.is_floating() {
        return read_numbers(array, target);
    }
    if from.is_numeric() && *target == DataType::Boolean {
        check_truth(array)?;
    }
    if from.is_floating() && matches!(target, DataType::Decimal128(..)) {
        return Ok(with_printed_digits(array, strictly(array, target)?));
    }
    match target {
        // By way of text: its distinct values become a dictionary of its own.
        DataType::Dictionary(_, _) if !from.is_nested() => {
            strictly(&strictly(array, &DataType::Utf8)?, target)
        }
        _ => strictly(array, target),
    }
}

fn strictly(array: &ArrayRef, to: &DataType) -> std::result::Result<ArrayRef, String> {
    cast_with_options(array, to, &STRICT).map_err(|error| error.to_string())
}

/// Texts of numbers without exponents, which Arrow's decimals do not read in every form (`0E-10`).
fn plain_digits(array: &ArrayRef) -> std::result::Result<ArrayRef, String> {
    let texts = strictly(array, &DataType::Utf8)?;
    let plain = texts.as_string::<i32>().iter().map(|text| {
        let plain = text.and_then(|text| without_exponent(text.trim()));
        plain.or(text.map(Into::into))
    });
    Ok(Arc::new(plain.collect::<StringArray>()))
}

/// Texts that are arrays as lists of the texts of their elements.
fn read_lists(array: &ArrayRef) -> std::result::Result<ArrayRef, String> {
    let texts = strictly(array, &DataType::Utf8)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for text in texts.as_string::<i32>() {
        let Some(text) = text else {
            lists.append_null();
            continue;
        };
        let elements = array_elements(text).ok_or_else(|| format!("'{text}' is no array"))?;
        elements.iter().for_each(|element| lists.values().append_option(element.as_deref()));
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// Lists of any form as arrays of `element`: each element as a scalar is cast.
fn cast_lists(array: &ArrayRef, element: ElementType) -> std::result::Result<ArrayRef, String> {
    let wanted = ColumnType::Array(element);
    let from = match array.data_type() {
        DataType::Null => return strictly(array, &wanted.edge_type()),
        text if is_text(text) => return cast_lists(&read_lists(array)?, element),
        other => elements_of(other).ok_or_else(|| format!("it is no array but {other}"))?,
    };
    let lists = strictly(array, &DataType::List(Arc::new(Field::new_list_field(from.clone(), true))))?;
    // What lies behind a NULL is no element: nobody may complain of it.
    let rows = UInt64Array::from_iter_values(0..lists.len() as u64);
    let lists = match lists.null_count() {
        0 => lists,
        _ => take(&lists, &rows, None).map_err(|error| error.to_string())?,
    };
    let lists = lists.as_list::<i32>();
    let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
    let (first, last) = (first.cast_unsigned() as usize, last.cast_unsigned() as usize);
    let elements = lists.values().slice(first, last - first);
    let scalar = ColumnType::from(element);
    let elements = match *elements.data_type() == scalar.edge_type() {
        true => elements,
        false => cast(&elements, &scalar.edge_type(), scalar)?,
    };
    let offsets = OffsetBuffer::from_lengths(lists.offsets().lengths());
    let array = ListArray::try_new(element.field(), offsets, elements, lists.nulls().cloned());
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|error| error.to_string())
}

/// Text as a TIMESTAMP, a TIME, a UUID or bytes, by the rules that files are read by.
fn read_text(array: &ArrayRef, wanted: ColumnType) -> std::result::Result<ArrayRef, String> {
    let text = cast_with_options(array, &DataType::Utf8, &STRICT).map_err(|error| error.to_string())?;
    let text = text.as_string::<i32>();
    let read: ArrayRef = match wanted {
        ColumnType::Timestamp => {
            let values: TimestampNanosecondArray = text.iter().map(|text| parse_instant(text?)).collect();
            Arc::new(values)
        }
        ColumnType::Time => {
            let values = text.iter().map(|text| parse_time_of_day(text?));
            Arc::new(values.collect::<Time64NanosecondArray>())
        }
        ColumnType::Binary => {
            let values = text.iter().map(|text| parse_bytes(text?));
            Arc::new(values.collect::<BinaryArray>())
        }
        _ => {
            let values = text.iter().map(|text| parse_uuid(text?.trim().as_bytes()));
            let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16);
            Arc::new(values.map_err(|error| error.to_string())?)
        }
    };
    match (0..text.len()).find(|&row| text.is_valid(row) && read.is_null(row)) {
        Some(row) => Err(format!("it is '{}'", text.value(row))),
        None => Ok(read),
    }
}

/// Texts as floating-point numbers; one of digits is no infinity.
fn read_numbers(array: &ArrayRef, target: &DataType) -> std::result::Result<ArrayRef, String> {
    let read = strictly(array, target)?;
    let (texts, doubles) = (strictly(array, &DataType::Utf8)?, strictly(&read, &DataType::Float64)?);
    let pairs = texts.as_string::<i32>().iter().zip(doubles.as_primitive::<Float64Type>());
    let mut past = pairs.filter_map(|(text, value)| text.filter(|_| value.is_some_and(f64::is_infinite)));
    match past.find(|text| has_digits(text)) {
        Some(text) => Err(format!("'{text}' is out of range")),
        None => Ok(read),
    }
}

/// A number with a fraction is no whole number: it is not cut off.
fn check_whole(array: &ArrayRef) -> std::result::Result<(), String> {
    let doubles = cast_with_options(array, &DataType::Float64, &STRICT).map_err(|error| error.to_string())?;
    match doubles.as_primitive::<Float64Type>().iter().flatten().find(|value| value.fract() != 0.0) {
        Some(value) => Err(format!("it is {value}")),
        None => Ok(()),
    }
}

/// A DECIMAL with a fraction is no whole number: it is not cut off.
fn check_no_fraction(array: &ArrayRef) -> std::result::Result<(), String> {
    let whole = match array.data_type() {
        DataType::Decimal256(digits, _) => DataType::Decimal256(*digits, 0),
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
    };
    let back = strictly(&strictly(array, &whole)?, array.data_type())?;
    if array == &back {
        return Ok(());
    }
    match (0..array.len()).find(|&row| array.slice(row, 1) != back.slice(row, 1)) {
        Some(row) => Err(format!(
            "it is {}",
            strictly(&array.slice(row, 1), &DataType::Utf8)?.as_string::<i32>().value(0)
        )),
        None => Ok(()),
    }
}

/// A number past the largest FLOAT is not stored as an infinity.
fn check_finite(array: &ArrayRef) -> std::result::Result<(), String> {
    if array.data_type() == &DataType::Float32 || array.data_type().is_integer() {
        return Ok(());
    }
    let doubles = strictly(array, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    match doubles.iter().flatten().find(|value| value.is_finite() && !(*value as f32).is_finite()) {
        Some(value) => Err(format!("it is {value}, and a FLOAT holds at most {}", f32::MAX)),
        None => Ok(()),
    }
}

/// A time within a day is no date: it is not cut off.
fn check_midnight(array: &ArrayRef) -> std::result::Result<(), String> {
    let cast = |array: &ArrayRef, to: &DataType| {
        cast_with_options(array, to, &STRICT).map_err(|error| error.to_string())
    };
    let midnights = cast(&cast(array, &DataType::Date32)?, array.data_type())?;
    match (0..array.len()).find(|&row| array.slice(row, 1) != midnights.slice(row, 1)) {
        Some(_) => Err("it has a time of day".to_string()),
        None => Ok(()),
    }
}

/// A number other than 0 and 1 is neither false nor true.
fn check_truth(array: &ArrayRef) -> std::result::Result<(), String> {
    let doubles = cast_with_options(array, &DataType::Float64, &STRICT).map_err(|error| error.to_string())?;
    match doubles.as_primitive::<Float64Type>().iter().flatten().find(|value| ![0.0, 1.0].contains(value)) {
        Some(value) => Err(format!("it is {value}")),
        None => Ok(()),
    }
}

/// Refuses a NULL designated timestamp; `before` rows came earlier.
///
/// # Errors
/// With the row and the column.
pub(crate) fn check_times(times: &ArrayRef, name: &str, before: u64) -> Result<()> {
    if times.null_count() == 0 {
        return Ok(());
    }
    let row = (0..times.len()).find(|&row| times.is_null(row)).unwrap_or_default();
    let row = before + row as u64 + 1;
    Err(QueryError::request(format!("row {row}: the designated timestamp '{name}' is NULL"))
        .state(SqlState::NotNull)
        .hint("every row of this table needs a time"))
}

/// That a table has no such column, and which it has.
pub(crate) fn no_such_column(table: &TableSchema, name: &str) -> QueryError {
    let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
    QueryError::request(format!("table '{}' has no column '{name}'", table.name()))
        .state(SqlState::UndefinedColumn)
        .hint(format!("its columns are {}", names.join(", ")))
}
