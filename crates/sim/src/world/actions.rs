//! What the actors do, one step at a time. A new action is a variant, its line in [`ACTIONS`], and an arm in
//! [`World::act`]; one that changes data is a `Change` as well.

use super::{Failure, Loader, Reader, Staged, World, Writer};
use crate::Random;
use crate::change::Change;
use crate::generate::{batch_of, some_spec};
use crate::shape::{ModelTable, Row, TableSpec};
use crate::table::record_batch;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, ImportSource, LoadedFile};
use tickstone_model::SyncPolicy;

/// A step of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// CREATE TABLE.
    Create,
    /// DROP TABLE.
    Drop,
    /// TRUNCATE TABLE.
    Truncate,
    /// Rows of one or more tables in one call.
    Append,
    /// A writer begins a transaction, or adds rows to one.
    Stage,
    /// A writer commits a transaction, or gives it up.
    Commit,
    /// A loader begins a bulk load, or adds rows to one.
    Load,
    /// A loader commits its load, or gives it up.
    CommitLoad,
    /// ALTER TABLE.
    Alter,
    /// DROP PARTITION.
    DropPartitions,
    /// DELETE and UPDATE.
    Rewrite,
    /// CHECKPOINT of one table or all.
    Seal,
    /// The parts of one table, or of all, merge.
    Compact,
    /// A backup, restored elsewhere.
    BackUp,
    /// Another process reads.
    ReadOnly,
    /// Hours pass.
    PassTime,
    /// Time passes, then what is due is done.
    Tick,
    /// A reader takes a snapshot.
    TakeSnapshot,
    /// A reader checks its snapshot, and perhaps lets go of it.
    CheckSnapshot,
    /// A reader checks what there is now.
    CheckLive,
    /// The disk gets full, or free again.
    FillDisk,
    /// The power will go, some calls from now.
    ArmPowerCut,
    /// CHECKPOINT HOLD, files of the hold copied, CHECKPOINT RELEASE.
    Hold,
}

/// Every action, with how often it comes beside the others.
pub(crate) const ACTIONS: [(Action, u64); 23] = [
    (Action::Create, 2),
    (Action::Drop, 1),
    (Action::Truncate, 1),
    (Action::Append, 12),
    (Action::Stage, 6),
    (Action::Commit, 4),
    (Action::Load, 4),
    (Action::CommitLoad, 2),
    (Action::Alter, 3),
    (Action::DropPartitions, 1),
    (Action::Rewrite, 3),
    (Action::Seal, 3),
    (Action::Compact, 2),
    (Action::BackUp, 1),
    (Action::ReadOnly, 1),
    (Action::PassTime, 1),
    (Action::Tick, 3),
    (Action::TakeSnapshot, 2),
    (Action::CheckSnapshot, 3),
    (Action::CheckLive, 2),
    (Action::FillDisk, 1),
    (Action::ArmPowerCut, 2),
    (Action::Hold, 3),
];

const TABLES_MAX: usize = 4;
const WRITERS_MAX: usize = 3;
const LOADERS_MAX: usize = 2;
const READERS_MAX: usize = 4;

fn no_table(error: &EngineError) -> bool {
    matches!(error, EngineError::NoSuchTable { .. } | EngineError::TableGone { .. })
}

fn other_columns(error: &EngineError) -> bool {
    matches!(error, EngineError::SchemaChanged { .. })
}

fn never(_: &EngineError) -> bool {
    false
}

