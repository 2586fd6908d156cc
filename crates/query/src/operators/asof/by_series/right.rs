//! The right side of a join by series: which rows of a series may stand, and those that do as its input yields them.

use super::standing::{Found, Looks, Source, Standing, Stretch};
use crate::arrays::gather::MISSING;
use crate::arrays::pinned::Place;
use crate::dialect::marker::Direction;
use crate::operators::asof::node::AsOfOptions;
use crate::operators::joins::exec::{AsOf, TimeJoinExec};
use crate::operators::joins::{Made, Overlap, Side, stretches};
use crate::scan::{PieceReader, Series, SeriesPiece};
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::concat;
use datafusion::common::{HashMap, Result};
use std::sync::Arc;

/// Rows of right segments that may stand and overlap in time.
type Candidates = Overlap<SeriesPiece>;

/// The right rows that were found, by segment in the order they are needed.
#[derive(Default)]
pub(super) struct Wanted {
    segments: Vec<(usize, Vec<usize>)>,
    places: HashMap<usize, usize>,
    /// The segment of the last row, and its place.
    last: Option<(usize, usize)>,
}

impl Wanted {
    pub(super) fn add(&mut self, found: &Found) -> Place {
        let at = match self.last {
            Some((segment, at)) if segment == found.segment => at,
            _ => {
                let next = self.segments.len();
                let at = *self.places.entry(found.segment).or_insert(next);
                if at == next {
                    self.segments.push((found.segment, Vec::new()));
                }
                self.last = Some((found.segment, at));
                at
            }
        };
        let rows = &mut self.segments[at].1;
        rows.push(found.row);
        (at, rows.len() - 1)
    }
}

/// The right side of a join.
#[derive(Debug)]
pub(super) struct Right {
    reader: PieceReader,
    /// What is made of the columns that are read.
    made: Option<Made>,
    pub(super) series: Vec<Series>,
    options: AsOfOptions,
}

impl Right {
    /// The right side of `join`, whose series are found.
    pub(super) fn new(join: &TimeJoinExec, of: &AsOf, side: &Side, series: Vec<Series>) -> Result<Self> {
        let schema = Arc::new(join.right_schema().project(&of.right_columns)?);
        let (reader, made) = side.reader(&of.right_columns, &[], (schema, false))?;
        Ok(Self { reader, made, series, options: of.options })
    }

    /// Reads its columns.
    pub(super) fn reader(&self) -> &PieceReader {
        &self.reader
    }

    /// The rows of a series that may stand for left rows between two times (both inside), which are counted.
    pub(super) fn standing<'a>(
        &'a self,
        series: usize,
        bounds: (i64, i64),
        search: &mut Search<'a>,
    ) -> Standing<'a> {
        let candidates = self.candidates(&self.series[series], bounds);
        let pieces = candidates.iter().flat_map(|stretch| &stretch.pieces);
        search.candidates += pieces.map(|piece| piece.rows.len()).sum::<usize>();
        let source =
            |piece: SeriesPiece| Source::new(piece.segment, self.reader.segment(piece.segment), piece.rows);
        let stretches = candidates
            .into_iter()
            .map(|stretch| Stretch::new(stretch.bounds.0, stretch.pieces.into_iter().map(source).collect()));
        Standing::new(stretches.collect())
    }

    /// How many rows were read for what was found.
    pub(super) fn rows_read(&self, search: &Search<'_>) -> usize {
        // Blocks hold rows of other series too.
        let segments = search.wanted.segments.iter();
        let in_runs = segments.filter(|(segment, _)| !self.reader.segment(*segment).is_part());
        let in_runs: usize = in_runs.map(|(_, rows)| rows.len()).sum();
        search.looks.rows_decoded().min(search.candidates) + in_runs
    }

    /// The right rows that are wanted, as the right input yields them.
    pub(super) fn take(&self, wanted: &Wanted) -> Result<Taken> {
        let rows = wanted.segments.iter().map(|(segment, rows)| self.reader.take(*segment, rows));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let columns = self.reader.types().iter().enumerate().map(|(at, data_type)| {
            let arrays: Vec<&dyn Array> = rows.iter().map(|columns| columns[at].as_ref()).collect();
            Ok(if arrays.is_empty() { new_null_array(data_type, 0) } else { concat(&arrays)? })
        });
        let columns = self.reader.edge(columns.collect::<Result<_>>()?)?;
        let count = wanted.segments.iter().map(|(_, rows)| rows.len()).sum();
        let columns = made(self.made.as_ref(), columns, count)?;
        let mut start = 0;
        let starts = wanted.segments.iter().map(|(_, rows)| {
            start += rows.len();
            (start - rows.len()) as u64
        });
        Ok(Taken { columns, starts: starts.collect() })
    }

    /// The rows of a right series that may stand for left rows between two times (both inside).
    fn candidates(&self, series: &Series, (first, last): (i64, i64)) -> Vec<Candidates> {
        let pieces = series.pieces.iter().map(|piece| (self.reader.bounds(piece.segment), piece.clone()));
        let mut stretches = stretches(pieces.collect(), |piece| piece.segment);
        let ended = |time: i64| stretches.partition_point(|stretch| stretch.bounds.1 < time);
        let begun = |time: i64| stretches.partition_point(|stretch| stretch.bounds.0 <= time);
        // Of what ends before the left rows begin only the last may stand, of what begins after they end the first.
        let (earlier, later) = match self.options.direction {
            Direction::Backward => (1, 0),
            Direction::Forward => (0, 1),
            Direction::Nearest => (1, 1),
        };
        let (oldest, newest) = self.options.tolerance.map_or((i64::MIN, i64::MAX), |tolerance| {
            (first.saturating_sub(tolerance), last.saturating_add(tolerance))
        });
        let from = ended(first).saturating_sub(earlier).max(ended(oldest));
        let to = begun(last).saturating_add(later).min(begun(newest));
        stretches.truncate(to);
        stretches.drain(..from.min(to));
        stretches
    }
}

/// What is looked at and found for some left rows.
#[derive(Default)]
pub(super) struct Search<'a> {
    pub(super) wanted: Wanted,
    pub(super) looks: Looks<'a>,
    candidates: usize,
}

/// What an input makes of the columns that are read of its table.
pub(super) fn made(made: Option<&Made>, read: Vec<ArrayRef>, rows: usize) -> Result<Vec<ArrayRef>> {
    match made {
        Some(made) => made.of(read, rows),
        None => Ok(read),
    }
}

/// The right rows of a task, by segment in the order they are wanted.
pub(super) struct Taken {
    pub(super) columns: Vec<ArrayRef>,
    /// Where those of each segment begin.
    starts: Vec<u64>,
}

impl Taken {
    /// The places as numbers of rows, NULL where there is none.
    pub(super) fn numbers(&self, places: &[Place]) -> UInt64Array {
        let number = |place: &Place| self.starts.get(place.0).map_or(0, |start| start + place.1 as u64);
        let numbers: Vec<u64> = places.iter().map(number).collect();
        let missing = places.iter().any(|place| place.0 == MISSING);
        let nulls = missing.then(|| places.iter().map(|place| place.0 != MISSING).collect::<NullBuffer>());
        UInt64Array::new(numbers.into(), nulls)
    }
}
