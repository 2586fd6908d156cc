//! Finds the rows of each series by any SYMBOL columns, of those rows only that fulfil a condition: what operators use that
//! work series by series where a series is not what the table's key says.
//!
//! ```text
//! units (ranges of one segment, many) -> bits of the condition -> ids of the keys that are not of the series key
//!   -> rows dealt out by them, a list for each range and key
//! ```

use super::columns::read_scattered;
use super::condition::{Test, kept};
use super::exec::ScanExec;
use super::selected::Selected;
use super::series::{Found, Rows, Series, SeriesPiece, SeriesRanges};
use crate::together::Together;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::common::{HashMap, HashSet, Result, internal_datafusion_err};
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::Segment;
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// Rows that are looked at together.
const UNIT_ROWS: usize = if cfg!(test) { 8 } else { 65_536 };

/// Ids of symbols, one for each key.
pub(crate) type Ids = Box<[SymbolId]>;

/// Finds series, by several threads that help each other.
#[derive(Debug)]
pub(crate) struct SeriesFinder {
    selected: Arc<Selected>,
    /// Columns of the table.
    keys: Vec<usize>,
    /// Where each is in the series key; `None`: its ids are read.
    places: Vec<Option<usize>>,
    test: Option<Test>,
    units: Vec<FinderUnit>,
    found: Together<Vec<(Ids, SeriesPiece)>>,
}

/// Ranges of one segment, by place.
#[derive(Debug)]
struct FinderUnit {
    segment: usize,
    ranges: Range<usize>,
}

/// Series that are wanted of those there are.
#[derive(Debug, Default)]
pub(crate) struct WantedSeries {
    all: HashSet<Ids>,
    /// What they have in common with the ids of the series key.
    of_series_key: HashSet<Ids>,
}

impl SeriesFinder {
    /// A finder of the series that SYMBOL columns `keys` of the scan's table make, of the rows that the scan yields.
    ///
    /// # Errors
    /// Where the condition of the scan cannot be worked out.
    pub(crate) fn new(scan: &ScanExec, keys: &[usize]) -> Result<Self> {
        let selected = Arc::clone(scan.selected());
        let series_key = selected.table.schema().series();
        let places: Vec<Option<usize>> =
            keys.iter().map(|key| series_key.iter().position(|column| column == key)).collect();
        let test = scan.test()?;
        let by_index = test.is_none() && places.iter().all(Option::is_some);
        let units = if by_index { Vec::new() } else { units(&selected) };
        let found = Together::new(units.len());
        Ok(Self { selected, keys: keys.to_vec(), places, test, units, found })
    }

    /// Bytes of lists of rows, at most; `None` where there are more than they can name.
    pub(crate) fn bytes(&self) -> Option<usize> {
        if self.is_by_index() {
            return Some(0);
        }
        let fits = |segment: &Segment| segment.rows().iter().all(|rows| u32::try_from(rows.end).is_ok());
        let bytes = usize::try_from(self.selected.rows).ok()?.checked_mul(size_of::<u32>())?;
        self.selected.segments.iter().all(fits).then_some(bytes)
    }

    /// Whether the index of the parts says which rows they are.
    fn is_by_index(&self) -> bool {
        self.test.is_none() && self.places.iter().all(Option::is_some)
    }

    /// Takes part in finding all series, or those that are wanted.
    pub(crate) fn help(&self, wanted: Option<&WantedSeries>) {
        self.found.help(|at| self.find(&self.units[at], wanted));
    }

    /// All series, for the first who asks, in order of their ids, those in the series key first.
    ///
    /// # Errors
    /// Where rows could not be read.
    pub(crate) fn series(&self) -> Result<Vec<Series>> {
        if self.is_by_index() {
            let found = SeriesRanges::of(&self.selected, &self.keys)?;
            let found = found.ok_or_else(|| internal_datafusion_err!("keys are not of the series key"))?;
            return Ok(found.series);
        }
        let mut found = Found::default();
        for (ids, piece) in self.found.results()?.into_iter().flatten() {
            found.add(ids, piece);
        }
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_by_key(|key| self.places[*key].unwrap_or(usize::MAX));
        let mut series = found.series();
        series.sort_unstable_by(|a, b| {
            order.iter().map(|key| a.ids[*key]).cmp(order.iter().map(|key| b.ids[*key]))
        });
        Ok(series)
    }

