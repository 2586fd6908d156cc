//! The engine's handle: tables, commits, snapshots.
//!
//! Invariants:
//! - a table's frames enter the tape under its writer lock, with every symbol given out since its
//!   last frame: ids stand in the tape in their order;
//! - locks are taken in this order: catalog, table writers by table id, maintenance, publisher.

use crate::clock::{Clock, SystemClock};
use crate::compact::{Compaction, Counters, MaintenanceStats};
use crate::disk::{Disk, FileDisk, Reading};
use crate::load::BulkLoad;
use crate::maintenance::Maintenance;
use crate::manifest::{ImportRecord, TABLES_DIR, sync_if_there, table_dir};
use crate::memory::Memory;
use crate::orphans::Orphans;
use crate::part::{Density, PartOptions, SLICE_ROWS};
use crate::part_name::PartName;
use crate::publisher::Publisher;
use crate::recovery::{self, Reader, Recovered};
use crate::rewrite::Rewrite;
use crate::snapshot::{Effect, Snapshot, TableSnapshot};
use crate::switch;
use crate::tape::change::{Change, NewSymbols, encode_change};
use crate::tape::fate::Ticket;
use crate::tape::named::Names;
use crate::tape::segment::{epoch_of, first_position};
use crate::tape::writer::{Tape, TapeOptions};
use crate::transaction::Transaction;
use crate::{EngineError, Result};
use arrow_array::RecordBatch;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tickstone_model::{SyncPolicy, TableSchema};

/// How an engine works. [`Default`] suits a desktop.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Bytes of rows and buffers in memory, those of loads, transactions and merges included, above which
    /// writers wait for sealing, loads write parts and transactions are refused. Default 1 GiB.
    pub memory_budget_bytes: usize,
    /// Longest time rows of policy `interval` stay unsynced. Default 10 ms.
    pub sync_interval: Duration,
    /// Whether merging, sealing and syncing by interval run on threads of their own; without, each commit
    /// and [`Engine::maintain`] do what is due before they return (for tests and simulation). Default true.
    pub background: bool,
    /// Threads that sort and encode parts. Default: the machine's.
    pub threads: usize,
    /// Most rows of a part's slice. Default [`SLICE_ROWS`](crate::part::SLICE_ROWS).
    pub slice_rows: usize,
    /// A tape segment is closed once it is this long. Default 64 MiB.
    pub segment_bytes: usize,
    /// Bytes of tape past which the partitions that hold it back are sealed. Default 1 GiB.
    pub tape_bytes_max: u64,
    /// Fewest neighbouring parts of a partition that are merged unasked; 0 for never. Default 4.
    pub compaction_parts_min: usize,
    /// Bytes a second that merging parts unasked may read and write together. Default 256 MiB.
    pub compaction_bytes_per_s: u64,
    /// A partition whose newest part was written so long ago is merged into one dense part, once; zero for
    /// never. Default 7 days.
    pub archive_after: Duration,
}

impl EngineOptions {
    /// How parts are written that are not the result of merging.
    pub(crate) fn part_options(&self, density: Density) -> PartOptions {
        PartOptions { slice_rows: self.slice_rows, threads: self.threads, density }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 1 << 30,
            sync_interval: Duration::from_millis(10),
            background: true,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            slice_rows: SLICE_ROWS,
            segment_bytes: 64 << 20,
            tape_bytes_max: 1 << 30,
            compaction_parts_min: 4,
            compaction_bytes_per_s: 256 << 20,
            archive_after: Duration::from_secs(7 * 86_400),
        }
    }
}

/// What a commit brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Its position in the tape; 0 for an empty one, which has none.
    pub position: u64,
    /// Rows in it.
    pub rows: u64,
}

/// A database directory, open. Clones are handles to the same one; the last to go closes it.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// What all handles share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: EngineOptions,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<Memory>,
    role: Role,
}

/// What this process does with the database.
#[derive(Debug)]
enum Role {
    Writes(Box<Writing>),
    Reads(Reader),
}

/// What only the writing process has.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) tape: Tape<Effect>,
    pub(crate) names: Arc<Names>,
    catalog: Mutex<Catalog>,
    pub(crate) maintenance: Arc<Maintenance>,
    pub(crate) compaction: Arc<Compaction>,
    pub(crate) clock: Arc<dyn Clock>,
    epoch: u64,
    files: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Catalog {
    writers: HashMap<u32, Arc<Mutex<TableWriter>>>,
    next_table: u32,
}

