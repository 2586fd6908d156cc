//! Finds the group of each row: its keys and the bucket of its time.
//!
//! Keys are in two parts. The *outer* ones are those by whose value rows lie together and in order of time
//! (columns of the series key where parts are read by ranges, else all of them); the *inner* ones change
//! from row to row, such as the side of a trade.

use super::rows::Placed;
use crate::functions::bucket::Bucketing;
use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, partition, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::HashMap;
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// How keys sort in the output of SAMPLE BY and FILL.
pub(crate) const KEY_ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

/// The bucket of rows that fall into none.
const ALL_TIME: (i64, i64) = (i64::MIN, i64::MAX);

/// Groups by number, from 0 in the order they are first met.
#[derive(Debug)]
pub(super) struct Groups {
    /// `None` where time makes no difference.
    bucketing: Option<Bucketing>,
    outer: Keys,
    inner: Keys,
    outer_ids: Vec<u32>,
    inner_ids: Vec<u32>,
    /// The bucket each outer key was in last, so that neither a run of one key nor keys that take turns look
    /// anything up.
    cursors: Vec<Cursor>,
    numbers: Numbers,
    groups: Vec<Group>,
}

/// Ids of the outer and the inner keys, and the start of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    outer: u32,
    inner: u32,
    bucket: i64,
}

/// The numbers of groups.
#[derive(Debug, Default)]
struct Numbers {
    /// Those of small ids and of buckets on the grid, by place: for each key its buckets.
    places: Vec<u32>,
    grid: Option<Grid>,
    /// Inner ids below this have places.
    inner: usize,
    rest: HashMap<Group, u32>,
}

/// The buckets there can be: so many of one width.
#[derive(Debug, Clone, Copy)]
struct Grid {
    first: i64,
    step: i64,
    count: usize,
}

impl Grid {
    /// Which of the buckets, counted from 0.
    fn place(&self, bucket: i64) -> Option<usize> {
        let away = bucket.checked_sub(self.first)?;
        // The first bucket of all time is cut short: those after it are not on its grid.
        let place = usize::try_from(away / self.step).ok().filter(|_| away % self.step == 0)?;
        (place < self.count).then_some(place)
    }
}

/// Places for inner keys: two sides and NULL, and one more.
const INNER_PLACES: usize = 4;

impl Numbers {
    /// Most places: 16 MiB of them.
    const PLACES_MAX: usize = 1 << 22;
    /// No number yet.
    const NONE: u32 = u32::MAX;

    /// The number of a group, [`Self::NONE`] where it has none yet.
    fn of(&mut self, group: Group) -> &mut u32 {
        match self.place(group) {
            Some(place) => {
                if place >= self.places.len() {
                    self.places.resize(place + 1, Self::NONE);
                }
                &mut self.places[place]
            }
            None => self.rest.entry(group).or_insert(Self::NONE),
        }
    }

    fn place(&self, group: Group) -> Option<usize> {
        let grid = self.grid.as_ref().filter(|_| (group.inner as usize) < self.inner)?;
        let key = group.outer as usize * self.inner + group.inner as usize;
        let place = key * grid.count + grid.place(group.bucket)?;
        (place < Self::PLACES_MAX).then_some(place)
    }

    /// The groups by bucket, then by the place of their keys in `ranks`, where all have places and there are
    /// not many more places than groups.
    fn in_order<K: Ord>(&self, groups: &[Group], ranks: impl Fn(&Group) -> K) -> Option<Vec<usize>> {
        let grid = self.grid.filter(|_| self.rest.is_empty() && self.places.len() <= 8 * groups.len())?;
        let mut keys: Vec<Option<&Group>> = vec![None; self.places.len().div_ceil(grid.count)];
        for group in groups {
            keys[group.outer as usize * self.inner + group.inner as usize] = Some(group);
        }
        let ranked = keys.iter().enumerate().filter_map(|(key, group)| Some((ranks((*group)?), key)));
        let mut ranked: Vec<(K, usize)> = ranked.collect();
        ranked.sort_unstable();
        let mut order = Vec::with_capacity(groups.len());
        for bucket in 0..grid.count {
            for (_, key) in &ranked {
                let number = self.places.get(key * grid.count + bucket).copied().unwrap_or(Self::NONE);
                order.extend((number != Self::NONE).then_some(number as usize));
            }
        }
        Some(order)
    }

