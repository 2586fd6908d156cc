//! Snapshots: one consistent, lock-free view over everything written.
//!
//! ```text
//! Snapshot -> TableSnapshot -> PartitionSnapshot -> sources in arrival order: parts and runs
//!                  └─ select(Selection) -> Segments: exact row ranges to read (select)
//! ```
//!
//! A snapshot never changes; the writer makes the next one from it (`apply`) and swaps a pointer, so a
//! query never sees half a commit, never blocks a writer and is never blocked by one.
//!
//! Invariants:
//! - the sources of a partition stand in the order of their positions, and their position ranges do
//!   not overlap;
//! - every id in a visible row is in its dictionary.

mod alter;
mod apply;
pub(crate) mod dedup;
mod partitions;
mod select;
mod tables;
mod view;
mod views;

pub use alter::Dropped;
pub(crate) use alter::DroppedCell;
pub(crate) use apply::{Effect, LoadEffect, RowsEffect, Superseded};
pub use partitions::Partitions;
pub(crate) use partitions::Unpacking;
pub(crate) use select::leave_out;
pub use select::{Segment, Selection};
use tables::Tables;
pub(crate) use view::PartView;

use crate::disk::{Disk, FileBytes};
use crate::lock::lock;
use crate::part::{ColumnStats, Density, Part, PartName, PositionRange, StatValue};
use crate::paths::table_dir;
use crate::recent::Run;
use crate::store::dictionary::Dictionary;
use crate::store::history::History;
use crate::store::manifest::{ImportRecord, Manifest, fast_since};
use crate::store::staleness::Staleness;
use crate::tape::change::PartEntry;
use crate::{EngineError, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tickstone_model::{TableSchema, TimeRange};

/// Most parts of a table that are opened before they are wanted: a process may map 65,530 files (Linux).
const OPENED_PARTS_MAX: usize = 8192;

/// What the text that says who may do what is called.
pub(crate) const ACCOUNTS: &str = "internal~accounts";

/// What the table of the audit log is called.
pub(crate) const AUDIT: &str = "audit";

/// Every table as it was at one position of the tape.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    position: u64,
    catalog_version: u64,
    tables: Tables,
}

impl Snapshot {
    /// Position of the last change in it.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Differs between snapshots that differ in which tables there are, or in the shape of one.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// The table of this name: the same spelling first, then any case.
    pub fn table(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        self.tables.named(name).filter(|table| !table.schema.is_internal())
    }

    /// Who may connect and what each may do, where anybody said so: the text is that of the view
    /// ([`TableSchema::view`]). The same schema is the same text.
    pub fn accounts(&self) -> Option<&Arc<TableSchema>> {
        self.internal(ACCOUNTS).map(|table| &table.schema)
    }

    /// The audit log, where one was ever kept. No name leads to it: only [`Engine::keep_audit`](crate::Engine::keep_audit)
    /// gives the number under which rows are added, and nothing changes or drops them before their time to live ends.
    pub fn audit(&self) -> Option<&Arc<TableSnapshot>> {
        self.internal(AUDIT)
    }

    /// Whether the database keeps something for itself under this name, in any case, so that no table can have it.
    pub fn keeps(&self, name: &str) -> bool {
        self.taken(name).is_some_and(|table| table.schema.is_internal())
    }

    /// What the database keeps for itself under a name.
    pub(crate) fn internal(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        self.tables.spelled(name).filter(|table| table.schema.is_internal())
    }

    /// Whatever has a name, in any case, also what the database keeps for itself.
    pub(crate) fn taken(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        self.tables.named(name)
    }

