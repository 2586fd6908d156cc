//! DELETE and UPDATE: parts are written anew without the rows that go and with the values that come, and
//! take the place of the old ones in one commit.
//!
//! Invariants:
//! - a rewrite has its table for itself: commits wait, its rows are all in parts, and nobody replaces those;
//! - the manifest on stable storage names exactly the parts it works on, so that its frame can be replayed;
//! - until the frame is on stable storage nothing names the new parts: a crash leaves orphans, which the
//!   next start removes. Parts that no row of changes keep their files.

mod edit;

use crate::dictionary::Dictionary;
use crate::engine::{Core, TableWriter, lock, lock_writer};
use crate::ingest::intern_column;
use crate::part::{Density, PartWriter};
use crate::snapshot::{Effect, PartFile, Segment, Selection, TableSnapshot, part_path};
use crate::tape::change::{Change, PartEntry, RewrittenPart, encode_change};
use crate::{EngineError, Result};
use arrow_array::{Array, ArrayRef};
use edit::{EditedSlice, PartEdits};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tickstone_model::{ModelError, SyncPolicy, TimeRange};

/// Part of the memory budget that changes of one rewrite may take.
const BUDGET_SHARE: usize = 4;
/// Changes of one rewrite that are held whatever the budget.
const HELD_BYTES_MIN: usize = 1 << 20;

/// What a rewrite changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewritten {
    /// Rows deleted or updated.
    pub rows: u64,
    /// Parts written anew, those of which nothing is left included.
    pub parts: usize,
    /// Bytes of the parts written.
    pub bytes: u64,
    /// Its position in the tape; 0 where nothing was to be done.
    pub position: u64,
}

/// Deletes and updates under way. Dropped without [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Rewrite {
    table: Arc<TableSnapshot>,
    /// What is still to be written, by partition and place among its sources.
    edits: BTreeMap<(usize, usize), PartEdits>,
    edit_bytes: usize,
    /// Parts whose changes were written already.
    done: BTreeMap<(usize, usize), RewrittenPart>,
    /// Files that no frame names yet.
    written: Vec<PathBuf>,
    rows: u64,
    bytes: u64,
    /// Dropped last: others wait until the files above are dealt with.
    exclusive: Exclusive,
}

/// The right to be the only one who changes a table.
#[derive(Debug)]
struct Exclusive {
    core: Arc<Core>,
    table: Arc<TableSnapshot>,
    writer: Arc<Mutex<TableWriter>>,
}

impl Exclusive {
    fn take(core: Arc<Core>, table: Arc<TableSnapshot>) -> Result<Self> {
        let writer = core.table_writer(&table)?;
        {
            let mut locked = lock_writer(&writer);
            if locked.dropped {
                return Err(EngineError::NoSuchTable { name: table.schema.name().to_string() });
            }
            locked.rewriting = true;
        }
        lock(&table.dir.layout).rewriting = true;
        Ok(Self { core, table, writer })
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        lock(&self.table.dir.layout).rewriting = false;
        lock(&self.writer).end_rewrite();
    }
}

impl Rewrite {
    pub(crate) fn new(core: Arc<Core>, table: &str) -> Result<Self> {
        core.writing("DELETE or UPDATE")?;
        let table = core.table_of_rows(table)?;
        let id = table.id;
        let exclusive = Exclusive::take(core, table.without_rows())?;
        let writing = exclusive.core.writing("DELETE or UPDATE")?;
        // Commits that were on their way when the table was locked are to be seen.
        writing.tape.settle()?;
        {
            let pause = writing.maintenance.pause();
            exclusive.core.seal_table(id, &pause)?;
        }
        let snapshot = exclusive.core.publisher.snapshot();
        let table = snapshot.table_by_id(id).map(Arc::clone);
        let table = table
            .ok_or_else(|| EngineError::NoSuchTable { name: exclusive.table.schema.name().to_string() })?;
        Ok(Self {
            table,
            edits: BTreeMap::new(),
            edit_bytes: 0,
            done: BTreeMap::new(),
            written: Vec::new(),
            rows: 0,
            bytes: 0,
            exclusive,
        })
    }

    /// The state it works on; its segments are what [`Self::delete`] and [`Self::update`] take.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Deletes rows, by their numbers in the segment, ascending.
    ///
    /// Segments may come in any order as long as memory suffices; in the order of
    /// [`TableSnapshot::select`] they may change any number of parts.
    ///
    /// # Errors
    /// [`EngineError::OtherRows`] where the segment or a row is not one of [`Self::table`]; those of
    /// [`Self::update`] but for columns and values.
    pub fn delete(&mut self, segment: &Segment, rows: &[usize]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let place = self.place_of(segment, rows)?;
        let edits = self.edits_of(place)?;
        let before = edits.bytes();
        edits.delete(rows);
        self.edit_bytes += edits.bytes() - before;
        self.keep_within_budget(place)
    }

