//! Dropping blocks whose statistics exclude every value asked for.

use super::stats::{BlockStats, FIRST_NULL, HAS_NAN, HAS_RANGE, LAST_NULL, NO_RANGE, StatKind, TotalStats};
use super::{BLOCK_ROWS, ColumnStats, Part, StatValue};
use crate::Result;
use std::ops::Range;
use tickstone_model::ColumnType;

/// One block and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSummary {
    /// Its rows in the part, all of them, also where fewer were asked for.
    pub rows: Range<usize>,
    /// Of exactly these rows.
    pub stats: ColumnStats,
    /// The value of the first row; `None` for NULL, or where the type keeps none.
    pub first: Option<StatValue>,
    /// The value of the last row, likewise.
    pub last: Option<StatValue>,
}

/// Bounds on a column's values, both inclusive. They only drop blocks: rows outside may remain.
/// A NULL satisfies no bound; a NaN is above every number, as in SQL's order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnBound {
    /// The column.
    pub column: usize,
    /// Smallest value wanted, `None` for no bound.
    pub min: Option<StatValue>,
    /// Largest value wanted, `None` for no bound.
    pub max: Option<StatValue>,
}

impl Part {
    /// The blocks that hold `rows` of a column, with their statistics, without reading a value.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index cannot be read.
    pub fn blocks(&self, column: usize, rows: Range<usize>) -> Result<Vec<BlockSummary>> {
        let column_type = self.schema.columns().get(column).map(|column| column.column_type);
        let Some(column_type) = column_type else { return Ok(Vec::new()) };
        let kind = StatKind::of(column_type);
        let mut summaries = Vec::with_capacity(rows.len() / BLOCK_ROWS + 2);
        let mut row = rows.start;
        while let Some(slice) = self.slice_of(row).filter(|_| row < rows.end) {
            let whole = &self.slices[slice].rows;
            let page = self.page(slice, column)?;
            while row < rows.end.min(whole.end) {
                let block = (row - whole.start) / BLOCK_ROWS;
                let start = whole.start + block * BLOCK_ROWS;
                let held = start..whole.end.min(start + BLOCK_ROWS);
                let stats = page.stats(block)?;
                let kept = |null: u16, bits: u64| {
                    let value = kind.value(bits).filter(|_| column_type != ColumnType::Symbol);
                    value.filter(|_| !stats.has(null | NO_RANGE))
                };
                row = held.end;
                summaries.push(BlockSummary {
                    first: kept(FIRST_NULL, stats.first),
                    last: kept(LAST_NULL, stats.last),
                    stats: TotalStats::of_block(kind, held.len(), &stats).to_column_stats(column_type),
                    rows: held,
                });
            }
        }
        Ok(summaries)
    }

    /// What `bound` leaves of `rows`, block by block: ascending ranges, neighbours joined.
    ///
    /// Where statistics are missing or cannot be read, rows stay: reading them reports damage.
    pub fn prune(&self, bound: &ColumnBound, rows: Range<usize>) -> Vec<Range<usize>> {
        let mut kept: Vec<Range<usize>> = Vec::new();
        let mut keep = |range: Range<usize>| match kept.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => kept.push(range),
        };
        let rows = rows.start..rows.end.min(self.summary.rows as usize);
        // NaN has no place among the numbers that statistics keep: nothing can be ruled out.
        let is_nan =
            |edge: Option<StatValue>| matches!(edge, Some(StatValue::Float(value)) if value.is_nan());
        if is_nan(bound.min) || is_nan(bound.max) {
            return Some(rows).filter(|rows| !rows.is_empty()).into_iter().collect();
        }
        let mut start = rows.start;
        while let Some(slice) = self.slice_of(start).filter(|_| start < rows.end) {
            let whole = &self.slices[slice].rows;
            let part = start..rows.end.min(whole.end);
            let blocks = self.kept_blocks(bound, slice, part.start - whole.start..part.end - whole.start);
            match blocks {
                Ok(blocks) => blocks.for_each(|block| {
                    let first = whole.start + block * BLOCK_ROWS;
                    keep(first.max(part.start)..(first + BLOCK_ROWS).min(part.end));
                }),
                Err(_) => keep(part.clone()),
            }
            start = part.end;
        }
        kept
    }

    /// The blocks that hold `rows` (of the slice) and may hold values within `bound`.
    fn kept_blocks(
        &self,
        bound: &ColumnBound,
        slice: usize,
        rows: Range<usize>,
    ) -> Result<impl Iterator<Item = usize>> {
        let column = self.schema.columns().get(bound.column);
        let kind = column.map_or(StatKind::Nothing, |column| StatKind::of(column.column_type));
        let blocks = rows.start / BLOCK_ROWS..rows.end.div_ceil(BLOCK_ROWS);
        let page = match kind {
            StatKind::Nothing => None,
            _ => Some(self.page(slice, bound.column)?),
        };
        let slice_rows = self.slices[slice].rows.len();
        let bound = *bound;
        // One look at the chunk's totals spares its blocks where none can hold such a value.
        let none = page.as_ref().is_some_and(|page| !page.total().may_hold(kind, &bound));
        let blocks = if none { 0..0 } else { blocks };
        Ok(blocks.filter(move |&block| {
            let stats = page.as_ref().and_then(|page| page.stats(block).ok());
            let block_rows = BLOCK_ROWS.min(slice_rows - block * BLOCK_ROWS);
            stats.is_none_or(|stats| may_hold(kind, &stats, block_rows, &bound))
        }))
    }
}

/// Whether a block may hold a value within `bound`.
fn may_hold(kind: StatKind, stats: &BlockStats, rows: usize, bound: &ColumnBound) -> bool {
    TotalStats::of_block(kind, rows, stats).may_hold(kind, bound)
}

impl TotalStats {
    /// Whether these rows may hold a value within `bound`.
    fn may_hold(&self, kind: StatKind, bound: &ColumnBound) -> bool {
        let has = |flag: u16| self.flags & flag != 0;
        if self.nulls == self.rows {
            return false;
        }
        let nan_fits = bound.max.is_none_or(is_nan) && has(HAS_NAN);
        if nan_fits || has(NO_RANGE) {
            return true;
        }
        if !has(HAS_RANGE) {
            // Neither values in order nor unknown ones: NULL and NaN only.
            return false;
        }
        let (Some(min), Some(max)) = (kind.value(self.min), kind.value(self.max)) else { return true };
        !bound.min.is_some_and(|wanted| below(max, wanted))
            && !bound.max.is_some_and(|wanted| below(wanted, min))
    }
}

fn is_nan(value: StatValue) -> bool {
    matches!(value, StatValue::Float(value) if value.is_nan())
}

/// Whether `a` is surely less than `b`; values of two kinds are not compared.
fn below(a: StatValue, b: StatValue) -> bool {
    match (a, b) {
        (StatValue::Int(a), StatValue::Int(b)) => a < b,
        (StatValue::Float(a), StatValue::Float(b)) => a < b,
        _ => false,
    }
}
