//! DEDUP UPSERT KEYS: of rows that are equal in the key columns the one that arrived last is there.
//!
//! ```text
//! a batch: only the last row of each key is kept
//! a commit that is not all newer than what is there: earlier rows with its keys are looked up,
//!     those of runs are taken out (a new run), those of parts are noted beside them (superseded)
//! ```
//!
//! Invariants:
//! - what a commit supersedes is known before its frame is written, and published with its rows;
//! - the tape alone gives the same result again, so that recovery needs no more than its rows: superseded
//!   rows of parts stand in the manifest because the frames that superseded them may be gone;
//! - superseded rows of a part go for good when it is merged or rewritten.

use crate::part::{Part, PositionRange};
use crate::recent::{Run, take_rows};
use crate::store::snapshot::{
    LoadEffect, PartFile, PartView, PartitionSnapshot, Source, Superseded, TableSnapshot,
};
use crate::tape::change::{LoadedFile, PartEntry};
use crate::{EngineError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{NULL_SYMBOL, RowBatch, SymbolId, TableSchema, TimeRange};

/// A value of a key column that is neither the designated timestamp nor of the series key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    Null,
    Number(i128),
    Bytes(Box<[u8]>),
}

/// What makes two rows the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    ts: i64,
    /// By series column, outermost first; [`NULL_SYMBOL`] for NULL.
    ids: Box<[SymbolId]>,
    others: Box<[Value]>,
}

/// Keys, each with the number of its row; the last one where several rows have it.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    rows: HashMap<Key, u32>,
    /// Smallest and largest timestamp.
    times: Option<(i64, i64)>,
}

impl Keys {
    /// The keys of a batch.
    pub(crate) fn of(batch: &RowBatch) -> Result<Self> {
        let mut keys = Self::default();
        let columns = |column: usize| Ok(Arc::clone(&batch.columns()[column]));
        keys.add(read_keys(batch.schema(), columns)?, 0);
        Ok(keys)
    }

    /// The keys of one slice of a part.
    fn of_slice(table: &TableSnapshot, view: &PartView, rows: Range<usize>) -> Result<Self> {
        let mut keys = Self::default();
        let read = |column: usize| view.read_ranges(column, std::slice::from_ref(&rows));
        keys.add(read_keys(table.schema(), read)?, rows.start);
        Ok(keys)
    }

    fn add(&mut self, keys: Vec<Key>, first_row: usize) {
        for (row, key) in (first_row..).zip(keys) {
            let (least, most) = self.times.unwrap_or((key.ts, key.ts));
            self.times = Some((least.min(key.ts), most.max(key.ts)));
            self.rows.insert(key, row_number(row));
        }
    }

    /// Whether no instant lies within both.
    fn is_apart(&self, times: Option<(i64, i64)>) -> bool {
        match (self.times, times) {
            (Some((least, most)), Some((first, last))) => last < least || first > most,
            (None, _) => true,
            (_, None) => false,
        }
    }

    /// The rows of a run with one of these keys: the number of the key's row, and the run's.
    fn in_run(&self, run: &Run) -> Result<Vec<(u32, u32)>> {
        let Some((least, most)) = self.times.filter(|_| !self.is_apart(run.times())) else {
            return Ok(Vec::new());
        };
        let times = run.batch().times().unwrap_or_default();
        let (start, end) = (times.partition_point(|ts| *ts < least), times.partition_point(|ts| *ts <= most));
        let batch = run.batch().slice(start, end - start);
        let columns = |column: usize| Ok(Arc::clone(&batch.columns()[column]));
        let keys = read_keys(batch.schema(), columns)?;
        let pairs = keys.iter().enumerate().filter_map(|(row, key)| {
            let found = self.rows.get(key)?;
            Some((*found, row_number(start + row)))
        });
        Ok(pairs.collect())
    }

