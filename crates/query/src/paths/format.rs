//! Formats and packings of files, by the endings of their names.

use std::fmt;
use std::path::Path;

/// What a file's bytes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Delimited text.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl FileFormat {
    /// The names [`Self::parse`] knows.
    pub const NAMES: &'static str = "csv, ndjson, parquet or arrow";

    /// The format of this name or file ending.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "csv" | "tsv" | "txt" | "psv" => FileFormat::Csv,
            "ndjson" | "jsonl" | "json" => FileFormat::Ndjson,
            "parquet" | "pq" => FileFormat::Parquet,
            "arrow" | "ipc" | "feather" | "arrows" => FileFormat::Arrow,
            _ => return None,
        })
    }

    /// Format and packing of a file by its name's endings.
    pub(crate) fn of_name(path: &Path) -> (Option<Self>, Compression) {
        let (ending, compression) = endings(path);
        (Self::parse(&ending), compression)
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileFormat::Csv => "csv",
            FileFormat::Ndjson => "ndjson",
            FileFormat::Parquet => "parquet",
            FileFormat::Arrow => "arrow",
        })
    }
}

/// What a text file is packed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// gzip, any number of members.
    Gzip,
    /// zstd, any number of frames.
    Zstd,
}

impl Compression {
    /// The compression of a file ending.
    pub fn of_ending(ending: &str) -> Self {
        match ending.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => Compression::Gzip,
            "zst" | "zstd" => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The ending of a file's name that says its format, and what it is packed with.
pub(crate) fn endings(path: &Path) -> (String, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let compression = Compression::of_ending(ending);
    let ending = match compression {
        Compression::None => ending,
        _ => stem.rsplit_once('.').map_or("", |(_, ending)| ending),
    };
    (ending.to_string(), compression)
}
