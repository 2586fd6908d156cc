//! Whole parts: what was written is read, in the promised order, and damage never passes for data.

mod bloom;
mod damage;
mod golden;
mod inspect;
mod reduce;
mod round_trip;
mod table;

use super::*;
use crate::Result;
use crate::disk::{AppendFile, DirEntry, Disk};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use tickstone_model::RowBatch;

/// Files in memory.
#[derive(Debug, Default, Clone)]
struct MemoryDisk(Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>);

#[derive(Debug)]
struct MemoryFile(MemoryDisk, PathBuf);

impl MemoryDisk {
    fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(Path::new(path)).cloned()
    }
}

impl Disk for MemoryDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let files = self.0.lock().unwrap();
        files.get(path).cloned().map(FileBytes::new).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        if self.0.lock().unwrap().insert(path.into(), Vec::new()).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(Box::new(MemoryFile(self.clone(), path.into())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().unwrap().remove(path);
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        files.get_mut(path).ok_or(io::ErrorKind::NotFound)?.truncate(len as usize);
        Ok(())
    }
}

impl AppendFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.0.0.lock().unwrap();
        files.get_mut(&self.1).ok_or(io::ErrorKind::NotFound)?.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const POSITIONS: PositionRange = PositionRange { first: 7, last: 12 };

/// Writes a dense part, in which anything may be, and gives its bytes.
fn write(schema: &Arc<TableSchema>, batches: &[RowBatch], slice_rows: usize, threads: usize) -> Vec<u8> {
    write_as(Density::Dense, schema, batches, slice_rows, threads)
}

fn write_as(
    density: Density,
    schema: &Arc<TableSchema>,
    batches: &[RowBatch],
    slice_rows: usize,
    threads: usize,
) -> Vec<u8> {
    let disk = MemoryDisk::default();
    let options = PartOptions { slice_rows, threads, density };
    let summary = Part::write(&disk, Path::new("p"), schema, POSITIONS, batches, options).unwrap();
    let bytes = disk.contents("p").unwrap();
    assert_eq!(disk.0.lock().unwrap().len(), 1, "no temporary file is left");
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    bytes
}

fn open(bytes: Vec<u8>, schema: &Arc<TableSchema>) -> Result<Part> {
    Part::open(FileBytes::new(bytes), Path::new("p"), schema)
}
