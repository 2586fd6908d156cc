//! The folder of a hold: whether it is there, and how it goes.

use crate::disk::Disk;
use crate::disk::checked::sync_if_there;
use crate::paths::{BACKUP_FILE, HOLD_DIR, SWITCH_FILE};
use crate::{EngineError, Result};
use std::path::Path;

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
pub(crate) fn remove(disk: &dyn Disk) -> Result<()> {
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
