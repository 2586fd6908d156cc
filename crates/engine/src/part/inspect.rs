//! Looking at everything in a part: every checksum, every value, everything said about the values.
//!
//! For `tickstone check`, and for a repair, which keeps the rows that no damage touches. Works block by
//! block: memory does not depend on the size of the part.

use super::block::block_stats_of;
use super::layout::{TOTAL_BYTES, block_count};
use super::page::Page;
use super::series::SeriesEntry;
use super::stats::{HAS_RANGE, NO_RANGE, StatKind, TotalStats};
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, ArrayRef};
use std::ops::Range;
use tickstone_model::{ColumnType, NULL_SYMBOL, SymbolId};

/// Something in a part that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Where in the file.
    pub(crate) offset: u64,
    /// How many bytes, where that is known.
    pub(crate) bytes: Option<u64>,
    pub(crate) what: String,
    /// Rows of the part that cannot be read, or not be trusted, because of it.
    pub(crate) rows: Range<usize>,
}

/// What a look at a part found.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    pub(crate) flaws: Vec<Flaw>,
    /// Rows that are as they were written: ascending, apart.
    pub(crate) good: Vec<Range<usize>>,
}

impl Inspection {
    /// Of a part in which nothing is wrong.
    pub(crate) fn whole(part: &Part) -> Self {
        let rows: Vec<Range<usize>> = part.slices.iter().map(|slice| slice.rows.clone()).collect();
        Self { flaws: Vec::new(), good: rows }
    }

    /// How many rows are good.
    pub(crate) fn good_rows(&self) -> usize {
        self.good.iter().map(ExactSizeIterator::len).sum()
    }
}

impl Part {
    /// Reads all of an open part. `symbols` gives how many symbols a column's dictionary has; `step` is
    /// called with the bytes looked at.
    pub(crate) fn inspect(
        &self,
        symbols: &dyn Fn(usize) -> Option<usize>,
        step: &mut dyn FnMut(u64),
    ) -> Inspection {
        let mut inspection = Inspection::default();
        let mut totals = vec![Some(TotalStats::empty()); self.layout.columns];
        for slice in 0..self.slices.len() {
            let mut look = SliceLook { part: self, slice, symbols, bad: Vec::new(), flaws: Vec::new() };
            for (column, total) in totals.iter_mut().enumerate() {
                let found = look.column(column);
                let kind = StatKind::of(self.schema.columns()[column].column_type);
                match (total.as_mut(), found) {
                    (Some(total), Some(found)) => total.add(kind, &found),
                    _ => *total = None,
                }
                step(self.chunk_bytes(slice, column));
            }
            look.order();
            look.finish(&mut inspection);
        }
        for (column, total) in totals.into_iter().enumerate() {
            let at = self.layout.totals + column * TOTAL_BYTES;
            let said = self.bytes.get(at..at + TOTAL_BYTES).and_then(TotalStats::read);
            if total.is_some() && total != said {
                let what =
                    format!("the statistics of column {} are not those of its values", self.name(column));
                let bytes = Some(TOTAL_BYTES as u64);
                inspection.flaws.push(Flaw { offset: at as u64, bytes, what, rows: 0..0 });
            }
        }
        inspection
    }

    /// How many symbols a SYMBOL column's dictionary must have for this part, by its statistics.
    pub(crate) fn symbols_used(&self, column: usize) -> usize {
        let at = self.layout.totals + column * TOTAL_BYTES;
        let total = self.bytes.get(at..at + TOTAL_BYTES).and_then(TotalStats::read);
        let most = total.filter(|total| total.flags & HAS_RANGE != 0).map(|total| total.max as usize);
        most.map_or(0, |most| most.saturating_add(1))
    }

    fn name(&self, column: usize) -> String {
        self.schema.columns().get(column).map_or_else(|| column.to_string(), |c| format!("'{}'", c.name))
    }
}