    /// The rows of a part with one of these keys: the number of the key's row, and the part's, ascending.
    ///
    /// Candidates are found by the series index and a search in time; of them the keys are read.
    fn in_part(&self, table: &TableSnapshot, file: &PartFile) -> Result<Vec<(u32, u32)>> {
        if self.is_apart(file.entry.times) {
            return Ok(Vec::new());
        }
        let view = table.view(file)?;
        let mut sought: Vec<(&[SymbolId], i64)> = self.rows.keys().map(|key| (&*key.ids, key.ts)).collect();
        sought.sort_unstable();
        sought.dedup();
        let mut rows = Vec::new();
        for slice in 0..view.part().slices().len() {
            rows.extend(candidates(view.part(), slice, &sought)?);
        }
        let column = |column: usize| {
            let array = view.take(column, &rows)?;
            // A check whose tape lacks an ALTER takes a part for one of another shape.
            if *array.data_type() == table.schema().columns()[column].column_type.stored_type() {
                return Ok(array);
            }
            Err(EngineError::damaged(&file.path, 0, "its columns are not those of the table"))
        };
        let keys = read_keys(table.schema(), column)?;
        let pairs = keys.iter().zip(&rows).filter_map(|(key, row)| {
            let found = self.rows.get(key)?;
            Some((*found, row_number(*row)))
        });
        Ok(pairs.collect())
    }
}

/// The rows of a slice that have one of the series and instants sought (ascending), ascending.
fn candidates(part: &Part, slice: usize, sought: &[(&[SymbolId], i64)]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    let Some(mut times) = part.times(slice) else { return Ok(found) };
    let index = part.series(slice);
    for of_series in sought.chunk_by(|a, b| a.0 == b.0) {
        let ids = of_series[0].0;
        let entries = ids.first().map_or(0..index.len(), |first| index.find(*first));
        for entry in entries.filter(|entry| index.entry(*entry).ids().eq(ids.iter().copied())) {
            let rows = index.entry(entry).rows();
            let mut start = rows.start;
            for (_, ts) in of_series {
                start = times.lower_bound(&(start..rows.end), *ts)?;
                while start < rows.end && times.time(start)? == *ts {
                    found.push(start);
                    start += 1;
                }
                if start >= rows.end {
                    break;
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The keys of rows whose columns `column` gives.
fn read_keys(schema: &TableSchema, column: impl Fn(usize) -> Result<ArrayRef>) -> Result<Vec<Key>> {
    let Some(timestamp) = schema.timestamp() else { return Ok(Vec::new()) };
    let times = column(timestamp)?;
    let times = times.as_primitive::<TimestampNanosecondType>();
    let ids: Vec<ArrayRef> = schema.series().iter().map(|series| column(*series)).collect::<Result<_>>()?;
    let is_other = |key: &&usize| **key != timestamp && !schema.series().contains(key);
    let others: Vec<ArrayRef> =
        schema.dedup().iter().filter(is_other).map(|other| column(*other)).collect::<Result<_>>()?;
    let id = |ids: &ArrayRef, row: usize| {
        let ids = ids.as_primitive::<UInt32Type>();
        if ids.is_valid(row) { ids.value(row) } else { NULL_SYMBOL }
    };
    let key = |(row, ts): (usize, &i64)| Key {
        ts: *ts,
        ids: ids.iter().map(|ids| id(ids, row)).collect(),
        others: others.iter().map(|array| value(array, row)).collect(),
    };
    Ok(times.values().iter().enumerate().map(key).collect())
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! number {
        ($arrow:ty) => {
            Value::Number(i128::from(array.as_primitive::<$arrow>().value(row)))
        };
    }
    match array.data_type() {
        DataType::Boolean => Value::Number(i128::from(array.as_boolean().value(row))),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Date32 => number!(Date32Type),
        DataType::Time64(_) => number!(Time64NanosecondType),
        DataType::Timestamp(_, _) => number!(TimestampNanosecondType),
        DataType::Decimal128(_, _) => number!(Decimal128Type),
        DataType::Utf8 => Value::Bytes(array.as_string::<i32>().value(row).as_bytes().into()),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).into()),
        DataType::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(row).into()),
        other => unreachable!("no key column is stored as {other}: schemas check that"),
    }
}

fn row_number(row: usize) -> u32 {
    u32::try_from(row).expect("a batch, run or part has fewer than 2^32 rows")
}

/// Of batches in arrival order only the rows that no later one replaces.
pub(crate) fn last_of_each(batches: Vec<RowBatch>) -> Result<Vec<RowBatch>> {
    let Some(schema) = batches.first().map(|batch| Arc::clone(batch.schema())) else { return Ok(batches) };
    let mut times = batches.iter().flat_map(|batch| batch.times().unwrap_or_default());
    if schema.dedup().is_empty() || times.by_ref().is_sorted_by(|a, b| a < b) {
        return Ok(batches);
    }
    // Back to front: who comes first stays.
    let mut met: HashMap<Key, ()> = HashMap::new();
    let mut kept = Vec::with_capacity(batches.len());
    for batch in batches.into_iter().rev() {
        let keys = read_keys(&schema, |column| Ok(Arc::clone(&batch.columns()[column])))?;
        let mut rows: Vec<u32> = Vec::with_capacity(keys.len());
        for (row, key) in keys.into_iter().enumerate().rev() {
            if met.insert(key, ()).is_none() {
                rows.push(row_number(row));
            }
        }
        rows.reverse();
        kept.push(if rows.len() == batch.rows() { batch } else { take_rows(&batch, &rows.into())? });
    }
    kept.reverse();
    kept.retain(|batch| batch.rows() > 0);
    Ok(kept)
}

/// A run without some of its rows (ascending); `None` where none is left.
fn run_without(run: &Run, gone: &[u32]) -> Result<Option<Arc<Run>>> {
    let mut gone = gone.iter().peekable();
    let kept = (0..row_number(run.rows())).filter(|row| gone.next_if_eq(&row).is_none());
    let kept: UInt32Array = kept.collect::<Vec<_>>().into();
    if kept.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Run::new(take_rows(run.batch(), &kept)?, run.positions()))))
}