    /// Gives rows, by their numbers in the segment, ascending, other values in a column: one a row, in the
    /// column's edge type (a SYMBOL also as any Arrow string). Of several values of a row the last counts.
    ///
    /// # Errors
    /// [`EngineError::KeyColumn`] for the designated timestamp and the series key, [`EngineError::Model`]
    /// where the values do not fit, [`EngineError::TooManySymbols`], [`EngineError::OtherRows`]: nothing was
    /// added then. [`EngineError::Io`], [`EngineError::Damaged`] where parts cannot be read or written, and
    /// [`EngineError::RewriteTooLarge`]: drop the rewrite then.
    pub fn update(
        &mut self,
        segment: &Segment,
        rows: &[usize],
        column: usize,
        values: &ArrayRef,
    ) -> Result<()> {
        let values = self.stored_values(column, rows.len(), values)?;
        if rows.is_empty() {
            return Ok(());
        }
        let place = self.place_of(segment, rows)?;
        let edits = self.edits_of(place)?;
        let before = edits.bytes();
        edits.update(rows, column, values);
        self.edit_bytes += edits.bytes() - before;
        self.keep_within_budget(place)
    }

    /// Values in stored type; new symbols get ids.
    fn stored_values(&self, column: usize, rows: usize, values: &ArrayRef) -> Result<ArrayRef> {
        let schema = self.table.schema();
        let mismatch = |column: String, expected: String| {
            let found = format!("{} values of {}", values.len(), values.data_type());
            EngineError::Model(ModelError::BatchColumn { column, expected, found })
        };
        let Some(of) = schema.columns().get(column) else {
            let expected = format!("a column of '{}'", schema.name());
            return Err(mismatch(format!("number {column}"), expected));
        };
        let role = match column {
            _ if schema.timestamp() == Some(column) => Some("it is the designated timestamp"),
            _ if schema.series().contains(&column) => Some("it is in the series key"),
            _ if schema.dedup().contains(&column) => Some("it is one of the DEDUP UPSERT KEYS"),
            _ => None,
        };
        if let Some(role) = role {
            let (table, column) = (schema.name().to_string(), of.name.clone());
            return Err(EngineError::KeyColumn { table, column, role });
        }
        let dictionary: Option<&Arc<Dictionary>> = self.table.dictionary(column);
        let stored = match dictionary {
            Some(dictionary) => intern_column(schema, of, dictionary, values)?,
            None => Arc::clone(values),
        };
        let expected = of.column_type.stored_type();
        if *stored.data_type() != expected || stored.len() != rows {
            return Err(mismatch(of.name.clone(), format!("{rows} values of {expected}")));
        }
        Ok(stored)
    }

    /// The partition and source that a segment is of.
    fn place_of(&self, segment: &Segment, rows: &[usize]) -> Result<(usize, usize)> {
        let table = || self.table.schema().name().to_string();
        let other = |what| EngineError::OtherRows { table: table(), what };
        let partition = self.table.partitions.get(segment.partition());
        let partition = partition.ok_or_else(|| other("no such partition"))?;
        let part = segment.part().ok_or_else(|| other("the segment is of recent rows"))?;
        let is_it =
            |file: &&Arc<PartFile>| file.open().is_ok_and(|opened| std::ptr::eq(opened.as_ref(), part));
        let place =
            partition.sources.iter().position(|source| source.part().is_some_and(|file| is_it(&file)));
        let place = place.ok_or_else(|| other("the segment is of a part that is not there"))?;
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = rows.last().is_some_and(|last| (*last as u64) < part.summary().rows);
        if !ascending || !inside {
            return Err(other("rows that do not ascend, or are not the segment's"));
        }
        Ok((segment.partition(), place))
    }

    fn edits_of(&mut self, place: (usize, usize)) -> Result<&mut PartEdits> {
        if self.done.contains_key(&place) {
            let table = self.table.schema().name().to_string();
            return Err(EngineError::OtherRows { table, what: "the part was written anew already" });
        }
        let rows = self.file(place)?.entry.rows;
        Ok(self.edits.entry(place).or_insert_with(|| PartEdits::new(rows)))
    }

    fn file(&self, (partition, source): (usize, usize)) -> Result<Arc<PartFile>> {
        let found = self.table.partitions.get(partition).and_then(|found| found.sources.get(source));
        found.and_then(|source| source.part()).map(Arc::clone).ok_or_else(|| EngineError::OtherRows {
            table: self.table.schema().name().to_string(),
            what: "no such part",
        })
    }

