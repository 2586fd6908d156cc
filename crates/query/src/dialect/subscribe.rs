//! SUBSCRIBE and REPLAY.

use super::cursor::{Cursor, Result, span};
use super::statement::{Replay, Subscribe, SubscribeFrom};
use super::{SqlError, Statement, copy};
use sqlparser::tokenizer::Token;

/// SUBSCRIBE TO {t | (query)} [FROM NOW | FROM BEGINNING | AFTER position] [WITH (option = value, …)].
pub(super) fn subscribe(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["SUBSCRIBE"])?;
    cursor.eat(&["TO"]);
    let position = cursor.position();
    let query = if cursor.eat_token(&Token::LParen) {
        copy::bracketed_query(cursor)?
    } else {
        let name = cursor.table_name()?;
        query_of(&format!("SELECT * FROM {}", quoted(&name)), position)?
    };
    let from = if cursor.eat(&["FROM", "BEGINNING"]) {
        SubscribeFrom::Beginning
    } else if cursor.eat(&["AFTER"]) {
        SubscribeFrom::After(cursor.scalar()?)
    } else if cursor.eat(&["FROM", "NOW"]) || !cursor.words(&["FROM"]) {
        SubscribeFrom::Now
    } else {
        return Err(cursor.expected("FROM NOW, FROM BEGINNING or AFTER position"));
    };
    let options = match cursor.eat(&["WITH"]) {
        true if cursor.eat_token(&Token::LParen) => cursor.list(copy::bracketed_option)?,
        true => return Err(cursor.expected("'(' and the options")),
        false => Vec::new(),
    };
    cursor.expect_end()?;
    if matches!(query.body.as_ref(), sqlparser::ast::SetExpr::Values(_)) {
        return Err(SqlError::new("a subscription is of a table", position));
    }
    Ok(Statement::Subscribe(Box::new(Subscribe { query, from, options, position })))
}

/// REPLAY {t, … | (query)} [FROM 'instant'] [TO 'instant'] [SPEED {n | nx | MAX}].
pub(super) fn replay(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["REPLAY"])?;
    let position = cursor.position();
    let query = if cursor.eat_token(&Token::LParen) {
        copy::bracketed_query(cursor)?
    } else {
        let mut names = vec![cursor.table_name()?];
        while cursor.eat_token(&Token::Comma) {
            names.push(cursor.table_name()?);
        }
        let selects: Vec<String> = match names.as_slice() {
            [name] => vec![format!("SELECT * FROM {}", quoted(name))],
            names => names
                .iter()
                .map(|name| {
                    format!("SELECT '{}' AS \"_table\", * FROM {}", name.replace('\'', "''"), quoted(name))
                })
                .collect(),
        };
        query_of(&selects.join(" UNION ALL BY NAME "), position)?
    };
    let mut bound = |word: &str| match cursor.eat(&[word]) {
        true => cursor.scalar().map(Some),
        false => Ok(None),
    };
    let (from, to) = (bound("FROM")?, bound("TO")?);
    let speed = match cursor.eat(&["SPEED"]) {
        false => Some(1.0),
        true => {
            let place = cursor.position();
            let text = cursor.scalar()?;
            cursor.eat(&["x"]);
            match text.to_lowercase().as_str() {
                "max" => None,
                text => {
                    let speed = text.trim_end_matches('x').parse::<f64>().ok();
                    let speed = speed.filter(|speed| speed.is_finite() && *speed > 0.0);
                    let wrong = || SqlError::new("SPEED is a number above 0, as in 10x, or MAX", place);
                    Some(speed.ok_or_else(wrong)?)
                }
            }
        }
    };
    cursor.expect_end()?;
    Ok(Statement::Replay(Box::new(Replay { query, from, to, speed, position })))
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The query of a text that stands for something at a position: what is wrong in it is wrong there.
pub(super) fn query_of(text: &str, position: super::Position) -> Result<Box<sqlparser::ast::Query>> {
    let mut tokens = super::cursor::statements(text)?
        .pop()
        .ok_or_else(|| SqlError::new("expected the name of a table", position))?;
    tokens.tokens.iter_mut().for_each(|token| token.span = span(position));
    super::parse_query(&tokens)
}
