//! How one change makes the next snapshot; the same code serves commits and recovery.

use super::{
    DroppedCell, HeldPart, PartFile, PartitionSnapshot, Partitions, Snapshot, Source, TableDir,
    TableSnapshot, Unpacking,
};
use crate::disk::Disk;
use crate::part::PositionRange;
use crate::recent::Run;
use crate::store::dictionary::Dictionary;
use crate::store::history::History;
use crate::store::manifest::{ImportRecord, Manifest, SupersededRows};
use crate::store::staleness::Staleness;
use crate::tape::change::{LoadedFile, PartEntry, RewrittenPart};
use crate::tape::writer::Written;
use std::collections::HashSet;
use std::sync::Arc;
use tickstone_model::{RowBatch, TableSchema, TimeRange};

/// What a frame does to the snapshot.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Rows, cut by partition and sorted by time; whether their frame brought new symbols.
    Rows(Vec<RowsEffect>),
    Create(TableSnapshot),
    Drop {
        table: u32,
    },
    Truncate {
        table: u32,
    },
    Load {
        table: u32,
        load: LoadEffect,
    },
    /// Parts replaced one by one.
    Rewrite {
        table: u32,
        parts: Vec<RewrittenPart>,
        touched: Vec<TimeRange>,
    },
    Alter {
        table: u32,
        schema: Arc<TableSchema>,
    },
    /// A table goes, where it is still there, and another has its name and this shape, which it may have already.
    Replace {
        table: u32,
        schema: Option<Arc<TableSchema>>,
        replaced: Option<u32>,
    },
    DropPartitions {
        table: u32,
        range: TimeRange,
        dropped: DroppedCell,
    },
    /// Of a materialized view: which stretches hold the rows of its query as of a position, and which do not.
    Refresh {
        table: u32,
        as_of: u64,
        current: Vec<TimeRange>,
        stale: Vec<TimeRange>,
    },
    Nothing,
}

/// The rows of one table in a commit.
#[derive(Debug)]
pub(crate) struct RowsEffect {
    pub(crate) table: u32,
    pub(crate) pieces: Vec<(TimeRange, RowBatch)>,
    pub(crate) new_symbols: bool,
    /// What they replace.
    pub(crate) superseded: Vec<Superseded>,
}

/// Rows of a partition that a commit replaces (DEDUP UPSERT KEYS).
#[derive(Debug)]
pub(crate) struct Superseded {
    pub(crate) partition: TimeRange,
    /// Runs, and what is left of each.
    pub(crate) runs: Vec<(Arc<Run>, Option<Arc<Run>>)>,
    /// Rows of parts.
    pub(crate) parts: Vec<(Arc<PartFile>, Vec<u32>)>,
}

impl Superseded {
    /// None yet.
    pub(crate) fn new(partition: TimeRange) -> Self {
        Self { partition, runs: Vec::new(), parts: Vec::new() }
    }
}

/// The parts of a bulk load, in the order of their commit.
#[derive(Debug)]
pub(crate) struct LoadEffect {
    pub(crate) parts: Vec<PartEntry>,
    pub(crate) files: Vec<LoadedFile>,
    /// What they replace in the table.
    pub(crate) superseded: Vec<Superseded>,
    /// Rows of the load's own parts, by their places, that its later parts replace.
    pub(crate) own: Vec<(usize, Vec<u32>)>,
}

impl TableSnapshot {
    /// An empty table.
    pub(crate) fn new(id: u32, schema: TableSchema, created_at: u64, disk: &Arc<dyn Disk>) -> Self {
        let schema = Arc::new(schema);
        let staleness = schema.materialized().map(|_| Staleness::all(0)).unwrap_or_default();
        let mut dictionaries: Vec<Option<Arc<Dictionary>>> = vec![None; schema.columns().len()];
        schema.symbol_columns().for_each(|column| dictionaries[column] = Some(Arc::default()));
        Self {
            id,
            history: Arc::new(History::new(Arc::clone(&schema))),
            schema,
            dictionaries: dictionaries.into(),
            partitions: Partitions::default(),
            imports: Arc::default(),
            created_at,
            truncated_at: 0,
            opened_at: 0,
            revision: 1,
            emptied: Arc::default(),
            retired: Vec::new(),
            retired_columns: Vec::new(),
            staleness: Arc::new(staleness),
            dir: Arc::new(TableDir::new(id, disk)),
        }
    }

