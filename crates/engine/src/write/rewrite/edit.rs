//! Changes of one part, and its rows as they are with them.

use crate::Result;
use crate::part::RowSource;
use crate::store::snapshot::Segment;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::take::take;
use std::collections::BTreeMap;
use std::ops::Range;
use tickstone_model::values_bytes;

/// Values whose buffers are more than so many times as long are copied into others.
const ROOM_MAX: usize = 2;

/// What happens to the rows of a part.
#[derive(Debug)]
pub(super) struct PartEdits {
    rows: usize,
    /// One bit a row; none while nothing is deleted.
    deleted: Option<BooleanBufferBuilder>,
    updates: BTreeMap<usize, Vec<Update>>,
    update_bytes: usize,
}

/// Values for some rows of a column.
#[derive(Debug)]
struct Update {
    /// Rows of the part, ascending.
    rows: Box<[u32]>,
    values: ArrayRef,
}

impl PartEdits {
    /// None yet, of a part of so many rows.
    pub(super) fn new(rows: usize) -> Self {
        Self { rows, deleted: None, updates: BTreeMap::new(), update_bytes: 0 }
    }

    /// Rows of the part.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether nothing happens to any row.
    pub(super) fn is_empty(&self) -> bool {
        self.deleted.is_none() && self.updates.is_empty()
    }

    /// Deletes rows, all of the part.
    pub(super) fn delete(&mut self, rows: &[usize]) {
        if rows.is_empty() {
            return;
        }
        let all = self.rows;
        let deleted = self.deleted.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(all);
            bits.append_n(all, false);
            bits
        });
        rows.iter().for_each(|row| deleted.set_bit(*row, true));
    }

    /// Gives rows, all of the part, other values in stored type.
    ///
    /// # Errors
    /// Where Arrow refuses the values.
    pub(super) fn update(&mut self, rows: &[usize], column: usize, values: ArrayRef) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let number = |row: &usize| u32::try_from(*row).expect("a part has fewer than 2^32 rows");
        let rows: Box<[u32]> = rows.iter().map(number).collect();
        let values = without_room(values)?;
        self.update_bytes += values.get_array_memory_size() + size_of_val(&*rows) + size_of::<Update>();
        self.updates.entry(column).or_default().push(Update { rows, values });
        Ok(())
    }

    /// Bytes of memory they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.update_bytes + self.deleted.as_ref().map_or(0, |_| self.rows.div_ceil(8))
    }

    /// Whether a row is deleted.
    pub(super) fn is_deleted(&self, row: usize) -> bool {
        self.deleted.as_ref().is_some_and(|deleted| deleted.get_bit(row))
    }

    /// Whether any row is deleted.
    pub(super) fn deletes_any(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether no row of the part stays.
    pub(super) fn deletes_all(&self) -> bool {
        (0..self.rows).all(|row| self.is_deleted(row))
    }
}

/// Values that do not keep much more in memory than themselves: those of a few rows may be a slice of a batch of
/// thousands, or have room for as many.
fn without_room(values: ArrayRef) -> Result<ArrayRef> {
    if values.get_buffer_memory_size() <= ROOM_MAX * values_bytes(&values) {
        return Ok(values);
    }
    let all = UInt64Array::from_iter_values(0..values.len() as u64);
    Ok(take(&values, &all, None)?)
}

/// The rows of a slice that stay, with their new values.
pub(super) struct EditedSlice<'a> {
    segment: &'a Segment,
    edits: &'a PartEdits,
    /// Rows of the part that stay: ascending, apart.
    kept: Vec<Range<usize>>,
    rows: usize,
}

impl<'a> EditedSlice<'a> {
    /// What `edits` leave of a segment that is a whole slice.
    pub(super) fn new(segment: &'a Segment, edits: &'a PartEdits) -> Self {
        let mut kept: Vec<Range<usize>> = Vec::new();
        for row in segment.rows().iter().cloned().flatten().filter(|row| !edits.is_deleted(*row)) {
            match kept.last_mut() {
                Some(last) if last.end == row => last.end += 1,
                _ => kept.push(row..row + 1),
            }
        }
        let rows = kept.iter().map(ExactSizeIterator::len).sum();
        Self { segment, edits, kept, rows }
    }

    /// How many rows stay.
    pub(super) fn row_count(&self) -> usize {
        self.rows
    }

    /// For each row that stays the array its value is in (0 is what it was) and the place there.
    fn places(&self, updates: &[Update]) -> Option<Vec<(usize, usize)>> {
        let (first, end) = (self.kept.first()?.start, self.kept.last()?.end);
        let mut places: Vec<(usize, usize)> = (0..self.rows).map(|place| (0, place)).collect();
        let mut any = false;
        for (array, update) in updates.iter().enumerate() {
            let from = update.rows.partition_point(|row| (*row as usize) < first);
            let to = update.rows.partition_point(|row| (*row as usize) < end);
            // Where the range at hand begins among the rows that stay.
            let (mut kept, mut before) = (self.kept.iter().peekable(), 0);
            for (at, row) in update.rows[from..to].iter().enumerate() {
                let row = *row as usize;
                while let Some(range) = kept.next_if(|range| range.end <= row) {
                    before += range.len();
                }
                let Some(range) = kept.peek().filter(|range| range.start <= row) else { continue };
                places[before + row - range.start] = (array + 1, from + at);
                any = true;
            }
        }
        any.then_some(places)
    }
}

impl RowSource for EditedSlice<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, column: usize) -> Result<Vec<ArrayRef>> {
        let old = self.segment.read_ranges(column, &self.kept)?;
        let Some(updates) = self.edits.updates.get(&column) else { return Ok(vec![old]) };
        let Some(places) = self.places(updates) else { return Ok(vec![old]) };
        let new = updates.iter().map(|update| update.values.as_ref());
        let arrays: Vec<&dyn Array> = [old.as_ref()].into_iter().chain(new).collect();
        Ok(vec![arrow_select::interleave::interleave(&arrays, &places)?])
    }
}
