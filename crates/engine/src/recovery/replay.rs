//! The tape, frame by frame, over the state that the manifests describe.

use super::decide::{self, Decision};
use super::{CLOSE_BYTES, LoadedTable, TapeRead, Unreadable, load_tables, lost_manifest};
use crate::disk::Disk;
use crate::paths::{TAPE_DIR, table_dir};
use crate::recent::{Run, merge_runs, runs_to_merge};
use crate::store::manifest::{Manifest, list_tables};
use crate::store::publisher::NamedFiles;
use crate::store::snapshot::{Effect, Snapshot, Source, TableSnapshot};
use crate::tape::change::{Change, KIND_CLOSE, NewSymbols, PartEntry, RewrittenPart, decode_change};
use crate::tape::frame::Frame;
use crate::tape::named::{NamedSegment, TapeFound};
use crate::tape::segment::{Segment, first_position, position_after, segment_path};
use crate::tape::writer::Written;
use crate::{EngineError, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Runs a partition may gather during replay before neighbours merge.
const REPLAY_RUNS_MAX: usize = 64;

/// Who replays, and what for.
pub(crate) trait Policy {
    /// Whether the frame that begins at position `first` may come after the one at `previous`.
    fn may_follow(&self, previous: u64, first: u64) -> bool;

    /// Whether what a table lacks may have gone with its manifest, so that a DROP of it must follow; else it is
    /// damage of the frame.
    fn may_lack(&self, table: &TableSnapshot) -> bool;

    /// What becomes of an effect of which it could not be read which rows it replaces.
    ///
    /// # Errors
    /// `what` was wrong.
    fn unread(&self, what: String) -> std::result::Result<(), String>;

    /// Whether what a DELETE or UPDATE replaces may be missing: nothing but the tape, or the table's folder, tells of
    /// the table.
    fn may_undo(&self, table: &TableSnapshot) -> bool;

    /// Sees that a DELETE or UPDATE cannot be done again, of parts that are missing.
    fn undone(&mut self, table: &TableSnapshot, missing: &[RewrittenPart]) -> Undone;

    /// Sees an effect before it is applied.
    fn pass(&mut self, effect: &mut Effect);
}

/// What becomes of a DELETE or UPDATE that cannot be done again.
pub(crate) enum Undone {
    /// Its table must be dropped later.
    Incomplete,
    /// What is left of it is done.
    DoRest,
}

/// The replay of an opening: nothing may be missing, and rows stay.
pub(crate) struct Opening;

impl Policy for Opening {
    fn may_follow(&self, previous: u64, first: u64) -> bool {
        first > previous && position_after(previous, first) >= first
    }

    fn may_lack(&self, table: &TableSnapshot) -> bool {
        table.opened_at == 0
    }

    fn unread(&self, what: String) -> std::result::Result<(), String> {
        Err(what)
    }

    fn may_undo(&self, table: &TableSnapshot) -> bool {
        self.may_lack(table)
    }

    fn undone(&mut self, _: &TableSnapshot, _: &[RewrittenPart]) -> Undone {
        Undone::Incomplete
    }

    fn pass(&mut self, _: &mut Effect) {}
}

/// State being rebuilt from the tape.
pub(crate) struct Replay<P> {
    pub(super) policy: P,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) snapshot: Snapshot,
    /// The last frame replayed: the next one must follow it. `None` also where nobody is to look.
    pub(super) chain: Option<u64>,
    pub(super) last_position: u64,
    /// The last position that some manifest holds.
    pub(super) saved: u64,
    pub(super) next_table: u32,
    /// Tables whose own files cannot be read: a DROP must follow.
    pub(super) unreadable: BTreeMap<u32, Unreadable>,
    /// Tables with symbol files that have more than their manifests rely on.
    pub(super) with_more_symbols: HashSet<u32>,
    /// Tables with frames but neither manifest nor CREATE: a DROP must follow.
    pub(super) unknown: HashSet<u32>,
    /// Tables whose CREATE is in the tape and whose first symbols, or parts, were in files that are gone, with
    /// what is missing: a DROP must follow for them, too.
    pub(super) incomplete: HashMap<u32, String>,
    /// The last frame is a close.
    pub(super) clean_close: bool,
    /// Bytes of its segment that were stable when the last frame was written.
    pub(super) close_proof: u64,
    pub(super) dropped: Vec<u32>,
    /// The files that loads and rewrites name.
    pub(super) named: Vec<NamedFiles>,
}

