//! Small files that are written whole: a magic, a version, the contents, and a CRC-32C over all of it.
//!
//! Invariants:
//! - such a file is replaced as a whole: new file, sync, rename, sync of the folder; only then, likewise, its copy,
//!   which is there for a repair and is never relied on;
//! - what is read from one has the checksum that was written with it.

use super::{Disk, FileBytes};
use crate::error::is_full;
use crate::paths::copy_path;
use crate::{EngineError, Result, checksum};
use std::ops::Deref;
use std::path::Path;

/// Bytes of magic and version before a checked file's contents, and of the checksum after them.
const PREFIX_BYTES: usize = 12;
const CRC_BYTES: usize = 4;

/// Replaces a small file as [`replace_file`] does, then the copy of it that a repair may take. Whether the copy
/// was: nothing relies on it, but where it was not the end must not count as a clean close, so that the next
/// opening writes it ([`mend_copy`]).
///
/// # Errors
/// [`EngineError::Io`] where the file could not be replaced.
pub(crate) fn replace_with_copy(disk: &dyn Disk, path: &Path, bytes: Vec<u8>) -> Result<bool> {
    let copy = sealed(bytes.clone());
    replace_file(disk, path, bytes)?;
    Ok(write_copy(disk, path, &copy).is_ok())
}

/// Writes the copy of a file whose own name is stable. It gets its name when it is whole.
fn write_copy(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("copy.tmp");
    disk.remove(&temporary)?;
    let mut file = disk.create(&temporary)?;
    file.append(bytes)?;
    file.sync()?;
    disk.rename(&temporary, &copy_path(path))?;
    if cfg!(feature = "planted-unsynced-rename") {
        return Ok(());
    }
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
}

/// Writes the copy of a file anew where a crash came between the two. The file, which may be missing, has a stable
/// name.
///
/// # Errors
/// [`EngineError::Io`]; a full disk is none.
pub(crate) fn mend_copy(disk: &dyn Disk, path: &Path) -> Result<()> {
    let bytes = match disk.read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(EngineError::io("read", path))?,
    };
    let copy = copy_path(path);
    if disk.read(&copy).is_ok_and(|copy| *copy == *bytes) {
        return Ok(());
    }
    // The very bytes that are copied: another reading gave others, perhaps.
    if !is_sealed(&bytes) {
        return Err(EngineError::damaged(path, 0, "the checksum does not match"));
    }
    match write_copy(disk, path, &bytes) {
        Err(error) if is_full(&error) => Ok(()),
        other => other.map_err(EngineError::io("write", copy)),
    }
}

/// `bytes` and their CRC-32C.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether bytes end with the CRC-32C of those before.
fn is_sealed(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(body, crc)| checksum::matches(body, u32::from_le_bytes(*crc)))
}

/// Replaces a small file atomically; appends the CRC-32C of `bytes` to it.
///
/// # Errors
/// [`EngineError::Io`]; the file before it stays.
pub(crate) fn replace_file(disk: &dyn Disk, path: &Path, bytes: Vec<u8>) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let bytes = sealed(bytes);
    disk.remove(&temporary).map_err(EngineError::io("remove", &temporary))?;
    let mut file = disk.create(&temporary).map_err(EngineError::io("create", &temporary))?;
    file.append(&bytes).map_err(EngineError::io("write", &temporary))?;
    file.sync().map_err(EngineError::io("sync", &temporary))?;
    disk.rename(&temporary, path).map_err(EngineError::io("rename to", path))?;
    let dir = path.parent().unwrap_or(Path::new(""));
    if cfg!(feature = "planted-unsynced-rename") {
        return Ok(());
    }
    disk.sync_dir(dir).map_err(EngineError::io("sync", dir))
}

/// The contents of a file whose checksum was compared, as they lie in it.
#[derive(Debug)]
pub(crate) struct CheckedBytes {
    file: FileBytes,
    body_end: usize,
}

impl Deref for CheckedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[PREFIX_BYTES..self.body_end]
    }
}

/// The version and the contents, past magic and version, of a file that [`replace_file`] wrote.
///
/// # Errors
/// [`EngineError::Io`], [`EngineError::Damaged`] or [`EngineError::NewerFormat`].
pub(crate) fn read_checked(
    disk: &dyn Disk,
    path: &Path,
    magic: &[u8; 8],
    version: u32,
) -> Result<(u32, CheckedBytes)> {
    let bytes = disk.read(path).map_err(EngineError::io("read", path))?;
    let damaged = |what: &str| EngineError::damaged(path, 0, what);
    let body_end = bytes.len().checked_sub(CRC_BYTES).filter(|end| *end >= PREFIX_BYTES);
    let body_end = body_end.ok_or_else(|| damaged("the file is too short"))?;
    let (body, crc) = bytes.split_at(body_end);
    if !checksum::matches(body, u32::from_le_bytes(crc.try_into().expect("four bytes"))) {
        return Err(damaged("the checksum does not match"));
    }
    if &body[..8] != magic {
        return Err(damaged("the file is of another kind"));
    }
    let found = u32::from_le_bytes(body[8..PREFIX_BYTES].try_into().expect("four bytes"));
    if found > version {
        return Err(EngineError::NewerFormat { path: path.to_path_buf(), found, known: version });
    }
    Ok((found, CheckedBytes { file: bytes, body_end }))
}

/// Syncs a folder, which may be missing.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn sync_if_there(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.sync_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(EngineError::io("sync", dir)),
    }
}
