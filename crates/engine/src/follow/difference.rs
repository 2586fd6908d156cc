//! What a rewrite did to rows, told from the parts before and after it.
//!
//! A rewrite keeps the order of the rows that stay, and neither DELETE nor UPDATE changes a row's time or series:
//! the keys after are those before without some, and as long as no two rows have one, that tells which. Where a rewrite
//! deletes and updates rows of one key at once, which of them it updated is not told; what is left is.

use crate::Result;
use crate::store::feed::HeardRewrite;
use crate::store::snapshot::{Segment, Selection, TableSnapshot};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::DataType;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{NULL_SYMBOL, RowBatch, TableSchema};

/// Rows that are looked at in one step.
const STEP_ROWS: usize = 1 << 16;

/// Rows that a rewrite changed, in stored types.
#[derive(Debug)]
pub struct Difference {
    /// Those that are gone, as they were.
    pub deleted: RowBatch,
    /// Those that have other values.
    pub updated: UpdatedRows,
}

/// Rows before and after, row by row.
#[derive(Debug)]
pub struct UpdatedRows {
    /// As they were.
    pub before: RowBatch,
    /// As they are.
    pub after: RowBatch,
}

/// What a rewrite changed in one of its parts, by its place among [`HeardRewrite::parts`], in bounded steps.
///
/// # Errors
/// Where a part cannot be read.
pub fn difference(
    rewrite: &HeardRewrite,
    place: usize,
    mut each: impl FnMut(Difference) -> Result<()>,
) -> Result<()> {
    match rewrite.parts().nth(place) {
        Some((gone, came)) => of_part(gone, came.map(AsRef::as_ref), &mut each),
        None => Ok(()),
    }
}

/// The rows of one part in the order of its file, as a table sees them.
struct Rows<'a> {
    schema: &'a Arc<TableSchema>,
    segments: Vec<Segment>,
    /// Of each segment the number of its first row among all.
    starts: Vec<usize>,
    rows: usize,
    keys: Vec<ArrayRef>,
}

impl<'a> Rows<'a> {
    fn of(table: &'a TableSnapshot) -> Result<Self> {
        let segments = table.select(&Selection::default())?;
        let mut starts = Vec::with_capacity(segments.len());
        let mut rows = 0;
        for segment in &segments {
            starts.push(rows);
            rows += segment.row_count();
        }
        let schema = table.schema();
        let mut read = Self { schema, segments, starts, rows, keys: Vec::new() };
        let keys = schema.timestamp().into_iter().chain(schema.series().iter().copied());
        read.keys = keys.map(|column| read.column(column, 0..rows)).collect::<Result<_>>()?;
        Ok(read)
    }

    /// Values of a column, of rows by number among all.
    fn column(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let mut pieces = Vec::new();
        for (segment, start) in self.segments.iter().zip(&self.starts) {
            let mut first = *start;
            for range in segment.rows() {
                let (from, to) = (rows.start.max(first), rows.end.min(first + range.len()));
                if from < to {
                    let at = range.start + from - first;
                    pieces.push(segment.read(column, at..at + to - from)?);
                }
                first += range.len();
            }
        }
        let arrays: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        match arrays.len() {
            0 => {
                let column_type = self.schema.columns()[column].column_type;
                Ok(arrow_array::new_empty_array(&column_type.stored_type()))
            }
            1 => Ok(Arc::clone(&pieces[0])),
            _ => Ok(arrow_select::concat::concat(&arrays)?),
        }
    }

    /// Whether rows have the same time and series.
    fn same_key(&self, row: usize, other: &Self, other_row: usize) -> bool {
        self.keys.iter().zip(&other.keys).all(|(a, b)| key_value(a, row) == key_value(b, other_row))
    }

    /// All columns of rows that ascend.
    fn take(&self, rows: &[usize]) -> Result<RowBatch> {
        let mut columns = Vec::with_capacity(self.schema.columns().len());
        let span = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => *first..*last + 1,
            _ => 0..0,
        };
        let places = UInt64Array::from_iter_values(rows.iter().map(|row| (row - span.start) as u64));
        for column in 0..self.schema.columns().len() {
            columns.push(arrow_select::take::take(&self.column(column, span.clone())?, &places, None)?);
        }
        Ok(RowBatch::new(Arc::clone(self.schema), columns)?)
    }
}

/// A time or the id of a symbol.
fn key_value(array: &ArrayRef, row: usize) -> i64 {
    match array.data_type() {
        DataType::UInt32 if array.is_null(row) => i64::from(NULL_SYMBOL),
        DataType::UInt32 => i64::from(array.as_primitive::<UInt32Type>().value(row)),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        _ => array.as_primitive::<TimestampNanosecondType>().value(row),
    }
}

fn of_part(
    gone: &TableSnapshot,
    came: Option<&TableSnapshot>,
    each: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<()> {
    let before = Rows::of(gone)?;
    let nothing = gone.without_rows();
    let after = Rows::of(came.unwrap_or(&nothing))?;
    // Of a stretch of rows before, those that stay and their numbers after.
    let (mut at, mut other) = (0, 0);
    while at < before.rows {
        let end = (at + STEP_ROWS).min(before.rows);
        let mut end_of_key = end;
        // Rows of one key are looked at together.
        while end_of_key < before.rows && before.same_key(end_of_key, &before, end_of_key - 1) {
            end_of_key += 1;
        }
        let step = Step { before: &before, after: &after };
        other = step.look(at..end_of_key, other, each)?;
        at = end_of_key;
    }
    Ok(())
}

/// Rows that are gone, pairs of rows before and after whose values differ, and where they end after.
type Looked = (Vec<usize>, Vec<(usize, usize)>, usize);

struct Step<'a> {
    before: &'a Rows<'a>,
    after: &'a Rows<'a>,
}