impl<P: Policy> Replay<P> {
    /// Goes on with this state, which is that of `position`.
    pub(super) fn begin(disk: &Arc<dyn Disk>, snapshot: Snapshot, position: u64, policy: P) -> Self {
        Self {
            policy,
            disk: Arc::clone(disk),
            snapshot,
            chain: None,
            last_position: position,
            saved: 0,
            next_table: 0,
            unreadable: BTreeMap::new(),
            with_more_symbols: HashSet::new(),
            unknown: HashSet::new(),
            incomplete: HashMap::new(),
            clean_close: false,
            close_proof: 0,
            dropped: Vec::new(),
            named: Vec::new(),
        }
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
            let schema = self.table(id, position)?.history.at(position)?;
            Some(schema.columns().iter().map(|column| column.column_type).collect())
        };
        let change = decode_change(frame.header.kind, frame.payload, types).map_err(damaged)?;
        let first = if let Change::Gap { first } = change { first } else { position };
        if matches!(change, Change::Gap { .. }) {
            // Changes of the tables below may be among those that are lost.
            self.snapshot.mark_all_views(position);
        }
        if let Some(previous) = self.chain
            && !self.policy.may_follow(previous, first)
        {
            return Err(damaged(format!(
                "it does not follow {previous:#x}: frames between them are missing"
            )));
        }
        self.chain = Some(position);
        self.clean_close = matches!(change, Change::Close);
        self.close_proof = frame.header.synced_bytes;
        self.last_position = self.last_position.max(position);
        self.named.extend(named_files(position, &change));
        if let Some(mut effect) = self.effect(position, change).map_err(damaged)? {
            self.policy.pass(&mut effect);
            let newest = position.max(self.snapshot.position());
            let written = Written { position, received_ns: frame.header.received_ns, effect };
            apply_at(&mut self.snapshot, newest, written);
        }
        Ok(())
    }

    /// The table of this number that was there before the frame at `position`.
    fn table(&self, id: u32, position: u64) -> Option<&Arc<TableSnapshot>> {
        self.snapshot.table_by_id(id).filter(|table| table.created_at < position)
    }

    /// The part of a change that the manifests and parts do not hold already.
    fn effect(&mut self, position: u64, change: Change) -> std::result::Result<Option<Effect>, String> {
        let id =
            match change {
                Change::Rows(tables) => {
                    let mut effects = Vec::new();
                    for rows in tables {
                        let Some(table) = self.table(rows.table, position).map(Arc::clone) else {
                            self.note_unknown(rows.table, position);
                            continue;
                        };
                        if self.is_incomplete(&table, position, &rows.symbols) {
                            continue;
                        }
                        let decided = replay_symbols(&table, position, &rows.symbols)
                            .and_then(|()| decide::rows(&table, position, rows));
                        let lacks = self.policy.may_lack(&table);
                        effects.extend(self.follow(
                            table.id,
                            decided.or_else(|what| {
                                if lacks { Ok(Decision::Incomplete(what)) } else { Err(what) }
                            })?,
                        )?);
                    }
                    return Ok(Some(Effect::Rows(effects)));
                }
                Change::Create { table: id, schema } => {
                    self.next_table = self.next_table.max(id + 1);
                    if let Some(unreadable) = self.unreadable.get_mut(&id) {
                        // The number was that of a table dropped before, whose folder was gone for good by now.
                        unreadable.dropped = false;
                    }
                    let known = self.snapshot.table_by_id(id).is_some();
                    let made = || Effect::Create(TableSnapshot::new(id, schema, position, &self.disk));
                    return Ok((!known).then(made));
                }
                Change::Drop { table: id } => {
                    self.note_dropped(id);
                    return Ok(self.table(id, position).map(|_| Effect::Drop { table: id }));
                }
                Change::Replace { table: id, schema, replaced } => {
                    self.note_dropped(replaced);
                    if self.table(id, position).is_none() {
                        self.note_unknown(id, position);
                    }
                    let now = self.table(id, position).filter(|now| !now.holds(position));
                    let schema = now.map(|_| Arc::new(schema));
                    // Not one that was made later under its number.
                    let replaced = self.table(replaced, position).map(|table| table.id);
                    let left = schema.is_some() || replaced.is_some();
                    return Ok(left.then_some(Effect::Replace { table: id, schema, replaced }));
                }
                Change::Close | Change::Gap { .. } => return Ok(Some(Effect::Nothing)),
                Change::Truncate { table }
                | Change::Load { table, .. }
                | Change::Rewrite { table, .. }
                | Change::Alter { table, .. }
                | Change::DropPartitions { table, .. }
                | Change::Refresh { table, .. } => table,
            };
        let Some(table) = self.table(id, position).map(Arc::clone) else {
            self.note_unknown(id, position);
            return Ok(None);
        };
        for (_, symbols) in change.symbols() {
            if self.is_incomplete(&table, position, symbols) {
                return Ok(None);
            }
            replay_symbols(&table, position, symbols)?;
        }
        self.follow(id, decide::change(&table, position, change)?)
    }

    /// Does with a decision about a table what the policy says.
    fn follow<E>(&mut self, id: u32, decision: Decision<E>) -> std::result::Result<Option<E>, String> {
        let lacks = |replay: &Self| {
            replay.snapshot.table_by_id(id).is_some_and(|table| replay.policy.may_lack(table))
        };
        match decision {
            Decision::Apply(effect) => Ok(Some(effect)),
            Decision::Known => Ok(None),
            Decision::Incomplete(what) => {
                self.incomplete.insert(id, what);
                Ok(None)
            }
            Decision::Undone(effect, missing) => {
                let gone = missing.first().map_or("", |part| &part.gone);
                let what = format!("it rewrites {gone}, which is not there");
                let table = self.snapshot.table_by_id(id).filter(|table| self.policy.may_undo(table));
                let Some(table) = table else { return Err(what) };
                match self.policy.undone(table, &missing) {
                    Undone::DoRest => Ok(Some(effect)),
                    Undone::Incomplete => {
                        self.incomplete.insert(id, what);
                        Ok(None)
                    }
                }
            }
            Decision::Unread(effect, what) => match self.policy.unread(what) {
                Ok(()) => Ok(Some(effect)),
                // Its parts may have gone with the table.
                Err(what) if lacks(self) => {
                    self.incomplete.insert(id, what);
                    Ok(None)
                }
                Err(what) => Err(what),
            },
        }
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
        if !self.policy.may_lack(table) {
            return false;
        }
        if let Some(what) = decide::missing_symbols(table, position, symbols) {
            self.incomplete.entry(table.id).or_insert(what);
        }
        self.incomplete.contains_key(&table.id)
    }
}

