//! The writers of tables: who may append to a table, and which of its symbols the tape knows.

use crate::lock::lock;
use crate::store::snapshot::{Effect, TableSnapshot};
use crate::tape::change::NewSymbols;
use crate::tape::fate::Ticket;
use crate::tape::writer::Tape;
use crate::{EngineError, Result};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tickstone_model::TableSchema;

#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) writers: HashMap<u32, Arc<TableLock>>,
    pub(crate) next_table: u32,
}

impl Catalog {
    /// Notes that a table, whose writer is `locked`, is gone.
    pub(crate) fn forget(&mut self, locked: &mut TableWriter) {
        locked.dropped = true;
        self.writers.remove(&locked.table.id);
    }

    /// # Errors
    /// [`EngineError::TableGone`] where the table was dropped.
    pub(crate) fn writer(&self, table: &TableSnapshot) -> Result<Arc<TableLock>> {
        let writer = self.writers.get(&table.id).map(Arc::clone);
        writer.ok_or_else(|| EngineError::TableGone { name: table.schema.name().to_string() })
    }
}

/// The one writer of a table.
#[derive(Debug)]
pub(crate) struct TableWriter {
    pub(crate) table: Arc<TableSnapshot>,
    /// Symbols per column that are in the tape or the symbol file, or in a frame of `unsure`.
    logged: Vec<usize>,
    /// Frames that brought symbols and may not be written yet, with the first id of each column's.
    unsure: Vec<(Ticket, Vec<(u16, u32)>)>,
    pub(crate) dropped: bool,
    /// Largest designated timestamp ever handed to the tape, for tables whose rows replace each other.
    pub(crate) newest: Option<i64>,
    /// A rewrite has the table for itself; see [`TableLock`].
    rewriting: bool,
}

/// A table's writer, and who waits for it. Commits go one by one, a rewrite has the table for itself until it ends.
///
/// A rewrite takes a turn when it comes: it waits for the rewrites and commits before it, and whoever comes after it waits
/// for its end. So no one waits for those who came later, whatever their number.
#[derive(Debug)]
pub(crate) struct TableLock {
    writer: Mutex<TableWriter>,
    turns: Mutex<Turns>,
    /// Signalled when a rewrite has ended.
    ended: Condvar,
}

/// Who rewrites, and who will.
#[derive(Debug, Default)]
struct Turns {
    next: u64,
    /// Turns that have not ended: the first one rewrites, or waits for commits that came before it.
    open: BTreeSet<u64>,
}

impl TableLock {
    pub(crate) fn new(writer: TableWriter) -> Self {
        Self { writer: Mutex::new(writer), turns: Mutex::default(), ended: Condvar::new() }
    }

    /// Waits for its turn, and takes the table until [`Self::end_rewrite`] is told the same turn.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] where the table was dropped.
    pub(crate) fn begin_rewrite(&self) -> Result<u64> {
        let mut turns = lock(&self.turns);
        let turn = turns.next;
        turns.next += 1;
        turns.open.insert(turn);
        while turns.open.first() != Some(&turn) {
            turns = self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        drop(turns);
        let mut locked = lock(&self.writer);
        locked.rewriting = true;
        let there = locked.check_there();
        drop(locked);
        there.map(|()| turn).inspect_err(|_| self.end_rewrite(turn))
    }

    /// Ends a rewrite: who waits goes on.
    pub(crate) fn end_rewrite(&self, turn: u64) {
        lock(&self.writer).rewriting = false;
        lock(&self.turns).open.remove(&turn);
        self.ended.notify_all();
    }

    /// Locks the writer for the commit of the rewrite that has the table.
    pub(crate) fn lock_rewriting(&self) -> MutexGuard<'_, TableWriter> {
        lock(&self.writer)
    }