/// Rows that are found to be replaced.
#[derive(Debug, Default)]
struct Found {
    runs: Vec<(Arc<Run>, Vec<u32>)>,
    parts: Vec<(Arc<PartFile>, Vec<u32>)>,
}

impl Found {
    /// Adds what else is replaced.
    fn join(&mut self, other: Found) {
        for (run, rows) in other.runs {
            match self.runs.iter_mut().find(|(found, _)| Arc::ptr_eq(found, &run)) {
                Some((_, found)) => found.extend(rows),
                None => self.runs.push((run, rows)),
            }
        }
        self.parts.extend(other.parts);
    }

    fn finish(self, partition: TimeRange) -> Result<Superseded> {
        let mut runs = Vec::with_capacity(self.runs.len());
        for (run, mut rows) in self.runs {
            rows.sort_unstable();
            rows.dedup();
            let left = run_without(&run, &rows)?;
            runs.push((run, left));
        }
        Ok(Superseded { partition, runs, parts: self.parts })
    }
}

impl TableSnapshot {
    /// What rows with these keys, which come at `position`, supersede in their partition; and which of them
    /// (by number, ascending) later rows supersede already, where a frame is replayed before those.
    ///
    /// # Errors
    /// Where a part cannot be read.
    pub(crate) fn supersede(
        &self,
        partition: TimeRange,
        keys: &Keys,
        position: u64,
    ) -> Result<(Superseded, Vec<u32>)> {
        let (found, stale) = self.replaced(partition, keys, position)?;
        Ok((found.finish(partition)?, stale))
    }

    fn replaced(&self, partition: TimeRange, keys: &Keys, position: u64) -> Result<(Found, Vec<u32>)> {
        let (mut replaced, mut stale) = (Found::default(), Vec::new());
        let found = self.partitions.find(partition.from);
        for source in found.into_iter().flat_map(|partition| &partition.sources) {
            let pairs = match source {
                Source::Part(file) => keys.in_part(self, file)?,
                Source::Run(run) => keys.in_run(run)?,
            };
            if pairs.is_empty() {
                continue;
            }
            if source.positions().first > position {
                stale.extend(pairs.iter().map(|(new, _)| *new));
                continue;
            }
            let rows: Vec<u32> = pairs.iter().map(|(_, old)| *old).collect();
            match source {
                Source::Part(file) => replaced.parts.push((Arc::clone(file), rows)),
                Source::Run(run) => replaced.runs.push((Arc::clone(run), rows)),
            }
        }
        stale.sort_unstable();
        stale.dedup();
        Ok((replaced, stale))
    }

    /// What the rows of a part that joins the table replace in it, and in earlier parts of the same load.
    fn replaced_by_part(
        &self,
        partition: TimeRange,
        part: &PartFile,
        earlier: &[(usize, Arc<PartFile>)],
    ) -> Result<Found> {
        let mut replaced = Found::default();
        let there = self.partitions.find(partition.from);
        let view = self.view(part)?;
        for slice in view.part().slices() {
            let meets = |times: Option<(i64, i64)>| match (times, slice.times) {
                (Some((a, b)), Some((c, d))) => a <= d && c <= b,
                _ => true,
            };
            let in_table =
                there.is_some_and(|found| found.sources.iter().any(|source| meets(source.times())));
            let in_load = earlier.iter().any(|(_, file)| meets(file.entry.times));
            if !in_table && !in_load {
                continue;
            }
            let keys = Keys::of_slice(self, &view, slice.rows.clone())?;
            replaced.join(self.replaced(partition, &keys, u64::MAX)?.0);
            for (_, file) in earlier {
                let rows: Vec<u32> = keys.in_part(self, file)?.iter().map(|(_, old)| *old).collect();
                if !rows.is_empty() {
                    replaced.parts.push((Arc::clone(file), rows));
                }
            }
        }
        Ok(replaced)
    }
}

