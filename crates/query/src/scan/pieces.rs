//! Reads chosen pieces of series: what operators use that work series by series and decide themselves which
//! rows they need.
//!
//! Pieces of many series are put together by segment ([`by_segment`]), so that each segment is read once and
//! a block that neighbours share is decoded once.

use super::columns::{Columns, read_scattered, row_number};
use super::condition::{Test, kept};
use super::exec::ScanExec;
use super::selected::Selected;
use super::series::Rows;
use crate::error::{external, from_arrow};
use datafusion::arrow::array::{
    ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimestampNanosecondType};
use datafusion::common::{Result, internal_datafusion_err};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tickstone_engine::Segment;

/// Rows of one segment that are read together.
#[derive(Debug)]
pub(crate) struct SegmentRows {
    /// Index among the selected segments.
    pub(crate) segment: usize,
    /// How many.
    pub(crate) rows: usize,
    /// In a part: ascending, apart.
    ranges: Vec<Range<usize>>,
    /// In a run, or a part.
    listed: Vec<usize>,
    /// Of a part: the listed rows as they lie, and where each is among them. What is read in another order is decoded
    /// again and again.
    sorted: OnceLock<Option<Ascending>>,
}

/// Rows as they lie, each once, and where the rows that are wanted are among them.
#[derive(Debug)]
struct Ascending {
    rows: Vec<usize>,
    places: UInt32Array,
}

impl Ascending {
    /// `None` where rows ascend already.
    fn of(rows: &[usize]) -> Option<Self> {
        if rows.is_sorted() {
            return None;
        }
        let mut order: Vec<(usize, u32)> = rows.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut ascending: Vec<usize> = Vec::with_capacity(rows.len());
        let mut places = vec![0; rows.len()];
        for (row, at) in order {
            if ascending.last() != Some(&row) {
                ascending.push(row);
            }
            places[at as usize] = ascending.len() as u32 - 1;
        }
        Some(Self { rows: ascending, places: places.into() })
    }

    fn take(&self, of: &Segment, column: usize) -> Result<ArrayRef> {
        let values = of.take(column, &self.rows).map_err(external)?;
        take(&values, &self.places, None).map_err(from_arrow)
    }
}

impl SegmentRows {
    /// Adds rows; those of a part come after all that are there.
    fn add(&mut self, rows: &Rows) -> Range<usize> {
        match rows {
            Rows::Range(rows) => match self.ranges.last_mut() {
                Some(last) if last.end == rows.start => last.end = rows.end,
                _ => self.ranges.push(rows.clone()),
            },
            Rows::Listed(rows) => self.listed.extend(rows.iter().map(|row| *row as usize)),
        }
        let start = self.rows;
        self.rows += rows.len();
        start..self.rows
    }

    /// Those that fulfil a condition, and how many of them come before each row, and before the end.
    pub(super) fn tested(&self, test: &Test, segment: &Segment) -> Result<(Self, Vec<usize>)> {
        let single = |row: &usize| *row..row + 1;
        let ranges: Vec<Range<usize>> =
            self.ranges.iter().cloned().chain(self.listed.iter().map(single)).collect();
        let bits = test.rows(segment, &ranges)?;
        let mut before = Vec::with_capacity(self.rows + 1);
        let mut rows = 0;
        before.push(0);
        before.extend(bits.iter().map(|held| {
            rows += usize::from(held);
            rows
        }));
        let of_part = self.rows - self.listed.len();
        let listed = bits.slice(of_part, self.listed.len());
        let listed = listed.set_indices().map(|at| self.listed[at]).collect();
        let ranges = kept(&self.ranges, &bits.slice(0, of_part));
        Ok((Self { segment: self.segment, rows, ranges, listed, sorted: OnceLock::new() }, before))
    }

    /// The rows as numbers of the segment, in the order they are read.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.ranges.iter().cloned().flatten().chain(self.listed.iter().copied())
    }
}

/// Where a piece is among rows put together by segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedPiece {
    /// The place of its segment in the list.
    pub(crate) list: usize,
    /// Its rows among those read of the segment.
    pub(crate) rows: Range<usize>,
}

/// Puts pieces (a segment, rows of it) together by segment: what is to be read of each, and for each piece
/// where its rows are in that.
pub(crate) fn by_segment<'a>(
    pieces: impl Iterator<Item = (usize, &'a Rows)>,
) -> (Vec<SegmentRows>, Vec<PlacedPiece>) {
    let pieces: Vec<(usize, &Rows)> = pieces.collect();
    let mut order: Vec<(usize, usize, usize)> =
        pieces.iter().enumerate().map(|(at, (segment, rows))| (*segment, rows.row(0), at)).collect();
    order.sort_unstable();
    let mut lists: Vec<SegmentRows> = Vec::new();
    let mut places = vec![PlacedPiece { list: 0, rows: 0..0 }; pieces.len()];
    for (segment, _, at) in order {
        if lists.last().is_none_or(|last| last.segment != segment) {
            let (ranges, listed) = (Vec::new(), Vec::new());
            lists.push(SegmentRows { segment, rows: 0, ranges, listed, sorted: OnceLock::new() });
        }
        let list = lists.len() - 1;
        places[at] = PlacedPiece { list, rows: lists[list].add(pieces[at].1) };
    }
    (lists, places)
}

/// Reads pieces of what a scan selects.
#[derive(Debug)]
pub(crate) struct PieceReader {
    selected: Arc<Selected>,
    columns: Columns,
    timestamp: usize,
    /// The columns of the key, which are not read.
    keys: Vec<usize>,
    /// Types of the columns as they are stored.
    types: Vec<DataType>,
}

