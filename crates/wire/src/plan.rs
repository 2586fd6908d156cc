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
    /// Whether the type was inferred from a sample: a field that its value would not print as is a fault then, since it
    /// says that the type is another.
    pub inferred: bool,
}

impl ColumnPlan {
    /// Whether nothing between quotes is a value of the column, and not NULL.
    pub(crate) fn has_empty(&self) -> bool {
        matches!(self.column_type, ColumnType::Symbol | ColumnType::Varchar | ColumnType::Binary)
    }
}

/// How a column's timestamps are written. ISO 8601 is accepted always: it has one meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeFormat {
    /// ISO 8601 only; an integer is a fault, since its unit is not known.
    #[default]
    Iso,
    /// A count of this unit since the Unix epoch, with or without a decimal fraction.
    Epoch(EpochUnit),
    /// The same where the unit was concluded from a sample: a time before 1980 or after 2099 in that unit
    /// is a fault, since its own unit is another one.
    GuessedEpoch(EpochUnit),
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

/// Seconds since the epoch a recorded time can plausibly be: 1980 up to and without 2100.
pub(crate) const PLAUSIBLE_SECONDS: std::ops::Range<i64> = 315_532_800..4_102_444_800;

impl TimeFormat {
    /// The unit of whole numbers, `None` where there are none.
    pub fn unit(self) -> Option<EpochUnit> {
        match self {
            TimeFormat::Iso => None,
            TimeFormat::Epoch(unit) | TimeFormat::GuessedEpoch(unit) => Some(unit),
        }
    }

    /// Whether a number that is this time, in nanoseconds since the epoch, can be in the column's unit.
    #[inline]
    pub fn is_plausible(self, nanos: i64) -> bool {
        const NANOS: std::ops::Range<i64> =
            PLAUSIBLE_SECONDS.start * 1_000_000_000..PLAUSIBLE_SECONDS.end * 1_000_000_000;
        !matches!(self, TimeFormat::GuessedEpoch(_)) || NANOS.contains(&nanos)
    }
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

impl EpochUnit {
    /// The name of a TIMESTAMP whose whole numbers are in this unit, as `--type` takes it.
    pub const fn type_name(self) -> &'static str {
        match self {
            EpochUnit::Second => "TIMESTAMP_S",
            EpochUnit::Millisecond => "TIMESTAMP_MS",
            EpochUnit::Microsecond => "TIMESTAMP_US",
            EpochUnit::Nanosecond => "TIMESTAMP_NS",
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
            TimeFormat::Epoch(unit) | TimeFormat::GuessedEpoch(unit) => write!(f, "{unit} since 1970"),
        }
    }
}
