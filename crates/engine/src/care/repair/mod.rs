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
use crate::care::check::survey::{Survey, TableTrouble};
use crate::care::check::{BringsBack, CheckOptions, Progress, Report};
use crate::disk::Disk;
use crate::paths::{ACCOUNTS_DUE_FILE, ACCOUNTS_FILE, BACKUP_FILE, BACKUP_TEXT, table_dir};
use crate::store::switch::{self, Switch};
use crate::tape::segment::epoch_of;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a repair may do.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepairOptions {
    /// Whether tables are rebuilt where that brings rows back that a DELETE or UPDATE had removed or changed; else
    /// they are left as they are, and the database stays damaged. Default false.
    pub bring_back: bool,
}

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
    /// Tables that were rebuilt with rows from before a DELETE or UPDATE.
    pub brought_back: Vec<BringsBack>,
    /// Tables that are left as damaged as they were, since that would bring such rows back.
    pub left: Vec<BringsBack>,
    /// Whether anything was changed.
    pub changed: bool,
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for left in &self.left {
            writeln!(f, "table '{}' is left damaged: {}", left.table, left.sentence(false))?;
        }
        if !self.changed {
            return write!(f, "nothing to repair{}", if self.left.is_empty() { "" } else { " beside that" });
        }
        for back in &self.brought_back {
            writeln!(f, "{}", back.sentence(true))?;
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

/// Repairs a database that nobody has open; a whole one stays as it is, and so do tables whose deleted rows would
/// come back, unless the options ask for it.
///
/// # Errors
/// [`crate::EngineError::Io`], [`crate::EngineError::NewerFormat`]: the database is then as it was, or
/// repaired once it is opened.
pub fn repair(
    disk: &Arc<dyn Disk>,
    options: &RepairOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Repaired> {
    if !switch::is_broken(disk.as_ref()) {
        switch::finish(disk.as_ref())?;
    }
    let mut survey = Survey::take(disk, &CheckOptions::default(), progress)?;
    let mut done = Repaired { found: survey.report.clone(), ..Repaired::default() };
    let bring_back = survey.tables.values().filter_map(|trouble| trouble.brings_back.clone()).collect();
    let mut left = BTreeSet::new();
    if options.bring_back {
        done.brought_back = bring_back;
    } else {
        done.left = bring_back;
        left = leave(&mut survey);
    }
    let is_clean = survey.report.is_clean() || !done.left.is_empty();
    if is_clean && survey.has_no_trouble() {
        return Ok(done);
    }
    Job { disk: disk.as_ref(), survey: &survey, left: &left, done }.run()
}

/// Takes out of a survey what concerns the tables that are left as they are; their numbers.
fn leave(survey: &mut Survey) -> BTreeSet<u32> {
    let of_table = |(id, trouble): (&u32, &TableTrouble)| trouble.brings_back.is_some().then_some(*id);
    let left: BTreeSet<u32> = survey.tables.iter().filter_map(of_table).collect();
    survey.tables.retain(|id, _| !left.contains(id));
    survey.strays.retain(|stray| !left.iter().any(|id| stray.starts_with(table_dir(*id))));
    left
}

/// A repair under way.
struct Job<'a> {
    disk: &'a dyn Disk,
    survey: &'a Survey,
    /// Tables that are left as they are.
    left: &'a BTreeSet<u32>,
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
        // A table that is rebuilt, or a frame that is lost, may say less of who may do what.
        if let Ok(text) = self.disk.read(Path::new(ACCOUNTS_FILE)) {
            switch.stage(self.disk, Path::new(ACCOUNTS_DUE_FILE), &text)?;
        }
        for stray in &self.survey.strays {
            switch.remove(stray.clone());
        }
        switch.commit(self.disk)?;
        self.done.changed = true;
        Ok(self.done)
    }

    /// The epoch of what the repair writes: nothing before it has or had it.
    fn epoch(&self) -> u64 {
        epoch_of(self.survey.last_position) + 1
    }
}
