//! One simulated process and its disk, beside the model of what it must hold.
//!
//! ```text
//! act ─► actions, shaping, copies, holds (what the actors do) ─► change / look ─► engine on a FaultyDisk, model
//! end ─► recovery (kill, power cut, close) ─► images, damage ─► the state found is a candidate
//! ```
//!
//! Invariants:
//! - an error of the engine is accepted only where a fault was planted, or the model says why;
//! - after the tape has stopped nothing is acknowledged until the database is opened again.

mod actions;
mod copies;
mod holds;
mod recovery;
mod shaping;

pub(crate) use actions::{ACTIONS, Action};
pub(crate) use recovery::End;

use crate::change::Change;
use crate::faulty_disk::{FaultRates, FaultyDisk, Lies};
use crate::model::Model;
use crate::shape::{ModelTable, Row, State, TableSpec};
use crate::table::{Trouble, check_table, compare, read_all};
use crate::{Random, StepClock};
use copies::Backup;
use holds::Hold;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::disk::Disk;
use tickstone_engine::{BulkLoad, Engine, EngineError, EngineOptions, Snapshot, Transaction};
use tickstone_model::SyncPolicy;

/// What does not hold, in words.
pub(crate) type Failure = String;

/// A reader with a snapshot and what it must show for as long as it is held.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) state: State,
}

/// A writer with a transaction under way.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) transaction: Transaction,
    pub(crate) tables: Vec<Staged>,
}

/// Rows for a table, which may be renamed, altered or dropped before they are committed.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Which making of a table.
    pub(crate) made: u64,
    /// Its columns then.
    pub(crate) ids: Vec<u32>,
    pub(crate) rows: Vec<Row>,
}

/// A bulk load under way.
#[derive(Debug)]
pub(crate) struct Loader {
    pub(crate) load: BulkLoad,
    /// The table as it was then.
    pub(crate) spec: TableSpec,
    pub(crate) made: u64,
    pub(crate) rows: Vec<Row>,
}

/// What differs between runs: drawn from the seed, so that each meets other mixtures.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How the engine is opened.
    pub(crate) options: EngineOptions,
    /// How often the disk fails.
    pub(crate) rates: FaultRates,
    /// What it only pretends to do.
    pub(crate) lies: Lies,
    /// A crash comes once in this many steps.
    pub(crate) crash_one_in: u64,
    /// Weights of the actions, by their place in [`ACTIONS`].
    pub(crate) weights: Vec<u64>,
    /// Rows above which a table is cut back.
    pub(crate) rows_max: usize,
}

/// The process, its disk and its model.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<StepClock>,
    pub(crate) disk: FaultyDisk,
    pub(crate) engine: Option<Engine>,
    pub(crate) model: Model,
    pub(crate) readers: Vec<Reader>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) loaders: Vec<Loader>,
    backup: Option<Backup>,
    hold: Option<Hold>,
    /// Another process's engine, opened for reading while this process lives.
    pub(crate) follower: Option<Engine>,
    /// The power went after a clean close: files that were removed before it may be back.
    pub(crate) may_have_leftovers: bool,
    /// The tape has said that it stopped.
    pub(crate) stopped: bool,
    /// Errors of the disk when the database was opened.
    pub(crate) faults_before: u64,
    pub(crate) next_id: i64,
    pub(crate) next_made: u64,
    pub(crate) rows_committed: u64,
    /// The clock was set back since the database was opened: no interval is over for sure.
    pub(crate) clock_back: bool,
    pub(crate) trace: Vec<String>,
}

