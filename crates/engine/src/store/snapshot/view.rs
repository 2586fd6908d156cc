//! A part as a table of now sees it: columns by their places in the current schema, those that the file
//! was written without as NULLs.
//!
//! Invariant: no column of the file is reached by its name or place, only by the id it had when the file
//! was written; so a column dropped, and one of the same name added later, are two.

use super::{PartFile, TableSnapshot};
use crate::part::{BLOCK_ROWS, BlockSummary, ColumnBound, ColumnPoints, ColumnStats, Part};
use crate::recent::empty_stats;
use crate::store::history::{ColumnMap, column_map};
use crate::{EngineError, Result};
use arrow_array::{ArrayRef, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::TableSchema;

/// A part through the current schema.
#[derive(Debug, Clone)]
pub(crate) struct PartView {
    part: Arc<Part>,
    schema: Arc<TableSchema>,
    /// Place in the file by place in the schema; `None` where they are the same.
    columns: Option<ColumnMap>,
}

impl TableSnapshot {
    /// Opens a part of this table.
    ///
    /// # Errors
    /// Those of [`PartFile::open`].
    pub(crate) fn view(&self, file: &PartFile) -> Result<PartView> {
        let part = Arc::clone(file.open()?);
        let version = file.entry.schema_version;
        let columns = match self.history.version(version) {
            Some(_) => self.history.columns_of(version).map(Arc::clone),
            None => column_map(&file.schema, &self.schema),
        };
        Ok(PartView { part, schema: Arc::clone(&self.schema), columns })
    }
}

impl PartView {
    /// The file itself. Its columns are those it was written with: only what has no column (slices, series,
    /// designated timestamps) may be asked of it.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    /// The column's place in the file; `None` where it is not there.
    fn place(&self, column: usize) -> Option<usize> {
        match &self.columns {
            None => Some(column),
            // A column that the table has not is one that the file has not either: it says so.
            Some(map) => map.get(column).copied().unwrap_or(Some(self.part.schema().columns().len())),
        }
    }

    /// `rows` NULLs of a column that the file is without.
    fn nulls(&self, column: usize, rows: usize) -> ArrayRef {
        new_null_array(&self.schema.columns()[column].column_type.stored_type(), rows)
    }

    fn no_such_rows(&self, column: usize) -> EngineError {
        let message = format!("no such rows of column {column} in a part of {}", self.schema.name());
        EngineError::Arrow(ArrowError::InvalidArgumentError(message))
    }

    fn rows(&self) -> usize {
        self.part.slices().last().map_or(0, |slice| slice.rows.end)
    }

    /// [`Part::read_ranges`].
    pub(crate) fn read_ranges(&self, column: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
        let Some(place) = self.place(column) else {
            let inside = ranges.iter().all(|rows| rows.start <= rows.end && rows.end <= self.rows());
            let count = ranges.iter().map(ExactSizeIterator::len).sum();
            return if inside { Ok(self.nulls(column, count)) } else { Err(self.no_such_rows(column)) };
        };
        self.part.read_ranges(place, ranges)
    }

    /// [`Part::take`].
    pub(crate) fn take(&self, column: usize, rows: &[usize]) -> Result<ArrayRef> {
        let Some(place) = self.place(column) else {
            let inside = rows.iter().all(|row| *row < self.rows());
            return if inside { Ok(self.nulls(column, rows.len())) } else { Err(self.no_such_rows(column)) };
        };
        self.part.take(place, rows)
    }

    /// [`Part::blocks`].
    pub(crate) fn blocks(&self, column: usize, rows: Range<usize>) -> Result<Vec<BlockSummary>> {
        let Some(place) = self.place(column) else { return Ok(self.null_blocks(column, &rows)) };
        self.part.blocks(place, rows)
    }

    fn null_blocks(&self, column: usize, rows: &Range<usize>) -> Vec<BlockSummary> {
        let mut summaries = Vec::new();
        for slice in self.part.slices() {
            let whole = &slice.rows;
            let starts = whole.clone().step_by(BLOCK_ROWS);
            let held = starts.map(|start| start..whole.end.min(start + BLOCK_ROWS));
            let wanted = held.filter(|held| held.start < rows.end && rows.start < held.end);
            summaries.extend(wanted.map(|held| BlockSummary {
                stats: self.null_stats(column, held.len() as u64),
                rows: held,
                first: None,
                last: None,
            }));
        }
        summaries
    }

    fn null_stats(&self, column: usize, rows: u64) -> ColumnStats {
        ColumnStats { rows, nulls: rows, ..empty_stats(self.schema.columns()[column].column_type) }
    }

    /// [`Part::reduce`], or with `only_sum` [`Part::sum`].
    pub(crate) fn reduce(
        &self,
        column: usize,
        ranges: &[Range<usize>],
        only_sum: bool,
    ) -> Result<ColumnStats> {
        let Some(place) = self.place(column) else {
            let rows = ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
            return Ok(self.null_stats(column, rows as u64));
        };
        if only_sum { self.part.sum(place, ranges) } else { self.part.reduce(place, ranges) }
    }

    /// [`Part::filter`].
    pub(crate) fn filter(&self, bound: &ColumnBound, rows: Range<usize>) -> Result<BooleanBuffer> {
        let Some(column) = self.place(bound.column) else { return Ok(BooleanBuffer::new_unset(rows.len())) };
        self.part.filter(&ColumnBound { column, ..*bound }, rows)
    }

    /// [`Part::prune`]. A NULL satisfies no bound.
    pub(crate) fn prune(&self, bound: &ColumnBound, rows: Range<usize>) -> Vec<Range<usize>> {
        let Some(column) = self.place(bound.column) else { return Vec::new() };
        self.part.prune(&ColumnBound { column, ..*bound }, rows)
    }

    /// [`Part::point_rows`]. A NULL is no value that is looked up.
    pub(crate) fn point_rows(
        &self,
        slice: usize,
        points: &ColumnPoints,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let Some(column) = self.place(points.column()) else { return Ok(Some(Vec::new())) };
        self.part.point_rows(slice, column, points)
    }

    /// [`Part::column_stats`].
    pub(crate) fn column_stats(&self, column: usize) -> ColumnStats {
        let Some(place) = self.place(column) else { return self.null_stats(column, self.rows() as u64) };
        self.part.column_stats(place)
    }
}
