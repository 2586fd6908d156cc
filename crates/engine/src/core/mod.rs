//! What the writing process holds of a database: its tape, its tables' writers, what upkeep has to do.
//!
//! Invariants:
//! - a table's frames enter the tape under its writer lock, with every symbol given out since its last frame: ids stand
//!   in the tape in their order;
//! - locks are taken in this order: catalog, table writers by table id, maintenance, publisher.
//!
//! State alone: what is done with it is in the layers above, as functions that take a [`Core`].

pub(crate) mod catalog;
mod compaction;
pub(crate) mod counters;
mod maintenance;
pub(crate) mod memory;
mod options;

pub(crate) use compaction::Compaction;
pub(crate) use maintenance::{Maintenance, Pause, Sweep};
pub use options::EngineOptions;

use crate::Result;
use crate::clock::Clock;
use crate::disk::{Disk, Spare};
use crate::lock::lock;
use crate::part::{Density, PartName};
use crate::store::publisher::Publisher;
use crate::store::snapshot::{Effect, TableSnapshot};
use crate::tape::named::Names;
use crate::tape::writer::Tape;
use catalog::{Catalog, TableLock, lock_writer};
use counters::{Counters, MaintenanceStats};
use memory::Memory;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: EngineOptions,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) tape: Tape<Effect>,
    pub(crate) names: Arc<Names>,
    /// What goes first where the disk is full.
    #[allow(dead_code, reason = "kept alive for the disk, which holds it weakly")]
    pub(crate) spare: Arc<dyn Spare>,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) maintenance: Arc<Maintenance>,
    pub(crate) compaction: Arc<Compaction>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) epoch: u64,
    /// How many files of parts were given a name.
    pub(crate) files: AtomicU64,
    /// What is done when the last handle goes.
    pub(crate) close: fn(&Core),
}

/// Which tables' rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsOf {
    /// Those that users write.
    Tables,
    /// Materialized views, by whoever keeps them current.
    Views,
}

impl Core {
    /// The table of this name, as of now.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`].
    pub(crate) fn table(&self, name: &str) -> Result<Arc<TableSnapshot>> {
        self.publisher.table(name)
    }

    /// The table of this number, as of now.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`].
    pub(crate) fn table_by_id(&self, id: u32) -> Result<Arc<TableSnapshot>> {
        let found = self.publisher.snapshot().table_by_id(id).map(Arc::clone);
        found.ok_or_else(|| crate::EngineError::NoSuchTable { name: format!("number {id}") })
    }

    /// The number of one table, or of all.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`].
    pub(crate) fn ids_of(&self, table: Option<&str>) -> Result<Vec<u32>> {
        match table {
            Some(name) => Ok(vec![self.table(name)?.id]),
            None => Ok(self.publisher.snapshot().tables().map(|table| table.id).collect()),
        }
    }

    /// The table of this number, where it is of this kind and has rows.
    ///
    /// # Errors
    /// [`crate::EngineError::TableGone`], [`crate::EngineError::Model`].
    pub(crate) fn table_of_rows_by_id(&self, id: u32, name: &str, of: RowsOf) -> Result<Arc<TableSnapshot>> {
        let found = self.publisher.snapshot().table_by_id(id).map(Arc::clone);
        let table = found.ok_or_else(|| crate::EngineError::TableGone { name: name.to_string() })?;
        check_rows(&table, of)?;
        Ok(table)
    }

    /// A table of this kind that has rows.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`], [`crate::EngineError::Model`].
    pub(crate) fn table_of_rows(&self, name: &str, of: RowsOf) -> Result<Arc<TableSnapshot>> {
        let table = self.table(name)?;
        check_rows(&table, of)?;
        Ok(table)
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }

    /// # Errors
    /// [`crate::EngineError::NoSuchTable`] where the table was dropped.
    pub(crate) fn table_writer(&self, table: &TableSnapshot) -> Result<Arc<TableLock>> {
        self.catalog().writer(table)
    }

    /// Waits until no one rewrites a table, holding no lock: whoever needs the catalog and the table's writer
    /// would keep all others waiting.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchTable`].
    pub(crate) fn wait_for_rewrite(&self, table: &TableSnapshot) -> Result<()> {
        let writer = self.table_writer(table)?;
        drop(lock_writer(&writer));
        Ok(())
    }

    /// A file name that no other file of the table has or had.
    pub(crate) fn new_part_name(&self, density: Density) -> String {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let name = PartName { epoch: self.epoch, number, written_s: Some(self.now_s()), density }.to_string();
        self.maintenance.give_name(&name);
        name
    }

    /// The time by the engine's clock (s since the Unix epoch); 0 before it.
    pub(crate) fn now_s(&self) -> u64 {
        u64::try_from(self.clock.now_ns() / 1_000_000_000).unwrap_or(0)
    }

    /// What sealing and merging did.
    pub(crate) fn maintenance_stats(&self) -> MaintenanceStats {
        let failure = self.maintenance.worker.failure().or_else(|| self.compaction.worker.failure());
        self.counters.read(failure)
    }
}

/// # Errors
/// [`crate::EngineError::Model`] where the rows of a table are not of this kind.
pub(crate) fn check_rows(table: &TableSnapshot, of: RowsOf) -> Result<()> {
    let is_materialized = table.schema.materialized().is_some();
    if table.schema.view().is_some() || is_materialized != (of == RowsOf::Views) {
        return Err(table.schema.wrong_kind().into());
    }
    Ok(())
}

impl Drop for Core {
    fn drop(&mut self) {
        (self.close)(self);
    }
}
