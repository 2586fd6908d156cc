//! Replay for a check: past damage, without keeping rows.

use super::replay::{Policy, Replay, Undone};
use crate::disk::Disk;
use crate::store::dictionary::Dictionary;
use crate::store::history::fit_rows;
use crate::store::snapshot::{Effect, PartFile, RowsEffect, Snapshot, TableSnapshot};
use crate::tape::change::{Change, NewSymbols, PartEntry, RewrittenPart, TableRows, decode_change};
use crate::tape::frame::Frame;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tickstone_model::{RowBatch, TimeRange};

/// The replay of a check: frames may be missing, and rows are let go of once they were decoded.
#[derive(Default)]
pub(crate) struct Surveying {
    /// Rows that no part holds, of the frames replayed.
    rows_seen: u64,
    /// Tables whose manifest was told from their parts.
    rebuilt: BTreeSet<u32>,
    /// Rows that no part holds, by table and start of the partition.
    seen: HashMap<(u32, i64), (TimeRange, u64)>,
    /// Files of parts that come from loads in the tape, as DELETE and UPDATE left them, by table.
    loaded: HashSet<(u32, String)>,
    /// Tables with a DELETE or UPDATE that cannot be done again.
    undone: BTreeMap<u32, UndoneTable>,
}

/// What DELETEs and UPDATEs of a table cannot be done again.
#[derive(Debug, Default)]
struct UndoneTable {
    /// A part that they replaced and that is not there.
    missing: String,
    partitions: BTreeMap<i64, UndonePartition>,
}

/// The same of one partition.
#[derive(Debug, Default)]
struct UndonePartition {
    /// Rows that the tape has of it from before the last of them.
    rows: u64,
    /// Parts that they left, by file.
    left: BTreeMap<String, PartEntry>,
}

impl UndonePartition {
    /// Takes a part that came in the place of another. Of one that is not known any of those before may have been merged
    /// into it.
    fn replace(&mut self, part: &RewrittenPart) {
        if self.left.remove(&part.gone).is_none() {
            let within = |left: &PartEntry| match &part.came {
                Some(came) => {
                    let (outer, inner) = (came.positions, left.positions);
                    outer.first <= inner.first && inner.last <= outer.last
                }
                None => true,
            };
            self.left.retain(|_, left| !within(left));
        }
        self.left.extend(part.came.iter().map(|came| (came.file.clone(), came.clone())));
    }
}

/// A table whose deleted and changed rows come from the tape as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UndoneRows {
    pub(crate) table: u32,
    /// A part that a DELETE or UPDATE replaced and that is not there.
    pub(crate) missing: String,
    /// Most rows that were deleted and come back.
    pub(crate) deleted: u64,
    /// Most rows that were changed and have the values of before.
    pub(crate) changed: u64,
}

impl Surveying {
    /// Forgets what the tape told of partitions that lie whole in `range`.
    fn forget(&mut self, table: u32, range: &TimeRange) {
        let inside = |held: &TimeRange| range.from <= held.from && held.to <= range.to;
        let seen = self.seen.iter().filter(|((of, _), (held, _))| *of == table && inside(held));
        let gone: Vec<i64> = seen.map(|((_, partition), _)| *partition).collect();
        for partition in gone {
            self.seen.remove(&(table, partition));
            self.undone.get_mut(&table).map(|undone| undone.partitions.remove(&partition));
        }
    }

    /// Rows of a partition in parts that come from loads, and whose files are there.
    fn rows_loaded(&self, table: &TableSnapshot, partition: i64) -> u64 {
        let Some(found) = table.partitions.find(partition) else { return 0 };
        let of_load = |part: &&Arc<PartFile>| self.loaded.contains(&(table.id, part.entry.file.clone()));
        found
            .part_sources()
            .filter(of_load)
            .filter(|part| part.read().is_ok())
            .map(|part| part.entry.rows)
            .sum()
    }

    fn rows(&mut self, rows: &mut RowsEffect) {
        for (range, piece) in std::mem::take(&mut rows.pieces) {
            let rows_count = piece.rows() as u64;
            self.rows_seen += rows_count;
            self.seen.entry((rows.table, range.from)).or_insert((range, 0)).1 += rows_count;
        }
    }
}

