//! Finds the group of each row, (key, bucket), as runs of rows of one group.

use crate::functions::bucket::Bucketing;
use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::HashMap;
use datafusion::error::Result;

/// How keys sort in the output of SAMPLE BY and FILL.
pub(crate) const KEY_ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Groups by number, from 0 in the order they are first met.
#[derive(Debug)]
pub(super) struct Groups {
    bucketing: Bucketing,
    ids: KeyIds,
    reader: KeyReader,
    scratch: Vec<u32>,
    /// The bucket each key was in last, so that neither a run of one key nor keys that take turns look
    /// anything up.
    cursors: Vec<Cursor>,
    numbers: HashMap<(u32, i64), usize>,
    /// Key and bucket of each group.
    groups: Vec<(u32, i64)>,
    /// For each key column, the values of new keys batch by batch, in order of their ids.
    key_values: Vec<Vec<ArrayRef>>,
}

#[derive(Debug, Clone, Copy)]
struct Cursor {
    low: i64,
    high: i64,
    group: usize,
}

/// Shorter runs of a key are looked at row by row.
const SEARCHED_ROWS_MIN: usize = 8;

impl Groups {
    pub(super) fn try_new(key_types: &[DataType], bucketing: Bucketing) -> Result<Self> {
        Ok(Self {
            bucketing,
            ids: KeyIds::try_new(key_types)?,
            reader: KeyReader::new(key_types.len()),
            scratch: Vec::new(),
            cursors: Vec::new(),
            numbers: HashMap::new(),
            groups: Vec::new(),
            key_values: vec![Vec::new(); key_types.len()],
        })
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let values: usize = self.key_values.iter().flatten().map(|v| v.len() * 8).sum();
        self.ids.size() + values + self.numbers.capacity() * 32 + self.groups.capacity() * 16
    }

    /// Appends the runs of rows of one group to `out`.
    ///
    /// Where the times of one key's rows are in order, the end of a bucket is searched, not met.
    pub(super) fn assign(&mut self, times: &[i64], keys: &[ArrayRef], out: &mut Vec<Run>) -> Result<()> {
        let known = self.cursors.len();
        let mut ids = std::mem::take(&mut self.scratch);
        ids.clear();
        self.ids.read(keys, times.len(), &mut self.reader, &mut ids)?;
        if self.ids.len() > known {
            self.keep_new_keys(keys, &ids, known)?;
            self.cursors.resize(self.ids.len(), Cursor { low: 0, high: i64::MIN, group: 0 });
        }
        let mut start = 0;
        while let Some(&id) = ids.get(start) {
            let end = start + ids[start..].iter().take_while(|other| **other == id).count();
            let mut cursor = self.cursors[id as usize];
            let ordered = end - start >= SEARCHED_ROWS_MIN && times[start..end].is_sorted();
            while start < end {
                let ts = times[start];
                if ts < cursor.low || ts >= cursor.high {
                    cursor = self.look_up(id, ts);
                }
                start += if ordered { rows_before(&times[start..end], cursor.high) } else { 1 };
                match out.last_mut() {
                    Some(run) if run.group == cursor.group => run.end = start,
                    _ => out.push(Run { group: cursor.group, end: start }),
                }
            }
            self.cursors[id as usize] = cursor;
        }
        self.scratch = ids;
        Ok(())
    }

    /// Takes in the groups of `other`; the number each of them has here.
    pub(super) fn merge(&mut self, other: &Self) -> Result<Vec<usize>> {
        if other.groups.is_empty() {
            return Ok(Vec::new());
        }
        let key_rows = UInt32Array::from_iter_values(other.groups.iter().map(|group| group.0));
        let keys =
            other.keys()?.iter().map(|key| take(key, &key_rows, None)).collect::<Result<Vec<_>, _>>()?;
        let buckets: Vec<i64> = other.groups.iter().map(|group| group.1).collect();
        let mut runs = Vec::new();
        self.assign(&buckets, &keys, &mut runs)?;
        Ok(expand(&runs))
    }

