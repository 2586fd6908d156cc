//! DELETE and UPDATE: parts are written anew without the rows that go and with the values that come, and
//! take the place of the old ones in one commit.
//!
//! Invariants:
//! - a rewrite has its table for itself: commits wait, its rows are all in parts, and nobody replaces those;
//! - the manifest on stable storage names exactly the parts it works on, so that its frame can be replayed;
//! - of a row that was superseded there is one with its time that nobody superseded: DELETE takes both;
//! - until the frame is on stable storage nothing names the new parts: a crash leaves orphans, which the
//!   next start removes. Parts that no row of changes keep their files;
//! - what it holds in memory is within its share of the budget: changes past that are written, and a part that is
//!   changed further is written once more.

mod edit;
mod part;

use super::commit::{Commitment, Unnamed, acknowledge};
use super::ingest::intern_column;
use crate::core::catalog::TableLock;
use crate::core::{Core, RowsOf};
use crate::lock::lock;
use crate::part::Density;
use crate::store::dictionary::Dictionary;
use crate::store::new_part::NewPart;
use crate::store::snapshot::{Effect, PartFile, Segment, Selection, TableSnapshot};
use crate::tape::change::{Change, RewrittenPart};
use crate::upkeep::saving::save_manifest_or_later;
use crate::upkeep::seal::seal_table;
use crate::{EngineError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef};
use edit::{EditedSlice, PartEdits};
use part::{Came, ChangedPart};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tickstone_model::{ModelError, SyncPolicy, TimeRange};

/// Part of the memory budget that changes of one rewrite may take, and again the marks of which rows they are.
const BUDGET_SHARE: usize = 4;

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
    /// Those of which rows change, by partition and place among its sources.
    parts: BTreeMap<(usize, usize), ChangedPart>,
    edit_bytes: usize,
    mark_bytes: usize,
    /// Files that no frame names yet.
    written: Unnamed,
    bytes: u64,
    /// Where materialized views read the table, which stretches changed rows are in; `None` once they are too many.
    touched: Option<Touched>,
    /// Dropped last: others wait until the files above are dealt with.
    exclusive: Exclusive,
}

/// Stretches of one length.
#[derive(Debug)]
struct Touched {
    grain_ns: i64,
    /// Where they begin, as numbers of stretches since 1970.
    numbers: BTreeSet<i64>,
}

/// Most stretches that a rewrite tells apart.
const TOUCHED_MAX: usize = 1 << 16;

impl Touched {
    /// As ranges of time: apart, ascending.
    fn ranges(&self) -> Vec<TimeRange> {
        let mut ranges: Vec<TimeRange> = Vec::new();
        for number in &self.numbers {
            let from = number.saturating_mul(self.grain_ns);
            let to = from.saturating_add(self.grain_ns);
            match ranges.last_mut() {
                Some(last) if last.to == from => last.to = to,
                _ => ranges.push(TimeRange::new(from, to)),
            }
        }
        ranges
    }
}

/// The right to be the only one who changes a table.
#[derive(Debug)]
struct Exclusive {
    core: Arc<Core>,
    table: Arc<TableSnapshot>,
    writer: Arc<TableLock>,
    turn: u64,
}

impl Exclusive {
    fn take(core: Arc<Core>, table: Arc<TableSnapshot>) -> Result<Self> {
        let writer = core.table_writer(&table)?;
        let turn = writer.begin_rewrite()?;
        lock(&table.dir.layout).rewriting = true;
        Ok(Self { core, table, writer, turn })
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        lock(&self.table.dir.layout).rewriting = false;
        self.writer.end_rewrite(self.turn);
    }
}

impl Rewrite {
    pub(crate) fn new(core: Arc<Core>, table: &str, of: RowsOf) -> Result<Self> {
        let table = core.table_of_rows(table, of)?;
        let id = table.id;
        let exclusive = Exclusive::take(core, table.without_rows())?;
        // Commits that were on their way when the table was locked are to be seen.
        exclusive.core.tape.settle()?;
        seal_table(&exclusive.core, id, &exclusive.core.maintenance.pause())?;
        let snapshot = exclusive.core.publisher.snapshot();
        let table = snapshot.table_by_id(id).map(Arc::clone);
        let table = table
            .ok_or_else(|| EngineError::NoSuchTable { name: exclusive.table.schema.name().to_string() })?;
        let grain = snapshot.finest_grain_above(id).filter(|_| table.schema.timestamp().is_some());
        let touched = grain.map(|grain_ns| Touched { grain_ns, numbers: BTreeSet::new() });
        Ok(Self {
            table,
            parts: BTreeMap::new(),
            edit_bytes: 0,
            mark_bytes: 0,
            written: Unnamed::new(&exclusive.core),
            bytes: 0,
            touched,
            exclusive,
        })
    }