/// One slice being looked at.
struct SliceLook<'a> {
    part: &'a Part,
    slice: usize,
    symbols: &'a dyn Fn(usize) -> Option<usize>,
    /// Rows of the part that are not good.
    bad: Vec<Range<usize>>,
    flaws: Vec<Flaw>,
}

impl SliceLook<'_> {
    fn rows(&self) -> Range<usize> {
        self.part.slices[self.slice].rows.clone()
    }

    /// The rows of a block of the slice.
    fn block_rows(&self, block: usize) -> Range<usize> {
        let rows = self.rows();
        let start = rows.start + block * BLOCK_ROWS;
        start..rows.end.min(start + BLOCK_ROWS)
    }

    fn flaw(&mut self, offset: u64, bytes: Option<u64>, what: String, rows: Range<usize>) {
        if !rows.is_empty() {
            self.bad.push(rows.clone());
        }
        // One damaged group of blocks is met once for each of its blocks.
        if let Some(last) = self.flaws.last_mut()
            && last.offset == offset
            && last.what == what
        {
            last.rows.end = last.rows.end.max(rows.end);
            return;
        }
        self.flaws.push(Flaw { offset, bytes, what, rows });
    }

    fn error(&mut self, column: usize, error: &EngineError, rows: Range<usize>) {
        let (offset, what) = match error {
            EngineError::Damaged { offset, what, .. } => (*offset, what.clone()),
            other => (0, other.to_string()),
        };
        let what = format!("column {}: {what}", self.part.name(column));
        self.flaw(offset, None, what, rows);
    }

    /// Decodes every block of a column; its statistics where all of it is good.
    fn column(&mut self, column: usize) -> Option<TotalStats> {
        let page = match self.part.page(self.slice, column) {
            Ok(page) => page,
            Err(error) => {
                self.error(column, &error, self.rows());
                return None;
            }
        };
        let column_type = self.part.schema.columns()[column].column_type;
        let kind = StatKind::of(column_type);
        let mut total = Some(TotalStats::empty());
        // No row is lost with a filter.
        let filter = self.part.check_bloom(self.slice, column);
        if let Err(error) = &filter {
            self.error(column, error, 0..0);
        }
        for block in 0..block_count(self.rows().len()) {
            let rows = self.block_rows(block);
            match self.block(&page, column, block) {
                Ok((found, values)) => {
                    if let Some(total) = &mut total {
                        total.add(kind, &found);
                    }
                    let place = (self.slice, block);
                    let denied =
                        filter.as_ref().map(|()| self.part.check_bloom_values(place, column, &values));
                    if let Ok(Err(error)) = denied {
                        self.error(column, &error, 0..0);
                    }
                }
                Err(error) => {
                    self.error(column, &error, rows);
                    total = None;
                }
            }
        }
        if let Some(total) = total.filter(|total| *total != page.total()) {
            let offset = page.file_offset() as u64;
            let what = format!(
                "column {}: the statistics of a chunk are not those of its values",
                self.part.name(column)
            );
            self.flaw(offset, Some(TOTAL_BYTES as u64), what, 0..0);
            return Some(total);
        }
        total
    }

    /// Decodes a block and compares what its record says with its values: its statistics, and these.
    fn block(&self, page: &Page<'_>, column: usize, block: usize) -> Result<(TotalStats, ArrayRef)> {
        let found = page.block(block)?;
        let damaged = |what: &str| self.part.damaged(found.offset, what);
        let values = self.part.read(column, self.block_rows(block))?;
        let column_type = self.part.schema.columns()[column].column_type;
        let stats = page.stats(block)?;
        let mut said = stats;
        if said.has(NO_RANGE) {
            // Then they say nothing.
            (said.first, said.last) = (0, 0);
        }
        if block_stats_of(column_type, &values) != said {
            return Err(damaged("the statistics of a block are not those of its values"));
        }
        if let (ColumnType::Symbol, Some(known)) = (column_type, (self.symbols)(column))
            && ids(&values).flatten().any(|id| id as usize >= known)
        {
            return Err(damaged("an id that its dictionary does not have"));
        }
        if self.part.schema.timestamp() == Some(column) && values.null_count() > 0 {
            return Err(damaged("a designated timestamp that is NULL"));
        }
        Ok((TotalStats::of_block(StatKind::of(column_type), found.rows, &stats), values))
    }

    /// Rows of a series entry have its ids and ascending times within the slice's.
    fn order(&mut self) {
        let part = self.part;
        let series = part.series(self.slice);
        let mut entries = series.iter().peekable();
        let bounds = part.slices[self.slice].times;
        let mut previous: Option<i64> = None;
        let covered = series.iter().next().is_none_or(|first| first.rows().start == self.rows().start);
        if !covered || (series.is_empty() && !self.rows().is_empty()) {
            let what = "the series index does not begin with the slice".to_string();
            self.flaw(part.layout.series as u64, None, what, 0..0);
            return;
        }
        for block in 0..block_count(self.rows().len()) {
            let rows = self.block_rows(block);
            if self.bad.iter().any(|bad| bad.start < rows.end && rows.start < bad.end) {
                previous = None;
                continue;
            }
            let Some(found) = BlockOrder::read(part, rows.clone()) else { continue };
            for row in rows.clone() {
                while entries.peek().is_some_and(|entry| entry.rows().end <= row) {
                    entries.next();
                    previous = None;
                }
                let right = entries.peek().is_some_and(|entry| found.has_ids(row - rows.start, entry));
                if !right {
                    let what = format!("row {row} is not of the series that the index says");
                    self.flaw(part.layout.series as u64, None, what, rows.clone());
                    break;
                }
                let Some(time) = found.time(row - rows.start) else { continue };
                let inside = bounds.is_none_or(|(least, most)| least <= time && time <= most);
                if !inside || previous.is_some_and(|previous| previous > time) {
                    let what = format!("the time of row {row} is out of order, or not in its slice's bounds");
                    self.flaw(part.layout.series as u64, None, what, rows.clone());
                    break;
                }
                previous = Some(time);
            }
        }
    }

    /// Adds what was found, and the rows that are good.
    fn finish(mut self, inspection: &mut Inspection) {
        let rows = self.rows();
        self.bad.sort_unstable_by_key(|bad| bad.start);
        let mut at = rows.start;
        for bad in &self.bad {
            if at < bad.start {
                inspection.good.push(at..bad.start);
            }
            at = at.max(bad.end);
        }
        if at < rows.end {
            inspection.good.push(at..rows.end);
        }
        inspection.flaws.append(&mut self.flaws);
    }
}

