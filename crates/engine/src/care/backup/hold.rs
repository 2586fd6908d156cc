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

use super::BackupSummary;
use super::copy::Copying;
use super::source::Source;
use crate::core::Core;
use crate::disk::Folder;
use crate::lock::lock;
use crate::paths::{BACKUP_FILE, HOLD_DIR};
use crate::store::hold::{is_held, remove};
use crate::upkeep::seal::seal;
use crate::{EngineError, Result};
use std::sync::atomic::Ordering;

/// Seals recent rows and keeps the state as of now; see [`Engine::hold`](crate::Engine::hold).
pub(crate) fn hold(core: &Core) -> Result<BackupSummary> {
    let _turn = lock(&core.maintenance.holding);
    let disk = core.disk.as_ref();
    if is_held(disk)? {
        return Err(EngineError::AlreadyHeld);
    }
    seal(core, None)?;
    make(core).inspect_err(|_| {
        // What stays, the next opening removes.
        if remove(disk).is_err() {
            core.maintenance.unsure.store(true, Ordering::Relaxed);
        }
    })
}

/// Removes what [`hold`] has made.
pub(crate) fn release(core: &Core) -> Result<()> {
    let _turn = lock(&core.maintenance.holding);
    if !is_held(core.disk.as_ref())? {
        return Err(EngineError::NotHeld);
    }
    remove(core.disk.as_ref()).inspect_err(|_| core.maintenance.unsure.store(true, Ordering::Relaxed))
}

fn make(core: &Core) -> Result<BackupSummary> {
    remove(core.disk.as_ref())?;
    let source = Source::of_writer(core)?;
    let to = Folder::new(&core.disk, HOLD_DIR);
    Copying::new(&source, &to, &mut |_| {}).linking_parts(HOLD_DIR).run(Some(BACKUP_FILE))
}
