//! Recovery: from files to the state of the last acknowledged commit.
//!
//! ```text
//! manifests + symbol files -> tables with their parts
//! tape segments in order   -> each frame not yet in a manifest or part, applied as when it was written
//! ```
//!
//! Invariants:
//! - nothing is guessed: a torn end of the newest segment is cut, any other damage is an error;
//! - recovery is idempotent: interrupted anywhere, the next one ends in the same state;
//! - files that nothing names are left to `orphans`;
//! - after an end that was not a clean close, what was found is made stable before anything is built on it:
//!   a killed process leaves changes that the system knows and the disk does not;
//! - a clean close holds until the next opening for writing, which cuts it off.

mod decide;
mod reading;
mod replay;
mod surveying;

pub(crate) use reading::{Reader, read_only};
pub(crate) use replay::Replay;
pub(crate) use surveying::{Surveying, UndoneRows};

use crate::disk::Disk;
use crate::disk::checked::{mend_copy, sync_if_there};
use crate::error::is_full;
use crate::paths::{TABLES_DIR, TAPE_DIR, copy_path, symbols_path, table_dir};
use crate::store::dictionary::Dictionary;
use crate::store::manifest::{Manifest, list_tables};
use crate::store::publisher::NamedFiles;
use crate::store::snapshot::{Snapshot, TableSnapshot};
use crate::tape::frame::{HEADER_BYTES, TRAILER_BYTES};
use crate::tape::named::{NamedSegment, Names, TapeFound, TapeManifest, UNFINISHED, remove_released};
use crate::tape::segment::{Segment, SegmentEnd, epoch_of, first_position, segment_path};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::Arc;
use surveying::ids_used;

/// Bytes of a close frame: all before it in its segment were stable when it was written.
const CLOSE_BYTES: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;

/// How often something is read anew, at most, since parts of it were removed.
pub(crate) const READS_MAX: usize = 32;

/// Fewer tables than this are not worth a thread.
const TABLES_A_THREAD_MIN: usize = 16;

/// A database as it was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) snapshot: Snapshot,
    /// No frame, lost ones included, has a higher epoch than this position's.
    pub(crate) last_position: u64,
    /// Smallest table id never used.
    pub(crate) next_table: u32,
    /// Whether no file can be there that nothing names.
    pub(crate) clean: bool,
    /// Which segments of the tape there must be.
    pub(crate) names: Arc<Names>,
    /// The files of parts that the tape's loads and rewrites name.
    pub(crate) named: Vec<NamedFiles>,
}

/// Recovers, and cuts a torn tail. The names of the tape are written to the disk `below`, which does not ask for room.
///
/// # Errors
/// [`EngineError::Damaged`], [`EngineError::NewerFormat`], [`EngineError::Io`].
pub(crate) fn for_writing(disk: &Arc<dyn Disk>, below: &Arc<dyn Disk>) -> Result<Recovered> {
    let found = TapeFound::look(disk.as_ref())?;
    found.check_complete()?;
    let mut replay = Replay::from_manifests(disk)?;
    let read = replay.read_tape(&found)?;
    replay.check_reach(&found)?;
    let settled = replay.chain.unwrap_or(0).max(replay.saved);
    let names = Arc::new(settle_tape(below, &found, read, settled, replay.clean_close)?);
    let clean = replay.clean_close && replay.dropped.is_empty();
    let dropped = replay.dropped.clone();
    let with_more_symbols = std::mem::take(&mut replay.with_more_symbols);
    let named = std::mem::take(&mut replay.named);
    let (snapshot, last_position, next_table) = replay.finish()?;
    let recovered = Recovered { snapshot, last_position, next_table, clean, names, named };
    if !clean {
        // A manifest that came back without the files it names would keep the database closed.
        for id in dropped.into_iter().filter(|id| recovered.snapshot.table_by_id(*id).is_none()) {
            Manifest::remove(disk.as_ref(), id)?;
        }
        remove_unfinished_segments(disk.as_ref())?;
    }
    if !clean || found.older {
        sync_folders(disk.as_ref(), &recovered, |table| {
            !found.older && !with_more_symbols.contains(&table.id)
        })?;
    }
    Ok(recovered)
}

