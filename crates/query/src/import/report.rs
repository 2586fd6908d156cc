//! What an import did, and how far it is.

use super::{Compression, FileFormat};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickstone_model::ColumnType;
use tickstone_wire::TimeFormat;

/// How far the file under way is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its place among the files, from 0.
    pub file: usize,
    /// How many files there are.
    pub files: usize,
    /// Bytes of it read so far, as they are on disk.
    pub bytes_read: u64,
    /// Its size in bytes.
    pub bytes_total: u64,
    /// Rows of it taken so far.
    pub rows: u64,
}

/// What an import did.
#[derive(Debug, Clone)]
pub struct ImportReport {
    /// The table.
    pub table: String,
    /// Whether it was made.
    pub created: bool,
    /// One report a file, in order.
    pub files: Vec<FileReport>,
    /// Files of a pattern or a folder that the table has already; they were left out.
    pub known: Vec<PathBuf>,
}

impl ImportReport {
    /// Rows of all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Bad rows of all files.
    pub fn bad_rows(&self) -> u64 {
        self.files.iter().map(|file| file.bad_rows).sum()
    }
}

/// What the import of one file did.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// What it was read as.
    pub format: FileFormat,
    /// What it was packed with.
    pub compression: Compression,
    /// Rows stored.
    pub rows: u64,
    /// Its size on disk in bytes.
    pub bytes: u64,
    /// From opening to the end of its rows; of the last file of a commit, to its commit.
    pub elapsed: Duration,
    /// Rows left out.
    pub bad_rows: u64,
    /// The first of them.
    pub examples: Vec<BadRowExample>,
    /// JSON keys that are no column of the table.
    pub ignored: Vec<String>,
    /// What each column of the file was taken as.
    pub columns: Vec<ColumnReport>,
    /// The table's designated timestamp.
    pub timestamp: Option<String>,
    /// The table's series key.
    pub series: Vec<String>,
}

/// What a column of a file was taken as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnReport {
    /// The table's column.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// How its timestamps are written, for a TIMESTAMP of a text file.
    pub time: Option<TimeFormat>,
    /// Whether the type was guessed from the file.
    pub inferred: bool,
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRowExample {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Field, text and reason, as in an error.
    pub what: String,
}
