//! The real disk: one directory, locked while it is open.
//!
//! Invariants:
//! - while a writing `FileDisk` lives, it holds the exclusive lock on `LOCK`; a second one is refused;
//! - a map outlives the file's name, so a part that was removed stays readable to those who hold it;
//! - a segment of the tape is never mapped while it is written: a full disk cuts it.

#![allow(clippy::disallowed_methods, reason = "the one place that touches the file system")]

use super::{AppendFile, DirEntry, Disk, FileBytes};
use crate::tape::segment::TAPE_DIR;
use crate::{EngineError, Result};
use memmap2::Mmap;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LOCK_FILE: &str = "LOCK";

/// A directory of the file system. Read-only ones take no lock and refuse to write.
#[derive(Debug)]
pub struct FileDisk {
    root: PathBuf,
    lock: Option<File>,
    growing: Growing,
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
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(EngineError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { root, lock: Some(lock), growing: Arc::default() }),
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
        fs::read_dir(&root).map_err(EngineError::io("open", &root))?;
        Ok(Self { root, lock: None, growing: Arc::default() })
    }

    fn writable(&self, path: &Path) -> io::Result<PathBuf> {
        if self.lock.is_none() {
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opened read-only"));
        }
        Ok(self.root.join(path))
    }
}

impl Disk for FileDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        // The writer may cut the tape's newest segment under a reader: a map would turn that into a signal.
        let cut_any_time = || self.lock.is_none() || guard(&self.growing).contains(path);
        if path.starts_with(TAPE_DIR) && cut_any_time() {
            return Ok(FileBytes::new(fs::read(self.root.join(path))?));
        }
        let file = File::open(self.root.join(path))?;
        if file.metadata()?.len() == 0 {
            return Ok(FileBytes::new(Vec::new()));
        }
        // SAFETY: files of a database are written once and then only renamed or removed, and the
        // tape's last segment, which alone grows or is cut, is mapped only while nobody writes it
        // (recovery, before the writer starts). Other programs must not change them: the lock and
        // the documentation say so.
        let map = unsafe { Mmap::map(&file)? };
        Ok(FileBytes::new(map))
    }

    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        let mut file = File::open(self.root.join(path))?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(FileBytes::new(bytes))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let full_path = self.writable(path)?;
        if let Some(parent) = full_path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new().create_new(true).append(true).open(full_path)?;
        let segment = path.starts_with(TAPE_DIR).then(|| {
            guard(&self.growing).insert(path.to_path_buf());
            (path.to_path_buf(), Arc::clone(&self.growing))
        });
        Ok(Box::new(RealAppendFile { file, segment }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.writable(from)?, self.writable(to)?)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.writable(from)?, self.writable(to)?);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::hard_link(from, to).map_err(|error| match error.kind() {
            // A file system without links, another one below this folder, a file of another user, a full count.
            io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices | io::ErrorKind::TooManyLinks => {
                io::Error::new(io::ErrorKind::Unsupported, error)
            }
            _ => error,
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = self.writable(path)?;
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let entries = match fs::read_dir(self.root.join(dir)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut listed = Vec::new();
        for entry in entries {
            let entry = entry?;
            let metadata = match entry.metadata() {
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            let is_dir = metadata.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                listed.push(DirEntry { name, is_dir, len: if is_dir { 0 } else { metadata.len() } });
            }
        }
        listed.sort();
        Ok(listed)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.writable(dir)?;
        let mut at = Some(dir);
        while let Some(folder) = at {
            File::open(self.root.join(folder))?.sync_all()?;
            at = folder.parent();
        }
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.writable(path)?)?;
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
        self.file.sync_data()
    }
}