    /// The table a manifest describes.
    pub(crate) fn from_manifest(
        manifest: Manifest,
        dictionaries: Vec<Option<Arc<Dictionary>>>,
        disk: &Arc<dyn Disk>,
    ) -> Self {
        let mut table = Self::new(manifest.table, manifest.schema, manifest.created_at, disk);
        table.dictionaries = dictionaries.into();
        table.history = Arc::new(manifest.history);
        table.imports = Arc::new(manifest.imports);
        table.truncated_at = manifest.truncated_at;
        table.opened_at = manifest.saved_at;
        table.revision = 0;
        for (column, count) in table.schema.symbol_columns().zip(manifest.symbol_counts) {
            table.dir.note_saved_symbols(table.schema.column_id(column), count);
        }
        let unpacking = Unpacking {
            dir: Arc::clone(&table.dir),
            history: Arc::clone(&table.history),
            schema: Arc::clone(&table.schema),
        };
        table.partitions = Partitions::unpacked_later(manifest.parts, unpacking);
        table.emptied = Arc::new(manifest.emptied);
        table.staleness = Arc::new(manifest.staleness);
        for of_part in manifest.superseded {
            let range = table.schema.partition_by().partition_of(of_part.partition);
            table.partitions.change(range, |partition| {
                let part =
                    partition.part_sources().find(|part| part.entry.file == of_part.file).map(Arc::clone);
                partition.superseded.extend(part.map(|part| (part, of_part.rows.into())));
            });
        }
        table
    }

    /// What the manifest must say, as of the snapshot at `position`.
    pub(crate) fn to_manifest(&self, position: u64) -> Manifest {
        let counts = self.dictionaries.iter().flatten().map(|dictionary| dictionary.len());
        let with_rows = self.partitions.with_superseded().flat_map(|partition| {
            partition.superseded.iter().map(|(part, rows)| SupersededRows {
                partition: partition.range.from,
                file: part.entry.file.clone(),
                rows: rows.to_vec(),
            })
        });
        let superseded = with_rows.collect();
        Manifest {
            table: self.id,
            schema: TableSchema::clone(&self.schema),
            created_at: self.created_at,
            truncated_at: self.truncated_at,
            saved_at: position,
            symbol_counts: counts.map(|count| u32::try_from(count).expect("ids are u32")).collect(),
            parts: self.partitions.packed(),
            emptied: Vec::clone(&self.emptied),
            imports: Vec::clone(&self.imports),
            history: History::clone(&self.history),
            superseded,
            staleness: Staleness::clone(&self.staleness),
        }
    }

    /// Whether the manifest it was opened with holds the load, or the change of shape, at `position`.
    pub(crate) fn holds(&self, position: u64) -> bool {
        position <= self.opened_at
    }

    /// Whether a part holds the rows that the frame at `position` brought to a partition.
    pub(crate) fn is_sealed(&self, partition: &TimeRange, position: u64) -> bool {
        let holds = |held: PositionRange| held.first <= position && position <= held.last;
        let found = self.partitions.find(partition.from);
        found.is_some_and(|found| found.part_sources().any(|part| holds(part.entry.positions)))
            || self.emptied.iter().any(|gone| gone.partition == partition.from && holds(gone.positions))
    }

    /// Whether a part of this name is in the table.
    pub(crate) fn has_part(&self, partition: i64, file: &str) -> bool {
        self.part_named(partition, file).is_some()
    }

    /// The part of this name.
    pub(crate) fn part_named(&self, partition: i64, file: &str) -> Option<Arc<PartFile>> {
        self.partitions.find(partition)?.part_sources().find(|part| part.entry.file == file).map(Arc::clone)
    }

    /// The part of this name, with what of it is superseded.
    pub(crate) fn held_part(&self, partition: i64, file: &str) -> Option<HeldPart> {
        let found = self.partitions.find(partition)?;
        let part = found.part_sources().find(|part| part.entry.file == file)?;
        Some(HeldPart { part: Arc::clone(part), superseded: found.superseded_of(part).into() })
    }

