//! From a stretch of time to the rows of one series entry inside it.

use super::codec::slots::append;
use super::codec::value;
use super::page::Page;
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
        let times = self.slice_of(rows.start).and_then(|slice| self.times(slice));
        match times {
            Some(mut times) => times.seek(rows, time),
            None => Ok(rows),
        }
    }

    /// A look at the designated timestamps of a slice; `None` where the table has none, or past the last slice.
    pub fn times(&self, slice: usize) -> Option<PartTimes<'_>> {
        let column = self.schema.timestamp().filter(|_| slice < self.slices.len())?;
        Some(PartTimes::new(self, slice, column))
    }
}

/// The designated timestamps of one slice: found by the index, the last block decoded is kept.
///
/// Rows are those of the part. `rows` of one series entry are asked for, so that time ascends in them.
#[derive(Debug)]
pub struct PartTimes<'a> {
    part: &'a Part,
    slice: usize,
    column: usize,
    /// The first row of the block whose times are decoded.
    decoded_start: Option<usize>,
    times: Vec<i64>,
    rows_decoded: usize,
}

impl<'a> PartTimes<'a> {
    fn new(part: &'a Part, slice: usize, column: usize) -> Self {
        Self { part, slice, column, decoded_start: None, times: Vec::new(), rows_decoded: 0 }
    }

    /// [`Part::seek`] in this slice.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index or a block cannot be read.
    pub fn seek(&mut self, rows: Range<usize>, time: TimeRange) -> Result<Range<usize>> {
        if rows.is_empty() || time.is_empty() {
            return Ok(rows.start..rows.start);
        }
        let whole = &self.part.slices[self.slice];
        let (least, most) = whole.times.unwrap_or((i64::MIN, i64::MAX));
        let rows = rows.start..rows.end.min(whole.rows.end);
        let start = if time.from <= least { rows.start } else { self.lower_bound(&rows, time.from)? };
        let end = if time.to > most { rows.end } else { self.lower_bound(&(start..rows.end), time.to)? };
        Ok(start..end)
    }

    /// The timestamp of a row of the slice.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index or the block cannot be read.
    pub fn time(&mut self, row: usize) -> Result<i64> {
        let origin = self.part.slices[self.slice].rows.start;
        let place = row - origin;
        let block = place / BLOCK_ROWS;
        if self.decoded_start != Some(origin + block * BLOCK_ROWS) {
            let page = self.part.page(self.slice, self.column)?;
            if place.is_multiple_of(BLOCK_ROWS) {
                return Ok(page.first(block)?.cast_signed());
            }
            self.decode(&page, block)?;
        }
        Ok(self.times[place % BLOCK_ROWS])
    }

    /// The first row of `rows` at or after `time`, `rows.end` where there is none.
    ///
    /// Steps that double find an edge nearby at once, in the block that is decoded or by the blocks' statistics;
    /// at most one block is decoded.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index or the block cannot be read.
    #[inline]
    pub fn lower_bound(&mut self, rows: &Range<usize>, time: i64) -> Result<usize> {
        if rows.is_empty() {
            return Ok(rows.end);
        }
        match self.lower_bound_decoded(rows, time) {
            Some(found) => Ok(found),
            None => self.lower_bound_by_blocks(rows, time),
        }
    }

    /// [`Self::lower_bound`] where it lies in the block that is decoded.
    #[inline]
    fn lower_bound_decoded(&self, rows: &Range<usize>, time: i64) -> Option<usize> {
        let start = rows.start.checked_sub(self.decoded_start?)?;
        let end = self.times.len().min(rows.end - self.decoded_start?);
        let times = self.times.get(start..end).filter(|times| !times.is_empty())?;
        let is_here = end + self.decoded_start? == rows.end || times[times.len() - 1] >= time;
        is_here.then(|| rows.start + gallop(times, time))
    }

    fn lower_bound_by_blocks(&mut self, rows: &Range<usize>, time: i64) -> Result<usize> {
        let origin = self.part.slices[self.slice].rows.start;
        let page = self.part.page(self.slice, self.column)?;
        let (first, last) = ((rows.start - origin) / BLOCK_ROWS, (rows.end - 1 - origin) / BLOCK_ROWS);
        // The first timestamps of all blocks but the first belong to `rows`.
        let (mut low, mut high) = (first + 1, last + 1);
        let mut step = 1;
        while low + step < high && page.first(low + step - 1)?.cast_signed() < time {
            low += step;
            step *= 2;
        }
        high = high.min(low + step);
        while low < high {
            let middle = low + (high - low) / 2;
            if page.first(middle)?.cast_signed() < time { low = middle + 1 } else { high = middle }
        }
        // Every block from `low` on begins at or after `time`: the edge is in the block before it.
        let block = low - 1;
        let block_start = origin + block * BLOCK_ROWS;
        let inside = rows.start.max(block_start)..rows.end.min(block_start + BLOCK_ROWS);
        if block < last && page.stats(block)?.last.cast_signed() < time {
            return Ok(inside.end);
        }
        if self.decoded_start != Some(block_start) {
            self.decode(&page, block)?;
        }
        let times = &self.times[inside.start - block_start..inside.end - block_start];
        Ok(inside.start + times.partition_point(|&ts| ts < time))
    }

    fn decode(&mut self, page: &Page<'_>, block: usize) -> Result<()> {
        let found = page.block(block)?;
        self.decoded_start = None;
        self.times.clear();
        append(&mut self.times, found.rows, |slots| value::decode(found.bytes, found.tables, slots))
            .map_err(|damage| self.part.damaged(found.offset, damage.0))?;
        self.decoded_start = Some(self.part.slices[self.slice].rows.start + block * BLOCK_ROWS);
        self.rows_decoded += found.rows;
        Ok(())
    }

    /// Rows of all blocks decoded so far.
    pub fn rows_decoded(&self) -> usize {
        self.rows_decoded
    }
}

/// The first place of ascending times not before `time`, which most often is near.
#[inline]
fn gallop(times: &[i64], time: i64) -> usize {
    let (mut start, mut step) = (0, 8);
    while start + step < times.len() && times[start + step - 1] < time {
        start += step;
        step *= 2;
    }
    let end = times.len().min(start + step);
    start + times[start..end].partition_point(|ts| *ts < time)
}
