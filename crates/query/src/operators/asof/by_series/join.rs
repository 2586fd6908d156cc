//! One task: from the pieces of its series to joined rows.

use super::right::{Right, Search, Taken, made};
use crate::arrays::pinned::{NOWHERE, Place};
use crate::operators::asof::node::AsOfOptions;
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use crate::operators::joins::{Made, Matcher, Pair, Placed, Read, Sides, Task, TaskRows};
use crate::scan::{PieceReader, PlacedPiece, Rows, SegmentRows, Series, SeriesPiece, by_segment, row_number};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::{filter, take};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use std::sync::Arc;
use tickstone_model::{NULL_SYMBOL, TimeRange};

/// What joins the rows of tasks: what is read of each side.
#[derive(Debug)]
pub(in crate::operators) struct AsOfMatcher {
    left: PieceReader,
    /// What is made of the left columns that are read.
    left_made: Option<Made>,
    left_series: Vec<Series>,
    right: Right,
    options: AsOfOptions,
    /// Whether rows are to be put in order.
    arrival: bool,
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

impl AsOfMatcher {
    /// That of `join` over its sides, whose series are found.
    pub(in crate::operators) fn new(
        join: &TimeJoinExec,
        (of, arrival): (&AsOf, bool),
        Sides { left, right }: &Sides,
        (left_series, right_series): (Vec<Series>, Vec<Series>),
    ) -> Result<Self> {
        let all: Vec<usize> = (0..join.left_schema().fields().len()).collect();
        let (left, left_made) = left.reader(&all, &left.keys, (join.left_schema(), false))?;
        let right = Right::new(join, of, right, right_series)?;
        Ok(Self { left, left_made, left_series, right, options: of.options, arrival })
    }

    /// The pieces of the left series of a pair.
    fn left_pieces(&self, pair: &Pair) -> &[SeriesPiece] {
        pair.left.map_or(&[], |left| &self.left_series[left].pieces)
    }

    /// The left keys, which need not be read, by list and key.
    fn left_keys(&self, task: &Task, left: &Left) -> Vec<Vec<ArrayRef>> {
        let keys = self.left.keys().len();
        let mut ids: Vec<Vec<Vec<u32>>> =
            left.lists.iter().map(|list| vec![vec![NULL_SYMBOL; list.rows]; keys]).collect();
        for (pair, pieces) in task.pairs.iter().zip(&left.pairs) {
            let Some(left) = pair.left else { continue };
            for (key, id) in self.left_series[left].ids.iter().enumerate() {
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
        for pair in task.pairs {
            for piece in self.left_pieces(pair) {
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
        for (at, pair) in task.pairs.iter().enumerate() {
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
}

impl Matcher for AsOfMatcher {
    fn series(&self) -> [&[Series]; 2] {
        [&self.left_series, &self.right.series]
    }

    fn readers(&self) -> [&PieceReader; 2] {
        [&self.left, self.right.reader()]
    }

    fn run(&self, task: &Task, _held: &MemoryReservation) -> Result<(Vec<TaskRows>, Read)> {
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
            let numbers =
                |list: &SegmentRows| list.numbers().map(|row| row_number(list.segment, row)).collect();
            // In the order the scan has them, which is that of arrival within a series.
            let arrival = if self.arrival { numbers(list) } else { Vec::new() };
            self.joined(Placed { columns, times, arrival }, &places, &taken).map(TaskRows::Placed)
        });
        Ok((joined.collect::<Result<_>>()?, read))
    }
}

impl AsOfMatcher {
    /// Left rows with the right rows at their places.
    fn joined(&self, mut left: Placed, places: &[Place], taken: &Taken) -> Result<Placed> {
        let numbers = taken.numbers(places);
        for column in &taken.columns {
            left.columns.push(take(column, &numbers, None)?);
        }
        if !self.options.inner || numbers.null_count() == 0 {
            return Ok(left);
        }
        let found: BooleanArray = places.iter().map(|place| Some(*place != NOWHERE)).collect();
        let columns = left.columns.iter().map(|column| Ok(filter(column, &found)?));
        let columns = columns.collect::<Result<_>>()?;
        let times = kept(&left.times, places).collect();
        let arrival = kept(&left.arrival, places).collect();
        Ok(Placed { columns, times, arrival })
    }
}

/// The values of rows that have a place.
fn kept<T: Copy>(values: &[T], places: &[Place]) -> impl Iterator<Item = T> {
    values.iter().zip(places).filter(|(_, place)| **place != NOWHERE).map(|(value, _)| *value)
}