    /// The table with no rows but those of some parts.
    pub(crate) fn of_parts(&self, parts: impl IntoIterator<Item = HeldPart>) -> Arc<Self> {
        let mut table = Arc::unwrap_or_clone(self.without_rows());
        parts.into_iter().for_each(|held| table.insert_part(held.part, &held.superseded));
        Arc::new(table)
    }

    /// Puts a part in its place, without the rows that are superseded.
    pub(crate) fn insert_part(&mut self, part: Arc<PartFile>, superseded: &Arc<[u32]>) {
        let range = self.schema.partition_by().partition_of(part.entry.partition);
        self.partitions.change(range, |partition| {
            if !superseded.is_empty() {
                partition.superseded.push((Arc::clone(&part), Arc::clone(superseded)));
            }
            partition.insert(Source::Part(part));
        });
    }

    /// Puts a part, or nothing, in the place of the one it was made of.
    fn rewrite_part(&mut self, rewritten: RewrittenPart) {
        let Some(range) = self.partitions.find(rewritten.partition).map(|found| found.range) else { return };
        let schema_version = self.schema.version();
        let came = rewritten.came.map(|entry| PartEntry { schema_version, ..entry });
        let came = came.map(|entry| Source::Part(Arc::new(PartFile::new(entry, &self.schema, &self.dir))));
        let emptied = came.is_none();
        let gone = self.partitions.change(range, |partition| {
            let is_it =
                |source: &Source| matches!(source, Source::Part(part) if part.entry.file == rewritten.gone);
            let place = partition.sources.iter().position(is_it)?;
            let gone = partition.sources.splice(place..=place, came).next();
            partition.forget_superseded();
            gone
        });
        if let Some(Source::Part(gone)) = gone {
            if emptied {
                Arc::make_mut(&mut self.emptied).push(gone.entry.emptied());
            }
            self.retired.push(gone);
        }
        self.revision += 1;
    }

    /// Parts of a bulk load, in the schema of its frame, join the table.
    fn load(&mut self, position: u64, load: LoadEffect) {
        self.revision += 1;
        self.take_out(position, load.superseded);
        let positions = PositionRange { first: position, last: position };
        let schema_version = self.schema.version();
        let mut own = load.own;
        for (place, part) in load.parts.into_iter().enumerate() {
            let range = self.schema.partition_by().partition_of(part.partition);
            let part = self.add_part(PartEntry { positions, schema_version, ..part });
            for (_, rows) in own.extract_if(.., |(of, _)| *of == place) {
                let parts = vec![(Arc::clone(&part), rows)];
                self.take_out(position, vec![Superseded { parts, ..Superseded::new(range) }]);
            }
        }
        if !load.files.is_empty() {
            let record = |LoadedFile { source, rows }| ImportRecord { source, rows, position };
            Arc::make_mut(&mut self.imports).extend(load.files.into_iter().map(record));
        }
    }

    /// Notes that of these positions no row of a partition is left, as of `position`.
    fn note_emptied(&mut self, position: u64, partition: i64, mut positions: PositionRange) {
        let sources = self.partitions.find(partition).map_or(&[][..], |found| &found.sources);
        let holds_rows = |between: PositionRange| {
            let meets = |held: PositionRange| held.first <= between.last && between.first <= held.last;
            sources.iter().any(|source| meets(source.positions()))
        };
        // One entry with its neighbours, so that rows which are replaced over and over leave few; frames that
        // are still to be replayed may have rows before later ones.
        Arc::make_mut(&mut self.emptied).retain(|entry| {
            let first = entry.positions.first.min(positions.first);
            let last = entry.positions.last.max(positions.last);
            let joins = entry.partition == partition
                && last <= position
                && !holds_rows(PositionRange { first, last });
            if joins {
                positions = PositionRange { first, last };
            }
            !joins
        });
        Arc::make_mut(&mut self.emptied).push(PartEntry::emptied_of(partition, positions));
    }

    /// Takes out, or notes, what a commit replaces.
    fn take_out(&mut self, position: u64, superseded: Vec<Superseded>) {
        for of_partition in superseded {
            let range = of_partition.partition;
            if self.partitions.find(range.from).is_none() {
                continue;
            }
            let (of_parts, emptied) =
                self.partitions.change(range, |partition| partition.take_out(of_partition));
            // The rows that replaced them may be deleted later: the tape must not bring these back.
            emptied.into_iter().for_each(|positions| self.note_emptied(position, range.from, positions));
            // The frames that said so may be forgotten before these parts are.
            self.revision += u64::from(of_parts);
        }
    }

