//! PREPARE, EXECUTE and DEALLOCATE.

use super::cursor::{Cursor, Result, Tokens};
use super::{SqlError, Statement};
use sqlparser::tokenizer::Token;

/// PREPARE name [(types)] AS statement: what types the values have, the places where they stand say.
pub(super) fn prepare(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["PREPARE"])?;
    let name = cursor.folded_name("the name of a prepared statement")?;
    if cursor.eat_token(&Token::LParen) {
        cursor.skip(cursor.closing().unwrap_or(cursor.rest().len()));
        cursor.expect_token(&Token::RParen)?;
    }
    cursor.expect(&["AS"])?;
    let place = cursor.position();
    if cursor.is_end() {
        return Err(cursor.expected("a statement"));
    }
    let tokens = Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() };
    let statement = super::statement(&tokens, "")?;
    if statement.returns_rows() {
        let error = SqlError::new("PREPARE takes no RETURNING", place);
        return Err(error.hint("leave RETURNING out, or have the driver prepare the statement"));
    }
    match statement {
        statement @ (Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Change(_)
        | Statement::Merge(_)) => Ok(Statement::Prepare { name, statement: Box::new(statement) }),
        _ => Err(SqlError::new("PREPARE takes a query, an INSERT, an UPDATE, a DELETE or a MERGE", place)),
    }
}

/// EXECUTE name [(value, …)].
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["EXECUTE"])?;
    let name = cursor.folded_name("the name of a prepared statement")?;
    let mut values = Vec::new();
    if cursor.eat_token(&Token::LParen) && !cursor.eat_token(&Token::RParen) {
        values = cursor.list(Cursor::expression)?;
    }
    cursor.expect_end()?;
    Ok(Statement::Execute { name, values })
}

/// DEALLOCATE [PREPARE] name, or ALL.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DEALLOCATE"])?;
    cursor.eat(&["PREPARE"]);
    let name = if cursor.eat(&["ALL"]) {
        None
    } else {
        Some(cursor.folded_name("the name of a prepared statement")?)
    };
    cursor.expect_end()?;
    Ok(Statement::Deallocate { name })
}
