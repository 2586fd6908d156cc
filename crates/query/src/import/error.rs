//! Why a file cannot be imported.

use super::FileFormat;
use crate::QueryError;
use std::io;
use std::path::PathBuf;
use tickstone_engine::{EngineError, ErrorKind};
use tickstone_model::{ColumnType, ModelError};
use tickstone_wire::EpochUnit;

/// The result of an import.
pub type Result<T> = std::result::Result<T, ImportError>;

/// Why a file cannot be imported. Nothing of the file was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system or the decompressor said.
        source: io::Error,
    },
    /// The file of bad rows cannot be written.
    #[error("cannot write bad rows to {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file's name says nothing of its format.
    #[error("cannot tell the format of {} from its name", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet or Arrow file in another packing.
    #[error("{} is a {format} file inside a compressed file", path.display())]
    PackedColumnar {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: FileFormat,
    },
    /// The file has no column.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has columns and no row, and the table is not there.
    #[error("{} has no rows: nothing says what its columns hold", path.display())]
    NoRows {
        /// The file.
        path: PathBuf,
    },
    /// Two columns of the file whose names a table does not tell apart.
    #[error("{} has the columns '{other}' and '{column}', whose names a table does not tell apart", path.display())]
    SameName {
        /// The file.
        path: PathBuf,
        /// The name.
        column: String,
        /// The one before.
        other: String,
    },
    /// No column of the file says when its rows were.
    #[error("no column of {} is found to be a time{}", path.display(), unread_dates(unread.as_ref()))]
    Untimed {
        /// The file.
        path: PathBuf,
        /// A column of dates in a form that is not read, and one of them.
        unread: Option<(String, String)>,
    },
    /// A file of a commit that counts its times in another unit than the first.
    #[error("{}: the numbers of column '{column}' are {unit} since 1970, and those of {} are {first_unit}", path.display(), first.display())]
    OtherUnit {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its unit.
        unit: EpochUnit,
        /// The first file.
        first: PathBuf,
        /// Its unit there.
        first_unit: EpochUnit,
    },
    /// A header that is no UTF-8.
    #[error("the header of {} is not UTF-8: '{text}'", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The header, what is no UTF-8 in it replaced.
        text: String,
    },
    /// The file was imported before.
    #[error("{} was already imported into '{table}' ({rows} rows, as {earlier})", path.display())]
    AlreadyImported {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The name it had then.
        earlier: String,
        /// Rows it brought.
        rows: u64,
    },
    /// A row cannot be taken.
    #[error("{}, line {line}{what}", path.display())]
    BadRow {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, text and reason.
        what: String,
        /// The column and a type that would hold the value.
        fits: Option<(String, String)>,
        /// Whether it may be a time in another unit than those before.
        is_other_unit: bool,
    },
    /// A record longer than a record can be.
    #[error("{} has a record longer than {most} bytes", path.display())]
    RecordTooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
    /// A column of the file that the table does not have.
    #[error("{} has a column '{column}' that table '{table}' does not have", path.display())]
    UnknownColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The table.
        table: String,
        /// The table's columns.
        known: String,
    },
    /// A name in the request that no column of the file has.
    #[error("{clause} names column '{column}', which {} does not have", path.display())]
    NoSuchColumn {
        /// The file.
        path: PathBuf,
        /// What names it: "--type", "--timestamp", …
        clause: &'static str,
        /// The name.
        column: String,
        /// The file's columns.
        known: String,
    },
    /// A file without names and a table with another number of columns.
    #[error("{} has {found} columns and no header; table '{table}' has {expected}", path.display())]
    ColumnCount {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// Columns of the table.
        expected: usize,
        /// Columns of the file.
        found: usize,
    },
    /// The designated timestamp is not in the file.
    #[error("{} has no column '{column}', the designated timestamp of '{table}'", path.display())]
    NoTimestamp {
        /// The file.
        path: PathBuf,
        /// The designated timestamp.
        column: String,
        /// The table.
        table: String,
    },
    /// The request wants another shape than the table has.
    #[error("table '{table}' exists already, and its {what} is {found}, not {wanted}")]
    OtherShape {
        /// The table.
        table: String,
        /// "designated timestamp", "series key", "type of 'price'", …
        what: String,
        /// What the table has.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A column of a type no table holds.
    #[error("{}: column '{column}' is {data_type}, which no table column holds", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its Arrow type.
        data_type: String,
    },
    /// A value of a columnar file that the table's column does not hold.
    #[error("{}: column '{column}' does not fit {wanted}: {reason}", path.display())]
    Cast {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The table's type.
        wanted: ColumnType,
        /// Which value, and why.
        reason: String,
    },
    /// A COPY option that is none.
    #[error("option '{name}' cannot be '{value}': expected {wanted}")]
    Option {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
        /// What there is.
        wanted: &'static str,
    },
    /// The caller cancelled.
    #[error("cancelled; nothing of the file under way was imported")]
    Cancelled,
    /// A schema that breaks a rule.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A Parquet or Arrow file that cannot be decoded: damaged, cut off or another format.
    #[error("{} is damaged, or no {format} file: {reason}", path.display())]
    Undecodable {
        /// The file.
        path: PathBuf,
        /// What it was read as.
        format: FileFormat,
        /// What the reader said.
        reason: String,
    },
    /// Text that is no UTF-8, UTF-16 or what can be read as either.
    #[error("{} is {encoding}, which is not read", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// What it is.
        encoding: &'static str,
    },
    /// NDJSON without a single object.
    #[error("{}, line {line}: '{text}' is not a JSON object: {what}", path.display())]
    NoObject {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// The line, cut when long.
        text: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A file that lacks a column which the others that are read with it have.
    #[error("{} has no column '{column}'", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
    },
    /// Whoever took the rows could not go on.
    #[error(transparent)]
    Plan(#[from] datafusion::common::DataFusionError),
    /// Files that may not be named, or are not there.
    #[error("{0}")]
    Paths(Box<QueryError>),
    /// Arrow refused a batch.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

impl ImportError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ImportError::Engine(error) => error.kind(),
            ImportError::Paths(error) => error.kind,
            ImportError::Write { source, .. }
                if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                ErrorKind::FreeSpace
            }
            ImportError::Cancelled => ErrorKind::Retry,
            ImportError::Arrow(_) | ImportError::Plan(_) => ErrorKind::Report,
            _ => ErrorKind::FixRequest,
        }
    }

    /// What to do instead, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            ImportError::UnknownFormat { .. } => format!("say it with --format: {}", FileFormat::NAMES),
            ImportError::PackedColumnar { .. } => {
                "unpack it first; Parquet and Arrow compress inside".to_string()
            }
            ImportError::AlreadyImported { .. } => {
                "--again (in COPY: WITH (again true)) imports it once more".to_string()
            }
            ImportError::BadRow { is_other_unit: true, .. } => {
                "where all times of a file are in another unit it is imported by itself; \
                 --on-bad-row skip or collect=FILE goes on without such rows"
                    .to_string()
            }
            ImportError::BadRow { fits: Some((column, fits)), .. } => format!(
                "--type {column}=\"{fits}\" gives the column a type that holds it; \
                 --on-bad-row skip or collect=FILE goes on without such rows"
            ),
            ImportError::BadRow { .. } => {
                "--on-bad-row skip or collect=FILE goes on without such rows".to_string()
            }
            ImportError::NoRows { .. } => {
                "CREATE TABLE first, or give each column's type with --type".to_string()
            }
            ImportError::SameName { column, .. } => format!(
                "--rename {column}=OTHER gives one of them another name (in COPY: WITH (rename '{column}=OTHER'))"
            ),
            ImportError::Untimed { .. } => {
                "--timestamp COLUMN says which one is; --timestamp none makes a table without".to_string()
            }
            ImportError::OtherUnit { .. } => {
                "import the files of each unit by a pattern of their own: each is read in its own".to_string()
            }
            ImportError::Header { .. } => {
                "write it as UTF-8: iconv -f latin1 -t utf-8 FILE, if it is Latin-1".to_string()
            }
            ImportError::Encoding { .. } => "write it as UTF-8: iconv -t utf-8 FILE".to_string(),
            ImportError::NoObject { .. } => {
                "a line is one object with its keys and texts in double quotes: {\"price\": 1.5}".to_string()
            }
            ImportError::RecordTooLong { .. } => "a quote that is never closed looks like this".to_string(),
            ImportError::UnknownColumn { known, .. } | ImportError::NoSuchColumn { known, .. } => {
                format!("its columns are {known}")
            }
            ImportError::OtherShape { .. } => "leave it out, or import into another table".to_string(),
            ImportError::ColumnCount { .. } => "name the columns in a header line".to_string(),
            _ => return None,
        })
    }
}

/// `; column 'Datum' holds dates such as '08.08.2024', …`
fn unread_dates(unread: Option<&(String, String)>) -> String {
    unread.map_or_else(String::new, |(column, date)| {
        format!("; column '{column}' holds dates such as '{date}', and only ISO 8601 (2024-08-08) is read")
    })
}

impl From<QueryError> for ImportError {
    fn from(error: QueryError) -> Self {
        ImportError::Paths(Box::new(error))
    }
}

impl From<ImportError> for QueryError {
    fn from(error: ImportError) -> Self {
        if let ImportError::Paths(error) = error {
            return *error;
        }
        let made = QueryError::new(error.kind(), error.to_string());
        match error.hint() {
            Some(hint) => made.hint(hint),
            None => made,
        }
    }
}
