//! Rows series by series, each in order of time: what operators read that work on one series at a time.
//!
//! A *task* is a stretch of neighbouring series with about so many rows, or a stretch of one that has more.
//! Its rows lie in many segments, a few of each: every segment is read once a task, and the pieces of each
//! series are then copied next to each other, where they did not come out so. Where segments overlap in time,
//! a series whose rows are not in order is sorted, ties in order of arrival.

use super::condition::Test;
use super::exec::ScanExec;
use super::pieces::{PieceReader, PlacedPiece, SegmentRows, by_segment};
use super::selected::Selected;
use super::series::{Series, SeriesPiece, SeriesRanges};
use super::series_order::SeriesOrder;
use crate::error::from_arrow;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, UInt32Array, make_array, new_empty_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::TimestampNanosecondType;
use datafusion::common::{Result, internal_datafusion_err};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// Rows that must lie together, on average, for copying ranges to be quicker than picking rows.
const COPY_ROWS_MIN: usize = 4;

/// Units that a task of a series that is cut is made of: what one needs of another is read in whole units.
const UNITS: usize = 16;

/// Reads what a scan selects by series.
#[derive(Debug)]
pub(crate) struct SeriesReader {
    /// The columns whose ids it does not read make a series here.
    pieces: PieceReader,
    series: Vec<Series>,
    /// Whether the keys are the whole series key: if not, pieces of one segment may overlap in time.
    whole_key: bool,
    /// Whether the pieces of a series follow each other in time.
    in_order: bool,
    /// What rows must fulfil.
    test: Option<Test>,
}

/// Rows to be read together.
#[derive(Debug)]
pub(crate) struct SeriesTask {
    of: TaskRows,
    /// How many.
    pub(crate) rows: usize,
    /// Those of them that the task is about: the others are read for what they say about these.
    pub(crate) kept: Range<usize>,
}

#[derive(Debug)]
enum TaskRows {
    /// All of some neighbouring series.
    Whole(Range<usize>),
    /// Some of one.
    Cut(Series),
}

/// How far from a row others may lie that it cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reach {
    /// Rows before it.
    pub(crate) before: usize,
    /// Rows after it.
    pub(crate) after: usize,
}

/// Rows of some series, one series after the other, each in order of time.
#[derive(Debug)]
pub(crate) struct SeriesRows {
    /// The rows.
    pub(crate) batch: RecordBatch,
    /// Where each series ends.
    pub(crate) ends: Vec<usize>,
}

/// Adjacent rows of one of the arrays that were read.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    source: usize,
    from: usize,
    rows: usize,
}

impl SeriesReader {
    /// A reader of what `scan` selects, by the columns `keys` of the table; `None` where they are not of its
    /// series key, or the table has no designated timestamp.
    pub(crate) fn new(scan: &ScanExec, keys: &[usize]) -> Result<Option<Self>> {
        let selected = scan.selected();
        if selected.table.schema().timestamp().is_none() {
            return Ok(None);
        }
        let Some(found) = SeriesRanges::of(selected, keys)? else { return Ok(None) };
        let pieces = PieceReader::new(scan, scan.projection(), keys, scan.row_schema())?;
        Ok(Some(Self { test: scan.test()?, ..Self::of(pieces, found.series) }))
    }

    /// A reader of series that are found, of the rows that are wanted; `pieces` knows the ids of what makes them.
    pub(crate) fn of(pieces: PieceReader, series: Vec<Series>) -> Self {
        let selected = pieces.selected();
        let key = selected.table.schema().series();
        let whole_key = key.iter().all(|column| pieces.keys().contains(column));
        let in_order = whole_key && in_order(selected);
        Self { pieces, series, whole_key, in_order, test: None }
    }

    /// Puts the series in an order of their ids, which are in the order of the keys.
    pub(super) fn sort_series(&mut self, compare: impl Fn(&[SymbolId], &[SymbolId]) -> Ordering) {
        self.series.sort_by(|a, b| compare(&a.ids, &b.ids));
    }

