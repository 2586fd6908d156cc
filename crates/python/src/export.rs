//! Rows into a file.

use crate::error;
use crate::wait::wait;
use datafusion::execution::SendableRecordBatchStream;
use pyo3::PyResult;
use std::path::PathBuf;
use tickstone_query::export::{self, Format, Layout, Room};
use tickstone_query::import::Compression;
use tokio::runtime::Handle;

/// The file that rows go into.
pub(crate) struct Target {
    path: PathBuf,
    format: Format,
    compression: Compression,
}

impl Target {
    /// Format and compression as given, else by the endings of its name.
    ///
    /// # Errors
    /// Where there are no such, or they do not go together.
    pub(crate) fn new(path: PathBuf, format: Option<&str>, packed: Option<&str>) -> PyResult<Self> {
        let given = match format {
            Some(name) => Some(Format::parse(name).ok_or_else(|| {
                let hint = format!("formats are {}", Format::NAMES);
                error::request(&format!("there is no format '{name}'"), Some(&hint))
            })?),
            None => None,
        };
        let (format, detected) =
            export::detect(&path, given).map_err(|error| error::of_query(&error, None))?;
        let compression = match packed {
            None => detected,
            Some(name) => compression(format, detected, name)?,
        };
        Ok(Self { path, format, compression })
    }

    /// Writes it, on a thread that does not hold the interpreter; how many rows.
    ///
    /// # Errors
    /// Those of the rows and of the disk, and what a signal's handler raised: a file of that name stays as it was.
    pub(crate) fn write(&self, runtime: &Handle, rows: SendableRecordBatchStream) -> PyResult<u64> {
        let layout = Layout::new(self.format, self.compression);
        let written = wait(runtime, export::write_file(rows, &self.path, &layout, &Room::default()))?;
        written.map(|written| written.rows).map_err(|error| error::of_query(&error, None))
    }
}

/// The compression of this name, for files of a format that are packed so by themselves.
fn compression(format: Format, detected: Compression, name: &str) -> PyResult<Compression> {
    let packed = match name {
        "gzip" => Compression::Gzip,
        "zstd" => Compression::Zstd,
        other => {
            let message = format!("there is no compression '{other}'");
            return Err(error::request(&message, Some("there are gzip and zstd")));
        }
    };
    match format {
        // Its pages are packed with zstd anyway.
        Format::Parquet if packed == Compression::Zstd => Ok(detected),
        Format::Parquet | Format::Arrow => {
            Err(error::request("Parquet and Arrow files compress inside", Some("leave compression out")))
        }
        _ => Ok(packed),
    }
}
