//! One task: from the pieces of its series to joined rows.

use super::right::{Search, Taken, made};
use super::tasks::{Plan, Task};
use crate::operators::pinned::{NOWHERE, Place};
use crate::scan::{PlacedPiece, Rows, SegmentRows, by_segment, row_number};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use std::sync::Arc;
use tickstone_model::{NULL_SYMBOL, TimeRange};

/// Left rows of one segment with their right rows.
#[derive(Debug)]
pub(in crate::operators) struct Joined {
    pub(in super::super) columns: Vec<ArrayRef>,
    pub(in super::super) rows: usize,
    /// The left rows' times.
    pub(super) times: ScalarBuffer<i64>,
    /// The left rows' numbers in the order the scan has them, which is that of arrival within a series.
    pub(super) arrival: Vec<u64>,
}

/// What a task has read, in rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Read {
    pub(super) left: usize,
    pub(super) right: usize,
}

/// The left rows of a task.
struct Left {
    /// By segment.
    lists: Vec<SegmentRows>,
    times: Vec<ScalarBuffer<i64>>,
    /// The pieces of each pair of the task, in order.
    pairs: Vec<Vec<PlacedPiece>>,
}

impl Left {
    /// The least and the greatest time of a pair; `None` where it has no rows.
    fn bounds(&self, pair: usize) -> Option<(i64, i64)> {
        let times = |piece: &PlacedPiece| &self.times[piece.list][piece.rows.clone()];
        let pieces = self.pairs[pair].iter().map(times);
        let bounds = pieces.filter_map(|times| Some((*times.first()?, *times.last()?)));
        bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Pieces that overlap in time.
pub(in crate::operators) struct Overlap<P> {
    /// The first and the last time that they may hold.
    pub(in crate::operators) bounds: (i64, i64),
    /// In order of arrival.
    pub(in crate::operators) pieces: Vec<P>,
}

impl Plan {
    /// The joined rows of a task, and how many rows were read for them; where `arrival` is asked for, with
    /// what puts them in order.
    pub(super) fn run(&self, task: &Task, arrival: bool) -> Result<(Vec<Joined>, Read)> {
        let left = self.left_rows(task)?;
        let mut places: Vec<Vec<Place>> = left.times.iter().map(|times| vec![NOWHERE; times.len()]).collect();
        let search = self.find(task, &left, &mut places)?;
        let read = left.times.iter().map(|times| times.len()).sum();
        let read = Read { left: read, right: self.right.rows_read(&search) };
        let keys = self.left_keys(task, &left);
        let taken = self.right.take(&search.wanted)?;
        let lists = left.lists.iter().zip(left.times).zip(&keys).zip(places);
        let joined = lists.map(|(((list, times), keys), places)| {
            let columns = self.left.edge(self.left.read(list, &times, keys)?)?;
            let columns = made(self.left_made.as_ref(), columns, list.rows)?;
            let joined = Joined { columns, rows: list.rows, times, arrival: Vec::new() };
            self.joined(joined, arrival.then_some(list), &places, &taken)
        });
        Ok((joined.collect::<Result<_>>()?, read))
    }

    /// The left keys, which need not be read, by list and key.
    fn left_keys(&self, task: &Task, left: &Left) -> Vec<Vec<ArrayRef>> {
        let keys = self.left.keys();
        let mut ids: Vec<Vec<Vec<u32>>> =
            left.lists.iter().map(|list| vec![vec![NULL_SYMBOL; list.rows]; keys]).collect();
        for (pair, pieces) in self.pairs[task.pairs.clone()].iter().zip(&left.pairs) {
            for (key, id) in self.left_series[pair.left].ids.iter().enumerate() {
                pieces.iter().for_each(|piece| ids[piece.list][key][piece.rows.clone()].fill(*id));
            }
        }
        let array = |ids: Vec<u32>| -> ArrayRef {
            let nulls = ids.contains(&NULL_SYMBOL);
            let nulls = nulls.then(|| ids.iter().map(|id| *id != NULL_SYMBOL).collect::<NullBuffer>());
            Arc::new(UInt32Array::new(ids.into(), nulls))
        };
        ids.into_iter().map(|keys| keys.into_iter().map(array).collect()).collect()
    }

    fn left_rows(&self, task: &Task) -> Result<Left> {
        let mut pieces: Vec<(usize, Rows)> = Vec::new();
        let mut ends = Vec::with_capacity(task.pairs.len());
        for pair in &self.pairs[task.pairs.clone()] {
            for piece in &self.left_series[pair.left].pieces {
                let rows = self.left_rows_in(piece.segment, piece.rows.clone(), task.time)?;
                if rows.len() > 0 {
                    pieces.push((piece.segment, rows));
                }
            }
            ends.push(pieces.len());
        }
        let (lists, places) = by_segment(pieces.iter().map(|(segment, rows)| (*segment, rows)));
        let times = lists.iter().map(|list| self.left.times(list)).collect::<Result<_>>()?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let pairs = starts.zip(&ends).map(|(start, end)| places[start..*end].to_vec()).collect();
        Ok(Left { lists, times, pairs })
    }

    /// The rows of a left piece whose time lies in a range.
    fn left_rows_in(&self, segment: usize, rows: Rows, time: TimeRange) -> Result<Rows> {
        let (first, last) = self.left.bounds(segment);
        let start = match first >= time.from {
            true => 0,
            false if last < time.from => rows.len(),
            false => self.left.lower_bound(segment, &rows, time.from)?,
        };
        let end = match time.to == TimeRange::ALL.to || last < time.to {
            true => rows.len(),
            false if first >= time.to => start,
            false => self.left.lower_bound(segment, &rows, time.to)?,
        };
        Ok(rows.slice(start..end.max(start)))
    }

    /// Finds the right row of each left row.
    fn find(&self, task: &Task, left: &Left, places: &mut [Vec<Place>]) -> Result<Search<'_>> {
        let mut search = Search::default();
        for (at, pair) in self.pairs[task.pairs.clone()].iter().enumerate() {
            let (Some(right), Some(bounds)) = (pair.right, left.bounds(at)) else { continue };
            let mut standing = self.right.standing(right, bounds, &mut search);
            for piece in &left.pairs[at] {
                let times = &left.times[piece.list][piece.rows.clone()];
                let places = &mut places[piece.list][piece.rows.clone()];
                let wanted = &mut search.wanted;
                let found = |at: usize, found| places[at] = wanted.add(&found);
                standing.find_each(times, self.options, &mut search.looks, found)?;
            }
        }
        Ok(search)
    }

    /// Left rows with the right rows at their places; `list` has their numbers, where these are asked for.
    fn joined(
        &self,
        mut left: Joined,
        list: Option<&SegmentRows>,
        places: &[Place],
        taken: &Taken,
    ) -> Result<Joined> {
        if let Some(list) = list {
            left.arrival = list.numbers().map(|row| row_number(list.segment, row)).collect();
        }
        let numbers = taken.numbers(places);
        for column in &taken.columns {
            left.columns.push(take(column, &numbers, None)?);
        }
        if self.options.inner && numbers.null_count() > 0 { left.only(places) } else { Ok(left) }
    }
}

impl Joined {
    /// Rows at `times` whose order among those of equal time `arrival` says, as they are among each other.
    pub(in crate::operators) fn new(batch: RecordBatch, times: Vec<i64>, arrival: u64) -> Self {
        let rows = batch.num_rows();
        let (_, columns, _) = batch.into_parts();
        Self { columns, rows, times: times.into(), arrival: vec![arrival; rows] }
    }