    fn size(&self) -> usize {
        self.places.capacity() * 4 + self.rest.capacity() * 32
    }
}

/// Where an outer key's rows are in time, and the groups met there.
#[derive(Debug, Clone, Default)]
struct Cursor {
    low: i64,
    high: i64,
    /// How often the bucket has changed.
    stamp: u32,
    /// By inner id: the stamp at which a group was found, and the group.
    found: Vec<(u32, usize)>,
}

/// Some of the key columns.
#[derive(Debug)]
pub(in crate::operators) struct Keys {
    /// Their places among the keys of the output.
    places: Vec<usize>,
    ids: KeyIds,
    reader: KeyReader,
    /// For each column, the values of new keys batch by batch, in order of their ids.
    values: Vec<Vec<ArrayRef>>,
}

impl Keys {
    pub(in crate::operators) fn try_new(columns: &[(usize, DataType)]) -> Result<Self> {
        let types: Vec<DataType> = columns.iter().map(|(_, data_type)| data_type.clone()).collect();
        Ok(Self {
            places: columns.iter().map(|(place, _)| *place).collect(),
            ids: KeyIds::try_new(&types)?,
            reader: KeyReader::new(types.len()),
            values: vec![Vec::new(); types.len()],
        })
    }

    /// The id of each row's key.
    pub(in crate::operators) fn read(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let known = self.ids.len();
        ids.clear();
        self.ids.read(columns, rows, &mut self.reader, ids)?;
        if self.ids.len() == known || columns.is_empty() {
            return Ok(());
        }
        let (mut next, mut new) = (known, Vec::with_capacity(self.ids.len() - known));
        for (row, &id) in ids.iter().enumerate() {
            if id as usize == next {
                new.push(u32::try_from(row).unwrap_or(u32::MAX));
                next += 1;
            }
        }
        let new = UInt32Array::from(new);
        for (values, column) in self.values.iter_mut().zip(columns) {
            values.push(take(column, &new, None)?);
        }
        Ok(())
    }

    /// Each column's values, in order of the keys' ids.
    pub(in crate::operators) fn values(&self) -> Result<Vec<ArrayRef>> {
        let concat_all = |chunks: &Vec<ArrayRef>| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.as_ref()).collect();
            Ok(concat(&chunks)?)
        };
        self.values.iter().filter(|chunks| !chunks.is_empty()).map(concat_all).collect()
    }

    /// Takes in the keys of `other`; the id each of them has here.
    pub(in crate::operators) fn merge(&mut self, other: &Self) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.read(&other.values()?, other.ids.len(), &mut ids)?;
        Ok(ids)
    }

    /// How many keys there are.
    pub(in crate::operators) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(in crate::operators) fn size(&self) -> usize {
        self.ids.size() + self.values.iter().flatten().map(|v| v.len() * 8).sum::<usize>()
    }
}

/// Shorter runs of a key are looked at row by row.
const SEARCHED_ROWS_MIN: usize = 8;

