//! `tickstone check --repair`: keeps all that can be read, puts the rest aside.
//!
//! ```text
//! survey (check) -> copies into damaged/<n>/ (aside) -> whole rows of damaged parts into new parts (parts)
//!        -> whole frames into new segments (tape, streams), manifests and symbol files anew (tables) -> one switch
//! ```
//!
//! Invariants:
//! - nothing is changed or removed before it was copied to `damaged/`, and the copies are synced;
//! - everything happens at once, with the switch: a repair cut short anywhere has either done nothing or
//!   is finished by the next opening or repair;
//! - what it writes is written and named as the engine itself would, so that `check` finds nothing after it.
//!
//! Enter at [`repair`].

pub(crate) mod aside;
mod parts;
mod streams;
mod tables;
mod tape;

use crate::Result;
use crate::care::check::survey::Survey;
use crate::care::check::{CheckOptions, Progress, Report};
use crate::disk::Disk;
use crate::paths::{BACKUP_FILE, BACKUP_TEXT};
use crate::store::switch::{self, Switch};
use crate::tape::segment::epoch_of;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was found: with what each finding loses.
    pub found: Report,
    /// The folder with what was taken out, relative to the database directory; `None` where nothing was.
    pub aside: Option<PathBuf>,
    /// Files in it.
    pub files_aside: Vec<PathBuf>,
    /// Parts that were written anew with the rows that are whole.
    pub parts_rewritten: u64,
    /// Rows in them.
    pub rows_kept: u64,
    /// Rows of damaged or missing parts that are lost.
    pub rows_lost: u64,
    /// Tape positions that are lost, first and last: commits of rows, or other changes.
    pub positions_lost: Vec<(u64, u64)>,
    /// Tables whose manifest and symbol files were written anew, by name.
    pub tables_rewritten: Vec<String>,
    /// Streams whose own file, and damaged files of their logs, were written anew, by name.
    pub streams_rewritten: Vec<String>,
    /// Documents that are lost: the stream's name, the number of the first and, where that is known, of the last.
    pub documents_lost: Vec<(String, u64, Option<u64>)>,
    /// Whether anything was changed.
    pub changed: bool,
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.changed {
            return write!(f, "nothing to repair");
        }
        if self.parts_rewritten > 0 {
            writeln!(f, "{} parts written anew with {} rows", self.parts_rewritten, self.rows_kept)?;
        }
        for name in &self.tables_rewritten {
            writeln!(f, "manifest and symbols of table '{name}' written anew")?;
        }
        for (first, last) in &self.positions_lost {
            writeln!(f, "lost from the tape: positions {first:#x} to {last:#x}")?;
        }
        for name in &self.streams_rewritten {
            writeln!(f, "files of stream '{name}' written anew")?;
        }
        for (name, first, last) in &self.documents_lost {
            match last {
                Some(last) => writeln!(f, "lost from stream '{name}': documents {first} to {last}")?,
                None => writeln!(f, "lost from stream '{name}': documents from number {first} on")?,
            }
        }
        if let Some(aside) = &self.aside {
            writeln!(f, "{} files put aside in {}", self.files_aside.len(), aside.display())?;
        }
        write!(f, "{} rows of parts lost", self.rows_lost)
    }
}

/// Repairs a database that nobody has open; a whole one stays as it is.
///
/// # Errors
/// [`crate::EngineError::Io`], [`crate::EngineError::NewerFormat`]: the database is then as it was, or
/// repaired once it is opened.
pub fn repair(disk: &Arc<dyn Disk>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Repaired> {
    if !switch::is_broken(disk.as_ref()) {
        switch::finish(disk.as_ref())?;
    }
    let survey = Survey::take(disk, &CheckOptions::default(), progress)?;
    if survey.report.is_clean() && survey.tables.is_empty() {
        return Ok(Repaired { found: survey.report, ..Repaired::default() });
    }
    Job { disk: disk.as_ref(), survey: &survey, done: Repaired::default() }.run()
}

/// A repair under way.
struct Job<'a> {
    disk: &'a dyn Disk,
    survey: &'a Survey,
    done: Repaired,
}

impl Job<'_> {
    fn run(mut self) -> Result<Repaired> {
        self.put_aside()?;
        let mut switch = Switch::begin(self.disk)?;
        self.mend_tables(&mut switch)?;
        self.mend_tape(&mut switch)?;
        self.mend_streams(&mut switch)?;
        if self.survey.marker_is_damaged {
            switch.stage(self.disk, Path::new(BACKUP_FILE), BACKUP_TEXT)?;
        }
        for stray in &self.survey.strays {
            switch.remove(stray.clone());
        }
        switch.commit(self.disk)?;
        self.done.found = self.survey.report.clone();
        self.done.changed = true;
        Ok(self.done)
    }

    /// The epoch of what the repair writes: nothing before it has or had it.
    fn epoch(&self) -> u64 {
        epoch_of(self.survey.last_position) + 1
    }
}