    /// Waits for the rewrites that came before.
    fn wait_for_rewrites(&self) {
        let mut turns = lock(&self.turns);
        let Some(last) = turns.open.last().copied() else { return };
        while turns.open.first().is_some_and(|first| *first <= last) {
            turns = self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl TableWriter {
    /// That of a table that was just made: whoever sees it may have given out symbols already, and the tape has none of
    /// them.
    pub(crate) fn of_new(table: &TableSnapshot) -> Self {
        let mut writer = Self::new(table);
        writer.logged.fill(0);
        writer
    }

    /// That of a table that was found, with symbols that the tape or its file has.
    pub(crate) fn new(table: &TableSnapshot) -> Self {
        let logged = table.dictionaries.iter().map(|d| d.as_ref().map_or(0, |d| d.len())).collect();
        let newest = table.partitions.times().map(|(_, last)| last);
        let table = table.without_rows();
        let unsure = Vec::new();
        Self { table, logged, unsure, dropped: false, newest, rewriting: false }
    }

    /// The table has another shape from here on.
    pub(crate) fn alter(&mut self, table: &Arc<TableSnapshot>) {
        let before = std::mem::replace(&mut self.table, table.without_rows());
        let place = |index| before.schema.column_of_id(table.schema.column_id(index));
        let logged = |index| place(index).map_or(0, |place| self.logged[place]);
        self.logged = (0..table.schema.columns().len()).map(logged).collect();
    }

    /// Takes back the symbols of frames that a full disk refused.
    pub(crate) fn settle_symbols(&mut self, tape: &Tape<Effect>) {
        if self.unsure.is_empty() {
            return;
        }
        let written = tape.written();
        for (ticket, symbols) in std::mem::take(&mut self.unsure) {
            match ticket.outcome(written) {
                None => self.unsure.push((ticket, symbols)),
                Some(true) => {}
                Some(false) => {
                    for (column, first_id) in symbols {
                        let logged = &mut self.logged[column as usize];
                        *logged = (*logged).min(first_id as usize);
                    }
                }
            }
        }
    }

    /// Symbols given out since the table's last frame. The frame for them is appended with the tape's fate of
    /// before.
    pub(crate) fn new_symbols(&mut self, tape: &Tape<Effect>) -> Vec<NewSymbols> {
        self.settle_symbols(tape);
        let mut all = Vec::new();
        for (column, (dictionary, logged)) in self.table.dictionaries.iter().zip(&self.logged).enumerate() {
            let symbols = dictionary.as_ref().map_or_else(Vec::new, |dictionary| dictionary.since(*logged));
            if !symbols.is_empty() {
                let column = u16::try_from(column).expect("a table has at most 4096 columns");
                let first_id = u32::try_from(*logged).expect("ids are u32");
                all.push(NewSymbols { column, first_id, symbols });
            }
        }
        all
    }

    /// Notes that these symbols are in the tape, if the frame is.
    pub(crate) fn logged(&mut self, symbols: &[NewSymbols], ticket: &Ticket) {
        if !symbols.is_empty() {
            let first_ids = symbols.iter().map(|new| (new.column, new.first_id)).collect();
            self.unsure.push((ticket.clone(), first_ids));
        }
        for new in symbols {
            self.logged[new.column as usize] = new.first_id as usize + new.symbols.len();
        }
    }

    /// # Errors
    /// [`EngineError::TableGone`] where the table was dropped.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.dropped {
            return Err(EngineError::TableGone { name: self.table.schema.name().to_string() });
        }
        Ok(())
    }

    /// Checks that rows of columns `schema` can still be stored as they are.
    ///
    /// # Errors
    /// [`EngineError::TableGone`], [`EngineError::SchemaChanged`].
    pub(crate) fn check_fits(&self, schema: &TableSchema) -> Result<()> {
        self.check_there()?;
        check_same_columns(schema, &self.table.schema)
    }
}

/// Locks a table's writer for a commit, after the rewrites that came before it.
pub(crate) fn lock_writer(table: &TableLock) -> MutexGuard<'_, TableWriter> {
    loop {
        table.wait_for_rewrites();
        let locked = lock(&table.writer);
        // One that came meanwhile was quicker.
        if !locked.rewriting {
            return locked;
        }
    }
}

/// # Errors
/// [`EngineError::SchemaChanged`] where columns went or came between two schemas of a table.
pub(crate) fn check_same_columns(before: &TableSchema, now: &TableSchema) -> Result<()> {
    let ids = |schema: &TableSchema| {
        (0..schema.columns().len()).map(|column| schema.column_id(column)).collect::<Vec<_>>()
    };
    // Versions differ also where a column was only renamed.
    if before.version() != now.version() && ids(before) != ids(now) {
        return Err(EngineError::SchemaChanged { table: now.name().to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