/// A tape that was read to its end.
#[derive(Debug)]
struct TapeRead {
    /// What there is of each segment; of the newest without a close at its end.
    segments: Vec<NamedSegment>,
    newest: Option<(Segment, SegmentEnd)>,
}

/// Makes what was read of the tape stable, cuts the rest of it off, and says so in the tape manifest. What that
/// promises is taken back before it is cut, and promised anew once it is stable.
fn settle_tape(
    disk: &Arc<dyn Disk>,
    found: &TapeFound,
    read: TapeRead,
    settled: u64,
    clean: bool,
) -> Result<Names> {
    let mut segments = read.segments;
    if read.newest.as_ref().is_some_and(|(_, end)| end.good_bytes == 0) {
        segments.pop();
    }
    let begins = segments.first().map_or(0, |segment| segment.first).max(found.named.begins);
    let settled = settled.max(found.named.settled);
    let names = Names::new(disk, TapeManifest { begins, settled, segments }, found.named.clone());
    if clean {
        names.save()?;
    }
    if let (Some((segment, end)), Some(first)) = (read.newest, found.segments.last()) {
        settle(disk.as_ref(), *first, segment, end.good_bytes, clean)?;
    }
    if !clean {
        match names.save() {
            // A full disk must not keep the database closed: what the manifest promises is there.
            Err(EngineError::Io { source, .. }) if is_full(&source) => {}
            saved => saved?,
        }
    }
    remove_released(disk.as_ref(), &found.released)?;
    Ok(names)
}

/// Makes the names of manifests and symbol files stable, and that what was removed is gone, and writes the copies
/// that are missing. Only what the last
/// opening wrote can be otherwise: it did the same before it wrote anything, and all its manifests hold a
/// position of its epoch. A symbol file that it replaced, and whose manifest it could not save, has more symbols than
/// that relies on: they are not brought by frames again, so that the file must stay; such tables are not `known_stable`.
/// Earlier builds did not sync copies.
fn sync_folders(
    disk: &dyn Disk,
    recovered: &Recovered,
    known_stable: impl Fn(&TableSnapshot) -> bool,
) -> Result<()> {
    let last_opening = first_position(epoch_of(recovered.last_position));
    let is_stable = |table: &TableSnapshot| table.opened_at < last_opening && known_stable(table);
    for id in list_tables(disk)? {
        let table = recovered.snapshot.table_by_id(id);
        if table.is_some_and(|table| is_stable(table)) {
            continue;
        }
        sync_if_there(disk, &table_dir(id))?;
        // A copy alone would look like a manifest that was lost: the file itself must be stable before it.
        if let Some(table) = table {
            let columns = table.schema.symbol_columns().map(|column| table.schema.column_id(column));
            // The manifest may still rely on symbols of columns dropped since.
            let columns = columns.chain(table.retired_columns.iter().copied());
            columns.map(|column| symbols_path(id, column)).try_for_each(|path| mend_copy(disk, &path))?;
            mend_copy(disk, &Manifest::path(id))?;
        }
    }
    sync_if_there(disk, Path::new(TABLES_DIR))
}

/// Makes the good bytes of the newest segment, and only those, stable. They are written again: a sync that
/// failed before may have left them in the system's memory alone, and a later one would not say so.
fn settle(disk: &dyn Disk, first: u64, segment: Segment, good_bytes: usize, clean: bool) -> Result<()> {
    let path = segment_path(first);
    let cut = |bytes: u64| disk.truncate(&path, bytes).map_err(EngineError::io("cut", &path));
    if clean {
        // Only the close frame may still be in the system's memory. It goes: what is sealed, merged and saved from
        // now on may not be stable when this process ends, also if it never writes a frame.
        drop(segment);
        return cut(good_bytes as u64 - CLOSE_BYTES);
    }
    if good_bytes == 0 {
        drop(segment);
        disk.remove(&path).map_err(EngineError::io("remove", &path))?;
        return disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR));
    }
    let copy = path.with_extension("tmp");
    let written = write_again(disk, &path, &copy, segment.bytes(good_bytes));
    drop(segment);
    match written {
        // A full disk must not keep the database closed.
        Err(source) if is_full(&source) => {
            disk.remove(&copy).map_err(EngineError::io("remove", &copy))?;
            cut(good_bytes as u64)
        }
        written => written.map_err(EngineError::io("write again", &path)),
    }
}

