//! Columns in the conditions of grants, which stay what they are.

use crate::dialect::has_name;
use crate::error::{QueryError, Result};
use tickstone_engine::Snapshot;
use tickstone_model::{Column, Grant, TableSchema};

/// Refuses to take away or rename a column by which rows are granted, whoever sees the grant: the condition would be of
/// another column, or of none.
///
/// # Errors
/// Where a grant on the table of this number names it.
pub(crate) fn check_ungranted(full: &Snapshot, table: u32, column: &str) -> Result<()> {
    let Some(table) = full.table_by_id(table) else { return Ok(()) };
    let names = |grant: &Grant| grant.filter.as_ref().is_some_and(|filter| has_name(filter, column));
    if !table.schema().access().grants.iter().any(names) {
        return Ok(());
    }
    let what =
        format!("column '{column}' is in the condition of a grant on table '{}'", table.schema().name());
    Err(QueryError::request(what).hint("SHOW GRANTS lists them; REVOKE it first, and GRANT it anew"))
}

/// Refuses a table in the place of another that lacks columns by which rows of that one are granted, or has them in other
/// types.
///
/// # Errors
/// As [`check_ungranted`].
pub(crate) fn check_keeps_granted(full: &Snapshot, old: u32, new: &TableSchema) -> Result<()> {
    let Some(there) = full.table_by_id(old) else { return Ok(()) };
    let is_gone = |column: &&Column| !new.columns().contains(column);
    let gone = there.schema().columns().iter().filter(is_gone);
    gone.map(|column| column.name.as_str()).try_for_each(|name| check_ungranted(full, old, name))
}