impl Catalog {
    /// # Errors
    /// [`EngineError::NoSuchTable`] where the table was dropped.
    /// Notes that a table, whose writer is `locked`, is gone.
    pub(crate) fn forget(&mut self, locked: &mut TableWriter) {
        locked.dropped = true;
        self.writers.remove(&locked.table.id);
    }

    pub(crate) fn writer(&self, table: &TableSnapshot) -> Result<Arc<Mutex<TableWriter>>> {
        let writer = self.writers.get(&table.id).map(Arc::clone);
        writer.ok_or_else(|| EngineError::NoSuchTable { name: table.schema.name().to_string() })
    }
}

/// The one writer of a table.
#[derive(Debug)]
pub(crate) struct TableWriter {
    pub(crate) table: Arc<TableSnapshot>,
    /// Symbols per column that are in the tape or the symbol file, or in a frame of `unsure`.
    logged: Vec<usize>,
    /// Frames that brought symbols and may not be written yet, with the first id of each column's.
    unsure: Vec<(Ticket, Vec<(u16, u32)>)>,
    pub(crate) dropped: bool,
    /// Largest designated timestamp ever handed to the tape, for tables whose rows replace each other.
    pub(crate) newest: Option<i64>,
    /// A rewrite has the table for itself; see [`lock_writer`].
    pub(crate) rewriting: bool,
    /// Signalled when it has ended.
    rewritten: Arc<Condvar>,
}

impl TableWriter {
    fn new(table: &TableSnapshot) -> Self {
        let logged = table.dictionaries.iter().map(|d| d.as_ref().map_or(0, |d| d.len())).collect();
        let newest = table.partitions.times().map(|(_, last)| last);
        let table = table.without_rows();
        let unsure = Vec::new();
        Self { table, logged, unsure, dropped: false, newest, rewriting: false, rewritten: Arc::default() }
    }

    /// Ends a rewrite: who waits goes on.
    pub(crate) fn end_rewrite(&mut self) {
        self.rewriting = false;
        self.rewritten.notify_all();
    }

    /// The table has another shape from here on.
    pub(crate) fn alter(&mut self, table: &Arc<TableSnapshot>) {
        let before = std::mem::replace(&mut self.table, table.without_rows());
        let place = |index| before.schema.column_of_id(table.schema.column_id(index));
        let logged = |index| place(index).map_or(0, |place| self.logged[place]);
        self.logged = (0..table.schema.columns().len()).map(logged).collect();
    }

    /// Takes back the symbols of frames that a full disk refused.
    pub(crate) fn settle_symbols(&mut self, tape: &Tape<Effect>) {
        if self.unsure.is_empty() {
            return;
        }
        let written = tape.written();
        for (ticket, symbols) in std::mem::take(&mut self.unsure) {
            match ticket.outcome(written) {
                None => self.unsure.push((ticket, symbols)),
                Some(true) => {}
                Some(false) => {
                    for (column, first_id) in symbols {
                        let logged = &mut self.logged[column as usize];
                        *logged = (*logged).min(first_id as usize);
                    }
                }
            }
        }
    }

    /// Symbols given out since the table's last frame. The frame for them is appended with the tape's fate of
    /// before.
    pub(crate) fn new_symbols(&mut self, tape: &Tape<Effect>) -> Vec<NewSymbols> {
        self.settle_symbols(tape);
        let mut all = Vec::new();
        for (column, (dictionary, logged)) in self.table.dictionaries.iter().zip(&self.logged).enumerate() {
            let symbols = dictionary.as_ref().map_or_else(Vec::new, |dictionary| dictionary.since(*logged));
            if !symbols.is_empty() {
                let column = u16::try_from(column).expect("a table has at most 4096 columns");
                let first_id = u32::try_from(*logged).expect("ids are u32");
                all.push(NewSymbols { column, first_id, symbols });
            }
        }
        all
    }

    /// Notes that these symbols are in the tape, if the frame is.
    pub(crate) fn logged(&mut self, symbols: &[NewSymbols], ticket: &Ticket) {
        if !symbols.is_empty() {
            let first_ids = symbols.iter().map(|new| (new.column, new.first_id)).collect();
            self.unsure.push((ticket.clone(), first_ids));
        }
        for new in symbols {
            self.logged[new.column as usize] = new.first_id as usize + new.symbols.len();
        }
    }
}

impl Engine {
    /// How often something is read anew, at most, since parts of it were removed.
    pub const READS_MAX: usize = 32;

