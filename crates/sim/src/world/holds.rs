//! Holds: a folder that shows one state, copied file by file in any order while everything else goes on.

use super::copies::shared;
use super::{Failure, World};
use crate::Random;
use crate::faulty_disk::{FaultRates, FaultyDisk};
use crate::shape::State;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::Engine;
use tickstone_engine::check::{CheckOptions, check};
use tickstone_engine::disk::Disk;

/// The folder of a hold.
pub(super) const FOLDER: &str = "hold";

/// Most files that are copied in one step.
const FILES_MAX: u64 = 6;

/// A hold that is there, or may be.
#[derive(Debug)]
pub(super) struct Hold {
    /// What it may show: one state, where the engine has said that it was made.
    states: Vec<State>,
    /// Whether it must be there.
    sure: bool,
    /// Files copied so far.
    copied: BTreeMap<PathBuf, Vec<u8>>,
}

impl World {
    /// Makes a hold, copies some more files of the one there is, or checks the copy and releases it.
    pub(super) fn hold(&mut self, random: &mut Random) -> Result<(), Failure> {
        if !self.is_held() {
            return self.make_hold();
        }
        let mut left = self.files_left();
        for _ in 0..1 + random.below(FILES_MAX) {
            if left.is_empty() {
                break;
            }
            let path = left.swap_remove(random.below(left.len() as u64) as usize);
            self.copy_file(path)?;
        }
        if !left.is_empty() || self.disk.is_dead() {
            return Ok(());
        }
        self.check_copy(random)?;
        if random.one_in(3) { Ok(()) } else { self.release() }
    }

    fn make_hold(&mut self) -> Result<(), Failure> {
        let earlier = self.hold.take().map(|hold| hold.states).unwrap_or_default();
        let live = self.model.live().clone();
        let made = self.upkeep("hold", |engine| engine.hold().map(|_| ()))?;
        let states = if made { vec![live] } else { earlier.into_iter().chain([live]).collect() };
        if made {
            self.model.all_stable();
        }
        self.hold = Some(Hold { states, sure: made, copied: BTreeMap::new() });
        Ok(())
    }

    fn release(&mut self) -> Result<(), Failure> {
        let released = self.upkeep("release", Engine::release)?;
        if released {
            self.hold = None;
        } else if let Some(hold) = &mut self.hold {
            hold.sure = false;
        }
        Ok(())
    }

    /// Whether the disk has a whole hold.
    fn is_held(&self) -> bool {
        let files = self.disk.files();
        let has = |name: &str| files.iter().any(|(path, _)| *path == Path::new(FOLDER).join(name));
        has("BACKUP") && !has("SWITCH")
    }

    /// Files of the hold that were not copied yet.
    fn files_left(&self) -> Vec<PathBuf> {
        let copied = |path: &PathBuf| self.hold.as_ref().is_some_and(|hold| hold.copied.contains_key(path));
        let files = self.disk.files().into_iter().map(|(path, _)| path);
        files.filter(|path| path.starts_with(FOLDER) && !copied(path)).collect()
    }

    fn copy_file(&mut self, path: PathBuf) -> Result<(), Failure> {
        self.disk.set_rates(FaultRates::default());
        let bytes = self.disk.read(&path);
        self.disk.set_rates(self.settings.rates);
        match (bytes, &mut self.hold) {
            (Ok(bytes), Some(hold)) => {
                hold.copied.insert(path, bytes.to_vec());
            }
            (Ok(_), None) => return Err("a hold is there that nobody has made".to_string()),
            (Err(_), _) if self.disk.is_dead() => {}
            (Err(error), _) => return Err(format!("{} of a hold: {error}", path.display())),
        }
        Ok(())
    }

    /// The copy opens, shows what was held and has no damage.
    fn check_copy(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(hold) = &mut self.hold else { return Ok(()) };
        let copy = FaultyDisk::new(random.next_u64(), Arc::clone(&self.clock));
        let files = std::mem::take(&mut hold.copied);
        let states = hold.states.clone();
        let count = files.len();
        files
            .into_iter()
            .try_for_each(|(path, bytes)| write(&copy, &path, &bytes))
            .map_err(|e| e.to_string())?;
        let report = check(&shared(&copy.fork(0)), &CheckOptions::default(), &mut |_| {})
            .map_err(|error| format!("a copy of a hold cannot be checked: {error}"))?;
        if report.damaged {
            return Err(format!("a copy of a hold: {report}"));
        }
        let state = self.one_of(&copy, states).map_err(|what| format!("a copy of a hold: {what}"))?;
        if let Some(hold) = &mut self.hold {
            hold.states = vec![state];
        }
        self.note(format!("a copy of a hold, {count} files"));
        Ok(())
    }

    /// After an opening: a hold that was made is there, and none that was not.
    pub(super) fn check_hold(&mut self) -> Result<(), Failure> {
        match (&self.hold, self.is_held()) {
            (None, true) => Err("a hold is there that nobody has made, or that was released".to_string()),
            (Some(hold), false) if hold.sure => Err("a hold is gone".to_string()),
            (Some(_), false) => {
                // What was cut short an opening removes.
                self.hold = None;
                Ok(())
            }
            (None, false) | (Some(_), true) => Ok(()),
        }
    }
}

fn write(disk: &FaultyDisk, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = path.strip_prefix(FOLDER).unwrap_or(path);
    let mut file = disk.create(path)?;
    file.append(bytes)?;
    file.sync()?;
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
}
