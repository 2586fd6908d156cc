//! The real disk: one directory, locked while it is open.
//!
//! Invariants:
//! - the directory is held by its handle: renamed or moved while it is open, it is still the one that is read and
//!   written, and nothing is made under its old name;
//! - what was removed behind the engine's back is not written on: a sync of such a file fails;
//! - while a writing `FileDisk` lives, it holds the exclusive lock on `LOCK`; a second one is refused;
//! - a map outlives the file's name, so a part that was removed stays readable to those who hold it;
//! - a segment of the tape is never mapped while it is written: a full disk cuts it.

#![allow(clippy::disallowed_methods, reason = "the one place that touches the file system")]

use super::root::Root;
use super::{AppendFile, DirEntry, Disk, FileBytes, SyncFile, refused};
use crate::paths::{LOCK_FILE, TAPE_DIR};
use crate::{EngineError, Result};
use memmap2::Mmap;
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A directory of the file system. Read-only ones take no lock and refuse to write.
#[derive(Debug)]
pub struct FileDisk {
    root: Root,
    lock: Option<Lock>,
    growing: Growing,
}

/// The lock of a directory. Fields go in their order: once nothing refers to `held`, the lock is free.
#[derive(Debug)]
struct Lock {
    _file: File,
    held: Arc<()>,
}

/// Segments of the tape that are open for appending.
type Growing = Arc<Mutex<BTreeSet<PathBuf>>>;

fn guard(growing: &Growing) -> MutexGuard<'_, BTreeSet<PathBuf>> {
    growing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileDisk {
    /// Opens a directory for writing, making it where it is missing, and takes its lock.
    ///
    /// # Errors
    /// [`EngineError::Locked`] where another process (or another handle of this one) writes it;
    /// [`EngineError::Io`] otherwise.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(EngineError::io("create", &root))?;
        let path = root.join(LOCK_FILE);
        let dir = Root::open(&root).map_err(EngineError::io("open", &root))?;
        let lock = dir.lock(Path::new(LOCK_FILE)).map_err(EngineError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {
                let lock = Lock { _file: lock, held: Arc::default() };
                Ok(Self { root: dir, lock: Some(lock), growing: Arc::default() })
            }
            Err(TryLockError::WouldBlock) => Err(EngineError::Locked { path: root }),
            Err(TryLockError::Error(source)) => Err(EngineError::Io { action: "lock", path, source }),
        }
    }

    /// Opens an existing directory for reading only; takes no lock.
    ///
    /// # Errors
    /// [`EngineError::Io`] where it is missing or no directory.
    pub fn open_read_only(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let root = Root::open(&root).map_err(EngineError::io("open", &root))?;
        Ok(Self { root, lock: None, growing: Arc::default() })
    }

    fn writable(&self) -> io::Result<&Root> {
        if self.lock.is_some() { Ok(&self.root) } else { refused() }
    }

    fn read_all(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        let mut file = self.root.read(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(FileBytes::new(bytes))
    }
}

impl Disk for FileDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        // The writer may cut the tape's newest segment under a reader: a map would turn that into a signal.
        let cut_any_time = || self.lock.is_none() || guard(&self.growing).contains(path);
        if path.starts_with(TAPE_DIR) && cut_any_time() {
            return self.read_all(path, 0);
        }
        let file = self.root.read(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(FileBytes::new(Vec::new()));
        }
        // SAFETY: files of a database are written once and then only renamed or removed, but for two that grow or are
        // cut. The tape's last segment is mapped only while nobody writes it (recovery, before the writer starts).
        // The last file of a stream's log is mapped by the process that writes it, which reads no further than what is
        // stable and cuts no less; others read it whole (`streams::read`). Other programs must not change files: the
        // lock and the documentation say so.
        let map = unsafe { Mmap::map(&file)? };
        Ok(FileBytes::new(map))
    }

    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        self.read_all(path, start)
    }

    fn lock(&self) -> Weak<()> {
        self.lock.as_ref().map_or_else(Weak::new, |lock| Arc::downgrade(&lock.held))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = self.writable()?.create(path)?;
        let segment = path.starts_with(TAPE_DIR).then(|| {
            guard(&self.growing).insert(path.to_path_buf());
            (path.to_path_buf(), Arc::clone(&self.growing))
        });
        Ok(Box::new(RealAppendFile { file, segment }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.writable()?.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.writable()?.link(from, to).map_err(|error| match error.kind() {
            // A file system without links, another one below this folder, a file of another user, a full count.
            io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices | io::ErrorKind::TooManyLinks => {
                io::Error::new(io::ErrorKind::Unsupported, error)
            }
            _ => error,
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.writable()?.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let entries = match self.root.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries?,
        };
        if entries.is_empty() && self.root.is_removed() {
            let what = "the database directory was removed while it was open";
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what));
        }
        let mut listed: Vec<DirEntry> =
            entries.into_iter().map(|(name, is_dir, len)| DirEntry { name, is_dir, len }).collect();
        listed.sort();
        Ok(listed)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let root = self.writable()?;
        dir.ancestors().try_for_each(|folder| root.read(folder)?.sync_all())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = self.writable()?.write(path)?;
        file.set_len(len)?;
        file.sync_all()
    }
}

#[derive(Debug)]
struct RealAppendFile {
    file: File,
    /// Its name among those that grow, where it is a segment of the tape.
    segment: Option<(PathBuf, Growing)>,
}

impl Drop for RealAppendFile {
    fn drop(&mut self) {
        if let Some((path, growing)) = &self.segment {
            guard(growing).remove(path);
        }
    }
}

impl AppendFile for RealAppendFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        synced(&self.file)
    }

    fn beside(&self) -> io::Result<Option<Arc<dyn SyncFile>>> {
        Ok(Some(Arc::new(RealSyncFile { file: self.file.try_clone()? })))
    }
}

/// A second handle of a file that grows.
#[derive(Debug)]
struct RealSyncFile {
    file: File,
}

impl SyncFile for RealSyncFile {
    fn sync(&self) -> io::Result<()> {
        synced(&self.file)
    }
}

fn synced(file: &File) -> io::Result<()> {
    file.sync_data()?;
    if file.metadata()?.nlink() == 0 {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed by another program"));
    }
    Ok(())
}