impl Settings {
    /// Those of a seed.
    pub(crate) fn new(random: &mut Random, actions: usize) -> Self {
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let options = EngineOptions {
            background: false,
            stream_memory_bytes: 1 << 20,
            threads: 1,
            memory_budget_bytes: pick(&[600_000, 1 << 20, 2 << 20]) as usize,
            slice_rows: pick(&[4, 16, 64, 1_024]) as usize,
            segment_bytes: pick(&[600, 2_000, 8_000, 64_000]) as usize,
            tape_bytes_max: pick(&[2_000, 16_000, 128_000]),
            sync_interval: Duration::from_millis(pick(&[1, 10, 100])),
            compaction_parts_min: pick(&[0, 2, 4]) as usize,
            compaction_bytes_per_s: u64::MAX,
            archive_after: Duration::from_secs(pick(&[0, 1, 3_600])),
            tape_keep_bytes: pick(&[0, 0, 4_000, 64_000]),
            tape_keep_age: Duration::from_secs(pick(&[0, 1, 3_600])),
            follow_memory_bytes: pick(&[0, 2_000, 64_000]) as usize,
        };
        let mut rate = |choices: &[u64]| {
            if random.one_in(2) { 0 } else { choices[random.below(choices.len() as u64) as usize] }
        };
        let rates = FaultRates {
            sync: rate(&[30, 200]),
            sync_dir: rate(&[30, 200]),
            append: rate(&[40, 200]),
            names: rate(&[30, 200]),
            read: rate(&[20, 100]),
            short_read: rate(&[10, 50]),
            slow: rate(&[20, 200]),
        };
        // A third of the runs see crashes only.
        let rates =
            if random.one_in(3) { FaultRates { slow: rates.slow, ..FaultRates::default() } } else { rates };
        let crash_one_in = [6, 15, 60][random.below(3) as usize];
        let weights = (0..actions).map(|_| [0, 1, 1, 1, 4][random.below(5) as usize]).collect();
        Self { options, rates, lies: Lies::default(), crash_one_in, weights, rows_max: 1_500 }
    }
}

impl World {
    /// An empty database on an empty disk.
    ///
    /// # Errors
    /// Where that cannot be opened.
    pub(crate) fn new(seed: u64, settings: Settings) -> Result<Self, Failure> {
        let clock = Arc::new(StepClock::new(1_700_000_000_000_000_000));
        let disk = FaultyDisk::new(seed ^ 0xD15C, Arc::clone(&clock));
        disk.set_lies(settings.lies);
        let mut world = Self {
            settings,
            clock,
            disk,
            engine: None,
            model: Model::default(),
            readers: Vec::new(),
            writers: Vec::new(),
            loaders: Vec::new(),
            backup: None,
            hold: None,
            follower: None,
            may_have_leftovers: false,
            stopped: false,
            faults_before: 0,
            next_id: 0,
            next_made: 0,
            rows_committed: 0,
            clock_back: false,
            trace: Vec::new(),
        };
        let engine = world.open(&world.disk).map_err(|error| format!("a new database: {error}"))?;
        world.engine = Some(engine);
        world.disk.set_rates(world.settings.rates);
        Ok(world)
    }

