//! Texts as values of other types, and values as texts: what files, parameters and literals have in common.

mod array;
mod cell;
mod exponent;
pub(crate) mod interval;
mod shown;

pub use array::array_elements;
pub use cell::{Cells, TimeStyle};
pub use exponent::without_exponent;
pub use shown::without_passwords;

use arrow_array::cast::AsArray;
use arrow_array::types::Time64NanosecondType;
use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray};
use arrow_cast::parse::Parser;
use arrow_schema::{ArrowError, DataType, Field};
use datafusion::common::plan_datafusion_err;
use datafusion::error::DataFusionError;
use std::borrow::Cow;
use std::sync::Arc;
use tickstone_wire::{parse_hex, parse_iso};

/// Bytes of a UUID, whose type in plans is FixedSizeBinary of so many.
pub(crate) const UUID_BYTES: i32 = 16;

/// Nanoseconds since the epoch of an ISO 8601 time, hour (`2024-08-08T10`), date, month (`2024-08`) or year (`2024`);
/// `infinity` and `-infinity` are the last and the first instant that there is.
pub(crate) fn parse_instant(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "infinity" | "inf" | "+infinity" => return Some(i64::MAX),
        "-infinity" | "-inf" => return Some(i64::MIN),
        _ => {}
    }
    let completed = match text.len() {
        4 => format!("{text}-01-01"),
        7 => format!("{text}-01"),
        13 if text.as_bytes()[10] == b'T' => format!("{text}:00"),
        _ => return parse_iso(text.as_bytes()),
    };
    parse_iso(completed.as_bytes())
}

/// Nanoseconds since midnight of a time of day. Arrow reads digits alone as a count of them, which nobody means, and a
/// second 60 as the next minute's first, past the end of the day too.
pub(crate) fn parse_time_of_day(text: &str) -> Option<i64> {
    let text = text.trim();
    let is_clock =
        text.contains(':') && !text.split(':').nth(2).is_some_and(|second| second.starts_with("60"));
    is_clock.then(|| Time64NanosecondType::parse(text)).flatten()
}

/// The bytes that a text stands for: those of `\x00ff` in hexadecimal digits ("Binary Data Types", in PostgreSQL's
/// manual), its own of any other; `None` where such digits are none.
pub fn parse_bytes(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.starts_with("\\x") {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = Vec::with_capacity(text.len() / 2);
    parse_hex(text.as_bytes(), &mut bytes).then_some(Cow::Owned(bytes))
}

/// That a text is no time of day.
pub(crate) fn no_time_of_day(text: &str) -> DataFusionError {
    plan_datafusion_err!("'{text}' is no TIME such as '09:30', '09:30:00.123456789' or '4:00 PM'")
}

/// Whether a text has digits: a number that is read as infinite has none where it was meant.
pub(crate) fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// That a number in a text is past the largest of a type.
pub(crate) fn past_numbers(text: &str, of: &DataType) -> DataFusionError {
    plan_datafusion_err!("'{text}' is out of range for a {of}")
}

pub(crate) fn no_uuid(text: &str) -> DataFusionError {
    plan_datafusion_err!("'{text}' is no UUID such as '67e55044-10b1-426f-9247-bb680e5fe0c8'")
}

/// UUIDs as text, also in lists and structs; anything else as it is.
pub(crate) fn uuids_as_text(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    let as_text = |field: &Arc<Field>, values: &ArrayRef| {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    match array.data_type() {
        other if !holds_uuids(other) => Ok(Arc::clone(array)),
        DataType::List(field) => {
            let lists = array.as_list::<i32>();
            let values = uuids_as_text(lists.values())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(as_text(field, &values), offsets, values, nulls)?))
        }
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let columns = structs.columns().iter().map(uuids_as_text);
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, values)| as_text(field, values));
            let fields = fields.collect::<Vec<_>>().into();
            Ok(Arc::new(StructArray::try_new(fields, columns, structs.nulls().cloned())?))
        }
        _ => {
            let cells = Cells::new(array, TimeStyle::Full)?;
            let text = |row: usize| {
                let mut text = String::new();
                cells.write(row, &mut text);
                (!cells.is_null(row)).then_some(text)
            };
            Ok(Arc::new((0..array.len()).map(text).collect::<StringArray>()))
        }
    }
}

pub(crate) fn holds_uuids(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(16) => true,
        DataType::List(field) => holds_uuids(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_uuids(field.data_type())),
        _ => false,
    }
}

/// A size in bytes: `512`, `64KB`, `64MB`, `1GB`, `2TB`, powers of 1,024; `None` for what is none.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" | "KIB" => 1 << 10,
        "MB" | "MIB" => 1 << 20,
        "GB" | "GIB" => 1 << 30,
        "TB" | "TIB" => 1 << 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