impl LoadEffect {
    /// That of a load which replaces no rows.
    pub(crate) fn plain(parts: Vec<PartEntry>, files: Vec<LoadedFile>) -> Self {
        Self { parts, files, superseded: Vec::new(), own: Vec::new() }
    }

    /// Parts that join a table, with what they replace in it and in each other, in their order.
    ///
    /// # Errors
    /// Where a part cannot be read.
    pub(crate) fn superseding(
        table: &TableSnapshot,
        parts: Vec<PartEntry>,
        files: Vec<LoadedFile>,
    ) -> Result<Self> {
        let mut own = Vec::new();
        let mut superseded: BTreeMap<TimeRange, Found> = BTreeMap::new();
        // By partition: the places of the load's parts so far, and their files.
        let mut before: BTreeMap<i64, Vec<(usize, Arc<PartFile>)>> = BTreeMap::new();
        for (place, entry) in parts.iter().enumerate() {
            let entry = PartEntry { schema_version: table.schema.version(), ..entry.clone() };
            let partition = table.schema.partition_by().partition_of(entry.partition);
            let part = Arc::new(PartFile::new(entry, &table.schema, &table.dir));
            let earlier = before.entry(partition.from).or_default();
            let mut found = table.replaced_by_part(partition, &part, earlier)?;
            for (place, file) in earlier.iter() {
                let of_file = found.parts.extract_if(.., |(part, _)| Arc::ptr_eq(part, file));
                own.extend(of_file.map(|(_, rows)| (*place, rows)));
            }
            superseded.entry(partition).or_default().join(found);
            earlier.push((place, part));
        }
        let finished = superseded.into_iter().map(|(partition, found)| found.finish(partition));
        let superseded = finished.collect::<Result<_>>()?;
        Ok(Self { parts, files, superseded, own })
    }
}

/// Rows of a batch without those of these numbers, ascending.
pub(crate) fn batch_without(batch: &RowBatch, gone: &[u32]) -> Result<RowBatch> {
    let mut gone = gone.iter().peekable();
    let kept = (0..row_number(batch.rows())).filter(|row| gone.next_if_eq(&row).is_none());
    take_rows(batch, &kept.collect::<Vec<_>>().into())
}

impl PartitionSnapshot {
    /// Rows of a part, ascending, that later rows replace; empty for most.
    pub(crate) fn superseded_of(&self, part: &PartFile) -> &[u32] {
        let found = self.superseded.iter().find(|(file, _)| std::ptr::eq(file.as_ref(), part));
        found.map_or(&[], |(_, rows)| rows)
    }

    /// Applies what a commit supersedes; whether that concerns a part, and the positions of runs of which
    /// nothing is left.
    pub(crate) fn take_out(&mut self, superseded: Superseded) -> (bool, Vec<PositionRange>) {
        let mut emptied = Vec::new();
        for (old, new) in superseded.runs {
            if new.is_none() {
                emptied.push(old.positions());
            }
            let same = |source: &Source| matches!(source, Source::Run(run) if Arc::ptr_eq(run, &old));
            if let Some(place) = self.sources.iter().position(same) {
                self.sources.splice(place..=place, new.map(Source::Run));
            }
        }
        let of_parts = !superseded.parts.is_empty();
        for (part, mut rows) in superseded.parts {
            rows.extend_from_slice(self.superseded_of(&part));
            rows.sort_unstable();
            rows.dedup();
            self.superseded.retain(|(file, _)| !Arc::ptr_eq(file, &part));
            self.superseded.push((part, rows.into()));
        }
        self.forget_superseded();
        (of_parts, emptied)
    }

    /// Lets go of what is known of parts that are gone.
    pub(crate) fn forget_superseded(&mut self) {
        let sources = &self.sources;
        let is_there = |file: &Arc<PartFile>| {
            sources.iter().any(|source| source.part().is_some_and(|part| Arc::ptr_eq(part, file)))
        };
        self.superseded.retain(|(file, _)| is_there(file));
    }
}