    fn look_up(&mut self, key: u32, ts: i64) -> Cursor {
        let (low, high) = self.bucketing.bucket(ts);
        let next = self.groups.len();
        let group = *self.numbers.entry((key, low)).or_insert(next);
        if group == next {
            self.groups.push((key, low));
        }
        Cursor { low, high, group }
    }

    /// Keeps the key columns' values of the keys from `known` on.
    fn keep_new_keys(&mut self, keys: &[ArrayRef], ids: &[u32], known: usize) -> Result<()> {
        let mut next = known;
        let mut rows = Vec::with_capacity(self.ids.len() - known);
        for (row, &id) in ids.iter().enumerate() {
            if id as usize == next {
                rows.push(u32::try_from(row).unwrap_or(u32::MAX));
                next += 1;
            }
        }
        let rows = UInt32Array::from(rows);
        for (values, column) in self.key_values.iter_mut().zip(keys) {
            values.push(take(column, &rows, None)?);
        }
        Ok(())
    }

    /// The key columns' values, in order of the keys' ids.
    fn keys(&self) -> Result<Vec<ArrayRef>> {
        let concat_all = |chunks: &Vec<ArrayRef>| {
            let chunks: Vec<&dyn Array> = chunks.iter().map(|chunk| chunk.as_ref()).collect();
            Ok(concat(&chunks)?)
        };
        self.key_values.iter().map(concat_all).collect()
    }

    /// All groups in order of bucket, then keys.
    pub(super) fn finish(&self) -> Result<Finished> {
        let keys = self.keys()?;
        let ranks = key_ranks(&keys)?;
        let rank = |group: usize| {
            let (key, bucket) = self.groups[group];
            (bucket, ranks.get(key as usize).copied().unwrap_or(0))
        };
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        if !order.is_sorted_by_key(|&group| rank(group)) {
            order.sort_unstable_by_key(|&group| rank(group));
        }
        let buckets = order.iter().map(|&group| self.groups[group].1).collect();
        let key_rows = UInt32Array::from_iter_values(order.iter().map(|&group| self.groups[group].0));
        let keys = keys.iter().map(|key| take(key, &key_rows, None)).collect::<Result<Vec<_>, _>>()?;
        Ok(Finished { order, buckets, keys })
    }
}

/// Rows of a batch, from where the run before it ends, that are of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) group: usize,
    pub(super) end: usize,
}

/// The group of each row.
pub(super) fn expand(runs: &[Run]) -> Vec<usize> {
    let mut rows = Vec::with_capacity(runs.last().map_or(0, |run| run.end));
    for run in runs {
        rows.resize(run.end, run.group);
    }
    rows
}

/// How many of the times, which are in order, are before `high`; at least the first is.
fn rows_before(times: &[i64], high: i64) -> usize {
    let mut step = 1;
    while step < times.len() && times[step] < high {
        step *= 2;
    }
    // Those up to half of the step are, the one at the step is not.
    let from = step / 2;
    from + times[from..step.min(times.len())].partition_point(|ts| *ts < high)
}

/// Groups in the order of the output.
#[derive(Debug)]
pub(super) struct Finished {
    /// The group of each row.
    pub(super) order: Vec<usize>,
    /// Its bucket.
    pub(super) buckets: Vec<i64>,
    /// Its keys.
    pub(super) keys: Vec<ArrayRef>,
}

/// The place of each row of the key columns in their order.
pub(crate) fn key_ranks(keys: &[ArrayRef]) -> Result<Vec<u32>> {
    let Some(first) = keys.first() else { return Ok(Vec::new()) };
    let mut ranks = vec![0; first.len()];
    for (rank, row) in (0..).zip(key_order(keys)?.values()) {
        ranks[*row as usize] = rank;
    }
    Ok(ranks)
}

/// The rows of the key columns in their order.
pub(crate) fn key_order(keys: &[ArrayRef]) -> Result<UInt32Array> {
    let columns: Vec<SortColumn> = keys
        .iter()
        .map(|key| SortColumn { values: std::sync::Arc::clone(key), options: Some(KEY_ORDER) })
        .collect();
    Ok(lexsort_to_indices(&columns, None)?)
}