    /// All tables, by name; what the database keeps for itself is among them.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.tables.iter()
    }

    /// All materialized views, by the name of what they read.
    pub fn materialized_views(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.tables.views().iter().filter_map(|(_, id)| self.tables.get(*id))
    }

    /// Whether there is any materialized view.
    pub fn has_materialized_views(&self) -> bool {
        self.tables.has_views()
    }

    /// The materialized views that read a table.
    pub fn views_of(&self, table: &str) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.tables.views_of(table).iter().filter_map(|(_, id)| self.tables.get(*id))
    }

    /// The same state as somebody sees it who may not see all of it: tables that are hidden have no name here, and others
    /// have some of their columns and no rows. Their numbers lead to them as before.
    #[must_use]
    pub fn seen(&self, sees: &dyn Fn(&TableSnapshot) -> Sight) -> Self {
        let mut tables = self.tables.clone();
        let mut hidden = Vec::new();
        for table in self.tables() {
            match sees(table) {
                Sight::Whole => {}
                Sight::Hidden => hidden.push(table.id),
                Sight::Shape(schema) => tables.reshape(table.id, schema),
            }
        }
        tables.hide(&hidden);
        Self { tables, ..self.clone() }
    }

    /// The tables that have rows in memory.
    pub(crate) fn hot_tables(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.tables.hot()
    }

    /// The table of this number.
    pub fn table_by_id(&self, id: u32) -> Option<&Arc<TableSnapshot>> {
        self.tables.get(id)
    }

    /// Position of the first row not yet sealed.
    pub(crate) fn oldest_run(&self) -> Option<u64> {
        let partitions = self.hot_tables().flat_map(|table| table.partitions().hot());
        let runs =
            partitions.flat_map(|partition| &partition.sources).filter(|source| source.part().is_none());
        runs.map(|run| run.positions().first).min()
    }

    /// Bytes of rows not yet sealed.
    pub fn recent_bytes(&self) -> usize {
        self.tables.recent_bytes()
    }
}

/// What somebody sees of a table.
#[derive(Debug, Clone)]
pub enum Sight {
    /// All of it.
    Whole,
    /// That it is there, with a schema of some of its columns ([`TableSchema::only`]).
    Shape(Arc<TableSchema>),
    /// Nothing.
    Hidden,
}

/// One table as it was at one position.
#[derive(Debug, Clone)]
pub struct TableSnapshot {
    pub(crate) id: u32,
    pub(crate) schema: Arc<TableSchema>,
    /// One a column; `Some` for SYMBOL columns.
    pub(crate) dictionaries: Arc<[Option<Arc<Dictionary>>]>,
    pub(crate) partitions: Partitions,
    pub(crate) imports: Arc<Vec<ImportRecord>>,
    pub(crate) created_at: u64,
    pub(crate) truncated_at: u64,
    /// Last position whose loads came with the manifest, at opening.
    pub(crate) opened_at: u64,
    /// Grows with each change that the manifest must hold before the tape may let go of it.
    pub(crate) revision: u64,
    /// Positions of which no row of a partition is left, as entries of no file: what the tape still tells of
    /// them is passed over.
    pub(crate) emptied: Arc<Vec<PartEntry>>,
    /// Parts no longer in the table whose files stay until the manifest says so.
    pub(crate) retired: Vec<Arc<PartFile>>,
    /// Ids of dropped columns whose symbol files stay until the manifest says so.
    pub(crate) retired_columns: Vec<u32>,
    pub(crate) history: Arc<History>,
    /// Of a materialized view.
    pub(crate) staleness: Arc<Staleness>,
    pub(crate) dir: Arc<TableDir>,
}

impl TableSnapshot {
    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The table's number, which names its folder.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The position at which it was made.
    pub fn created_at(&self) -> u64 {
        self.created_at
    }

    /// Which stretches of time the stored rows of a materialized view do not stand for; of another table none.
    pub fn staleness(&self) -> &Staleness {
        &self.staleness
    }

    /// The table without what it holds: for those who outlive the snapshot, and must keep neither memory nor
    /// files of it.
    pub fn without_rows(&self) -> Arc<Self> {
        Arc::new(Self { partitions: Partitions::default(), retired: Vec::new(), ..self.clone() })
    }

    /// The newest designated timestamp of the rows that came with changes up to `position`, as far as parts and runs tell
    /// them from later ones: it may be an earlier one.
    pub fn newest_as_of(&self, position: u64) -> Option<i64> {
        let newest = |partition: &Arc<PartitionSnapshot>| {
            let as_of = partition.sources.iter().filter(|source| source.positions().last <= position);
            as_of.filter_map(|source| Some(source.times()?.1)).max()
        };
        self.partitions.iter().rev().find_map(newest)
    }

    /// How many rows it holds.
    pub fn rows(&self) -> u64 {
        self.partitions.rows()
    }

    /// The strings of a SYMBOL column, `None` for a column of another type.
    pub fn dictionary(&self, column: usize) -> Option<&Arc<Dictionary>> {
        self.dictionaries.get(column)?.as_ref()
    }

    /// Its partitions, by time.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// All its parts, for one who looks at each once.
    pub(crate) fn passing_parts(&self) -> impl Iterator<Item = Arc<PartFile>> {
        let parts = |of: Arc<PartitionSnapshot>| of.part_sources().map(Arc::clone).collect::<Vec<_>>();
        self.partitions.passing().flat_map(parts)
    }