    fn add_part(&mut self, entry: PartEntry) -> Arc<PartFile> {
        let schema = self.history.version(entry.schema_version).unwrap_or(&self.schema);
        let part = Arc::new(PartFile::new(entry, schema, &self.dir));
        self.insert_part(Arc::clone(&part), &Arc::default());
        part
    }
}

impl PartitionSnapshot {
    /// Puts a source in its place among the positions; a new commit's is the end.
    fn insert(&mut self, source: Source) {
        let first = source.positions().first;
        let at = self.sources.partition_point(|other| other.positions().first <= first);
        self.sources.insert(at, source);
    }

    /// Puts one source in the place of neighbouring runs; `false` where they are not all there.
    fn replace_runs(&mut self, runs: &[Arc<Run>], with: Source) -> bool {
        let same =
            |source: &Source, run: &Arc<Run>| matches!(source, Source::Run(other) if Arc::ptr_eq(other, run));
        let first = runs.first().and_then(|first| self.sources.iter().position(|source| same(source, first)));
        let Some(start) = first else { return false };
        let end = start + runs.len();
        let these = self.sources.get(start..end);
        let intact = these.is_some_and(|these| these.iter().zip(runs).all(|(s, r)| same(s, r)));
        if intact {
            self.sources.splice(start..end, [with]);
        }
        intact
    }
}

impl Snapshot {
    /// The effect of a frame. Effects for tables that are gone do nothing.
    pub(crate) fn apply(&mut self, written: Written<Effect>) {
        let Written { position, received_ns, effect } = written;
        self.position = position;
        if self.tables.has_views() {
            self.mark_views(position, &effect);
        }
        match effect {
            Effect::Rows(tables) => {
                tables.into_iter().for_each(|rows| self.add_rows(position, received_ns, rows));
            }
            Effect::Create(table) => self.add_table(TableSnapshot { created_at: position, ..table }),
            Effect::Drop { table } => {
                self.tables.remove(table);
                self.catalog_version += 1;
            }
            Effect::Truncate { table } => {
                self.tables.change(table, |table| {
                    let gone = std::mem::take(&mut table.partitions);
                    let parts = gone.iter().flat_map(|partition| partition.part_sources());
                    table.retired.extend(parts.map(Arc::clone));
                    table.imports = Arc::default();
                    table.emptied = Arc::default();
                    table.truncated_at = position;
                    table.revision += 1;
                });
            }
            Effect::Load { table, load } => {
                self.tables.change(table, |table| table.load(position, load));
                self.expire(table, position, received_ns);
            }
            Effect::Rewrite { table, parts, .. } => {
                self.tables
                    .change(table, |table| parts.into_iter().for_each(|part| table.rewrite_part(part)));
            }
            Effect::Alter { table, schema } => self.alter_table(position, table, schema),
            Effect::Replace { table, schema, replaced } => {
                if let Some(replaced) = replaced {
                    self.tables.remove(replaced);
                }
                self.catalog_version += 1;
                if let Some(schema) = schema {
                    self.alter_table(position, table, schema);
                }
            }
            Effect::DropPartitions { table, range, dropped } => {
                let gone = self.drop_partitions(position, table, range);
                // Nobody else sets it: an effect is applied once.
                let _ = dropped.set(gone);
            }
            Effect::Refresh { table, as_of, current, stale } => {
                self.refresh_view(table, position, as_of, &current, &stale);
            }
            Effect::Nothing => {}
        }
    }

    fn add_rows(&mut self, position: u64, received_ns: i64, rows: RowsEffect) {
        let id = rows.table;
        self.tables.change(id, |table| {
            table.revision += u64::from(rows.new_symbols);
            table.take_out(position, rows.superseded);
            let positions = PositionRange { first: position, last: position };
            for (range, batch) in rows.pieces {
                let run = Source::Run(Arc::new(Run::new(batch, positions)));
                table.partitions.change(range, |partition| partition.insert(run));
            }
        });
        self.expire(id, position, received_ns);
    }

    /// Adds a table as it is.
    pub(crate) fn add_table(&mut self, table: TableSnapshot) {
        self.catalog_version += 1;
        self.tables.insert(table);
    }