impl PieceReader {
    /// A reader of the columns `columns` of the scan's table, which are those of `schema`; of the columns
    /// `keys` of the table its user knows the ids.
    ///
    /// # Errors
    /// Where the table has no designated timestamp.
    pub(crate) fn new(scan: &ScanExec, columns: &[usize], keys: &[usize], schema: SchemaRef) -> Result<Self> {
        let selected = Arc::clone(scan.selected());
        let table = selected.table.schema();
        let timestamp =
            table.timestamp().ok_or_else(|| internal_datafusion_err!("series without a timestamp"))?;
        let stored = |column: &usize| match table.columns().get(*column) {
            Some(column) => column.column_type.stored_type(),
            // The numbers of rows stand past the columns.
            None => DataType::UInt64,
        };
        let types = columns.iter().map(stored).collect();
        let columns = Columns::new(&selected.table, schema, columns, scan.bytes_read());
        Ok(Self { selected, columns, timestamp, keys: keys.to_vec(), types })
    }

    /// A segment.
    pub(crate) fn segment(&self, segment: usize) -> &Segment {
        &self.selected.segments[segment]
    }

    /// Bounds of the times of a segment, both inside.
    pub(crate) fn bounds(&self, segment: usize) -> (i64, i64) {
        self.selected.times(self.segment(segment)).unwrap_or((i64::MIN, i64::MAX))
    }

    /// The types of the columns as they are stored.
    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The place of the first of some rows at or after `time`, the end where there is none.
    pub(crate) fn lower_bound(&self, segment: usize, rows: &Rows, time: i64) -> Result<usize> {
        let of = self.segment(segment);
        match rows {
            Rows::Range(rows) => {
                let mut times = of.part_times().ok_or_else(without_times)?;
                Ok(times.lower_bound(rows, time).map_err(external)? - rows.start)
            }
            Rows::Listed(rows) => match of.part_times() {
                Some(mut times) => {
                    let bounds = listed_bounds(rows);
                    let first = times.lower_bound(&bounds, time).map_err(external)?;
                    Ok(rows.partition_point(|row| (*row as usize) < first))
                }
                None => {
                    Ok(rows.partition_point(|row| of.run_time(*row as usize).is_some_and(|at| at < time)))
                }
            },
        }
    }

    /// The time of a row.
    pub(crate) fn time(&self, segment: usize, row: usize) -> Result<i64> {
        let of = self.segment(segment);
        match of.part_times() {
            Some(mut times) => times.time(row).map_err(external),
            None => of.run_time(row).ok_or_else(without_times),
        }
    }

    /// The times of rows.
    pub(crate) fn times(&self, rows: &SegmentRows) -> Result<ScalarBuffer<i64>> {
        let times = self.column(rows, self.timestamp)?;
        let times = times.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(without_times)?;
        Ok(times.values().clone())
    }

    /// The designated timestamp.
    pub(super) fn timestamp(&self) -> usize {
        self.timestamp
    }

    /// The columns of the table whose ids its user knows.
    pub(crate) fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// The columns of the table that it reads.
    pub(super) fn column_indices(&self) -> impl Iterator<Item = usize> {
        self.columns.indices()
    }

    /// What it reads of.
    pub(super) fn selected(&self) -> &Selected {
        &self.selected
    }

    /// All columns of rows whose times and keys (their ids) are known, in stored types.
    pub(crate) fn read(
        &self,
        rows: &SegmentRows,
        times: &ScalarBuffer<i64>,
        keys: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let columns = self.columns.indices().map(|column| {
            if let Some(key) = self.keys.iter().position(|key| *key == column) {
                return Ok(Arc::clone(&keys[key]));
            }
            if column == self.timestamp {
                return Ok(Arc::new(TimestampNanosecondArray::new(times.clone(), None)) as ArrayRef);
            }
            self.column(rows, column)
        });
        columns.collect()
    }

    /// A column of the table, in its stored type.
    pub(super) fn column(&self, rows: &SegmentRows, column: usize) -> Result<ArrayRef> {
        let of = self.segment(rows.segment);
        if column == self.selected.table.schema().columns().len() {
            let numbers = rows.numbers().map(|row| row_number(rows.segment, row));
            return Ok(Arc::new(UInt64Array::from_iter_values(numbers)));
        }
        if rows.listed.is_empty() {
            return read_scattered(of, column, &rows.ranges);
        }
        let sorted = || if of.is_part() { Ascending::of(&rows.listed) } else { None };
        match rows.sorted.get_or_init(sorted) {
            Some(ascending) => ascending.take(of, column),
            None => of.take(column, &rows.listed).map_err(external),
        }
    }

    /// All columns of single rows of a segment, in stored types.
    pub(crate) fn take(&self, segment: usize, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        let of = self.segment(segment);
        let ascending = if of.is_part() { Ascending::of(rows) } else { None };
        let take = |column: usize| match &ascending {
            Some(ascending) => ascending.take(of, column),
            None => of.take(column, rows).map_err(external),
        };
        self.columns.indices().map(take).collect()
    }

    /// A batch of columns in stored types.
    pub(super) fn batch(&self, stored: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        self.columns.batch(stored, rows)
    }

    /// Columns in stored types as the edge shows them.
    pub(crate) fn edge(&self, stored: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        self.columns.edge(stored)
    }
}

/// From the first to the last of ascending rows.
pub(crate) fn listed_bounds(rows: &[u32]) -> Range<usize> {
    match rows {
        [first, .., last] => *first as usize..*last as usize + 1,
        [only] => *only as usize..*only as usize + 1,
        [] => 0..0,
    }
}

fn without_times() -> datafusion::error::DataFusionError {
    internal_datafusion_err!("rows without designated timestamps")
}
