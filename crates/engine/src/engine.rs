//! The engine's handle: opening and closing a database, and all that can be asked of one.

use crate::care::backup::{self, BackupSummary};
use crate::care::check::Progress;
use crate::clock::{Clock, SystemClock};
use crate::core::catalog::{Catalog, TableLock, TableWriter};
use crate::core::counters::{Counters, MaintenanceStats};
use crate::core::memory::Memory;
use crate::core::{Core, EngineOptions, RowsOf};
use crate::disk::{Disk, FileDisk, Reading, Spare, Sparing};
use crate::follow::{FollowFrom, Follower};
use crate::paths::RESTORE_FILE;
use crate::recovery::{self, READS_MAX, Reader, Recovered};
use crate::store::feed::Feed;
use crate::store::manifest::ImportRecord;
use crate::store::publisher::Publisher;
use crate::store::snapshot::{Dropped, Effect, Snapshot, TableSnapshot};
use crate::store::{hold, switch};
use crate::streams::Streams;
use crate::tape::change::{Change, encode_change};
use crate::tape::segment::{epoch_of, first_position};
use crate::tape::writer::{Tape, TapeOptions};
use crate::upkeep::orphans::{self, Orphans};
use crate::upkeep::saving::save_manifest;
use crate::upkeep::seal::seal;
use crate::upkeep::tape::KeptTape;
use crate::upkeep::{compact, maintenance};
use crate::write::accounts;
use crate::write::aside::{self, Aside};
use crate::write::commit::Commit;
use crate::write::load::BulkLoad;
use crate::write::rewrite::Rewrite;
use crate::write::tables;
use crate::write::transaction::Transaction;
use crate::{EngineError, Result};
use arrow_array::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tickstone_model::{AlterTable, Column, SyncPolicy, TableSchema, TimeRange, Ttl};

/// A database directory, open. Clones are handles to the same one; the last to go closes it.
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// The files of a database that is, or was, open here.
#[derive(Debug, Clone)]
pub struct Files {
    disk: Weak<dyn Disk>,
    lock: Weak<()>,
}

impl Files {
    /// Whether anything refers to them: a handle, maintenance under way, or a snapshot. The directory stays locked
    /// that long, and is free when this is false.
    pub fn are_in_use(&self) -> bool {
        self.disk.strong_count() > 0 || self.lock.strong_count() > 0
    }
}

/// What all handles share.
#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    options: EngineOptions,
    publisher: Arc<Publisher>,
    memory: Arc<Memory>,
    streams: Streams,
    role: Role,
    swept: Vec<String>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.streams.close();
    }
}

/// What this process does with the database.
#[derive(Debug)]
enum Role {
    Writes(Arc<Core>),
    Reads(Reader),
}

