//! The rows of a damaged part that are whole, in a new part of the same positions.

use super::Job;
use crate::Result;
use crate::part::{Density, Part, PartOptions, SLICE_ROWS};
use crate::store::new_part::NewPart;
use crate::store::snapshot::{PartFile, TableSnapshot};
use crate::tape::change::PartEntry;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::RowBatch;

/// Rows that are read and handed on at once.
const BATCH_ROWS: usize = 1 << 16;

impl Job<'_> {
    /// Writes `good` rows of a part; `None` where there are none.
    pub(super) fn keep_rows(
        &mut self,
        table: &TableSnapshot,
        file: &PartFile,
        good: &[Range<usize>],
    ) -> Result<Option<PartEntry>> {
        if good.is_empty() {
            return Ok(None);
        }
        let part = file.open_anew()?;
        let batches = read_rows(&part, good)?;
        let entry = &file.entry;
        let name = format!("{:06x}-{:08x}.part", self.epoch(), self.done.parts_rewritten);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = PartOptions { slice_rows: SLICE_ROWS, threads, density: Density::Fast };
        // What a load wrote says nothing of positions, before and after.
        let new = NewPart::of_schema(table, part.schema(), entry.partition, name, part.positions());
        let summary = new.write(self.disk, &batches, options)?;
        new.sync_name(self.disk)?;
        self.done.parts_rewritten += 1;
        self.done.rows_kept += summary.rows;
        let (positions, schema_version) = (entry.positions, entry.schema_version);
        Ok(Some(PartEntry { positions, schema_version, ..new.entry(&summary) }))
    }
}

fn read_rows(part: &Part, good: &[Range<usize>]) -> Result<Vec<RowBatch>> {
    let mut batches = Vec::new();
    for range in good {
        for start in range.clone().step_by(BATCH_ROWS) {
            let rows = start..range.end.min(start + BATCH_ROWS);
            let columns = (0..part.schema().columns().len()).map(|column| part.read(column, rows.clone()));
            batches.push(RowBatch::new(Arc::clone(part.schema()), columns.collect::<Result<_>>()?)?);
        }
    }
    Ok(batches)
}