impl World {
    /// One step of an actor.
    ///
    /// # Errors
    /// Where the engine does what it may not.
    pub(crate) fn act(&mut self, action: Action, random: &mut Random) -> Result<(), Failure> {
        if self.model.live().is_empty() && action != Action::Create {
            return self.create(random);
        }
        match action {
            Action::Create => self.create(random),
            Action::Drop => self.drop_table(random),
            Action::Truncate => self.truncate(random),
            Action::Append => self.append(random),
            Action::Stage => self.stage(random),
            Action::Commit => self.commit(random),
            Action::Load => self.load(random),
            Action::CommitLoad => self.commit_load(random),
            Action::Alter => self.alter(TABLES_MAX as u64, random),
            Action::DropPartitions => self.drop_partitions(random),
            Action::Rewrite => self.rewrite(random),
            Action::Seal => self.seal(random),
            Action::Compact => self.compact(random),
            Action::BackUp => self.back_up(random),
            Action::ReadOnly => self.read_only(),
            Action::PassTime => {
                self.pass_time(random);
                Ok(())
            }
            Action::Tick => self.tick(random),
            Action::TakeSnapshot => self.take_snapshot(),
            Action::CheckSnapshot => self.check_snapshot(random),
            Action::CheckLive => self.check_live(random),
            Action::FillDisk => self.fill_disk(random),
            Action::ArmPowerCut => {
                self.disk.cut_power_after(Some(random.below(25)));
                Ok(())
            }
            Action::Hold => self.hold(random),
        }
    }

    /// One of the actions, by how often each comes.
    pub(crate) fn some_action(&self, random: &mut Random) -> Action {
        let weights = ACTIONS.iter().zip(&self.settings.weights).map(|((_, weight), factor)| weight * factor);
        let total: u64 = weights.clone().sum();
        let mut place = random.below(total.max(1));
        for ((action, _), weight) in ACTIONS.iter().zip(weights) {
            if place < weight {
                return *action;
            }
            place -= weight;
        }
        Action::Append
    }

    pub(super) fn some_table(&self, random: &mut Random) -> Option<Arc<ModelTable>> {
        let tables = self.model.live();
        let place = random.below((tables.len() as u64).max(1)) as usize;
        tables.values().nth(place).map(Arc::clone)
    }

    /// Rows for a table, with new ids.
    pub(super) fn some_rows(&mut self, spec: &TableSpec, random: &mut Random) -> Vec<Row> {
        let now = tickstone_engine::Clock::now_ns(self.clock.as_ref());
        let rows = batch_of(spec, self.next_id, now, random);
        self.next_id += rows.len() as i64;
        rows
    }

    fn create(&mut self, random: &mut Random) -> Result<(), Failure> {
        let spec = some_spec(random, TABLES_MAX as u64);
        let exists = self.model.live().contains_key(&spec.name);
        self.next_made += 1;
        let change = Change::Create { spec, made: self.next_made };
        let refused = |error: &EngineError| exists && matches!(error, EngineError::TableExists { .. });
        self.change(change.clone(), SyncPolicy::Always, refused, exists, |engine, state| {
            change.run(engine, state, None)
        })
    }

    fn drop_table(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let table = table.spec.name.clone();
        let other = self.some_table(random).filter(|other| other.spec.name != table && random.below(2) == 0);
        self.simple(match other {
            Some(other) => Change::Replace { table, with: other.spec.name.clone() },
            None => Change::Drop { table },
        })
    }

    fn truncate(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        self.simple(Change::Truncate { table: table.spec.name.clone() })
    }

    /// A change that is always acknowledged when stable, and never refused.
    pub(super) fn simple(&mut self, change: Change) -> Result<(), Failure> {
        self.change(change.clone(), SyncPolicy::Always, never, false, |engine, state| {
            change.run(engine, state, None)
        })
    }

    fn append(&mut self, random: &mut Random) -> Result<(), Failure> {
        let mut tables: Vec<(String, Vec<Row>)> = Vec::new();
        let mut policy = SyncPolicy::None;
        for _ in 0..1 + random.below(3) {
            let Some(table) = self.some_table(random) else { break };
            if tables.iter().any(|(name, _)| *name == table.spec.name) {
                continue;
            }
            if table.rows.len() > self.settings.rows_max {
                return self.simple(Change::Truncate { table: table.spec.name.clone() });
            }
            policy = policy.max(table.spec.sync);
            let rows = self.some_rows(&table.spec, random);
            tables.push((table.spec.name.clone(), rows));
        }
        let sync = some_policy(random);
        let change = Change::Rows { tables, at_ns: self.commit_time() };
        let run = |engine: &Engine, state: &_| change.run(engine, state, sync);
        self.change(change.clone(), sync.unwrap_or(policy), never, false, run)
    }

