//! Changes of a table's shape, and partitions dropped by range: frames of the tape, atomic as any commit.
//!
//! Invariants:
//! - the frame of a new shape enters the tape under the table's writer lock, which is held until the
//!   snapshot has it: rows in frames before it have the old columns, those after it the new ones;
//! - rows put together for the old columns are refused where these are no longer the table's.

use crate::engine::{Core, Engine, TableWriter, lock_writer};
use crate::snapshot::{Dropped, DroppedCell, Effect};
use crate::tape::change::{Change, encode_change};
use crate::{EngineError, Result};
use std::sync::Arc;
use tickstone_model::{AlterTable, SyncPolicy, TableSchema, TimeRange};

impl Engine {
    /// Changes the shape of a table, without rewriting what it holds; on stable storage when this returns.
    ///
    /// Snapshots taken before keep the old shape. Rows that are there have NULL in a new column; a column
    /// dropped and one added later under its name have nothing in common.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::Model`] where a rule of schemas does not let it,
    /// [`EngineError::TableExists`] where another table has the new name, [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn alter_table(&self, table: &str, change: &AlterTable) -> Result<()> {
        let writing = self.core.writing("ALTER TABLE")?;
        self.core.wait_for_rewrite(table)?;
        let catalog = writing.catalog();
        let found = self.core.table(table)?;
        let writer = catalog.writer(&found)?;
        let mut writer = lock_writer(&writer);
        // Every change of shape before this one was waited for under the same lock: unless the tape has stopped,
        // `schema` is current, and what the snapshot shows is stable.
        writing.tape.check()?;
        writer.check_there()?;
        let schema = writer.table.schema.altered(change)?;
        if schema == *writer.table.schema {
            return Ok(());
        }
        if let Some(other) = self.snapshot().table(schema.name()).filter(|other| other.id != found.id) {
            return Err(EngineError::TableExists { name: other.schema.name().to_string() });
        }
        let (kind, payload) = encode_change(&Change::Alter { table: found.id, schema: schema.clone() });
        let effect = Effect::Alter { table: found.id, schema: Arc::new(schema) };
        let ticket = writing.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
        writing.tape.wait(&ticket)?;
        writer.settle_symbols(&writing.tape);
        if let Some(altered) = self.snapshot().table_by_id(found.id) {
            writer.alter(altered);
        }
        Ok(())
    }

    /// Puts table `with` in the place of table `name`, whose name it has from then on; that one is dropped with all its
    /// rows, those included that were committed meanwhile. One change: nobody sees, and no crash leaves, neither or both.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] where one of them is not there, [`EngineError::Model`], [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn replace_table(&self, name: &str, with: &str) -> Result<()> {
        let writing = self.core.writing("replacing a table")?;
        self.core.wait_for_rewrite(name)?;
        self.core.wait_for_rewrite(with)?;
        let mut catalog = writing.catalog();
        writing.tape.check()?;
        let (old, new) = (self.core.table(name)?, self.core.table(with)?);
        if old.id == new.id {
            return Ok(());
        }
        let (old_writer, new_writer) = (catalog.writer(&old)?, catalog.writer(&new)?);
        // In the order in which commits lock them.
        let (mut old_locked, mut new_locked);
        if old.id < new.id {
            old_locked = lock_writer(&old_writer);
            new_locked = lock_writer(&new_writer);
        } else {
            new_locked = lock_writer(&new_writer);
            old_locked = lock_writer(&old_writer);
        }
        new_locked.check_there()?;
        let change = AlterTable::RenameTable(old.schema.name().to_string());
        let schema = new_locked.table.schema.altered(&change)?;
        let change = Change::Replace { table: new.id, schema: schema.clone(), replaced: old.id };
        let (kind, payload) = encode_change(&change);
        let effect = Effect::Replace { table: new.id, schema: Some(Arc::new(schema)), replaced: old.id };
        let ticket = writing.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
        writing.tape.wait(&ticket)?;
        catalog.forget(&mut old_locked);
        new_locked.settle_symbols(&writing.tape);
        if let Some(altered) = self.snapshot().table_by_id(new.id) {
            new_locked.alter(altered);
        }
        self.core.remove_dropped_or_later(Arc::clone(&old.dir));
        Ok(())
    }

    /// Drops the partitions of a table that lie whole in `range`, with all their rows, and says how much
    /// that was; on stable storage when this returns. Their files go when the last snapshot that holds
    /// them does. What was imported stays on record as imported.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn drop_partitions(&self, table: &str, range: TimeRange) -> Result<Dropped> {
        let writing = self.core.writing("DROP PARTITION")?;
        let table = self.core.table(table)?;
        let writer = self.core.table_writer(&table)?;
        let writer = lock_writer(&writer);
        writer.check_there()?;
        let (kind, payload) = encode_change(&Change::DropPartitions { table: table.id, range });
        let dropped = DroppedCell::default();
        let effect = Effect::DropPartitions { table: table.id, range, dropped: Arc::clone(&dropped) };
        let ticket = writing.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
        drop(writer);
        writing.tape.wait(&ticket)?;
        writing.maintenance.touch([table.id]);
        // Parts go only once no manifest names them.
        self.core.save_manifest_or_later(table.id);
        Ok(dropped.get().copied().unwrap_or_default())
    }
}

impl TableWriter {
    /// # Errors
    /// [`EngineError::NoSuchTable`] where the table was dropped.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.dropped {
            return Err(EngineError::NoSuchTable { name: self.table.schema.name().to_string() });
        }
        Ok(())
    }

    /// Checks that rows of columns `schema` can still be stored as they are.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::SchemaChanged`].
    pub(crate) fn check_fits(&self, schema: &TableSchema) -> Result<()> {
        self.check_there()?;
        check_same_columns(schema, &self.table.schema)
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

impl Core {
    /// Forgets what neither the tape nor a part needs to know of a table's past.
    pub(crate) fn forget_history(&self, id: u32) -> Result<()> {
        let snapshot = self.publisher.snapshot();
        let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
        let used_from = table.partitions().oldest_version();
        // Without looking at the tape: is there anything that could be forgotten at all?
        if table.history.pruned(u64::MAX, used_from).is_none() {
            return Ok(());
        }
        let tape_from = self.stable_tape_start()?;
        let Some(pruned) = table.history.pruned(tape_from, used_from) else { return Ok(()) };
        self.publisher.change(|next| next.set_history(id, &table.history, pruned));
        Ok(())
    }
}