impl Groups {
    /// Groups by these keys (each with its place in the output and its type), outer and inner ones.
    pub(super) fn try_new(
        outer: &[(usize, DataType)],
        inner: &[(usize, DataType)],
        bucketing: Option<Bucketing>,
    ) -> Result<Self> {
        Ok(Self {
            bucketing,
            outer: Keys::try_new(outer)?,
            inner: Keys::try_new(inner)?,
            outer_ids: Vec::new(),
            inner_ids: Vec::new(),
            cursors: Vec::new(),
            numbers: Numbers::default(),
            groups: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether some keys change from row to row.
    pub(super) fn has_inner(&self) -> bool {
        !self.inner.places.is_empty()
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let cursors: usize = self.cursors.iter().map(|cursor| 32 + cursor.found.capacity() * 16).sum();
        let groups = self.numbers.size() + self.groups.capacity() * size_of::<Group>();
        self.outer.size() + self.inner.size() + cursors + groups
    }

    /// The bucket that holds `ts`: its start and the start of the next one.
    pub(super) fn bucket(&self, ts: i64) -> (i64, i64) {
        self.bucketing.map_or(ALL_TIME, |bucketing| bucketing.bucket(ts))
    }

    /// Expects rows of these times (both inside): where buckets are of one width, groups get places.
    pub(super) fn expect(&mut self, (first, last): (i64, i64)) {
        let step = match &self.bucketing {
            Some(bucketing) => bucketing.width(),
            None => Some(i64::MAX),
        };
        let low = self.bucket(first).0;
        self.numbers.inner = if self.has_inner() { INNER_PLACES } else { 1 };
        let Some(step) = step else { return };
        let count = last.checked_sub(low).and_then(|span| usize::try_from(span / step + 1).ok());
        let grid = |count| Grid { first: low, step, count };
        self.numbers.grid = match self.bucketing {
            None => Some(grid(1)),
            Some(_) => count.filter(|count| *count <= Numbers::PLACES_MAX).map(grid),
        };
        for (number, group) in (0..).zip(&self.groups) {
            *self.numbers.of(*group) = number;
        }
    }

    /// Whether rows fall into buckets.
    pub(super) fn has_buckets(&self) -> bool {
        self.bucketing.is_some()
    }

    /// The group of all rows, where there are no keys and no buckets: it is there also without rows.
    pub(super) fn add_total(&mut self) {
        self.number(Group { outer: 0, inner: 0, bucket: ALL_TIME.0 });
    }

    /// The ids of outer keys.
    pub(super) fn read_outer(&mut self, keys: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        self.outer.read(keys, rows, ids)
    }

    /// The group of an outer key's rows in a bucket, where there are no inner keys.
    pub(super) fn of(&mut self, outer: u32, bucket: i64) -> usize {
        self.number(Group { outer, inner: 0, bucket })
    }

    /// The groups of rows by their inner keys; `spans` say which outer key and bucket they are of, up to which row.
    pub(super) fn place_spans(
        &mut self,
        spans: &[(u32, i64, usize)],
        inner: &[ArrayRef],
        placed: &mut Placed,
    ) -> Result<()> {
        let mut ids = std::mem::take(&mut self.inner_ids);
        self.inner.read(inner, spans.last().map_or(0, |span| span.2), &mut ids)?;
        // By inner id, the span in which it was met last, and its group there.
        let mut found = vec![(usize::MAX, 0_u32); self.inner.ids.len()];
        let mut start = 0;
        for (span, &(outer, bucket, end)) in spans.iter().enumerate() {
            let each = placed.each(end - start);
            for (&inner, group) in ids[start..end].iter().zip(each) {
                let known = &mut found[inner as usize];
                if known.0 != span {
                    *known = (span, self.number(Group { outer, inner, bucket }) as u32);
                }
                *group = known.1;
            }
            start = end;
        }
        self.inner_ids = ids;
        Ok(())
    }

    /// The groups of rows whose keys are given row by row.
    ///
    /// Where the times of one key's rows are in order, the end of a bucket is searched, not met.
    pub(super) fn place_rows(
        &mut self,
        times: &[i64],
        (outer, inner): (&[ArrayRef], &[ArrayRef]),
        rows: usize,
        placed: &mut Placed,
    ) -> Result<()> {
        let mut ids = (std::mem::take(&mut self.outer_ids), std::mem::take(&mut self.inner_ids));
        self.outer.read(outer, rows, &mut ids.0)?;
        self.inner.read(inner, rows, &mut ids.1)?;
        self.cursors.resize(self.outer.ids.len().max(1), Cursor { high: i64::MIN, ..Cursor::default() });
        let mut start = 0;
        while let Some(&id) = ids.0.get(start) {
            let end = start + ids.0[start..].iter().take_while(|other| **other == id).count();
            let mut cursor = std::mem::take(&mut self.cursors[id as usize]);
            self.place_key(id, times, start..end, &ids.1, &mut cursor, placed);
            self.cursors[id as usize] = cursor;
            start = end;
        }
        (self.outer_ids, self.inner_ids) = ids;
        Ok(())
    }

    /// The groups of rows of one outer key.
    fn place_key(
        &mut self,
        outer: u32,
        times: &[i64],
        rows: Range<usize>,
        inner_ids: &[u32],
        cursor: &mut Cursor,
        placed: &mut Placed,
    ) {
        let (mut start, end) = (rows.start, rows.end);
        let searched = end - start >= SEARCHED_ROWS_MIN && self.inner.places.is_empty();
        let ordered = searched && (!self.has_buckets() || times[start..end].is_sorted());
        while start < end {
            let ts = if self.has_buckets() { times[start] } else { 0 };
            if ts < cursor.low || ts >= cursor.high {
                (cursor.low, cursor.high) = self.bucket(ts);
                cursor.stamp += 1;
            }
            let inner = inner_ids.get(start).copied().unwrap_or(0);
            if inner as usize >= cursor.found.len() {
                cursor.found.resize(inner as usize + 1, (0, 0));
            }
            let known = &mut cursor.found[inner as usize];
            if known.0 != cursor.stamp {
                *known = (cursor.stamp, self.number(Group { outer, inner, bucket: cursor.low }));
            }
            let group = known.1;
            start += match ordered {
                true if self.has_buckets() => rows_before(&times[start..end], cursor.high),
                true => end - start,
                false => 1,
            };
            placed.push(group, start);
        }
    }

    fn number(&mut self, group: Group) -> usize {
        let number = self.numbers.of(group);
        if *number == Numbers::NONE {
            // A query that makes four billion groups has run out of memory long before.
            *number = u32::try_from(self.groups.len()).unwrap_or(Numbers::NONE - 1);
            self.groups.push(group);
        }
        *number as usize
    }

    /// Takes in the groups of `other`; the number each of them has here.
    pub(super) fn merge(&mut self, other: &Self) -> Result<Vec<usize>> {
        let (outer, inner) = (self.outer.merge(&other.outer)?, self.inner.merge(&other.inner)?);
        let id = |ids: &[u32], id: u32| ids.get(id as usize).copied().unwrap_or(id);
        let numbers = other.groups.iter().map(|group| {
            self.number(Group { outer: id(&outer, group.outer), inner: id(&inner, group.inner), ..*group })
        });
        Ok(numbers.collect())
    }

    /// All groups, `sorted` by bucket, then keys, or in the order they were met.
    pub(super) fn finish(&self, sorted: bool) -> Result<Finished> {
        let (outer, inner) = (self.outer.values()?, self.inner.values()?);
        let count = self.outer.places.len() + self.inner.places.len();
        let ranks_of = |values| if sorted { key_ranks(values) } else { Ok(Vec::new()) };
        // The columns in the order of the output; each with its ranks by the id of its keys.
        let mut columns: Vec<Option<(bool, &ArrayRef, Vec<u32>)>> = vec![None; count];
        for (place, values) in self.outer.places.iter().zip(&outer) {
            columns[*place] = Some((true, values, ranks_of(values)?));
        }
        for (place, values) in self.inner.places.iter().zip(&inner) {
            columns[*place] = Some((false, values, ranks_of(values)?));
        }
        // Without groups there are no values.
        let columns: Vec<_> = columns.into_iter().flatten().collect();
        let id = |outer: bool, group: &Group| if outer { group.outer } else { group.inner };
        let rank = |at: usize, group: &Group| {
            columns.get(at).map_or(0, |(outer, _, ranks)| ranks[id(*outer, group) as usize])
        };
        let ranks = |group: &Group| (0..columns.len()).map(|at| rank(at, group)).collect::<Vec<u32>>();
        let by_places = || self.numbers.in_order(&self.groups, ranks);
        let order = match if sorted { by_places() } else { Some((0..self.groups.len()).collect()) } {
            Some(order) => order,
            None if columns.len() <= 2 => {
                in_order(self.groups.iter().map(|group| (group.bucket, rank(0, group), rank(1, group))))
            }
            None => in_order(self.groups.iter().map(|group| (group.bucket, ranks(group)))),
        };
        let buckets = order.iter().map(|&group| self.groups[group].bucket).collect();
        let keys = columns.iter().map(|(outer, values, _)| {
            let rows =
                UInt32Array::from_iter_values(order.iter().map(|&group| id(*outer, &self.groups[group])));
            Ok(take(values, &rows, None)?)
        });
        let keys = keys.collect::<Result<_>>()?;
        Ok(Finished { order, buckets, keys })
    }
}

/// The places of keys in their order.
fn in_order<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut keyed: Vec<(K, u32)> = keys.zip(0..).collect();
    if !keyed.is_sorted() {
        keyed.sort_unstable();
    }
    keyed.into_iter().map(|(_, place)| place as usize).collect()
}

/// How many of the times, which are in order, are before `high`; the first counts also where it is not, at the
/// end of all time.
fn rows_before(times: &[i64], high: i64) -> usize {
    let mut step = 1;
    while step < times.len() && times[step] < high {
        step *= 2;
    }
    // Those up to half of the step are, the one at the step is not.
    let from = step / 2;
    (from + times[from..step.min(times.len())].partition_point(|ts| *ts < high)).max(1)
}

/// Groups in the order of the output.
#[derive(Debug)]
pub(super) struct Finished {
    /// The group of each row.
    pub(super) order: Vec<usize>,
    /// Its bucket.
    pub(super) buckets: Vec<i64>,
    /// Its keys; no columns where there are no groups.
    pub(super) keys: Vec<ArrayRef>,
}

/// The place of each value in the order of the column; equal values have the same.
fn key_ranks(values: &ArrayRef) -> Result<Vec<u32>> {
    let order = key_order(std::slice::from_ref(values))?;
    let sorted = take(values, &order, None)?;
    let mut ranks = vec![0; values.len()];
    for (rank, equal) in (0..).zip(partition(&[sorted])?.ranges()) {
        order.values()[equal].iter().for_each(|row| ranks[*row as usize] = rank);
    }
    Ok(ranks)
}

/// The rows of the key columns in their order.
pub(crate) fn key_order(keys: &[ArrayRef]) -> Result<UInt32Array> {
    if let Some(rows @ 0..=1) = keys.first().map(|key| key.len()) {
        return Ok(UInt32Array::from_iter_values(0..rows as u32));
    }
    let column = |key: &ArrayRef| Ok(SortColumn { values: few_texts(key)?, options: Some(KEY_ORDER) });
    let columns: Vec<SortColumn> = keys.iter().map(column).collect::<Result<_>>()?;
    Ok(lexsort_to_indices(&columns, None)?)
}

/// The values themselves of a column that has few of the texts of its dictionary, which would all be sorted.
fn few_texts(key: &ArrayRef) -> Result<ArrayRef> {
    match key.as_any_dictionary_opt() {
        Some(dictionary) if dictionary.values().len() > key.len() => {
            Ok(take(dictionary.values(), dictionary.keys(), None)?)
        }
        _ => Ok(Arc::clone(key)),
    }
}
