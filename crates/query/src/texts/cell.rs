//! One value as text.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int64Array, ListArray, StringArray,
    TimestampNanosecondArray,
};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::fmt::Write;
use std::ops::Range;
use tickstone_model::format_nanos;

/// How timestamps look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeStyle {
    /// ISO 8601 with all nine digits: for machines.
    Full,
    /// ISO 8601 with as many digits as the value needs: for people.
    Short,
}

/// The values of one column as text.
pub struct Cells<'a> {
    array: &'a dyn Array,
    /// Also the NULLs that stand in a dictionary's values, or in no bitmap at all.
    nulls: Option<NullBuffer>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Float64(&'a Float64Array),
    Int64(&'a Int64Array),
    Text(&'a StringArray),
    Symbol(&'a DictionaryArray<UInt32Type>, &'a StringArray),
    Timestamp(&'a TimestampNanosecondArray, TimeStyle),
    Uuid(&'a FixedSizeBinaryArray),
    List(&'a ListArray, Box<Cells<'a>>),
    Other(ArrayFormatter<'a>),
}

impl std::fmt::Debug for Cells<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cells").field("array", &self.array.data_type()).finish_non_exhaustive()
    }
}

/// How the types without a faster way here look.
const OPTIONS: FormatOptions<'static> = FormatOptions::new()
    .with_null("")
    .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.fZ"))
    .with_datetime_format(Some("%Y-%m-%dT%H:%M:%S%.f"));

impl<'a> Cells<'a> {
    /// The values of `array`.
    ///
    /// # Errors
    /// Where Arrow cannot show its type.
    pub fn new(array: &'a ArrayRef, style: TimeStyle) -> Result<Self, ArrowError> {
        let kind = match array.data_type() {
            DataType::Float64 => Kind::Float64(array.as_primitive::<Float64Type>()),
            DataType::Int64 => Kind::Int64(array.as_primitive::<Int64Type>()),
            DataType::Utf8 => Kind::Text(array.as_string()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Kind::Timestamp(array.as_primitive::<TimestampNanosecondType>(), style)
            }
            DataType::FixedSizeBinary(16) => Kind::Uuid(array.as_fixed_size_binary()),
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                Kind::List(lists, Box::new(Cells::new(lists.values(), style)?))
            }
            _ => match symbols(array) {
                Some((dictionary, values)) => Kind::Symbol(dictionary, values),
                None => Kind::Other(ArrayFormatter::try_new(array.as_ref(), &OPTIONS)?),
            },
        };
        Ok(Self { array: array.as_ref(), nulls: array.logical_nulls(), kind })
    }

    /// Whether the value is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Puts the value's text behind `out`; nothing for NULL.
    ///
    /// # Panics
    /// Where there is no such row.
    pub fn write(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            return;
        }
        // Writing to a String does not fail.
        let _ = match &self.kind {
            Kind::Float64(values) => write_f64(values.value(row), out),
            Kind::Int64(values) => write!(out, "{}", values.value(row)),
            Kind::Text(values) => out.write_str(values.value(row)),
            Kind::Symbol(dictionary, values) => {
                out.write_str(dictionary.key(row).map_or("", |key| values.value(key)))
            }
            Kind::Timestamp(values, TimeStyle::Short) => out.write_str(&format_nanos(values.value(row))),
            Kind::Timestamp(values, TimeStyle::Full) => write_full(values.value(row), out),
            Kind::Uuid(values) => write_uuid(values.value(row), out),
            Kind::List(lists, elements) => {
                let ends = &lists.value_offsets()[row..row + 2];
                elements.write_list(ends[0].cast_unsigned() as usize..ends[1].cast_unsigned() as usize, out)
            }
            Kind::Other(formatter) => write!(out, "{}", formatter.value(row)),
        };
    }
}

impl Cells<'_> {
    /// Puts an array of some of the values behind `out`, as JSON: an import reads it back.
    fn write_list(&self, rows: Range<usize>, out: &mut String) -> std::fmt::Result {
        let data_type = self.array.data_type();
        let is_plain = data_type.is_numeric() || matches!(data_type, DataType::Boolean | DataType::List(_));
        let first = rows.start;
        out.push('[');
        for row in rows {
            out.push_str(if row > first { ", " } else { "" });
            if self.is_null(row) {
                out.push_str("null");
                continue;
            }
            let start = out.len();
            self.write(row, out);
            let text = out.split_off(start);
            match (is_plain, text.as_str()) {
                (true, "inf") => out.push_str("Infinity"),
                (true, "-inf") => out.push_str("-Infinity"),
                (true, text) => out.push_str(text),
                (false, text) => write_quoted(text, out)?,
            }
        }
        out.push(']');
        Ok(())
    }
}

/// A string of JSON.
fn write_quoted(text: &str, out: &mut String) -> std::fmt::Result {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control))?,
            plain => out.push(plain),
        }
    }
    out.push('"');
    Ok(())
}

fn symbols(array: &ArrayRef) -> Option<(&DictionaryArray<UInt32Type>, &StringArray)> {
    let dictionary = array.as_dictionary_opt::<UInt32Type>()?;
    Some((dictionary, dictionary.values().as_string_opt::<i32>()?))
}

/// The shortest digits that give the same double; an exponent where zeros would fill the line.
fn write_f64(value: f64, out: &mut String) -> std::fmt::Result {
    let size = value.abs();
    if size == 0.0 || (1e-7..1e17).contains(&size) || !value.is_finite() {
        write!(out, "{value}")
    } else {
        write!(out, "{value:e}")
    }
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12 (RFC 9562).
fn write_uuid(bytes: &[u8], out: &mut String) -> std::fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(out, "{dash}{byte:02x}")?;
    }
    Ok(())
}

/// All nine digits of the fraction.
fn write_full(ts: i64, out: &mut String) -> std::fmt::Result {
    let text = format_nanos(ts);
    let plain = text.trim_end_matches('Z');
    let (seconds, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    write!(out, "{seconds}.{fraction:0<9}Z")
}

#[cfg(test)]
mod tests;