    /// Opens its parts, the newest partitions' first, so that they stay readable whatever becomes of their names.
    /// Of more parts than [`OPENED_PARTS_MAX`] the oldest, which are rarely merged, are left out.
    ///
    /// # Errors
    /// Those of [`PartFile::open`].
    pub(crate) fn open_parts(&self) -> Result<()> {
        let parts = self.partitions.iter().rev().flat_map(|partition| partition.part_sources());
        parts.take(OPENED_PARTS_MAX).try_for_each(|part| part.open().map(|_| ()))
    }

    /// Files of its parts, relative to the database directory.
    pub(crate) fn part_paths(&self) -> BTreeSet<PathBuf> {
        self.passing_parts().map(|part| part.path.clone()).collect()
    }

    /// Files imported into it, in order of their commits.
    pub fn imports(&self) -> &[ImportRecord] {
        &self.imports
    }

    /// Whether the manifest lacks something the tape tells.
    pub(crate) fn needs_saving(&self) -> bool {
        self.revision > lock(&self.dir.saved).revision
    }

    /// Notes that the manifest holds all of this snapshot.
    pub(crate) fn note_saved(&self) {
        let mut saved = lock(&self.dir.saved);
        saved.revision = self.revision;
        saved.has_unnamed_parts = false;
    }

    /// Notes that a part was sealed which the manifest does not name yet.
    pub(crate) fn note_sealed(&self) {
        lock(&self.dir.saved).has_unnamed_parts = true;
    }

    /// Whether there are such parts.
    pub(crate) fn has_unnamed_parts(&self) -> bool {
        lock(&self.dir.saved).has_unnamed_parts
    }

    /// Bytes of rows not yet sealed.
    pub fn recent_bytes(&self) -> usize {
        self.partitions.recent_bytes()
    }

    /// What is known of a column over all rows, from the statistics of parts and runs. Rows of parts that
    /// later ones replaced (DEDUP UPSERT KEYS) are counted too: where its `rows` are not [`Self::rows`], bounds
    /// and sums are those of more rows than there are.
    ///
    /// # Errors
    /// Where a part cannot be opened.
    pub fn column_stats(&self, column: usize) -> Result<ColumnStats> {
        let nothing = ColumnStats { rows: 0, nulls: 0, min: None, max: None, has_nan: false, sum: None };
        let mut total: Option<ColumnStats> = None;
        for source in self.partitions.iter().flat_map(|partition| &partition.sources) {
            let stats = match source {
                Source::Part(part) => self.view(part)?.column_stats(column),
                Source::Run(run) => run.column_stats(column),
            };
            total = Some(total.map_or(stats, |total| merge_stats(&total, &stats)));
        }
        Ok(total.unwrap_or(nothing))
    }
}

/// One partition as it was at one position.
#[derive(Debug, Clone)]
pub struct PartitionSnapshot {
    pub(crate) range: TimeRange,
    pub(crate) sources: Vec<Source>,
    /// Parts with rows, ascending, that later rows replace (DEDUP UPSERT KEYS): nobody sees them.
    pub(crate) superseded: Vec<(Arc<PartFile>, Arc<[u32]>)>,
}

impl PartitionSnapshot {
    /// The time window it holds.
    pub fn range(&self) -> TimeRange {
        self.range
    }

    /// How many rows it holds.
    pub fn rows(&self) -> u64 {
        self.sources.iter().map(Source::rows).sum::<u64>() - self.superseded_rows()
    }

    /// How many rows of its parts later ones replaced.
    pub(crate) fn superseded_rows(&self) -> u64 {
        self.superseded.iter().map(|(_, rows)| rows.len() as u64).sum()
    }

    /// How many parts it has.
    pub fn parts(&self) -> usize {
        self.sources.iter().filter(|source| matches!(source, Source::Part(_))).count()
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.sources.len() - self.parts()
    }

    /// Bytes of its parts' files.
    pub fn disk_bytes(&self) -> u64 {
        self.sources
            .iter()
            .map(|source| if let Source::Part(part) = source { part.entry.file_bytes } else { 0 })
            .sum()
    }

    /// Bytes of its runs in memory.
    pub fn recent_bytes(&self) -> usize {
        self.sources.iter().map(|source| if let Source::Run(run) = source { run.bytes() } else { 0 }).sum()
    }

