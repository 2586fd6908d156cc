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

mod reading;
mod surveying;

pub(crate) use reading::{Reader, read_only};

use crate::disk::Disk;
use crate::disk::checked::{mend_copy, sync_if_there};
use crate::error::is_full;
use crate::paths::{TABLES_DIR, TAPE_DIR, copy_path, symbols_path, table_dir};
use crate::recent::{Run, merge_runs, runs_to_merge, split_by_partition};
use crate::store::dedup::{Keys, batch_without};
use crate::store::dictionary::Dictionary;
use crate::store::manifest::{Manifest, list_tables};
use crate::store::snapshot::{
    DroppedCell, Effect, LoadEffect, RowsEffect, Snapshot, Source, TableSnapshot, fit_rows,
};
use crate::tape::change::{Change, KIND_CLOSE, NewSymbols, TableRows, decode_change};
use crate::tape::frame::{Frame, HEADER_BYTES, TRAILER_BYTES};
use crate::tape::named::{NamedSegment, Names, TapeFound, TapeManifest, UNFINISHED, remove_released};
use crate::tape::segment::{Segment, SegmentEnd, epoch_of, first_position, position_after, segment_path};
use crate::tape::writer::Written;
use crate::{EngineError, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surveying::ids_used;
use tickstone_model::{RowBatch, TimeRange};

/// Bytes of a close frame: all before it in its segment were stable when it was written.
const CLOSE_BYTES: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;

/// Runs a partition may gather during replay before neighbours merge.
const REPLAY_RUNS_MAX: usize = 64;

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
}