    fn stage(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let rows = self.some_rows(&table.spec, random);
        let batch = record_batch(&table.spec, &rows).map_err(|error| error.to_string())?;
        let name = table.spec.name.clone();
        let mut writer =
            if self.writers.len() >= WRITERS_MAX || (!self.writers.is_empty() && random.one_in(2)) {
                self.writers.swap_remove(random.below(self.writers.len() as u64) as usize)
            } else {
                Writer { transaction: self.engine()?.begin(), tables: Vec::new() }
            };
        let ids = table.spec.ids.clone();
        let staged = writer.tables.iter_mut().find(|staged| staged.made == table.made);
        if staged.as_ref().is_some_and(|staged| staged.ids != ids) {
            return match writer.transaction.append(&name, &batch) {
                Err(error) if other_columns(&error) => Ok(()),
                outcome => Err(format!("rows of two shapes of {name} in one transaction: {outcome:?}")),
            };
        }
        let what = format!("stage {name}+{}", rows.len());
        match staged {
            Some(staged) => staged.rows.extend(rows),
            None => writer.tables.push(Staged { made: table.made, ids, rows }),
        }
        // Transactions and loads together may hold no more than the budget: one that is refused is given up here.
        let mut is_crowded = false;
        let staged = self.upkeep(&what, |engine| match writer.transaction.append(&name, &batch) {
            Err(EngineError::MemoryFull { budget_bytes, .. })
                if engine.memory_bytes() + batch.get_array_memory_size() > budget_bytes =>
            {
                is_crowded = true;
                Ok(())
            }
            outcome => outcome,
        })?;
        if staged && !is_crowded {
            self.writers.push(writer);
        }
        Ok(())
    }

    fn commit(&mut self, random: &mut Random) -> Result<(), Failure> {
        if self.writers.is_empty() {
            return self.stage(random);
        }
        let Writer { transaction, tables } =
            self.writers.swap_remove(random.below(self.writers.len() as u64) as usize);
        if random.one_in(6) {
            self.note("roll back");
            return Ok(());
        }
        let found = |staged: &Staged| self.made(staged.made).map(|table| table.spec.clone());
        let specs: Vec<Option<TableSpec>> = tables.iter().map(found).collect();
        let gone = specs.iter().any(Option::is_none);
        let altered = |(staged, spec): (&Staged, &Option<TableSpec>)| {
            spec.as_ref().is_some_and(|spec| spec.ids != staged.ids)
        };
        let altered = tables.iter().zip(&specs).any(altered);
        let policy = specs.iter().flatten().map(|spec| spec.sync).max().unwrap_or_default();
        let sync = some_policy(random);
        let named = tables.into_iter().zip(specs);
        let tables = named.filter_map(|(staged, spec)| Some((spec?.name, staged.rows))).collect();
        let change = Change::Rows { tables, at_ns: self.commit_time() };
        let refused = |error: &EngineError| (gone && no_table(error)) || (altered && other_columns(error));
        let run = |_: &Engine, _: &_| transaction.commit(sync).map(|_| ());
        self.change(change, sync.unwrap_or(policy), refused, gone || altered, run)
    }

    fn load(&mut self, random: &mut Random) -> Result<(), Failure> {
        let mut loader =
            if self.loaders.len() >= LOADERS_MAX || (!self.loaders.is_empty() && random.one_in(2)) {
                self.loaders.swap_remove(random.below(self.loaders.len() as u64) as usize)
            } else {
                let Some(table) = self.some_table(random) else { return Ok(()) };
                let name = table.spec.name.clone();
                let mut load = None;
                self.upkeep(&format!("load {name}"), |engine| {
                    load = Some(engine.load(&name)?);
                    Ok(())
                })?;
                let Some(load) = load else { return Ok(()) };
                Loader { load, spec: table.spec.clone(), made: table.made, rows: Vec::new() }
            };
        if self.made(loader.made).is_none() {
            return Ok(());
        }
        for _ in 0..1 + random.below(3) {
            let rows = self.some_rows(&loader.spec, random);
            let batch = record_batch(&loader.spec, &rows).map_err(|error| error.to_string())?;
            let what = format!("load {}+{}", loader.spec.name, rows.len());
            if !self.upkeep(&what, |_| loader.load.append(&batch))? {
                return Ok(());
            }
            loader.rows.extend(rows);
        }
        self.loaders.push(loader);
        Ok(())
    }

