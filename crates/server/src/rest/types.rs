//! What the types of columns are called in answers: as QuestDB does where it has the type, as SQL does where it has not.
//!
//! | here | there | why |
//! |---|---|---|
//! | BIGINT UNSIGNED | `BIGINT UNSIGNED` | there is none; a LONG would lose its upper half |
//! | TIME, INTERVAL, a length of time | `TIME`, `INTERVAL` | texts |
//! | ROW and other structs | `STRUCT` | objects |
//! | NULL | `NULL` | a column of nothing else |

use crate::json::quoted;
use std::io::Write;
use tickstone_query::arrow::datatypes::{DataType, Field, TimeUnit};

/// What a type is called.
pub(super) fn name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "BYTE",
        DataType::Int16 | DataType::UInt8 => "SHORT",
        DataType::Int32 | DataType::UInt16 => "INT",
        DataType::Int64 | DataType::UInt32 => "LONG",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "TIMESTAMP_NS",
        DataType::Timestamp(..) => "TIMESTAMP",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Dictionary(_, values) if values.is_string() => "SYMBOL",
        DataType::Dictionary(_, values) => return name(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Struct(_) | DataType::Map(..) => "STRUCT",
        other if element(other).is_some() => "ARRAY",
        other => return tickstone_query::type_name(other),
    };
    name.into()
}

/// The bytes that a value takes there, 0 where lengths differ.
pub(super) fn size(data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 1,
        DataType::Dictionary(..) => 4,
        DataType::FixedSizeBinary(16) => 16,
        DataType::Date32 => 8,
        other => other.primitive_width().unwrap_or(0),
    }
}

/// The field of an array's elements.
fn element(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => Some(element),
        _ => None,
    }
}

/// Puts a column behind `out` as an object: its name and type; of an array the dimensions and what it holds.
pub(super) fn column(field: &Field, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\":");
    quoted(field.name(), out);
    out.extend_from_slice(b",\"type\":");
    quoted(&name(field.data_type()), out);
    let (mut dimensions, mut inner) = (0, field.data_type());
    while let Some(element) = element(inner) {
        (dimensions, inner) = (dimensions + 1, element.data_type());
    }
    if dimensions > 0 {
        // Writing to memory does not fail.
        let _ = write!(out, ",\"dim\":{dimensions},\"elemType\":");
        quoted(&name(inner), out);
    }
    out.push(b'}');
}
