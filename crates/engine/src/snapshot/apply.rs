//! How one change makes the next snapshot; the same code serves commits and recovery.

use super::{DroppedCell, History, PartFile, PartitionSnapshot, Snapshot, Source, TableDir, TableSnapshot};
use crate::dictionary::Dictionary;
use crate::disk::Disk;
use crate::manifest::{ImportRecord, Manifest, SupersededRows};
use crate::part::PositionRange;
use crate::recent::Run;
use crate::tape::change::{ImportSource, PartEntry, RewrittenPart};
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
    },
    Alter {
        table: u32,
        schema: Arc<TableSchema>,
    },
    DropPartitions {
        table: u32,
        range: TimeRange,
        dropped: DroppedCell,
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
    pub(crate) source: Option<ImportSource>,
    /// What they replace in the table.
    pub(crate) superseded: Vec<Superseded>,
    /// Rows of the load's own parts, by their places, that its later parts replace.
    pub(crate) own: Vec<(usize, Vec<u32>)>,
}

impl TableSnapshot {
    /// An empty table.
    pub(crate) fn new(id: u32, schema: TableSchema, created_at: u64, disk: &Arc<dyn Disk>) -> Self {
        let schema = Arc::new(schema);
        let mut dictionaries: Vec<Option<Arc<Dictionary>>> = vec![None; schema.columns().len()];
        schema.symbol_columns().for_each(|column| dictionaries[column] = Some(Arc::default()));
        Self {
            id,
            history: Arc::new(History::new(Arc::clone(&schema))),
            schema,
            dictionaries: dictionaries.into(),
            partitions: Vec::new(),
            imports: Arc::default(),
            created_at,
            truncated_at: 0,
            opened_at: 0,
            revision: 1,
            emptied: Arc::default(),
            retired: Vec::new(),
            retired_columns: Vec::new(),
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
        let (emptied, parts): (_, Vec<_>) = manifest.parts.into_iter().partition(PartEntry::is_emptied);
        table.emptied = Arc::new(emptied);
        for part in parts {
            table.add_part(part);
        }
        for of_part in manifest.superseded {
            let range = table.schema.partition_by().partition_of(of_part.partition);
            let partition = table.partition_mut(range);
            let part = partition.part_sources().find(|part| part.entry.file == of_part.file).map(Arc::clone);
            partition.superseded.extend(part.map(|part| (part, of_part.rows.into())));
        }
        table
    }

    /// What the manifest must say, as of the snapshot at `position`.
    pub(crate) fn to_manifest(&self, position: u64) -> Manifest {
        let counts = self.dictionaries.iter().flatten().map(|dictionary| dictionary.len());
        let sources = self.partitions.iter().flat_map(|partition| &partition.sources);
        let superseded = self.partitions.iter().flat_map(|partition| {
            partition.superseded.iter().map(|(part, rows)| SupersededRows {
                partition: partition.range.from,
                file: part.entry.file.clone(),
                rows: rows.to_vec(),
            })
        });
        Manifest {
            table: self.id,
            schema: TableSchema::clone(&self.schema),
            created_at: self.created_at,
            truncated_at: self.truncated_at,
            saved_at: position,
            symbol_counts: counts.map(|count| u32::try_from(count).expect("ids are u32")).collect(),
            parts: sources
                .filter_map(
                    |source| if let Source::Part(part) = source { Some(part.entry.clone()) } else { None },
                )
                .chain(self.emptied.iter().map(|entry| {
                    // It has no columns: the version that is surely kept.
                    PartEntry { schema_version: self.schema.version(), ..entry.clone() }
                }))
                .collect(),
            imports: Vec::clone(&self.imports),
            history: History::clone(&self.history),
            superseded: superseded.collect(),
        }
    }

    /// Whether the manifest it was opened with holds the load, or the change of shape, at `position`.
    pub(crate) fn holds(&self, position: u64) -> bool {
        position <= self.opened_at
    }

    /// Whether a part holds the rows that the frame at `position` brought to a partition.
    pub(crate) fn is_sealed(&self, partition: &TimeRange, position: u64) -> bool {
        let sources = self.find(partition).map_or(&[][..], |index| &self.partitions[index].sources);
        let holds = |held: PositionRange| held.first <= position && position <= held.last;
        sources.iter().any(|source| matches!(source, Source::Part(_)) && holds(source.positions()))
            || self.emptied.iter().any(|gone| gone.partition == partition.from && holds(gone.positions))
    }

    fn find(&self, partition: &TimeRange) -> Option<usize> {
        self.partitions.binary_search_by_key(&partition.from, |p| p.range.from).ok()
    }

    /// The partition of this range, made where it is missing.
    fn partition_mut(&mut self, range: TimeRange) -> &mut PartitionSnapshot {
        let index = match self.partitions.binary_search_by_key(&range.from, |p| p.range.from) {
            Ok(index) => index,
            Err(index) => {
                self.partitions.insert(
                    index,
                    Arc::new(PartitionSnapshot { range, sources: Vec::new(), superseded: Vec::new() }),
                );
                index
            }
        };
        Arc::make_mut(&mut self.partitions[index])
    }

    /// Whether a part of this name is in the table.
    pub(crate) fn has_part(&self, partition: i64, file: &str) -> bool {
        let found = self.partitions.iter().find(|found| found.range.from == partition);
        let same = |source: &Source| matches!(source, Source::Part(part) if part.entry.file == file);
        found.is_some_and(|partition| partition.sources.iter().any(same))
    }

    /// Puts a part, or nothing, in the place of the one it was made of.
    fn rewrite_part(&mut self, rewritten: RewrittenPart) {
        let Ok(index) = self.partitions.binary_search_by_key(&rewritten.partition, |p| p.range.from) else {
            return;
        };
        let schema_version = self.schema.version();
        let came = rewritten.came.map(|entry| PartEntry { schema_version, ..entry });
        let came = came.map(|entry| PartFile::new(entry, &self.schema, &self.dir));
        let partition = Arc::make_mut(&mut self.partitions[index]);
        let same =
            |source: &Source| matches!(source, Source::Part(part) if part.entry.file == rewritten.gone);
        let Some(place) = partition.sources.iter().position(same) else { return };
        let came = came.map(|part| Source::Part(Arc::new(part)));
        let emptied = came.is_none();
        if let Some(Source::Part(gone)) = partition.sources.splice(place..=place, came).next() {
            if emptied {
                Arc::make_mut(&mut self.emptied).push(gone.entry.emptied());
            }
            self.retired.push(gone);
        }
        partition.forget_superseded();
        if partition.sources.is_empty() {
            self.partitions.remove(index);
        }
        self.revision += 1;
    }

    /// Parts of a bulk load, in the schema of its frame, join the table.
    fn load(&mut self, position: u64, load: LoadEffect) {
        self.revision += 1;
        self.take_out(position, load.superseded);
        let rows = load.parts.iter().map(|part| part.rows).sum();
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
        if let Some(source) = load.source {
            Arc::make_mut(&mut self.imports).push(ImportRecord { source, rows, position });
        }
    }

    /// Notes that of these positions no row of a partition is left, as of `position`.
    fn note_emptied(&mut self, position: u64, partition: usize, mut positions: PositionRange) {
        let PartitionSnapshot { range, sources, .. } = self.partitions[partition].as_ref();
        let holds_rows = |between: PositionRange| {
            let meets = |held: PositionRange| held.first <= between.last && between.first <= held.last;
            sources.iter().any(|source| meets(source.positions()))
        };
        let partition = range.from;
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
        let (file, rows, times, file_bytes, schema_version) =
            (String::new(), 0, None, 0, self.schema.version());
        let entry = PartEntry { partition, file, positions, rows, times, file_bytes, schema_version };
        Arc::make_mut(&mut self.emptied).push(entry);
    }

    /// Takes out, or notes, what a commit replaces.
    fn take_out(&mut self, position: u64, superseded: Vec<Superseded>) {
        for of_partition in superseded {
            if let Some(index) = self.find(&of_partition.partition) {
                let (of_parts, emptied) = Arc::make_mut(&mut self.partitions[index]).take_out(of_partition);
                // The rows that replaced them may be deleted later: the tape must not bring these back.
                emptied.into_iter().for_each(|positions| self.note_emptied(position, index, positions));
                // The frames that said so may be forgotten before these parts are.
                self.revision += u64::from(of_parts);
            }
        }
    }

    fn add_part(&mut self, entry: PartEntry) -> Arc<PartFile> {
        let range = self.schema.partition_by().partition_of(entry.partition);
        let schema = self.history.version(entry.schema_version).unwrap_or(&self.schema);
        let part = Arc::new(PartFile::new(entry, schema, &self.dir));
        self.partition_mut(range).insert(Source::Part(Arc::clone(&part)));
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
}

impl Snapshot {
    /// The effect of a frame. Effects for tables that are gone do nothing.
    pub(crate) fn apply(&mut self, written: Written<Effect>) {
        let Written { position, received_ns, effect } = written;
        self.position = position;
        match effect {
            Effect::Rows(tables) => {
                tables.into_iter().for_each(|rows| self.add_rows(position, received_ns, rows));
            }
            Effect::Create(table) => self.add_table(TableSnapshot { created_at: position, ..table }),
            Effect::Drop { table } => {
                self.tables.retain(|other| other.id != table);
                self.catalog_version += 1;
            }
            Effect::Truncate { table } => {
                if let Some(table) = self.table_mut(table) {
                    for source in std::mem::take(&mut table.partitions).iter().flat_map(|p| &p.sources) {
                        if let Source::Part(part) = source {
                            table.retired.push(Arc::clone(part));
                        }
                    }
                    table.imports = Arc::default();
                    table.emptied = Arc::default();
                    table.truncated_at = position;
                    table.revision += 1;
                }
            }
            Effect::Load { table, load } => {
                if let Some(table) = self.table_mut(table) {
                    table.load(position, load);
                    table.expire(position, received_ns);
                }
            }
            Effect::Rewrite { table, parts } => {
                if let Some(table) = self.table_mut(table) {
                    parts.into_iter().for_each(|part| table.rewrite_part(part));
                }
            }
            Effect::Alter { table, schema } => self.alter_table(position, table, schema),
            Effect::DropPartitions { table, range, dropped } => {
                let gone = self.drop_partitions(position, table, range);
                // Nobody else sets it: an effect is applied once.
                let _ = dropped.set(gone);
            }
            Effect::Nothing => {}
        }
    }

    fn add_rows(&mut self, position: u64, received_ns: i64, rows: RowsEffect) {
        let Some(table) = self.table_mut(rows.table) else { return };
        if rows.new_symbols {
            table.revision += 1;
        }
        table.take_out(position, rows.superseded);
        for (range, batch) in rows.pieces {
            let run = Run::new(batch, PositionRange { first: position, last: position });
            table.partition_mut(range).insert(Source::Run(Arc::new(run)));
        }
        table.expire(position, received_ns);
    }

    /// Adds a table as it is.
    pub(crate) fn add_table(&mut self, table: TableSnapshot) {
        self.catalog_version += 1;
        let at = self.tables.partition_point(|other| other.schema.name() < table.schema.name());
        self.tables.insert(at, Arc::new(table));
    }

    /// Sets the position after which the next change comes.
    pub(crate) fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    pub(super) fn table_mut(&mut self, id: u32) -> Option<&mut TableSnapshot> {
        self.tables.iter_mut().find(|table| table.id == id).map(Arc::make_mut)
    }

    /// Lets go of the parts that `saved`'s manifest no longer names; their files go with the last
    /// snapshot that holds them.
    pub(crate) fn forget_retired(&mut self, saved: &TableSnapshot) {
        saved.retired.iter().for_each(|part| part.doom());
        if saved.retired.is_empty() && saved.retired_columns.is_empty() {
            return;
        }
        if let Some(table) = self.table_mut(saved.id) {
            let gone: HashSet<_> = saved.retired.iter().map(Arc::as_ptr).collect();
            table.retired.retain(|part| !gone.contains(&Arc::as_ptr(part)));
            table.retired_columns.retain(|id| !saved.retired_columns.contains(id));
        }
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
        let Some(table) = self.table_mut(table) else { return false };
        let Some(index) = table.find(&partition) else { return false };
        let sources = &table.partitions[index].sources;
        let same =
            |source: &Source, run: &Arc<Run>| matches!(source, Source::Run(other) if Arc::ptr_eq(other, run));
        let Some(start) =
            runs.first().and_then(|first| sources.iter().position(|source| same(source, first)))
        else {
            return false;
        };
        let end = start + runs.len();
        let intact =
            sources.get(start..end).is_some_and(|these| these.iter().zip(runs).all(|(s, r)| same(s, r)));
        if intact {
            table.revision += u64::from(matches!(with, Source::Part(_)));
            Arc::make_mut(&mut table.partitions[index]).sources.splice(start..end, [with]);
        }
        intact
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
        let Some(table) = self.table_mut(table) else { return false };
        let Some(index) = table.find(&partition) else { return false };
        let sources = &table.partitions[index].sources;
        let same = |source: &Source, part: &Arc<PartFile>| matches!(source, Source::Part(other) if Arc::ptr_eq(other, part));
        let start =
            parts.first().and_then(|(first, _)| sources.iter().position(|source| same(source, first)));
        let Some(start) = start else { return false };
        let end = start + parts.len();
        let as_read = |(source, (part, superseded)): (&Source, &(Arc<PartFile>, Arc<[u32]>))| {
            same(source, part) && *table.partitions[index].superseded_of(part) == **superseded
        };
        let intact = sources.get(start..end).is_some_and(|these| these.iter().zip(parts).all(as_read));
        if intact {
            table.revision += 1;
            table.retired.extend(parts.iter().map(|(part, _)| Arc::clone(part)));
            if with.is_none() {
                let emptied = parts.iter().map(|(part, _)| part.entry.emptied());
                Arc::make_mut(&mut table.emptied).extend(emptied);
            }
            let partition = Arc::make_mut(&mut table.partitions[index]);
            partition.sources.splice(start..end, with.map(Source::Part));
            partition.forget_superseded();
        }
        intact
    }

    /// Forgets emptied positions that the tape, which begins at `first`, no longer tells of.
    pub(crate) fn forget_emptied(&mut self, first: u64) {
        let told = |entry: &PartEntry| entry.positions.last >= first;
        let ids: Vec<u32> = self
            .tables
            .iter()
            .filter(|table| !table.emptied.iter().all(told))
            .map(|table| table.id)
            .collect();
        for id in ids {
            if let Some(table) = self.table_mut(id) {
                Arc::make_mut(&mut table.emptied).retain(told);
            }
        }
    }
}
