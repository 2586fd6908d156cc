//! A disk that makes room where it is full: what is kept for convenience alone goes before a write is refused.
//!
//! Invariants:
//! - an append that is tried again begins where the first one did;
//! - what goes is written by the disk below, so that making room never waits for room.

use super::{AppendFile, DirEntry, Disk, FileBytes, SyncFile};
use crate::error::is_full;
use crate::lock::lock;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// What may go where the disk is full.
pub(crate) trait Spare: Send + Sync + Debug {
    /// Removes it; whether anything was there and is gone. Writes to the disk below alone.
    fn give(&self) -> bool;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sparing {
    disk: Arc<dyn Disk>,
    room: Arc<Room>,
}

#[derive(Debug, Default)]
struct Room {
    spare: OnceLock<Weak<dyn Spare>>,
    /// How often room was made.
    made: Mutex<u64>,
}

impl Room {
    /// Does what may find the disk full, and once more where room could be made since.
    fn with<T>(&self, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let seen = *lock(&self.made);
        match act() {
            Err(error) if is_full(&error) && self.make(seen) => act(),
            done => done,
        }
    }

    /// Whether there is more room than when `seen` was the count: others may have made it meanwhile.
    fn make(&self, seen: u64) -> bool {
        let mut made = lock(&self.made);
        if *made == seen && self.spare.get().and_then(Weak::upgrade).is_some_and(|spare| spare.give()) {
            *made += 1;
        }
        *made != seen
    }
}

impl Sparing {
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: Arc::clone(disk), room: Arc::default() }
    }

    /// Says what may go. The first one counts.
    pub(crate) fn set_spare(&self, spare: Weak<dyn Spare>) {
        let _ = self.room.spare.set(spare);
    }
}

impl Disk for Sparing {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.disk.read(path)
    }

    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        self.disk.read_from(path, start)
    }

    fn is_shared(&self) -> bool {
        self.disk.is_shared()
    }

    fn lock(&self) -> Weak<()> {
        self.disk.lock()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = self.room.with(|| self.disk.create(path))?;
        let (disk, room) = (Arc::clone(&self.disk), Arc::clone(&self.room));
        Ok(Box::new(Appended { file, path: path.to_path_buf(), bytes: 0, disk, room }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.room.with(|| self.disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.room.with(|| self.disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }

    // What a failed sync stored is unknown, also after a later success: it is not tried again.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.disk.truncate(path, len)
    }
}

#[derive(Debug)]
struct Appended {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    /// What was appended to it.
    bytes: u64,
    disk: Arc<dyn Disk>,
    room: Arc<Room>,
}

impl AppendFile for Appended {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut is_again = false;
        self.room.with(|| {
            if std::mem::replace(&mut is_again, true) {
                // Part of it may have been appended.
                self.disk.truncate(&self.path, self.bytes)?;
            }
            self.file.append(bytes)
        })?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn beside(&self) -> io::Result<Option<Arc<dyn SyncFile>>> {
        self.file.beside()
    }
}
