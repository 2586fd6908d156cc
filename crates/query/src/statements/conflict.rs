//! INSERT that replaces rows: OR REPLACE, REPLACE INTO, ON CONFLICT DO UPDATE.
//!
//! A table with DEDUP UPSERT KEYS keeps the last row of each key. So what these say is what happens, where the keys are
//! the table's and every other column gets the value of the new row; all else is refused.

use crate::error::{QueryError, Result};
use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, Ident, Insert, ObjectName, OnConflictAction,
    OnInsert, SqliteOnConflict,
};
use tickstone_model::TableSchema;

/// Refuses an INSERT that says of rows with a known key what the table does not do.
///
/// # Errors
/// Where it names other keys than those of the table, or another change than that all columns get new values.
pub(super) fn check(insert: &Insert, schema: &TableSchema) -> Result<()> {
    let clause = match (&insert.on, &insert.or) {
        (Some(_), _) => "ON CONFLICT",
        (None, Some(SqliteOnConflict::Replace)) => "INSERT OR REPLACE",
        _ if insert.replace_into => "REPLACE INTO",
        _ => return Ok(()),
    };
    if schema.dedup().is_empty() {
        let message =
            format!("{clause} needs a table with DEDUP UPSERT KEYS, and '{}' has none", schema.name());
        return Err(QueryError::request(message).hint(
            "CREATE TABLE … TIMESTAMP(ts) … DEDUP UPSERT KEYS (ts, symbol); or write UPDATE, then INSERT",
        ));
    }
    let Some(OnInsert::OnConflict(on)) = &insert.on else { return Ok(()) };
    if let Some(ConflictTarget::Columns(named)) = &on.conflict_target {
        check_keys(named, schema)?;
    }
    match &on.action {
        OnConflictAction::DoUpdate(update) => check_update(&update.assignments, schema),
        OnConflictAction::DoNothing => Err(QueryError::not_supported("ON CONFLICT DO NOTHING")),
    }
}

fn keys(schema: &TableSchema) -> Vec<&str> {
    schema.dedup().iter().map(|index| schema.columns()[*index].name.as_str()).collect()
}

fn check_keys(named: &[Ident], schema: &TableSchema) -> Result<()> {
    let keys = keys(schema);
    let is_key = |ident: &Ident| keys.iter().any(|key| key.eq_ignore_ascii_case(&ident.value));
    let is_named = |key: &&str| named.iter().any(|ident| ident.value.eq_ignore_ascii_case(key));
    if named.iter().all(is_key) && keys.iter().all(is_named) {
        return Ok(());
    }
    let message = format!("ON CONFLICT names other columns than DEDUP UPSERT KEYS of '{}'", schema.name());
    Err(QueryError::request(message).hint(format!("write ON CONFLICT ({})", keys.join(", "))))
}

/// `SET column = excluded.column` for every column that is no key.
fn check_update(assignments: &[Assignment], schema: &TableSchema) -> Result<()> {
    let mut assigned = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let column = match &assignment.target {
            AssignmentTarget::ColumnName(name) => last(name),
            AssignmentTarget::Tuple(_) => None,
        };
        let column = column.and_then(|name| schema.column_index(name));
        match (column, excluded(&assignment.value).and_then(|name| schema.column_index(name))) {
            (Some(column), Some(value)) if column == value => assigned.push(column),
            _ => {
                let message = format!("DO UPDATE SET {assignment} is not supported");
                return Err(QueryError::request(message)
                    .hint("a row replaces the one of its key whole: SET column = excluded.column, …; or write UPDATE"));
            }
        }
    }
    let left = (0..schema.columns().len())
        .find(|column| !schema.dedup().contains(column) && !assigned.contains(column));
    match left {
        None => Ok(()),
        Some(column) => {
            let name = &schema.columns()[column].name;
            let message =
                format!("DO UPDATE SET leaves out '{name}', and a row replaces the one of its key whole");
            Err(QueryError::request(message).hint(format!("add {name} = excluded.{name}, or write UPDATE")))
        }
    }
}

fn last(name: &ObjectName) -> Option<&str> {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.as_str())
}

/// The column in `excluded.column`.
fn excluded(value: &Expr) -> Option<&str> {
    match value {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, column] if table.value.eq_ignore_ascii_case("excluded") => Some(&column.value),
            _ => None,
        },
        _ => None,
    }
}
