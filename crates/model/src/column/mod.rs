//! Columns and their types.

mod element;

pub use element::ElementType;

use crate::{ModelError, Result};
use arrow_schema::{DataType, Field, TimeUnit};
use std::borrow::Cow;
use std::fmt;

/// What a column holds.
///
/// Each type has two Arrow forms: *stored* (inside the engine; a SYMBOL is its `u32` id) and *edge*
/// (what callers hand in and get back; a SYMBOL is a dictionary-encoded string).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 8-bit signed integer, TINYINT.
    Int8,
    /// 16-bit signed integer, SMALLINT.
    Int16,
    /// 32-bit signed integer, INT.
    Int32,
    /// 64-bit signed integer, BIGINT.
    Int64,
    /// 8-bit unsigned integer.
    UInt8,
    /// 16-bit unsigned integer.
    UInt16,
    /// 32-bit unsigned integer.
    UInt32,
    /// 64-bit unsigned integer.
    UInt64,
    /// 32-bit IEEE 754, FLOAT.
    Float32,
    /// 64-bit IEEE 754, DOUBLE.
    Float64,
    /// Exact decimal of up to 38 digits.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// Dictionary-encoded string; the type of a series key.
    Symbol,
    /// UTF-8 text.
    Varchar,
    /// Bytes.
    Binary,
    /// 16 bytes.
    Uuid,
    /// Days since 1970-01-01.
    Date,
    /// Time of day: nanoseconds since midnight.
    Time,
    /// Nanoseconds since the Unix epoch, UTC.
    Timestamp,
    /// Values of one scalar type in a row, in order: `DOUBLE[]`. Each may be NULL, and so may the whole.
    Array(ElementType),
}

impl ColumnType {
    /// The Arrow type of the column inside the engine.
    pub fn stored_type(self) -> DataType {
        match self {
            ColumnType::Boolean => DataType::Boolean,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::UInt8 => DataType::UInt8,
            ColumnType::UInt16 => DataType::UInt16,
            ColumnType::UInt32 | ColumnType::Symbol => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnType::Varchar => DataType::Utf8,
            ColumnType::Binary => DataType::Binary,
            ColumnType::Uuid => DataType::FixedSizeBinary(16),
            ColumnType::Date => DataType::Date32,
            ColumnType::Time => DataType::Time64(TimeUnit::Nanosecond),
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            ColumnType::Array(element) => DataType::List(element.field()),
        }
    }

    /// The Arrow type of the column at the edge: [`Self::stored_type`], but SYMBOL is
    /// `Dictionary(UInt32, Utf8)`.
    pub fn edge_type(self) -> DataType {
        match self {
            ColumnType::Symbol => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
            other => other.stored_type(),
        }
    }

    /// The type of an array's elements, `None` for a scalar.
    pub fn element(self) -> Option<ElementType> {
        match self {
            ColumnType::Array(element) => Some(element),
            _ => None,
        }
    }

    /// Whether it is an array.
    pub fn is_array(self) -> bool {
        self.element().is_some()
    }

