//! Rows as JSON and as CSV, value by value into bytes.

use std::fmt::Write;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::cast::AsArray;
use tickstone_query::arrow::array::{Array, ArrayRef, RecordBatch};
use tickstone_query::arrow::datatypes::{DataType, TimeUnit};
use tickstone_query::export::{Cells, TimeStyle};

/// What QuestDB calls a type.
pub(super) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "BYTE".into(),
        DataType::Int16 | DataType::UInt8 => "SHORT".into(),
        DataType::Int32 | DataType::UInt16 => "INT".into(),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "LONG".into(),
        DataType::Float16 | DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "TIMESTAMP_NS".into(),
        DataType::Timestamp(..) => "TIMESTAMP".into(),
        DataType::Dictionary(_, values) if values.is_string() => "SYMBOL".into(),
        DataType::Dictionary(_, values) => type_name(values),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "ARRAY".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        other => tickstone_query::type_name(other),
    }
}

/// The values of a batch's columns.
pub(super) struct Row<'a> {
    columns: Vec<Values<'a>>,
    scratch: String,
}

struct Values<'a> {
    cells: Cells<'a>,
    array: &'a ArrayRef,
    form: Form,
    /// Those of a list's elements.
    elements: Option<Box<Values<'a>>>,
}

/// How a value is written.
#[derive(Clone, Copy)]
enum Form {
    /// As it stands.
    Plain,
    /// As it stands, NaN and infinities as null.
    Float,
    /// An array of its elements.
    List,
    /// In quotes.
    Text,
}

fn form(data_type: &DataType) -> Form {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Form::Float,
        DataType::Dictionary(_, values) => form(values),
        DataType::List(_) => Form::List,
        DataType::Boolean => Form::Plain,
        other if other.is_numeric() => Form::Plain,
        _ => Form::Text,
    }
}

impl<'a> Row<'a> {
    pub(super) fn of(batch: &'a RecordBatch) -> Result<Self, QueryError> {
        let columns = batch.columns().iter().map(Values::of);
        Ok(Self { columns: columns.collect::<Result<_, QueryError>>()?, scratch: String::new() })
    }

    /// Puts a row behind `out` as an array of JSON.
    pub(super) fn json(&mut self, row: usize, out: &mut String) {
        for (place, column) in self.columns.iter().enumerate() {
            out.push(if place == 0 { '[' } else { ',' });
            column.json(row, &mut self.scratch, out);
        }
        out.push_str(if self.columns.is_empty() { "[]" } else { "]" });
    }

    /// Puts a row behind `out` as a line of CSV; NULL is nothing, an empty text two quotes.
    pub(super) fn csv(&mut self, row: usize, out: &mut String) {
        for (place, column) in self.columns.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            if column.cells.is_null(row) {
                continue;
            }
            self.scratch.clear();
            column.cells.write(row, &mut self.scratch);
            match self.scratch.is_empty() || self.scratch.contains([',', '"', '\n', '\r']) {
                true => {
                    let _ = write!(out, "\"{}\"", self.scratch.replace('"', "\"\""));
                }
                false => out.push_str(&self.scratch),
            }
        }
        out.push_str("\r\n");
    }
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, QueryError> {
        let elements = match array.as_list_opt::<i32>() {
            Some(lists) => Some(Box::new(Values::of(lists.values())?)),
            None => None,
        };
        let cells = Cells::new(array, TimeStyle::Full)?;
        Ok(Self { cells, array, form: form(array.data_type()), elements })
    }

    /// Puts a value behind `out` as JSON.
    fn json(&self, row: usize, scratch: &mut String, out: &mut String) {
        if self.cells.is_null(row) {
            out.push_str("null");
            return;
        }
        match (self.form, &self.elements, self.array.as_list_opt::<i32>()) {
            (Form::List, Some(elements), Some(lists)) => {
                let ends = &lists.value_offsets()[row..row + 2];
                let range = ends[0].cast_unsigned() as usize..ends[1].cast_unsigned() as usize;
                out.push('[');
                for at in range.clone() {
                    if at > range.start {
                        out.push(',');
                    }
                    elements.json(at, scratch, out);
                }
                out.push(']');
            }
            (Form::Float, ..) => {
                let start = out.len();
                self.cells.write(row, out);
                // NaN and infinities have no digits.
                if !out[start..].contains(|c: char| c.is_ascii_digit()) {
                    out.truncate(start);
                    out.push_str("null");
                }
            }
            (Form::Plain, ..) => self.cells.write(row, out),
            _ => {
                scratch.clear();
                self.cells.write(row, scratch);
                quoted(scratch, out);
            }
        }
    }
}

/// Puts a text behind `out` in quotes, as JSON has it (RFC 8259).
pub(super) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        let (plain, odd) = rest.split_at(at);
        out.push_str(plain);
        let byte = odd.as_bytes()[0];
        // Writing to a String does not fail.
        let _ = match byte {
            b'"' => out.write_str("\\\""),
            b'\\' => out.write_str("\\\\"),
            b'\n' => out.write_str("\\n"),
            b'\r' => out.write_str("\\r"),
            b'\t' => out.write_str("\\t"),
            other => write!(out, "\\u{other:04x}"),
        };
        rest = &odd[1..];
    }
    out.push_str(rest);
    out.push('"');
}