impl Replay<Opening> {
    pub(super) fn from_manifests(disk: &Arc<dyn Disk>) -> Result<Self> {
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
        let begun = Self::begin(disk, snapshot, last_position, Opening);
        Ok(Self { saved, next_table, unreadable, with_more_symbols, clean_close: true, ..begun })
    }

    /// Replays the tape.
    pub(super) fn read_tape(&mut self, found: &TapeFound) -> Result<TapeRead> {
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
    pub(super) fn check_reach(&self, found: &TapeFound) -> Result<()> {
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

    pub(super) fn finish(self) -> Result<(Snapshot, u64, u32)> {
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
        merge_replayed_runs(&mut snapshot)?;
        let (last_position, next_table) = (self.last_position, self.next_table);
        Ok((snapshot, last_position, next_table))
    }
}

/// The files that a change names, if it names any.
fn named_files(position: u64, change: &Change) -> Option<NamedFiles> {
    let of = |entry: &PartEntry| (entry.partition, entry.file.clone());
    match change {
        Change::Load { table, parts, .. } => Some((position, *table, parts.iter().map(of).collect())),
        Change::Rewrite { table, parts, .. } => {
            let gone = parts.iter().map(|part| (part.partition, part.gone.clone()));
            let came = parts.iter().filter_map(|part| part.came.as_ref().map(of));
            Some((position, *table, gone.chain(came).collect()))
        }
        _ => None,
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

/// Applies the effect of a frame, before which the manifests may be, while the snapshot stays at `position`.
fn apply_at(snapshot: &mut Snapshot, position: u64, written: Written<Effect>) {
    let touched: Vec<u32> = match &written.effect {
        Effect::Rows(tables) => tables.iter().map(|rows| rows.table).collect(),
        _ => Vec::new(),
    };
    snapshot.apply(written);
    snapshot.set_position(position);
    for table in touched {
        // Merging is an economy of memory here: what cannot merge stays as it is.
        let _ = merge_runs_of(snapshot, table, REPLAY_RUNS_MAX);
    }
}

fn merge_replayed_runs(snapshot: &mut Snapshot) -> Result<()> {
    let ids: Vec<u32> = snapshot.hot_tables().map(|table| table.id()).collect();
    ids.into_iter().try_for_each(|id| merge_runs_of(snapshot, id, 1))
}

/// Merges neighbouring runs of partitions that have more than `runs_max`.
fn merge_runs_of(snapshot: &mut Snapshot, id: u32, runs_max: usize) -> Result<()> {
    let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
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
            snapshot.replace_runs(id, partition.range(), runs, merged);
        }
    }
    Ok(())
}