    /// Smallest and largest designated timestamp, both inside.
    pub fn times(&self) -> Option<(i64, i64)> {
        let times = self.sources.iter().filter_map(Source::times);
        times.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// Files of its parts, relative to the database directory.
    pub fn part_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.part_sources().map(|part| &part.path)
    }

    pub(crate) fn part_sources(&self) -> impl Iterator<Item = &Arc<PartFile>> {
        self.sources
            .iter()
            .filter_map(|source| if let Source::Part(part) = source { Some(part) } else { None })
    }
}

/// Rows of a partition from one stretch of the tape.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Part(Arc<PartFile>),
    Run(Arc<Run>),
}

impl Source {
    pub(crate) fn positions(&self) -> PositionRange {
        match self {
            Source::Part(part) => part.entry.positions,
            Source::Run(run) => run.positions(),
        }
    }

    /// The part, `None` for a run.
    pub(crate) fn part(&self) -> Option<&Arc<PartFile>> {
        if let Source::Part(part) = self { Some(part) } else { None }
    }

    pub(crate) fn rows(&self) -> u64 {
        match self {
            Source::Part(part) => part.entry.rows,
            Source::Run(run) => run.rows() as u64,
        }
    }

    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        match self {
            Source::Part(part) => part.entry.times,
            Source::Run(run) => run.times(),
        }
    }
}

/// A part named by a manifest or a load, opened when it is first read.
#[derive(Debug)]
pub(crate) struct PartFile {
    pub(crate) entry: PartEntry,
    /// What its name says.
    pub(crate) name: Option<PartName>,
    pub(crate) path: PathBuf,
    /// What the file was written with.
    schema: Arc<TableSchema>,
    opened: OnceLock<Arc<Part>>,
    /// Set when no later snapshot holds the part: its file goes with the last one that does.
    doomed: AtomicBool,
    dir: Arc<TableDir>,
}

impl PartFile {
    /// When it was written (s since the Unix epoch); 0, long ago, where its name does not say.
    pub(crate) fn written_s(&self) -> u64 {
        self.name.and_then(|name| name.written_s).unwrap_or(0)
    }

    pub(crate) fn new(entry: PartEntry, schema: &Arc<TableSchema>, dir: &Arc<TableDir>) -> Self {
        let path = part_path(dir.table, schema, entry.partition, &entry.file);
        let (schema, dir) = (Arc::clone(schema), Arc::clone(dir));
        let (name, opened, doomed) = (PartName::of(&entry.file), OnceLock::new(), AtomicBool::new(false));
        Self { entry, name, path, schema, opened, doomed, dir }
    }

    /// How it was written.
    pub(crate) fn density(&self) -> Density {
        self.name.map_or(Density::Fast, |name| name.density)
    }

    /// When it was written (s since the Unix epoch, 0 where its name does not say); `None` where it is dense.
    pub(crate) fn fast_since_s(&self) -> Option<u64> {
        fast_since(self.name)
    }

    /// The part, mapped.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged, or is not what the manifest says.
    pub(crate) fn open(&self) -> Result<&Arc<Part>> {
        if let Some(part) = self.opened.get() {
            return Ok(part);
        }
        let part = self.open_anew()?;
        Ok(self.opened.get_or_init(|| Arc::new(part)))
    }

    /// The part, mapped for the caller alone: nothing stays open or verified when it is dropped.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_anew(&self) -> Result<Part> {
        self.open_bytes(self.read()?)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`EngineError::PartGone`] where another process, which writes the database, has removed it and it was not
    /// open here; [`EngineError::Io`].
    pub(crate) fn read(&self) -> Result<FileBytes> {
        let disk = &self.dir.disk;
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound && disk.is_shared();
        match (disk.read(&self.path), self.opened.get()) {
            (Ok(bytes), _) => Ok(bytes),
            (Err(error), Some(part)) if gone(&error) => Ok(part.file().clone()),
            (Err(error), None) if gone(&error) => {
                Err(EngineError::PartGone { table: self.dir.table, path: self.path.clone() })
            }
            (Err(error), _) => Err(EngineError::io("read", &self.path)(error)),
        }
    }

    /// The part that these bytes of the file are.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_bytes(&self, bytes: FileBytes) -> Result<Part> {
        if bytes.len() as u64 != self.entry.file_bytes {
            let what = format!("{} bytes long, the manifest says {}", bytes.len(), self.entry.file_bytes);
            return Err(EngineError::damaged(&self.path, bytes.len() as u64, what));
        }
        let part = Part::open(bytes, &self.path, &self.schema)?;
        if part.summary().rows != self.entry.rows || part.summary().times != self.entry.times {
            return Err(EngineError::damaged(&self.path, 0, "the part is not the one the manifest names"));
        }
        Ok(part)
    }

    fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// The number of its table.
    pub(crate) fn table(&self) -> u32 {
        self.dir.table
    }

    /// Whether no later snapshot holds it.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Acquire)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            // A file that stays is unnamed: the next start removes it.
            let _ = self.dir.disk.remove(&self.path);
        }
    }
}