    /// Sets the position after which the next change comes.
    pub(crate) fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    /// Lets go of the parts that left: for one who removes no files.
    pub(crate) fn let_go_of_retired(&mut self) {
        let left = self.tables.iter().filter(|table| !table.retired.is_empty());
        let ids: Vec<u32> = left.map(|table| table.id).collect();
        for id in ids {
            self.tables.change(id, |table| table.retired.clear());
        }
    }

    /// Tells what has a place in `earlier` from what comes after it: their versions of the catalog differ.
    pub(crate) fn come_after(&mut self, earlier: &Snapshot) {
        self.catalog_version += 1 + earlier.catalog_version;
    }

    /// Lets go of the parts that `saved`'s manifest no longer names; their files go with the last
    /// snapshot that holds them.
    pub(crate) fn forget_retired(&mut self, saved: &TableSnapshot) {
        saved.retired.iter().for_each(|part| part.doom());
        if saved.retired.is_empty() && saved.retired_columns.is_empty() {
            return;
        }
        self.tables.change(saved.id, |table| {
            let gone: HashSet<_> = saved.retired.iter().map(Arc::as_ptr).collect();
            table.retired.retain(|part| !gone.contains(&Arc::as_ptr(part)));
            table.retired_columns.retain(|id| !saved.retired_columns.contains(id));
        });
    }

    /// Puts one source in the place of neighbouring runs. Where one of them is gone (its table was
    /// truncated meanwhile), nothing happens and `false` is returned.
    pub(crate) fn replace_runs(
        &mut self,
        table: u32,
        partition: TimeRange,
        runs: &[Arc<Run>],
        with: Source,
    ) -> bool {
        let replaced = self.tables.change(table, |table| {
            table.partitions.find(partition.from)?;
            let sealed = matches!(with, Source::Part(_));
            let intact = table.partitions.change(partition, |partition| partition.replace_runs(runs, with));
            table.revision += u64::from(intact && sealed);
            Some(intact)
        });
        replaced.flatten().unwrap_or(false)
    }

    /// Puts one part, or nothing, in the place of neighbouring parts, which retire; each is given with the
    /// rows of it that were left out as superseded. Where one of them is gone, or more rows of it are
    /// superseded now, nothing happens and `false` is returned.
    pub(crate) fn replace_parts(
        &mut self,
        table: u32,
        partition: TimeRange,
        parts: &[(Arc<PartFile>, Arc<[u32]>)],
        with: Option<Arc<PartFile>>,
    ) -> bool {
        let same = |source: &Source, part: &Arc<PartFile>| matches!(source, Source::Part(other) if Arc::ptr_eq(other, part));
        let replaced = self.tables.change(table, |table| {
            let found = table.partitions.find(partition.from)?;
            let (first, _) = parts.first()?;
            let start = found.sources.iter().position(|source| same(source, first))?;
            let end = start + parts.len();
            let as_read = |(source, (part, superseded)): (&Source, &(Arc<PartFile>, Arc<[u32]>))| {
                same(source, part) && *found.superseded_of(part) == **superseded
            };
            if !found.sources.get(start..end)?.iter().zip(parts).all(as_read) {
                return None;
            }
            table.revision += 1;
            table.retired.extend(parts.iter().map(|(part, _)| Arc::clone(part)));
            if with.is_none() {
                let emptied = parts.iter().map(|(part, _)| part.entry.emptied());
                Arc::make_mut(&mut table.emptied).extend(emptied);
            }
            table.partitions.change(partition, |partition| {
                partition.sources.splice(start..end, with.map(Source::Part));
                partition.forget_superseded();
            });
            Some(())
        });
        replaced.flatten().is_some()
    }

    /// Forgets emptied positions that the tape, which begins at `first`, no longer tells of.
    pub(crate) fn forget_emptied(&mut self, first: u64) {
        let told = |entry: &PartEntry| entry.positions.last >= first;
        let with_more = self.tables.iter().filter(|table| !table.emptied.iter().all(told));
        let ids: Vec<u32> = with_more.map(|table| table.id).collect();
        for id in ids {
            self.tables.change(id, |table| Arc::make_mut(&mut table.emptied).retain(told));
        }
    }
}
