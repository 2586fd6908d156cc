//! What to import, and how.

use super::{ImportError, Result};
use crate::Access;
use crate::aside::Aside;
use crate::dialect::renames_of;
use crate::paths::{Allowed, Compression, FileFormat};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tickstone_model::{ColumnType, PartitionBy};
use tickstone_wire::EpochUnit;

/// Memory for chunks under way, in bytes, unless a request says otherwise.
const MEMORY_BUDGET_BYTES: usize = 256 << 20;

/// What to import, and how. Make one with [`ImportRequest::new`] and set what differs.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// The table; made from the first file where it is missing.
    pub table: String,
    /// The files. Each that is named by itself is a commit of its own; those that a pattern (`*`, `?`, `[…]`, `**`) or a
    /// folder stands for are one.
    pub paths: Vec<PathBuf>,
    /// Which files may be named.
    pub allowed: Allowed,
    /// Whether `key=value` folders above a file are columns of its rows; `None`: where a pattern or a folder named it, and
    /// the table is new or has columns of these names.
    pub hive: Option<bool>,
    /// Their format; `None`: by each name's ending.
    pub format: Option<FileFormat>,
    /// The designated timestamp of a new table; `None`: by name and type.
    pub timestamp: Option<String>,
    /// Whether a new table may be without one.
    pub untimed: bool,
    /// The series key of a new table; `None`: by name; empty: none at all.
    pub series: Option<Vec<String>>,
    /// Names of the files' columns, as they spell them, with those that the table has for them.
    pub renames: Vec<(String, String)>,
    /// Types of columns; the others are inferred.
    pub types: Vec<(String, ColumnType)>,
    /// Units of integer timestamps; the others are inferred from their magnitude.
    pub time_units: Vec<(String, EpochUnit)>,
    /// Partition length of a new table.
    pub partition_by: Option<PartitionBy>,
    /// Who imports, and owns a table that is made; `None` for whoever has the files.
    pub access: Option<Access>,
    /// What becomes of a bad row.
    pub on_bad_row: BadRows,
    /// Import a file also where the table has it already.
    pub again: bool,
    /// Most memory for chunks under way, in bytes.
    pub memory_budget_bytes: usize,
    /// Threads that parse; `None`: one a core.
    pub threads: Option<usize>,
    /// The byte between fields of a CSV; `None`: found.
    pub delimiter: Option<u8>,
    /// Whether a CSV's first record names the columns; `None`: found.
    pub header: Option<bool>,
    /// The table's columns in the order of the file's fields; empty: by the file's names.
    pub columns: Vec<String>,
    /// The table aside whose name `table` is, where it is one: it is made from the first file.
    pub aside: Option<Arc<Aside>>,
    /// Set by another thread to stop the import, which then leaves nothing of the file under way.
    pub cancelled: Option<Arc<AtomicBool>>,
}

impl ImportRequest {
    /// A request with everything inferred; a bad row fails the import.
    pub fn new(table: impl Into<String>, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            table: table.into(),
            paths: paths.into_iter().map(Into::into).collect(),
            allowed: Allowed::All,
            hive: None,
            format: None,
            timestamp: None,
            untimed: false,
            series: None,
            renames: Vec::new(),
            types: Vec::new(),
            time_units: Vec::new(),
            partition_by: None,
            access: None,
            on_bad_row: BadRows::Fail,
            again: false,
            memory_budget_bytes: MEMORY_BUDGET_BYTES,
            threads: None,
            delimiter: None,
            header: None,
            columns: Vec::new(),
            aside: None,
            cancelled: None,
        }
    }

    /// Sets the designated timestamp of a new table, or with `none` that it may have none.
    pub fn set_timestamp(&mut self, name: &str) {
        self.untimed = name.eq_ignore_ascii_case("none");
        self.timestamp = (!self.untimed).then(|| name.to_string());
    }

    /// Adds names for columns, `E=event_time,e=kind`; `false` where a text is something else.
    pub fn add_renames(&mut self, text: &str) -> bool {
        let Some(pairs) = renames_of(text) else { return false };
        self.renames.extend(pairs);
        true
    }

    /// Sets what an option of `COPY … FROM … WITH (name value, …)` says; names as on the command line.
    ///
    /// # Errors
    /// [`ImportError::Option`] for an unknown name or value.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |wanted: &'static str| ImportError::Option {
            name: name.to_string(),
            value: value.to_string(),
            wanted,
        };
        let truth = || match value.to_ascii_lowercase().as_str() {
            "" | "true" | "on" | "1" | "yes" => Ok(true),
            "false" | "off" | "0" | "no" => Ok(false),
            _ => Err(wrong("true or false")),
        };
        match name {
            "format" => self.format = Some(FileFormat::parse(value).ok_or_else(|| wrong(FileFormat::NAMES))?),
            "header" => self.header = Some(truth()?),
            "again" => self.again = truth()?,
            "hive_partitioning" => self.hive = Some(truth()?),
            "delimiter" | "delim" | "sep" => {
                self.delimiter = Some(parse_delimiter(value).ok_or_else(|| wrong("one ASCII character"))?);
            }
            "timestamp" => self.set_timestamp(value),
            "rename" if self.add_renames(value) => {}
            "rename" => return Err(wrong("NAME=COLUMN, several with commas between")),
            "on_bad_row" => {
                self.on_bad_row = BadRows::parse(value).ok_or_else(|| wrong("fail, skip or collect=FILE"))?;
            }
            _ => {
                return Err(wrong(
                    "format, header, delimiter, timestamp, rename, on_bad_row, hive_partitioning, again",
                ));
            }
        }
        Ok(())
    }
}

/// The byte a delimiter's text stands for: one ASCII character, or `\t` or `tab`.
pub fn parse_delimiter(text: &str) -> Option<u8> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Some(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
        _ => None,
    }
}

/// What becomes of rows that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BadRows {
    /// The file is not imported.
    #[default]
    Fail,
    /// They are left out and counted.
    Skip,
    /// They are left out and written to this file as they came, under the header.
    Collect(PathBuf),
}

impl BadRows {
    /// `fail`, `skip` or `collect=FILE`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('=') {
            None if text.eq_ignore_ascii_case("fail") => Some(BadRows::Fail),
            None if text.eq_ignore_ascii_case("skip") => Some(BadRows::Skip),
            Some((word, path)) if word.eq_ignore_ascii_case("collect") && !path.is_empty() => {
                Some(BadRows::Collect(PathBuf::from(path)))
            }
            _ => None,
        }
    }
}

/// Format and compression of a file by its name's endings.
pub(crate) fn detect(path: &Path, given: Option<FileFormat>) -> Result<(FileFormat, Compression)> {
    let (named, compression) = FileFormat::of_name(path);
    match given.or(named) {
        Some(format @ (FileFormat::Parquet | FileFormat::Arrow)) if compression != Compression::None => {
            Err(ImportError::PackedColumnar { path: path.to_path_buf(), format })
        }
        Some(format) => Ok((format, compression)),
        None => Err(ImportError::UnknownFormat { path: path.to_path_buf() }),
    }
}
