//! The order of a part's rows: slices of time, inside them by series key, then time, ties as they came.
//!
//! Time order costs a check where the rows have it, and a stable, adaptive sort where they have not;
//! the series key is a counting sort of small integers, so rows in order of time meet no comparison.

use super::Slice;
use super::layout::MAX_ROWS;
use crate::{EngineError, Result};
use arrow_array::Array;
use std::io;
use std::path::Path;
use tickstone_model::{NULL_SYMBOL, RowBatch, SymbolId, TableSchema};

/// Ids up to this are counted even in short slices.
const MIN_COUNTED_IDS: usize = 1 << 16;

/// Where every row goes.
#[derive(Debug)]
pub(super) struct Order {
    /// Arrival number of each row of the part, `None` where rows stay as they came.
    pub(super) permutation: Option<Vec<u32>>,
    pub(super) slices: Vec<SortedSlice>,
}

/// One slice and its series index.
#[derive(Debug)]
pub(super) struct SortedSlice {
    pub(super) slice: Slice,
    /// For each series entry its ids (one a series column) and the row of the slice where it starts.
    pub(super) series: Vec<u32>,
}

/// Orders `batches`, which arrived one after the other, in slices of at most `slice_rows` rows.
///
/// # Errors
/// [`EngineError::Io`] for more rows than a part can hold.
pub(super) fn order(
    schema: &TableSchema,
    path: &Path,
    batches: &[RowBatch],
    slice_rows: usize,
) -> Result<Order> {
    let rows = batches.iter().map(RowBatch::rows).sum::<usize>();
    if rows > MAX_ROWS {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "more rows than a part can hold");
        return Err(EngineError::Io { action: "write", path: path.into(), source });
    }
    let mut permutation: Vec<u32> = (0..rows).map(|row| row as u32).collect();
    let times = schema.timestamp().map(|_| arrival_times(batches));
    if let Some(times) = times.as_ref().filter(|times| !times.is_sorted()) {
        permutation.sort_by_key(|&row| times[row as usize]);
    }
    let ids: Vec<Vec<SymbolId>> =
        schema.series().iter().map(|&column| arrival_ids(batches, column)).collect();
    let mut slices = Vec::new();
    let mut scratch = Vec::new();
    let mut start = 0;
    while start < rows {
        let end = slice_end(&permutation, times.as_deref(), start, slice_rows.max(1));
        let members = &mut permutation[start..end];
        let bounds = times
            .as_ref()
            .map(|times| (times[members[0] as usize], times[members[members.len() - 1] as usize]));
        for ids in ids.iter().rev() {
            sort_by_id(members, ids, &mut scratch);
        }
        let series = series_entries(members, &ids);
        slices.push(SortedSlice { slice: Slice { rows: start..end, times: bounds }, series });
        start = end;
    }
    let unmoved = permutation.iter().enumerate().all(|(place, &row)| place == row as usize);
    Ok(Order { permutation: (!unmoved).then_some(permutation), slices })
}

fn arrival_times(batches: &[RowBatch]) -> Vec<i64> {
    let mut times = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for batch in batches {
        times.extend_from_slice(batch.times().unwrap_or_default());
    }
    times
}

fn arrival_ids(batches: &[RowBatch], column: usize) -> Vec<SymbolId> {
    let mut ids = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for batch in batches {
        let Some(array) = batch.symbols(column) else { continue };
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => ids.extend_from_slice(array.values()),
            Some(nulls) => ids.extend(
                array
                    .values()
                    .iter()
                    .zip(nulls.iter())
                    .map(|(&id, valid)| if valid { id } else { NULL_SYMBOL }),
            ),
        }
    }
    ids
}

/// Where the slice that starts at `start` ends: slices are about equal, and rows of one instant stay
/// together unless there are too many of them.
fn slice_end(permutation: &[u32], times: Option<&[i64]>, start: usize, slice_rows: usize) -> usize {
    let left = permutation.len() - start;
    let target = start + left.div_ceil(left.div_ceil(slice_rows));
    let Some(times) = times.filter(|_| target < permutation.len()) else { return target };
    let time = |place: usize| times[permutation[place] as usize];
    let instant = time(target);
    if time(target - 1) != instant {
        return target;
    }
    let whole = start + permutation[start..target].partition_point(|&row| times[row as usize] < instant);
    if whole > start {
        return whole;
    }
    // The slice is one instant so far: take the rest of it where it fits.
    let past = target + permutation[target..].partition_point(|&row| times[row as usize] == instant);
    past.min(start + slice_rows)
}

/// Sorts `rows` by their ids, stable.
fn sort_by_id(rows: &mut [u32], ids: &[SymbolId], scratch: &mut Vec<u32>) {
    if rows.is_sorted_by_key(|&row| ids[row as usize]) {
        return;
    }
    let real = |id: SymbolId| id != NULL_SYMBOL;
    let most = rows.iter().map(|&row| ids[row as usize]).filter(|&id| real(id)).max().unwrap_or(0) as usize;
    if most > MIN_COUNTED_IDS.max(rows.len() * 4) {
        rows.sort_by_key(|&row| ids[row as usize]);
        return;
    }
    let slot = |row: u32| {
        let id = ids[row as usize];
        if real(id) { id as usize } else { most + 1 }
    };
    let mut next = vec![0_u32; most + 2];
    for &row in rows.iter() {
        next[slot(row)] += 1;
    }
    let mut total = 0;
    for count in &mut next {
        (*count, total) = (total, total + *count);
    }
    scratch.clear();
    scratch.extend_from_slice(rows);
    for &row in scratch.iter() {
        let place = &mut next[slot(row)];
        rows[*place as usize] = row;
        *place += 1;
    }
}

fn series_entries(rows: &[u32], ids: &[Vec<SymbolId>]) -> Vec<u32> {
    let mut entries = Vec::new();
    let mut previous: Option<u32> = None;
    for (place, &row) in rows.iter().enumerate() {
        let same = |before: u32| ids.iter().all(|ids| ids[before as usize] == ids[row as usize]);
        if !previous.is_some_and(same) {
            entries.extend(ids.iter().map(|ids| ids[row as usize]));
            entries.push(place as u32);
        }
        previous = Some(row);
    }
    entries
}

#[cfg(test)]
mod tests;
