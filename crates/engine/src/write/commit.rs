//! A commit: the frame of a change, with every symbol given out since the table's last one.
//!
//! ```text
//! writers locked ─► begin ─► (what may be replaced stands still) ─► append ─► release ─► acknowledge
//! ```
//!
//! Transactions, loads and rewrites end this way; what they differ in is the change they tell the tape of, and its
//! effect on the snapshot.

use crate::core::Core;
use crate::core::catalog::TableWriter;
use crate::lock::lock;
use crate::store::snapshot::{Effect, Layout, TableDir};
use crate::tape::change::{Change, NewSymbols, encode_change};
use crate::tape::fate::{Fate, Ticket};
use crate::upkeep::maintenance::maintain;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use tickstone_model::SyncPolicy;

/// What a commit brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Its position in the tape; 0 for an empty one, which has none.
    pub position: u64,
    /// Rows in it.
    pub rows: u64,
}

/// A frame that is being put together; the tables' writers are locked.
pub(super) struct Commitment<'a> {
    core: &'a Core,
    fate: Arc<Fate>,
    /// Parts and runs that are to stay as they are until the effect is published.
    layouts: Vec<MutexGuard<'a, Layout>>,
    writers: Vec<MutexGuard<'a, TableWriter>>,
}

impl<'a> Commitment<'a> {
    /// Begins with the locked writers of the tables, in order of their numbers.
    pub(super) fn begin(core: &'a Core, writers: Vec<MutexGuard<'a, TableWriter>>) -> Self {
        Self { core, fate: core.tape.fate(), layouts: Vec::new(), writers }
    }

    pub(super) fn writers(&mut self) -> &mut [MutexGuard<'a, TableWriter>] {
        &mut self.writers
    }

    /// The symbols of the table at `place` that the tape does not know. Its change must bring them.
    pub(super) fn new_symbols(&mut self, place: usize) -> Vec<NewSymbols> {
        self.writers[place].new_symbols(&self.core.tape)
    }

    /// Lets the rows of commits on their way be seen, and keeps the runs and parts in these folders as they are until
    /// the change is published: it says by them which rows it replaces.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(super) fn hold_still(&mut self, dirs: impl IntoIterator<Item = &'a Arc<TableDir>>) -> Result<()> {
        let mut dirs = dirs.into_iter().peekable();
        if dirs.peek().is_some() {
            self.core.tape.publish_all()?;
            self.layouts.extend(dirs.map(|dir| lock(&dir.layout)));
        }
        Ok(())
    }

    /// Hands the change to the tape, where it has its place among all others from then on.
    ///
    /// # Errors
    /// [`EngineError::CommitTooLarge`], [`EngineError::TapeStopped`]: nothing is stored then.
    pub(super) fn append(&mut self, change: &Change, effect: Effect, policy: SyncPolicy) -> Result<Ticket> {
        let (kind, payload) = encode_change(change);
        let ticket = self.core.tape.append_after(&self.fate, kind, &payload, effect, policy)?;
        for (table, symbols) in change.symbols() {
            if let Some(writer) = self.writers.iter_mut().find(|writer| writer.table.id == table) {
                writer.logged(symbols, &ticket);
            }
        }
        Ok(ticket)
    }

    /// Lets go of the tables. What was to stay as it is does so until the change is published.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(super) fn release(self) -> Result<()> {
        if self.layouts.is_empty() { Ok(()) } else { self.core.tape.publish_all() }
    }
}

/// Waits for the acknowledgement of a commit to these tables, then does or requests what maintenance is due.
///
/// # Errors
/// [`EngineError::DiskFull`]: nothing is stored. [`EngineError::TapeStopped`]: reopen to know.
pub(super) fn acknowledge(core: &Core, ticket: &Ticket, tables: &[u32]) -> Result<()> {
    core.tape.wait(ticket)?;
    core.maintenance.touch(tables.iter().copied());
    core.compaction.touch(tables.iter().copied());
    if core.options.background {
        core.maintenance.worker.request();
    } else {
        maintain(core);
    }
    Ok(())
}

/// Files of parts that no frame names yet; what is left of them goes when this is dropped.
#[derive(Debug)]
pub(super) struct Unnamed {
    core: Arc<Core>,
    files: BTreeSet<PathBuf>,
}

impl Unnamed {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), files: BTreeSet::new() }
    }

    /// Notes a file, before it is written.
    pub(super) fn add(&mut self, path: PathBuf) {
        self.files.insert(path);
    }

    /// Removes a file that is not wanted any more.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(super) fn remove(&mut self, path: &PathBuf) -> Result<()> {
        self.core.disk.remove(path).map_err(EngineError::io("remove", path))?;
        self.files.remove(path);
        Ok(())
    }

    /// Makes the names of the files stable.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(super) fn sync_names(&self) -> Result<()> {
        let folders: BTreeSet<_> = self.files.iter().filter_map(|path| path.parent()).collect();
        let sync = |folder| self.core.disk.sync_dir(folder).map_err(EngineError::io("sync", folder));
        folders.into_iter().try_for_each(sync)
    }

    /// Waits for what becomes of the frame that names the files. From when the tape has it they stay, unless it says
    /// that it does not hold it.
    ///
    /// # Errors
    /// Those of `wait`.
    pub(super) fn named_if(&mut self, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        wait().inspect_err(|error| {
            if matches!(error, EngineError::DiskFull { .. }) {
                self.files = files;
            }
        })
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        for path in &self.files {
            let removed = [&path.with_extension("part.tmp"), path].map(|path| self.core.disk.remove(path));
            // What cannot be removed is an orphan, which the next start removes where no clean close tells it not to
            // look.
            if removed.iter().any(std::result::Result::is_err) {
                self.core.maintenance.unsure.store(true, Ordering::Relaxed);
            }
        }
    }
}