    /// The column type an Arrow type is stored as, `None` for those with no place in a table
    /// (structs, intervals, lists of lists, …). Dictionaries of strings become SYMBOL, lists of them VARCHAR[].
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => ColumnType::Boolean,
            DataType::Int8 => ColumnType::Int8,
            DataType::Int16 => ColumnType::Int16,
            DataType::Int32 => ColumnType::Int32,
            DataType::Int64 => ColumnType::Int64,
            DataType::UInt8 => ColumnType::UInt8,
            DataType::UInt16 => ColumnType::UInt16,
            DataType::UInt32 => ColumnType::UInt32,
            DataType::UInt64 => ColumnType::UInt64,
            DataType::Float16 | DataType::Float32 => ColumnType::Float32,
            DataType::Float64 => ColumnType::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
                if *scale >= 0 =>
            {
                ColumnType::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Varchar,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ColumnType::Binary,
            DataType::FixedSizeBinary(16) => ColumnType::Uuid,
            DataType::Date32 | DataType::Date64 => ColumnType::Date,
            DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
            DataType::Timestamp(_, _) => ColumnType::Timestamp,
            DataType::Dictionary(_, value) => match value.as_ref() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Symbol,
                other => return ColumnType::from_arrow(other),
            },
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => match ColumnType::from_arrow(field.data_type())? {
                ColumnType::Symbol => ColumnType::Array(ElementType::Varchar),
                scalar => ColumnType::Array(ElementType::of(scalar)?),
            },
            _ => return None,
        })
    }

    /// The type a SQL name stands for, in any case, with the usual synonyms; an array's is its elements' with `[]`.
    /// INT1, INT2, INT4 and INT8 count bytes, as in PostgreSQL and DuckDB; INT16, INT32 and INT64 count bits. The length
    /// of `VARCHAR(10)` and the digits of `TIMESTAMP(6)` bound nothing, as in DuckDB.
    ///
    /// # Errors
    /// [`ModelError::UnknownType`], [`ModelError::DecimalRange`] for a DECIMAL out of range, or
    /// [`ModelError::ElementType`] for an array of what can be no element.
    pub fn parse(name: &str) -> Result<Self> {
        if let Some(element) =
            name.trim().strip_suffix(']').and_then(|name| name.trim_end().strip_suffix('['))
        {
            let element = ColumnType::parse(element)?;
            let array = ElementType::of(element).map(ColumnType::Array);
            return array.ok_or(ModelError::ElementType { element });
        }
        let folded = name.trim().to_ascii_uppercase();
        if let Some(arguments) = folded.strip_prefix("DECIMAL").or_else(|| folded.strip_prefix("NUMERIC")) {
            return parse_decimal(name, arguments);
        }
        let words = folded.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(match without_length(&words).as_ref() {
            "BOOLEAN" | "BOOL" => ColumnType::Boolean,
            "TINYINT" | "INT1" | "BYTE" => ColumnType::Int8,
            "SMALLINT" | "INT2" | "INT16" | "SHORT" => ColumnType::Int16,
            "INT" | "INTEGER" | "INT4" | "INT32" => ColumnType::Int32,
            "BIGINT" | "LONG" | "INT8" | "INT64" => ColumnType::Int64,
            "TINYINT UNSIGNED" | "UTINYINT" | "UINT8" => ColumnType::UInt8,
            "SMALLINT UNSIGNED" | "USMALLINT" | "UINT16" => ColumnType::UInt16,
            "INT UNSIGNED" | "INTEGER UNSIGNED" | "UINTEGER" | "UINT32" => ColumnType::UInt32,
            "BIGINT UNSIGNED" | "UBIGINT" | "UINT64" => ColumnType::UInt64,
            // By the SQL standard a FLOAT says how many bits its digits have.
            words if float_bits(words).is_some_and(|bits| bits <= 24) => ColumnType::Float32,
            words if float_bits(words).is_some() => ColumnType::Float64,
            "FLOAT" | "REAL" | "FLOAT32" | "FLOAT4" => ColumnType::Float32,
            "DOUBLE" | "DOUBLE PRECISION" | "FLOAT64" | "FLOAT8" => ColumnType::Float64,
            "SYMBOL" => ColumnType::Symbol,
            "VARCHAR" | "TEXT" | "STRING" | "CHARACTER VARYING" | "CHAR" | "IPV4" => ColumnType::Varchar,
            "BINARY" | "BYTEA" | "BLOB" | "VARBINARY" => ColumnType::Binary,
            "UUID" => ColumnType::Uuid,
            "DATE" => ColumnType::Date,
            "TIME" | "TIME WITHOUT TIME ZONE" => ColumnType::Time,
            "TIMESTAMP"
            | "TIMESTAMP_NS"
            | "TIMESTAMPTZ"
            | "TIMESTAMP WITH TIME ZONE"
            | "TIMESTAMP WITHOUT TIME ZONE" => ColumnType::Timestamp,
            _ => return Err(ModelError::UnknownType { name: name.to_string() }),
        })
    }
}

