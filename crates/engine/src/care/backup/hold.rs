//! A hold (CHECKPOINT HOLD): the present state in a folder of its own, for tools that copy files.
//!
//! `hold/` is a backup on the database's own disk, whose parts are second names of the parts there: it takes little
//! time to make, and no room but for manifests, symbol files and the end of the tape.
//!
//! Invariants:
//! - from the moment a hold is made until it is released no file of it changes, comes or goes: copied in whatever
//!   order, it is the same database;
//! - parts are written once, so that a second name keeps what the first one showed, whatever becomes of that;
//! - it is there with its marker and without a switch; what is not was cut short, and goes;
//! - it does not know the process that made it: it stays when that ends.

use super::copy::Copying;
use super::source::Source;
use super::{BACKUP_FILE, BackupSummary};
use crate::disk::{Disk, Folder};
use crate::engine::{Core, Engine, lock};
use crate::manifest::sync_if_there;
use crate::switch::SWITCH_FILE;
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The folder of a hold.
pub(crate) const HOLD_DIR: &str = "hold";

impl Engine {
    /// Seals recent rows as [`Self::seal`] does and keeps the state as of now in the folder `hold` of the
    /// database directory until [`Self::release`], also past the end of the process. The folder is a database;
    /// other programs may copy it, file by file in any order, while this one is written. Where the file system
    /// has no hard links, parts are copied.
    ///
    /// # Errors
    /// [`EngineError::AlreadyHeld`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], [`EngineError::Io`]:
    /// nothing is held then.
    pub fn hold(&self) -> Result<BackupSummary> {
        let maintenance = &self.core.writing("CHECKPOINT HOLD")?.maintenance;
        let _turn = lock(&maintenance.holding);
        let disk = self.core.disk.as_ref();
        if is_held(disk)? {
            return Err(EngineError::AlreadyHeld);
        }
        self.seal(None)?;
        self.core.make_hold().inspect_err(|_| {
            // What stays, the next opening removes.
            if remove(disk).is_err() {
                maintenance.unsure.store(true, Ordering::Relaxed);
            }
        })
    }

    /// Removes what [`Self::hold`] has made: parts that nothing else names go with it.
    ///
    /// # Errors
    /// [`EngineError::NotHeld`], [`EngineError::ReadOnly`], or [`EngineError::Io`]: it may be there in part then,
    /// and goes with the next opening or hold.
    pub fn release(&self) -> Result<()> {
        let maintenance = &self.core.writing("CHECKPOINT RELEASE")?.maintenance;
        let _turn = lock(&maintenance.holding);
        if !is_held(self.core.disk.as_ref())? {
            return Err(EngineError::NotHeld);
        }
        remove(self.core.disk.as_ref()).inspect_err(|_| maintenance.unsure.store(true, Ordering::Relaxed))
    }

    /// Whether a state is held.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn is_held(&self) -> Result<bool> {
        is_held(self.core.disk.as_ref())
    }
}

impl Core {
    fn make_hold(&self) -> Result<BackupSummary> {
        remove(self.disk.as_ref())?;
        let source = Source::of_writer(self)?;
        let to = Folder::new(&self.disk, HOLD_DIR);
        Copying::new(&source, &to, &mut |_| {}).linking_parts(HOLD_DIR).run(Some(BACKUP_FILE))
    }
}

/// Whether a hold is there, whole.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn is_held(disk: &dyn Disk) -> Result<bool> {
    let entries = disk.list(Path::new(HOLD_DIR)).map_err(EngineError::io("list", HOLD_DIR))?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    Ok(has(BACKUP_FILE) && !has(SWITCH_FILE))
}

/// Removes what is left of a hold that was cut short.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn remove_unfinished(disk: &dyn Disk) -> Result<()> {
    if is_held(disk)? { Ok(()) } else { remove(disk) }
}

/// Removes a hold, whole or not. Its marker goes first: a half is none.
fn remove(disk: &dyn Disk) -> Result<()> {
    let dir = Path::new(HOLD_DIR);
    if disk.list(dir).map_err(EngineError::io("list", dir))?.is_empty() {
        return Ok(());
    }
    let marker = dir.join(BACKUP_FILE);
    disk.remove(&marker).map_err(EngineError::io("remove", &marker))?;
    sync_if_there(disk, dir)?;
    disk.remove(dir).map_err(EngineError::io("remove", dir))?;
    disk.sync_dir(Path::new("")).map_err(EngineError::io("sync", dir))
}
