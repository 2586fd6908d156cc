//! Which series of one side is which of the other, and how the work is cut.

use super::exec::{Matching, TimeJoinExec};
use super::order::TaskRows;
use super::sides::{Side, Sides};
use crate::operators::asof::by_series::AsOfMatcher;
use crate::operators::series_join::tasks::AroundMatcher;
use crate::scan::{PieceReader, Series, SeriesFinder, WantedSeries};
use datafusion::common::{HashMap, Result, internal_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tickstone_model::{NULL_SYMBOL, SymbolId, TimeRange};

/// A task begins anew at most so many times for the rows it should have.
const SAMPLES: usize = 4;

/// A left row costs at most as much as so many right rows that are read: a block has more, and one of it may
/// be all that is needed.
const SEARCH_RATIO: usize = 32;

/// Whether so many right rows are searched for the left ones, not read as a whole.
pub(in crate::operators) fn is_searched(left: usize, right: usize) -> bool {
    right / SEARCH_RATIO > left
}

/// The series of both sides with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operators) struct Pair {
    pub(in crate::operators) left: Option<usize>,
    pub(in crate::operators) right: Option<usize>,
}

/// Work of bounded size: the left rows of some pairs in a stretch of time, and those of both sides of a splice.
#[derive(Debug, Clone)]
pub(in crate::operators) struct Task<'a> {
    pub(in crate::operators) pairs: &'a [Pair],
    pub(in crate::operators) time: TimeRange,
}

/// What a task has read, in rows.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operators) struct Read {
    pub(in crate::operators) left: usize,
    pub(in crate::operators) right: usize,
}

/// Makes the rows of tasks: what the joins differ in.
pub(in crate::operators) trait Matcher: Debug + Send + Sync {
    /// The series of the left and of the right side.
    fn series(&self) -> [&[Series]; 2];

    /// What reads pieces of them.
    fn readers(&self) -> [&PieceReader; 2];

    /// The joined rows of a task, and how many rows were read for them. What it holds beside its result is claimed of
    /// `held`.
    fn run(&self, task: &Task, held: &MemoryReservation) -> Result<(Vec<TaskRows>, Read)>;
}

/// Finds the series of both sides: what several do together before there is a plan.
#[derive(Debug)]
pub(super) struct Finders {
    left: SeriesFinder,
    right: SeriesFinder,
    /// Whether right series are of use without a left one.
    all: bool,
    /// The series of the left side until they are asked for, and those of the right that these need.
    of_left: OnceLock<Result<OfLeft, Arc<DataFusionError>>>,
}

/// See [`Finders::of_left`].
type OfLeft = (Mutex<Vec<Series>>, WantedSeries);

impl Finders {
    pub(super) fn new(sides: &Sides, matching: &Matching) -> Result<Self> {
        let finder = |side: &Side| SeriesFinder::new(&side.scan, &side.keys);
        let (left, right) = (finder(&sides.left)?, finder(&sides.right)?);
        Ok(Self { left, right, all: matching.is_splice(), of_left: OnceLock::new() })
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
        self.right.help((!self.all).then_some(wanted));
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

/// A join by series: what is read of each side, and its tasks.
#[derive(Debug)]
pub(super) struct Plan {
    matcher: Box<dyn Matcher>,
    pairs: Vec<Pair>,
    tasks: Vec<Cut>,
    /// How many rows come of one left row.
    rows_per_left: usize,
    /// Whether right rows count as left ones do.
    both: bool,
}

/// The pairs of a task, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    pairs: Range<usize>,
    time: TimeRange,
}

impl Plan {
    /// The plan of a join over two sides whose series are found, in tasks of about `task_rows` rows; where `arrival` is
    /// asked for, with what puts their rows in order of time.
    pub(super) fn new(
        join: &TimeJoinExec,
        sides: &Sides,
        finders: &Finders,
        (task_rows, arrival): (usize, bool),
    ) -> Result<Self> {
        let series = finders.series()?;
        let pairs = pairs(sides, (&series.0, &series.1), &join.matching);
        let matcher: Box<dyn Matcher> = match &join.matching {
            Matching::AsOf(of) => Box::new(AsOfMatcher::new(join, (of, arrival), sides, series)?),
            Matching::Around(shape) => Box::new(AroundMatcher::new(join, (shape, arrival), sides, series)?),
        };
        let (rows_per_left, both) = (join.matching.rows_per_left(), join.matching.is_splice());
        let mut plan = Self { matcher, pairs, tasks: Vec::new(), rows_per_left, both };
        plan.tasks = plan.cut(task_rows.max(1))?;
        Ok(plan)
    }

