//! CREATE, ALTER and DROP STREAM.

use super::cursor::{Cursor, Result};
use super::{Statement, copy};
use sqlparser::tokenizer::Token;

/// CREATE STREAM [IF NOT EXISTS] s [WITH (option = value, …)].
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CREATE", "STREAM"])?;
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    let name = name(cursor)?;
    let options = if cursor.eat(&["WITH"]) { options(cursor)? } else { Vec::new() };
    cursor.expect_end()?;
    Ok(Statement::CreateStream { name, if_not_exists, options })
}

/// ALTER STREAM s SET (option = value, …).
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["ALTER", "STREAM"])?;
    let name = name(cursor)?;
    cursor.expect(&["SET"])?;
    let options = options(cursor)?;
    cursor.expect_end()?;
    Ok(Statement::AlterStream { name, options })
}

/// DROP STREAM [IF EXISTS] s, ….
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP", "STREAM"])?;
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let mut names = vec![name(cursor)?];
    while cursor.eat_token(&Token::Comma) {
        names.push(name(cursor)?);
    }
    cursor.expect_end()?;
    Ok(Statement::DropStream { names, if_exists })
}

fn name(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.name("the name of a stream")
}

fn options(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>> {
    cursor.expect_token(&Token::LParen)?;
    cursor.list(copy::bracketed_option)
}
