//! Tables that take another's place once they are whole: uploads that replace a table.
//!
//! The rows go into a table beside it, which is dropped where they cannot be stored. What a kill leaves of such tables
//! goes when the server starts.

use std::sync::atomic::{AtomicU64, Ordering};
use tickstone_engine::{Engine, EngineError};
use tickstone_model::AlterTable;
use tracing::warn;

/// What the names of such tables begin with; a number follows.
const BEGINNING: &str = "upload~";

/// A table beside the one whose place it is to take.
#[derive(Debug)]
pub(crate) struct Aside<'a> {
    engine: &'a Engine,
    name: String,
}

impl<'a> Aside<'a> {
    /// A name that no table has.
    pub(crate) fn new(engine: &'a Engine) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let name = format!("{BEGINNING}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { engine, name }
    }

    /// Its name until then.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the place of a table, in one change; of one that was dropped meanwhile its name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] where no row made this one, and those of the tape.
    pub(crate) fn take_place(self, table: &str) -> Result<(), EngineError> {
        match self.engine.replace_table(table, &self.name) {
            Err(EngineError::NoSuchTable { name }) if name != self.name => {
                self.engine.alter_table(&self.name, &AlterTable::RenameTable(table.to_string()))
            }
            taken => taken,
        }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // One that took its place, or was never made, has this name no more.
        if self.engine.snapshot().table(&self.name).is_some()
            && let Err(error) = self.engine.drop_table(&self.name)
        {
            warn!(table = self.name, %error, "what came of an upload could not be dropped");
        }
    }
}

/// Drops the tables of uploads that ended with an earlier process.
pub(crate) fn sweep(engine: &Engine) {
    if engine.is_read_only() {
        return;
    }
    let is_left = |name: &str| {
        let number = name.strip_prefix(BEGINNING);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let snapshot = engine.snapshot();
    let names = snapshot.tables().map(|table| table.schema().name()).filter(|name| is_left(name));
    for name in names {
        match engine.drop_table(name) {
            Ok(()) => warn!(table = name, "an upload was cut short: its rows are dropped"),
            Err(error) => warn!(table = name, %error, "what came of an upload could not be dropped"),
        }
    }
}