    /// Opens a directory for writing, making it where it is missing, and recovers what it holds.
    ///
    /// # Errors
    /// [`EngineError::Locked`] where another process writes it, [`EngineError::Damaged`] where files
    /// are not what was written, [`EngineError::Io`].
    pub fn open(root: impl Into<PathBuf>, options: EngineOptions) -> Result<Self> {
        Self::open_on(Arc::new(FileDisk::open(root)?), Arc::new(SystemClock), options)
    }

    /// Opens an existing directory for reading, also beside a process that writes it: the last state on disk.
    /// [`Self::refresh`] follows the writer.
    ///
    /// # Errors
    /// As [`Self::open`], without the lock; [`EngineError::Unsettled`] where the writer changes files faster than
    /// they are read.
    pub fn open_read_only(root: impl Into<PathBuf>, options: EngineOptions) -> Result<Self> {
        Self::open_read_only_on(Arc::new(FileDisk::open_read_only(root)?), options)
    }

    /// Opens a database on any disk for reading.
    ///
    /// # Errors
    /// As [`Self::open_read_only`].
    pub fn open_read_only_on(disk: Arc<dyn Disk>, options: EngineOptions) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(Reading::new(disk));
        let (reader, snapshot) = Reader::open(&disk)?;
        let publisher = Arc::new(Publisher::new(snapshot));
        let (counters, memory) = (Arc::default(), Arc::new(Memory::new(options.memory_budget_bytes)));
        let role = Role::Reads(reader);
        Ok(Self { core: Arc::new(Core { disk, options, publisher, counters, memory, role }) })
    }

    /// Opens a database on any disk and clock.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: EngineOptions) -> Result<Self> {
        switch::finish(disk.as_ref())?;
        let Recovered { mut snapshot, last_position, next_table, clean, names } =
            recovery::for_writing(&disk)?;
        let epoch = epoch_of(last_position) + 1;
        // A manifest saved before the first frame names parts of this epoch: it must tell the next opening so.
        snapshot.set_position(first_position(epoch));
        let publisher = Arc::new(Publisher::new(snapshot));
        let tape_options = TapeOptions {
            segment_bytes: options.segment_bytes,
            sync_interval: options.sync_interval,
            background: options.background,
        };
        let tape = Tape::start(
            Arc::clone(&disk),
            Arc::clone(&clock),
            Arc::clone(&publisher) as Arc<_>,
            Arc::clone(&names),
            epoch,
            tape_options,
        )?;
        let snapshot = publisher.snapshot();
        let writers = snapshot
            .tables()
            .map(|table| (table.id, Arc::new(Mutex::new(TableWriter::new(table)))))
            .collect();
        let catalog = Mutex::new(Catalog { writers, next_table });
        let writing = Writing {
            tape,
            names,
            catalog,
            maintenance: Arc::new(Maintenance::new()),
            compaction: Arc::default(),
            clock,
            epoch,
            files: AtomicU64::new(0),
        };
        let background = options.background;
        writing.maintenance.touch_all(&snapshot);
        writing.compaction.touch(snapshot.tables().map(|table| table.id));
        let (counters, memory) = (Arc::default(), Arc::new(Memory::new(options.memory_budget_bytes)));
        let role = Role::Writes(Box::new(writing));
        let core = Arc::new(Core { disk, options, publisher, counters, memory, role });
        core.sweep((!clean).then(|| Orphans::of(&snapshot, next_table)))?;
        drop(snapshot);
        if background {
            Maintenance::start(&core)?;
            Compaction::start(&core)?;
        }
        Ok(Self { core })
    }

    /// The state as of now; never changes, never blocks. Opened for reading, as of the last [`Self::refresh`].
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.core.publisher.snapshot()
    }

    /// Brings a database that is open for reading up to what its writer has written: the next snapshot has every
    /// commit acknowledged before. Where this process writes itself there is nothing to do.
    ///
    /// # Errors
    /// As [`Self::open_read_only`]; the snapshot stays as it was.
    pub fn refresh(&self) -> Result<()> {
        match &self.core.role {
            Role::Writes(_) => Ok(()),
            Role::Reads(reader) => reader.refresh(&self.core.publisher),
        }
    }

    /// As [`Self::refresh`] after an [`EngineError::PartGone`]: everything is read anew, and all parts of the
    /// tables with these numbers are opened, which keeps them readable.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn reread(&self, tables: &[u32]) -> Result<()> {
        match &self.core.role {
            Role::Writes(_) => Ok(()),
            Role::Reads(reader) => reader.reread(&self.core.publisher, tables),
        }
    }

    /// Calls `read` with the newest state; beside another process that writes again with a newer one, where parts
    /// that it needs were removed meanwhile. What a [`Segment`](crate::Segment) selects stays readable.
    ///
    /// # Errors
    /// What `read` returns, and those of [`Self::refresh`].
    pub fn read<T>(&self, mut read: impl FnMut(&Snapshot) -> Result<T>) -> Result<T> {
        self.refresh()?;
        let mut gone = Vec::new();
        loop {
            match read(&self.snapshot()) {
                Err(EngineError::PartGone { table, .. }) if gone.len() < Self::READS_MAX => {
                    gone.push(table);
                    self.reread(&gone)?;
                }
                done => return done,
            }
        }
    }

    /// Changes with every table made, dropped or altered.
    pub fn catalog_version(&self) -> u64 {
        self.snapshot().catalog_version()
    }

    /// How it was opened.
    pub fn options(&self) -> &EngineOptions {
        &self.core.options
    }

    /// Whether it refuses to write.
    pub fn is_read_only(&self) -> bool {
        matches!(self.core.role, Role::Reads(_))
    }

    /// Alive as long as anything refers to the files of the database: a handle, maintenance under way, or
    /// a snapshot. The directory stays locked that long.
    pub fn files(&self) -> Weak<dyn Disk> {
        Arc::downgrade(&self.core.disk)
    }

    /// Syncs of the tape so far.
    pub fn syncs(&self) -> u64 {
        self.core.role.writing().map_or(0, |writing| writing.tape.syncs())
    }

    /// Whether the tape takes rows, as far as is known: for what watches the process.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`]; [`EngineError::ReadOnly`] where the engine never writes.
    pub fn check_tape(&self) -> Result<()> {
        self.core.writing("check the tape")?.tape.check()
    }

    /// Commits of rows acknowledged since the engine was opened, bulk loads included, and the rows in them.
    pub fn commits(&self) -> (u64, u64) {
        self.core.counters.commits()
    }

    /// Makes a table; on stable storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::TableExists`] (names differ by more than case), [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn create_table(&self, schema: TableSchema) -> Result<()> {
        let writing = self.core.writing("CREATE TABLE")?;
        let mut catalog = writing.catalog();
        // Whether there is such a table is known only as long as the tape goes on.
        writing.tape.check()?;
        if let Some(table) = self.snapshot().table(schema.name()) {
            return Err(EngineError::TableExists { name: table.schema.name().to_string() });
        }
        let id = catalog.next_table;
        // Its number may have been that of a table long gone: what a power cut could bring back, or take away, of
        // that one must be settled before.
        let dir = table_dir(id);
        self.core.disk.remove(&dir).map_err(EngineError::io("remove", &dir))?;
        sync_if_there(self.core.disk.as_ref(), Path::new(TABLES_DIR))?;
        let (kind, payload) = encode_change(&Change::Create { table: id, schema: schema.clone() });
        let table = TableSnapshot::new(id, schema, 0, &self.core.disk);
        let ticket = writing.tape.append(kind, &payload, Effect::Create(table), SyncPolicy::Always)?;
        catalog.next_table += 1;
        writing.tape.wait(&ticket)?;
        let snapshot = self.snapshot();
        if let Some(table) = snapshot.table_by_id(id) {
            catalog.writers.insert(id, Arc::new(Mutex::new(TableWriter::new(table))));
        }
        Ok(())
    }

    /// Drops a table with all its rows; on stable storage when this returns. Its files go when the
    /// last snapshot that holds it does; what the disk does not let go of is tried again later.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let writing = self.core.writing("DROP TABLE")?;
        writing.tape.check()?;
        self.core.wait_for_rewrite(name)?;
        let mut catalog = writing.catalog();
        writing.tape.check()?;
        let table = self.core.table(name)?;
        let writer = catalog.writer(&table)?;
        let mut writer = lock_writer(&writer);
        let (kind, payload) = encode_change(&Change::Drop { table: table.id });
        let ticket =
            writing.tape.append(kind, &payload, Effect::Drop { table: table.id }, SyncPolicy::Always)?;
        writing.tape.wait(&ticket)?;
        catalog.forget(&mut writer);
        self.core.remove_dropped_or_later(Arc::clone(&table.dir));
        Ok(())
    }

    /// Removes all rows of a table, and the memory of what was imported into it.
    ///
    /// # Errors
    /// As [`Self::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        let writing = self.core.writing("TRUNCATE TABLE")?;
        let table = self.core.table(name)?;
        let writer = self.core.table_writer(&table)?;
        let writer = lock_writer(&writer);
        writer.check_there()?;
        let (kind, payload) = encode_change(&Change::Truncate { table: table.id });
        let effect = Effect::Truncate { table: table.id };
        let ticket = writing.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
        drop(writer);
        writing.tape.wait(&ticket)?;
        writing.maintenance.touch([table.id]);
        // Parts go only once no manifest names them: after the manifest that knows of the TRUNCATE.
        self.core.save_manifest_or_later(table.id);
        Ok(())
    }

    /// Appends rows to a table in a commit of their own and waits for the acknowledgement.
    ///
    /// `sync` overrides the table's policy. SYMBOL columns may come as strings.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::Model`] where the rows do not fit (nothing is
    /// stored), [`EngineError::TapeStopped`], [`EngineError::MemoryFull`].
    pub fn append(&self, table: &str, rows: &RecordBatch, sync: Option<SyncPolicy>) -> Result<Commit> {
        let mut transaction = self.begin();
        transaction.append(table, rows)?;
        transaction.commit(sync)
    }

    /// Begins a commit of rows for one or more tables; nothing is stored or visible before
    /// [`Transaction::commit`].
    pub fn begin(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.core))
    }

    /// Begins a bulk load: rows go into parts directly and appear in one atomic commit.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`].
    pub fn load(&self, table: &str) -> Result<BulkLoad> {
        BulkLoad::new(Arc::clone(&self.core), table)
    }

    /// Begins to delete and update rows of a table, which nobody else writes meanwhile; nothing is stored
    /// or visible before [`Rewrite::commit`]. Its recent rows are sealed first.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or
    /// [`EngineError::Io`] where sealing fails.
    pub fn rewrite(&self, table: &str) -> Result<Rewrite> {
        Rewrite::new(Arc::clone(&self.core), table)
    }

    /// The files imported into a table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`].
    pub fn imports(&self, table: &str) -> Result<Vec<ImportRecord>> {
        Ok(self.core.table(table)?.imports().to_vec())
    }

    /// Seals all recent rows of one table, or of all, into parts, and lets go of the tape before them. Everything
    /// committed before, under whatever policy, is on stable storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or
    /// [`EngineError::Io`]; rows that could not be sealed stay in memory and in the tape.
    pub fn seal(&self, table: Option<&str>) -> Result<()> {
        let writing = self.core.writing("CHECKPOINT")?;
        // Also where there is nothing to seal.
        writing.tape.settle()?;
        let tables = match table {
            Some(name) => vec![self.core.table(name)?.id],
            None => self.snapshot().tables().map(|table| table.id).collect(),
        };
        let sealing = writing.maintenance.pause();
        for id in tables {
            self.core.seal_table(id, &sealing)?;
        }
        self.core.truncate_tape(&sealing)?;
        writing.compaction.request();
        Ok(())
    }

    /// Seals the recent rows of one table, or of all, and merges the parts of each partition into one, at
    /// full speed. Parts between which rows arrived that are not sealed stay apart.
    ///
    /// # Errors
    /// As [`Self::seal`]; what was merged before the error stays merged.
    pub fn compact(&self, table: Option<&str>) -> Result<()> {
        self.seal(table)?;
        self.core.compact_fully(table)
    }

    /// Seals the recent rows of one table, or of all, and makes one dense part of each partition, at full
    /// speed: it takes the least room and is read more slowly. Unasked that happens to partitions that were not written for
    /// [`EngineOptions::archive_after`]. Parts between which rows arrived that are not sealed stay apart.
    ///
    /// # Errors
    /// As [`Self::seal`]; what was archived before the error stays so.
    pub fn archive(&self, table: Option<&str>) -> Result<()> {
        self.seal(table)?;
        self.core.archive_fully(table)
    }

    /// Bytes of rows and buffers in memory that count against the budget: recent rows, and what loads,
    /// transactions and merges hold.
    pub fn memory_bytes(&self) -> usize {
        self.snapshot().recent_bytes() + self.core.memory.held_bytes()
    }

    /// What sealing and merging wrote since the engine was opened.
    pub fn maintenance_stats(&self) -> MaintenanceStats {
        self.core.maintenance_stats()
    }

    /// Does what is due now, on this thread: syncs by interval, merging, sealing, letting go of the tape.
    /// Only an engine opened without `background` needs it.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or [`EngineError::Io`]; what could not be done
    /// is due again.
    pub fn maintain(&self) -> Result<()> {
        self.core.writing("maintenance")?.tape.sync_due()?;
        self.core.maintain_step()
    }
}

