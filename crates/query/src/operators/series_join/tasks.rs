//! Series by series: the rows of both sides that a task needs, put together.

use super::node::Kind;
use super::rows::{Joined, Matched, Shape, SideRows};
use crate::operators::below::batch_of;
use crate::operators::joins::exec::TimeJoinExec;
use crate::operators::joins::{
    LazyRows, Made, Matcher, Read, Side, Sides, Task, TaskRows, is_searched, stretches,
};
use crate::scan::{PieceReader, Series, SeriesPiece, SeriesReader};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType, UInt64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::TimeRange;

/// Reads the series of one side.
#[derive(Debug)]
struct SideReader {
    reader: SeriesReader,
    /// What is made of the columns that are read.
    made: Option<Made>,
    /// Where its time is.
    time: usize,
    schema: SchemaRef,
    /// Whether the numbers of rows are read after all other columns.
    numbered: bool,
}

/// What joins the rows of tasks: what is read of each side.
#[derive(Debug)]
pub(in crate::operators) struct AroundMatcher {
    left: SideReader,
    right: SideReader,
    shape: Shape,
}

impl SideReader {
    fn new(
        side: &Side,
        series: Vec<Series>,
        time: &Arc<dyn PhysicalExpr>,
        (schema, numbered): (SchemaRef, bool),
    ) -> Result<Self> {
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let (pieces, made) = side.reader(&all, &side.keys, (Arc::clone(&schema), numbered))?;
        let time = time.downcast_ref::<Column>().map(Column::index);
        let time = time.ok_or_else(|| internal_datafusion_err!("series by a time that is no column"))?;
        Ok(Self { reader: SeriesReader::of(pieces, series), made, time, schema, numbered })
    }

    fn series(&self) -> &[Series] {
        self.reader.series()
    }

    fn rows(&self, series: Option<usize>) -> usize {
        series.map_or(0, |at| self.series()[at].rows)
    }

    fn read(&self, series: &[Series]) -> Result<SideRows> {
        let read = self.reader.read_series(series)?;
        let rows = read.batch.num_rows();
        let mut columns = read.batch.columns().to_vec();
        let numbers = if self.numbered { columns.pop() } else { None };
        let numbers = numbers.map(|of| of.as_primitive::<UInt64Type>().values().clone());
        if let Some(made) = &self.made {
            columns = made.of(columns, rows)?;
        }
        let batch = batch_of(&self.schema, columns, rows)?;
        let times = batch.column(self.time).as_primitive::<TimestampNanosecondType>().values().clone();
        Ok(SideRows { batch, times, ends: read.ends, numbers })
    }

    /// The rows of a series whose times lie in one of some windows (both ends inside), which ascend and do not
    /// overlap; where `prior`, with the last row before each of them.
    fn within(&self, series: Option<usize>, windows: &[(i64, i64)], prior: bool) -> Result<Series> {
        let nothing = || Series { ids: Box::default(), pieces: Vec::new(), rows: 0 };
        let Some(series) = series.map(|at| &self.series()[at]) else { return Ok(nothing()) };
        let pieces = self.reader.pieces();
        let bounds = series.pieces.iter().enumerate();
        let bounds = bounds.map(|(at, piece)| (pieces.bounds(piece.segment), at)).collect();
        let stretches = stretches(bounds, |at| *at);
        let mut found: Vec<Vec<Range<usize>>> = vec![Vec::new(); series.pieces.len()];
        for (low, high) in windows {
            let from = stretches.partition_point(|of| of.bounds.1 < *low).saturating_sub(usize::from(prior));
            let to = stretches.partition_point(|of| of.bounds.0 <= *high).max(from);
            for &at in stretches[from..to].iter().flat_map(|of| &of.pieces) {
                let SeriesPiece { segment, rows } = &series.pieces[at];
                let (first, last) = pieces.bounds(*segment);
                let start = if first >= *low { 0 } else { pieces.lower_bound(*segment, rows, *low)? };
                let end = match high.checked_add(1).filter(|_| last > *high) {
                    None => rows.len(),
                    Some(past) => pieces.lower_bound(*segment, rows, past)?,
                };
                let start = start.saturating_sub(usize::from(prior));
                match found[at].last_mut() {
                    Some(before) if start <= before.end => before.end = before.end.max(end),
                    _ if start < end => found[at].push(start..end),
                    _ => {}
                }
            }
        }
        let mut kept = nothing();
        for (piece, found) in series.pieces.iter().zip(found) {
            for rows in found {
                kept.rows += rows.len();
                kept.pieces.push(SeriesPiece { segment: piece.segment, rows: piece.rows.slice(rows) });
            }
        }
        kept.ids = series.ids.clone();
        Ok(kept)
    }
}