impl Engine {
    /// How often something is read anew, at most, since parts of it were removed.
    pub const READS_MAX: usize = READS_MAX;

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
        check_restored(switch::settled(&disk)?.as_ref())?;
        let (reader, snapshot) = Reader::open(&disk)?;
        accounts::check(disk.as_ref(), &snapshot)?;
        let publisher = Arc::new(Publisher::new(snapshot, feed_of(&options)));
        let memory = Arc::new(Memory::new(options.memory_budget_bytes));
        let role = Role::Reads(reader);
        let streams = Streams::follow(&disk, &(Arc::new(SystemClock) as Arc<dyn Clock>));
        let swept = Vec::new();
        Ok(Self { shared: Arc::new(Shared { disk, options, publisher, memory, streams, role, swept }) })
    }

    /// Opens a database on any disk and clock.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: EngineOptions) -> Result<Self> {
        let below = disk;
        let sparing = Arc::new(Sparing::new(&below));
        let disk: Arc<dyn Disk> = Arc::clone(&sparing) as _;
        switch::finish(disk.as_ref())?;
        check_restored(disk.as_ref())?;
        let Recovered { mut snapshot, last_position, next_table, clean, names, named } =
            recovery::for_writing(&disk, &below)?;
        let epoch = epoch_of(last_position) + 1;
        // A manifest saved before the first frame names parts of this epoch: it must tell the next opening so.
        snapshot.set_position(first_position(epoch));
        let publisher = Arc::new(Publisher::new(snapshot, feed_of(&options)));
        publisher.pin(named, clock.now_ns());
        let kept = KeptTape { names: Arc::clone(&names), publisher: Arc::clone(&publisher) };
        let spare: Arc<dyn Spare> = Arc::new(kept);
        sparing.set_spare(Arc::downgrade(&spare));
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
            .map(|table| (table.id, Arc::new(TableLock::new(TableWriter::new(table)))))
            .collect();
        let memory = Arc::new(Memory::new(options.memory_budget_bytes));
        let streams = Streams::open(&disk, &clock, options.stream_memory_bytes, options.background)?;
        let core = Arc::new(Core {
            disk: Arc::clone(&disk),
            options: options.clone(),
            publisher: Arc::clone(&publisher),
            counters: Arc::default(),
            memory: Arc::clone(&memory),
            tape,
            names,
            spare,
            catalog: Mutex::new(Catalog { writers, next_table }),
            maintenance: Arc::default(),
            compaction: Arc::default(),
            clock,
            epoch,
            files: AtomicU64::new(0),
            close,
        });
        core.maintenance.touch_all(&snapshot);
        core.compaction.touch(snapshot.tables().map(|table| table.id));
        orphans::sweep(&core, (!clean).then(|| Orphans::of(&snapshot, next_table)))?;
        drop(snapshot);
        let swept = aside::sweep(&core)?;
        accounts::settle(&core)?;
        if options.background {
            maintenance::start(&core)?;
            compact::start(&core)?;
        }
        let role = Role::Writes(core);
        Ok(Self { shared: Arc::new(Shared { disk, options, publisher, memory, streams, role, swept }) })
    }

    /// Its streams.
    pub fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// What the writing process has.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`].
    fn core(&self, action: &'static str) -> Result<&Arc<Core>> {
        match &self.shared.role {
            Role::Writes(core) => Ok(core),
            Role::Reads(_) => Err(EngineError::ReadOnly { action }),
        }
    }

    /// The state as of now; never changes, never blocks. Opened for reading, as of the last [`Self::refresh`].
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.publisher.snapshot()
    }

    /// Brings a database that is open for reading up to what its writer has written: the next snapshot has every
    /// commit acknowledged before. Where this process writes itself there is nothing to do.
    ///
    /// # Errors
    /// As [`Self::open_read_only`]; the snapshot stays as it was.
    pub fn refresh(&self) -> Result<()> {
        match &self.shared.role {
            Role::Writes(_) => Ok(()),
            Role::Reads(reader) => reader.refresh(&self.shared.publisher),
        }
    }

    /// As [`Self::refresh`] after an [`EngineError::PartGone`]: everything is read anew, and all parts of the
    /// tables with these numbers are opened, which keeps them readable.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn reread(&self, tables: &[u32]) -> Result<()> {
        match &self.shared.role {
            Role::Writes(_) => Ok(()),
            Role::Reads(reader) => reader.reread(&self.shared.publisher, tables),
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
        &self.shared.options
    }

    /// Whether it refuses to write.
    pub fn is_read_only(&self) -> bool {
        matches!(self.shared.role, Role::Reads(_))
    }

    /// Tells whether the files of the database are still in use; it keeps nothing open itself.
    pub fn files(&self) -> Files {
        Files { disk: Arc::downgrade(&self.shared.disk), lock: self.shared.disk.lock() }
    }

    /// Syncs of the tape so far.
    pub fn syncs(&self) -> u64 {
        self.core("syncs").map_or(0, |core| core.tape.syncs())
    }

    /// Whether the tape takes rows, as far as is known: for what watches the process.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`]; [`EngineError::ReadOnly`] where the engine never writes.
    pub fn check_tape(&self) -> Result<()> {
        self.core("check the tape")?.tape.check()
    }

    /// Commits of rows acknowledged since the engine was opened, bulk loads included, and the rows in them.
    pub fn commits(&self) -> (u64, u64) {
        self.core("commits").map_or((0, 0), |core| core.counters.commits())
    }

    /// Follows the changes of all tables from a place in the tape on.
    ///
    /// # Errors
    /// [`EngineError::PositionGone`], [`EngineError::PositionAhead`]; [`EngineError::ReadOnly`] where another process
    /// writes the database.
    pub fn follow(&self, from: FollowFrom) -> Result<Follower> {
        Follower::new(Arc::clone(self.core("following changes")?), from)
    }

    /// Changes how much of the tape stays for those who follow, and how long: see
    /// [`EngineOptions::tape_keep_bytes`] and [`EngineOptions::tape_keep_age`].
    pub fn keep_tape(&self, bytes: u64, age: Duration) {
        self.shared.publisher.feed().keep(bytes, age);
    }

    /// The smallest position that can be followed from: the tape holds every change after it.
    ///
    /// # Errors
    /// As [`Self::follow`], and [`EngineError::Io`].
    pub fn oldest_position(&self) -> Result<u64> {
        Follower::oldest(self.core("following changes")?)
    }

    /// Returns once every change up to `position`, which a snapshot shows, is on stable storage.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`]; [`EngineError::ReadOnly`].
    pub fn settle(&self, position: u64) -> Result<()> {
        self.core("syncing")?.tape.sync(position)
    }

    /// The names of the tables aside that a process left when it ended, which were dropped when this one opened.
    pub fn swept(&self) -> &[String] {
        &self.shared.swept
    }

    /// A table that nobody else sees until it is put in its place: for what is made and then filled.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`].
    pub fn aside(&self) -> Result<Aside> {
        Ok(Aside::new(Arc::clone(self.core("CREATE TABLE")?)))
    }

    /// Keeps the text that says who may do what ([`Snapshot::accounts`]), in the place of the one before; on stable
    /// storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn set_accounts(&self, text: &str) -> Result<()> {
        tables::set_accounts(self.core("changing users and grants")?, text)
    }

    /// Makes the table of the audit log ([`Snapshot::audit`]), or has the one that is there keep its rows for `ttl` and
    /// have all `columns`, the designated timestamp first; its number, for [`Transaction::append_to`].
    ///
    /// # Errors
    /// [`EngineError::TableExists`] where a table of users has the name `audit`, [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn keep_audit(&self, columns: &[Column], ttl: Option<Ttl>) -> Result<u32> {
        tables::keep_audit(self.core("keeping an audit log")?, columns, ttl)
    }

    /// Makes a table; on stable storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::TableExists`] (names differ by more than case), [`EngineError::Model`] for a name that only tables
    /// aside have, [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn create_table(&self, schema: TableSchema) -> Result<()> {
        tables::create(self.core("CREATE TABLE")?, schema)
    }

    /// Changes the shape of a table, without rewriting what it holds; on stable storage when this returns.
    ///
    /// Snapshots taken before keep the old shape. Rows that are there have NULL in a new column; a column
    /// dropped and one added later under its name have nothing in common.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::Model`] where a rule of schemas does not let it,
    /// [`EngineError::HasViews`] for another name of a table that materialized views read,
    /// [`EngineError::TableExists`] where another table has the new name, [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn alter_table(&self, table: &str, change: &AlterTable) -> Result<()> {
        tables::alter(self.core("ALTER TABLE")?, table, change)
    }

    /// As [`Self::alter_table`], a table that was found, and no other that has its name by now.
    ///
    /// # Errors
    /// As there; [`EngineError::TableGone`] in the place of [`EngineError::NoSuchTable`].
    pub fn alter_this_table(&self, table: &TableSnapshot, change: &AlterTable) -> Result<()> {
        tables::alter_by_id(self.core("ALTER TABLE")?, table, change)
    }

    /// Puts table `with` in the place of table `name`, whose name it has from then on; that one is dropped with all its
    /// rows, those included that were committed meanwhile. One change: nobody sees, and no crash leaves, neither or both.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] where one of them is not there, [`EngineError::HasViews`], [`EngineError::Model`],
    /// [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`].
    pub fn replace_table(&self, name: &str, with: &str) -> Result<()> {
        tables::replace(self.core("replacing a table")?, name, with)
    }

    /// Drops the partitions of a table that lie whole in `range`, with all their rows, and says how much
    /// that was; on stable storage when this returns. Their files go when the last snapshot that holds
    /// them does. What was imported stays on record as imported. The materialized views over the table keep their rows.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::NotTakenIn`] where a view lacks some of the rows yet, or has them in
    /// buckets with rows that stay, [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn drop_partitions(&self, table: &str, range: TimeRange) -> Result<Dropped> {
        let core = self.core("DROP PARTITION")?;
        tables::drop_partitions(core, &*core.table(table)?, range)
    }

    /// As [`Self::drop_partitions`], of a table that was found, and of no other that has its name by now.
    ///
    /// # Errors
    /// As there; [`EngineError::TableGone`] in the place of [`EngineError::NoSuchTable`].
    pub fn drop_partitions_of(&self, table: &TableSnapshot, range: TimeRange) -> Result<Dropped> {
        let core = self.core("DROP PARTITION")?;
        tables::drop_partitions(core, &*tables::this_table(core, table)?, range)
    }

    /// Removes all rows of a table, and the memory of what was imported into it.
    ///
    /// # Errors
    /// As [`Self::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        let core = self.core("TRUNCATE TABLE")?;
        tables::truncate(core, &*core.table(name)?)
    }

    /// As [`Self::truncate_table`], a table that was found, and no other that has its name by now.
    ///
    /// # Errors
    /// As there; [`EngineError::TableGone`] in the place of [`EngineError::NoSuchTable`].
    pub fn truncate_this_table(&self, table: &TableSnapshot) -> Result<()> {
        let core = self.core("TRUNCATE TABLE")?;
        tables::truncate(core, &*tables::this_table(core, table)?)
    }

    /// Drops the table that has this name now: see [`Self::drop_table_by_id`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let core = self.core("DROP TABLE")?;
        // Which tables there are is known only as long as the tape goes on.
        core.tape.check()?;
        tables::drop(core, core.table(name)?.id)
    }

    /// Drops the table of this number with all its rows; on stable storage when this returns. Its files go when the
    /// last snapshot that holds it does; what the disk does not let go of is tried again later.
    ///
    /// Whoever looked at a table before drops that one: its name may be another table's by now.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::HasViews`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`].
    pub fn drop_table_by_id(&self, id: u32) -> Result<()> {
        tables::drop(self.core("DROP TABLE")?, id)
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
        Transaction::new(self.core("INSERT").ok().cloned(), &self.shared.memory, RowsOf::Tables)
    }

    /// Begins a bulk load: rows go into parts directly and appear in one atomic commit.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`].
    pub fn load(&self, table: &str) -> Result<BulkLoad> {
        BulkLoad::new(Arc::clone(self.core("a bulk load")?), table)
    }

    /// The same into the table of this number, whatever it is called now.
    ///
    /// # Errors
    /// [`EngineError::TableGone`], [`EngineError::ReadOnly`].
    pub fn load_into(&self, id: u32, name: &str) -> Result<BulkLoad> {
        BulkLoad::new_by_id(Arc::clone(self.core("a bulk load")?), id, name)
    }

    /// Begins to delete and update rows of a table, which nobody else writes meanwhile; nothing is stored
    /// or visible before [`Rewrite::commit`]. Its recent rows are sealed first.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or
    /// [`EngineError::Io`] where sealing fails.
    pub fn rewrite(&self, table: &str) -> Result<Rewrite> {
        Rewrite::new(Arc::clone(self.core("DELETE or UPDATE")?), table, RowsOf::Tables)
    }

    /// Begins a commit of rows of materialized views.
    pub fn begin_of_views(&self) -> Transaction {
        Transaction::new(self.core("REFRESH").ok().cloned(), &self.shared.memory, RowsOf::Views)
    }

    /// Begins to delete rows of a materialized view.
    ///
    /// # Errors
    /// As [`Self::rewrite`].
    pub fn rewrite_view(&self, view: &str) -> Result<Rewrite> {
        Rewrite::new(Arc::clone(self.core("REFRESH")?), view, RowsOf::Views)
    }

    /// Says of a materialized view that its stored rows of the stretches `current` are those of its query as of position
    /// `as_of`, and that those of `stale` are not, whatever they are. What changed in a stretch after `as_of` stays
    /// stale, what is frozen is never.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::Model`] where it is no materialized view, [`EngineError::ReadOnly`],
    /// [`EngineError::TapeStopped`], [`EngineError::DiskFull`].
    pub fn refresh_view(
        &self,
        view: u32,
        as_of: u64,
        current: Vec<TimeRange>,
        stale: Vec<TimeRange>,
    ) -> Result<()> {
        tables::refresh(self.core("REFRESH")?, view, as_of, current, stale)
    }

    /// The files imported into a table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`].
    pub fn imports(&self, table: &str) -> Result<Vec<ImportRecord>> {
        Ok(self.shared.publisher.table(table)?.imports().to_vec())
    }

    /// Seals all recent rows of one table, or of all, into parts, and lets go of the tape before them. Everything
    /// committed before, under whatever policy, is on stable storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or
    /// [`EngineError::Io`]; rows that could not be sealed stay in memory and in the tape.
    pub fn seal(&self, table: Option<&str>) -> Result<()> {
        seal(self.core("CHECKPOINT")?, table)
    }

    /// Seals the recent rows of one table, or of all, and merges the parts of each partition into one, at
    /// full speed. Parts between which rows arrived that are not sealed stay apart.
    ///
    /// # Errors
    /// As [`Self::seal`]; what was merged before the error stays merged.
    pub fn compact(&self, table: Option<&str>) -> Result<()> {
        self.seal(table)?;
        compact::compact_fully(self.core("compaction")?, table)
    }

    /// Seals the recent rows of one table, or of all, and makes one dense part of each partition, at full
    /// speed: it takes the least room and is read more slowly. Unasked that happens to partitions that were not written for
    /// [`EngineOptions::archive_after`]. Parts between which rows arrived that are not sealed stay apart.
    ///
    /// # Errors
    /// As [`Self::seal`]; what was archived before the error stays so.
    pub fn archive(&self, table: Option<&str>) -> Result<()> {
        self.seal(table)?;
        compact::archive_fully(self.core("compaction")?, table)
    }

    /// Brings `to` to the present state while writing goes on: an empty directory, or a backup made
    /// before, of which parts that are still needed stay. `to` is open for writing.
    ///
    /// # Errors
    /// [`EngineError::NotABackup`] where `to` holds anything else, [`EngineError::Damaged`] where a part
    /// is not as it was written, [`EngineError::Io`]: the backup before is then as it was.
    pub fn backup(
        &self,
        to: &Arc<dyn Disk>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<BackupSummary> {
        backup::prepare(to.as_ref())?;
        self.shared.streams.flush()?;
        // Where another process writes, parts may go before they are copied; those that were are not copied again.
        self.read(|_| {
            let source = match &self.shared.role {
                Role::Writes(core) => backup::Source::of_writer(core)?,
                Role::Reads(_) => backup::Source::beside_a_writer(&self.shared.disk, || {
                    self.refresh()?;
                    Ok(self.snapshot())
                })?,
            };
            backup::copy_into(&source, to.as_ref(), &mut *progress)
        })
    }

    /// Seals recent rows as [`Self::seal`] does and keeps the state as of now in the folder `hold` of the
    /// database directory until [`Self::release`], also past the end of the process. The folder is a database;
    /// other programs may copy it, file by file in any order, while this one is written. Where the file system
    /// has no hard links, parts are copied.
    ///
    /// # Errors
    /// [`EngineError::AlreadyHeld`], [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], [`EngineError::Io`]:
    /// nothing is held then.
    pub fn hold(&self) -> Result<BackupSummary> {
        let core = self.core("CHECKPOINT HOLD")?;
        self.shared.streams.flush()?;
        backup::hold(core)
    }

    /// Removes what [`Self::hold`] has made: parts that nothing else names go with it.
    ///
    /// # Errors
    /// [`EngineError::NotHeld`], [`EngineError::ReadOnly`], or [`EngineError::Io`]: it may be there in part then,
    /// and goes with the next opening or hold.
    pub fn release(&self) -> Result<()> {
        backup::release(self.core("CHECKPOINT RELEASE")?)
    }

    /// Whether a state is held.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn is_held(&self) -> Result<bool> {
        hold::is_held(self.shared.disk.as_ref())
    }

    /// Bytes of rows and buffers in memory that count against the budget: recent rows, and what loads,
    /// transactions and merges hold.
    pub fn memory_bytes(&self) -> usize {
        self.snapshot().recent_bytes() + self.shared.memory.held_bytes()
    }

    /// What sealing and merging wrote since the engine was opened.
    pub fn maintenance_stats(&self) -> MaintenanceStats {
        self.core("maintenance")
            .map_or_else(|_| Counters::default().read(None), |core| core.maintenance_stats())
    }

    /// Does what is due now, on this thread: syncs by interval, merging, sealing, letting go of the tape.
    /// Only an engine opened without `background` needs it.
    ///
    /// # Errors
    /// [`EngineError::ReadOnly`], [`EngineError::TapeStopped`], or [`EngineError::Io`]; what could not be done
    /// is due again.
    pub fn maintain(&self) -> Result<()> {
        let core = self.core("maintenance")?;
        core.tape.sync_due()?;
        maintenance::maintain_step(core)
    }
}