    fn commit_load(&mut self, random: &mut Random) -> Result<(), Failure> {
        if self.loaders.is_empty() {
            return self.load(random);
        }
        let Loader { load, spec, made, rows } =
            self.loaders.swap_remove(random.below(self.loaders.len() as u64) as usize);
        if random.one_in(6) {
            self.note("give up a load");
            return Ok(());
        }
        let now = self.made(made).map(|table| table.spec.clone());
        let altered = now.as_ref().is_some_and(|now| now.version != spec.version);
        let gone = now.is_none();
        let table = now.unwrap_or(spec).name;
        let hash = if random.one_in(2) { Some(random.next_u64()) } else { None };
        // One to three files, or none.
        let file =
            |hash| LoadedFile { source: ImportSource { name: "x.csv".to_string(), bytes: 1, hash }, rows: 1 };
        let files =
            hash.map_or_else(Vec::new, |hash| (0..=hash % 3).map(|number| file(hash ^ number)).collect());
        let change = Change::Rows { tables: vec![(table, rows)], at_ns: self.commit_time() };
        let refused = |error: &EngineError| (gone && no_table(error)) || (altered && other_columns(error));
        let run = |_: &Engine, _: &_| load.commit_files(files).map(|_| ());
        self.change(change, SyncPolicy::Always, refused, gone || altered, run)
    }

    fn seal(&mut self, random: &mut Random) -> Result<(), Failure> {
        let table = if random.one_in(2) { None } else { self.some_table(random) };
        let name = table.map(|table| table.spec.name.clone());
        let what = format!("seal {}", name.as_deref().unwrap_or("all"));
        if self.upkeep(&what, |engine| engine.seal(name.as_deref()))? && name.is_none() {
            self.model.all_stable();
        }
        Ok(())
    }

    fn tick(&mut self, random: &mut Random) -> Result<(), Failure> {
        let past = self.settings.options.sync_interval.as_nanos() as i64 + random.below(1_000_000) as i64;
        // Clocks are set back, too: then nothing is promised for a while.
        let step = if random.one_in(10) { -past } else { past };
        self.clock.advance(step);
        self.clock_back |= step < 0;
        if self.upkeep("tick", Engine::maintain)? && !self.clock_back && !self.stopped {
            self.note("   (interval over)");
            self.model.interval_over();
        }
        Ok(())
    }

    fn take_snapshot(&mut self) -> Result<(), Failure> {
        if self.readers.len() < READERS_MAX {
            let snapshot = self.engine()?.snapshot();
            self.readers.push(Reader { snapshot, state: self.model.live().clone() });
        }
        Ok(())
    }

    fn check_snapshot(&mut self, random: &mut Random) -> Result<(), Failure> {
        if self.readers.is_empty() {
            return self.take_snapshot();
        }
        let place = random.below(self.readers.len() as u64) as usize;
        let reader = self.readers.swap_remove(place);
        let outcome = self.check(&reader.snapshot, &reader.state, random);
        if random.one_in(2) {
            self.readers.push(reader);
        }
        outcome.map_err(|what| format!("a held snapshot has changed: {what}"))
    }

    fn fill_disk(&mut self, random: &mut Random) -> Result<(), Failure> {
        let room = random.below(3_000);
        self.disk.set_bytes_max(random.one_in(2).then(|| self.disk.used_bytes() + room));
        Ok(())
    }
}

fn some_policy(random: &mut Random) -> Option<SyncPolicy> {
    [None, Some(SyncPolicy::Always), Some(SyncPolicy::Interval), Some(SyncPolicy::None)]
        [random.below(4) as usize]
}