    /// A task, and what runs it; `None` past the last.
    pub(super) fn task(&self, at: usize) -> Option<(&dyn Matcher, Task<'_>)> {
        let Cut { pairs, time } = self.tasks.get(at)?;
        Some((self.matcher.as_ref(), Task { pairs: &self.pairs[pairs.clone()], time: *time }))
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let series = self.matcher.series().into_iter().flatten();
        series.map(Series::size).sum::<usize>() + self.tasks.len() * size_of::<Cut>()
    }

    /// Rows of the result, at most.
    pub(super) fn rows(&self) -> u64 {
        let [left, right] = self.matcher.series().map(|of| of.iter().map(|of| of.rows as u64).sum::<u64>());
        left.saturating_mul(self.rows_per_left as u64).saturating_add(if self.both { right } else { 0 })
    }

    /// Rows of the left and of the right series of a pair.
    fn rows_of(&self, pair: Pair) -> (usize, usize) {
        let [left, right] = self.matcher.series();
        let rows = |of: &[Series], at: Option<usize>| at.map_or(0, |at| of[at].rows);
        (rows(left, pair.left), rows(right, pair.right))
    }

    /// All pairs in tasks of about `task_rows` rows, those of the result counted too.
    fn cut(&self, task_rows: usize) -> Result<Vec<Cut>> {
        let mut tasks: Vec<Cut> = Vec::new();
        let (mut first, mut open) = (0, 0);
        let task = |pairs: Range<usize>| Cut { pairs, time: TimeRange::ALL };
        for (at, pair) in self.pairs.iter().enumerate() {
            let (left, right) = self.rows_of(*pair);
            let searched = !self.both && is_searched(left, right);
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

    /// What a left row costs.
    fn left_weight(&self, searched: bool) -> usize {
        self.rows_per_left + if searched { SEARCH_RATIO } else { 0 }
    }

    /// The tasks of one pair, by time: cut where samples of its times say that about enough rows lie between.
    fn stretches(&self, at: usize, searched: bool, task_rows: usize) -> Result<Vec<Cut>> {
        let pair = self.pairs[at];
        let step = (task_rows / SAMPLES).max(1);
        let left_step = (step / self.left_weight(searched)).max(1);
        let ([left, right], [of_left, of_right]) = (self.matcher.series(), self.matcher.readers());
        let mut samples = Vec::new();
        if let Some(series) = pair.left {
            sample(of_left, &left[series], left_step, &mut samples)?;
        }
        if let Some(series) = pair.right.filter(|_| !searched) {
            sample(of_right, &right[series], step, &mut samples)?;
        }
        samples.sort_unstable();
        let mut edges = vec![TimeRange::ALL.from];
        edges.extend(samples.into_iter().skip(SAMPLES - 1).step_by(SAMPLES));
        edges.push(TimeRange::ALL.to);
        edges.dedup();
        let task = |edge: &[i64]| Cut { pairs: at..at + 1, time: TimeRange::new(edge[0], edge[1]) };
        Ok(edges.windows(2).map(task).collect())
    }
}

/// Adds the time of every `step`th row of a series.
fn sample(reader: &PieceReader, series: &Series, step: usize, samples: &mut Vec<i64>) -> Result<()> {
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
/// share is decoded once. An inner join leaves out those that have none; of a splice the right ones without any left
/// one are there too.
fn pairs(sides: &Sides, (left, right): (&[Series], &[Series]), matching: &Matching) -> Vec<Pair> {
    let by_ids: HashMap<&[SymbolId], usize> =
        right.iter().enumerate().map(|(at, series)| (&series.ids[..], at)).collect();
    let partner = |series: &Series| by_ids.get(&*translate(sides, &series.ids)?).copied();
    let each = left.iter().enumerate();
    let mut pairs: Vec<Pair> =
        each.map(|(left, series)| Pair { left: Some(left), right: partner(series) }).collect();
    if matching.is_inner() {
        pairs.retain(|pair| pair.right.is_some());
    }
    if matching.is_splice() {
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

/// The right side's ids of the symbols with these ids on the left; `None` where it has no such row, or one is
/// NULL.
fn translate(sides: &Sides, ids: &[SymbolId]) -> Option<Box<[SymbolId]>> {
    let keys = sides.left.keys.iter().zip(&sides.right.keys);
    let translated = ids.iter().zip(keys).map(|(id, (left, right))| {
        let dictionary = sides.left.scan.selected().table.dictionary(*left)?;
        let symbol = dictionary.symbol(*id).filter(|_| *id != NULL_SYMBOL)?;
        sides.right.scan.selected().table.dictionary(*right)?.id(&symbol)
    });
    translated.collect()
}
