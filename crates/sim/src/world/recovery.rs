//! The ends of a process, and what must be there when the database is opened again.

use super::copies::{check_clean, check_crashed, check_names};
use super::holds;
use super::{Failure, World};
use crate::Random;
use crate::faulty_disk::{FaultRates, FaultyDisk, Kept};
use crate::shape::State;
use crate::table::{Trouble, compare, read_all, same_tables};
use std::path::PathBuf;
use tickstone_engine::Engine;
use tickstone_engine::disk::Disk;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As a user ends it.
    Close,
    /// At once; the operating system lives on and keeps what was written.
    Kill,
    /// With the power.
    PowerCut,
}

/// Tries of an opening that faults make fail, before they are called off.
const FAULTY_OPENS_MAX: usize = 4;

impl World {
    /// Ends the process, opens the database again and checks what is there.
    ///
    /// # Errors
    /// Where it cannot be opened, or holds what it may not.
    pub(crate) fn end(&mut self, end: End, random: &mut Random) -> Result<(), Failure> {
        self.note(format!("-- {end:?}"));
        if end == End::Close {
            self.let_go();
        }
        let closed = end == End::Close;
        // The power may be gone already, or go while the database is closed.
        let end = if self.disk.is_dead() { End::PowerCut } else { end };
        let clean = end == End::Close && !self.is_troubled();
        let mut killed = end != End::PowerCut;
        let dead = match end {
            End::Close | End::Kill => self.disk.kill(),
            End::PowerCut => {
                let fork = self.disk.fork(random.next_u64());
                self.check_image(&fork, random)?;
                let kept = Kept::some(random);
                self.note(format!("   kept: {kept:?}"));
                self.disk.power_cut(kept)
            }
        };
        self.let_go();
        self.disk = dead;
        self.disk.cut_power_after(None);
        if clean {
            self.model.all_stable();
            check_clean(&self.disk.fork(0), self.may_have_leftovers || self.disk.counts().names > 0)?;
        } else if random.one_in(3) {
            check_crashed(&self.disk.fork(0))?;
        }
        let engine = self.open_again(&mut killed, random)?;
        self.may_have_leftovers = closed && (self.may_have_leftovers || !killed);
        let snapshot = engine.snapshot();
        let found = self.find_state(&snapshot, killed)?;
        let lost = self.model.tail().len();
        self.model.found(found);
        self.note(format!("   opened, {lost} changes were not sure"));
        self.check(&snapshot, self.model.live(), random)?;
        self.check_hold()?;
        self.engine = Some(engine);
        self.stopped = false;
        self.clock_back = false;
        self.faults_before = self.disk.counts().errors();
        self.disk.set_bytes_max(None);
        self.disk.set_rates(self.settings.rates);
        if clean && random.one_in(3) {
            self.check_damage(random)?;
        }
        Ok(())
    }

    /// Lets go of everything that holds the engine or its files.
    fn let_go(&mut self) {
        self.readers.clear();
        self.writers.clear();
        self.loaders.clear();
        self.follower = None;
        self.engine = None;
    }

    /// Opens the database; now and then the disk fails, or the power goes, meanwhile.
    fn open_again(&mut self, killed: &mut bool, random: &mut Random) -> Result<Engine, Failure> {
        for attempt in 0.. {
            let faulty = attempt < FAULTY_OPENS_MAX && random.one_in(2);
            self.disk.set_rates(if faulty { self.settings.rates } else { FaultRates::default() });
            self.disk.set_bytes_max(None);
            if faulty && random.one_in(2) {
                self.disk.cut_power_after(Some(random.below(30)));
            }
            let before = self.disk.counts().errors();
            let outcome = self.open(&self.disk);
            self.disk.cut_power_after(None);
            match outcome {
                Ok(engine) if !self.disk.is_dead() => {
                    self.disk.set_rates(FaultRates::default());
                    return Ok(engine);
                }
                Ok(engine) => drop(engine),
                Err(error) => {
                    self.note(format!("   opening failed: {error}"));
                    if !self.disk.is_dead() && self.disk.counts().errors() == before {
                        return Err(format!("cannot be opened: {error}"));
                    }
                }
            }
            if self.disk.is_dead() {
                *killed = false;
                let kept = Kept::some(random);
                self.note(format!("   power cut while opening, kept: {kept:?}"));
                self.disk = self.disk.power_cut(kept);
            } else {
                self.disk = self.disk.kill();
            }
        }
        Err("the simulator ran out of tries".to_string())
    }

