//! Bulk loads: rows into parts directly, one atomic commit at the end.
//!
//! Invariants:
//! - until the load's frame is on stable storage nothing names its parts: a crash leaves orphans,
//!   which the next start removes;
//! - when the frame is written, every part and its folder are on stable storage.

use super::commit::{Commit, Commitment, Unnamed, acknowledge};
use super::ingest::to_rows;
use crate::core::catalog::lock_writer;
use crate::core::memory::Reservation;
use crate::core::{Core, RowsOf};
use crate::part::{Density, PositionRange};
use crate::recent::take_rows;
use crate::store::new_part::NewPart;
use crate::store::snapshot::dedup::last_of_each;
use crate::store::snapshot::{Effect, LoadEffect, TableSnapshot};
use crate::tape::change::{Change, ImportSource, LoadedFile, PartEntry};
use crate::upkeep::maintenance::wait_for_memory;
use crate::{EngineError, Result};
use arrow_array::{RecordBatch, UInt32Array};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_model::{RowBatch, SyncPolicy, TimeRange, values_bytes};

/// A bulk load under way. Dropped without [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct BulkLoad {
    /// Dropped before the core, whose last holder closes the database: a clean close leaves no file that nothing names.
    written: Unnamed,
    core: Arc<Core>,
    table: Arc<TableSnapshot>,
    /// Rows not yet in a part, by start of partition.
    waiting: BTreeMap<i64, Waiting>,
    memory: Reservation,
    parts: Vec<PartEntry>,
    rows: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: Vec<RowBatch>,
    bytes: usize,
}

impl BulkLoad {
    pub(crate) fn new(core: Arc<Core>, table: &str) -> Result<Self> {
        let table = core.table_of_rows(table, RowsOf::Tables)?;
        Ok(Self::of(core, &table))
    }

    /// # Errors
    /// [`EngineError::TableGone`], [`EngineError::Model`] where it has no rows of its own.
    pub(crate) fn new_by_id(core: Arc<Core>, id: u32, name: &str) -> Result<Self> {
        let table = core.table_of_rows_by_id(id, name, RowsOf::Tables)?;
        Ok(Self::of(core, &table))
    }

    fn of(core: Arc<Core>, table: &TableSnapshot) -> Self {
        let table = table.without_rows();
        let (waiting, parts, written) = (BTreeMap::new(), Vec::new(), Unnamed::new(&core));
        let memory = core.memory.reserve_for_load();
        Self { core, table, waiting, memory, parts, written, rows: 0 }
    }

