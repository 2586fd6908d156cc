//! Tables that are made to be filled, and put in their place in one step once they are whole; and tables of one session.
//!
//! Invariants:
//! - a table aside is known by the mark in its schema ([`TableSchema::is_aside`]), never by its name;
//! - its name is handed out here alone: nobody else can make a table of such a name, or rename one to it;
//! - it is dropped by its number, with its [`Aside`]; what a kill leaves of it is dropped by the next opening for writing.

use super::tables;
use crate::core::Core;
use crate::store::snapshot::ACCOUNTS;
use crate::{EngineError, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tickstone_model::{ModelError, TableSchema, is_same_name};

/// What the names of tables aside begin with, in any case; a number follows.
const BEGINNING: &str = "upload~";

/// A table beside those that all users see. Dropped with this handle, unless it was put in a place.
#[derive(Debug)]
pub struct Aside {
    core: Arc<Core>,
    name: String,
    table: OnceLock<u32>,
    is_placed: AtomicBool,
}

impl Aside {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        // Tables of earlier builds may have such names without the mark: they are their users'.
        let snapshot = core.publisher.snapshot();
        let name = loop {
            let name = format!("{BEGINNING}{}", NUMBER.fetch_add(1, Ordering::Relaxed));
            if snapshot.table(&name).is_none() {
                break name;
            }
        };
        Self { core, name, table: OnceLock::new(), is_placed: AtomicBool::new(false) }
    }

    /// The name that stands for the table until it is put in its place.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the table, of a schema whose own name does not matter; once.
    ///
    /// # Errors
    /// As [`crate::Engine::create_table`].
    pub fn create(&self, schema: &TableSchema) -> Result<()> {
        let id = tables::create_marked(&self.core, schema.put_aside(&self.name)?)?;
        // A second one of this name was refused.
        let _ = self.table.set(id);
        Ok(())
    }

    /// Gives the table a name that no other has, in one change: from then on all users see it, with all its rows.
    ///
    /// # Errors
    /// [`EngineError::TableExists`], [`EngineError::NoSuchTable`] where it was not made, and those of the tape. The table
    /// is still aside then.
    pub fn take_name(&self, name: &str) -> Result<()> {
        self.place(name, Some(None))
    }

    /// Takes the place of the table that has the name now, in one change; takes the name where none has it.
    ///
    /// # Errors
    /// [`EngineError::HasViews`], [`EngineError::Model`] where a view has the name, and as [`Self::take_name`].
    pub fn take_place(&self, name: &str) -> Result<()> {
        self.place(name, None)
    }

    /// The same of the table of this number alone: takes the name where no table has it any more, and where `of` is `None`.
    ///
    /// # Errors
    /// [`EngineError::TableGone`] where another table has the name by now, and as [`Self::take_place`].
    pub fn take_place_of(&self, of: Option<u32>, name: &str) -> Result<()> {
        match (of, self.place(name, Some(of))) {
            (Some(_), Err(EngineError::TableExists { name })) => Err(EngineError::TableGone { name }),
            (_, placed) => placed,
        }
    }

    /// The number of the table; `None` until it is made.
    pub fn table(&self) -> Option<u32> {
        self.table.get().copied()
    }

    fn place(&self, name: &str, of: Option<Option<u32>>) -> Result<()> {
        let missing = || EngineError::NoSuchTable { name: self.name.clone() };
        let id = *self.table.get().ok_or_else(missing)?;
        tables::put_in_place(&self.core, id, name, of)?;
        self.is_placed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let (Some(id), false) = (self.table.get(), self.is_placed.load(Ordering::Relaxed)) {
            // It may be dropped already. What cannot be dropped now goes with the next opening.
            let _ = tables::drop(&self.core, *id);
        }
    }
}

/// Where in a text the first name of a table aside stands.
pub fn aside_name_in(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let begins = |start: &usize| bytes[*start..].len() >= BEGINNING.len();
    (0..bytes.len()).take_while(begins).find_map(|start| {
        let digits = start + BEGINNING.len();
        let is_one = bytes[start..digits].eq_ignore_ascii_case(BEGINNING.as_bytes());
        let count = bytes[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (is_one && count > 0).then(|| start..digits + count)
    })
}

/// Refuses names that only tables aside can have, or what the database keeps for itself.
///
/// # Errors
/// [`ModelError::Name`].
pub(crate) fn check_is_users(name: &str) -> Result<()> {
    let reason = if is_same_name(name, ACCOUNTS) {
        "the database keeps users and grants under this name; take one without ~"
    } else if aside_name_in(name).is_some_and(|found| found == (0..name.len())) {
        "such names are those of tables that are being filled; take one without ~"
    } else {
        return Ok(());
    };
    Err(ModelError::Name { what: "table", name: name.to_string(), reason }.into())
}

/// Drops the tables that were aside when their process ended; their names.
///
/// # Errors
/// Those of the tape.
pub(crate) fn sweep(core: &Core) -> Result<Vec<String>> {
    let snapshot = core.publisher.snapshot();
    let left = snapshot.tables().filter(|table| table.schema().is_aside());
    left.map(|table| tables::drop(core, table.id).map(|()| table.schema().name().to_string())).collect()
}
