//! The types of columns on the wire.

use tickstone_model::{ColumnType, ElementType};

/// The type of a column on the wire.
#[allow(missing_docs, reason = "each is QuestDB's type of its name")]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireType {
    Boolean = 0x01,
    Byte = 0x02,
    Short = 0x03,
    Int = 0x04,
    Long = 0x05,
    Float = 0x06,
    Double = 0x07,
    Symbol = 0x09,
    /// Microseconds since the Unix epoch.
    Timestamp = 0x0a,
    /// Milliseconds since the Unix epoch.
    Date = 0x0b,
    Uuid = 0x0c,
    Long256 = 0x0d,
    Geohash = 0x0e,
    Varchar = 0x0f,
    /// Nanoseconds since the Unix epoch.
    TimestampNanos = 0x10,
    DoubleArray = 0x11,
    LongArray = 0x12,
    Decimal64 = 0x13,
    Decimal128 = 0x14,
    Decimal256 = 0x15,
    Char = 0x16,
    Binary = 0x17,
    Ipv4 = 0x18,
}

impl WireType {
    /// All of them, by code.
    pub const ALL: [WireType; 23] = [
        WireType::Boolean,
        WireType::Byte,
        WireType::Short,
        WireType::Int,
        WireType::Long,
        WireType::Float,
        WireType::Double,
        WireType::Symbol,
        WireType::Timestamp,
        WireType::Date,
        WireType::Uuid,
        WireType::Long256,
        WireType::Geohash,
        WireType::Varchar,
        WireType::TimestampNanos,
        WireType::DoubleArray,
        WireType::LongArray,
        WireType::Decimal64,
        WireType::Decimal128,
        WireType::Decimal256,
        WireType::Char,
        WireType::Binary,
        WireType::Ipv4,
    ];

    /// The type of this code.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u8 == code)
    }

    /// Whether its values are decimals.
    pub(super) fn is_decimal(self) -> bool {
        matches!(self, WireType::Decimal64 | WireType::Decimal128 | WireType::Decimal256)
    }

    /// The type of a column that is made for it; of decimals that of all they can be.
    pub(super) fn column_type(self) -> ColumnType {
        match self {
            WireType::Boolean => ColumnType::Boolean,
            WireType::Byte => ColumnType::Int8,
            WireType::Short => ColumnType::Int16,
            WireType::Int => ColumnType::Int32,
            WireType::Long => ColumnType::Int64,
            WireType::Float => ColumnType::Float32,
            WireType::Double => ColumnType::Float64,
            WireType::Symbol => ColumnType::Symbol,
            WireType::Timestamp | WireType::TimestampNanos | WireType::Date => ColumnType::Timestamp,
            WireType::Uuid => ColumnType::Uuid,
            WireType::Varchar | WireType::Long256 | WireType::Geohash | WireType::Char | WireType::Ipv4 => {
                ColumnType::Varchar
            }
            WireType::DoubleArray => ColumnType::Array(ElementType::Float64),
            WireType::LongArray => ColumnType::Array(ElementType::Int64),
            WireType::Decimal64 | WireType::Decimal128 | WireType::Decimal256 => {
                ColumnType::Decimal { precision: 38, scale: 0 }
            }
            WireType::Binary => ColumnType::Binary,
        }
    }

    /// What a value is, as in "is a whole number".
    pub(super) fn value_name(self) -> &'static str {
        match self {
            WireType::Boolean => "a boolean",
            WireType::Byte | WireType::Short | WireType::Int | WireType::Long => "a whole number",
            WireType::Float | WireType::Double => "a double",
            WireType::Symbol => "a symbol",
            WireType::Timestamp | WireType::TimestampNanos => "a timestamp",
            WireType::Date => "a date",
            WireType::Uuid => "a UUID",
            WireType::Long256 => "a LONG256",
            WireType::Geohash => "a geohash",
            WireType::Varchar => "a text",
            WireType::DoubleArray => "an array of doubles",
            WireType::LongArray => "an array of whole numbers",
            WireType::Decimal64 | WireType::Decimal128 | WireType::Decimal256 => "a decimal",
            WireType::Char => "a character",
            WireType::Binary => "binary data",
            WireType::Ipv4 => "an IPv4 address",
        }
    }
}
