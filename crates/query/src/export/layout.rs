//! How rows are laid out in files: format, packing, and what COPY … TO says of them.

use super::Format;
use crate::paths::{Compression, endings};
use crate::{QueryError, Result};
use parquet::basic::{Compression as PageCompression, ZstdLevel};
use std::path::Path;

/// Most rows of a row group of Parquet, unless said otherwise.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 20;

/// Most rows that a row group may have: it is put together in memory.
const ROW_GROUP_ROWS_MAX: usize = 1 << 26;

/// How rows are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// What the file is packed with: text alone.
    pub compression: Compression,
    /// Whether a CSV begins with the columns' names.
    pub header: bool,
    /// The byte between fields of a CSV.
    pub delimiter: u8,
    /// Most rows of a row group of Parquet.
    pub row_group_rows: usize,
    /// What pages of Parquet are packed with.
    pub pages: Pages,
    /// Columns whose values are `key=value` folders, outermost first; the file's name is the folder's then.
    pub partition_by: Vec<String>,
    /// Whether what is there by the name of such a folder is replaced.
    pub overwrite: bool,
}

/// What pages of Parquet are packed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Nothing.
    Plain,
    /// Snappy.
    Snappy,
    /// gzip.
    Gzip,
    /// zstd.
    #[default]
    Zstd,
}

impl Pages {
    pub(super) fn codec(self) -> PageCompression {
        match self {
            Pages::Plain => PageCompression::UNCOMPRESSED,
            Pages::Snappy => PageCompression::SNAPPY,
            Pages::Gzip => PageCompression::GZIP(parquet::basic::GzipLevel::default()),
            Pages::Zstd => PageCompression::ZSTD(ZstdLevel::default()),
        }
    }
}

impl Layout {
    /// One file of a format.
    pub fn new(format: Format, compression: Compression) -> Self {
        Self {
            format,
            compression,
            header: true,
            delimiter: b',',
            row_group_rows: ROW_GROUP_ROWS,
            pages: Pages::default(),
            partition_by: Vec::new(),
            overwrite: false,
        }
    }

    /// How the names of its files end.
    pub(super) fn ending(&self) -> String {
        let packing = match self.compression {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        };
        format!("{}{packing}", self.format)
    }

    /// That of the file at a path with the options of COPY … TO, names in lower case.
    ///
    /// # Errors
    /// Where an option is none, has a value that it cannot have or goes with another format, and those of
    /// [`detect`](super::detect).
    pub fn of(path: &Path, options: &[(String, String)]) -> Result<Self> {
        let named =
            |wanted: &str| options.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let format = named("format").map(|name| format_of(name)).transpose()?;
        let (partitioned, is_text) = (named("partition_by").is_some(), |of: Format| {
            matches!(of, Format::Csv | Format::Json | Format::Ndjson)
        });
        let mut layout = match (partitioned, format) {
            // A folder's name says nothing of what is in it.
            (true, format) => {
                let format = match (format, endings(path)) {
                    (Some(format), _) => format,
                    (None, (ending, _)) => Format::parse(&ending).unwrap_or(Format::Parquet),
                };
                Self::new(format, Compression::None)
            }
            (false, format) => {
                let (format, compression) = super::detect(path, format)?;
                Self::new(format, compression)
            }
        };
        for (name, value) in options {
            let wrong = |wanted: &str| {
                QueryError::request(format!("option '{name}' cannot be '{value}': expected {wanted}"))
            };
            let truth = || match value.to_ascii_lowercase().as_str() {
                "" | "true" | "on" | "1" | "yes" => Ok(true),
                "false" | "off" | "0" | "no" => Ok(false),
                _ => Err(wrong("true or false")),
            };
            let format = layout.format;
            match name.as_str() {
                "format" => {}
                "header" if format == Format::Csv => layout.header = truth()?,
                "delimiter" | "delim" | "sep" if format == Format::Csv => {
                    layout.delimiter =
                        crate::import::parse_delimiter(value).ok_or_else(|| wrong("one ASCII character"))?;
                }
                "row_group_size" if format == Format::Parquet => {
                    let rows = value.parse().ok().filter(|rows| (1..=ROW_GROUP_ROWS_MAX).contains(rows));
                    let wanted = format!("rows from 1 to {ROW_GROUP_ROWS_MAX}");
                    layout.row_group_rows = rows.ok_or_else(|| wrong(&wanted))?;
                }
                "compression" | "codec" if format == Format::Parquet => {
                    layout.pages = match value.to_ascii_lowercase().as_str() {
                        "zstd" => Pages::Zstd,
                        "snappy" => Pages::Snappy,
                        "gzip" => Pages::Gzip,
                        "none" | "uncompressed" => Pages::Plain,
                        _ => return Err(wrong("zstd, snappy, gzip or none")),
                    };
                }
                "compression" if is_text(format) => {
                    layout.compression = match value.to_ascii_lowercase().as_str() {
                        "gzip" | "gz" => Compression::Gzip,
                        "zstd" | "zst" => Compression::Zstd,
                        "none" | "uncompressed" => Compression::None,
                        _ => return Err(wrong("gzip, zstd or none")),
                    };
                }
                "partition_by" => layout.partition_by.push(value.clone()),
                "overwrite" | "overwrite_or_ignore" if partitioned => layout.overwrite = truth()?,
                _ => {
                    let known = match format {
                        Format::Csv => "format, header, delimiter, compression and partition_by",
                        Format::Json | Format::Ndjson => "format, compression and partition_by",
                        Format::Parquet => "format, compression, row_group_size and partition_by",
                        Format::Arrow => "format and partition_by",
                    };
                    let overwrite = if partitioned { ", and overwrite" } else { "" };
                    return Err(QueryError::request(format!("COPY … TO has no option {name} = '{value}'"))
                        .hint(format!("of {format} files there are {known}{overwrite}")));
                }
            }
        }
        Ok(layout)
    }
}

fn format_of(name: &str) -> Result<Format> {
    Format::parse(name).ok_or_else(|| {
        QueryError::request(format!("option 'format' cannot be '{name}'"))
            .hint(format!("format may be {}", Format::NAMES))
    })
}
