//! Transactions: rows for one or more tables that become durable and visible together.

use crate::Result;
use crate::alter::check_same_columns;
use crate::engine::{Commit, Core, lock_writer};
use crate::ingest::to_rows;
use crate::recent::split_by_partition;
use crate::snapshot::{Effect, RowsEffect, TableSnapshot};
use crate::tape::change::{Change, TableRows, encode_change};
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_model::{RowBatch, SyncPolicy};

/// A commit being put together. Dropped without [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Transaction {
    core: Arc<Core>,
    /// By table id, so that writer locks are taken in one order.
    tables: BTreeMap<u32, Pending>,
}

#[derive(Debug)]
struct Pending {
    table: Arc<TableSnapshot>,
    batches: Vec<RowBatch>,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, tables: BTreeMap::new() }
    }

    /// Adds rows; they are checked now and stored with the commit.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`], [`crate::EngineError::ReadOnly`], [`crate::EngineError::Model`] where the rows
    /// do not fit; what was added before stays in the transaction. [`crate::EngineError::SchemaChanged`] where the
    /// table's columns were changed since rows were added for it: begin again.
    pub fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<()> {
        self.core.writing("INSERT")?;
        let table = self.core.table(table)?;
        let rows = to_rows(&table.schema, &table.dictionaries, rows)?;
        if rows.rows() > 0 {
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
    /// where columns of one were changed, [`crate::EngineError::CommitTooLarge`]: nothing is stored then. [`crate::EngineError::TapeStopped`]: reopen to know.
    pub fn commit(self, sync: Option<SyncPolicy>) -> Result<Commit> {
        let rows = self.rows();
        let writing = self.core.writing("INSERT")?;
        if rows == 0 {
            return Ok(Commit { position: 0, rows });
        }
        self.core.wait_for_memory()?;
        let policy =
            sync.or_else(|| self.tables.values().map(|p| p.table.schema.sync()).max()).unwrap_or_default();
        let mut prepared = Vec::with_capacity(self.tables.len());
        for pending in self.tables.into_values() {
            let rows = concat(&pending.batches)?;
            let writer = self.core.table_writer(&pending.table)?;
            prepared.push((writer, rows.clone(), split_by_partition(rows)?));
        }
        let mut writers: Vec<_> = prepared.iter().map(|(writer, _, _)| lock_writer(writer)).collect();
        let mut frames = Vec::with_capacity(writers.len());
        for (writer, (_, rows, _)) in writers.iter().zip(&prepared) {
            writer.check_fits(rows.schema())?;
            let (columns, symbols) = (rows.columns().to_vec(), writer.new_symbols());
            frames.push(TableRows { table: writer.table.id, symbols, rows: rows.rows(), columns });
        }
        let change = Change::Rows(frames);
        let (kind, payload) = encode_change(&change);
        let Change::Rows(frames) = change else { unreachable!("made above") };
        let effects = frames.iter().zip(&prepared).map(|(frame, (_, _, pieces))| RowsEffect {
            table: frame.table,
            pieces: pieces.clone(),
            new_symbols: !frame.symbols.is_empty(),
        });
        let ticket = writing.tape.append(kind, &payload, Effect::Rows(effects.collect()), policy)?;
        writers.iter_mut().zip(&frames).for_each(|(writer, frame)| writer.logged(&frame.symbols));
        drop(writers);
        self.core.acknowledge(ticket)?;
        Ok(Commit { position: ticket.position, rows })
    }
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