/// The columns that a slice is sorted by, of one block.
struct BlockOrder {
    series: Vec<ArrayRef>,
    times: Option<ArrayRef>,
}

impl BlockOrder {
    fn read(part: &Part, rows: Range<usize>) -> Option<Self> {
        let series = part.schema.series().iter().map(|&column| part.read(column, rows.clone()));
        let times = part.schema.timestamp().map(|column| part.read(column, rows.clone()));
        Some(Self { series: series.collect::<Result<_>>().ok()?, times: times.transpose().ok()? })
    }

    fn has_ids(&self, row: usize, entry: &SeriesEntry<'_>) -> bool {
        self.series.iter().zip(entry.ids()).all(|(column, id)| id_at(column, row) == id)
    }

    fn time(&self, row: usize) -> Option<i64> {
        self.times.as_ref()?.as_primitive_opt::<TimestampNanosecondType>()?.values().get(row).copied()
    }
}

fn ids(values: &ArrayRef) -> impl Iterator<Item = Option<SymbolId>> {
    values.as_primitive_opt::<UInt32Type>().into_iter().flat_map(|ids| ids.iter())
}

fn id_at(values: &ArrayRef, row: usize) -> SymbolId {
    let ids = values.as_primitive_opt::<UInt32Type>().filter(|ids| row < ids.len() && ids.is_valid(row));
    ids.map_or(NULL_SYMBOL, |ids| ids.value(row))
}
