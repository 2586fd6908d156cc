//! From a stretch of time to the rows of one series entry inside it.

use super::codec::plain::{Plain, PlainBlock};
use super::codec::slots::append;
use super::codec::value;
use super::page::Page;
use super::{BLOCK_ROWS, Part};
use crate::Result;
use crate::search::gallop;
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

/// Single timestamps of a packed block that cost about as much as decoding it does.
const MOST_LOOKS: usize = 96;
/// Looks that finding an edge takes, about.
const LOOKS_AN_EDGE: usize = 8;

/// The designated timestamps of one slice: found by the index, the block looked at last is kept. Few are read of a
/// block as it is packed, where that is possible; past [`MOST_LOOKS`] it is decoded.
///
/// Rows are those of the part. `rows` of one series entry are asked for, so that time ascends in them.
#[derive(Debug)]
pub struct PartTimes<'a> {
    part: &'a Part,
    slice: usize,
    column: usize,
    /// The index of the slice's timestamps, once it is needed.
    page: Option<Page<'a>>,
    block: Looked<'a>,
}

/// The block looked at last, if any.
#[derive(Debug, Default)]
struct Looked<'a> {
    held: Option<Held<'a>>,
    /// The times of the block held, where it is decoded.
    times: Vec<i64>,
    rows_decoded: usize,
}

#[derive(Debug)]
struct Held<'a> {
    /// Its number in the slice, and its first row in the part.
    number: usize,
    start: usize,
    rows: usize,
    /// As it is packed; `None` where it is decoded.
    packed: Option<Plain<'a, u64>>,
    looks: usize,
}

impl<'a> PartTimes<'a> {
    fn new(part: &'a Part, slice: usize, column: usize) -> Self {
        Self { part, slice, column, page: None, block: Looked::default() }
    }

    /// The index of the timestamps, and the block looked at last.
    fn parts(&mut self) -> Result<(&Page<'a>, &mut Looked<'a>)> {
        let page = match &mut self.page {
            Some(page) => page,
            none => none.insert(self.part.page(self.slice, self.column)?),
        };
        Ok((page, &mut self.block))
    }

    /// The first row of the slice in the part.
    fn origin(&self) -> usize {
        self.part.slices[self.slice].rows.start
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
        let origin = self.origin();
        let place = row - origin;
        let number = place / BLOCK_ROWS;
        if !self.block.holds(number) {
            let (page, block) = self.parts()?;
            if place.is_multiple_of(BLOCK_ROWS) {
                return Ok(page.first(number)?.cast_signed());
            }
            block.hold(page, number, origin)?;
        }
        self.look(1)?;
        Ok(self.block.at(place % BLOCK_ROWS))
    }

    /// The first row of `rows` at or after `time`, `rows.end` where there is none.
    ///
    /// Steps that double find an edge nearby at once, in the block that is held or by the blocks' statistics;
    /// at most one block is decoded.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the index or the block cannot be read.
    #[inline]
    pub fn lower_bound(&mut self, rows: &Range<usize>, time: i64) -> Result<usize> {
        if rows.is_empty() {
            return Ok(rows.end);
        }
        match self.block.lower_bound(rows, time) {
            Some(found) => {
                self.look(LOOKS_AN_EDGE)?;
                Ok(found)
            }
            None => self.lower_bound_by_blocks(rows, time),
        }
    }

    /// Notes looks at the block that is held; decodes it once there were many.
    #[inline]
    fn look(&mut self, looks: usize) -> Result<()> {
        let Some(held) = &mut self.block.held else { return Ok(()) };
        held.looks += looks;
        if held.looks <= MOST_LOOKS || held.packed.is_none() {
            return Ok(());
        }
        let (number, origin) = (held.number, self.origin());
        let (page, block) = self.parts()?;
        block.decode(page, number, origin)
    }

