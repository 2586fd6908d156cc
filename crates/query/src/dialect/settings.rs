//! SET and RESET.

use super::cursor::{Cursor, Result};
use super::{Statement, connection};
use sqlparser::tokenizer::Token;

/// SET name = value, SET name TO value, SET TIME ZONE 'zone'.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["SET"])?;
    let session = cursor.eat(&["SESSION", "CHARACTERISTICS", "AS"]);
    if cursor.eat(&["TRANSACTION"]) {
        let read_only = connection::modes(cursor)?;
        return Ok(Statement::SetTransaction { read_only, session });
    }
    if cursor.words(&["SESSION"]) || cursor.words(&["LOCAL"]) {
        cursor.skip(1);
    }
    if cursor.eat(&["NAMES"]) {
        let value = cursor.scalar()?;
        cursor.expect_end()?;
        return Ok(Statement::Set { name: "client_encoding".to_string(), value });
    }
    let name = if cursor.eat(&["TIME", "ZONE"]) {
        "timezone".to_string()
    } else {
        let name = setting(cursor)?;
        if !cursor.eat_token(&Token::Eq) && !cursor.eat(&["TO"]) {
            return Err(cursor.expected("'=' and a value"));
        }
        name
    };
    let mut value = cursor.scalar()?;
    while cursor.eat_token(&Token::Comma) {
        value = format!("{value}, {}", cursor.scalar()?);
    }
    cursor.expect_end()?;
    Ok(Statement::Set { name, value })
}

/// RESET name, RESET ALL.
pub(super) fn reset(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["RESET"])?;
    let name = if cursor.eat(&["ALL"]) {
        None
    } else if cursor.eat(&["SESSION", "AUTHORIZATION"]) {
        Some("session_authorization".to_string())
    } else {
        Some(setting(cursor)?)
    };
    cursor.expect_end()?;
    Ok(Statement::Reset { name })
}

/// The name of a setting, which may have several parts, in lower case.
fn setting(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut name = cursor.name("the name of a setting")?.to_lowercase();
    while cursor.eat_token(&Token::Period) {
        name = format!("{name}.{}", cursor.name("the name of a setting")?.to_lowercase());
    }
    Ok(name)
}
