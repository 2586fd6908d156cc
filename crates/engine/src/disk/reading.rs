//! A disk that is read here and may be written by another process.

use super::{AppendFile, DirEntry, Disk, FileBytes};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The files of a database that is open for reading: what was there a moment ago may be gone.
#[derive(Debug)]
pub(crate) struct Reading(Arc<dyn Disk>);

impl Reading {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self(disk)
    }
}

/// What a disk says that is only read.
pub(crate) fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opened read-only"))
}

impl Disk for Reading {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.0.read(path)
    }

    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        self.0.read_from(path, start)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn AppendFile>> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn truncate(&self, _path: &Path, _len: u64) -> io::Result<()> {
        refused()
    }
}