impl AroundMatcher {
    /// That of `join` over its sides, whose series are found.
    pub(in crate::operators) fn new(
        join: &TimeJoinExec,
        (shape, arrival): (&Shape, bool),
        sides: &Sides,
        (left, right): (Vec<Series>, Vec<Series>),
    ) -> Result<Self> {
        // Rows of one time and series that are of several keys come task by task, not as they arrived.
        let numbered = arrival && shape.kind != Kind::Splice && sides.left.refines_series();
        let left = SideReader::new(&sides.left, left, &join.times.0, (join.left_schema(), numbered))?;
        let right = SideReader::new(&sides.right, right, &join.times.1, (join.right_schema(), false))?;
        Ok(Self { left, right, shape: shape.clone() })
    }

    /// The rows of a task.
    fn read(&self, task: &Task) -> Result<(Matched, Read)> {
        let splice = self.shape.kind == Kind::Splice;
        let last = if task.time.to == TimeRange::ALL.to { i64::MAX } else { task.time.to - 1 };
        let time = [(task.time.from, last)];
        let left = task.pairs.iter().map(|pair| self.left.within(pair.left, &time, splice));
        let left = self.left.read(&left.collect::<Result<Vec<_>>>()?)?;
        let (low, high) = self.shape.kind.reach();
        let mut start = 0;
        let right = task.pairs.iter().zip(&left.ends).map(|(pair, end)| {
            let times = &left.times[std::mem::replace(&mut start, *end)..*end];
            if splice {
                return self.right.within(pair.right, &time, true);
            }
            let window = |from: &i64, to: &i64| (from.saturating_add(low), to.saturating_add(high));
            let windows = match (times.first(), times.last()) {
                (Some(first), Some(last)) => match is_searched(times.len(), self.right.rows(pair.right)) {
                    true => disjoint(times.iter().map(|time| window(time, time))),
                    false => vec![window(first, last)],
                },
                _ => Vec::new(),
            };
            self.right.within(pair.right, &windows, true)
        });
        let right = right.collect::<Result<Vec<_>>>()?;
        let right = self.right.read(&right)?;
        let read = Read { left: left.times.len(), right: right.times.len() };
        Ok((Matched { left, right, from: if splice { task.time.from } else { i64::MIN }, order: None }, read))
    }
}

/// The rows of a task.
struct OfTask {
    joined: Joined,
    shape: Shape,
    /// The numbers of the left rows, where they say more than the task's.
    numbers: Option<ScalarBuffer<u64>>,
}

impl LazyRows for OfTask {
    fn count(&self) -> usize {
        self.joined.rows()
    }

    fn size(&self) -> usize {
        self.joined.size()
    }

    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        self.joined.batch(&self.shape, rows)
    }

    fn times(&self) -> &[i64] {
        &self.joined.times
    }

    fn arrival(&self, row: usize) -> Option<u64> {
        self.numbers.as_ref().map(|numbers| numbers[self.joined.left_row(row)])
    }
}

impl Matcher for AroundMatcher {
    fn series(&self) -> [&[Series]; 2] {
        [self.left.series(), self.right.series()]
    }

    fn readers(&self) -> [&PieceReader; 2] {
        [self.left.reader.pieces(), self.right.reader.pieces()]
    }

    fn run(&self, task: &Task, held: &MemoryReservation) -> Result<(Vec<TaskRows>, Read)> {
        let (mut matched, read) = self.read(task)?;
        let numbers = matched.left.numbers.take();
        held.try_grow(matched.left.size() + matched.right.size())?;
        let joined = self.shape.join(matched)?;
        Ok((vec![TaskRows::Lazy(Box::new(OfTask { joined, shape: self.shape.clone(), numbers }))], read))
    }
}

/// Windows whose starts ascend, those that overlap or meet made one.
fn disjoint(windows: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (from, to) in windows {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}
