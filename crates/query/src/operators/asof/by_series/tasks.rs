//! Which series of the left side is which of the right, and how the work is cut.

use super::right::Right;
use super::sides::{Made, Side, Sides};
use crate::operators::asof::exec::AsOfJoinExec;
use crate::operators::asof::node::AsOfOptions;
use crate::scan::{PieceReader, Series, SeriesFinder, WantedSeries};
use datafusion::common::{HashMap, Result, internal_datafusion_err};
use datafusion::error::DataFusionError;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tickstone_model::{NULL_SYMBOL, SymbolId, TimeRange};

/// A task begins anew at most so many times for the rows it should have.
const SAMPLES: usize = 4;

/// A left row costs at most as much as so many right rows that are read: a block has more, and one of it may
/// be all that is needed.
pub(in crate::operators) const SEARCH_RATIO: usize = 32;

/// A series of the left side, and the one of the right with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) left: usize,
    pub(super) right: Option<usize>,
}

/// Work of bounded size: the left rows of some pairs in a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pairs: Range<usize>,
    pub(super) time: TimeRange,
}

/// A join by series: what is read of each side, and its tasks.
#[derive(Debug)]
pub(in super::super) struct Plan {
    pub(super) left: PieceReader,
    /// What is made of the left columns that are read.
    pub(super) left_made: Option<Made>,
    pub(super) left_series: Vec<Series>,
    pub(super) right: Right,
    pub(super) pairs: Vec<Pair>,
    pub(super) tasks: Vec<Task>,
    pub(super) options: AsOfOptions,
}

/// Finds the series of both sides: what several do together before there is a plan.
#[derive(Debug)]
pub(super) struct Finders {
    left: SeriesFinder,
    right: SeriesFinder,
    /// The series of the left side until they are asked for, and those of the right that these need.
    of_left: OnceLock<Result<OfLeft, Arc<DataFusionError>>>,
}

/// See [`Finders::of_left`].
type OfLeft = (Mutex<Vec<Series>>, WantedSeries);

impl Finders {
    pub(super) fn new(sides: &Sides) -> Result<Self> {
        let finder = |side: &Side| SeriesFinder::new(&side.scan, &side.keys);
        Ok(Self { left: finder(&sides.left)?, right: finder(&sides.right)?, of_left: OnceLock::new() })
    }

    /// Bytes of what is found, at most; `None` where that is too much to be written down.
    pub(super) fn bytes(&self) -> Option<usize> {
        self.left.bytes()?.checked_add(self.right.bytes()?)
    }

    /// Takes part until all are found.
    pub(super) fn help(&self, sides: &Sides) -> Result<()> {
        self.left.help(None);
        let of_left = || {
            let series = self.left.series()?;
            let wanted = series.iter().filter_map(|series| translate(sides, &series.ids));
            let wanted = self.right.wanted(wanted);
            Ok((Mutex::new(series), wanted))
        };
        let of_left = self.of_left.get_or_init(|| of_left().map_err(Arc::new)).as_ref();
        let (_, wanted) = of_left.map_err(|error| DataFusionError::Shared(Arc::clone(error)))?;
        self.right.help(Some(wanted));
        Ok(())
    }

    /// The series of the left and of the right, for the first who asks.
    fn series(&self) -> Result<(Vec<Series>, Vec<Series>)> {
        let Some(Ok((left, _))) = self.of_left.get() else {
            return Err(internal_datafusion_err!("the series of a join were not found"));
        };
        let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((left, self.right.series()?))
    }
}

impl Plan {
    /// The plan of a join over two sides whose series are found, in tasks of about `task_rows` rows.
    pub(super) fn new(
        join: &AsOfJoinExec,
        sides: &Sides,
        finders: &Finders,
        task_rows: usize,
    ) -> Result<Self> {
        let Sides { left, right } = sides;
        let (left_series, right_series) = finders.series()?;
        let all: Vec<usize> = (0..join.left_schema().fields().len()).collect();
        let (left, left_made) = left.reader(&all, &left.keys, join.left_schema())?;
        let pairs = pairs(sides, &left_series, &right_series, join.options.inner);
        let right = Right::new(join, right, right_series)?;
        let (tasks, options) = (Vec::new(), join.options);
        let mut plan = Self { left, left_made, left_series, right, pairs, tasks, options };
        plan.tasks = plan.cut(task_rows.max(1))?;
        Ok(plan)
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let series = self.left_series.iter().chain(&self.right.series);
        series.map(Series::size).sum::<usize>() + self.tasks.len() * size_of::<Task>()
    }