/// Refuses a directory into which a restore was begun and not finished: it would look like a database with less in it.
fn check_restored(disk: &dyn Disk) -> Result<()> {
    match disk.read(Path::new(RESTORE_FILE)) {
        Ok(_) => Err(EngineError::RestoreUnfinished),
        Err(_) => Ok(()),
    }
}

/// What is left to do when the last handle of a writing process goes.
fn close(core: &Core) {
    core.compaction.worker.stop();
    core.maintenance.stop();
    for table in core.publisher.snapshot().tables().filter(|table| table.has_unnamed_parts()) {
        // Where this fails, the next opening looks for files that nothing names.
        let _ = save_manifest(core, table.id);
    }
    // The next opening makes stable, and sweeps, what was not.
    let unsure = core.maintenance.unsure.load(Ordering::Relaxed);
    if unsure || !core.maintenance.is_swept() || !core.names.is_copied() {
        return;
    }
    let (kind, payload) = encode_change(&Change::Close);
    // Where the tape has stopped, every writer was told; there is nothing to close then.
    if core.tape.end_with(kind, &payload, Effect::Nothing).is_ok()
        && let Some(mut newest) = core.tape.newest()
    {
        newest.last = newest.last.saturating_sub(1);
        // Where this fails, less of the tape is known to be missing where it is.
        let _ = core.names.promise(newest);
    }
}

/// What is kept for those who follow.
fn feed_of(options: &EngineOptions) -> Feed {
    Feed::new(options.follow_memory_bytes, options.tape_keep_bytes, options.tape_keep_age)
}