    /// Writes the changes of other parts than that at `current` where all together take too much memory.
    fn keep_within_budget(&mut self, current: (usize, usize)) -> Result<()> {
        let share = self.exclusive.core.options.memory_budget_bytes / BUDGET_SHARE;
        let most = share.max(HELD_BYTES_MIN);
        while self.edit_bytes > share {
            let other = self.edits.keys().find(|place| **place != current).copied();
            let Some(place) = other else {
                if self.edit_bytes <= most {
                    return Ok(());
                }
                let table = self.table.schema().name().to_string();
                return Err(EngineError::RewriteTooLarge { table, bytes: self.edit_bytes, most });
            };
            self.write_part(place)?;
        }
        Ok(())
    }

    /// Writes one part with its changes.
    fn write_part(&mut self, place: (usize, usize)) -> Result<()> {
        let Some(edits) = self.edits.remove(&place) else { return Ok(()) };
        self.edit_bytes -= edits.bytes();
        let file = self.file(place)?;
        let changed = edits.changed_rows();
        let partition = self.table.partitions[place.0].range;
        let came = if edits.deletes_all() { None } else { self.write_edited(&file, place.0, &edits)? };
        self.rows += changed;
        let gone = file.entry.file.clone();
        self.done.insert(place, RewrittenPart { partition: partition.from, gone, came });
        Ok(())
    }

    fn write_edited(
        &mut self,
        file: &Arc<PartFile>,
        partition: usize,
        edits: &PartEdits,
    ) -> Result<Option<PartEntry>> {
        let table = Arc::clone(&self.table);
        let superseded = table.partitions[partition].superseded_of(file);
        let partition = table.partitions[partition].range;
        let core = Arc::clone(&self.exclusive.core);
        let (schema, positions) = (self.table.schema(), file.entry.positions);
        let name = core.new_part_name(Density::Fast);
        let path = part_path(self.table.id, schema, partition.from, &name);
        let options = core.options.part_options(Density::Fast);
        let mut writer = PartWriter::create(core.disk.as_ref(), &path, schema, positions, options)?;
        let mut rows = 0;
        for slice in 0..file.open()?.slices().len() {
            let all = Selection::default();
            let found = self.table.select_slice(file, superseded, (0, slice), &all, &TimeRange::ALL)?;
            let Some(segment) = found else { continue };
            let edited = EditedSlice::new(&segment, edits);
            rows += edited.row_count();
            if edited.row_count() > 0 {
                writer.add(&edited)?;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let summary = writer.finish()?;
        self.written.push(path);
        self.bytes += summary.file_bytes;
        let (rows, times, file_bytes) = (summary.rows, summary.times, summary.file_bytes);
        let (partition, file, schema_version) = (partition.from, name, schema.version());
        Ok(Some(PartEntry { partition, file, positions, rows, times, file_bytes, schema_version }))
    }

    /// Writes what is left to write, makes it stable and commits it in one frame.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`], [`EngineError::CommitTooLarge`]: nothing is stored
    /// then. [`EngineError::TapeStopped`]: reopen to know.
    pub fn commit(mut self) -> Result<Rewritten> {
        let places: Vec<_> = self.edits.keys().copied().collect();
        places.into_iter().try_for_each(|place| self.write_part(place))?;
        let (rows, parts, bytes) = (self.rows, self.done.len(), self.bytes);
        if parts == 0 {
            return Ok(Rewritten { rows, parts, bytes, position: 0 });
        }
        let core = Arc::clone(&self.exclusive.core);
        let folders: BTreeSet<_> = self.written.iter().filter_map(|path| path.parent()).collect();
        for folder in folders {
            core.disk.sync_dir(folder).map_err(EngineError::io("sync", folder))?;
        }
        let writing = core.writing("DELETE or UPDATE")?;
        let rewritten: Vec<RewrittenPart> = self.done.values().cloned().collect();
        let ticket = {
            let mut writer = lock(&self.exclusive.writer);
            let fate = writing.tape.fate();
            let (table, symbols) = (self.table.id, writer.new_symbols(&writing.tape));
            let change = Change::Rewrite { table, symbols, parts: rewritten.clone() };
            let (kind, payload) = encode_change(&change);
            let effect = Effect::Rewrite { table, parts: rewritten };
            let ticket = writing.tape.append_after(&fate, kind, &payload, effect, SyncPolicy::Always)?;
            if let Change::Rewrite { symbols, .. } = &change {
                writer.logged(symbols, &ticket);
            }
            ticket
        };
        // From here on the tape may name the files: they stay, unless it says that it does not.
        let written = std::mem::take(&mut self.written);
        writing.tape.wait(&ticket).inspect_err(|error| {
            if matches!(error, EngineError::DiskFull { .. }) {
                self.written = written;
            }
        })?;
        core.counters.rewrote(bytes);
        let table = self.table.id;
        drop(self);
        core.acknowledge(&ticket, [table])?;
        Ok(Rewritten { rows, parts, bytes, position: ticket.position })
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        for path in &self.written {
            // What cannot be removed is unnamed: the next start removes it.
            let _ = self.exclusive.core.disk.remove(path);
        }
    }
}
