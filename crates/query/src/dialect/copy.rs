//! COPY.

use super::cursor::{Cursor, Result, Tokens};
use super::{CopyEnd, CopySource, SqlError, Statement};
use sqlparser::tokenizer::Token;

/// COPY t [(columns)] FROM 'file' …, COPY t [(columns)] TO 'file' …, COPY (SELECT …) TO 'file' …; STDIN and STDOUT in the
/// place of a file are the client's.
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["COPY"])?;
    if cursor.eat_token(&Token::LParen) {
        let source = CopySource::Query(bracketed_query(cursor)?);
        cursor.expect(&["TO"])?;
        let end = copy_end(cursor, "STDOUT")?;
        return Ok(Statement::CopyTo { source, options: options(cursor, &end)?, end });
    }
    let name = cursor.table_name()?;
    let columns = match cursor.peek() {
        Some(Token::LParen) => cursor.names("the name of a column")?,
        _ => Vec::new(),
    };
    if cursor.eat(&["FROM"]) {
        let end = copy_end(cursor, "STDIN")?;
        return Ok(Statement::CopyFrom { table: name, columns, options: options(cursor, &end)?, end });
    }
    if !cursor.eat(&["TO"]) {
        return Err(cursor.expected("FROM 'file' or TO 'file'"));
    }
    let end = copy_end(cursor, "STDOUT")?;
    let source = CopySource::Table { name, columns };
    Ok(Statement::CopyTo { source, options: options(cursor, &end)?, end })
}

fn copy_end(cursor: &mut Cursor<'_>, client: &str) -> Result<CopyEnd> {
    if cursor.eat(&[client]) {
        return Ok(CopyEnd::Client);
    }
    Ok(CopyEnd::File(cursor.text("the path of a file")?))
}

/// The query up to the closing bracket, which is taken too.
pub(super) fn bracketed_query(cursor: &mut Cursor<'_>) -> Result<Box<sqlparser::ast::Query>> {
    let Some(length) = cursor.closing() else {
        return Err(SqlError::new("a bracket is not closed", cursor.end()));
    };
    let tokens = cursor.rest()[..length].to_vec();
    cursor.skip(length);
    let query = super::parse_query(&Tokens { tokens, end: cursor.position() })?;
    cursor.skip(1);
    Ok(query)
}

/// [STORED AS format] [[WITH | OPTIONS] (name [=] value, …)], names in lower case; at the client's end also PostgreSQL's
/// older [WITH] [BINARY] [CSV] [HEADER] [DELIMITER [AS] 'x'] [NULL [AS] 'x'] [QUOTE [AS] 'x'] [ESCAPE [AS] 'x'].
fn options(cursor: &mut Cursor<'_>, end: &CopyEnd) -> Result<Vec<(String, String)>> {
    let mut options = Vec::new();
    if cursor.eat(&["STORED", "AS"]) {
        options.push(("format".to_string(), cursor.scalar()?.to_lowercase()));
    }
    let announced = cursor.eat(&["WITH"]) || cursor.eat(&["OPTIONS"]);
    if cursor.eat_token(&Token::LParen) {
        options.extend(cursor.list(bracketed_options)?.into_iter().flatten());
    } else if *end == CopyEnd::Client {
        while let Some(option) = bare_option(cursor)? {
            options.push(option);
        }
    } else if announced {
        return Err(cursor.expected("'(' and the options"));
    }
    cursor.expect_end()?;
    Ok(options)
}

/// `name`, `name value`, `name = value`; a name may have several parts.
pub(super) fn bracketed_option(cursor: &mut Cursor<'_>) -> Result<(String, String)> {
    let mut name = cursor.scalar()?.to_lowercase();
    while cursor.eat_token(&Token::Period) {
        name = format!("{name}.{}", cursor.scalar()?.to_lowercase());
    }
    cursor.eat_token(&Token::Eq);
    let value = match cursor.peek() {
        Some(Token::Comma | Token::RParen) => "true".to_string(),
        _ => cursor.scalar()?,
    };
    Ok((name, value))
}

/// As [`bracketed_option`], and `name (value, …)`, which is one option a value.
fn bracketed_options(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>> {
    let is_list = match cursor.ahead(1) {
        Some(Token::LParen) => 1,
        Some(Token::Eq) if cursor.ahead(2) == Some(&Token::LParen) => 2,
        _ => return Ok(vec![bracketed_option(cursor)?]),
    };
    let name = cursor.scalar()?.to_lowercase();
    cursor.skip(is_list);
    let values = cursor.list(Cursor::scalar)?;
    Ok(values.into_iter().map(|value| (name.clone(), value)).collect())
}

fn bare_option(cursor: &mut Cursor<'_>) -> Result<Option<(String, String)>> {
    for format in ["binary", "csv"] {
        if cursor.eat(&[format]) {
            return Ok(Some(("format".to_string(), format.to_string())));
        }
    }
    if cursor.eat(&["HEADER"]) {
        return Ok(Some(("header".to_string(), "true".to_string())));
    }
    for name in ["delimiter", "null", "quote", "escape", "encoding"] {
        if cursor.eat(&[name]) {
            cursor.eat(&["AS"]);
            return Ok(Some((name.to_string(), cursor.scalar()?)));
        }
    }
    Ok(None)
}
