//! What happens off the commit path: runs merge, partitions are sealed, the tape lets go.
//!
//! Invariants:
//! - one maintenance step at a time (the pause guard is its lock); steps never take a writer's lock;
//! - rows are sealed, a manifest saved and a segment of the tape removed only after the tape is synced up to
//!   what they rely on: a power cut never keeps one table's half of a commit, nor loses a row with the one
//!   that replaced it;
//! - the order of a seal: part, folder, symbol files, snapshot, manifest; a segment of the tape goes
//!   only when every table's manifest holds what it tells.

use crate::engine::{Core, lock};
use crate::manifest::{copy_path, symbols_path};
use crate::orphans::{Orphans, Sweep};
use crate::part::{Density, Part, PositionRange};
use crate::recent::{Run, fit_together, merge_runs, runs_to_merge};
use crate::snapshot::{PartFile, PartitionSnapshot, Snapshot, Source, TableDir, TableSnapshot, part_path};
use crate::tape::change::PartEntry;
use crate::tape::named::remove_released;
use crate::tape::segment::{TAPE_DIR, list_segments};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tickstone_model::TimeRange;

/// Share of what recent rows may take that they take before partitions are sealed.
const SEAL_SHARE: usize = 2;

/// How long after a step that failed it is tried again unasked.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Most rows of a run made by merging: one slice's worth keeps sealing and merging in proportion.
const MERGED_ROWS_MAX: usize = 1 << 20;

/// The same for tables whose rows replace each other.
const DEDUP_MERGED_ROWS_MAX: usize = 1 << 16;

/// The state of maintenance: who may run a step, and whether one is asked for.
#[derive(Debug)]
pub(crate) struct Maintenance {
    step: Mutex<()>,
    /// Tables with runs to merge or parts that left since the last step.
    touched: Mutex<BTreeSet<u32>>,
    requests: Mutex<Requests>,
    /// Signalled when a step is asked for, and at the end.
    requested: Condvar,
    /// Signalled when a step has ended.
    stepped: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Folders of dropped tables whose manifests may still be there: the tape keeps their DROP until then.
    pub(crate) dropped: Mutex<Vec<Arc<TableDir>>>,
    /// Set once a manifest, or the copy of one, could not be saved: its name may be there without being stable, so
    /// that the end must not count as a clean close, after which nothing is made stable again.
    pub(crate) unsure: AtomicBool,
    /// Held by the one who makes or releases a hold, before any other lock.
    pub(crate) holding: Mutex<()>,
    /// The search for orphans, which goes on beside maintenance.
    sweep: Arc<Sweep>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Requests {
    wanted: bool,
    stopping: bool,
    /// Why the last step failed; cleared by one that does not.
    failure: Option<String>,
}

/// Proof that no other maintenance step runs.
#[derive(Debug)]
pub(crate) struct Pause<'a>(#[allow(dead_code, reason = "held for its lock")] MutexGuard<'a, ()>);

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            step: Mutex::new(()),
            touched: Mutex::default(),
            requests: Mutex::new(Requests::default()),
            requested: Condvar::new(),
            stepped: Condvar::new(),
            thread: Mutex::new(None),
            dropped: Mutex::default(),
            unsure: AtomicBool::new(false),
            holding: Mutex::default(),
            sweep: Arc::default(),
            sweeper: Mutex::new(None),
        }
    }

    /// Whether no file can be left that nothing names.
    pub(crate) fn is_swept(&self) -> bool {
        self.sweep.done.load(Ordering::Acquire)
    }

    /// Notes that a part of this name is going to be written.
    pub(crate) fn give_name(&self, name: &str) {
        self.sweep.give(name);
    }

    /// Notes that these tables were written to, or that parts left them: the next step looks at them, and at
    /// no others.
    pub(crate) fn touch(&self, tables: impl IntoIterator<Item = u32>) {
        lock(&self.touched).extend(tables);
    }

    /// Notes what an opening leaves to be done.
    pub(crate) fn touch_all(&self, snapshot: &Snapshot) {
        let left = |table: &&Arc<TableSnapshot>| !table.retired.is_empty();
        self.touch(snapshot.hot_tables().chain(snapshot.tables().filter(left)).map(|table| table.id));
    }

    /// Starts the thread that does what is requested, as long as the engine lives.
    pub(crate) fn start(core: &Arc<Core>) -> Result<()> {
        let weak: Weak<Core> = Arc::downgrade(core);
        let maintenance = Arc::clone(&core.writing("maintenance")?.maintenance);
        let run = move || {
            while maintenance.next_request() {
                let Some(core) = weak.upgrade() else { return };
                maintenance.finish_step(core.maintain_step());
                core.request_compaction();
            }
        };
        let thread = std::thread::Builder::new().name("maintenance".to_string()).spawn(run);
        let thread = thread.map_err(EngineError::io("start the thread of", "maintenance"))?;
        *lock(&core.writing("maintenance")?.maintenance.thread) = Some(thread);
        Ok(())
    }

    /// Waits for a request; `false` at the end.
    fn next_request(&self) -> bool {
        let mut requests = lock(&self.requests);
        while !requests.wanted && !requests.stopping {
            if requests.failure.is_some() {
                // What failed for want of space goes on once there is some, also where nobody commits.
                let waited = self.requested.wait_timeout(requests, RETRY_INTERVAL);
                requests = waited.unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            requests = self.requested.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
        requests.wanted = false;
        !requests.stopping
    }

    fn finish_step(&self, outcome: Result<()>) {
        lock(&self.requests).failure = outcome.err().map(|error| error.to_string());
        self.stepped.notify_all();
    }

    /// Why the last step failed, `None` where it did not.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.requests).failure.clone()
    }

    /// Asks for a step.
    pub(crate) fn request(&self) {
        lock(&self.requests).wanted = true;
        self.requested.notify_one();
    }

    /// Keeps steps from running while the guard lives.
    pub(crate) fn pause(&self) -> Pause<'_> {
        Pause(lock(&self.step))
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        lock(&self.requests).stopping = true;
        self.requested.notify_all();
        self.sweep.stopping.store(true, Ordering::Relaxed);
        if let Some(sweeper) = lock(&self.sweeper).take() {
            // A panic there was printed; the sweep is not done then.
            let _ = sweeper.join();
        }
        let thread = lock(&self.thread).take();
        // The thread itself may be the one that drops the engine: it ends right after.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }
}