    pub(crate) fn open(&self, disk: &FaultyDisk) -> tickstone_engine::Result<Engine> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Engine::open_on(shared, Arc::clone(&self.clock) as Arc<_>, self.settings.options.clone())
    }

    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.engine.clone().ok_or_else(|| "the simulator lost its engine".to_string())
    }

    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    /// Whether the disk has failed, or was full, since the database was opened.
    pub(crate) fn is_troubled(&self) -> bool {
        self.is_excused(self.faults_before)
    }

    /// Whether a call may fail before which the disk had failed `before` times.
    pub(crate) fn is_excused(&self, before: u64) -> bool {
        self.stopped || self.disk.is_dead() || self.disk.counts().errors() > before
    }

    /// Whether an error of a call may be, before which the disk had failed `before` times. The tape may have
    /// stopped earlier, in maintenance whose failure nobody was told.
    pub(crate) fn may_fail(&self, error: &EngineError, before: u64) -> bool {
        let stopped = matches!(error, EngineError::TapeStopped { .. });
        self.is_excused(if stopped { self.faults_before } else { before })
    }

    /// The table that was made so, under whatever name.
    pub(crate) fn made(&self, made: u64) -> Option<&Arc<ModelTable>> {
        self.model.live().values().find(|table| table.made == made)
    }

    /// Runs a change and notes in the model what became of it. `refused` says which errors are right.
    ///
    /// # Errors
    /// Where the engine's answer is none that it may give.
    pub(crate) fn change(
        &mut self,
        change: Change,
        sync: SyncPolicy,
        refused: impl Fn(&EngineError) -> bool,
        must_refuse: bool,
        run: impl FnOnce(&Engine, &State) -> tickstone_engine::Result<()>,
    ) -> Result<(), Failure> {
        let engine = self.engine()?;
        let (before, faults) = (engine.snapshot().position(), self.disk.counts().errors());
        let outcome = run(&engine, self.model.live());
        let visible = engine.snapshot().position() != before;
        let what = change.describe();
        match outcome {
            Ok(()) if must_refuse => return Err(format!("{what} was done, but is to be refused")),
            Ok(()) if self.stopped => return Err(format!("{what} was acknowledged after the tape stopped")),
            Ok(()) => {
                self.note(format!("{what} (sync {})", sync.name()));
                if let Change::Rows { tables, .. } = &change {
                    self.rows_committed += tables.iter().map(|(_, rows)| rows.len() as u64).sum::<u64>();
                }
                self.model.done(change, sync);
                if sync == SyncPolicy::Always {
                    self.model.all_stable();
                }
            }
            Err(error) if refused(&error) && !visible => self.note(format!("{what}: {error}")),
            Err(error) if !self.may_fail(&error, faults) => {
                return Err(format!("{what} failed without a fault: {error}"));
            }
            Err(error) => {
                self.note(format!("{what} failed: {error}"));
                let stopped = matches!(error, EngineError::TapeStopped { .. });
                if self.disk.is_dead() {
                    self.model.in_doubt(change);
                } else if visible {
                    self.model.done(change, sync);
                } else if stopped && !self.stopped {
                    self.model.in_doubt(change);
                }
                self.stopped |= stopped;
            }
        }
        Ok(())
    }

    /// Runs something that changes no data; gives whether it succeeded.
    ///
    /// # Errors
    /// Where it fails and no fault says why.
    pub(crate) fn upkeep(
        &mut self,
        what: &str,
        run: impl FnOnce(&Engine) -> tickstone_engine::Result<()>,
    ) -> Result<bool, Failure> {
        let faults = self.disk.counts().errors();
        let outcome = run(&self.engine()?);
        match outcome {
            Ok(()) => {
                self.note(what);
                Ok(true)
            }
            Err(error) if self.may_fail(&error, faults) => {
                self.note(format!("{what} failed: {error}"));
                self.stopped |= matches!(error, EngineError::TapeStopped { .. });
                Ok(false)
            }
            Err(error) => Err(format!("{what} failed without a fault: {error}")),
        }
    }

    /// Compares a snapshot with a state, whole, and by a random selection and the statistics of each table.
    ///
    /// # Errors
    /// Where it differs, or cannot be read though no fault was planted meanwhile.
    pub(crate) fn check(
        &self,
        snapshot: &Snapshot,
        state: &State,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let before = self.disk.counts().errors();
        let outcome = read_all(snapshot)
            .and_then(|found| compare(state, snapshot, &found).map_err(Trouble::Wrong))
            .and_then(|()| state.values().try_for_each(|model| check_table(snapshot, model, random)));
        match outcome {
            Ok(()) => Ok(()),
            Err(Trouble::Engine(_)) if self.disk.is_dead() || self.disk.counts().errors() > before => Ok(()),
            Err(Trouble::Engine(error)) => Err(format!("reading failed without a fault: {error}")),
            Err(Trouble::Wrong(what)) => Err(what),
        }
    }

    /// Checks what a snapshot taken now shows.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn check_live(&self, random: &mut Random) -> Result<(), Failure> {
        let snapshot = self.engine()?.snapshot();
        self.check(&snapshot, self.model.live(), random)
    }
}
