//! Rows into a file that is there whole or not at all.

use super::folders::write_folders;
use super::layout::Layout;
use super::{Format, Room, write, write_error};
use crate::paths::{Compression, endings};
use crate::{QueryError, Result};
use datafusion::execution::SendableRecordBatchStream;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

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
    let (ending, compression) = endings(path);
    let Some(format) = given.or_else(|| Format::parse(&ending)) else {
        return Err(QueryError::request(format!("cannot tell a format from the name {}", path.display()))
            .hint(format!("end it in {}, or say the format", Format::NAMES)));
    };
    if compression != Compression::None && matches!(format, Format::Parquet | Format::Arrow) {
        return Err(QueryError::request("Parquet and Arrow files compress inside")
            .hint("leave .gz or .zst out of the name"));
    }
    Ok((format, compression))
}

/// Writes the rows of `stream` to a file, under a temporary name until it is whole. Row groups of Parquet wait in `room`.
///
/// # Errors
/// The stream's and those of the disk; a file of that name stays as it was.
pub async fn write_file(
    stream: SendableRecordBatchStream,
    path: &Path,
    layout: &Layout,
    room: &Room,
) -> Result<Written> {
    if !layout.partition_by.is_empty() {
        return write_folders(stream, path, layout, room).await;
    }
    let temporary = TemporaryPath::beside(path);
    let file = File::options().write(true).create_new(true).open(temporary.path());
    let file = file.map_err(|error| cannot_create(path, &error))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    let rows = write(stream, layout, room, &mut out).await?;
    out.flush().map_err(write_error)?;
    let bytes = out.get_ref().metadata().map_err(write_error)?.len();
    temporary.take_the_place_of(path)?;
    Ok(Written { rows, bytes })
}

pub(super) fn cannot_create(path: &Path, error: &std::io::Error) -> QueryError {
    QueryError::request(format!("cannot write {}: {error}", path.display()))
}

/// A file or a folder that goes when it is not kept.
pub(super) struct TemporaryPath {
    path: PathBuf,
    kept: bool,
}

impl TemporaryPath {
    pub(super) fn beside(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Of two statements that write the same, each has its own; what is there by that name is not followed.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let since =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { path: path.with_file_name(format!(".{name}.{process}.{since:x}.{number}.tmp")), kept: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it the name that it was made for; a folder of that name goes.
    pub(super) fn take_the_place_of(mut self, path: &Path) -> Result<()> {
        let failed = |error: std::io::Error| cannot_create(path, &error);
        if self.path.is_dir() && path.symlink_metadata().is_ok() {
            // A folder takes the place of an empty one alone.
            let mut gone = Self::beside(&path.with_extension("replaced"));
            fs::rename(path, &gone.path).map_err(failed)?;
            if let Err(error) = fs::rename(&self.path, path) {
                // What was there is there again; where something else came between, it stays where it is.
                if fs::rename(&gone.path, path).is_err() {
                    gone.kept = true;
                    let place = gone.path.display().to_string();
                    return Err(failed(error).hint(format!("what was there before is in {place}")));
                }
                return Err(failed(error));
            }
        } else {
            fs::rename(&self.path, path).map_err(failed)?;
        }
        self.kept = true;
        Ok(())
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        if !self.kept {
            // The error that kept it from being finished is on its way to the caller.
            let _ =
                if self.path.is_dir() { fs::remove_dir_all(&self.path) } else { fs::remove_file(&self.path) };
        }
    }
}
