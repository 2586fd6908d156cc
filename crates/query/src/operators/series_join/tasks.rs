//! Series by series: which series of one side is which of the other, how the work is cut, and the rows of a
//! task.

use super::node::Kind;
use super::rows::{Matched, SideRows};
use crate::operators::asof::by_series::{SEARCH_RATIO, Side, Sides, sample, stretches, translate};
use crate::scan::{Series, SeriesPiece, SeriesReader};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{HashMap, Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{SymbolId, TimeRange};

/// A task begins anew at most so many times for the rows it should have.
const SAMPLES: usize = 4;

/// The series of both sides with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    left: Option<usize>,
    right: Option<usize>,
}

/// Work of bounded size: the left rows of some pairs in a stretch of time, and those of both sides of a splice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pairs: Range<usize>,
    time: TimeRange,
}

/// Reads the series of one side.
#[derive(Debug)]
struct SideReader {
    reader: SeriesReader,
    /// The columns of the input as columns that the reader yields.
    columns: Vec<usize>,
    /// Where its time is.
    time: usize,
    schema: SchemaRef,
}

/// A join by series: what is read of each side, and its tasks.
#[derive(Debug)]
pub(super) struct Plan {
    left: SideReader,
    right: SideReader,
    pairs: Vec<Pair>,
    kind: Kind,
    pub(super) tasks: Vec<Task>,
}

/// What a task has read, in rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Read {
    pub(super) left: usize,
    pub(super) right: usize,
}

impl SideReader {
    fn new(side: &Side, time: &Arc<dyn PhysicalExpr>, schema: SchemaRef) -> Result<Self> {
        let reader = SeriesReader::new(&side.scan, &side.keys)?;
        let reader = reader.ok_or_else(|| internal_datafusion_err!("keys are not of the series key"))?;
        let place = |column: &usize| side.scan.projection().iter().position(|of| of == column);
        let columns = side.columns.iter().map(place).collect::<Option<_>>();
        let columns = columns.ok_or_else(|| internal_datafusion_err!("a column that the scan lacks"))?;
        let time = time.downcast_ref::<Column>().map(Column::index);
        let time = time.ok_or_else(|| internal_datafusion_err!("series by a time that is no column"))?;
        Ok(Self { reader, columns, time, schema })
    }

    fn series(&self) -> &[Series] {
        self.reader.series()
    }

    fn rows(&self, series: Option<usize>) -> usize {
        series.map_or(0, |at| self.series()[at].rows)
    }

