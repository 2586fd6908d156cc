//! When a directory may be opened again.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, FileDisk};
use tickstone_engine::{Engine, EngineOptions, SystemClock};

/// A disk that takes a while to let its directory go, as where its thread has to wait for a core.
#[derive(Debug)]
struct SlowToGo(FileDisk);

impl Drop for SlowToGo {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(50));
    }
}

impl Disk for SlowToGo {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.0.read(path)
    }

    fn lock(&self) -> Weak<()> {
        self.0.lock()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.0.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.0.truncate(path, len)
    }
}

/// Whoever waits until the files are not in use gets the lock at once, also where another thread has the last handle:
/// the last reference to a disk is gone before the disk is.
#[test]
fn a_directory_is_free_when_its_files_are_not_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { background: false, threads: 1, ..EngineOptions::default() };
    let disk = Arc::new(SlowToGo(FileDisk::open(dir.path()).unwrap()));
    let engine = Engine::open_on(disk, Arc::new(SystemClock), options).unwrap();
    let files = engine.files();
    assert!(files.are_in_use());
    thread::scope(|scope| {
        scope.spawn(|| drop(engine));
        while files.are_in_use() {
            thread::yield_now();
        }
        drop(FileDisk::open(dir.path()).unwrap());
    });
}

#[test]
fn a_disk_that_is_read_holds_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path()).unwrap();
    assert_eq!(disk.lock().strong_count(), 1);
    assert_eq!(FileDisk::open_read_only(dir.path()).unwrap().lock().strong_count(), 0);
}
