//! What is called how in a database directory, by whomever it is written.

use std::path::{Path, PathBuf};

/// Held by the process that writes.
pub(crate) const LOCK_FILE: &str = "LOCK";
/// The folder of the tape.
pub(crate) const TAPE_DIR: &str = "tape";
/// The folder of all tables; each has a folder named by its id in it.
pub(crate) const TABLES_DIR: &str = "tables";
/// The folder of all streams; each has a folder named by its number in it.
pub(crate) const STREAMS_DIR: &str = "streams";
/// Where files of a switch stand before they are switched to.
pub(crate) const STAGE_DIR: &str = "next";
/// The file that says what to switch to.
pub(crate) const SWITCH_FILE: &str = "SWITCH";
/// The copy of what says who may do what.
pub(crate) const ACCOUNTS_FILE: &str = "accounts";
/// The same, where a repair says that the next opening is to go by it.
pub(crate) const ACCOUNTS_DUE_FILE: &str = "accounts.due";
/// What a crash leaves of it, half written.
pub(crate) const ACCOUNTS_UNFINISHED: &str = "accounts.tmp";
/// Tells a backup from a database that is not to be overwritten.
pub(crate) const BACKUP_FILE: &str = "BACKUP";
/// What is in it.
pub(crate) const BACKUP_TEXT: &[u8] = b"backup of a Tickstone database\n";
/// Says that a restore into this directory was begun and not finished.
pub(crate) const RESTORE_FILE: &str = "RESTORE";
/// The folder of a hold.
pub(crate) const HOLD_DIR: &str = "hold";
/// Where copies go, in a folder numbered by repair.
pub(crate) const DAMAGED_DIR: &str = "damaged";
/// The extension of the copy of a file.
const COPY_EXTENSION: &str = "copy";

/// The folder of a table.
pub(crate) fn table_dir(table: u32) -> PathBuf {
    Path::new(TABLES_DIR).join(table.to_string())
}

/// The folder of a stream.
pub(crate) fn stream_dir(stream: u32) -> PathBuf {
    Path::new(STREAMS_DIR).join(stream.to_string())
}

/// First letters of the name of a symbol file.
const SYMBOLS_PREFIX: &str = "symbols-";

/// The file of a SYMBOL column's strings, by the column's id.
pub(crate) fn symbols_path(table: u32, column_id: u32) -> PathBuf {
    table_dir(table).join(format!("{SYMBOLS_PREFIX}{column_id}"))
}

/// The id of the column whose symbols a file of this name holds, or is the copy of; `None` for other files.
pub(crate) fn symbols_column(file: &str) -> Option<u32> {
    let (name, extension) = file.split_once('.').unwrap_or((file, COPY_EXTENSION));
    name.strip_prefix(SYMBOLS_PREFIX)?.parse().ok().filter(|_| extension == COPY_EXTENSION)
}

/// The copy of a file that [`replace_with_copy`](crate::disk::checked::replace_with_copy) wrote.
pub(crate) fn copy_path(path: &Path) -> PathBuf {
    path.with_extension(COPY_EXTENSION)
}
