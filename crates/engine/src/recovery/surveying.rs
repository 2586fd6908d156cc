//! Replay for a check: past damage, without keeping rows.

use super::replay::{Policy, Replay};
use crate::disk::Disk;
use crate::store::dictionary::Dictionary;
use crate::store::history::fit_rows;
use crate::store::snapshot::{RowsEffect, Snapshot, TableSnapshot};
use crate::tape::change::{Change, NewSymbols, TableRows, decode_change};
use crate::tape::frame::Frame;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef};
use std::sync::Arc;
use tickstone_model::RowBatch;

/// The replay of a check: frames may be missing, and rows are let go of once they were decoded.
#[derive(Default)]
pub(crate) struct Surveying {
    /// Rows that no part holds, of the frames replayed.
    rows_seen: u64,
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

    fn pass(&mut self, rows: &mut [RowsEffect]) {
        for pieces in rows.iter_mut().map(|rows| std::mem::take(&mut rows.pieces)) {
            self.rows_seen += pieces.iter().map(|(_, piece)| piece.rows() as u64).sum::<u64>();
        }
    }
}

impl Replay<Surveying> {
    /// Begins with these tables, and takes frames with others missing between them.
    pub(crate) fn surveying(disk: &Arc<dyn Disk>, tables: Vec<TableSnapshot>, position: u64) -> Self {
        let mut snapshot = Snapshot::default();
        let next_table = tables.iter().map(|table| table.id + 1).max().unwrap_or(1);
        tables.into_iter().for_each(|table| snapshot.add_table(table));
        snapshot.set_position(position);
        Self { next_table, ..Self::begin(disk, snapshot, position, Surveying::default()) }
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

    /// Tables whose CREATE is in the tape, with what of them only the manifest knew that is missing.
    pub(crate) fn incomplete_tables(&self) -> Vec<(u32, String)> {
        let mut tables: Vec<_> = self.incomplete.iter().map(|(id, what)| (*id, what.clone())).collect();
        tables.sort_unstable();
        tables
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
