//! Statements of an assistant: one at a time, and only such as read.

use super::rows::{Grid, grid};
use super::{Call, Limits};
use crate::shared::Shared;
use crate::statement::{self, Answer};
use tickstone_query::dialect::Statement;
use tickstone_query::{Parameters, QueryError};

/// The rows of a statement, as many as fit.
///
/// # Errors
/// Where it is not one statement, would change something, or fails.
pub(super) async fn rows(call: &Call<'_>, sql: &str, limits: Limits) -> Result<Grid, QueryError> {
    reading(call.shared, sql)?;
    match statement::run(call.shared, call.access, sql, &Parameters::None).await? {
        Answer::Rows(rows) => grid(rows, limits).await,
        Answer::Done { tag, .. } => Err(refused(&tag)),
    }
}

/// The rows of a statement that the assistant did not write: an error has no place in it.
///
/// # Errors
/// As [`rows`].
pub(super) async fn own_rows(call: &Call<'_>, sql: &str, limits: Limits) -> Result<Grid, QueryError> {
    rows(call, sql, limits).await.map_err(|mut error| {
        error.position = None;
        error
    })
}

/// The one statement of a text.
///
/// # Errors
/// Where there are none or several, and where it would change something.
pub(super) fn reading(shared: &Shared, sql: &str) -> Result<Statement, QueryError> {
    let (_, statement) = statement::one(shared.database.parse_with_texts(sql)?)?;
    if statement.only_reads() && !matches!(statement.kind(), "SUBSCRIBE" | "REPLAY") {
        Ok(statement)
    } else {
        Err(refused(statement.kind()))
    }
}

fn refused(kind: &str) -> QueryError {
    let error = QueryError::request(format!("{kind} is not carried out here: only statements that read are"));
    error.hint("SELECT, WITH, VALUES, SHOW, DESCRIBE and EXPLAIN read; changes are made by a person, in another program")
}

/// A name as SQL reads it back, whatever stands in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
