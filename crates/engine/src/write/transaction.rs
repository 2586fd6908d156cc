//! Transactions: rows for one or more tables that become durable and visible together.

use super::commit::{Commit, Commitment, acknowledge};
use super::ingest::to_rows;
use crate::core::catalog::{TableLock, TableWriter, check_same_columns, lock_writer};
use crate::core::memory::{Memory, Reservation};
use crate::core::{Core, RowsOf};
use crate::recent::split_by_partition;
use crate::store::snapshot::dedup::{Keys, last_of_each};
use crate::store::snapshot::{Effect, RowsEffect, Superseded, TableSnapshot};
use crate::tape::change::{Change, TableRows};
use crate::upkeep::maintenance::wait_for_memory;
use crate::{EngineError, Result};
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use tickstone_model::{RowBatch, SyncPolicy, TimeRange};

/// A commit being put together. Dropped without [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Transaction {
    /// `None` where the database is open for reading.
    core: Option<Arc<Core>>,
    /// By table id, so that writer locks are taken in one order.
    tables: BTreeMap<u32, Pending>,
    memory: Reservation,
    of: RowsOf,
}

#[derive(Debug)]
struct Pending {
    table: Arc<TableSnapshot>,
    batches: Vec<RowBatch>,
}

impl Transaction {
    pub(crate) fn new(core: Option<Arc<Core>>, memory: &Arc<Memory>, of: RowsOf) -> Self {
        Self { core, tables: BTreeMap::new(), memory: memory.reserve(), of }
    }

    fn core(&self) -> Result<&Arc<Core>> {
        self.core.as_ref().ok_or(EngineError::ReadOnly { action: "INSERT" })
    }

    /// Adds rows; they are checked now and stored with the commit.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::Model`] where the rows
    /// do not fit, [`EngineError::MemoryFull`] where others hold the memory they need; what was added before
    /// stays in the transaction. [`EngineError::SchemaChanged`] where the
    /// table's columns were changed since rows were added for it: begin again.
    pub fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<()> {
        let table = self.core()?.table_of_rows(table, self.of)?;
        self.add(&table, rows)
    }

    /// The same for the table of this number, whatever it is called now: rows that were made for one table never go into
    /// another that took its `name`.
    ///
    /// # Errors
    /// As [`Self::append`], and [`EngineError::TableGone`].
    pub fn append_to(&mut self, id: u32, name: &str, rows: &RecordBatch) -> Result<()> {
        let table = self.core()?.table_of_rows_by_id(id, name, self.of)?;
        self.add(&table, rows)
    }

    fn add(&mut self, table: &Arc<TableSnapshot>, rows: &RecordBatch) -> Result<()> {
        let core = Arc::clone(self.core()?);
        let rows = to_rows(&table.schema, &table.dictionaries, rows)?;
        if rows.rows() > 0 {
            let bytes = self.memory.bytes() + rows.memory_bytes();
            if let Some(others) = self.memory.crowded_by(bytes) {
                let cause =
                    format!("loads, merges and other transactions hold {others} bytes, this one {bytes}");
                let budget_bytes = core.options.memory_budget_bytes;
                return Err(EngineError::MemoryFull { budget_bytes, cause });
            }
            self.memory.set(bytes);
            let pending = self.tables.entry(table.id);
            let pending =
                pending.or_insert_with(|| Pending { table: table.without_rows(), batches: Vec::new() });
            check_same_columns(&pending.table.schema, &table.schema)?;
            pending.batches.push(rows);
        }
        Ok(())
    }

    /// Rows added so far.
    pub fn rows(&self) -> u64 {
        self.tables.values().flat_map(|pending| &pending.batches).map(|batch| batch.rows() as u64).sum()
    }

    /// Bytes of rows added so far.
    pub fn bytes(&self) -> usize {
        self.tables.values().flat_map(|pending| &pending.batches).map(RowBatch::memory_bytes).sum()
    }