    /// Puts the series in an order by symbols of its keys.
    pub(crate) fn sort_by(&mut self, order: &SeriesOrder, scan: &ScanExec) {
        let table = &scan.selected().table;
        let places = order.places_in(self.pieces.keys());
        let of = |ids: &[SymbolId]| places.iter().map(|place| ids[*place]).collect::<Vec<SymbolId>>();
        self.sort_series(|a, b| order.compare(table, &of(a), &of(b)));
    }

    /// All series in tasks of about `rows` rows. One that has more is cut where it can be, if no row needs
    /// others that are further away than `reach`; each cut then comes with the rows around it that it needs.
    pub(crate) fn tasks(&self, rows: usize, reach: Option<Reach>) -> Vec<SeriesTask> {
        let reach = reach.filter(|reach| reach.before.saturating_add(reach.after) <= rows);
        let mut tasks: Vec<SeriesTask> = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            if let Some(reach) = reach.filter(|_| series.rows > rows) {
                tasks.extend(self.cut(series, rows, reach));
                continue;
            }
            match tasks.last_mut() {
                Some(SeriesTask { of: TaskRows::Whole(whole), rows: held, kept })
                    if whole.end == index && *held + series.rows <= rows =>
                {
                    whole.end = index + 1;
                    *held += series.rows;
                    kept.end = *held;
                }
                _ => {
                    let of = TaskRows::Whole(index..index + 1);
                    tasks.push(SeriesTask { of, rows: series.rows, kept: 0..series.rows });
                }
            }
        }
        tasks
    }

    /// All series in tasks of about `rows` rows; those of a series that has more are together, in order of time:
    /// for who must know what came before.
    pub(crate) fn chains(&self, rows: usize) -> Vec<Vec<SeriesTask>> {
        let mut chains: Vec<Vec<SeriesTask>> = Vec::new();
        for task in self.tasks(rows, Some(Reach::default())) {
            let last = chains.last_mut().filter(|chain| {
                let last = chain.last().map(|last| &last.of);
                matches!((&task.of, last), (TaskRows::Cut(next), Some(TaskRows::Cut(last))) if next.ids == last.ids)
            });
            match last {
                Some(chain) => chain.push(task),
                None => chains.push(vec![task]),
            }
        }
        chains
    }

    /// One series in tasks of about `rows` rows.
    fn cut(&self, series: &Series, rows: usize, reach: Reach) -> Vec<SeriesTask> {
        let units = self.units(&series.pieces, rows);
        let sizes: Vec<usize> = units.iter().map(|unit| count(unit)).collect();
        let mut tasks = Vec::new();
        let mut next = 0;
        while next < units.len() {
            let first = next;
            let mut kept = 0;
            while next < units.len() && (next == first || kept + sizes[next] <= rows) {
                kept += sizes[next];
                next += 1;
            }
            let before = short_of(sizes[..first].iter().rev(), reach.before);
            let after = short_of(sizes[next..].iter(), reach.after);
            let pieces: Vec<SeriesPiece> = units[first - before..next + after].concat();
            let rows = count(&pieces);
            let skipped: usize = sizes[first - before..first].iter().sum();
            let of = TaskRows::Cut(Series { ids: series.ids.clone(), pieces, rows });
            tasks.push(SeriesTask { of, rows, kept: skipped..skipped + kept });
        }
        tasks
    }

    /// The pieces of a series in units that follow each other in time, of at most about `rows` rows where
    /// they do not overlap.
    fn units(&self, pieces: &[SeriesPiece], rows: usize) -> Vec<Vec<SeriesPiece>> {
        let times = |piece: &SeriesPiece| self.pieces.bounds(piece.segment);
        // Two pieces of one series in one segment follow each other whatever its bounds are.
        let same_as_next = |at: usize| {
            self.whole_key && pieces.get(at + 1).is_some_and(|next| next.segment == pieces[at].segment)
        };
        let mut first_after = vec![i64::MAX; pieces.len() + 1];
        for (at, piece) in pieces.iter().enumerate().rev() {
            let same = same_as_next(at);
            first_after[at] =
                if same { first_after[at + 1] } else { first_after[at + 1].min(times(piece).0) };
        }
        let mut units = Vec::new();
        let (mut unit, mut last) = (Vec::new(), i64::MIN);
        for (at, piece) in pieces.iter().enumerate() {
            last = last.max(times(piece).1);
            unit.push(piece.clone());
            if !same_as_next(at) && last <= first_after[at + 1] {
                let unit = std::mem::take(&mut unit);
                let follow = unit.len() == 1
                    || self.whole_key && unit.iter().all(|other| other.segment == piece.segment);
                match follow {
                    true => units.append(&mut split(unit, rows.div_ceil(UNITS).max(1))),
                    false => units.push(unit),
                }
            }
        }
        units.extend((!unit.is_empty()).then_some(unit));
        units
    }

    /// The rows of a task.
    pub(crate) fn read(&self, task: &SeriesTask) -> Result<SeriesRows> {
        self.read_series(match &task.of {
            TaskRows::Whole(series) => &self.series[series.clone()],
            TaskRows::Cut(series) => std::slice::from_ref(series),
        })
    }

    /// All series, in order of their ids.
    pub(crate) fn series(&self) -> &[Series] {
        &self.series
    }

    /// What reads pieces of them.
    pub(crate) fn pieces(&self) -> &PieceReader {
        &self.pieces
    }

    /// The rows of some series, or of what is left of them, each in the order of its pieces.
    pub(crate) fn read_series(&self, series: &[Series]) -> Result<SeriesRows> {
        let pieces = series.iter().flat_map(|series| &series.pieces);
        let (mut lists, mut places) = by_segment(pieces.map(|piece| (piece.segment, &piece.rows)));
        if let Some(test) = &self.test {
            keep_tested(&self.pieces, test, &mut lists, &mut places)?;
        }
        if lists.is_empty() {
            let columns = self.pieces.types().iter().map(new_empty_array).collect();
            return Ok(SeriesRows { batch: self.pieces.batch(columns, 0)?, ends: vec![0; series.len()] });
        }
        let mut stretches = Vec::with_capacity(places.len());
        for place in &places {
            push(
                &mut stretches,
                Stretch { source: place.list, from: place.rows.start, rows: place.rows.len() },
            );
        }
        let mut ends = Vec::with_capacity(series.len());
        let (mut end, mut left) = (0, places.iter());
        for series in series {
            end += left.by_ref().take(series.pieces.len()).map(|place| place.rows.len()).sum::<usize>();
            ends.push(end);
        }
        let column = |column: usize, stretches: &[Stretch]| {
            let arrays = lists.iter().map(|list| self.pieces.column(list, column));
            join(&arrays.collect::<Result<Vec<_>>>()?, stretches, end)
        };
        if !self.in_order {
            let times = column(self.pieces.timestamp(), &stretches)?;
            let times = times.as_primitive::<TimestampNanosecondType>().values();
            stretches = by_time(stretches, times, &ends);
        }
        let key = |of: usize| self.pieces.keys().iter().position(|key| *key == of);
        let columns = self.pieces.column_indices().map(|of| match key(of) {
            Some(key) => Ok(repeated(series, key, &ends)),
            None => column(of, &stretches),
        });
        let batch = self.pieces.batch(columns.collect::<Result<_>>()?, end)?;
        Ok(SeriesRows { batch, ends })
    }
}

