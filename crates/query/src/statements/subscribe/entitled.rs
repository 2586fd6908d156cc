//! Whether a subscription's user may still read what it was begun with: it does not end by itself, rights do.

use crate::access::standing::Standing;
use crate::entrance::Access;
use crate::error::{QueryError, Result, SqlState};
use crate::session::Session;
use std::sync::Arc;
use tickstone_engine::{Engine, TableSnapshot};
use tickstone_model::TableSchema;

/// What the rights of a subscription were when it began.
pub(super) struct Entitled {
    access: Access,
    standing: Option<Arc<Standing>>,
    table: u32,
    schema: Arc<TableSchema>,
}

impl Entitled {
    pub(super) fn of(session: &Session, table: &TableSnapshot) -> Result<Self> {
        let access = session.access();
        let standing = access.standing(&session.full_snapshot())?;
        Ok(Self { access, standing, table: table.id(), schema: Arc::clone(table.schema()) })
    }

    /// Checks that its rights are what they were.
    ///
    /// # Errors
    /// Where the user was dropped, or what they may do with the table has changed.
    pub(super) fn check(&mut self, engine: &Engine) -> Result<()> {
        let snapshot = engine.snapshot();
        let standing = self.access.standing(&snapshot)?;
        let is_kept = match (&self.standing, &standing) {
            (None, None) => return Ok(()),
            (Some(before), Some(now)) => Arc::ptr_eq(before, now) || before == now,
            _ => false,
        };
        // A table that was dropped is told of where its rows are.
        let now = snapshot.table_by_id(self.table).map_or(&self.schema, |table| table.schema());
        if is_kept && (Arc::ptr_eq(&self.schema, now) || self.schema.access() == now.access()) {
            (self.standing, self.schema) = (standing, Arc::clone(now));
            return Ok(());
        }
        let what = format!(
            "the rights of '{}' to {} were changed",
            self.access.user().unwrap_or_default(),
            now.name()
        );
        Err(QueryError::request(what)
            .state(SqlState::Denied)
            .hint("subscribe again: what may be read is found anew"))
    }
}
