//! Transactions: rows for one or more tables that become durable and visible together.

use crate::alter::check_same_columns;
use crate::dedup::{Keys, last_of_each};
use crate::engine::{Commit, Core, TableWriter, lock, lock_writer};
use crate::ingest::to_rows;
use crate::memory::Reservation;
use crate::recent::split_by_partition;
use crate::snapshot::{Effect, RowsEffect, Superseded, TableSnapshot};
use crate::tape::change::{Change, TableRows, encode_change};
use crate::{EngineError, Result};
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tickstone_model::{RowBatch, SyncPolicy, TimeRange};

/// A commit being put together. Dropped without [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Transaction {
    core: Arc<Core>,
    /// By table id, so that writer locks are taken in one order.
    tables: BTreeMap<u32, Pending>,
    memory: Reservation,
}

#[derive(Debug)]
struct Pending {
    table: Arc<TableSnapshot>,
    batches: Vec<RowBatch>,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let memory = core.memory.reserve();
        Self { core, tables: BTreeMap::new(), memory }
    }

    /// Adds rows; they are checked now and stored with the commit.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`], [`crate::EngineError::ReadOnly`], [`crate::EngineError::Model`] where the rows
    /// do not fit, [`EngineError::MemoryFull`] where others hold the memory they need; what was added before
    /// stays in the transaction. [`crate::EngineError::SchemaChanged`] where the
    /// table's columns were changed since rows were added for it: begin again.
    pub fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<()> {
        self.core.writing("INSERT")?;
        let table = self.core.table_of_rows(table)?;
        let rows = to_rows(&table.schema, &table.dictionaries, rows)?;
        if rows.rows() > 0 {
            let bytes = self.memory.bytes() + rows.memory_bytes();
            if let Some(others) = self.memory.crowded_by(bytes) {
                let cause =
                    format!("loads, merges and other transactions hold {others} bytes, this one {bytes}");
                let budget_bytes = self.core.options.memory_budget_bytes;
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
    /// [`crate::EngineError::NoSuchTable`] where a table was dropped meanwhile, [`crate::EngineError::SchemaChanged`]
    /// where columns of one were changed, [`crate::EngineError::CommitTooLarge`], [`crate::EngineError::DiskFull`]: nothing is stored then. [`crate::EngineError::TapeStopped`]: reopen to know.
    pub fn commit(self, sync: Option<SyncPolicy>) -> Result<Commit> {
        let rows = self.rows();
        let writing = self.core.writing("INSERT")?;
        if rows == 0 {
            writing.tape.check()?;
            return Ok(Commit { position: 0, rows });
        }
        self.core.wait_for_memory()?;
        let memory = self.memory;
        let policy =
            sync.or_else(|| self.tables.values().map(|p| p.table.schema.sync()).max()).unwrap_or_default();
        let mut prepared = Vec::with_capacity(self.tables.len());
        for pending in self.tables.into_values() {
            let rows = concat(&last_of_each(pending.batches)?)?;
            let writer = self.core.table_writer(&pending.table)?;
            prepared.push((writer, rows.clone(), split_by_partition(rows)?));
        }
        let mut writers: Vec<_> = prepared.iter().map(|(writer, _, _)| lock_writer(writer)).collect();
        let fate = writing.tape.fate();
        let mut frames = Vec::with_capacity(writers.len());
        for (writer, (_, rows, _)) in writers.iter_mut().zip(&prepared) {
            // A table that a stopped tape changed is another one than was acknowledged: then that is the error.
            writer.check_fits(rows.schema()).or_else(|error| writing.tape.check().and(Err(error)))?;
            let (columns, symbols) = (rows.columns().to_vec(), writer.new_symbols(&writing.tape));
            frames.push(TableRows { table: writer.table.id, symbols, rows: rows.rows(), columns });
        }
        let late = with_late_rows(&mut writers, &prepared);
        let dirs: Vec<_> = late.iter().map(|(place, _)| Arc::clone(&writers[*place].table.dir)).collect();
        if !late.is_empty() {
            // Rows of commits on their way are to be seen.
            writing.tape.publish_all()?;
        }
        // What is replaced is known by the runs and parts that are there now: they stay until it is done.
        let layouts: Vec<_> = dirs.iter().map(|dir| lock(&dir.layout)).collect();
        let superseded = supersede(&self.core, &prepared, &late)?;
        let change = Change::Rows(frames);
        let (kind, payload) = encode_change(&change);
        let Change::Rows(frames) = change else { unreachable!("made above") };
        let effects = frames.iter().zip(&prepared).zip(superseded);
        let effects = effects.map(|((frame, (_, _, pieces)), superseded)| RowsEffect {
            table: frame.table,
            pieces: pieces.clone(),
            new_symbols: !frame.symbols.is_empty(),
            superseded,
        });
        let effect = Effect::Rows(effects.collect());
        let ticket = writing.tape.append_after(&fate, kind, &payload, effect, policy)?;
        writers.iter_mut().zip(&frames).for_each(|(writer, frame)| writer.logged(&frame.symbols, &ticket));
        if !layouts.is_empty() {
            writing.tape.publish_all()?;
        }
        drop(layouts);
        drop(writers);
        // The rows count as recent from here on.
        drop(memory);
        self.core.acknowledge(&ticket, frames.iter().map(|frame| frame.table))?;
        self.core.counters.committed(rows);
        Ok(Commit { position: ticket.position, rows })
    }
}

/// What was prepared of a table's rows: its writer, all of them, and those of each partition.
type Prepared = (Arc<Mutex<TableWriter>>, RowBatch, Vec<(TimeRange, RowBatch)>);

/// The tables, by place and id, that may have rows which these replace (DEDUP UPSERT KEYS).
///
/// Rows that are all newer than what the table ever had replace none, and cost a comparison.
fn with_late_rows(writers: &mut [MutexGuard<'_, TableWriter>], prepared: &[Prepared]) -> Vec<(usize, u32)> {
    let mut late = Vec::new();
    for (place, (writer, (_, rows, _))) in writers.iter_mut().zip(prepared).enumerate() {
        if rows.schema().dedup().is_empty() {
            continue;
        }
        let times = rows.times().unwrap_or_default();
        if writer.newest.is_some_and(|newest| times.iter().any(|ts| *ts <= newest)) {
            late.push((place, writer.table.id));
        }
        writer.newest = writer.newest.max(times.iter().max().copied());
    }
    late
}

/// What the rows replace, by table. The parts and runs of the tables `late` must stay as they are until that
/// is published.
fn supersede(core: &Core, prepared: &[Prepared], late: &[(usize, u32)]) -> Result<Vec<Vec<Superseded>>> {
    let mut superseded: Vec<Vec<Superseded>> = prepared.iter().map(|_| Vec::new()).collect();
    let snapshot = core.publisher.snapshot();
    for (place, id) in late {
        let (_, _, pieces) = &prepared[*place];
        let Some(table) = snapshot.table_by_id(*id) else { continue };
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
