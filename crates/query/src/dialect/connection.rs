//! Statements that clients of the PostgreSQL port send around the others: transaction modes, cursors, DISCARD.

use super::cursor::{Cursor, Result, Tokens};
use super::{SqlError, Statement};
use sqlparser::tokenizer::Token;

/// [ISOLATION LEVEL …] [READ ONLY | READ WRITE] [[NOT] DEFERRABLE], with or without commas, to the end of the statement;
/// whether it says READ ONLY. Every level is read: a statement sees one committed state.
pub(super) fn modes(cursor: &mut Cursor<'_>) -> Result<Option<bool>> {
    let mut read_only = None;
    while !cursor.is_end() {
        if cursor.eat(&["READ", "ONLY"]) {
            read_only = Some(true);
        } else if cursor.eat(&["READ", "WRITE"]) {
            read_only = Some(false);
        } else if cursor.eat(&["ISOLATION", "LEVEL"]) {
            let levels: [&[&str]; 4] = [
                &["READ", "COMMITTED"],
                &["READ", "UNCOMMITTED"],
                &["REPEATABLE", "READ"],
                &["SERIALIZABLE"],
            ];
            if !levels.iter().any(|level| cursor.eat(level)) {
                return Err(cursor.expected("a level of isolation"));
            }
        } else if !cursor.eat(&["DEFERRABLE"]) && !cursor.eat(&["NOT", "DEFERRABLE"]) {
            return Err(cursor.expected("the end of the statement"));
        }
        cursor.eat_token(&Token::Comma);
    }
    Ok(read_only)
}

/// BEGIN [TRANSACTION | WORK] [modes], START TRANSACTION [modes].
pub(super) fn begin(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip(1);
    let _ = cursor.eat(&["TRANSACTION"]) || cursor.eat(&["WORK"]);
    Ok(Statement::Begin { read_only: modes(cursor)? })
}

/// DECLARE name [BINARY] [INSENSITIVE | ASENSITIVE] [[NO] SCROLL] CURSOR [{WITH | WITHOUT} HOLD] FOR query.
pub(super) fn declare(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DECLARE"])?;
    let name = cursor.folded_name("the name of a cursor")?;
    if cursor.words(&["SCROLL"]) || cursor.words(&["BINARY"]) {
        return Err(SqlError::new("a cursor is read once, forward, as text", cursor.position())
            .hint("write DECLARE name CURSOR FOR query"));
    }
    while cursor.eat(&["INSENSITIVE"]) || cursor.eat(&["ASENSITIVE"]) || cursor.eat(&["NO", "SCROLL"]) {}
    cursor.expect(&["CURSOR"])?;
    let hold = cursor.eat(&["WITH", "HOLD"]);
    cursor.eat(&["WITHOUT", "HOLD"]);
    cursor.expect(&["FOR"])?;
    let place = cursor.position();
    if cursor.is_end() {
        return Err(cursor.expected("a query"));
    }
    let tokens = Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() };
    match super::statement(&tokens, "")? {
        Statement::Query(query) => Ok(Statement::DeclareCursor { name, hold, query }),
        _ => Err(SqlError::new("a cursor reads a query", place)),
    }
}

/// FETCH [NEXT | [FORWARD] [count | ALL]] [FROM | IN] name, MOVE the same.
pub(super) fn fetch(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let moves = cursor.words(&["MOVE"]);
    cursor.skip(1);
    for word in ["PRIOR", "BACKWARD", "FIRST", "LAST", "ABSOLUTE", "RELATIVE"] {
        if cursor.words(&[word]) && cursor.ahead(1).is_some() {
            return Err(SqlError::new("a cursor is read once, forward", cursor.position())
                .hint("FETCH 100 FROM name reads the next 100 rows, FETCH ALL FROM name all there are"));
        }
    }
    let counted = cursor.ahead(1).is_some();
    let mut rows = Some(1);
    if counted && !cursor.eat(&["NEXT"]) {
        cursor.eat(&["FORWARD"]);
        if cursor.eat(&["ALL"]) {
            rows = None;
        } else if let Some(Token::Number(digits, false)) = cursor.peek() {
            let count = digits.to_string().parse();
            rows = Some(count.map_err(|_| cursor.expected("a number of rows"))?);
            cursor.skip(1);
        }
    }
    let _ = cursor.eat(&["FROM"]) || cursor.eat(&["IN"]);
    let name = cursor.folded_name("the name of a cursor")?;
    cursor.expect_end()?;
    Ok(Statement::Fetch { name, rows, moves })
}

/// CLOSE name, CLOSE ALL.
pub(super) fn close(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CLOSE"])?;
    let name = if cursor.eat(&["ALL"]) { None } else { Some(cursor.folded_name("the name of a cursor")?) };
    cursor.expect_end()?;
    Ok(Statement::CloseCursor { name })
}

/// DISCARD ALL.
pub(super) fn discard(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DISCARD"])?;
    if !cursor.eat(&["ALL"]) {
        return Err(cursor.expected("ALL"));
    }
    cursor.expect_end()?;
    Ok(Statement::Discard)
}

/// LISTEN table: its changes are notifications.
pub(super) fn listen(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["LISTEN"])?;
    let channel = cursor.folded_name("the name of a table")?;
    cursor.expect_end()?;
    Ok(Statement::Listen { channel })
}

/// UNLISTEN *, UNLISTEN table.
pub(super) fn unlisten(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["UNLISTEN"])?;
    let all = cursor.eat_token(&Token::Mul);
    let channel = if all { None } else { Some(cursor.folded_name("the name of a table, or *")?) };
    cursor.expect_end()?;
    Ok(Statement::Unlisten { channel })
}
