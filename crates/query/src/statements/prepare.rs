//! Prepared statements: a statement with placeholders, by a name that the session knows.

use crate::dialect::Statement;
use crate::error::{QueryError, Result, SqlState};
use crate::session::{Outcome, Session};

/// Most prepared statements of a session.
const PREPARED_MAX: usize = 1_000;

pub(super) fn prepare(session: &mut Session, name: String, statement: Statement) -> Result<Outcome> {
    let prepared = &mut session.prepared.0;
    if prepared.contains_key(&name) {
        let message = format!("there is a prepared statement {name} already");
        let error = QueryError::request(message).state(SqlState::DuplicateStatement);
        return Err(error.hint(format!("DEALLOCATE {name} forgets it")));
    }
    if prepared.len() >= PREPARED_MAX {
        let message = format!("a session has at most {PREPARED_MAX} prepared statements");
        return Err(QueryError::request(message).hint("DEALLOCATE forgets one, DEALLOCATE ALL all of them"));
    }
    prepared.insert(name, statement);
    Ok(Outcome::done("PREPARE"))
}

pub(super) fn deallocate(session: &mut Session, name: Option<&str>) -> Result<Outcome> {
    match name {
        Some(name) => {
            session.prepared.get(name)?;
            session.prepared.0.remove(name);
        }
        None => session.prepared.0.clear(),
    }
    Ok(Outcome::done("DEALLOCATE"))
}