    /// The state it works on; its segments are what [`Self::delete`] and [`Self::update`] take.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Deletes rows, by their numbers in the segment, ascending.
    ///
    /// Segments may come in any order, and again; that of [`TableSnapshot::select`] is the quickest where the changes
    /// take more memory than a quarter of [`crate::EngineOptions::memory_budget_bytes`].
    ///
    /// # Errors
    /// [`EngineError::OtherRows`] where the segment or a row is not one of [`Self::table`]; those of
    /// [`Self::update`] but for columns and values.
    pub fn delete(&mut self, segment: &Segment, rows: &[usize]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let place = self.place_of(segment, rows)?;
        self.touch(segment, rows)?;
        self.change(place, |part| {
            part.delete(rows);
            Ok(())
        })
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
        self.touch(segment, rows)?;
        self.change(place, |part| part.update(rows, column, &values))
    }

    /// Notes which stretches of time rows are in, for the views that read them.
    fn touch(&mut self, segment: &Segment, rows: &[usize]) -> Result<()> {
        let (Some(touched), Some(time)) = (&mut self.touched, self.table.schema.timestamp()) else {
            return Ok(());
        };
        let ranges: Vec<_> =
            rows.chunk_by(|a, b| *b == a + 1).map(|rows| rows[0]..rows[rows.len() - 1] + 1).collect();
        let times = segment.read_ranges(time, &ranges)?;
        if let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() {
            let number = |time: &i64| time.div_euclid(touched.grain_ns);
            touched
                .numbers
                .extend(times.values().chunk_by(|a, b| number(a) == number(b)).map(|of| number(&of[0])));
        }
        if touched.numbers.len() > TOUCHED_MAX {
            self.touched = None;
        }
        Ok(())
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

    /// Changes a part in memory, then writes what that has no room for.
    fn change(
        &mut self,
        place: (usize, usize),
        change: impl FnOnce(&mut ChangedPart) -> Result<()>,
    ) -> Result<()> {
        if !self.parts.contains_key(&place) {
            let part = ChangedPart::new(self.file(place)?);
            self.mark_bytes += part.mark_bytes();
            self.parts.insert(place, part);
        }
        let Some(part) = self.parts.get_mut(&place) else { return Ok(()) };
        if !part.is_open() {
            let (table, most) = (self.table.schema().name().to_string(), self.share());
            return Err(EngineError::RewriteTooLarge { table, most });
        }
        let before = part.edit_bytes();
        change(part)?;
        self.edit_bytes += part.edit_bytes() - before;
        self.keep_within_budget(place)
    }

    /// Bytes that changes may take, and marks again.
    fn share(&self) -> usize {
        self.exclusive.core.options.memory_budget_bytes / BUDGET_SHARE
    }

    fn file(&self, (partition, source): (usize, usize)) -> Result<Arc<PartFile>> {
        let found = self.table.partitions.get(partition).and_then(|found| found.sources.get(source));
        found.and_then(|source| source.part()).map(Arc::clone).ok_or_else(|| EngineError::OtherRows {
            table: self.table.schema().name().to_string(),
            what: "no such part",
        })
    }

    /// Writes changes, and lets go of marks, where all together take too much memory; of the part at `current`, which
    /// more changes are likely to come of, last.
    fn keep_within_budget(&mut self, current: (usize, usize)) -> Result<()> {
        let share = self.share();
        while self.edit_bytes > share {
            let Some(place) = self.most_changed(current) else { break };
            self.write_part(place)?;
        }
        while self.mark_bytes > share {
            let others = self.parts.iter().filter(|(place, part)| **place != current && part.is_open());
            // Rows mostly come in order: the first part is the one of which no more do.
            let Some(place) = others.map(|(place, _)| *place).next() else { break };
            self.write_part(place)?;
            if let Some(part) = self.parts.get_mut(&place) {
                self.mark_bytes -= part.mark_bytes();
                part.close();
            }
        }
        Ok(())
    }

    /// The part whose changes take the most memory; that at `current` only where they take more than all others.
    fn most_changed(&self, current: (usize, usize)) -> Option<(usize, usize)> {
        let of_current = self.parts.get(&current).map_or(0, ChangedPart::edit_bytes);
        if of_current > self.edit_bytes / 2 {
            return Some(current);
        }
        let others = self.parts.iter().filter(|(place, part)| **place != current && part.edit_bytes() > 0);
        others.max_by_key(|(_, part)| part.edit_bytes()).map(|(place, _)| *place)
    }

    /// Writes one part with the changes that it is not written with yet.
    fn write_part(&mut self, place: (usize, usize)) -> Result<()> {
        let Some(edits) = self.parts.get_mut(&place).and_then(ChangedPart::take_edits) else { return Ok(()) };
        self.edit_bytes -= edits.bytes();
        self.write_with(place, &edits)
    }

    fn write_with(&mut self, place: (usize, usize), edits: &PartEdits) -> Result<()> {
        let Some(part) = self.parts.get(&place) else { return Ok(()) };
        let file = match part.files() {
            (found, None) => Arc::clone(found),
            (_, Some(Came::File(_, file))) => Arc::clone(file),
            (_, Some(Came::Nothing)) => return Ok(()),
        };
        let table = Arc::clone(&self.table);
        // A file of this rewrite's own has none.
        let superseded = table.partitions[place.0].superseded_of(&file);
        let came = if edits.deletes_all() {
            Came::Nothing
        } else {
            self.write_edited(&file, superseded, place.0, edits)?
        };
        let Some(part) = self.parts.get_mut(&place) else { return Ok(()) };
        let before = part.mark_bytes();
        let gone = part.written(edits, superseded, came);
        self.mark_bytes += part.mark_bytes() - before;
        drop(file);
        if let Some(path) = gone {
            self.written.remove(&path)?;
        }
        Ok(())
    }

    /// Writes the other parts with superseded rows of partitions that lose rows: these may be the ones that replaced
    /// them. Without them nobody has the times of those any more, which would still count as the newest of the table
    /// for its time to live.
    fn write_without_superseded(&mut self) -> Result<()> {
        let table = Arc::clone(&self.table);
        let loses = |part: &ChangedPart, superseded: &[u32]| {
            let (found, came) = part.files();
            let left = match came {
                Some(Came::File(_, file)) => file.entry.rows,
                Some(Came::Nothing) => 0,
                None => return false,
            };
            left + (superseded.len() as u64) < found.entry.rows
        };
        let changed = self.parts.iter().filter(|((partition, _), part)| {
            loses(part, table.partitions[*partition].superseded_of(part.files().0))
        });
        let partitions: BTreeSet<usize> = changed.map(|((partition, _), _)| *partition).collect();
        for partition in partitions {
            let found = &table.partitions[partition];
            for (source, of) in found.sources.iter().enumerate() {
                let (place, Some(file)) = ((partition, source), of.part()) else { continue };
                if !self.parts.contains_key(&place) && !found.superseded_of(file).is_empty() {
                    let mut part = ChangedPart::new(Arc::clone(file));
                    part.close();
                    let none = PartEdits::new(part.rows());
                    self.parts.insert(place, part);
                    self.write_with(place, &none)?;
                }
            }
        }
        Ok(())
    }

    fn write_edited(
        &mut self,
        file: &Arc<PartFile>,
        superseded: &[u32],
        partition: usize,
        edits: &PartEdits,
    ) -> Result<Came> {
        let table = Arc::clone(&self.table);
        let partition = table.partitions[partition].range;
        let core = Arc::clone(&self.exclusive.core);
        let name = core.new_part_name(Density::Fast);
        let new = NewPart::new(&table, partition.from, name, file.entry.positions);
        self.written.add(new.path().to_path_buf());
        let mut writer = new.writer(core.disk.as_ref(), core.options.part_options(Density::Fast))?;
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
            return Ok(Came::Nothing);
        }
        let summary = writer.finish()?;
        self.bytes += summary.file_bytes;
        Ok(Came::File(new.path().to_path_buf(), new.opened(&summary)))
    }

