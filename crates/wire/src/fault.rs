//! Why a row cannot be taken.

use crate::EpochUnit;
use tickstone_model::ColumnType;

/// Why a row is bad. It reads as the end of a sentence: "line 7, column 3 'price': 'abc' …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The field is not a value of the column's type.
    #[error("is not a {wanted}")]
    NotA {
        /// The column's type.
        wanted: ColumnType,
        /// A type that would hold it.
        fits: ColumnType,
    },
    /// The field is a value past what the column's type holds.
    #[error("is out of range of {wanted}")]
    OutOfRange {
        /// The column's type.
        wanted: ColumnType,
        /// A type that would hold it.
        fits: ColumnType,
    },
    /// A value of the inferred type that would not print as the field: `007` is no BIGINT.
    #[error("would not be kept as it is written by {wanted}, the type that this column's other values have")]
    Changed {
        /// The column's type.
        wanted: ColumnType,
    },
    /// An integer in a column of ISO 8601 timestamps.
    #[error("is a number, and the unit of this column's timestamps is not known")]
    UnknownUnit,
    /// A number that is in another unit than the one found for the column.
    #[error("is no time from 1980 to 2099 in {unit}, the unit of this column's other timestamps")]
    OtherUnit {
        /// The unit found.
        unit: EpochUnit,
    },
    /// The designated timestamp is empty.
    #[error("is empty, and the designated timestamp cannot be NULL")]
    NullTimestamp,
    /// Text that is not UTF-8.
    #[error("is not valid UTF-8")]
    NotUtf8,
    /// A record with too few or too many fields.
    #[error("has {found} fields where {expected} are expected")]
    FieldCount {
        /// Fields of the header, or of the first record.
        expected: usize,
        /// Fields of this record.
        found: usize,
    },
    /// A quoted field goes on after its closing quote.
    #[error("has text after its closing quote")]
    AfterQuote,
    /// A quoted field without an end.
    #[error("is a quoted field that is never closed")]
    UnclosedQuote,
    /// A line that is not a JSON object.
    #[error("is not a JSON object: {what}")]
    Json {
        /// What is wrong.
        what: &'static str,
    },
    /// A key of a JSON object that is no column's.
    #[error("has the key '{key}', which no column takes")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A name that differs in case from another of its line.
    #[error(
        "is a value of a second column, whose name differs from '{other}' in case only: tables take such names for one"
    )]
    Alike {
        /// The name before.
        other: String,
    },
    /// A field of line protocol that has no value, or a column of QWP that can have none.
    #[error("{what}")]
    Field {
        /// What is wrong, as the end of a sentence.
        what: &'static str,
    },
    /// A line that is not one of line protocol.
    #[error("is not a line of line protocol: {what}")]
    Line {
        /// What is wrong.
        what: &'static str,
    },
    /// A value of one type for a column of another.
    #[error("is {sent}, and the column is {wanted}")]
    Conflict {
        /// What the value is by its looks.
        sent: &'static str,
        /// The column's type.
        wanted: ColumnType,
    },
    /// A date with a time of day for a column of days.
    #[error("is no whole day, and the column is DATE")]
    NoWholeDay,
    /// A timestamp that 64 bits of nanoseconds do not hold.
    #[error("is no time between the years 1677 and 2262")]
    PastTime,
    /// A time for a table without a designated timestamp.
    #[error("is a time, and the table has no designated timestamp")]
    NoTime,
    /// Rows for a view.
    #[error("is a view, which has no rows of its own")]
    View,
    /// A line, or all lines of a table, with more columns than a table can have.
    #[error("is one column too many: a table has at most 4,096")]
    TooManyColumns,
    /// A name that no table, or no column, can have.
    #[error("is no name that a table or a column can have: {reason}")]
    Name {
        /// Why not.
        reason: &'static str,
    },
    /// A column has more distinct values than one chunk's ids count.
    #[error("is one symbol too many for a chunk")]
    TooManySymbols,
}

impl Fault {
    /// The name of the type that would take the value, for a hint; `None` where a type would not help.
    pub fn fitting_type(&self) -> Option<String> {
        match self {
            Fault::NotA { fits, .. } | Fault::OutOfRange { fits, .. } => Some(fits.to_string()),
            Fault::Changed { .. } => Some(ColumnType::Varchar.to_string()),
            _ => None,
        }
    }
}