impl Core {
    /// What the writing process has.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`].
    pub(crate) fn writing(&self, action: &'static str) -> Result<&Writing> {
        self.role.writing().ok_or(EngineError::ReadOnly { action })
    }

    pub(crate) fn table(&self, name: &str) -> Result<Arc<TableSnapshot>> {
        let snapshot = self.publisher.snapshot();
        snapshot
            .table(name)
            .map(Arc::clone)
            .ok_or_else(|| EngineError::NoSuchTable { name: name.to_string() })
    }

    /// A table that has rows, not a view.
    pub(crate) fn table_of_rows(&self, name: &str) -> Result<Arc<TableSnapshot>> {
        let table = self.table(name)?;
        if table.schema.view().is_some() { Err(table.schema.wrong_kind().into()) } else { Ok(table) }
    }

    /// Waits until no one rewrites a table, holding no lock: whoever needs the catalog and the table's writer
    /// would keep all others waiting.
    pub(crate) fn wait_for_rewrite(&self, name: &str) -> Result<()> {
        let writer = self.table_writer(&*self.table(name)?)?;
        drop(lock_writer(&writer));
        Ok(())
    }

    pub(crate) fn table_writer(&self, table: &TableSnapshot) -> Result<Arc<Mutex<TableWriter>>> {
        self.writing("writing")?.catalog().writer(table)
    }

