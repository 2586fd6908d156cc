//! Rows into a file that is there whole or not at all.

use super::{Format, write, write_error};
use crate::import::Compression;
use crate::{QueryError, Result};
use datafusion::execution::SendableRecordBatchStream;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Format and compression by a name's endings; a format that is given comes first.
///
/// # Errors
/// Where neither tells the format, or where Parquet or Arrow would be packed a second time.
pub fn detect(path: &Path, given: Option<Format>) -> Result<(Format, Compression)> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, mut ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let compression = Compression::of_ending(ending);
    if compression != Compression::None {
        ending = stem.rsplit_once('.').map_or("", |(_, ending)| ending);
    }
    let Some(format) = given.or_else(|| Format::parse(ending)) else {
        return Err(QueryError::request(format!("cannot tell a format from the name {}", path.display()))
            .hint(format!("end it in {}, or say the format", Format::NAMES)));
    };
    if compression != Compression::None && matches!(format, Format::Parquet | Format::Arrow) {
        return Err(QueryError::request("Parquet and Arrow files compress inside")
            .hint("leave .gz or .zst out of the name"));
    }
    Ok((format, compression))
}

/// Writes the rows of `stream` to a file, under a temporary name until it is whole.
///
/// # Errors
/// The stream's and those of the disk; a file of that name stays as it was.
pub async fn write_file(
    stream: SendableRecordBatchStream,
    path: &Path,
    format: Format,
    compression: Compression,
) -> Result<Written> {
    let temporary = TemporaryFile::beside(path);
    let file = File::create(&temporary.path).map_err(|error| cannot_create(path, &error))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    let rows = write(stream, format, compression, &mut out).await?;
    out.flush().map_err(write_error)?;
    let bytes = out.get_ref().metadata().map_err(write_error)?.len();
    fs::rename(&temporary.path, path).map_err(|error| cannot_create(path, &error))?;
    temporary.keep();
    Ok(Written { rows, bytes })
}

fn cannot_create(path: &Path, error: &std::io::Error) -> QueryError {
    QueryError::request(format!("cannot write {}: {error}", path.display()))
}

/// A file that goes when it is not kept.
struct TemporaryFile {
    path: PathBuf,
    kept: bool,
}

impl TemporaryFile {
    fn beside(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { path: path.with_file_name(format!(".{name}.{}.tmp", std::process::id())), kept: false }
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.kept {
            // The error that kept it from being finished is on its way to the caller.
            let _ = fs::remove_file(&self.path);
        }
    }
}