/// Leaves those rows of lists, and of the places in them, that fulfil a condition.
fn keep_tested(
    pieces: &PieceReader,
    test: &Test,
    lists: &mut [SegmentRows],
    places: &mut [PlacedPiece],
) -> Result<()> {
    let mut before = Vec::with_capacity(lists.len());
    for list in lists {
        let (left, rows_before) = list.tested(test, pieces.segment(list.segment))?;
        *list = left;
        before.push(rows_before);
    }
    for place in places {
        let before = &before[place.list];
        place.rows = before[place.rows.start]..before[place.rows.end];
    }
    Ok(())
}

/// Rows of all pieces.
fn count(pieces: &[SeriesPiece]) -> usize {
    pieces.iter().map(|piece| piece.rows.len()).sum()
}

/// How many of the units it takes for so many rows, if there are as many.
fn short_of<'a>(units: impl Iterator<Item = &'a usize>, rows: usize) -> usize {
    let mut held = 0;
    let enough = units.take_while(|unit| {
        let more = held < rows;
        held += **unit;
        more
    });
    enough.count()
}

/// Pieces that follow each other in units of at most `rows` rows.
fn split(pieces: Vec<SeriesPiece>, rows: usize) -> Vec<Vec<SeriesPiece>> {
    let cut = |SeriesPiece { segment, rows: of }| {
        let starts = (0..of.len()).step_by(rows);
        starts.map(move |from| vec![SeriesPiece { segment, rows: of.slice(from..of.len().min(from + rows)) }])
    };
    pieces.into_iter().flat_map(cut).collect()
}

