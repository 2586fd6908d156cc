//! PREPARE, EXECUTE and DEALLOCATE.

use super::cursor::{Cursor, Result, Tokens};
use super::{SqlError, Statement};
use sqlparser::tokenizer::Token;

/// PREPARE name [(types)] AS statement: what types the values have, the places where they stand say.
pub(super) fn prepare(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["PREPARE"])?;
    let name = name(cursor)?;
    if cursor.eat_token(&Token::LParen) {
        let mut open = 1;
        while open > 0 {
            match cursor.peek() {
                Some(Token::LParen) => open += 1,
                Some(Token::RParen) => open -= 1,
                Some(_) => {}
                None => return Err(cursor.expected("')'")),
            }
            cursor.skip(1);
        }
    }
    cursor.expect(&["AS"])?;
    let place = cursor.position();
    if cursor.is_end() {
        return Err(cursor.expected("a statement"));
    }
    let tokens = Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() };
    match super::statement(&tokens, "")? {
        statement @ (Statement::Query(_) | Statement::Insert(_) | Statement::Change(_)) => {
            Ok(Statement::Prepare { name, statement: Box::new(statement) })
        }
        _ => Err(SqlError::new("PREPARE takes a query, an INSERT, an UPDATE or a DELETE", place)),
    }
}

/// EXECUTE name [(value, …)].
pub(super) fn execute(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["EXECUTE"])?;
    let name = name(cursor)?;
    let mut values = Vec::new();
    if cursor.eat_token(&Token::LParen) && !cursor.eat_token(&Token::RParen) {
        loop {
            values.push(cursor.expression()?);
            if cursor.eat_token(&Token::RParen) {
                break;
            }
            cursor.expect_token(&Token::Comma)?;
        }
    }
    cursor.expect_end()?;
    Ok(Statement::Execute { name, values })
}

/// DEALLOCATE [PREPARE] name, or ALL.
pub(super) fn deallocate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DEALLOCATE"])?;
    cursor.eat(&["PREPARE"]);
    let name = if cursor.eat(&["ALL"]) { None } else { Some(name(cursor)?) };
    cursor.expect_end()?;
    Ok(Statement::Deallocate { name })
}

fn name(cursor: &mut Cursor<'_>) -> Result<String> {
    let quoted = !matches!(cursor.peek(), Some(Token::Word(word)) if word.quote_style.is_none());
    let name = cursor.name("the name of a prepared statement")?;
    Ok(if quoted { name } else { name.to_lowercase() })
}
