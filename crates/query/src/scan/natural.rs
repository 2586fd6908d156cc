//! Rows segment by segment, as they lie.

use super::columns::{Columns, Left, Piece};
use super::condition::Test;
use super::selected::Selected;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use std::ops::Range;
use std::sync::Arc;

/// Values of a column that a part decodes together; batches end on such a boundary where they can.
pub(crate) const BLOCK_ROWS: usize = 1_024;

/// Yields the rows `share` (counted over all segments as they lie) batch by batch.
#[derive(Debug)]
pub(super) struct NaturalCursor {
    selected: Arc<Selected>,
    columns: Arc<Columns>,
    batch_rows: usize,
    place: Place,
    remaining: usize,
    /// What rows must fulfil, and how many of them are still wanted.
    test: Option<Arc<Test>>,
    wanted: usize,
}

/// Batches of rows that are looked at before those that are left are yielded, however few they are.
const LOOKED_AT: usize = 64;

/// The next row: of which segment, which of its ranges, how far into it.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    segment: usize,
    range: usize,
    offset: usize,
}

impl NaturalCursor {
    pub(super) fn new(
        selected: Arc<Selected>,
        columns: Arc<Columns>,
        share: Range<usize>,
        batch_rows: usize,
    ) -> Self {
        let place = place_of(&selected, share.start);
        let (remaining, test, wanted) = (share.len(), None, usize::MAX);
        Self { selected, columns, batch_rows, place, remaining, test, wanted }
    }

    /// The same, of only so many rows that fulfil a condition.
    pub(super) fn tested(self, test: Option<Arc<Test>>, wanted: usize) -> Self {
        Self { test, wanted, ..self }
    }

    /// The next batch, `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(test) = self.test.clone() {
            return self.next_tested(&test);
        }
        let pieces = self.next_pieces();
        if pieces.is_empty() {
            return Ok(None);
        }
        let stored = self.columns.read(&self.selected.segments, &pieces)?;
        let rows = pieces.iter().map(|piece| piece.rows.len()).sum();
        self.columns.batch(stored, rows).map(Some)
    }

    /// The next rows that fulfil a condition.
    fn next_tested(&mut self, test: &Test) -> Result<Option<RecordBatch>> {
        let (mut left, mut rows): (Vec<Left>, usize) = (Vec::new(), 0);
        let mut over = self.wanted == 0;
        for _ in 0..LOOKED_AT {
            if over || rows >= (self.batch_rows / 2).max(1) {
                break;
            }
            // Rows that fulfil nothing are not read further, where it would be looked too.
            crate::wanted::look()?;
            let pieces = self.next_pieces();
            over = pieces.is_empty();
            for of in pieces.chunk_by(|a, b| a.segment == b.segment && a.rows.end <= b.rows.start) {
                let segment = of[0].segment;
                let ranges: Vec<Range<usize>> = of.iter().map(|piece| piece.rows.clone()).collect();
                let bits = test.rows(&self.selected.segments[segment], &ranges)?;
                let of = Left::new(segment, ranges, bits);
                rows += of.rows();
                if of.rows() > 0 {
                    left.push(of);
                }
            }
        }
        if rows == 0 {
            // There may be more: an empty batch lets others have their turn.
            let empty = || Ok(RecordBatch::new_empty(Arc::clone(self.columns.schema())));
            return if over { Ok(None) } else { empty().map(Some) };
        }
        let stored = self.columns.read_left(&self.selected.segments, &left)?;
        let batch = self.columns.batch(stored, rows)?;
        let now = rows.min(self.wanted);
        self.wanted -= now;
        Ok(Some(if now < rows { batch.slice(0, now) } else { batch }))
    }

    /// The stretches of a batch.
    fn next_pieces(&mut self) -> Vec<Piece> {
        let (mut pieces, mut rows) = (Vec::new(), 0);
        while rows < self.batch_rows.min(rows + self.remaining) {
            let Some(piece) = self.next_piece(self.batch_rows - rows) else { break };
            rows += piece.rows.len();
            // A long stretch goes out alone: joined with another it would have to be copied.
            let alone = pieces.is_empty() && rows >= self.batch_rows / 2;
            pieces.push(piece);
            if alone {
                break;
            }
        }
        pieces
    }

    /// The next stretch of adjacent rows, at most `most` of them.
    fn next_piece(&mut self, most: usize) -> Option<Piece> {
        let most = most.min(self.remaining);
        if most == 0 {
            return None;
        }
        loop {
            let segment = self.selected.segments.get(self.place.segment)?;
            let Some(range) = segment.rows().get(self.place.range) else {
                self.place = Place { segment: self.place.segment + 1, ..Place::default() };
                continue;
            };
            let start = range.start + self.place.offset;
            if start >= range.end {
                self.place = Place { range: self.place.range + 1, offset: 0, ..self.place };
                continue;
            }
            let end = adjacent_end(&segment.rows()[self.place.range..], start, most);
            let piece = Piece { segment: self.place.segment, rows: start..end };
            self.advance_to(end);
            self.remaining -= piece.rows.len();
            return Some(piece);
        }
    }

    /// Moves on within the segment to the row `end` (or past the range that ends there).
    fn advance_to(&mut self, end: usize) {
        let ranges = self.selected.segments[self.place.segment].rows();
        while let Some(range) = ranges.get(self.place.range) {
            if range.end > end {
                self.place.offset = end.saturating_sub(range.start);
                return;
            }
            self.place = Place { range: self.place.range + 1, offset: 0, ..self.place };
            if range.end == end {
                return;
            }
        }
    }
}

/// Where the rows adjacent to `start` end: over the ranges that join, at most `most` of them, on a
/// block's boundary where more would follow.
fn adjacent_end(ranges: &[Range<usize>], start: usize, most: usize) -> usize {
    let mut end = ranges.first().map_or(start, |range| range.end);
    for range in ranges.iter().skip(1) {
        if range.start != end || end - start >= most {
            break;
        }
        end = range.end;
    }
    if end - start <= most {
        return end;
    }
    let aligned = (start + most) / BLOCK_ROWS * BLOCK_ROWS;
    if aligned > start { aligned } else { start + most }
}

/// The place of a row, counted over all segments.
fn place_of(selected: &Selected, row: usize) -> Place {
    let mut before = row;
    for (segment, of) in selected.segments.iter().enumerate() {
        if before >= of.row_count() {
            before -= of.row_count();
            continue;
        }
        for (range, rows) in of.rows().iter().enumerate() {
            if before < rows.len() {
                return Place { segment, range, offset: before };
            }
            before -= rows.len();
        }
    }
    Place { segment: selected.segments.len(), ..Place::default() }
}

#[cfg(test)]
mod tests;