    /// These series as wanted; nothing where all are found by the index.
    pub(crate) fn wanted(&self, series: impl Iterator<Item = Ids>) -> WantedSeries {
        let mut wanted = WantedSeries::default();
        if self.is_by_index() {
            return wanted;
        }
        for ids in series {
            let of_key = ids.iter().zip(&self.places).filter(|(_, place)| place.is_some());
            wanted.of_series_key.insert(of_key.map(|(id, _)| *id).collect());
            wanted.all.insert(ids);
        }
        wanted
    }

    /// The rows of a unit by their keys, each range's on their own.
    fn find(&self, unit: &FinderUnit, wanted: Option<&WantedSeries>) -> Result<Vec<(Ids, SeriesPiece)>> {
        crate::wanted::look()?;
        let of = &self.selected.segments[unit.segment];
        let known = |place: usize| -> Ids {
            let ids = self.places.iter().map(|key| match key.filter(|_| of.is_part()) {
                Some(key) => of.series_id(place, key).unwrap_or(NULL_SYMBOL),
                None => NULL_SYMBOL,
            });
            ids.collect()
        };
        let is_wanted = |ids: &Ids| {
            let of_key = ids.iter().zip(&self.places).filter(|(_, place)| place.is_some()).map(|(id, _)| *id);
            wanted
                .is_none_or(|wanted| !of.is_part() || wanted.of_series_key.contains(&of_key.collect::<Ids>()))
        };
        let ranges: Vec<(Ids, Range<usize>)> = unit
            .ranges
            .clone()
            .map(|place| (known(place), of.rows()[place].clone()))
            .filter(|(ids, rows)| !rows.is_empty() && is_wanted(ids))
            .collect();
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let all: Vec<Range<usize>> = ranges.iter().map(|(_, rows)| rows.clone()).collect();
        let bits = self.test.as_ref().map(|test| test.rows(of, &all)).transpose()?;
        let left = bits.as_ref().map_or_else(|| all.clone(), |bits| kept(&all, bits));
        let rows: Vec<u32> = left.iter().cloned().flatten().map(|row| row as u32).collect();
        let read: Vec<usize> =
            (0..self.keys.len()).filter(|key| self.places[*key].is_none() || !of.is_part()).collect();
        let dealer = Dealer::new(of, read.iter().map(|key| self.keys[*key]), &left)?;
        let mut found = Vec::new();
        // Rows of the ranges ahead, and those left of them.
        let (mut before, mut start) = (0, 0);
        let mut dealt = vec![0; rows.len()];
        let mut lists = Vec::new();
        for (ids, range) in ranges {
            let here =
                bits.as_ref().map_or(range.len(), |bits| bits.slice(before, range.len()).count_set_bits());
            before += range.len();
            let end = start + here;
            dealer.deal(&rows[start..end], start, &mut dealt[start..end], &mut lists);
            for (group, list) in lists.drain(..) {
                let mut ids = ids.clone();
                read.iter().zip(dealer.ids(group)).for_each(|(key, id)| ids[*key] = id);
                if wanted.is_none_or(|wanted| wanted.all.contains(&ids)) {
                    found.push((ids, start + list.start..start + list.end));
                }
            }
            start = end;
        }
        let dealt = ScalarBuffer::from(dealt);
        let piece = |rows: Range<usize>| {
            let rows = Rows::Listed(dealt.slice(rows.start, rows.len()));
            SeriesPiece { segment: unit.segment, rows }
        };
        Ok(found.into_iter().map(|(ids, rows)| (ids, piece(rows))).collect())
    }
}

/// All rows, in units of about the same size.
fn units(selected: &Selected) -> Vec<FinderUnit> {
    let mut units = Vec::new();
    for (segment, of) in selected.segments.iter().enumerate() {
        let (mut first, mut held) = (0, 0);
        for (place, rows) in of.rows().iter().enumerate() {
            held += rows.len();
            if held >= UNIT_ROWS {
                units.push(FinderUnit { segment, ranges: first..place + 1 });
                (first, held) = (place + 1, 0);
            }
        }
        if held > 0 {
            units.push(FinderUnit { segment, ranges: first..of.rows().len() });
        }
    }
    units
}

