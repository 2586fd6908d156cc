//! What can be wrong with a schema or a batch.

use crate::ColumnType;

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, ModelError>;

/// A schema or a row batch that breaks a rule of the domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A type name no column can have.
    #[error(
        "unknown column type '{name}'; known are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT (and \
         unsigned), FLOAT, DOUBLE, DECIMAL(p,s), SYMBOL, VARCHAR, BINARY, UUID, DATE and TIMESTAMP, and \
         arrays of them, as in DOUBLE[]"
    )]
    UnknownType {
        /// The name as written.
        name: String,
    },
    /// A DECIMAL whose precision or scale is out of range.
    #[error("DECIMAL({precision},{scale}): precision must be 1 to 38 and scale 0 to the precision")]
    DecimalRange {
        /// Digits in all.
        precision: u32,
        /// Digits after the point.
        scale: u32,
    },
    /// An array of what can be no element.
    #[error(
        "there are no arrays of {element}; arrays have one dimension and hold scalars other than SYMBOL \
         (VARCHAR[] holds text)"
    )]
    ElementType {
        /// The type of the elements as written.
        element: ColumnType,
    },
    /// A partition unit no table can have.
    #[error("unknown partition unit '{name}'; known are NONE, HOUR, DAY, WEEK, MONTH and YEAR")]
    UnknownPartitionUnit {
        /// The name as written.
        name: String,
    },
    /// A sync policy no table can have.
    #[error("unknown sync policy '{name}'; known are 'always', 'interval' and 'none'")]
    UnknownSyncPolicy {
        /// The name as written.
        name: String,
    },
    /// A table, or column name that cannot be used.
    #[error("{what} name {name:?} is not allowed: {reason}")]
    Name {
        /// "table" or "column".
        what: &'static str,
        /// The name as written.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A view where a table is needed, or a table where a view is.
    #[error("'{name}' is {found}")]
    WrongKind {
        /// Its name.
        name: String,
        /// What it is.
        found: &'static str,
    },
    /// A schema without columns or with more than [`crate::MAX_COLUMNS`].
    #[error("a table has 1 to {most} columns, not {count}")]
    ColumnCount {
        /// How many were given.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// Two columns of one name (names differ by more than case).
    #[error("two columns are named '{name}' (column names do not differ by case)")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
    /// A clause names a column the table does not have.
    #[error("{clause} names column '{name}', which the table does not have")]
    NoSuchColumn {
        /// The clause: "TIMESTAMP", "SERIES BY", …
        clause: &'static str,
        /// The name.
        name: String,
    },
    /// A clause names a column of a type it cannot use.
    #[error("{clause} needs a {wanted} column; '{name}' is {found}")]
    WrongColumnType {
        /// The clause: "TIMESTAMP", "SERIES BY", …
        clause: &'static str,
        /// The column.
        name: String,
        /// The type needed.
        wanted: &'static str,
        /// The type the column has.
        found: ColumnType,
    },
    /// Ids of columns that are not one a column, each used once.
    #[error("the ids of the {columns} columns are not one a column, each its own")]
    ColumnIds {
        /// Columns of the schema.
        columns: usize,
    },
    /// Rows that replace each other need a designated timestamp.
    #[error("DEDUP UPSERT KEYS needs a designated timestamp: add TIMESTAMP(column)")]
    DedupWithoutTimestamp,
    /// A column that must be among those by which rows replace each other.
    #[error(
        "DEDUP UPSERT KEYS must name '{name}': the designated timestamp and the series key are always part \
         of what makes a row the same"
    )]
    DedupKey {
        /// The column.
        name: String,
    },
    /// A column that the table cannot be without.
    #[error("column '{name}' cannot be dropped: it is {role}")]
    ColumnInUse {
        /// The column.
        name: String,
        /// What it is to the table.
        role: &'static str,
    },
    /// A time to live that cannot be read.
    #[error(
        "'{text}' is no time to live: it is a count from 1 and a unit, as in '30d'; units are n, s, m \
         (minute), h, d, w, M (month) and y, or their names"
    )]
    UnknownTtl {
        /// The text as written.
        text: String,
    },
    /// A time to live for a table of one partition.
    #[error("a time to live needs partitions by time: rows are dropped by whole partitions")]
    TtlWithoutPartitions,
    /// Partitions need a designated timestamp.
    #[error("PARTITION BY {unit} needs a designated timestamp: add TIMESTAMP(column)")]
    PartitionWithoutTimestamp {
        /// The unit asked for.
        unit: &'static str,
    },
    /// A batch whose columns are not the table's.
    #[error("column '{column}': expected {expected}, found {found}")]
    BatchColumn {
        /// The column.
        column: String,
        /// What the schema says.
        expected: String,
        /// What the batch has.
        found: String,
    },
    /// A batch with too few or too many columns.
    #[error("expected {expected} columns, found {found}")]
    BatchWidth {
        /// Columns of the schema.
        expected: usize,
        /// Columns of the batch.
        found: usize,
    },
    /// A row with the one instant that no range of time can hold.
    #[error(
        "row {}: the designated timestamp '{column}' is the last instant there is, which no row may have",
        .row + 1
    )]
    LastInstant {
        /// The timestamp column.
        column: String,
        /// Row of the batch, from 0.
        row: usize,
    },
    /// A row whose designated timestamp is NULL.
    #[error("row {}: the designated timestamp '{column}' is NULL", .row + 1)]
    NullTimestamp {
        /// The timestamp column.
        column: String,
        /// Row of the batch, from 0.
        row: usize,
    },
}
