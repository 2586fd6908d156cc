//! CANCEL QUERY.

use super::cursor::{Cursor, Result};
use super::{SqlError, Statement};
use sqlparser::tokenizer::Token;

/// CANCEL QUERY id.
pub(super) fn cancel(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CANCEL", "QUERY"])?;
    let position = cursor.position();
    let id = match cursor.peek() {
        Some(Token::Number(digits, false)) => digits.to_string().parse().ok(),
        _ => None,
    };
    let Some(id) = id else {
        let error = SqlError::new("CANCEL QUERY takes the number of a query", position);
        return Err(error.hint("SHOW QUERIES lists what runs; CANCEL QUERY 7"));
    };
    cursor.skip(1);
    cursor.expect_end()?;
    Ok(Statement::CancelQuery { id })
}
