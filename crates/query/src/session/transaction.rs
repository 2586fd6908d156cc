//! The transaction that is open: rows that wait for COMMIT, and what is asked of their user then.

use crate::error::Result;
use crate::{Access, Reached};
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::BTreeMap;
use tickstone_engine::Transaction;
use tickstone_model::Rights;

/// Rows that wait for COMMIT. Dropped without it, they are gone.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) waiting: Transaction,
    /// What they hold of the user's limit of memory, where there is one.
    pub(crate) held: Option<MemoryReservation>,
    /// By the number of a table.
    targets: BTreeMap<u32, Target>,
}

/// A table that rows wait for.
#[derive(Debug)]
struct Target {
    table: Reached,
    rights: Rights,
    /// How many of its rows came without a statement that the audit log is told of.
    appended: u64,
}

impl OpenTransaction {
    pub(crate) fn new(waiting: Transaction) -> Self {
        Self { waiting, held: None, targets: BTreeMap::new() }
    }

    /// Notes that rows wait for a table, which take these rights at COMMIT too; `appended` of them came without a
    /// statement.
    pub(crate) fn goes_into(&mut self, table: &Reached, rights: Rights, appended: u64) {
        let target = self.targets.entry(table.id).or_insert_with(|| Target {
            table: table.clone(),
            rights: Rights::NONE,
            appended: 0,
        });
        target.rights |= rights;
        target.appended += appended;
    }

    /// Checks that its user may still store the rows.
    ///
    /// # Errors
    /// Where a right was revoked since, a table dropped, or the user.
    pub(crate) fn check(&self, access: &Access) -> Result<()> {
        self.targets.values().try_for_each(|target| access.still_may(target.rights, &target.table))
    }

    /// The tables that rows came for without a statement, and how many.
    pub(crate) fn appended(&self) -> Vec<(String, u64)> {
        let appended = self.targets.values().filter(|target| target.appended > 0);
        appended.map(|target| (target.table.schema.name().to_string(), target.appended)).collect()
    }
}
