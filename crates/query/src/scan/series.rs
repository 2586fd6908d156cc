//! Where the rows of each series lie among those a scan selects: what operators read that work series by
//! series (windows, as-of joins) instead of in the order of the segments.

use super::selected::Selected;
use crate::error::external;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::common::{HashMap, Result};
use std::ops::Range;
use tickstone_engine::Segment;
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// Rows of one series in one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesPiece {
    /// Index among the selected segments.
    pub(crate) segment: usize,
    /// Rows of it.
    pub(crate) rows: Rows,
}

/// Rows of one segment, ascending in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Adjacent ones, of a part.
    Range(Range<usize>),
    /// Listed ones, of a run or a part.
    Listed(ScalarBuffer<u32>),
}

impl Rows {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Range(rows) => rows.len(),
            Rows::Listed(rows) => rows.len(),
        }
    }

    /// The row at a place.
    pub(crate) fn row(&self, at: usize) -> usize {
        match self {
            Rows::Range(rows) => rows.start + at,
            Rows::Listed(rows) => rows[at] as usize,
        }
    }

    /// Those at some places.
    #[must_use]
    pub(crate) fn slice(&self, at: Range<usize>) -> Self {
        match self {
            Rows::Range(rows) => Rows::Range(rows.start + at.start..rows.start + at.end),
            Rows::Listed(rows) => Rows::Listed(rows.slice(at.start, at.len())),
        }
    }
}

/// The rows of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// Its ids, a key column each; [`NULL_SYMBOL`] for NULL.
    pub(crate) ids: Box<[SymbolId]>,
    /// Its pieces in the order of the segments: partitions in time, within one in order of arrival.
    pub(crate) pieces: Vec<SeriesPiece>,
    /// Rows in all of them.
    pub(crate) rows: usize,
}

impl Series {
    /// Bytes it holds, roughly.
    pub(crate) fn size(&self) -> usize {
        let listed = |piece: &SeriesPiece| match &piece.rows {
            Rows::Range(_) => 0,
            Rows::Listed(rows) => size_of_val(&rows[..]),
        };
        let pieces = self.pieces.capacity() * size_of::<SeriesPiece>();
        size_of::<Self>() + pieces + self.pieces.iter().map(listed).sum::<usize>()
    }
}

/// The series that a selection leaves, in order of their ids.
#[derive(Debug)]
pub(crate) struct SeriesRanges {
    /// All of them.
    pub(crate) series: Vec<Series>,
}

impl SeriesRanges {
    /// The rows by the columns `keys` of the table; `None` where one of them is not of its series key.
    ///
    /// Nothing is read of parts but their index; of runs, the ids.
    pub(crate) fn of(selected: &Selected, keys: &[usize]) -> Result<Option<Self>> {
        let series_key = selected.table.schema().series();
        let place = |key: &usize| series_key.iter().position(|column| column == key);
        let Some(places) = keys.iter().map(place).collect::<Option<Vec<usize>>>() else { return Ok(None) };
        let mut found = Found::default();
        for (segment, of) in selected.segments.iter().enumerate() {
            for (range, rows) in of.rows().iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
                let ids: Option<Box<[SymbolId]>> =
                    places.iter().map(|place| of.series_id(range, *place)).collect();
                match ids.filter(|_| of.is_part()) {
                    Some(ids) => {
                        found.add(ids, SeriesPiece { segment, rows: Rows::Range(rows.clone()) });
                    }
                    None => found.add_run(segment, of, keys, rows)?,
                }
            }
        }
        let mut series = found.series;
        series.sort_unstable_by(|a, b| a.ids.cmp(&b.ids));
        Ok(Some(Self { series }))
    }
}

/// Series as their pieces come.
#[derive(Default)]
pub(super) struct Found {
    series: Vec<Series>,
    by_ids: HashMap<Box<[SymbolId]>, usize>,
    /// The series met after the one met last: most segments have the same series in the same order.
    next: usize,
}

impl Found {
    fn of(&mut self, ids: Box<[SymbolId]>) -> &mut Series {
        let is_next = |at: usize| self.series.get(at).is_some_and(|series| series.ids == ids);
        let at = match [self.next, 0].into_iter().find(|at| is_next(*at)) {
            Some(at) => at,
            None => *self.by_ids.entry(ids.clone()).or_insert(self.series.len()),
        };
        if at == self.series.len() {
            self.series.push(Series { ids, pieces: Vec::new(), rows: 0 });
        }
        self.next = at + 1;
        &mut self.series[at]
    }

    /// Those that were met, in the order they were.
    pub(super) fn series(self) -> Vec<Series> {
        self.series
    }

    pub(super) fn add(&mut self, ids: Box<[SymbolId]>, piece: SeriesPiece) {
        let series = self.of(ids);
        series.rows += piece.rows.len();
        series.pieces.push(piece);
    }

    /// The rows of a run, which are of any series.
    fn add_run(&mut self, segment: usize, of: &Segment, keys: &[usize], rows: &Range<usize>) -> Result<()> {
        let columns = keys.iter().map(|key| of.read(*key, rows.clone()).map_err(external));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let mut listed: HashMap<Box<[SymbolId]>, Vec<u32>> = HashMap::new();
        let mut ids: Vec<SymbolId> = Vec::new();
        for row in 0..rows.len() {
            ids.clear();
            ids.extend(columns.iter().map(|ids| {
                let ids = ids.as_primitive::<UInt32Type>();
                if ids.is_null(row) { NULL_SYMBOL } else { ids.value(row) }
            }));
            let row = (rows.start + row) as u32;
            match listed.get_mut(&ids[..]) {
                Some(listed) => listed.push(row),
                None => {
                    listed.insert(ids.as_slice().into(), vec![row]);
                }
            }
        }
        for (ids, rows) in listed {
            self.add(ids, SeriesPiece { segment, rows: Rows::Listed(rows.into()) });
        }
        Ok(())
    }
}