fn write_again(disk: &dyn Disk, path: &Path, copy: &Path, bytes: &[u8]) -> std::io::Result<()> {
    disk.remove(copy)?;
    let mut file = disk.create(copy)?;
    file.append(bytes)?;
    file.sync()?;
    disk.rename(copy, path)?;
    disk.sync_dir(Path::new(TAPE_DIR))
}

/// Files of a table that cannot be read.
struct Unreadable {
    error: EngineError,
    /// The last frame replayed that makes or drops a table of this number dropped it.
    dropped: bool,
}

/// A table as its files have it.
struct LoadedTable {
    table: TableSnapshot,
    /// The highest epoch of an opening that wrote one of its parts.
    newest_epoch: Option<u64>,
    /// Whether a symbol file has more than the manifest relies on: it was replaced after that.
    has_more_symbols: bool,
}

/// Reads the manifests of these tables on all cores; tables without one are left out. Where a table's files cannot
/// be read its number, and why.
fn load_tables(
    disk: &Arc<dyn Disk>,
    ids: &[u32],
) -> Vec<std::result::Result<LoadedTable, (u32, EngineError)>> {
    let load = |ids: &[u32]| -> Vec<_> {
        let load = |id: &u32| load_table(disk, *id).map_err(|error| (*id, error)).transpose();
        ids.iter().filter_map(load).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 1 || ids.len() < TABLES_A_THREAD_MIN {
        return load(ids);
    }
    std::thread::scope(|scope| {
        let shares = ids.chunks(ids.len().div_ceil(threads).max(TABLES_A_THREAD_MIN));
        let workers: Vec<_> = shares.map(|ids| scope.spawn(move || load(ids))).collect();
        let mut tables = Vec::with_capacity(ids.len());
        for worker in workers {
            tables.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        tables
    })
}

/// Reads a table's manifest and symbol files; `None` where it has no manifest.
fn load_table(disk: &Arc<dyn Disk>, id: u32) -> Result<Option<LoadedTable>> {
    let Some(manifest) = Manifest::load(disk.as_ref(), id)? else { return Ok(None) };
    let mut dictionaries = vec![None; manifest.schema.columns().len()];
    let mut has_more_symbols = false;
    for (column, count) in manifest.schema.symbol_columns().zip(&manifest.symbol_counts) {
        let path = symbols_path(id, manifest.schema.column_id(column));
        let dictionary = match count {
            0 => Dictionary::default(),
            _ => Dictionary::load(disk.as_ref(), &path, *count as usize)?,
        };
        has_more_symbols |= dictionary.len() > *count as usize;
        dictionaries[column] = Some(Arc::new(dictionary));
    }
    let newest_epoch = manifest.newest_epoch();
    let table = TableSnapshot::from_manifest(manifest, dictionaries, disk);
    Ok(Some(LoadedTable { table, newest_epoch, has_more_symbols }))
}

/// Whether a table's folder has the copy of a manifest and no manifest: whoever drops a table removes the
/// copy first.
pub(crate) fn lost_manifest(disk: &dyn Disk, table: u32) -> Result<bool> {
    let dir = table_dir(table);
    let entries = disk.list(&dir).map_err(EngineError::io("list", &dir))?;
    let manifest = Manifest::path(table);
    let has = |path: &Path| entries.iter().any(|entry| path.ends_with(&entry.name));
    Ok(has(&copy_path(&manifest)) && !has(&manifest))
}

/// Removes segments of the tape, and tape manifests, that were being written when a crash came.
fn remove_unfinished_segments(disk: &dyn Disk) -> Result<()> {
    for path in UNFINISHED.map(Path::new) {
        disk.remove(path).map_err(EngineError::io("remove", path))?;
    }
    let tape = Path::new(TAPE_DIR);
    let mut removed = false;
    for entry in disk.list(tape).map_err(EngineError::io("list", TAPE_DIR))? {
        if entry.name.ends_with(".tmp") {
            let path = tape.join(&entry.name);
            disk.remove(&path).map_err(EngineError::io("remove", &path))?;
            removed = true;
        }
    }
    if removed { sync_if_there(disk, tape) } else { Ok(()) }
}
