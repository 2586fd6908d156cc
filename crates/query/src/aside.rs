//! Tables that take another's place once they are whole: CREATE OR REPLACE TABLE, and uploads that replace a table.
//!
//! The rows go into a table beside it, which is dropped where they cannot be stored. What a kill leaves of such tables
//! goes when the database is opened.

use std::sync::atomic::{AtomicU64, Ordering};
use tickstone_engine::{Engine, EngineError};
use tickstone_model::AlterTable;

/// What the names of such tables begin with; a number follows.
const BEGINNING: &str = "upload~";

/// A table beside the one whose place it is to take.
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

    /// Its name until then.
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

/// Drops the tables that were to take another's place when their process ended; gives their names.
///
/// # Errors
/// Those of dropping a table.
pub(crate) fn sweep(engine: &Engine) -> Result<Vec<String>, EngineError> {
    if engine.is_read_only() {
        return Ok(Vec::new());
    }
    let is_left = |name: &str| {
        let number = name.strip_prefix(BEGINNING);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let snapshot = engine.snapshot();
    let names = snapshot.tables().map(|table| table.schema().name()).filter(|name| is_left(name));
    let dropped = names.map(|name| engine.drop_table(name).map(|()| name.to_string()));
    dropped.collect()
}
