//! Actions that look at the database from outside: backups, read-only openings, checks.

use super::{Failure, World};
use crate::Random;
use crate::faulty_disk::{FaultRates, FaultyDisk, Kept};
use crate::shape::State;
use crate::table::{Trouble, compare, read_all};
use std::path::Path;
use std::sync::Arc;
use tickstone_engine::backup::restore;
use tickstone_engine::check::{CheckOptions, Finding, Report, Severity, check};
use tickstone_engine::disk::Disk;
use tickstone_engine::{Engine, EngineError, Snapshot};

/// Calls of the backup's disk within which its power goes, where it does.
const BACKUP_CALLS: u64 = 80;

/// A second disk, and the state of the last backup that was made onto it.
#[derive(Debug)]
pub(super) struct Backup {
    disk: FaultyDisk,
    state: Option<State>,
}

pub(super) fn shared(disk: &FaultyDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

impl World {
    /// Brings the backup to the present state, restores it elsewhere and compares; now and then the power of the
    /// backup's disk goes meanwhile.
    pub(super) fn back_up(&mut self, random: &mut Random) -> Result<(), Failure> {
        let earlier = self.backup.take().filter(|_| !random.one_in(6));
        let Backup { disk, state } = earlier.unwrap_or_else(|| Backup {
            disk: FaultyDisk::new(random.next_u64(), Arc::clone(&self.clock)),
            state: None,
        });
        let cut = random.one_in(3).then(|| random.below(BACKUP_CALLS));
        disk.cut_power_after(cut);
        let to = shared(&disk);
        let before = self.disk.counts().errors();
        let outcome = self.engine()?.backup(&to, &mut |_| {});
        drop(to);
        let live = self.model.live().clone();
        let (disk, candidates) = match outcome {
            Ok(summary) => {
                self.note(format!("backup of {} parts, {} copied", summary.parts, summary.parts_copied));
                self.model.all_stable();
                (disk, vec![live])
            }
            Err(error) => {
                self.note(format!("backup failed: {error}"));
                self.stopped |= matches!(error, EngineError::TapeStopped { .. });
                if !self.may_fail(&error, before) && !disk.is_dead() {
                    return Err(format!("the backup failed without a fault: {error}"));
                }
                let disk = if disk.is_dead() { disk.power_cut(Kept::some(random)) } else { disk };
                // Once it was switched to, what fails is removing what it does not need.
                let Some(earlier) = state else {
                    self.backup = Some(Backup { disk, state: None });
                    return Ok(());
                };
                (disk, vec![earlier, live])
            }
        };
        disk.cut_power_after(None);
        let state = Some(self.restored(&disk, candidates, random)?);
        self.backup = Some(Backup { disk, state });
        Ok(())
    }

    /// The one of some states that a backup gives when it is restored.
    fn restored(&self, from: &FaultyDisk, states: Vec<State>, random: &mut Random) -> Result<State, Failure> {
        let to = FaultyDisk::new(random.next_u64(), Arc::clone(&self.clock));
        restore(&shared(from), &shared(&to), &mut |_| {}).map_err(|error| format!("restoring: {error}"))?;
        self.one_of(&to, states).map_err(|what| format!("a restored backup: {what}"))
    }

    /// The one of some states that a database on another disk shows when it is opened.
    pub(super) fn one_of(&self, disk: &FaultyDisk, states: Vec<State>) -> Result<State, Failure> {
        let engine = self.open(disk).map_err(|error| error.to_string())?;
        let snapshot = engine.snapshot();
        let found = read_all(&snapshot).map_err(|trouble| match trouble {
            Trouble::Engine(error) => format!("it cannot be read: {error}"),
            Trouble::Wrong(what) => what,
        })?;
        let mut reasons = Vec::new();
        for state in states {
            match compare(&state, &snapshot, &found) {
                Ok(()) => return Ok(state),
                Err(what) => reasons.push(what),
            }
        }
        Err(reasons.join("; "))
    }

    /// Other processes look at the database: one that opens it now, and one that has had it open for long. Both see
    /// all that was written.
    pub(super) fn read_only(&mut self) -> Result<(), Failure> {
        self.disk.set_rates(FaultRates::default());
        let opened = Engine::open_read_only_on(shared(&self.disk), self.settings.options.clone());
        let outcome = match opened {
            Ok(engine) => {
                let looked = self.look_beside(&engine);
                let follower = self.follower.take().unwrap_or(engine);
                let followed = self.look_beside(&follower).map_err(|what| format!("long ago: {what}"));
                self.follower = Some(follower);
                looked.and(followed)
            }
            Err(error) => Err(error.to_string()),
        };
        if self.disk.is_dead() {
            return Ok(());
        }
        self.disk.set_rates(self.settings.rates);
        self.note("read-only opening");
        outcome.map_err(|what| format!("opened read-only: {what}"))
    }

    /// Checks what an engine that was opened for reading sees now.
    fn look_beside(&self, engine: &Engine) -> Result<(), Failure> {
        let read = |snapshot: &Snapshot| match read_all(snapshot) {
            Err(Trouble::Engine(error)) => Err(error),
            _ => Ok(()),
        };
        engine.read(read).map_err(|error| error.to_string())?;
        self.find_state(&engine.snapshot(), true).map(|_| ())
    }
}

fn report(disk: &FaultyDisk) -> Result<Report, Failure> {
    check(&shared(disk), &CheckOptions::default(), &mut |_| {})
        .map_err(|error| format!("cannot be checked: {error}"))
}

/// Whatever a crash leaves, a check finds no damage in it.
pub(super) fn check_crashed(disk: &FaultyDisk) -> Result<(), Failure> {
    let report = report(disk)?;
    if report.damaged { Err(format!("a check after a crash: {report}")) } else { Ok(()) }
}

/// After a clean end a check finds nothing; but files that could not be removed, where there `may_be` some.
pub(super) fn check_clean(disk: &FaultyDisk, may_be: bool) -> Result<(), Failure> {
    let report = report(disk)?;
    // A file that could not be removed stays until an opening after a crash.
    let left = |finding: &Finding| may_be && finding.severity == Severity::Leftover;
    if report.findings.iter().all(left) {
        Ok(())
    } else {
        Err(format!("a check after a clean end: {report}"))
    }
}

/// A check names the file that was damaged.
pub(super) fn check_names(disk: &FaultyDisk, path: &Path) -> Result<(), Failure> {
    let report = report(disk)?;
    // On a symbol file a manifest that may not have been saved yet relies.
    let small = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("symbols-"));
    // Parts that left by a frame of the tape stay until the next manifest.
    let is_part = path.extension().is_some_and(|name| name == "part");
    let named =
        report.findings.iter().any(|finding| finding.path == path) && (report.damaged || small || is_part);
    if named { Ok(()) } else { Err(format!("a check does not name {}: {report}", path.display())) }
}
