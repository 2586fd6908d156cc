//! What a parser makes of each field.

use std::fmt;
use tickstone_model::ColumnType;

/// How the rows of a file become columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The columns to fill, in the table's order.
    pub columns: Vec<ColumnPlan>,
    /// For each field of a CSV record the index into `columns` it fills, `None` to ignore it. A column
    /// that no field fills is NULL. Unused by NDJSON, which goes by [`ColumnPlan::source`].
    pub fields: Vec<Option<usize>>,
}

/// One column to fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPlan {
    /// Its name in the file (CSV header, JSON key); of the table's column where the file has none.
    pub source: String,
    /// Its type.
    pub column_type: ColumnType,
    /// How a TIMESTAMP is written; ignored for other types.
    pub time: TimeFormat,
    /// Whether an empty field is a fault (the designated timestamp) instead of NULL.
    pub required: bool,
}

/// How a column's timestamps are written. ISO 8601 is accepted always: it has one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeFormat {
    /// ISO 8601 only; an integer is a fault, since its unit is not known.
    #[default]
    Iso,
    /// A count of this unit since the Unix epoch, with or without a decimal fraction.
    Epoch(EpochUnit),
}

/// The unit of an integer timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EpochUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

impl EpochUnit {
    /// Nanoseconds in one.
    pub const fn nanos(self) -> i64 {
        match self {
            EpochUnit::Second => 1_000_000_000,
            EpochUnit::Millisecond => 1_000_000,
            EpochUnit::Microsecond => 1_000,
            EpochUnit::Nanosecond => 1,
        }
    }

    /// The unit an epoch timestamp of this size must be in: seconds below 10^11 (the year 5138),
    /// milliseconds below 10^14, microseconds below 10^17, else nanoseconds.
    pub const fn of_magnitude(value: u64) -> Self {
        match value {
            0..100_000_000_000 => EpochUnit::Second,
            100_000_000_000..100_000_000_000_000 => EpochUnit::Millisecond,
            100_000_000_000_000..100_000_000_000_000_000 => EpochUnit::Microsecond,
            _ => EpochUnit::Nanosecond,
        }
    }
}

impl fmt::Display for EpochUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EpochUnit::Second => "s",
            EpochUnit::Millisecond => "ms",
            EpochUnit::Microsecond => "us",
            EpochUnit::Nanosecond => "ns",
        })
    }
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeFormat::Iso => f.write_str("ISO 8601"),
            TimeFormat::Epoch(unit) => write!(f, "{unit} since 1970"),
        }
    }
}