    /// Stores all rows in one frame and waits for the acknowledgement: by `sync`, or by the strictest
    /// policy of the tables in it.
    ///
    /// # Errors
    /// [`EngineError::TableGone`] where a table was dropped meanwhile, [`EngineError::SchemaChanged`]
    /// where columns of one were changed, [`EngineError::Frozen`], [`EngineError::CommitTooLarge`],
    /// [`EngineError::DiskFull`]: nothing is stored then. [`EngineError::TapeStopped`]: reopen to know.
    pub fn commit(self, sync: Option<SyncPolicy>) -> Result<Commit> {
        let rows = self.rows();
        let core = Arc::clone(self.core()?);
        if rows == 0 {
            core.tape.check()?;
            return Ok(Commit { position: 0, rows });
        }
        wait_for_memory(&core)?;
        let memory = self.memory;
        let policy =
            sync.or_else(|| self.tables.values().map(|p| p.table.schema.sync()).max()).unwrap_or_default();
        let mut prepared = Vec::with_capacity(self.tables.len());
        for Pending { table, batches } in self.tables.into_values() {
            let rows = concat(&last_of_each(batches)?)?;
            let writer = core.table_writer(&table)?;
            prepared.push(Prepared { table, writer, pieces: split_by_partition(rows.clone())?, rows });
        }
        let writers = prepared.iter().map(|table| lock_writer(&table.writer)).collect();
        let mut commitment = Commitment::begin(&core, writers);
        let mut frames = Vec::with_capacity(prepared.len());
        for (place, table) in prepared.iter().enumerate() {
            let writer = &commitment.writers()[place];
            // A table that a stopped tape changed is another one than was acknowledged: then that is the error.
            writer.check_fits(table.rows.schema()).or_else(|error| core.tape.check().and(Err(error)))?;
            let symbols = commitment.new_symbols(place);
            let (table, rows) = (table.table.id, &table.rows);
            frames.push(TableRows { table, symbols, rows: rows.rows(), columns: rows.columns().to_vec() });
        }
        check_not_frozen(&core, &prepared)?;
        let late = with_late_rows(commitment.writers(), &prepared);
        commitment.hold_still(late.iter().map(|place| &prepared[*place].table.dir))?;
        let superseded = supersede(&core, &prepared, &late)?;
        let effects = frames.iter().zip(&prepared).zip(superseded);
        let effects = effects.map(|((frame, table), superseded)| RowsEffect {
            table: frame.table,
            pieces: table.pieces.clone(),
            new_symbols: !frame.symbols.is_empty(),
            superseded,
        });
        let (tables, effect) = (ids(&frames), Effect::Rows(effects.collect()));
        let ticket = commitment.append(&Change::Rows(frames), effect, policy)?;
        commitment.release()?;
        // The rows count as recent from here on.
        drop(memory);
        acknowledge(&core, &ticket, &tables)?;
        core.counters.committed(rows);
        Ok(Commit { position: ticket.position, rows })
    }
}

/// What was prepared of a table's rows: all of them, and those of each partition.
struct Prepared {
    table: Arc<TableSnapshot>,
    writer: Arc<TableLock>,
    rows: RowBatch,
    pieces: Vec<(TimeRange, RowBatch)>,
}

fn ids(frames: &[TableRows]) -> Vec<u32> {
    frames.iter().map(|frame| frame.table).collect()
}

/// # Errors
/// [`EngineError::Frozen`] where rows are late for what a materialized view keeps of rows that were dropped.
fn check_not_frozen(core: &Core, prepared: &[Prepared]) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    for Prepared { table, pieces, .. } in prepared {
        snapshot.check_not_frozen(table.schema.name(), |range| {
            pieces.iter().any(|(_, piece)| {
                let times = piece.times().unwrap_or_default();
                let first = times.partition_point(|time| *time < range.from);
                times.get(first).is_some_and(|time| *time < range.to)
            })
        })?;
    }
    Ok(())
}

/// The tables, by place, that may have rows which these replace (DEDUP UPSERT KEYS).
///
/// Rows that are all newer than what the table ever had replace none, and cost a comparison.
fn with_late_rows(writers: &mut [MutexGuard<'_, TableWriter>], prepared: &[Prepared]) -> Vec<usize> {
    let mut late = Vec::new();
    for (place, (writer, Prepared { rows, .. })) in writers.iter_mut().zip(prepared).enumerate() {
        if rows.schema().dedup().is_empty() {
            continue;
        }
        let times = rows.times().unwrap_or_default();
        if writer.newest.is_some_and(|newest| times.iter().any(|ts| *ts <= newest)) {
            late.push(place);
        }
        writer.newest = writer.newest.max(times.iter().max().copied());
    }
    late
}

/// What the rows replace, by table. The parts and runs of the tables `late` must stay as they are until that
/// is published.
fn supersede(core: &Core, prepared: &[Prepared], late: &[usize]) -> Result<Vec<Vec<Superseded>>> {
    let mut superseded: Vec<Vec<Superseded>> = prepared.iter().map(|_| Vec::new()).collect();
    let snapshot = core.publisher.snapshot();
    for place in late {
        let Prepared { table, pieces, .. } = &prepared[*place];
        let Some(table) = snapshot.table_by_id(table.id) else { continue };
        for (partition, piece) in pieces {
            let (found, _) = table.supersede(*partition, &Keys::of(piece)?, u64::MAX)?;
            superseded[*place].push(found);
        }
    }
    Ok(superseded)
}

/// Batches of one table as one.
fn concat(batches: &[RowBatch]) -> Result<RowBatch> {
    let [first, ..] = batches else { unreachable!("a pending table has rows") };
    if batches.len() == 1 {
        return Ok(first.clone());
    }
    let columns = (0..first.columns().len()).map(|column| {
        let arrays: Vec<_> = batches.iter().map(|batch| batch.columns()[column].as_ref()).collect();
        arrow_select::concat::concat(&arrays)
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RowBatch::new(Arc::clone(first.schema()), columns)?)
}
