//! `tickstone backup` and `restore`: a second directory that is a database of its own; CHECKPOINT HOLD: a folder
//! that is one.
//!
//! ```text
//! snapshot + tape up to its position (source) -> parts that are not there yet (copy)
//!        -> manifests, symbol files and tape staged -> one switch -> parts nobody needs any more go
//! ```
//!
//! Invariants:
//! - a backup holds one snapshot: every commit up to its position, and none after;
//! - the backup before stays whole until the switch, the new one is whole from then on;
//! - a part is verified before it is copied: damage is never backed up;
//! - streams are copied after the snapshot was taken: they have at least what it had of them.
//!
//! Enter at [`Engine::backup`], [`restore`] and [`Engine::hold`].

mod copy;
mod hold;
mod source;
mod streams;

pub(crate) use hold::{hold, release};
pub(crate) use source::Source;

use crate::care::check::Progress;
use crate::disk::Disk;
use crate::paths::{BACKUP_FILE, LOCK_FILE, RESTORE_FILE, STREAMS_DIR, TABLES_DIR, TAPE_DIR};
use crate::store::manifest::{Manifest, list_tables};
use crate::store::switch;
use crate::{EngineError, Result};
use copy::Copying;
use std::path::Path;
use std::sync::Arc;

/// What a backup or a restore brought over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// Position of the last commit in it.
    pub position: u64,
    /// Tables in it.
    pub tables: u64,
    /// Rows in it.
    pub rows: u64,
    /// Parts in it.
    pub parts: u64,
    /// Parts that were copied: the others were there.
    pub parts_copied: u64,
    /// Bytes that were written.
    pub bytes_copied: u64,
    /// Parts that went, as the new state does not need them.
    pub parts_removed: u64,
}

/// Makes `to` ready for a backup: an empty directory, or a backup made before.
///
/// # Errors
/// [`EngineError::NotABackup`] where it holds anything else, [`EngineError::Io`].
pub(crate) fn prepare(to: &dyn Disk) -> Result<()> {
    switch::finish(to)?;
    let names = names(to)?;
    let known = names.iter().any(|name| name == BACKUP_FILE);
    // Before the first switch a backup is parts without a manifest, and what was made ready.
    let begun =
        names.iter().all(|name| matches!(name.as_str(), "tables" | "streams" | "next" | "SWITCH.tmp"))
            && list_tables(to)?.into_iter().all(|id| to.read(&Manifest::path(id)).is_err());
    if known || begun { Ok(()) } else { Err(EngineError::NotABackup { found: names.join(", ") }) }
}

/// Brings `to`, which is [prepared](prepare), to the state of `source`.
///
/// # Errors
/// [`EngineError::Damaged`] where a part is not as it was written, [`EngineError::Io`]: the backup before is then as
/// it was.
pub(crate) fn copy_into(
    source: &Source,
    to: &dyn Disk,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<BackupSummary> {
    Copying::new(source, to, progress).run(Some(BACKUP_FILE))
}

/// Copies a backup, or any database that nobody writes, into an empty directory, and verifies it.
///
/// # Errors
/// [`EngineError::NotEmpty`] where `to` holds anything but a restore that was cut short, [`EngineError::NoBackup`] where
/// `backup` holds none, [`EngineError::Damaged`], [`EngineError::Io`].
pub fn restore(
    backup: &Arc<dyn Disk>,
    to: &Arc<dyn Disk>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<BackupSummary> {
    let found = names(to.as_ref())?;
    let marker = Path::new(RESTORE_FILE);
    // Cut short within the switch it is finished here, and nothing is left to copy.
    let begun = found.iter().any(|name| name == RESTORE_FILE);
    switch::finish(to.as_ref())?;
    if !begun && !found.is_empty() {
        return Err(EngineError::NotEmpty { found: found.join(", ") });
    }
    let held = names(backup.as_ref())?;
    if !held.iter().any(|name| matches!(name.as_str(), BACKUP_FILE | TAPE_DIR | TABLES_DIR | STREAMS_DIR)) {
        let found = if held.is_empty() {
            "the source is empty".to_string()
        } else {
            format!("the source holds {}", held.join(", "))
        };
        return Err(EngineError::NoBackup { found });
    }
    let source = Source::of_closed(backup)?;
    if !begun {
        drop(to.create(marker).map_err(EngineError::io("create", marker))?);
        to.sync_dir(Path::new("")).map_err(EngineError::io("sync", RESTORE_FILE))?;
    }
    Copying::new(&source, to.as_ref(), progress).run(None)
}

/// What a directory holds, but for its lock.
fn names(disk: &dyn Disk) -> Result<Vec<String>> {
    let entries = disk.list(Path::new("")).map_err(EngineError::io("list", "the target"))?;
    Ok(entries.into_iter().map(|entry| entry.name).filter(|name| name != LOCK_FILE).collect())
}