impl Step<'_> {
    /// Looks at rows before, of which those that stay begin at `other` after; gives where they end.
    fn look(
        &self,
        rows: Range<usize>,
        mut other: usize,
        each: &mut dyn FnMut(Difference) -> Result<()>,
    ) -> Result<usize> {
        let (before, after) = (self.before, self.after);
        let (mut deleted, mut pairs) = (Vec::new(), Vec::with_capacity(rows.len()));
        let mut at = rows.start;
        while at < rows.end {
            let same_before =
                (at + 1..rows.end).take_while(|row| before.same_key(*row, before, at)).count() + 1;
            let stays = |row: usize| row < after.rows && before.same_key(at, after, row);
            let same_after = (other..other + same_before).take_while(|row| stays(*row)).count();
            if same_after == same_before {
                pairs.extend((0..same_before).map(|place| (at + place, other + place)));
            } else {
                let mut place = other;
                for row in at..at + same_before {
                    let left = other + same_after - place;
                    // The last ones stay where nothing tells them apart.
                    let must = left == at + same_before - row;
                    if left > 0 && (must || self.equal(row, place)?) {
                        pairs.push((row, place));
                        place += 1;
                    } else {
                        deleted.push(row);
                    }
                }
            }
            (at, other) = (at + same_before, other + same_after);
        }
        let mut changed = self.changed(&pairs)?;
        if before.rows != after.rows && !changed.is_empty() {
            // Rows of one key that stand apart, as at the border of two slices: the rows themselves tell them apart.
            (deleted, changed, other) =
                self.look_closely(&rows, pairs.first().map_or(other, |pair| pair.1))?;
        }
        if deleted.is_empty() && changed.is_empty() {
            return Ok(other);
        }
        let (old, new): (Vec<usize>, Vec<usize>) = changed.into_iter().unzip();
        let updated = UpdatedRows { before: before.take(&old)?, after: after.take(&new)? };
        each(Difference { deleted: before.take(&deleted)?, updated })?;
        Ok(other)
    }

    /// As [`Self::look`], row by row: those that are gone, those whose values differ, and where they end after.
    fn look_closely(&self, rows: &Range<usize>, from: usize) -> Result<Looked> {
        let (before, after) = (self.before, self.after);
        let (mut deleted, mut changed, mut other) = (Vec::new(), Vec::new(), from);
        for row in rows.clone() {
            let same_key = other < after.rows && before.same_key(row, after, other);
            if !same_key {
                deleted.push(row);
            } else if self.equal(row, other)? {
                other += 1;
            } else {
                let later = (row + 1..before.rows).filter(|later| before.same_key(*later, after, other));
                let mut stays_later = false;
                for later in later {
                    if self.equal(later, other)? {
                        stays_later = true;
                        break;
                    }
                }
                if stays_later {
                    deleted.push(row);
                } else {
                    changed.push((row, other));
                    other += 1;
                }
            }
        }
        Ok((deleted, changed, other))
    }

    fn equal(&self, row: usize, other: usize) -> Result<bool> {
        for column in 0..self.before.schema.columns().len() {
            let (a, b) =
                (self.before.column(column, row..row + 1)?, self.after.column(column, other..other + 1)?);
            if a != b {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The pairs whose values differ.
    fn changed(&self, pairs: &[(usize, usize)]) -> Result<Vec<(usize, usize)>> {
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return Ok(Vec::new()) };
        let (before, after) = (first.0..last.0 + 1, first.1..last.1 + 1);
        let mut differs = vec![false; pairs.len()];
        for column in 0..self.before.schema.columns().len() {
            let take = |rows: &Rows<'_>, span: Range<usize>, places: UInt64Array| -> Result<ArrayRef> {
                let whole = rows.column(column, span)?;
                if whole.len() == places.len() {
                    Ok(whole)
                } else {
                    Ok(arrow_select::take::take(&whole, &places, None)?)
                }
            };
            let old = pairs.iter().map(|(row, _)| (row - before.start) as u64);
            let new = pairs.iter().map(|(_, row)| (row - after.start) as u64);
            let old = take(self.before, before.clone(), UInt64Array::from_iter_values(old))?;
            let new = take(self.after, after.clone(), UInt64Array::from_iter_values(new))?;
            mark_different(&old, &new, 0..pairs.len(), &mut differs);
        }
        Ok(pairs.iter().zip(differs).filter_map(|(pair, differs)| differs.then_some(*pair)).collect())
    }
}

/// Marks the rows whose values differ, halving the stretches that do.
fn mark_different(old: &ArrayRef, new: &ArrayRef, rows: Range<usize>, differs: &mut [bool]) {
    if rows.is_empty() || old.slice(rows.start, rows.len()) == new.slice(rows.start, rows.len()) {
        return;
    }
    if rows.len() == 1 {
        differs[rows.start] = true;
        return;
    }
    let middle = rows.start + rows.len() / 2;
    mark_different(old, new, rows.start..middle, differs);
    mark_different(old, new, middle..rows.end, differs);
}
