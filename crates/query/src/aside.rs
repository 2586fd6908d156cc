//! Tables that are not everybody's: those that take another's place once they are whole (CREATE OR REPLACE TABLE, uploads
//! that replace a table), and those of one session (CREATE TEMP TABLE).
//!
//! Each goes when its [`Aside`] does, where it took no other's place. No list shows them. What a kill leaves of them goes
//! when the database is opened.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tickstone_engine::{Engine, EngineError, Snapshot, TableSnapshot};
use tickstone_model::AlterTable;

/// What the names of such tables begin with; a number follows.
const BEGINNING: &str = "upload~";

/// A table beside those that all sessions see.
#[derive(Debug)]
pub struct Aside {
    engine: Engine,
    name: String,
}

impl Aside {
    /// A name that no table has.
    pub fn new(engine: &Engine) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let name = format!("{BEGINNING}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { engine: engine.clone(), name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the place of a table, in one change; of one that was dropped meanwhile its name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] where no row made this one, and those of the tape.
    pub fn take_place(self, table: &str) -> Result<(), EngineError> {
        match self.engine.replace_table(table, &self.name) {
            Err(EngineError::NoSuchTable { name }) if name != self.name => {
                self.engine.alter_table(&self.name, &AlterTable::RenameTable(table.to_string()))
            }
            taken => taken,
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // One that took its place, or was never made, has this name no more. One that cannot be dropped now goes when
        // the database is opened again.
        if self.engine.snapshot().table(&self.name).is_some() {
            let _ = self.engine.drop_table(&self.name);
        }
    }
}

/// Whether a name is that of a table that is not everybody's.
pub(crate) fn is_aside(name: &str) -> bool {
    numbered(name).is_some_and(|found| found == (0..name.len()))
}

/// The tables and views of a snapshot that are everybody's, by name: those that lists show.
pub fn listed(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<TableSnapshot>> {
    snapshot.tables().filter(|table| !is_aside(table.schema().name()))
}

/// The first such name within a text.
pub(crate) fn numbered(text: &str) -> Option<Range<usize>> {
    text.match_indices(BEGINNING).find_map(|(start, _)| {
        let digits = text[start + BEGINNING.len()..].bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then(|| start..start + BEGINNING.len() + digits)
    })
}

/// Drops the tables that were not everybody's when their process ended; gives their names.
///
/// # Errors
/// Those of dropping a table.
pub(crate) fn sweep(engine: &Engine) -> Result<Vec<String>, EngineError> {
    if engine.is_read_only() {
        return Ok(Vec::new());
    }
    let snapshot = engine.snapshot();
    let names = snapshot.tables().map(|table| table.schema().name()).filter(|name| is_aside(name));
    let dropped = names.map(|name| engine.drop_table(name).map(|()| name.to_string()));
    dropped.collect()
}