    fn read(&self, series: &[Series]) -> Result<SideRows> {
        let read = self.reader.read_series(series)?;
        let columns: Vec<_> = self.columns.iter().map(|at| Arc::clone(read.batch.column(*at))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(read.batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let times = batch.column(self.time).as_primitive::<TimestampNanosecondType>().values().clone();
        Ok(SideRows { batch, times, ends: read.ends })
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

impl Plan {
    /// The plan of a join of `kind` over two sides, in tasks of about `task_rows` rows.
    pub(super) fn new(
        sides: &Sides,
        times: &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
        schemas: (SchemaRef, SchemaRef),
        kind: &Kind,
        task_rows: usize,
    ) -> Result<Self> {
        let left = SideReader::new(&sides.left, &times.0, schemas.0)?;
        let right = SideReader::new(&sides.right, &times.1, schemas.1)?;
        let pairs = pairs(sides, left.series(), right.series(), *kind == Kind::Splice);
        let mut plan = Self { left, right, pairs, kind: kind.clone(), tasks: Vec::new() };
        plan.tasks = plan.cut(task_rows.max(1))?;
        Ok(plan)
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let series = self.left.series().iter().chain(self.right.series());
        series.map(Series::size).sum::<usize>() + self.tasks.len() * size_of::<Task>()
    }

    /// Whether a pair's right rows are searched, not read as a whole.
    fn is_searched(&self, left: usize, right: usize) -> bool {
        self.kind != Kind::Splice && right / SEARCH_RATIO > left
    }

    /// All pairs in tasks of about `task_rows` rows, those of the result counted too.
    fn cut(&self, task_rows: usize) -> Result<Vec<Task>> {
        let mut tasks: Vec<Task> = Vec::new();
        let (mut first, mut open) = (0, 0);
        let task = |pairs: Range<usize>| Task { pairs, time: TimeRange::ALL };
        for (at, pair) in self.pairs.iter().enumerate() {
            let (left, right) = (self.left.rows(pair.left), self.right.rows(pair.right));
            let searched = self.is_searched(left, right);
            let weight = left * self.left_weight(searched) + if searched { 0 } else { right };
            if open > 0 && open + weight > task_rows {
                tasks.push(task(first..at));
                (first, open) = (at, 0);
            }
            if weight > 2 * task_rows {
                tasks.extend(self.stretches(at, searched, task_rows)?);
                first = at + 1;
            } else {
                open += weight.max(1);
            }
        }
        if open > 0 {
            tasks.push(task(first..self.pairs.len()));
        }
        Ok(tasks)
    }

    fn left_weight(&self, searched: bool) -> usize {
        self.kind.rows_per_left() + if searched { SEARCH_RATIO } else { 0 }
    }

    /// The tasks of one pair, by time: cut where samples of its times say that about enough rows lie between.
    fn stretches(&self, at: usize, searched: bool, task_rows: usize) -> Result<Vec<Task>> {
        let pair = self.pairs[at];
        let step = (task_rows / SAMPLES).max(1);
        let left_step = (step / self.left_weight(searched)).max(1);
        let mut samples = Vec::new();
        if let Some(left) = pair.left {
            sample(self.left.reader.pieces(), &self.left.series()[left], left_step, &mut samples)?;
        }
        if let Some(right) = pair.right.filter(|_| !searched) {
            sample(self.right.reader.pieces(), &self.right.series()[right], step, &mut samples)?;
        }
        samples.sort_unstable();
        let mut edges = vec![TimeRange::ALL.from];
        edges.extend(samples.into_iter().skip(SAMPLES - 1).step_by(SAMPLES));
        edges.push(TimeRange::ALL.to);
        edges.dedup();
        let task = |edge: &[i64]| Task { pairs: at..at + 1, time: TimeRange::new(edge[0], edge[1]) };
        Ok(edges.windows(2).map(task).collect())
    }

    /// The rows of a task.
    pub(super) fn read(&self, task: &Task) -> Result<(Matched, Read)> {
        let splice = self.kind == Kind::Splice;
        let pairs = &self.pairs[task.pairs.clone()];
        let last = if task.time.to == TimeRange::ALL.to { i64::MAX } else { task.time.to - 1 };
        let time = [(task.time.from, last)];
        let left = pairs.iter().map(|pair| self.left.within(pair.left, &time, splice));
        let left = self.left.read(&left.collect::<Result<Vec<_>>>()?)?;
        let (low, high) = self.kind.reach();
        let mut start = 0;
        let right = pairs.iter().zip(&left.ends).map(|(pair, end)| {
            let times = &left.times[std::mem::replace(&mut start, *end)..*end];
            if splice {
                return self.right.within(pair.right, &time, true);
            }
            let window = |from: &i64, to: &i64| (from.saturating_add(low), to.saturating_add(high));
            let windows = match (times.first(), times.last()) {
                (Some(first), Some(last)) => {
                    match self.is_searched(times.len(), self.right.rows(pair.right)) {
                        true => disjoint(times.iter().map(|time| window(time, time))),
                        false => vec![window(first, last)],
                    }
                }
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

/// The left series with their right ones, and where `full` the right ones without any, in the order of the
/// side with more rows, so that what its neighbours share is decoded once.
fn pairs(sides: &Sides, left: &[Series], right: &[Series], full: bool) -> Vec<Pair> {
    let by_ids: HashMap<&[SymbolId], usize> =
        right.iter().enumerate().map(|(at, series)| (&series.ids[..], at)).collect();
    let partner = |series: &Series| by_ids.get(&*translate(sides, &series.ids)?).copied();
    let each = left.iter().enumerate();
    let mut pairs: Vec<Pair> =
        each.map(|(left, series)| Pair { left: Some(left), right: partner(series) }).collect();
    if full {
        let mut met = vec![false; right.len()];
        pairs.iter().filter_map(|pair| pair.right).for_each(|right| met[right] = true);
        let alone = met.iter().enumerate().filter(|(_, met)| !**met);
        pairs.extend(alone.map(|(right, _)| Pair { left: None, right: Some(right) }));
    }
    let rows = |series: &[Series]| series.iter().map(|series| series.rows).sum::<usize>();
    if rows(right) > rows(left) {
        pairs.sort_by_key(|pair| pair.right.unwrap_or(usize::MAX));
    }
    pairs
}