/// Whether each segment begins, in time, no earlier than the one ahead of it ends.
fn in_order(selected: &Selected) -> bool {
    let mut last = i64::MIN;
    selected.segments.iter().filter(|segment| segment.row_count() > 0).all(|segment| {
        let Some((first, end)) = selected.times(segment) else { return false };
        let follows = last <= first;
        last = end;
        follows
    })
}

/// Adds rows, to the last stretch where they follow that.
fn push(stretches: &mut Vec<Stretch>, next: Stretch) {
    match stretches.last_mut() {
        Some(last) if last.source == next.source && last.from + last.rows == next.from => {
            last.rows += next.rows;
        }
        _ => stretches.push(next),
    }
}

/// The stretches with the rows of each series in order of time, equal times as they came.
fn by_time(stretches: Vec<Stretch>, times: &[i64], ends: &[usize]) -> Vec<Stretch> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let unsorted = |(start, end): (usize, &usize)| !times[start..*end].is_sorted();
    if !starts.clone().zip(ends).any(unsorted) {
        return stretches;
    }
    let rows: Vec<(usize, usize)> = each_row(&stretches).collect();
    let mut sorted = Vec::with_capacity(stretches.len());
    let mut order = Vec::new();
    for (start, &end) in starts.zip(ends) {
        order.clear();
        order.extend(start..end);
        order.sort_by_key(|row| times[*row]);
        for row in &order {
            push(&mut sorted, Stretch { source: rows[*row].0, from: rows[*row].1, rows: 1 });
        }
    }
    sorted
}

/// Array and place in it of each row.
fn each_row(stretches: &[Stretch]) -> impl Iterator<Item = (usize, usize)> {
    stretches.iter().flat_map(|of| (of.from..of.from + of.rows).map(|row| (of.source, row)))
}

/// The stretches of the arrays, one after the other.
fn join(arrays: &[ArrayRef], stretches: &[Stretch], rows: usize) -> Result<ArrayRef> {
    match stretches {
        [only] => return Ok(arrays[only.source].slice(only.from, only.rows)),
        _ if rows < COPY_ROWS_MIN * stretches.len() => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            let rows: Vec<(usize, usize)> = each_row(stretches).collect();
            return interleave(&arrays, &rows).map_err(from_arrow);
        }
        _ => {}
    }
    let data: Vec<_> = arrays.iter().map(|array| array.to_data()).collect();
    let mut joined = MutableArrayData::new(data.iter().collect(), false, rows);
    for of in stretches {
        joined
            .try_extend(of.source, of.from, of.from + of.rows)
            .map_err(|error| internal_datafusion_err!("rows of a series cannot be joined: {error}"))?;
    }
    Ok(make_array(joined.freeze()))
}

/// The id that each series has in one of the keys, on all its rows.
fn repeated(series: &[Series], key: usize, ends: &[usize]) -> ArrayRef {
    let mut ids = Vec::with_capacity(ends.last().copied().unwrap_or(0));
    for (series, end) in series.iter().zip(ends) {
        // One without rows may be one without a key.
        if *end > ids.len() {
            ids.resize(*end, series.ids[key]);
        }
    }
    let missing = ids.contains(&NULL_SYMBOL);
    let nulls = missing.then(|| NullBuffer::from_iter(ids.iter().map(|id| *id != NULL_SYMBOL)));
    if missing {
        // What adds to ids of symbols, as joining dictionaries does, may look below NULLs too.
        ids.iter_mut().filter(|id| **id == NULL_SYMBOL).for_each(|id| *id = 0);
    }
    Arc::new(UInt32Array::new(ids.into(), nulls))
}
