//! A folder of a disk as a disk of its own.

use super::{AppendFile, DirEntry, Disk, FileBytes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of another disk; its paths are relative to the folder.
#[derive(Debug)]
pub(crate) struct Folder {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl Folder {
    /// The folder `root`, which may be missing yet.
    pub(crate) fn new(disk: &Arc<dyn Disk>, root: impl Into<PathBuf>) -> Self {
        Self { disk: Arc::clone(disk), root: root.into() }
    }
}

impl Disk for Folder {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.disk.read(&self.root.join(path))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.disk.create(&self.root.join(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(&self.root.join(from), &self.root.join(to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(&self.root.join(from), &self.root.join(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(&self.root.join(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(&self.root.join(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(&self.root.join(dir))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.disk.truncate(&self.root.join(path), len)
    }
}
