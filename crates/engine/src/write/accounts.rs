//! The text that says who may do what, and a copy of it beside the tables.
//!
//! Without that text everybody may do everything. Its table is as safe as any other, which is not enough: where both of
//! its manifests are damaged, a repair rebuilds the table without it, or from an older frame of the tape. So the text
//! stands in a file of its own too, written before a change is acknowledged. An opening takes it from there where the table
//! is gone, and where a repair says that it is due.

use super::tables::set_accounts;
use crate::core::Core;
use crate::disk::Disk;
use crate::disk::checked::{read_checked, replace_file};
use crate::error::is_full;
use crate::paths::{ACCOUNTS_DUE_FILE, ACCOUNTS_FILE};
use crate::store::snapshot::Snapshot;
use crate::{EngineError, Result};
use std::io::ErrorKind;
use std::path::Path;

const MAGIC: &[u8; 8] = b"TKUSERS\0";
/// The format version this build writes, and the newest it reads.
const VERSION: u32 = 1;

/// The bytes of a copy, without the checksum at their end.
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Writes the copy.
///
/// # Errors
/// [`EngineError::Io`].
fn save(disk: &dyn Disk, text: &str) -> Result<()> {
    replace_file(disk, Path::new(ACCOUNTS_FILE), encode(text))
}

/// Writes the copy after a change, which is done already. Where that fails, on a full disk, no older one stays, from which
/// a repair would take rights that are revoked; the next opening writes it.
pub(super) fn save_or_remove(disk: &dyn Disk, text: &str) {
    if save(disk, text).is_err() {
        let _ = disk.remove(Path::new(ACCOUNTS_FILE));
    }
}

/// The text in a copy, `None` where there is none.
///
/// # Errors
/// [`EngineError::Damaged`], [`EngineError::Io`].
fn load(disk: &dyn Disk, path: &str) -> Result<Option<String>> {
    let bytes = match read_checked(disk, Path::new(path), MAGIC, VERSION) {
        Err(EngineError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?.1,
    };
    let text = String::from_utf8(bytes.to_vec());
    text.map(Some).map_err(|_| EngineError::damaged(path, 0, "the text is no UTF-8"))
}

/// Whether a copy is there and damaged.
pub(crate) fn is_damaged(disk: &dyn Disk) -> bool {
    load(disk, ACCOUNTS_FILE).is_err()
}

/// The text that a snapshot has.
pub(crate) fn known(snapshot: &Snapshot) -> Option<String> {
    snapshot.accounts().and_then(|schema| schema.view().map(str::to_string))
}

/// What is to take the place of the text that a snapshot has.
///
/// # Errors
/// Where there were users, and neither says any more who: everybody could do everything.
fn due(disk: &dyn Disk, known: Option<&String>) -> Result<Option<String>> {
    let due = load(disk, ACCOUNTS_DUE_FILE).ok().flatten().filter(|due| known != Some(due));
    match known {
        None if due.is_none() => load(disk, ACCOUNTS_FILE).map_err(|error| match error {
            EngineError::Damaged { .. } => EngineError::damaged(
                ACCOUNTS_FILE,
                0,
                "this file and the table of users are lost: restore a backup, or remove the file and make users anew",
            ),
            other => other,
        }),
        _ => Ok(due),
    }
}

/// Takes the text from its copy where the table lacks it, and writes the copy where that is older.
///
/// # Errors
/// [`EngineError::Io`], and those of a change of the text.
pub(crate) fn settle(core: &Core) -> Result<()> {
    let disk = core.disk.as_ref();
    let now = known(&core.publisher.snapshot());
    if let Some(text) = due(disk, now.as_ref())? {
        set_accounts(core, &text)?;
    }
    let path = Path::new(ACCOUNTS_DUE_FILE);
    if disk.read(path).is_ok() {
        disk.remove(path).map_err(EngineError::io("remove", path))?;
    }
    let is_kept = |now: &String| load(disk, ACCOUNTS_FILE).is_ok_and(|kept| kept.as_ref() == Some(now));
    match now.filter(|now| !is_kept(now)) {
        Some(now) => match save(disk, &now) {
            // It must not keep the database closed; the next opening writes it.
            Err(EngineError::Io { source, .. }) if is_full(&source) => Ok(()),
            saved => saved,
        },
        None => Ok(()),
    }
}

/// Refuses to open for reading what lacks its users.
///
/// # Errors
/// [`EngineError::Damaged`].
pub(crate) fn check(disk: &dyn Disk, snapshot: &Snapshot) -> Result<()> {
    match due(disk, known(snapshot).as_ref())? {
        None => Ok(()),
        Some(_) => {
            let what = "the users of this database are to be taken from here: open it for writing once";
            Err(EngineError::damaged(ACCOUNTS_FILE, 0, what))
        }
    }
}