/// Groups by the ids of one more column.
struct Finer {
    /// By group and id, where these are few.
    table: Vec<u32>,
    width: usize,
    map: HashMap<(u32, SymbolId), u32>,
    ids: Vec<Vec<SymbolId>>,
}

/// Places of a table that is made for each unit.
const TABLE_MAX: usize = 1 << 16;

impl Finer {
    /// For `groups` and the ids `values`.
    fn new(groups: usize, values: &[SymbolId]) -> Self {
        // The last place is NULL's.
        let width = values.iter().max().map_or(0, |most| *most as usize + 1) + 1;
        let places = groups.saturating_mul(width);
        let table = if places <= TABLE_MAX { vec![u32::MAX; places] } else { Vec::new() };
        Self { table, width, map: HashMap::new(), ids: Vec::new() }
    }

    fn group(&mut self, group: u32, id: SymbolId, coarse: &[Vec<SymbolId>]) -> u32 {
        let next = self.ids.len() as u32;
        let known = match self.table.is_empty() {
            true => self.map.entry((group, id)).or_insert(next),
            false => {
                let place = group as usize * self.width + (id as usize).min(self.width - 1);
                let known = &mut self.table[place];
                if *known == u32::MAX {
                    *known = next;
                }
                known
            }
        };
        if *known == next {
            let mut ids = coarse[group as usize].clone();
            ids.push(id);
            self.ids.push(ids);
        }
        *known
    }
}

/// Deals rows out by ids that are read.
struct Dealer {
    /// The group of each row; empty where all are of one.
    groups: Vec<u32>,
    /// The ids of each group.
    ids: Vec<Vec<SymbolId>>,
}

impl Dealer {
    fn new(of: &Segment, columns: impl Iterator<Item = usize>, rows: &[Range<usize>]) -> Result<Self> {
        let mut dealer = Self { groups: Vec::new(), ids: vec![Vec::new()] };
        for column in columns {
            let ids: ArrayRef = read_scattered(of, column, rows)?;
            let ids = ids
                .as_primitive_opt::<UInt32Type>()
                .ok_or_else(|| internal_datafusion_err!("keys of series are {}", ids.data_type()))?;
            let values = ids.values();
            let id = |row: usize| if ids.is_null(row) { NULL_SYMBOL } else { values[row] };
            dealer.groups.resize(ids.len(), 0);
            let mut finer = Finer::new(dealer.ids.len(), values);
            for (row, group) in dealer.groups.iter_mut().enumerate() {
                *group = finer.group(*group, id(row), &dealer.ids);
            }
            dealer.ids = finer.ids;
        }
        Ok(dealer)
    }

    fn ids(&self, group: usize) -> impl Iterator<Item = SymbolId> {
        self.ids[group].iter().copied()
    }

    /// Puts `rows`, the first of which is that at `first`, group by group into `dealt`; of each group, where.
    fn deal(&self, rows: &[u32], first: usize, dealt: &mut [u32], lists: &mut Vec<(usize, Range<usize>)>) {
        if rows.is_empty() {
            return;
        }
        if self.groups.is_empty() {
            dealt.copy_from_slice(rows);
            lists.push((0, 0..rows.len()));
            return;
        }
        let groups = &self.groups[first..first + rows.len()];
        if self.ids.len() > rows.len() {
            let mut order: Vec<(u32, u32)> = groups.iter().copied().zip(rows.iter().copied()).collect();
            order.sort_unstable();
            dealt.iter_mut().zip(&order).for_each(|(dealt, (_, row))| *dealt = *row);
            let mut start = 0;
            for alike in order.chunk_by(|a, b| a.0 == b.0) {
                lists.push((alike[0].0 as usize, start..start + alike.len()));
                start += alike.len();
            }
            return;
        }
        let mut counts = vec![0_usize; self.ids.len()];
        groups.iter().for_each(|group| counts[*group as usize] += 1);
        let mut start = 0;
        for (group, count) in counts.iter_mut().enumerate() {
            if *count > 0 {
                lists.push((group, start..start + *count));
            }
            (*count, start) = (start, start + *count);
        }
        for (row, group) in rows.iter().zip(groups) {
            let place = &mut counts[*group as usize];
            dealt[*place] = *row;
            *place += 1;
        }
    }
}