/// A type without the number of characters, or of digits of a second, that may stand behind its first words.
fn without_length(words: &str) -> Cow<'_, str> {
    let parts = words.split_once('(').and_then(|(of, rest)| Some((of, rest.split_once(')')?)));
    let Some((of, (number, rest))) = parts else { return Cow::Borrowed(words) };
    let most = match of.trim_end() {
        "VARCHAR" | "CHARACTER VARYING" => u32::MAX,
        "TIMESTAMP" | "TIME" => 9,
        _ => return Cow::Borrowed(words),
    };
    match number.trim().parse::<u32>() {
        Ok(number) if number <= most => Cow::Owned(format!("{}{rest}", of.trim_end())),
        _ => Cow::Borrowed(words),
    }
}

/// The bits of `FLOAT(53)`, 1 to 53.
fn float_bits(words: &str) -> Option<u32> {
    let bits = words.strip_prefix("FLOAT")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    bits.trim().parse().ok().filter(|bits| (1..=53).contains(bits))
}

fn parse_decimal(name: &str, arguments: &str) -> Result<ColumnType> {
    let unknown = || ModelError::UnknownType { name: name.to_string() };
    let inner = match arguments.trim() {
        "" => "18,3",
        text => text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).ok_or_else(unknown)?,
    };
    let mut numbers = inner.split(',').map(|n| n.trim().parse::<u32>().map_err(|_| unknown()));
    let precision = numbers.next().ok_or_else(unknown)??;
    let scale = numbers.next().transpose()?.unwrap_or(0);
    if numbers.next().is_some() {
        return Err(unknown());
    }
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if scale <= precision => Ok(ColumnType::Decimal { precision: p, scale: s }),
        _ => Err(ModelError::DecimalRange { precision, scale }),
    }
}

impl fmt::Display for ColumnType {
    /// The SQL name; [`ColumnType::parse`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Boolean => "BOOLEAN",
            ColumnType::Int8 => "TINYINT",
            ColumnType::Int16 => "SMALLINT",
            ColumnType::Int32 => "INT",
            ColumnType::Int64 => "BIGINT",
            ColumnType::UInt8 => "TINYINT UNSIGNED",
            ColumnType::UInt16 => "SMALLINT UNSIGNED",
            ColumnType::UInt32 => "INT UNSIGNED",
            ColumnType::UInt64 => "BIGINT UNSIGNED",
            ColumnType::Float32 => "FLOAT",
            ColumnType::Float64 => "DOUBLE",
            ColumnType::Decimal { precision, scale } => return write!(f, "DECIMAL({precision},{scale})"),
            ColumnType::Symbol => "SYMBOL",
            ColumnType::Varchar => "VARCHAR",
            ColumnType::Binary => "BINARY",
            ColumnType::Uuid => "UUID",
            ColumnType::Date => "DATE",
            ColumnType::Time => "TIME",
            ColumnType::Timestamp => "TIMESTAMP",
            ColumnType::Array(element) => return write!(f, "{element}[]"),
        })
    }
}

/// A named, typed column. Every column but the designated timestamp may hold NULLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name, as created; compared without regard to case when a table is made.
    pub name: String,
    /// What it holds.
    pub column_type: ColumnType,
}

impl Column {
    /// A column of this name and type.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type }
    }

    /// Refuses an array, which `clause` has no order or equality to go by.
    pub(crate) fn check_scalar(&self, clause: &'static str) -> Result<()> {
        if self.column_type.is_array() {
            let (name, found) = (self.name.clone(), self.column_type);
            return Err(ModelError::WrongColumnType { clause, name, wanted: "scalar", found });
        }
        Ok(())
    }

    /// The Arrow field inside the engine.
    pub fn stored_field(&self) -> Field {
        Field::new(&self.name, self.column_type.stored_type(), true)
    }

    /// The Arrow field at the edge.
    pub fn edge_field(&self) -> Field {
        Field::new(&self.name, self.column_type.edge_type(), true)
    }
}

#[cfg(test)]
mod tests;
