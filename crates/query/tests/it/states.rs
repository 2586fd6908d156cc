//! The three states in which the same rows must give the same answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{EngineOptions, SystemClock};
use tickstone_query::{Database, DatabaseOptions};

/// Where the rows of a database are when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// In memory, as committed.
    Recent,
    /// Sealed into parts after each change.
    Parts,
    /// Read back from what was on disk when the process went away without closing.
    Recovered,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [State; 3] = [State::Recent, State::Parts, State::Recovered];
}

/// Opens a database on a disk in memory.
pub(crate) fn open(disk: &MemoryDisk) -> Database {
    let engine = EngineOptions { background: false, threads: 1, ..EngineOptions::default() };
    open_wide(disk, engine, DatabaseOptions::default().wide_rows_min)
}

/// Opens a database on a disk in memory with these options; queries over `wide_rows_min` rows run on two threads.
pub(crate) fn open_wide(disk: &MemoryDisk, engine: EngineOptions, wide_rows_min: u64) -> Database {
    let options =
        DatabaseOptions { engine, query_threads: Some(2), wide_rows_min, ..DatabaseOptions::default() };
    Database::open_on(Arc::new(disk.clone()), Arc::new(SystemClock), options).unwrap()
}

/// What is on the disk now, as a crash at this moment would leave it.
pub(crate) fn crash_image(disk: &MemoryDisk) -> MemoryDisk {
    let image = MemoryDisk::new();
    copy(disk, &image, Path::new(""));
    image
}

fn copy(from: &MemoryDisk, to: &MemoryDisk, dir: &Path) {
    for entry in from.list(dir).unwrap() {
        let path: PathBuf = dir.join(&entry.name);
        if entry.is_dir {
            copy(from, to, &path);
        } else {
            let bytes = from.read(&path).unwrap();
            to.create(&path).unwrap().append(&bytes).unwrap();
        }
    }
}
