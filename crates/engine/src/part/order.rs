//! The order of a part's rows: slices of time, inside them by series key, then time, ties as they came.
//!
//! Time order costs a check where the rows have it, and a stable, adaptive sort where they have not;
//! the series key is a counting sort of small integers, so rows in order of time meet no comparison.

use super::layout::MAX_ROWS;
use super::{RowSource, Slice};
use crate::{EngineError, Result};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use std::io;
use std::path::Path;
use tickstone_model::{NULL_SYMBOL, SymbolId, TableSchema};

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

/// Orders rows, which arrived one after the other, in slices of at most `slice_rows` rows.
///
/// # Errors
/// [`EngineError::Io`] for more rows than a part can hold; those of the source.
pub(super) fn order<R: RowSource + ?Sized>(
    schema: &TableSchema,
    path: &Path,
    source: &R,
    slice_rows: usize,
) -> Result<Order> {
    let rows = source.rows();
    if rows > MAX_ROWS {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "more rows than a part can hold");
        return Err(EngineError::Io { action: "write", path: path.into(), source });
    }
    let mut permutation: Vec<u32> = (0..rows).map(|row| row as u32).collect();
    let times = schema.timestamp().map(|column| arrival_times(source, column)).transpose()?;
    let ids = schema.series().iter().map(|&column| arrival_ids(source, column));
    let ids: Vec<Vec<SymbolId>> = ids.collect::<Result<_>>()?;
    if let Some(times) = times.as_ref().filter(|times| !times.is_sorted()) {
        if (1..=slice_rows).contains(&rows) {
            let slice = one_slice(&mut permutation, times, &ids);
            return Ok(Order { permutation: moved(permutation), slices: vec![slice] });
        }
        permutation.sort_by_key(|&row| times[row as usize]);
    }
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
    Ok(Order { permutation: moved(permutation), slices })
}

/// The permutation, `None` where rows stay as they came.
fn moved(permutation: Vec<u32>) -> Option<Vec<u32>> {
    let unmoved = permutation.iter().enumerate().all(|(place, &row)| place == row as usize);
    (!unmoved).then_some(permutation)
}

/// Orders rows that make one slice: by series first, so that rows which come series by series (those of
/// other parts) are in order of time already, or in few stretches that are.
fn one_slice(rows: &mut [u32], times: &[i64], ids: &[Vec<SymbolId>]) -> SortedSlice {
    let mut scratch = Vec::new();
    for ids in ids.iter().rev() {
        sort_by_id(rows, ids, &mut scratch);
    }
    let series = series_entries(rows, ids);
    let starts = series.iter().skip(ids.len()).step_by(ids.len() + 1).map(|&start| start as usize);
    let ends = starts.clone().skip(1).chain([rows.len()]);
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for (start, end) in starts.zip(ends) {
        let of_series = &mut rows[start..end];
        if !of_series.is_sorted_by_key(|&row| times[row as usize]) {
            of_series.sort_by_key(|&row| times[row as usize]);
        }
        least = least.min(times[of_series[0] as usize]);
        most = most.max(times[of_series[of_series.len() - 1] as usize]);
    }
    SortedSlice { slice: Slice { rows: 0..rows.len(), times: Some((least, most)) }, series }
}

/// What the type of a column is was checked when rows entered the engine, or by the part they are read from.
const TYPED: &str = "rows come in their columns' stored types";

fn arrival_times<R: RowSource + ?Sized>(source: &R, column: usize) -> Result<Vec<i64>> {
    let mut times = Vec::with_capacity(source.rows());
    for array in source.column(column)? {
        times.extend_from_slice(array.as_primitive_opt::<TimestampNanosecondType>().expect(TYPED).values());
    }
    Ok(times)
}

fn arrival_ids<R: RowSource + ?Sized>(source: &R, column: usize) -> Result<Vec<SymbolId>> {
    let mut ids = Vec::with_capacity(source.rows());
    for array in source.column(column)? {
        let array = array.as_primitive_opt::<UInt32Type>().expect(TYPED);
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
    Ok(ids)
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