    fn lower_bound_by_blocks(&mut self, rows: &Range<usize>, time: i64) -> Result<usize> {
        let origin = self.origin();
        let (page, held) = self.parts()?;
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
        if block < last && page.last(block)?.cast_signed() < time {
            return Ok(inside.end);
        }
        if !held.holds(block) {
            held.hold(page, block, origin)?;
        }
        self.look(LOOKS_AN_EDGE)?;
        let places = inside.start - block_start..inside.end - block_start;
        Ok(block_start + self.block.edge(places, time))
    }

    /// Rows of all blocks decoded so far.
    pub fn rows_decoded(&self) -> usize {
        self.block.rows_decoded
    }
}

impl<'a> Looked<'a> {
    fn holds(&self, number: usize) -> bool {
        self.held.as_ref().is_some_and(|held| held.number == number)
    }

    /// [`PartTimes::lower_bound`] where it lies in the block that is held.
    #[inline]
    fn lower_bound(&self, rows: &Range<usize>, time: i64) -> Option<usize> {
        let held = self.held.as_ref()?;
        let start = rows.start.checked_sub(held.start)?;
        let end = held.rows.min(rows.end - held.start);
        if start >= end {
            return None;
        }
        let is_here = held.start + end == rows.end || self.at(end - 1) >= time;
        is_here.then(|| held.start + self.edge(start..end, time))
    }

    /// The first of some places of the block at or after `time`, the end where there is none.
    #[inline]
    fn edge(&self, places: Range<usize>, time: i64) -> usize {
        match &self.held {
            Some(Held { packed: Some(words), .. }) => words.lower_bound(places, time),
            _ => places.start + edge_of(&self.times[places], time),
        }
    }

    /// The time of a row of the block.
    #[inline]
    fn at(&self, place: usize) -> i64 {
        match &self.held {
            Some(Held { packed: Some(words), .. }) => words.get(place),
            _ => self.times[place],
        }
    }

    /// Holds a block of the slice that begins at row `origin`: as it is packed, where single words of it can be read,
    /// else decoded.
    fn hold(&mut self, page: &Page<'a>, number: usize, origin: usize) -> Result<()> {
        let found = page.block(number)?;
        page.prefetch_after(&found);
        let packed = page.part().plain::<i64>(&found)?.and_then(PlainBlock::wide);
        if packed.is_none() {
            return self.decode(page, number, origin);
        }
        let start = origin + number * BLOCK_ROWS;
        self.held = Some(Held { number, start, rows: found.rows, packed, looks: 0 });
        Ok(())
    }

    fn decode(&mut self, page: &Page<'a>, number: usize, origin: usize) -> Result<()> {
        let found = page.block(number)?;
        self.held = None;
        self.times.clear();
        append(&mut self.times, found.rows, |slots| value::decode(found.bytes, found.tables, slots))
            .map_err(|damage| page.part().damaged(found.offset, damage.0))?;
        let start = origin + number * BLOCK_ROWS;
        self.held = Some(Held { number, start, rows: found.rows, packed: None, looks: 0 });
        self.rows_decoded += found.rows;
        Ok(())
    }
}

/// How many of some ascending times, most often few, are before `time`. The nearest are counted, not searched: their
/// comparisons do not wait for each other, and no branch depends on one alone.
#[inline]
fn edge_of(times: &[i64], time: i64) -> usize {
    const NEAR: usize = 16;
    let (near, far) = times.split_at(times.len().min(NEAR));
    let before = near.iter().map(|at| usize::from(*at < time)).sum::<usize>();
    if before < near.len() || far.is_empty() {
        return before;
    }
    NEAR + gallop(0..far.len(), NEAR / 2, |place| far[place] < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_near_and_far() {
        let times: Vec<i64> = (0..200).map(|at| at / 3).collect();
        for start in 0..times.len() {
            for end in (start..times.len()).step_by(7).chain([times.len()]) {
                for time in -1..70 {
                    let expected = times[start..end].partition_point(|at| *at < time);
                    assert_eq!(edge_of(&times[start..end], time), expected);
                }
            }
        }
    }
}