    /// The parts that were written anew, as the tape tells of them.
    fn rewritten(&self) -> Vec<RewrittenPart> {
        let of_part = |part: &ChangedPart| {
            let (found, came) = part.files();
            let came = match came? {
                Came::Nothing => None,
                Came::File(_, file) => Some(file.entry.clone()),
            };
            Some(RewrittenPart { partition: found.entry.partition, gone: found.entry.file.clone(), came })
        };
        self.parts.values().filter_map(of_part).collect()
    }

    /// Writes what is left to write, makes it stable and commits it in one frame.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`], [`EngineError::CommitTooLarge`]: nothing is stored
    /// then. [`EngineError::TapeStopped`]: reopen to know.
    pub fn commit(mut self) -> Result<Rewritten> {
        let places: Vec<_> = self.parts.keys().copied().collect();
        places.into_iter().try_for_each(|place| self.write_part(place))?;
        self.write_without_superseded()?;
        let rewritten = self.rewritten();
        let rows = self.parts.values().map(ChangedPart::changed_rows).sum();
        let (parts, bytes) = (rewritten.len(), self.bytes);
        if parts == 0 {
            return Ok(Rewritten { rows, parts, bytes, position: 0 });
        }
        let core = Arc::clone(&self.exclusive.core);
        self.written.sync_names()?;
        let mut commitment = Commitment::begin(&core, vec![self.exclusive.writer.lock_rewriting()]);
        let (table, symbols) = (self.table.id, commitment.new_symbols(0));
        let touched = self.touched.as_ref().map_or_else(Vec::new, Touched::ranges);
        let change = Change::Rewrite { table, symbols, parts: rewritten.clone(), touched: touched.clone() };
        let effect = Effect::Rewrite { table, parts: rewritten, touched };
        let ticket = commitment.append(&change, effect, SyncPolicy::Always)?;
        self.written.named_if(|| {
            commitment.release()?;
            core.tape.wait(&ticket)
        })?;
        core.counters.rewrote(bytes);
        drop(self);
        acknowledge(&core, &ticket, &[table])?;
        // Should the frame be lost later, no repair takes the rows from before it for the table's.
        save_manifest_or_later(&core, table);
        Ok(Rewritten { rows, parts, bytes, position: ticket.position })
    }
}