    /// The rows that have a place.
    fn only(self, places: &[Place]) -> Result<Self> {
        let found: BooleanArray = places.iter().map(|place| Some(*place != NOWHERE)).collect();
        let columns = self.columns.iter().map(|column| Ok(filter(column, &found)?));
        let columns = columns.collect::<Result<_>>()?;
        let times: ScalarBuffer<i64> = kept(&self.times, places).collect();
        let arrival = kept(&self.arrival, places).collect();
        Ok(Self { columns, rows: times.len(), times, arrival })
    }

    /// The rows as a batch.
    pub(in super::super) fn batch(self, schema: SchemaRef) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(schema, self.columns, &options)?)
    }

    /// Bytes it holds, roughly.
    pub(in crate::operators) fn size(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.get_array_memory_size()).sum();
        columns + self.times.len() * 8 + self.arrival.len() * 8
    }
}

/// The values of rows that have a place.
fn kept<T: Copy>(values: &[T], places: &[Place]) -> impl Iterator<Item = T> {
    values.iter().zip(places).filter(|(_, place)| **place != NOWHERE).map(|(value, _)| *value)
}

/// Pieces that overlap in time or meet, together, in order of time; `pieces` are in order of arrival, with bounds
/// of their times.
pub(in crate::operators) fn stretches<P>(
    mut pieces: Vec<((i64, i64), P)>,
    arrival: impl Fn(&P) -> usize,
) -> Vec<Overlap<P>> {
    pieces.sort_by_key(|(bounds, _)| *bounds);
    let mut stretches: Vec<Overlap<P>> = Vec::new();
    for (bounds, piece) in pieces {
        match stretches.last_mut() {
            Some(last) if bounds.0 <= last.bounds.1 => {
                last.bounds.1 = last.bounds.1.max(bounds.1);
                last.pieces.push(piece);
            }
            _ => stretches.push(Overlap { bounds, pieces: vec![piece] }),
        }
    }
    for stretch in &mut stretches {
        stretch.pieces.sort_by_key(&arrival);
    }
    stretches
}