impl Core {
    /// Removes the files that a crash left, on a thread of its own or at once; `None` where there is none.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn sweep(self: &Arc<Self>, orphans: Option<Orphans>) -> Result<()> {
        let maintenance = &self.writing("maintenance")?.maintenance;
        let sweep = Arc::clone(&maintenance.sweep);
        let Some(orphans) = orphans else {
            sweep.done.store(true, Ordering::Release);
            return Ok(());
        };
        let disk = Arc::clone(&self.disk);
        let of = Arc::downgrade(maintenance);
        // Manifests and symbol files are written by those who hold the pause.
        let run = move || orphans.remove(disk.as_ref(), &sweep, &of);
        if !self.options.background {
            return run();
        }
        // What it cannot remove the next opening tries again: the tape stays unclosed.
        let thread = std::thread::Builder::new().name("sweep".to_string()).spawn(move || drop(run()));
        let thread = thread.map_err(EngineError::io("start the thread of", "the sweep"))?;
        *lock(&maintenance.sweeper) = Some(thread);
        Ok(())
    }

    /// Waits until recent rows are within the memory budget.
    ///
    /// # Errors
    /// [`EngineError::MemoryFull`] where sealing them fails.
    pub(crate) fn wait_for_memory(&self) -> Result<()> {
        let budget_bytes = self.options.memory_budget_bytes;
        let maintenance = &self.writing("writing")?.maintenance;
        while self.publisher.snapshot().recent_bytes() > self.memory.recent_bytes_max() {
            if !self.options.background {
                self.maintain();
            }
            let mut requests = lock(&maintenance.requests);
            requests.wanted = true;
            maintenance.requested.notify_one();
            if let Some(cause) = &requests.failure {
                return Err(EngineError::MemoryFull { budget_bytes, cause: cause.clone() });
            }
            if self.options.background {
                drop(maintenance.stepped.wait(requests).unwrap_or_else(PoisonError::into_inner));
            }
        }
        Ok(())
    }

    /// Does what is due now; a failure is kept for the writer that has to wait for memory.
    pub(crate) fn maintain(&self) {
        if let Ok(writing) = self.writing("maintenance") {
            let outcome = self.maintain_step();
            writing.maintenance.finish_step(outcome);
            self.compact_inline();
        }
    }

    pub(crate) fn maintain_step(&self) -> Result<()> {
        let maintenance = &self.writing("maintenance")?.maintenance;
        let pause = maintenance.pause();
        let touched = std::mem::take(&mut *lock(&maintenance.touched));
        let looked_at = self
            .merge_runs_of(&touched)
            .and_then(|()| self.remove_dropped(&pause))
            .and_then(|()| self.save_where_parts_left(&touched, &pause));
        if looked_at.is_err() {
            // What could not be done is due again.
            maintenance.touch(touched);
        }
        looked_at?;
        let mut sealed = false;
        while self.publisher.snapshot().recent_bytes() > self.memory.recent_bytes_max() / SEAL_SHARE {
            let snapshot = self.publisher.snapshot();
            let Some((table, partition)) = fullest_partition(&snapshot) else { break };
            self.seal_partition(table, partition, &pause)?;
            self.save_manifest_of(table, &pause)?;
            sealed = true;
        }
        if sealed || self.tape_is_long()? {
            self.free_tape(&pause)?;
        }
        Ok(())
    }

    fn merge_runs_of(&self, tables: &BTreeSet<u32>) -> Result<()> {
        let snapshot = self.publisher.snapshot();
        for table in tables.iter().filter_map(|id| snapshot.table_by_id(*id)) {
            for partition in table.partitions().hot() {
                let trailing = trailing_runs(partition);
                let rows: Vec<usize> = trailing.iter().map(|run| run.rows()).collect();
                // Each replaced row of a run costs a copy of it.
                let dedup = !table.schema.dedup().is_empty();
                let rows_max = if dedup { DEDUP_MERGED_ROWS_MAX } else { MERGED_ROWS_MAX };
                let count = runs_to_merge(&rows, rows_max);
                let runs = &trailing[trailing.len() - count..];
                if count > 0 && fit_together(runs) {
                    let merged = Source::Run(Arc::new(merge_runs(runs)?));
                    let _layout = lock(&table.dir.layout);
                    self.publisher.change(|next| next.replace_runs(table.id, partition.range, runs, merged));
                }
            }
        }
        Ok(())
    }

    /// Saves the manifests of tables that parts left: their files go after that.
    fn save_where_parts_left(&self, tables: &BTreeSet<u32>, pause: &Pause<'_>) -> Result<()> {
        let snapshot = self.publisher.snapshot();
        let tables = tables.iter().filter_map(|id| snapshot.table_by_id(*id));
        let left = tables.filter(|table| !table.retired.is_empty());
        left.map(|table| table.id).try_for_each(|id| self.save_manifest_of(id, pause))
    }

    /// Seals every partition of a table and saves its manifest.
    pub(crate) fn seal_table(&self, table: u32, pause: &Pause<'_>) -> Result<()> {
        let snapshot = self.publisher.snapshot();
        let hot = snapshot.table_by_id(table).into_iter().flat_map(|table| table.partitions().hot());
        for partition in hot {
            self.seal_partition(table, partition.range, pause)?;
        }
        self.save_manifest_of(table, pause)
    }

    /// Writes the runs of a partition into parts: one for each stretch of them between parts.
    fn seal_partition(&self, id: u32, range: TimeRange, _pause: &Pause<'_>) -> Result<()> {
        let snapshot = self.publisher.snapshot();
        let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
        let Some(partition) = table.partitions().find(range.from) else { return Ok(()) };
        self.writing("sealing")?.tape.sync(snapshot.position())?;
        for runs in stretches_of_runs(partition) {
            let (first, last) = (runs[0].positions().first, runs[runs.len() - 1].positions().last);
            let positions = PositionRange { first, last };
            let file = self.new_part_name(Density::Fast);
            let path = part_path(id, &table.schema, range.from, &file);
            let batches: Vec<_> = runs.iter().map(|run| run.batch().clone()).collect();
            let options = self.options.part_options(Density::Fast);
            let summary =
                Part::write(self.disk.as_ref(), &path, &table.schema, positions, &batches, options)?;
            let folder = path.parent().expect("a part is in its partition's folder");
            if let Err(error) = self.disk.sync_dir(folder) {
                // The next try writes another one.
                let _ = self.disk.remove(&path);
                return Err(EngineError::io("sync", folder)(error));
            }
            let (rows, times, file_bytes) = (summary.rows, summary.times, summary.file_bytes);
            self.counters.sealed(file_bytes);
            let (partition, schema_version) = (range.from, table.schema.version());
            let entry = PartEntry { partition, file, positions, rows, times, file_bytes, schema_version };
            let part = Source::Part(Arc::new(PartFile::new(entry, &table.schema, &table.dir)));
            let layout = lock(&table.dir.layout);
            table.note_sealed();
            let replaced = self.publisher.change(|next| next.replace_runs(id, range, &runs, part));
            drop(layout);
            self.writing("sealing")?.compaction.touch([id]);
            if !replaced {
                self.disk.remove(&path).map_err(EngineError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Saves a table's manifest, with the symbols it relies on first.
    pub(crate) fn save_manifest(&self, table: u32) -> Result<()> {
        let pause = self.writing("saving a manifest")?.maintenance.pause();
        self.save_manifest_of(table, &pause)
    }

    /// Saves a table's manifest after a change that is done already; what fails is tried again by maintenance,
    /// and said by it.
    pub(crate) fn save_manifest_or_later(&self, table: u32) {
        let outcome = self.save_manifest(table);
        self.finish_or_later(outcome);
    }

    /// Removes the manifest of a table after its DROP, which is done already; what fails is tried again by
    /// maintenance, and said by it.
    pub(crate) fn remove_dropped_or_later(&self, dir: Arc<TableDir>) {
        let Ok(writing) = self.writing("DROP TABLE") else { return };
        let pause = writing.maintenance.pause();
        lock(&writing.maintenance.dropped).push(dir);
        let outcome = self.remove_dropped(&pause);
        drop(pause);
        self.finish_or_later(outcome);
    }

    /// Leaves to maintenance what could not be done.
    fn finish_or_later(&self, outcome: Result<()>) {
        if let (Err(_), Ok(writing)) = (&outcome, self.writing("maintenance")) {
            writing.maintenance.finish_step(outcome);
            writing.maintenance.request();
        }
    }

    pub(crate) fn save_manifest_of(&self, id: u32, _pause: &Pause<'_>) -> Result<()> {
        self.try_save_manifest(id).inspect_err(|_| {
            // Parts may be there that the manifest does not name, too.
            if let Ok(writing) = self.writing("saving a manifest") {
                writing.maintenance.unsure.store(true, Ordering::Relaxed);
                writing.maintenance.touch([id]);
            }
        })
    }

    fn try_save_manifest(&self, id: u32) -> Result<()> {
        self.forget_history(id)?;
        let snapshot = self.publisher.snapshot();
        let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
        if !table.needs_saving() {
            return Ok(());
        }
        self.writing("saving a manifest")?.tape.sync(snapshot.position())?;
        let manifest = table.to_manifest(snapshot.position());
        self.save_symbols(table, &manifest.symbol_counts)?;
        let copied = manifest.save(self.disk.as_ref())?;
        self.note_copied(copied);
        table.note_saved();
        for column_id in &table.retired_columns {
            let path = symbols_path(id, *column_id);
            for path in [copy_path(&path), path] {
                self.disk.remove(&path).map_err(EngineError::io("remove", &path))?;
            }
        }
        self.publisher.change(|next| next.forget_retired(table));
        Ok(())
    }

    fn save_symbols(&self, table: &TableSnapshot, counts: &[u32]) -> Result<()> {
        for (column, count) in table.schema.symbol_columns().zip(counts) {
            let Some(dictionary) = table.dictionary(column) else { continue };
            let column_id = table.schema.column_id(column);
            if table.dir.saved_symbols(column_id) < *count {
                let path = symbols_path(table.id, column_id);
                let copied = dictionary.save(self.disk.as_ref(), &path, *count as usize)?;
                self.note_copied(copied);
                table.dir.note_saved_symbols(column_id, *count);
            }
        }
        Ok(())
    }

    /// Notes whether a copy was written: the next opening writes what was not.
    fn note_copied(&self, copied: bool) {
        if let (false, Ok(writing)) = (copied, self.writing("saving a manifest")) {
            writing.maintenance.unsure.store(true, Ordering::Relaxed);
        }
    }

    /// Where the tape begins; what was before is gone for good.
    pub(crate) fn stable_tape_start(&self) -> Result<u64> {
        let first = list_segments(self.disk.as_ref())?.first().copied();
        self.disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR))?;
        Ok(first.unwrap_or(0))
    }

    fn tape_is_long(&self) -> Result<bool> {
        let segments = list_segments(self.disk.as_ref())?.len() as u64;
        Ok(segments.saturating_sub(1) * self.options.segment_bytes as u64 > self.options.tape_bytes_max)
    }

    /// Seals what holds the older half of the tape back, then lets go of it.
    fn free_tape(&self, pause: &Pause<'_>) -> Result<()> {
        if self.tape_is_long()? {
            let segments = list_segments(self.disk.as_ref())?;
            let middle = segments.get(segments.len() / 2).copied().unwrap_or_default();
            let snapshot = self.publisher.snapshot();
            for table in snapshot.hot_tables() {
                let old = |run: &Arc<Run>| run.positions().first < middle;
                let held = |partition: &&Arc<PartitionSnapshot>| runs_of(partition).any(old);
                for partition in table.partitions().hot().filter(held) {
                    self.seal_partition(table.id, partition.range, pause)?;
                }
            }
        }
        self.truncate_tape(pause)
    }

    /// Removes the manifests of dropped tables.
    pub(crate) fn remove_dropped(&self, _pause: &Pause<'_>) -> Result<()> {
        let mut dropped = lock(&self.writing("DROP TABLE")?.maintenance.dropped);
        while let Some(dir) = dropped.last() {
            dir.doom()?;
            dropped.pop();
        }
        Ok(())
    }

    /// Removes the segments whose every frame is in parts and manifests.
    pub(crate) fn truncate_tape(&self, pause: &Pause<'_>) -> Result<()> {
        let segments = list_segments(self.disk.as_ref())?;
        let snapshot = self.publisher.snapshot();
        let oldest_run = snapshot.oldest_run().unwrap_or(u64::MAX);
        let needed_from = oldest_run.min(snapshot.position());
        // The segment before the first one that begins later holds `needed_from`; the newest stays.
        let removable = segments.windows(2).take_while(|pair| pair[1] <= needed_from).count();
        if removable == 0 {
            return Ok(());
        }
        // Rows of these segments may be gone by a later commit alone, which must not be lost without them.
        self.writing("freeing the tape")?.tape.sync(snapshot.position())?;
        self.remove_dropped(pause)?;
        for table in snapshot.tables() {
            self.save_manifest_of(table.id, pause)?;
        }
        // Those that have no name any more are passed over, whichever of them a power cut brings back.
        self.writing("freeing the tape")?.names.release(segments[removable])?;
        // Only what cannot come back with a power cut need not be remembered.
        remove_released(self.disk.as_ref(), &segments[..removable])?;
        self.publisher.change(|next| next.forget_emptied(segments[removable]));
        Ok(())
    }
}

fn runs_of(partition: &Arc<PartitionSnapshot>) -> impl Iterator<Item = &Arc<Run>> {
    partition.sources.iter().filter_map(|source| if let Source::Run(run) = source { Some(run) } else { None })
}

/// The runs after the last part, in arrival order.
fn trailing_runs(partition: &PartitionSnapshot) -> Vec<Arc<Run>> {
    stretches_of_runs(partition)
        .pop()
        .filter(|_| matches!(partition.sources.last(), Some(Source::Run(_))))
        .unwrap_or_default()
}

/// Neighbouring runs, in arrival order: parts stand between the stretches.
fn stretches_of_runs(partition: &PartitionSnapshot) -> Vec<Vec<Arc<Run>>> {
    let mut stretches = vec![Vec::new()];
    for source in &partition.sources {
        match (source, stretches.last_mut()) {
            (Source::Run(run), Some(stretch)) => stretch.push(Arc::clone(run)),
            _ => stretches.push(Vec::new()),
        }
    }
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}

fn fullest_partition(snapshot: &Snapshot) -> Option<(u32, TimeRange)> {
    let partitions =
        snapshot.hot_tables().flat_map(|table| table.partitions().hot().map(move |p| (table, p)));
    let (table, partition) = partitions.max_by_key(|(_, partition)| partition.recent_bytes())?;
    (partition.runs() > 0).then_some((table.id, partition.range))
}
