//! Tools that carry out a statement of the assistant's own.

use super::rows::Grid;
use super::{Call, Limits, Told, statements};
use serde_json::{Map, Value, json};
use tickstone_query::QueryError;

/// Rows of `query`, unless it says.
const ROWS: usize = 100;

/// `query`.
pub(super) async fn query(call: &Call<'_>) -> Result<Told, QueryError> {
    let rows = call.arguments.count("limit").unwrap_or(ROWS).min(call.limits.rows);
    let limits = Limits { rows, ..call.limits };
    let grid = statements::rows(call, call.arguments.text("sql").unwrap_or_default(), limits).await?;
    let data = grid.data();
    let text = match call.arguments.text("format") {
        Some("json") => data.to_string(),
        _ => format!("{}\n{}", grid.text(), grid.note()),
    };
    Ok(Told { text, data })
}

/// `explain`.
pub(super) async fn explain(call: &Call<'_>) -> Result<Told, QueryError> {
    let sql = call.arguments.text("sql").unwrap_or_default();
    let kind = statements::reading(call.shared, sql)?.kind();
    if kind != "SELECT" {
        return Err(QueryError::request(format!("{kind} has no plan: explain takes a query")));
    }
    let before = if call.arguments.is_on("analyze") { "EXPLAIN ANALYZE " } else { "EXPLAIN " };
    // A plan is not cut to a length of values; the answer is.
    let limits = Limits { cell_chars: call.limits.bytes, ..call.limits };
    let grid = statements::rows(call, &format!("{before}{sql}"), limits).await;
    let grid = grid.map_err(|error| without(error, before.len() as u64))?;
    let plan = steps(grid);
    let text = plan.iter().map(|(name, step)| format!("{name}:\n{}\n", step.as_str().unwrap_or_default()));
    Ok(Told { text: text.collect::<Vec<_>>().join("\n"), data: json!({ "plan": plan }) })
}

/// The plans by their names.
fn steps(grid: Grid) -> Map<String, Value> {
    let step = |row: Vec<Value>| match <[Value; 2]>::try_from(row) {
        Ok([Value::String(name), plan]) => Some((name, plan)),
        _ => None,
    };
    grid.rows.into_iter().filter_map(step).collect()
}

/// An error in the places of a text that something was put before.
fn without(mut error: QueryError, before: u64) -> QueryError {
    if let Some(position) = error.position.as_mut().filter(|position| position.line <= 1) {
        position.column = position.column.saturating_sub(before).max(1);
    }
    error
}