    /// The state a snapshot shows, which must be one of those that may be found.
    pub(super) fn find_state(
        &self,
        snapshot: &tickstone_engine::Snapshot,
        killed: bool,
    ) -> Result<State, Failure> {
        let found = read_all(snapshot).map_err(|trouble| match trouble {
            Trouble::Engine(error) => format!("after opening, reading fails: {error}"),
            Trouble::Wrong(what) => what,
        })?;
        let counts: Vec<usize> = found.iter().map(Vec::len).collect();
        let mut reason = None;
        let mut expected = Vec::new();
        for (done, state) in self.model.candidates(killed) {
            let rows: Vec<(&String, usize)> =
                state.iter().map(|(name, table)| (name, table.rows.len())).collect();
            let alike = same_tables(snapshot, &state)
                && rows.iter().map(|(_, rows)| *rows).eq(counts.iter().copied());
            if alike {
                match compare(&state, snapshot, &found) {
                    Ok(()) => return Ok(state),
                    Err(what) => reason = Some(what),
                }
            }
            expected.push(format!("{done} of the tail: {rows:?}"));
        }
        let tables: Vec<_> = snapshot.tables().map(|table| (table.schema().name(), table.rows())).collect();
        let reason =
            reason.unwrap_or_else(|| "no state that may be there has these tables and rows".to_string());
        Err(format!("found {tables:?}: {reason}; {}", expected.join("; ")))
    }

    /// Opens another image of the same power cut.
    fn check_image(&mut self, fork: &FaultyDisk, random: &mut Random) -> Result<(), Failure> {
        let kept = Kept::some(random);
        let disk = fork.power_cut(kept);
        let engine =
            self.open(&disk).map_err(|error| format!("image ({kept:?}): cannot be opened: {error}"))?;
        self.find_state(&engine.snapshot(), false)
            .map(|_| ())
            .map_err(|what| format!("image ({kept:?}): {what}"))
    }

    /// Flips a bit of a file at rest, after a clean close: an error, or all is as it was.
    fn check_damage(&mut self, random: &mut Random) -> Result<(), Failure> {
        let at_rest = self.disk.fork(random.next_u64()).kill();
        drop(self.open(&at_rest).map_err(|error| format!("a copy cannot be opened: {error}"))?);
        let at_rest = at_rest.kill();
        let files = at_rest.files();
        self.check_missing_tape(&at_rest, &files)?;
        // A hold is looked at by itself.
        let files: Vec<_> = files
            .into_iter()
            .filter(|(path, bytes)| *bytes > 0 && !path.starts_with(holds::FOLDER))
            .collect();
        for _ in 0..3 {
            let (path, bytes) = &files[random.below(files.len() as u64) as usize];
            let (at, mask) = (random.below(*bytes as u64) as usize, 1 << random.below(8));
            let damaged = at_rest.fork(random.next_u64());
            damaged.flip(path, at, mask);
            check_names(&damaged, path)?;
            let Ok(engine) = self.open(&damaged) else { continue };
            let snapshot = engine.snapshot();
            let Ok(found) = read_all(&snapshot) else { continue };
            compare(self.model.live(), &snapshot, &found).map_err(|what| {
                format!("byte {at} of {} flipped by {mask:#x} gives: {what}", path.display())
            })?;
        }
        Ok(())
    }

    /// Removes a segment of the tape, whichever: a check names it, and nothing opens.
    fn check_missing_tape(&self, at_rest: &FaultyDisk, files: &[(PathBuf, usize)]) -> Result<(), Failure> {
        // Chance of its own, so that seeds keep their meaning.
        let mut random = Random::new(at_rest.hash());
        let tape: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("tape")).collect();
        if tape.is_empty() {
            return Ok(());
        }
        let (path, _) = tape[random.below(tape.len() as u64) as usize];
        let damaged = at_rest.fork(random.next_u64());
        damaged.remove(path).map_err(|error| error.to_string())?;
        check_names(&damaged, path)?;
        match self.open(&damaged) {
            Ok(_) => Err(format!("opens without {}", path.display())),
            Err(_) => Ok(()),
        }
    }
}