    /// Waits for the acknowledgement of a commit to these tables, then does or requests what maintenance
    /// is due.
    pub(crate) fn acknowledge(&self, ticket: &Ticket, tables: impl IntoIterator<Item = u32>) -> Result<()> {
        let writing = self.writing("writing")?;
        writing.tape.wait(ticket)?;
        let tables: Vec<u32> = tables.into_iter().collect();
        writing.maintenance.touch(tables.iter().copied());
        writing.compaction.touch(tables);
        if self.options.background {
            writing.maintenance.request();
        } else {
            self.maintain();
        }
        Ok(())
    }

    /// A file name that no other file of the table has or had.
    pub(crate) fn new_part_name(&self, density: Density) -> String {
        let writing = self.role.writing();
        let (epoch, number) =
            writing.map_or((0, 0), |writing| (writing.epoch, writing.files.fetch_add(1, Ordering::Relaxed)));
        let name = PartName { epoch, number, written_s: Some(self.now_s()), density }.to_string();
        if let Some(writing) = writing {
            writing.maintenance.give_name(&name);
        }
        name
    }
}

impl Role {
    fn writing(&self) -> Option<&Writing> {
        match self {
            Role::Writes(writing) => Some(writing),
            Role::Reads(_) => None,
        }
    }
}

impl Writing {
    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(writing) = self.role.writing() {
            writing.compaction.stop();
            writing.maintenance.stop();
            for table in self.publisher.snapshot().tables().filter(|table| table.has_unnamed_parts()) {
                // Where this fails, the next opening looks for files that nothing names.
                let _ = self.save_manifest(table.id);
            }
            // The next opening makes stable, and sweeps, what was not.
            let unsure = writing.maintenance.unsure.load(Ordering::Relaxed);
            if unsure || !writing.maintenance.is_swept() || !writing.names.is_copied() {
                return;
            }
            let (kind, payload) = encode_change(&Change::Close);
            // Where the tape has stopped, every writer was told; there is nothing to close then.
            if writing.tape.end_with(kind, &payload, Effect::Nothing).is_ok()
                && let Some(mut newest) = writing.tape.newest()
            {
                newest.last = newest.last.saturating_sub(1);
                // Where this fails, less of the tape is known to be missing where it is.
                let _ = writing.names.promise(newest);
            }
        }
    }
}

/// Locks a table's writer for a commit, after the rewrite under way, if any.
pub(crate) fn lock_writer(writer: &Mutex<TableWriter>) -> MutexGuard<'_, TableWriter> {
    let mut locked = lock(writer);
    while locked.rewriting {
        let rewritten = Arc::clone(&locked.rewritten);
        locked = rewritten.wait(locked).unwrap_or_else(PoisonError::into_inner);
    }
    locked
}

/// Locks a mutex, also after a thread panicked with it: what it guards is changed in one step at the end.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
