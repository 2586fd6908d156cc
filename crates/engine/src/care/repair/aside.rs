//! Copies of everything that a repair changes or removes.

use super::Job;
use crate::disk::Disk;
use crate::paths::{BACKUP_FILE, DAMAGED_DIR, STAGE_DIR, SWITCH_FILE, copy_path};
use crate::streams::segment as streams;
use crate::tape::named::TAPE_MANIFEST;
use crate::tape::segment::{list_segments, segment_path};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// How much of a file is copied at once.
const CHUNK_BYTES: usize = 1 << 20;

impl Job<'_> {
    /// Copies what is damaged. Where a repair was cut short here, the next one takes another number.
    pub(super) fn put_aside(&mut self) -> Result<()> {
        let mut wanted = BTreeSet::new();
        for trouble in self.survey.tables.values() {
            wanted.extend(trouble.files.iter().cloned());
            wanted.extend(trouble.parts.keys().cloned());
        }
        if self.survey.marker_is_damaged {
            wanted.insert(PathBuf::from(BACKUP_FILE));
        }
        for (id, trouble) in &self.survey.streams {
            wanted.extend(trouble.files.iter().cloned());
            wanted.extend(trouble.damaged.iter().map(|first| streams::segment_path(*id, *first)));
        }
        let tape = &self.survey.tape;
        if tape.manifest {
            let path = PathBuf::from(TAPE_MANIFEST);
            wanted.extend([copy_path(&path), path]);
        }
        wanted.extend(tape.segments.iter().chain(&tape.headers).map(|first| segment_path(*first)));
        if !tape.unknown.is_empty() {
            // Their rows stand in whole frames, anywhere in it, and are dropped with it.
            wanted.extend(list_segments(self.disk)?.into_iter().map(segment_path));
        }
        for stray in &self.survey.strays {
            wanted.extend(files_below(self.disk, stray)?);
            if stray == Path::new(SWITCH_FILE) {
                wanted.extend(files_below(self.disk, Path::new(STAGE_DIR))?);
            }
        }
        let folder = Path::new(DAMAGED_DIR).join(next_number(self.disk)?);
        let mut folders = BTreeSet::new();
        for path in wanted {
            let bytes = match self.disk.read(&path) {
                // A part that is missing cannot be put aside.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // A folder without files.
                Err(_) if self.disk.list(&path).is_ok_and(|entries| entries.is_empty()) => continue,
                other => other.map_err(EngineError::io("read", &path))?,
            };
            let copy = folder.join(&path);
            write_copy(self.disk, &copy, &bytes)?;
            folders.insert(copy.parent().unwrap_or(Path::new("")).to_path_buf());
            self.done.files_aside.push(path);
        }
        for folder in &folders {
            self.disk.sync_dir(folder).map_err(EngineError::io("sync", folder))?;
        }
        self.done.aside = (!folders.is_empty()).then_some(folder);
        Ok(())
    }
}

fn write_copy(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = disk.create(path).map_err(EngineError::io("create", path))?;
    for chunk in bytes.chunks(CHUNK_BYTES) {
        file.append(chunk).map_err(EngineError::io("write", path))?;
    }
    file.sync().map_err(EngineError::io("sync", path))
}

fn next_number(disk: &dyn Disk) -> Result<String> {
    let entries = disk.list(Path::new(DAMAGED_DIR)).map_err(EngineError::io("list", DAMAGED_DIR))?;
    let last = entries.iter().filter_map(|entry| entry.name.parse::<u32>().ok()).max().unwrap_or(0);
    Ok(format!("{:04}", last.saturating_add(1)))
}

/// The file itself, or all files below a folder.
fn files_below(disk: &dyn Disk, path: &Path) -> Result<Vec<PathBuf>> {
    let entries = match disk.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(vec![path.to_path_buf()]),
        other => other.map_err(EngineError::io("list", path))?,
    };
    if entries.is_empty() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(disk, &path.join(entry.name))?);
    }
    Ok(files)
}
