//! From a stretch of time to the rows of one series entry inside it.

use super::codec::value;
use super::{BLOCK_ROWS, Part};
use crate::Result;
use std::ops::Range;
use tickstone_model::TimeRange;

impl Part {
    /// The rows of `rows` whose designated timestamp lies in `time`.
    ///
    /// `rows` are (some of) the rows of one series entry, so that time ascends in them. Reads the first
    /// timestamps of blocks from the index and decodes at most the two blocks where the edges lie.
    /// Without a designated timestamp all rows stay.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index or a block cannot be read.
    pub fn seek(&self, rows: Range<usize>, time: TimeRange) -> Result<Range<usize>> {
        let (Some(column), Some(slice)) = (self.schema.timestamp(), self.slice_of(rows.start)) else {
            return Ok(rows);
        };
        if rows.is_empty() || time.is_empty() {
            return Ok(rows.start..rows.start);
        }
        let whole = &self.slices[slice];
        let (least, most) = whole.times.unwrap_or((i64::MIN, i64::MAX));
        let rows = rows.start..rows.end.min(whole.rows.end);
        let mut edges = Edges { part: self, slice, column, decoded: None, times: [0; BLOCK_ROWS] };
        let start = if time.from <= least { rows.start } else { edges.lower_bound(&rows, time.from)? };
        let end = if time.to > most { rows.end } else { edges.lower_bound(&(start..rows.end), time.to)? };
        Ok(start..end)
    }
}

/// Finds edges in one slice; keeps the last block it decoded.
struct Edges<'a> {
    part: &'a Part,
    slice: usize,
    column: usize,
    decoded: Option<usize>,
    times: [i64; BLOCK_ROWS],
}

impl Edges<'_> {
    /// The first row of `rows` at or after `time`, `rows.end` where there is none.
    fn lower_bound(&mut self, rows: &Range<usize>, time: i64) -> Result<usize> {
        if rows.is_empty() {
            return Ok(rows.end);
        }
        let origin = self.part.slices[self.slice].rows.start;
        let page = self.part.page(self.slice, self.column)?;
        let (first, last) = ((rows.start - origin) / BLOCK_ROWS, (rows.end - 1 - origin) / BLOCK_ROWS);
        // The first timestamps of all blocks but the first belong to `rows`.
        let (mut low, mut high) = (first + 1, last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if page.stats(middle)?.first.cast_signed() < time { low = middle + 1 } else { high = middle }
        }
        // Every block from `low` on begins at or after `time`: the edge is in the block before it.
        let block = low - 1;
        let block_start = origin + block * BLOCK_ROWS;
        let inside = rows.start.max(block_start)..rows.end.min(block_start + BLOCK_ROWS);
        if block < last && page.stats(block)?.last.cast_signed() < time {
            return Ok(inside.end);
        }
        if self.decoded != Some(block) {
            let found = page.block(block)?;
            let times = &mut self.times[..found.rows];
            value::decode(found.bytes, times).map_err(|damage| self.part.damaged(found.offset, damage.0))?;
            self.decoded = Some(block);
        }
        let times = &self.times[inside.start - block_start..inside.end - block_start];
        Ok(inside.start + times.partition_point(|&ts| ts < time))
    }
}