    /// Rows of the right series of a pair.
    fn right_rows(&self, pair: Pair) -> usize {
        pair.right.map_or(0, |right| self.right.series[right].rows)
    }

    /// All pairs in tasks of about `task_rows` rows.
    fn cut(&self, task_rows: usize) -> Result<Vec<Task>> {
        let mut tasks: Vec<Task> = Vec::new();
        let (mut first, mut open) = (0, 0);
        let task = |pairs: Range<usize>| Task { pairs, time: TimeRange::ALL };
        for (at, pair) in self.pairs.iter().enumerate() {
            let (left, right) = (self.left_series[pair.left].rows, self.right_rows(*pair));
            let searched = right / SEARCH_RATIO > left;
            let weight = if searched { left * SEARCH_RATIO } else { left + right };
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

    /// The tasks of one pair, by time: cut where samples of its times say that about enough rows lie between.
    fn stretches(&self, at: usize, searched: bool, task_rows: usize) -> Result<Vec<Task>> {
        let pair = self.pairs[at];
        let step = (task_rows / SAMPLES).max(1);
        let left_step = if searched { (step / SEARCH_RATIO).max(1) } else { step };
        let mut samples = Vec::new();
        sample(&self.left, &self.left_series[pair.left], left_step, &mut samples)?;
        if let Some(right) = pair.right.filter(|_| !searched) {
            sample(self.right.reader(), &self.right.series[right], step, &mut samples)?;
        }
        samples.sort_unstable();
        let mut edges = vec![TimeRange::ALL.from];
        edges.extend(samples.into_iter().skip(SAMPLES - 1).step_by(SAMPLES));
        edges.push(TimeRange::ALL.to);
        edges.dedup();
        let task = |edge: &[i64]| Task { pairs: at..at + 1, time: TimeRange::new(edge[0], edge[1]) };
        Ok(edges.windows(2).map(task).collect())
    }
}

/// Adds the time of every `step`th row of a series.
pub(in crate::operators) fn sample(
    reader: &PieceReader,
    series: &Series,
    step: usize,
    samples: &mut Vec<i64>,
) -> Result<()> {
    let mut next = step;
    for piece in &series.pieces {
        let rows = &piece.rows;
        while next < rows.len() {
            samples.push(reader.time(piece.segment, rows.row(next))?);
            next += step;
        }
        next -= rows.len();
    }
    Ok(())
}

/// The left series with their right ones, in the order of the side with more rows, so that what its neighbours
/// share is decoded once; an inner join leaves out those that have none.
fn pairs(sides: &Sides, left: &[Series], right: &[Series], inner: bool) -> Vec<Pair> {
    let by_ids: HashMap<&[SymbolId], usize> =
        right.iter().enumerate().map(|(at, series)| (&series.ids[..], at)).collect();
    let partner = |series: &Series| by_ids.get(&*translate(sides, &series.ids)?).copied();
    let mut pairs: Vec<Pair> =
        left.iter().enumerate().map(|(left, series)| Pair { left, right: partner(series) }).collect();
    if inner {
        pairs.retain(|pair| pair.right.is_some());
    }
    let rows = |series: &[Series]| series.iter().map(|series| series.rows).sum::<usize>();
    if rows(right) > rows(left) {
        pairs.sort_by_key(|pair| pair.right.unwrap_or(usize::MAX));
    }
    pairs
}

/// The right side's ids of the symbols with these ids on the left; `None` where it has no such row, or one is
/// NULL.
pub(in crate::operators) fn translate(sides: &Sides, ids: &[SymbolId]) -> Option<Box<[SymbolId]>> {
    let keys = sides.left.keys.iter().zip(&sides.right.keys);
    let translated = ids.iter().zip(keys).map(|(id, (left, right))| {
        let dictionary = sides.left.scan.selected().table.dictionary(*left)?;
        let symbol = dictionary.symbol(*id).filter(|_| *id != NULL_SYMBOL)?;
        sides.right.scan.selected().table.dictionary(*right)?.id(&symbol)
    });
    translated.collect()
}