/// Recovers, and cuts a torn tail.
///
/// # Errors
/// [`EngineError::Damaged`], [`EngineError::NewerFormat`], [`EngineError::Io`].
pub(crate) fn for_writing(disk: &Arc<dyn Disk>) -> Result<Recovered> {
    let found = TapeFound::look(disk.as_ref())?;
    found.check_complete()?;
    let mut replay = Replay::from_manifests(disk)?;
    let read = replay.read_tape(&found)?;
    replay.check_reach(&found)?;
    let settled = replay.chain.unwrap_or(0).max(replay.saved);
    let names = Arc::new(settle_tape(disk, &found, read, settled, replay.clean_close)?);
    let clean = replay.clean_close && replay.dropped.is_empty();
    let dropped = replay.dropped.clone();
    let with_more_symbols = std::mem::take(&mut replay.with_more_symbols);
    let (snapshot, last_position, next_table) = replay.finish()?;
    let recovered = Recovered { snapshot, last_position, next_table, clean, names };
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

/// State being rebuilt from the tape.
pub(crate) struct Replay {
    disk: Arc<dyn Disk>,
    snapshot: Snapshot,
    /// The last frame replayed: the next one must follow it. `None` also where nobody is to look.
    chain: Option<u64>,
    /// For a check: frames may be missing, and rows are let go of once they were decoded.
    surveying: bool,
    /// Rows that no part holds, of the frames replayed while surveying.
    rows_seen: u64,
    last_position: u64,
    /// The last position that some manifest holds.
    saved: u64,
    next_table: u32,
    /// Tables whose own files cannot be read: a DROP must follow.
    unreadable: BTreeMap<u32, Unreadable>,
    /// Tables with symbol files that have more than their manifests rely on.
    with_more_symbols: HashSet<u32>,
    /// Tables with frames but neither manifest nor CREATE: a DROP must follow.
    unknown: HashSet<u32>,
    /// Tables whose CREATE is in the tape and whose first symbols, or parts, were in files that are gone, with
    /// what is missing: a DROP must follow for them, too.
    incomplete: HashMap<u32, String>,
    /// The last frame is a close.
    clean_close: bool,
    /// Bytes of its segment that were stable when the last frame was written.
    close_proof: u64,
    dropped: Vec<u32>,
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

impl Replay {
    fn from_manifests(disk: &Arc<dyn Disk>) -> Result<Self> {
        let (mut snapshot, mut last_position, mut saved) = (Snapshot::default(), 0, 0);
        let ids = list_tables(disk.as_ref())?;
        let next_table = ids.iter().max().map_or(1, |id| id + 1);
        let (mut unreadable, mut with_more_symbols) = (BTreeMap::new(), HashSet::new());
        for loaded in load_tables(disk, &ids) {
            let LoadedTable { table, newest_epoch, has_more_symbols } = match loaded {
                Ok(loaded) => loaded,
                Err((id, error)) => {
                    unreadable.insert(id, Unreadable { error, dropped: false });
                    continue;
                }
            };
            // An opening that sealed but wrote no frame is known by the names of its parts: they are used once.
            let opened_last = newest_epoch.map_or(0, first_position);
            last_position = last_position.max(table.opened_at).max(opened_last);
            snapshot.set_position(snapshot.position().max(table.opened_at));
            saved = table.opened_at.max(saved);
            if has_more_symbols {
                with_more_symbols.insert(table.id);
            }
            snapshot.add_table(table);
        }
        let disk = Arc::clone(disk);
        Ok(Self {
            disk,
            snapshot,
            chain: None,
            surveying: false,
            rows_seen: 0,
            last_position,
            saved,
            next_table,
            unreadable,
            with_more_symbols,
            unknown: HashSet::new(),
            incomplete: HashMap::new(),
            clean_close: true,
            close_proof: 0,
            dropped: Vec::new(),
        })
    }

    /// Replays one frame.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] where it cannot be, or does not follow the one before; nothing is changed then.
    pub(crate) fn frame(&mut self, segment: &u64, frame: &Frame<'_>) -> Result<()> {
        let position = frame.header.position;
        let damaged = |what: String| {
            EngineError::damaged(
                segment_path(*segment),
                0,
                format!("the frame at position {position:#x}: {what}"),
            )
        };
        let types = |id: u32| {
            let table = self.snapshot.table_by_id(id).filter(|table| table.created_at < position)?;
            let schema = table.history.at(position)?;
            Some(schema.columns().iter().map(|column| column.column_type).collect())
        };
        let change = decode_change(frame.header.kind, frame.payload, types).map_err(damaged)?;
        let first = if let Change::Gap { first } = change { first } else { position };
        if let Some(previous) = self.chain
            && !self.surveying
            && (first <= previous || position_after(previous, first) < first)
        {
            return Err(damaged(format!(
                "it does not follow {previous:#x}: frames between them are missing"
            )));
        }
        self.chain = Some(position);
        self.clean_close = matches!(change, Change::Close);
        self.close_proof = frame.header.synced_bytes;
        self.last_position = self.last_position.max(position);
        let effect = self.effect(position, change).map_err(damaged)?;
        if let Some(mut effect) = effect {
            if let (true, Effect::Rows(tables)) = (self.surveying, &mut effect.1) {
                for rows in tables {
                    let pieces = std::mem::take(&mut rows.pieces);
                    self.rows_seen += pieces.iter().map(|(_, piece)| piece.rows() as u64).sum::<u64>();
                }
            }
            let position = position.max(self.snapshot.position());
            let received_ns = frame.header.received_ns;
            self.snapshot.apply_at(position, Written { position: effect.0, received_ns, effect: effect.1 });
        }
        Ok(())
    }

    /// The part of a change that the manifests and parts do not hold already.
    fn effect(
        &mut self,
        position: u64,
        change: Change,
    ) -> std::result::Result<Option<(u64, Effect)>, String> {
        let table = |replay: &Self, id: u32| {
            let table = replay.snapshot.table_by_id(id).map(Arc::clone);
            table.filter(|table| table.created_at < position)
        };
        let effect = match change {
            Change::Rows(tables) => {
                let mut effects = Vec::new();
                for rows in tables {
                    match table(self, rows.table) {
                        Some(table) if self.is_incomplete(&table, position, &rows.symbols) => {}
                        Some(table) => match rows_effect(position, &table, rows, self.surveying) {
                            Err(what) if table.opened_at == 0 && !self.surveying => {
                                self.incomplete.insert(table.id, what);
                            }
                            effect => effects.push(effect?),
                        },
                        None => self.note_unknown(rows.table, position),
                    }
                }
                Effect::Rows(effects)
            }
            Change::Create { table: id, schema } => {
                self.next_table = self.next_table.max(id + 1);
                if let Some(unreadable) = self.unreadable.get_mut(&id) {
                    // The number was that of a table dropped before, whose folder was gone for good by now.
                    unreadable.dropped = false;
                }
                if self.snapshot.table_by_id(id).is_some() {
                    return Ok(None);
                }
                Effect::Create(TableSnapshot::new(id, schema, position, &self.disk))
            }
            Change::Drop { table: id } => {
                self.note_dropped(id);
                if table(self, id).is_none() {
                    return Ok(None);
                }
                Effect::Drop { table: id }
            }
            Change::Replace { table: id, schema, replaced } => {
                self.note_dropped(replaced);
                let now = table(self, id);
                if now.is_none() {
                    self.note_unknown(id, position);
                }
                let schema = now.filter(|now| !now.holds(position)).map(|_| Arc::new(schema));
                if schema.is_none() && table(self, replaced).is_none() {
                    return Ok(None);
                }
                Effect::Replace { table: id, schema, replaced }
            }
            Change::Truncate { table: id } => match table(self, id) {
                Some(table) if table.truncated_at < position => Effect::Truncate { table: id },
                Some(_) => return Ok(None),
                None => {
                    self.note_unknown(id, position);
                    return Ok(None);
                }
            },
            Change::Load { table: id, symbols, parts, source } => match table(self, id) {
                Some(table) if self.is_incomplete(&table, position, &symbols) => return Ok(None),
                Some(table) => {
                    replay_symbols(&table, position, &symbols)?;
                    if table.truncated_at > position || table.holds(position) {
                        return Ok(None);
                    }
                    let nothing = |parts, source| {
                        let (superseded, own) = (Vec::new(), Vec::new());
                        LoadEffect { parts, source, superseded, own }
                    };
                    let load = if table.schema.dedup().is_empty() {
                        nothing(parts, source)
                    } else {
                        match LoadEffect::superseding(&table, parts.clone(), source.clone()) {
                            Ok(load) => load,
                            Err(_) if self.surveying => nothing(parts, source),
                            // Its parts may have gone with the table.
                            Err(error) if table.opened_at == 0 => {
                                self.incomplete.insert(id, error.to_string());
                                return Ok(None);
                            }
                            Err(error) => return Err(error.to_string()),
                        }
                    };
                    Effect::Load { table: id, load }
                }
                None => {
                    self.note_unknown(id, position);
                    return Ok(None);
                }
            },
            Change::Rewrite { table: id, symbols, parts } => match table(self, id) {
                Some(table) if self.is_incomplete(&table, position, &symbols) => return Ok(None),
                Some(table) => {
                    replay_symbols(&table, position, &symbols)?;
                    if table.truncated_at > position || table.holds(position) {
                        return Ok(None);
                    }
                    if let Some(part) = parts.iter().find(|part| !table.has_part(part.partition, &part.gone))
                    {
                        let what = format!("it rewrites {}, which is not there", part.gone);
                        if table.opened_at > 0 {
                            return Err(what);
                        }
                        // The manifest that named it may have gone with the table.
                        self.incomplete.insert(id, what);
                        return Ok(None);
                    }
                    Effect::Rewrite { table: id, parts }
                }
                None => {
                    self.note_unknown(id, position);
                    return Ok(None);
                }
            },
            Change::Alter { table: id, schema } => match table(self, id) {
                Some(table) if !table.holds(position) => {
                    Effect::Alter { table: id, schema: Arc::new(schema) }
                }
                Some(_) => return Ok(None),
                None => {
                    self.note_unknown(id, position);
                    return Ok(None);
                }
            },
            Change::DropPartitions { table: id, range } => match table(self, id) {
                Some(table) if !table.holds(position) => {
                    Effect::DropPartitions { table: id, range, dropped: DroppedCell::default() }
                }
                Some(_) => return Ok(None),
                None => {
                    self.note_unknown(id, position);
                    return Ok(None);
                }
            },
            Change::Close | Change::Gap { .. } => Effect::Nothing,
        };
        Ok(Some((position, effect)))
    }

    /// Notes that a table was dropped; also one that is gone: a power cut could still bring it back.
    fn note_dropped(&mut self, table: u32) {
        self.dropped.push(table);
        if let Some(unreadable) = self.unreadable.get_mut(&table) {
            unreadable.dropped = true;
        }
        self.unknown.remove(&table);
        self.incomplete.remove(&table);
    }

    fn note_unknown(&mut self, table: u32, position: u64) {
        // A known table made after this frame has the number of one that was dropped before.
        if self.snapshot.table_by_id(table).is_none_or(|table| table.created_at > position) {
            self.unknown.insert(table);
        }
    }

    /// Whether a table that no manifest describes lacks symbols before those of the frame at `position`.
    fn is_incomplete(&mut self, table: &TableSnapshot, position: u64, symbols: &[NewSymbols]) -> bool {
        if self.surveying {
            return false;
        }
        if self.incomplete.contains_key(&table.id) {
            return true;
        }
        let known = |new: &NewSymbols| {
            let schema =
                table.history.at(position).filter(|schema| schema.columns().len() > new.column as usize)?;
            let column = table.schema.column_of_id(schema.column_id(new.column as usize))?;
            table.dictionary(column).map(|dictionary| dictionary.len())
        };
        let gap = symbols.iter().find(|new| known(new).is_some_and(|known| (new.first_id as usize) > known));
        match gap {
            Some(gap) if table.opened_at == 0 => {
                self.incomplete.insert(table.id, format!("the symbols before {} are missing", gap.first_id));
                true
            }
            _ => false,
        }
    }

    /// Replays the tape.
    fn read_tape(&mut self, found: &TapeFound) -> Result<TapeRead> {
        let mut read = TapeRead { segments: Vec::new(), newest: None };
        let disk = Arc::clone(&self.disk);
        for (index, first) in found.segments.iter().enumerate() {
            let newest = index + 1 == found.segments.len();
            let segment = Segment::open(disk.as_ref(), *first)?;
            // A segment that was begun and no more says nothing of a close.
            self.clean_close = false;
            let mut named = NamedSegment::begun(*first, segment.began_ns());
            let end = segment.read(newest, found.named.segment(*first), |frame| {
                if frame.header.kind != KIND_CLOSE {
                    (named.last, named.ended_ns) = (frame.header.position, frame.header.received_ns);
                }
                self.frame(first, frame)
            })?;
            named.bytes = end.good_bytes as u64;
            self.last_position = self.last_position.max(*first);
            if newest {
                self.clean_close &= !end.torn && self.close_proof + CLOSE_BYTES == named.bytes;
                if self.clean_close {
                    named.bytes -= CLOSE_BYTES;
                }
                read.newest = Some((segment, end));
            }
            read.segments.push(named);
        }
        Ok(read)
    }

    /// The tape must reach the last frame that some manifest holds: it was stable before.
    ///
    /// # Errors
    /// [`EngineError::Damaged`].
    fn check_reach(&self, found: &TapeFound) -> Result<()> {
        match found.shortfall(self.chain, self.saved) {
            None => Ok(()),
            Some(what) => {
                let newest = found.segments.last();
                let path = newest.map_or(PathBuf::from(TAPE_DIR), |first| segment_path(*first));
                let what = format!("{what}; `tickstone check --repair` goes on without them");
                Err(EngineError::damaged(path, 0, what))
            }
        }
    }

    fn finish(self) -> Result<(Snapshot, u64, u32)> {
        if let Some(unreadable) = self.unreadable.into_values().find(|table| !table.dropped) {
            return Err(unreadable.error);
        }
        if let Some((id, what)) = self.incomplete.iter().next() {
            return Err(EngineError::damaged(table_dir(*id), 0, what));
        }
        let gone = self.unknown.iter().find(|id| self.snapshot.table_by_id(**id).is_none());
        if let Some(id) = gone {
            let what = format!("the tape has rows of table {id}, whose manifest is missing");
            return Err(EngineError::damaged(table_dir(*id), 0, what));
        }
        for id in list_tables(self.disk.as_ref())? {
            let is_known = self.snapshot.table_by_id(id).is_some() || self.dropped.contains(&id);
            if !is_known && lost_manifest(self.disk.as_ref(), id)? {
                let what = "the manifest is missing, its copy is there";
                return Err(EngineError::damaged(Manifest::path(id), 0, what));
            }
        }
        let mut snapshot = self.snapshot;
        snapshot.merge_replayed_runs()?;
        let (last_position, next_table) = (self.last_position, self.next_table);
        Ok((snapshot, last_position, next_table))
    }
}

/// Adds the symbols of the frame at `position` to the columns that are still there.
fn replay_symbols(
    table: &TableSnapshot,
    position: u64,
    symbols: &[NewSymbols],
) -> std::result::Result<(), String> {
    // Before the first schema known everything is in symbol files.
    let Some(schema) = table.history.at(position) else { return Ok(()) };
    for new in symbols {
        let column = new.column as usize;
        if schema.columns().len() <= column {
            return Err("symbols for a column that there was not".to_string());
        }
        let Some(column) = table.schema.column_of_id(schema.column_id(column)) else { continue };
        table.dictionary(column).ok_or("symbols for a column that has none")?.replay(new)?;
    }
    Ok(())
}

fn rows_effect(
    position: u64,
    table: &TableSnapshot,
    rows: TableRows,
    surveying: bool,
) -> std::result::Result<RowsEffect, String> {
    replay_symbols(table, position, &rows.symbols)?;
    let (id, new_symbols) = (table.id, !rows.symbols.is_empty());
    let mut pieces: Vec<(TimeRange, RowBatch)> = Vec::new();
    if let Some(schema) = table.history.at(position).filter(|_| table.truncated_at < position) {
        let batch = RowBatch::new(Arc::clone(schema), rows.columns).map_err(|error| error.to_string())?;
        let batch = fit_rows(&batch, &table.schema);
        if ids_used(table, batch.columns()).any(|(_, dictionary, ids)| ids > dictionary.len()) {
            return Err("rows have a symbol that no frame before them brought".to_string());
        }
        pieces = split_by_partition(batch).map_err(|error| error.to_string())?;
        pieces.retain(|(partition, _)| {
            !table.is_sealed(partition, position) && !table.history.is_retired(partition, position)
        });
    }
    let mut superseded = Vec::new();
    if !table.schema.dedup().is_empty() {
        for (partition, batch) in &mut pieces {
            let keys = Keys::of(batch).map_err(|error| error.to_string())?;
            let (found, stale) = match table.supersede(*partition, &keys, position) {
                Ok(found) => found,
                // What is wrong with a part is told when it is looked at itself; one may have gone with its table.
                Err(_) if surveying => continue,
                Err(error) => return Err(error.to_string()),
            };
            superseded.push(found);
            if !stale.is_empty() {
                *batch = batch_without(batch, &stale).map_err(|error| error.to_string())?;
            }
        }
        pieces.retain(|(_, batch)| batch.rows() > 0);
    }
    Ok(RowsEffect { table: id, pieces, new_symbols, superseded })
}

impl Snapshot {
    /// Applies the effect of a frame, before which the manifests may be, while the snapshot stays at `position`.
    fn apply_at(&mut self, position: u64, written: Written<Effect>) {
        let touched: Vec<u32> = match &written.effect {
            Effect::Rows(tables) => tables.iter().map(|rows| rows.table).collect(),
            _ => Vec::new(),
        };
        self.apply(written);
        self.set_position(position);
        for table in touched {
            // Merging is an economy of memory here: what cannot merge stays as it is.
            let _ = self.merge_runs_of(table, REPLAY_RUNS_MAX);
        }
    }

    fn merge_replayed_runs(&mut self) -> Result<()> {
        let ids: Vec<u32> = self.hot_tables().map(|table| table.id()).collect();
        ids.into_iter().try_for_each(|id| self.merge_runs_of(id, 1))
    }

    /// Merges neighbouring runs of partitions that have more than `runs_max`.
    fn merge_runs_of(&mut self, id: u32, runs_max: usize) -> Result<()> {
        let Some(table) = self.table_by_id(id) else { return Ok(()) };
        let crowded = table.partitions().hot().filter(|partition| partition.runs() > runs_max);
        for partition in crowded.map(Arc::clone).collect::<Vec<_>>() {
            let runs: Vec<Arc<Run>> = partition
                .sources
                .iter()
                .rev()
                .map_while(|source| if let Source::Run(run) = source { Some(Arc::clone(run)) } else { None })
                .collect::<Vec<_>>();
            let runs: Vec<_> = runs.into_iter().rev().collect();
            let rows: Vec<usize> = runs.iter().map(|run| run.rows()).collect();
            let count = runs_to_merge(&rows, usize::MAX);
            if count > 0 {
                let runs = &runs[runs.len() - count..];
                let merged = Source::Run(Arc::new(merge_runs(runs)?));
                self.replace_runs(id, partition.range(), runs, merged);
            }
        }
        Ok(())
    }
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