    /// Rows given so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows, in any order of time. Loads share half of the memory budget: above its share
    /// the largest partition is written out as a part.
    ///
    /// # Errors
    /// [`EngineError::Model`] where the rows do not fit, [`EngineError::Io`]; drop the load then.
    pub fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        // Recent rows may still have the half of the budget that loads share.
        wait_for_memory(&self.core)?;
        let rows = to_rows(&self.table.schema, &self.table.dictionaries, rows)?;
        self.rows += rows.rows() as u64;
        for (partition, piece) in split_in_arrival_order(rows)? {
            let bytes = piece.columns().iter().map(values_bytes).sum::<usize>();
            let waiting = self.waiting.entry(partition.from).or_default();
            waiting.batches.push(piece);
            waiting.bytes += bytes;
            self.memory.set(self.memory.bytes() + bytes);
        }
        while self.memory.must_write() {
            let largest = self.waiting.iter().max_by_key(|(_, waiting)| waiting.bytes).map(|(from, _)| *from);
            let Some(partition) = largest else { break };
            self.write_part(partition)?;
        }
        Ok(())
    }

    fn write_part(&mut self, partition: i64) -> Result<()> {
        let Some(waiting) = self.waiting.remove(&partition) else { return Ok(()) };
        // The position is the commit's, known only then; the frame and the manifest say it.
        let positions = PositionRange { first: 0, last: 0 };
        let name = self.core.new_part_name(Density::Fast);
        let new = NewPart::new(&self.table, partition, name, positions);
        self.written.add(new.path().to_path_buf());
        let batches = last_of_each(waiting.batches)?;
        let options = self.core.options.part_options(Density::Fast);
        let summary = new.write(self.core.disk.as_ref(), &batches, options)?;
        self.core.counters.loaded(summary.file_bytes);
        self.memory.set(self.memory.bytes() - waiting.bytes);
        self.parts.push(new.entry(&summary));
        Ok(())
    }

    /// As [`Self::commit_files`], of rows that are all of one file, or of none.
    ///
    /// # Errors
    /// As there.
    pub fn commit(self, source: Option<ImportSource>) -> Result<Commit> {
        let rows = self.rows;
        self.commit_files(source.map(|source| LoadedFile { source, rows }).into_iter().collect())
    }

    /// Writes what waits, makes the parts stable and commits them in one frame; the files that the rows are of are
    /// remembered with the table.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::TableGone`] where the table was dropped meanwhile,
    /// [`EngineError::SchemaChanged`] where its columns were changed, [`EngineError::Frozen`]: nothing is stored then.
    /// [`EngineError::TapeStopped`]: reopen to know.
    pub fn commit_files(mut self, mut files: Vec<LoadedFile>) -> Result<Commit> {
        let partitions: Vec<i64> = self.waiting.keys().copied().collect();
        partitions.into_iter().try_for_each(|partition| self.write_part(partition))?;
        if let [only] = files.as_mut_slice() {
            // Of rows with one key only the last is stored.
            only.rows = self.parts.iter().map(|part| part.rows).sum();
        }
        self.written.sync_names()?;
        let core = Arc::clone(&self.core);
        let writer = core.table_writer(&self.table)?;
        let mut commitment = Commitment::begin(&core, vec![lock_writer(&writer)]);
        core.tape.check()?;
        let locked = &mut commitment.writers()[0];
        locked.check_there()?;
        // Parts may have been written already, with the columns of when the load began.
        if locked.table.schema.version() != self.table.schema.version() {
            return Err(EngineError::SchemaChanged { table: locked.table.schema.name().to_string() });
        }
        core.publisher.snapshot().check_not_frozen(locked.table.schema.name(), |range| {
            let times = self.parts.iter().filter_map(|part| part.times);
            times.into_iter().any(|(first, last)| first < range.to && range.from <= last)
        })?;
        let dedup = !self.table.schema.dedup().is_empty();
        if dedup {
            let newest = self.parts.iter().filter_map(|part| part.times).map(|times| times.1).max();
            locked.newest = locked.newest.max(newest);
        }
        let (table, symbols) = (self.table.id, commitment.new_symbols(0));
        let (parts, rows) = (self.parts.clone(), self.rows);
        let change = Change::Load { table, symbols, parts: parts.clone(), files: files.clone() };
        commitment.hold_still(dedup.then_some(&self.table.dir))?;
        let load = if dedup {
            let snapshot = core.publisher.snapshot();
            let now = snapshot.table_by_id(table).unwrap_or(&self.table);
            LoadEffect::superseding(now, parts, files)?
        } else {
            LoadEffect::plain(parts, files)
        };
        let ticket = commitment.append(&change, Effect::Load { table, load }, SyncPolicy::Always)?;
        self.written.named_if(|| {
            commitment.release()?;
            self.memory.set(0);
            acknowledge(&core, &ticket, &[table])
        })?;
        core.counters.committed(rows);
        Ok(Commit { position: ticket.position, rows })
    }
}

/// The rows of each partition, in arrival order.
fn split_in_arrival_order(rows: RowBatch) -> Result<Vec<(TimeRange, RowBatch)>> {
    let Some(times) = rows.times() else {
        return Ok(if rows.rows() == 0 { Vec::new() } else { vec![(TimeRange::ALL, rows)] });
    };
    let partition_by = rows.schema().partition_by();
    // Consecutive rows mostly share a partition: note stretches, then gather them by partition.
    let mut stretches: BTreeMap<TimeRange, Vec<(usize, usize)>> = BTreeMap::new();
    let mut start = 0;
    while let Some(first) = times.get(start) {
        let partition = partition_by.partition_of(*first);
        let inside = |ts: &i64| partition.contains(*ts) || (partition.to == i64::MAX && *ts == i64::MAX);
        let length = times[start..].iter().position(|ts| !inside(ts)).unwrap_or(times.len() - start);
        stretches.entry(partition).or_default().push((start, length));
        start += length;
    }
    let gather = |stretches: &[(usize, usize)]| match stretches {
        [(start, length)] => Ok(rows.slice(*start, *length)),
        many => {
            let numbers = many.iter().flat_map(|(start, length)| *start..start + length);
            let numbers = numbers.map(|row| u32::try_from(row).expect("a batch holds fewer than 2^32 rows"));
            take_rows(&rows, &UInt32Array::from_iter_values(numbers))
        }
    };
    stretches.iter().map(|(partition, stretches)| Ok((*partition, gather(stretches)?))).collect()
}
