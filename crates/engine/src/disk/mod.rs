//! The disk as the engine sees it: a few calls on paths relative to the database directory.
//!
//! Invariants the engine relies on, and every implementation keeps:
//! - bytes appended are on stable storage once [`AppendFile::sync`] has returned;
//! - a file's *name* (made, renamed, removed) is on stable storage once [`Disk::sync_dir`] of its
//!   folder has returned;
//! - `rename` replaces its target atomically;
//! - a file with two names stays whole under the one when the other goes;
//! - what was not synced may be lost in any part and any order, but a sector (512 bytes) of an
//!   appended file holds either what was written or zeros, or the file ends before it.
//!
//! [`FileDisk`] is the real one; `tickstone-sim` has one that takes crash images.

pub(crate) mod checked;
mod file;
mod folder;
mod memory;
mod reading;
mod root;
mod sparing;

pub use file::FileDisk;
pub(crate) use folder::Folder;
pub use memory::MemoryDisk;
pub(crate) use reading::{Reading, refused};
pub(crate) use sparing::{Spare, Sparing};

use std::fmt::Debug;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Weak};

/// The size of what a power cut keeps or loses as a whole, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// The contents of one file, mapped or held; it stays readable when the file is removed.
#[derive(Clone)]
pub struct FileBytes(Arc<dyn Deref<Target = [u8]> + Send + Sync>);

impl FileBytes {
    /// Wraps anything that owns bytes.
    pub fn new(owner: impl Deref<Target = [u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(owner))
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({} bytes)", self.len())
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name within the folder.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_dir: bool,
    /// Its size in bytes, 0 for a folder.
    pub len: u64,
}

/// A file being written from its beginning to its end.
pub trait AppendFile: Send + Debug {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Those of the operating system; any prefix may have been appended.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until everything appended is on stable storage.
    ///
    /// # Errors
    /// Those of the operating system; what is stored is unknown then, also after a later success.
    fn sync(&mut self) -> io::Result<()>;

    /// A handle that syncs the file beside the thread that appends to it; `None` where the disk has none.
    ///
    /// # Errors
    /// Those of the operating system.
    fn beside(&self) -> io::Result<Option<Arc<dyn SyncFile>>> {
        Ok(None)
    }
}

/// Syncs a file that another thread appends to.
pub trait SyncFile: Send + Sync + Debug {
    /// Waits until everything that was appended before the call is on stable storage.
    ///
    /// # Errors
    /// As [`AppendFile::sync`].
    fn sync(&self) -> io::Result<()>;
}

/// The calls the engine makes. Paths are relative to the database directory, with `/` between names.
pub trait Disk: Send + Sync + Debug {
    /// The whole file, mapped where the platform can.
    ///
    /// # Errors
    /// `NotFound`, or those of the operating system.
    fn read(&self, path: &Path) -> io::Result<FileBytes>;

    /// A file from byte `start` to its end, nothing where it is shorter; never mapped, since it may be growing.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        let bytes = self.read(path)?;
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        Ok(FileBytes::new(bytes.get(start..).unwrap_or_default().to_vec()))
    }

    /// Whether another process may write the files meanwhile, so that one that is missing is no damage.
    fn is_shared(&self) -> bool {
        false
    }

    /// Alive as long as this holds the directory, also while it is being dropped; dead at once where it never does.
    fn lock(&self) -> Weak<()> {
        Weak::new()
    }

    /// Makes a new, empty file, and the folders above it.
    ///
    /// # Errors
    /// `AlreadyExists`, or those of the operating system.
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Renames a file, replacing the target.
    ///
    /// # Errors
    /// Those of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, and makes the folders above that.
    ///
    /// # Errors
    /// `Unsupported` where a file has one name only, which is what a disk says that does not implement it;
    /// `NotFound`, `AlreadyExists`, or those of the operating system.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file, or a folder with all it holds; nothing happens where there is none.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// What a folder holds, by name; empty where there is no such folder.
    ///
    /// # Errors
    /// Those of the operating system.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Waits until the names in a folder, and the folder's own name and those above it, are on stable storage.
    ///
    /// # Errors
    /// Those of the operating system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Cuts a file to `len` bytes and waits until that is on stable storage.
    ///
    /// # Errors
    /// Those of the operating system.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
}
