//! Replacing many files of a database at once: all of them or none, whenever the power goes.
//!
//! ```text
//! stage (next/…, synced) -> SWITCH (the one moment it happens) -> finish: rename, remove, SWITCH goes
//! ```
//!
//! Backups and repairs end this way. Bytes: docs/formats/manifest.md.
//!
//! Invariants:
//! - before `SWITCH` has its name the database is what it was: what is staged has names nobody reads;
//! - from then on it is the new one: a writer finishes first, a reader looks through [`settled`];
//! - finishing is idempotent: each step may find itself done.

use crate::codec::{Decoder, Encoder, Malformed};
use crate::disk::checked::{read_checked, replace_file, sync_if_there};
use crate::disk::{AppendFile, DirEntry, Disk, FileBytes, refused};
use crate::paths::{STAGE_DIR, SWITCH_FILE};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"TKSWCH\0\0";
const VERSION: u32 = 1;

/// Files to put in place, and names to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switch {
    /// Final paths of the files staged.
    pub(crate) moves: Vec<PathBuf>,
    /// Files and folders that go.
    pub(crate) removes: Vec<PathBuf>,
}

/// Where a file is staged.
pub(crate) fn staged(path: &Path) -> PathBuf {
    Path::new(STAGE_DIR).join(path)
}

impl Switch {
    /// Forgets what was staged and never switched to.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn begin(disk: &dyn Disk) -> Result<Self> {
        disk.remove(Path::new(STAGE_DIR)).map_err(EngineError::io("remove", STAGE_DIR))?;
        Ok(Self::default())
    }

    /// Writes a file that will be at `path`.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn stage(&mut self, disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
        let at = staged(path);
        disk.remove(&at).map_err(EngineError::io("remove", &at))?;
        let mut file = disk.create(&at).map_err(EngineError::io("create", &at))?;
        file.append(bytes).map_err(EngineError::io("write", &at))?;
        file.sync().map_err(EngineError::io("sync", &at))?;
        self.moves.push(path.to_path_buf());
        Ok(())
    }

    /// A file or folder that will be gone.
    pub(crate) fn remove(&mut self, path: PathBuf) {
        self.removes.push(path);
    }

    /// Switches.
    ///
    /// # Errors
    /// [`EngineError::Io`]; the database is then what it was, or the new one once somebody opens it.
    pub(crate) fn commit(self, disk: &dyn Disk) -> Result<()> {
        let folders: BTreeSet<_> = self.moves.iter().filter_map(|path| path.parent()).collect();
        for folder in folders {
            let at = staged(folder);
            disk.sync_dir(&at).map_err(EngineError::io("sync", at))?;
        }
        replace_file(disk, Path::new(SWITCH_FILE), self.encode())?;
        self.finish(disk)
    }

    /// The switch under way, if any.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`] or [`EngineError::NewerFormat`].
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let path = Path::new(SWITCH_FILE);
        let (_, bytes) = match read_checked(disk, path, MAGIC, VERSION) {
            Err(EngineError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?,
        };
        Self::decode(&bytes).map(Some).map_err(|what| EngineError::damaged(path, 0, what))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(VERSION);
        for paths in [&self.moves, &self.removes] {
            out.len(paths.len());
            paths.iter().for_each(|path| out.text(&path.to_string_lossy()));
        }
        out.finish()
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let mut paths = || {
            let count = input.count(4)?;
            (0..count).map(|_| input.text().map(PathBuf::from)).collect::<std::result::Result<Vec<_>, _>>()
        };
        let (moves, removes) = (paths()?, paths()?);
        input.finish()?;
        Ok(Self { moves, removes })
    }

    /// Puts the files in place. What is there already was put there by a try before this one.
    fn finish(&self, disk: &dyn Disk) -> Result<()> {
        let mut folders = BTreeSet::new();
        for path in &self.moves {
            let folder = path.parent().unwrap_or(Path::new(""));
            if folders.insert(folder) {
                make_folder(disk, folder)?;
            }
            match disk.rename(&staged(path), path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(EngineError::io("put in place", path))?,
            }
        }
        for path in &self.removes {
            disk.remove(path).map_err(EngineError::io("remove", path))?;
            folders.insert(path.parent().unwrap_or(Path::new("")));
        }
        // Also one that is empty now: what was in it must not come back.
        folders.into_iter().try_for_each(|folder| sync_if_there(disk, folder))?;
        for path in [SWITCH_FILE, STAGE_DIR] {
            disk.remove(Path::new(path)).map_err(EngineError::io("remove", path))?;
            disk.sync_dir(Path::new("")).map_err(EngineError::io("sync", "the database directory"))?;
        }
        Ok(())
    }
}

fn exists(disk: &dyn Disk, folder: &Path) -> bool {
    folder == Path::new("") || disk.list(folder).is_ok_and(|entries| !entries.is_empty())
}

/// A disk makes folders with the first file in them, and renames only into one that is there.
fn make_folder(disk: &dyn Disk, folder: &Path) -> Result<()> {
    if exists(disk, folder) {
        return Ok(());
    }
    let path = folder.join("folder.tmp");
    disk.remove(&path).map_err(EngineError::io("remove", &path))?;
    drop(disk.create(&path).map_err(EngineError::io("create", &path))?);
    disk.remove(&path).map_err(EngineError::io("remove", &path))
}

/// Finishes a switch that was cut short: what a writer does before it reads anything.
///
/// # Errors
/// As [`Switch::load`] and [`Switch::commit`].
pub(crate) fn finish(disk: &dyn Disk) -> Result<()> {
    match Switch::load(disk)? {
        Some(switch) => switch.finish(disk),
        None => Ok(()),
    }
}

/// Whether there is a switch that is not finished, readable or not.
pub(crate) fn is_under_way(disk: &dyn Disk) -> bool {
    disk.list(Path::new("")).is_ok_and(|entries| entries.iter().any(|entry| entry.name == SWITCH_FILE))
}

/// Whether there is one that cannot be read.
pub(crate) fn is_broken(disk: &dyn Disk) -> bool {
    matches!(Switch::load(disk), Err(EngineError::Damaged { .. }))
}

/// The database as it is once the switch under way is finished, for readers, who change nothing.
///
/// # Errors
/// As [`Switch::load`].
pub(crate) fn settled(disk: &Arc<dyn Disk>) -> Result<Arc<dyn Disk>> {
    Ok(match Switch::load(disk.as_ref())? {
        Some(switch) => Arc::new(Settled { disk: Arc::clone(disk), switch }),
        None => Arc::clone(disk),
    })
}

/// A disk seen through a switch.
#[derive(Debug)]
struct Settled {
    disk: Arc<dyn Disk>,
    switch: Switch,
}

impl Settled {
    fn is_removed(&self, path: &Path) -> bool {
        self.switch.removes.iter().any(|gone| path.starts_with(gone))
    }
}

impl Disk for Settled {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        if self.switch.moves.iter().any(|moved| moved == path) {
            match self.disk.read(&staged(path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        } else if self.is_removed(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.disk.read(path)
    }

    fn is_shared(&self) -> bool {
        self.disk.is_shared()
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn AppendFile>> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let kept = |entry: &DirEntry| !self.is_removed(&dir.join(&entry.name));
        let mut entries: Vec<DirEntry> = self.disk.list(dir)?.into_iter().filter(kept).collect();
        for entry in self.disk.list(&staged(dir))? {
            entries.retain(|other| other.name != entry.name);
            entries.push(entry);
        }
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn truncate(&self, _path: &Path, _len: u64) -> io::Result<()> {
        refused()
    }
}

#[cfg(test)]
mod tests;