/// A part, and the rows of it, ascending, that later ones had replaced (DEDUP UPSERT KEYS).
#[derive(Debug, Clone)]
pub(crate) struct HeldPart {
    pub(crate) part: Arc<PartFile>,
    pub(crate) superseded: Arc<[u32]>,
}

/// The file of a part.
pub(crate) fn part_path(table: u32, schema: &TableSchema, partition: i64, file: &str) -> PathBuf {
    table_dir(table).join(schema.partition_by().label(partition)).join(file)
}

/// A table's folder; removed with the last snapshot that holds the table once it was dropped.
#[derive(Debug)]
pub(crate) struct TableDir {
    pub(crate) table: u32,
    pub(crate) disk: Arc<dyn Disk>,
    doomed: AtomicBool,
    saved: Mutex<Saved>,
    /// Locked to put parts in the place of others; whether a rewrite relies on those that are there.
    pub(crate) layout: Mutex<Layout>,
}

/// Who may change which parts a table has.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// A rewrite works on the parts: nobody else replaces them.
    pub(crate) rewriting: bool,
}

/// What the table's files hold.
#[derive(Debug, Default)]
struct Saved {
    revision: u64,
    /// Parts were sealed since the manifest was saved.
    has_unnamed_parts: bool,
    /// Symbols in the symbol file of each SYMBOL column, by column id.
    symbols: BTreeMap<u32, u32>,
}

impl TableDir {
    pub(crate) fn new(table: u32, disk: &Arc<dyn Disk>) -> Self {
        let (doomed, saved, layout) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        Self { table, disk: Arc::clone(disk), doomed, saved, layout }
    }

    /// Symbols in the symbol file of the SYMBOL column of this id.
    pub(crate) fn saved_symbols(&self, column_id: u32) -> u32 {
        lock(&self.saved).symbols.get(&column_id).copied().unwrap_or(0)
    }

    pub(crate) fn note_saved_symbols(&self, column_id: u32, count: u32) {
        lock(&self.saved).symbols.insert(column_id, count);
    }

    /// Removes the manifest now, which makes the folder an orphan, and the folder when nobody holds it.
    /// The copy goes first: a copy without a manifest is what is left where a manifest was lost.
    ///
    /// # Errors
    /// [`EngineError::Io`]: the folder stays then, as a power cut may bring back the manifest, which needs its files.
    pub(crate) fn doom(&self) -> Result<()> {
        Manifest::remove(self.disk.as_ref(), self.table)?;
        self.doomed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for TableDir {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            // A folder that stays has no manifest: the next start removes it.
            let _ = self.disk.remove(&table_dir(self.table));
        }
    }
}

fn merge_stats(a: &ColumnStats, b: &ColumnStats) -> ColumnStats {
    // Values without a range (decimals past 64 bits, text) are there: then neither has the whole one.
    let is_unknown = |stats: &ColumnStats| stats.min.is_none() && stats.rows > stats.nulls && !stats.has_nan;
    let known = !is_unknown(a) && !is_unknown(b);
    let pick = |x: Option<StatValue>, y: Option<StatValue>, keep_x: fn(&StatValue, &StatValue) -> bool| {
        match (x, y) {
            (Some(x), Some(y)) => Some(if keep_x(&x, &y) { x } else { y }),
            (x, y) => x.or(y),
        }
        .filter(|_| known)
    };
    let sum = match (a.sum, b.sum) {
        (Some(StatValue::Int(x)), Some(StatValue::Int(y))) => x.checked_add(y).map(StatValue::Int),
        (Some(StatValue::Float(x)), Some(StatValue::Float(y))) => Some(StatValue::Float(x + y)),
        _ => None,
    };
    ColumnStats {
        rows: a.rows + b.rows,
        nulls: a.nulls + b.nulls,
        min: pick(a.min, b.min, |x, y| x.is_below(y)),
        max: pick(a.max, b.max, |x, y| y.is_below(x)),
        has_nan: a.has_nan || b.has_nan,
        sum,
    }
}
