//! LATEST ON and LATEST BY: the last row of each key.

use super::{Clause, Cursor, Position, Result};
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

/// LATEST ON ts PARTITION BY keys, LATEST BY keys.
#[derive(Debug, Clone)]
pub(in crate::dialect) struct LatestClause {
    pub(crate) position: Position,
    pub(crate) timestamp: Option<Expr>,
    pub(crate) keys: Vec<Expr>,
}

/// Whether the clause begins here. A table may be called latest, so the whole of `LATEST ON path PARTITION BY` is
/// looked for.
pub(super) fn begins(cursor: &Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    if !ahead.eat(&["LATEST", "ON"]) {
        return ahead.words(&["LATEST", "BY"]);
    }
    while ahead.name("a column").is_ok() {
        if !ahead.eat_token(&Token::Period) {
            return ahead.words(&["PARTITION", "BY"]);
        }
    }
    false
}

pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Clause> {
    let position = cursor.position();
    cursor.expect(&["LATEST"])?;
    let timestamp = if cursor.eat(&["BY"]) {
        None
    } else {
        cursor.expect(&["ON"])?;
        let timestamp = cursor.expression()?;
        cursor.expect(&["PARTITION", "BY"])?;
        Some(timestamp)
    };
    let mut keys = vec![cursor.expression()?];
    while cursor.eat_token(&Token::Comma) {
        keys.push(cursor.expression()?);
    }
    Ok(Clause::Latest(LatestClause { position, timestamp, keys }))
}
