//! What an array may hold.

use crate::ColumnType;
use arrow_schema::{Field, FieldRef};
use std::fmt;
use std::sync::Arc;

/// The type of an array's elements: every scalar [`ColumnType`] but SYMBOL, whose ids are given out row by row.
#[allow(missing_docs, reason = "each is the column type of its name")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Varchar,
    Binary,
    Uuid,
    Date,
    Time,
    Timestamp,
    Decimal { precision: u8, scale: i8 },
}

impl ElementType {
    /// The element of this column type, `None` for SYMBOL and for arrays.
    pub fn of(column_type: ColumnType) -> Option<Self> {
        Some(match column_type {
            ColumnType::Boolean => ElementType::Boolean,
            ColumnType::Int8 => ElementType::Int8,
            ColumnType::Int16 => ElementType::Int16,
            ColumnType::Int32 => ElementType::Int32,
            ColumnType::Int64 => ElementType::Int64,
            ColumnType::UInt8 => ElementType::UInt8,
            ColumnType::UInt16 => ElementType::UInt16,
            ColumnType::UInt32 => ElementType::UInt32,
            ColumnType::UInt64 => ElementType::UInt64,
            ColumnType::Float32 => ElementType::Float32,
            ColumnType::Float64 => ElementType::Float64,
            ColumnType::Varchar => ElementType::Varchar,
            ColumnType::Binary => ElementType::Binary,
            ColumnType::Uuid => ElementType::Uuid,
            ColumnType::Date => ElementType::Date,
            ColumnType::Time => ElementType::Time,
            ColumnType::Timestamp => ElementType::Timestamp,
            ColumnType::Decimal { precision, scale } => ElementType::Decimal { precision, scale },
            ColumnType::Symbol | ColumnType::Array(_) => return None,
        })
    }

    /// The Arrow field of the elements, inside the engine and at the edge.
    pub fn field(self) -> FieldRef {
        Arc::new(Field::new_list_field(ColumnType::from(self).stored_type(), true))
    }
}

impl From<ElementType> for ColumnType {
    fn from(element: ElementType) -> Self {
        match element {
            ElementType::Boolean => ColumnType::Boolean,
            ElementType::Int8 => ColumnType::Int8,
            ElementType::Int16 => ColumnType::Int16,
            ElementType::Int32 => ColumnType::Int32,
            ElementType::Int64 => ColumnType::Int64,
            ElementType::UInt8 => ColumnType::UInt8,
            ElementType::UInt16 => ColumnType::UInt16,
            ElementType::UInt32 => ColumnType::UInt32,
            ElementType::UInt64 => ColumnType::UInt64,
            ElementType::Float32 => ColumnType::Float32,
            ElementType::Float64 => ColumnType::Float64,
            ElementType::Varchar => ColumnType::Varchar,
            ElementType::Binary => ColumnType::Binary,
            ElementType::Uuid => ColumnType::Uuid,
            ElementType::Date => ColumnType::Date,
            ElementType::Time => ColumnType::Time,
            ElementType::Timestamp => ColumnType::Timestamp,
            ElementType::Decimal { precision, scale } => ColumnType::Decimal { precision, scale },
        }
    }
}

impl fmt::Display for ElementType {
    /// The SQL name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ColumnType::from(*self).fmt(f)
    }
}
