//! A run: one immutable batch of rows of one partition, sorted by time.
//!
//! Invariants:
//! - the designated timestamps of a run ascend; rows of equal time stand in arrival order;
//! - a run's positions are those of whole frames: it holds every row of its partition from each.

use super::stats::array_stats;
use crate::Result;
use crate::part::{ColumnStats, PositionRange};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tickstone_model::{ColumnType, NULL_SYMBOL, RowBatch, SymbolId, TimeRange, values_bytes};

/// Rows of one partition in order of time.
#[derive(Debug)]
pub(crate) struct Run {
    batch: RowBatch,
    positions: PositionRange,
    bytes: usize,
    stats: Box<[OnceLock<ColumnStats>]>,
    /// Rows by id of the first series column, made when a query first wants it.
    by_symbol: OnceLock<HashMap<SymbolId, Arc<[u32]>>>,
}

impl Run {
    /// Wraps rows that are in order of time.
    pub(crate) fn new(batch: RowBatch, positions: PositionRange) -> Self {
        debug_assert!(batch.times().is_none_or(<[i64]>::is_sorted), "a run is sorted by time");
        let bytes = batch.columns().iter().map(values_bytes).sum();
        let stats = batch.columns().iter().map(|_| OnceLock::new()).collect();
        Self { batch, positions, bytes, stats, by_symbol: OnceLock::new() }
    }

    pub(crate) fn batch(&self) -> &RowBatch {
        &self.batch
    }

    pub(crate) fn rows(&self) -> usize {
        self.batch.rows()
    }

    pub(crate) fn positions(&self) -> PositionRange {
        self.positions
    }

    /// Bytes its values take in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// First and last designated timestamp.
    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        let times = self.batch.times()?;
        Some((*times.first()?, *times.last()?))
    }

    pub(crate) fn column_stats(&self, column: usize) -> ColumnStats {
        *self.stats[column].get_or_init(|| {
            let stats = array_stats(&self.batch.columns()[column]);
            match self.batch.schema().columns()[column].column_type {
                // Ids are no values of the column.
                ColumnType::Symbol => ColumnStats { min: None, max: None, sum: None, ..stats },
                _ => stats,
            }
        })
    }

    /// Rows, ascending, whose first series column has this id.
    pub(crate) fn rows_of_symbol(&self, id: SymbolId) -> Arc<[u32]> {
        let by_symbol = self.by_symbol.get_or_init(|| {
            let mut rows: HashMap<SymbolId, Vec<u32>> = HashMap::new();
            let column = self.batch.schema().series().first().and_then(|column| self.batch.symbols(*column));
            for (row, id) in column.into_iter().flatten().enumerate() {
                rows.entry(id.unwrap_or(NULL_SYMBOL)).or_default().push(row_number(row));
            }
            rows.into_iter().map(|(id, rows)| (id, rows.into())).collect()
        });
        by_symbol.get(&id).map_or_else(|| Arc::new([]) as Arc<[u32]>, Arc::clone)
    }
}

fn row_number(row: usize) -> u32 {
    u32::try_from(row).expect("a run holds fewer than 2^32 rows")
}

/// Rows of a batch by number, in that order.
pub(crate) fn take_rows(batch: &RowBatch, rows: &UInt32Array) -> Result<RowBatch> {
    let columns = batch.columns().iter().map(|column| arrow_select::take::take(column, rows, None));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RowBatch::new(Arc::clone(batch.schema()), columns)?)
}

/// The same rows in order of time, ties as they stand; without a copy where they are already.
fn sort_by_time(batch: RowBatch) -> Result<RowBatch> {
    let Some(times) = batch.times().filter(|times| !times.is_sorted()) else {
        return Ok(batch);
    };
    let mut rows: Vec<u32> = (0..row_number(times.len())).collect();
    rows.sort_by_key(|row| times[*row as usize]);
    take_rows(&batch, &UInt32Array::from(rows))
}

/// The rows of each partition they touch, each in order of time, partitions ascending.
pub(crate) fn split_by_partition(batch: RowBatch) -> Result<Vec<(TimeRange, RowBatch)>> {
    let batch = sort_by_time(batch)?;
    if batch.rows() == 0 {
        return Ok(Vec::new());
    }
    let Some(times) = batch.times() else {
        return Ok(vec![(TimeRange::ALL, batch)]);
    };
    let partition_by = batch.schema().partition_by();
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(first) = times.get(start) {
        let partition = partition_by.partition_of(*first);
        // The last partition of all ends where i64 does: its end is inside it.
        let end = start + times[start..].partition_point(|ts| *ts < partition.to || partition.to == i64::MAX);
        pieces.push((partition, batch.slice(start, end - start)));
        start = end;
    }
    Ok(pieces)
}

/// One run with the rows of several neighbours, earliest in arrival first.
pub(crate) fn merge_runs(runs: &[Arc<Run>]) -> Result<Run> {
    let first = &runs[0];
    let positions = PositionRange {
        first: first.positions.first,
        last: runs.iter().map(|run| run.positions.last).max().unwrap_or(first.positions.last),
    };
    let mut columns = Vec::with_capacity(first.batch.columns().len());
    for column in 0..first.batch.columns().len() {
        let arrays: Vec<&dyn Array> = runs.iter().map(|run| run.batch.columns()[column].as_ref()).collect();
        columns.push(arrow_select::concat::concat(&arrays)?);
    }
    let batch = RowBatch::new(Arc::clone(first.batch.schema()), columns)?;
    Ok(Run::new(sort_by_time(batch)?, positions))
}

/// Whether the values of several runs have room in one array a column: text and arrays have offsets of 32 bits.
pub(crate) fn fit_together(runs: &[Arc<Run>]) -> bool {
    let columns = runs.first().map_or(0, |run| run.batch.columns().len());
    let held =
        |column: usize| runs.iter().map(|run| offset_span(&run.batch.columns()[column])).sum::<usize>();
    (0..columns).all(|column| i32::try_from(held(column)).is_ok())
}

/// What the offsets of an array span, at most: bytes of text, elements of arrays; 0 where there are none.
fn offset_span(array: &ArrayRef) -> usize {
    let span = |offsets: &[i32]| (offsets[offsets.len() - 1] - offsets[0]).cast_unsigned() as usize;
    match array.data_type() {
        DataType::Utf8 => span(array.as_string::<i32>().value_offsets()),
        DataType::Binary => span(array.as_binary::<i32>().value_offsets()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (first, elements) = (lists.value_offsets()[0], span(lists.value_offsets()));
            elements.max(offset_span(&lists.values().slice(first.cast_unsigned() as usize, elements)))
        }
        _ => 0,
    }
}

/// How many of the newest of neighbouring runs (their rows given, oldest first) to merge now: each
/// run stays at least twice as long as those after it together, so there are O(log n) of them and a
/// row is copied O(log n) times. 0 where nothing is to be merged.
pub(crate) fn runs_to_merge(rows: &[usize], rows_max: usize) -> usize {
    let Some((last, earlier)) = rows.split_last() else { return 0 };
    let mut total = *last;
    let mut count = 1;
    for rows in earlier.iter().rev() {
        if *rows > 2 * total || total + rows > rows_max {
            break;
        }
        total += rows;
        count += 1;
    }
    if count > 1 { count } else { 0 }
}

#[cfg(test)]
mod tests;
