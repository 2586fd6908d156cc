//! A part that is being written: where it is, and what tape and manifest will say of it.
//!
//! Whoever writes parts goes this way: sealing, merging, loads, rewrites, repairs.

use super::snapshot::{PartFile, TableSnapshot, part_path};
use crate::disk::Disk;
use crate::part::{Part, PartOptions, PartSummary, PartWriter, PositionRange};
use crate::tape::change::PartEntry;
use crate::{EngineError, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_model::{RowBatch, TableSchema};

/// See the module.
#[derive(Debug)]
pub(crate) struct NewPart<'a> {
    table: &'a TableSnapshot,
    schema: &'a Arc<TableSchema>,
    /// Start of its partition (ns since the Unix epoch).
    partition: i64,
    file: String,
    positions: PositionRange,
    path: PathBuf,
}

impl<'a> NewPart<'a> {
    /// A part named `file` with rows of a table as it is now.
    pub(crate) fn new(
        table: &'a TableSnapshot,
        partition: i64,
        file: String,
        positions: PositionRange,
    ) -> Self {
        Self::of_schema(table, &table.schema, partition, file, positions)
    }

    /// The same with rows of an earlier schema of the table.
    pub(crate) fn of_schema(
        table: &'a TableSnapshot,
        schema: &'a Arc<TableSchema>,
        partition: i64,
        file: String,
        positions: PositionRange,
    ) -> Self {
        let path = part_path(table.id, &table.schema, partition, &file);
        Self { table, schema, partition, file, positions, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A writer of its rows, slice by slice.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn writer<'w>(&'w self, disk: &'w dyn Disk, options: PartOptions) -> Result<PartWriter<'w>> {
        PartWriter::create(disk, &self.path, self.schema, self.positions, options)
    }

    /// Writes all its rows; the file is on stable storage when this returns, its name once its folder is synced.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        batches: &[RowBatch],
        options: PartOptions,
    ) -> Result<PartSummary> {
        Part::write(disk, &self.path, self.schema, self.positions, batches, options)
    }

    /// Makes the name of the file stable.
    ///
    /// # Errors
    /// [`EngineError::Io`]; the file is gone then, or an orphan: the next try writes another one.
    pub(crate) fn sync_name(&self, disk: &dyn Disk) -> Result<()> {
        let folder = self.path.parent().expect("a part is in its partition's folder");
        disk.sync_dir(folder).map_err(|error| {
            let _ = disk.remove(&self.path);
            EngineError::io("sync", folder)(error)
        })
    }

    /// What tape and manifest say of it.
    pub(crate) fn entry(&self, summary: &PartSummary) -> PartEntry {
        PartEntry::of(self.partition, self.file.clone(), self.positions, summary, self.schema.version())
    }

    /// The file, as a snapshot holds it.
    pub(crate) fn opened(&self, summary: &PartSummary) -> Arc<PartFile> {
        Arc::new(PartFile::new(self.entry(summary), self.schema, &self.table.dir))
    }
}
