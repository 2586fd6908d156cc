//! A disk in memory, for `:memory:` databases: everything is stable at once and gone with the process.

use super::{AppendFile, DirEntry, Disk, FileBytes};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Files = BTreeMap<PathBuf, Arc<Vec<u8>>>;

/// Files by path, in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<Files>>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {}", path.display()))
}

impl Disk for MemoryDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let files = self.files();
        let bytes = files.get(path).ok_or_else(|| not_found(path))?;
        Ok(FileBytes::new(SharedBytes(Arc::clone(bytes))))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut files = self.files();
        if files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.insert(path.to_path_buf(), Arc::default());
        Ok(Box::new(MemoryAppendFile { disk: self.clone(), path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files();
        let bytes = files.remove(from).ok_or_else(|| not_found(from))?;
        files.insert(to.to_path_buf(), bytes);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files();
        if files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // What is appended or cut under one of the names is not seen under the other: only files that are
        // written get two.
        let bytes = files.get(from).map(Arc::clone).ok_or_else(|| not_found(from))?;
        files.insert(to.to_path_buf(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files().retain(|name, _| !name.starts_with(path));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = BTreeMap::new();
        for (path, bytes) in self.files().iter() {
            let Ok(below) = path.strip_prefix(dir) else { continue };
            let mut names = below.iter().filter_map(|name| name.to_str());
            if let Some(name) = names.next() {
                let is_dir = names.next().is_some();
                let len = if is_dir { 0 } else { bytes.len() as u64 };
                entries.insert(name.to_string(), DirEntry { name: name.to_string(), is_dir, len });
            }
        }
        Ok(entries.into_values().collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut files = self.files();
        let bytes = files.get_mut(path).ok_or_else(|| not_found(path))?;
        Arc::make_mut(bytes).resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }
}

struct SharedBytes(Arc<Vec<u8>>);

impl std::ops::Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Debug)]
struct MemoryAppendFile {
    disk: MemoryDisk,
    path: PathBuf,
}

impl AppendFile for MemoryAppendFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.disk.files();
        let file = files.get_mut(&self.path).ok_or_else(|| not_found(&self.path))?;
        Arc::make_mut(file).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