impl Policy for Surveying {
    fn may_follow(&self, _: u64, _: u64) -> bool {
        true
    }

    fn may_lack(&self, _: &TableSnapshot) -> bool {
        false
    }

    fn unread(&self, _: String) -> Result<(), String> {
        // What is wrong with a part is told when it is looked at itself; one may have gone with its table.
        Ok(())
    }

    fn may_undo(&self, table: &TableSnapshot) -> bool {
        table.opened_at == 0 || self.rebuilt.contains(&table.id)
    }

    fn undone(&mut self, table: &TableSnapshot, missing: &[RewrittenPart]) -> Undone {
        for part in missing {
            let in_tape = self.seen.get(&(table.id, part.partition)).map_or(0, |(_, rows)| *rows);
            let rows = in_tape + self.rows_loaded(table, part.partition);
            let undone = self.undone.entry(table.id).or_default();
            undone.missing.clone_from(&part.gone);
            let of_partition = undone.partitions.entry(part.partition).or_default();
            of_partition.rows = rows;
            of_partition.replace(part);
            // What is there holds its rows itself.
            of_partition.left.retain(|file, _| !table.has_part(part.partition, file));
        }
        Undone::DoRest
    }

    fn pass(&mut self, effect: &mut Effect) {
        match effect {
            Effect::Rows(tables) => tables.iter_mut().for_each(|rows| self.rows(rows)),
            Effect::Load { table, load } => {
                self.loaded.extend(load.parts.iter().map(|part| (*table, part.file.clone())));
            }
            Effect::Rewrite { table, parts, .. } => {
                for part in parts.iter() {
                    if self.loaded.contains(&(*table, part.gone.clone())) {
                        self.loaded.extend(part.came.iter().map(|came| (*table, came.file.clone())));
                    }
                }
            }
            Effect::Truncate { table } => self.forget(*table, &TimeRange::ALL),
            Effect::DropPartitions { table, range, .. } => self.forget(*table, range),
            Effect::Drop { table } | Effect::Replace { replaced: Some(table), .. } => {
                self.forget(*table, &TimeRange::ALL);
                self.undone.remove(table);
            }
            _ => {}
        }
    }
}

impl Replay<Surveying> {
    /// Begins with these tables, of which some were `rebuilt` from their parts, and takes frames with others missing
    /// between them.
    pub(crate) fn surveying(
        disk: &Arc<dyn Disk>,
        tables: Vec<TableSnapshot>,
        rebuilt: BTreeSet<u32>,
        position: u64,
    ) -> Self {
        let mut snapshot = Snapshot::default();
        let next_table = tables.iter().map(|table| table.id + 1).max().unwrap_or(1);
        tables.into_iter().for_each(|table| snapshot.add_table(table));
        snapshot.set_position(position);
        let policy = Surveying { rebuilt, ..Surveying::default() };
        Self { next_table, ..Self::begin(disk, snapshot, position, policy) }
    }

    /// The state so far.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Rows so far that no part holds.
    pub(crate) fn rows_seen(&self) -> u64 {
        self.policy.rows_seen
    }

    /// Tables with frames so far but neither manifest nor CREATE, ascending.
    pub(crate) fn unknown_tables(&self) -> Vec<u32> {
        let mut ids: Vec<u32> =
            self.unknown.iter().copied().filter(|id| self.snapshot.table_by_id(*id).is_none()).collect();
        ids.sort_unstable();
        ids
    }

    /// Tables with a DELETE or UPDATE that cannot be done again and that were not dropped, ascending.
    pub(crate) fn undone_tables(&self) -> Vec<UndoneRows> {
        let undone = self.policy.undone.iter();
        let there = undone.filter(|(id, _)| self.snapshot.table_by_id(**id).is_some());
        let rows_of = |(id, undone): (&u32, &UndoneTable)| {
            let (mut deleted, mut changed) = (0, 0);
            // Else the rows that are left may be others than those that come back.
            let has_loads = self.policy.loaded.iter().any(|(table, _)| table == id);
            let all_in_tape = !has_loads && !self.policy.rebuilt.contains(id);
            for partition in undone.partitions.values() {
                let left: u64 = partition.left.values().map(|part| part.rows).sum();
                deleted += if all_in_tape { partition.rows.saturating_sub(left) } else { partition.rows };
                changed += partition.rows.min(left);
            }
            UndoneRows { table: *id, missing: undone.missing.clone(), deleted, changed }
        };
        there.map(rows_of).collect()
    }

