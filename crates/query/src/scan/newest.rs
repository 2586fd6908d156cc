//! The newest row of each key, found from the newest partition backwards: what LATEST ON asks of a table
//! by columns of its series key.
//!
//! Within a part the rows of one key are one range a slice, in order of time, so that its last row is the
//! only candidate. A run is read backwards. As soon as every key that the selection can have was met, older
//! partitions are not looked at.

use super::columns::{Columns, Piece};
use super::exec::ScanExec;
use crate::error::external;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{TimestampNanosecondType, UInt32Type};
use datafusion::common::{HashMap, Result, internal_datafusion_err};
use std::ops::Range;
use tickstone_engine::Segment;
use tickstone_model::NULL_SYMBOL;

/// Most key columns.
const KEYS_MAX: usize = 4;

/// The ids of one key, unused places 0.
type Key = [u32; KEYS_MAX];

/// Where a row is, by time and then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    ts: i64,
    segment: usize,
    row: usize,
}

/// The search for the newest row of each key among the rows that a scan selects.
#[derive(Debug)]
pub(crate) struct NewestRows {
    scan: ScanExec,
    timestamp: usize,
    keys: Vec<usize>,
    /// How many keys there can be; `None` where the selection does not say.
    wanted: Option<usize>,
}

impl NewestRows {
    /// The search over a scan; `None` where `time` is not the designated timestamp or a key is no column of
    /// the series key (all by their places among the columns the scan yields).
    pub(crate) fn new(scan: &ScanExec, time: usize, keys: &[usize]) -> Option<Self> {
        let schema = scan.selected().table.schema();
        let column = |place: usize| scan.projection().get(place).copied();
        let timestamp = schema.timestamp().filter(|timestamp| column(time) == Some(*timestamp))?;
        let keys: Vec<usize> = keys.iter().map(|place| column(*place)).collect::<Option<_>>()?;
        let of_series = keys.len() <= KEYS_MAX && keys.iter().all(|key| schema.series().contains(key));
        if !of_series || scan.fetch_limit().is_some() || scan.filters().is_some() {
            return None;
        }
        let chosen = |key: &usize| {
            let mut series = scan.selected().selection.series.iter();
            series.find(|(column, _)| column == key).map(|(_, ids)| ids.len())
        };
        let counts: Option<Vec<usize>> = keys.iter().map(chosen).collect();
        let wanted = counts.map(|counts| counts.into_iter().fold(1, usize::saturating_mul));
        Some(Self { scan: scan.clone(), timestamp, keys, wanted })
    }

    /// The rows in order of time, and how many segments were looked at.
    pub(crate) fn find(&self) -> Result<(RecordBatch, usize)> {
        let (found, looked_at) = self.search()?;
        let (selected, schema) = (self.scan.selected(), self.scan.row_schema());
        if found.is_empty() {
            return Ok((RecordBatch::new_empty(schema), looked_at));
        }
        let columns = Columns::new(&selected.table, schema, self.scan.projection(), self.scan.bytes_read());
        let piece = |found: &Candidate| Piece { segment: found.segment, rows: found.row..found.row + 1 };
        let pieces: Vec<Piece> = found.iter().map(piece).collect();
        let rows = columns.batch(columns.read(&selected.segments, &pieces)?, pieces.len())?;
        Ok((rows, looked_at))
    }

    fn search(&self) -> Result<(Vec<Candidate>, usize)> {
        let mut newest: HashMap<Key, Candidate> = HashMap::new();
        let mut looked_at = 0;
        let mut end = self.segments().len();
        while end > 0 && self.wanted.is_none_or(|wanted| newest.len() < wanted) {
            let partition = self.segments()[end - 1].partition();
            let start = self.segments()[..end].partition_point(|segment| segment.partition() < partition);
            let mut of_partition: HashMap<Key, Candidate> = HashMap::new();
            for segment in (start..end).rev() {
                looked_at += 1;
                self.look_at(segment, &newest, &mut of_partition)?;
            }
            newest.extend(of_partition);
            end = start;
        }
        let mut found: Vec<Candidate> = newest.into_values().collect();
        found.sort_unstable();
        Ok((found, looked_at))
    }

    fn segments(&self) -> &[Segment] {
        &self.scan.selected().segments
    }

    /// Takes a segment's newest rows of keys that no newer partition has.
    fn look_at(
        &self,
        segment: usize,
        known: &HashMap<Key, Candidate>,
        found: &mut HashMap<Key, Candidate>,
    ) -> Result<()> {
        let of = &self.segments()[segment];
        let mut take = |key: Key, row: usize, ts: i64| {
            let candidate = Candidate { ts, segment, row };
            let newest = found.entry(key).or_insert(candidate);
            *newest = candidate.max(*newest);
        };
        for range in of.rows().iter().filter(|range| !range.is_empty()) {
            if of.is_part() {
                let last = range.end - 1;
                let key = keys_of(&self.read_keys(of, last..range.end)?, 0);
                if !known.contains_key(&key) {
                    take(key, last, self.read_times(of, last..range.end)?.0);
                }
                continue;
            }
            let (ids, times) = (self.read_keys(of, range.clone())?, self.read_times(of, range.clone())?.1);
            let times = times.as_primitive::<TimestampNanosecondType>().values();
            let mut met: HashMap<Key, ()> = HashMap::new();
            for row in (0..range.len()).rev() {
                let key = keys_of(&ids, row);
                if met.insert(key, ()).is_none() && !known.contains_key(&key) {
                    take(key, range.start + row, times[row]);
                }
                if self.wanted.is_some_and(|wanted| met.len() >= wanted) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn read_keys(&self, of: &Segment, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        self.keys.iter().map(|key| of.read(*key, rows.clone()).map_err(external)).collect()
    }

    /// The times of rows, and the first of them.
    fn read_times(&self, of: &Segment, rows: Range<usize>) -> Result<(i64, ArrayRef)> {
        let times = of.read(self.timestamp, rows).map_err(external)?;
        let values = times.as_primitive_opt::<TimestampNanosecondType>();
        let first = values.and_then(|values| values.values().first().copied());
        let first = first
            .ok_or_else(|| internal_datafusion_err!("designated timestamps are {}", times.data_type()))?;
        Ok((first, times))
    }
}

fn keys_of(ids: &[ArrayRef], row: usize) -> Key {
    let mut key = [0; KEYS_MAX];
    for (slot, ids) in key.iter_mut().zip(ids) {
        let ids = ids.as_primitive::<UInt32Type>();
        *slot = if ids.is_null(row) { NULL_SYMBOL } else { ids.value(row) };
    }
    key
}