    /// Gives placeholders to symbols that frames before this one brought and that are lost. Whether there
    /// were any; there may be more.
    pub(crate) fn fill_symbols(&self, frame: &Frame<'_>) -> bool {
        let position = frame.header.position;
        let types = |id: u32| {
            let schema = self.snapshot.table_by_id(id)?.history.at(position)?;
            Some(schema.columns().iter().map(|column| column.column_type).collect())
        };
        let Ok(change) = decode_change(frame.header.kind, frame.payload, types) else { return false };
        match &change {
            Change::Rows(tables) => {
                // Symbols first: what is missing before them has the lower ids.
                tables.iter().any(|rows| self.fill_before(rows.table, position, &rows.symbols))
                    || tables.iter().any(|rows| self.fill_used(position, rows))
            }
            Change::Load { table, symbols, .. } | Change::Rewrite { table, symbols, .. } => {
                self.fill_before(*table, position, symbols)
            }
            _ => false,
        }
    }

    /// Fills the ids before those that a frame brings.
    fn fill_before(&self, id: u32, position: u64, symbols: &[NewSymbols]) -> bool {
        let Some(table) = self.snapshot.table_by_id(id) else { return false };
        symbols.iter().any(|new| {
            let dictionary = dictionary_of(table, position, new.column as usize);
            dictionary.is_some_and(|dictionary| !dictionary.fill_to(new.first_id as usize).is_empty())
        })
    }

    /// Fills the ids that rows have and nothing brought.
    fn fill_used(&self, position: u64, rows: &TableRows) -> bool {
        let Some(table) = self.snapshot.table_by_id(rows.table) else { return false };
        let Some(schema) = table.history.at(position) else { return false };
        let Ok(batch) = RowBatch::new(Arc::clone(schema), rows.columns.clone()) else { return false };
        let batch = fit_rows(&batch, &table.schema);
        // Ids that the frame itself brings are not lost, whether they were replayed already or not.
        let own = |dictionary: &Arc<Dictionary>| {
            let of_this = |new: &&NewSymbols| {
                let found = dictionary_of(table, position, new.column as usize);
                found.is_some_and(|found| Arc::ptr_eq(found, dictionary))
            };
            let own = rows.symbols.iter().filter(of_this);
            own.map(|new| new.first_id as usize + new.symbols.len()).max().unwrap_or(0)
        };
        ids_used(table, batch.columns())
            .filter(|(_, dictionary, _)| own(dictionary) <= dictionary.len())
            .any(|(_, dictionary, ids)| !dictionary.fill_to(ids).is_empty())
    }
}

/// The dictionary of the column that frames at `position` call `column`.
fn dictionary_of(table: &TableSnapshot, position: u64, column: usize) -> Option<&Arc<Dictionary>> {
    let schema = table.history.at(position).filter(|schema| column < schema.columns().len())?;
    table.dictionary(table.schema.column_of_id(schema.column_id(column))?)
}

/// For each SYMBOL column the dictionary, and how many ids it must have for these rows.
pub(super) fn ids_used<'a>(
    table: &'a TableSnapshot,
    columns: &'a [ArrayRef],
) -> impl Iterator<Item = (usize, &'a Arc<Dictionary>, usize)> {
    table.schema.symbol_columns().filter_map(|column| {
        let ids = columns.get(column)?.as_primitive_opt::<UInt32Type>()?;
        let most = match ids.null_count() {
            0 => ids.values().iter().copied().max(),
            _ => ids.iter().flatten().max(),
        };
        Some((column, table.dictionary(column)?, most.map_or(0, |most| most as usize + 1)))
    })
}
