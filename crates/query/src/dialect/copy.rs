//! COPY, SET, SHOW and CANCEL.

use super::cursor::{Cursor, Result, Tokens};
use super::{CopyEnd, CopySource, SqlError, Statement, connection};
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
fn bracketed_query(cursor: &mut Cursor<'_>) -> Result<Box<sqlparser::ast::Query>> {
    let mut depth = 0_usize;
    let length = cursor.rest().iter().position(|token| match token.token {
        Token::RParen if depth == 0 => true,
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen => {
            depth -= 1;
            false
        }
        _ => false,
    });
    let Some(length) = length else {
        return Err(SqlError::new("the bracket after COPY is not closed", cursor.end()));
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
        loop {
            let mut name = cursor.scalar()?.to_lowercase();
            while cursor.eat_token(&Token::Period) {
                name = format!("{name}.{}", cursor.scalar()?.to_lowercase());
            }
            cursor.eat_token(&Token::Eq);
            let value = match cursor.peek() {
                Some(Token::Comma | Token::RParen) => "true".to_string(),
                _ => cursor.scalar()?,
            };
            options.push((name, value));
            if cursor.eat_token(&Token::RParen) {
                break;
            }
            cursor.expect_token(&Token::Comma)?;
        }
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
        let mut name = cursor.name("the name of a setting")?.to_lowercase();
        while cursor.eat_token(&Token::Period) {
            name = format!("{name}.{}", cursor.name("the name of a setting")?.to_lowercase());
        }
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

/// SHOW TABLES, SHOW COLUMNS FROM t; `None` for other SHOWs.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Option<Statement>> {
    cursor.expect(&["SHOW"])?;
    if cursor.eat(&["TABLES"]) {
        cursor.expect_end()?;
        return Ok(Some(Statement::ShowTables));
    }
    if cursor.words(&["TABLE"]) {
        return Err(SqlError::new("there is no SHOW TABLE", cursor.position())
            .hint("SHOW TABLES lists the tables, SHOW COLUMNS FROM t the columns of one"));
    }
    if cursor.eat(&["VIEWS"]) {
        cursor.expect_end()?;
        return Ok(Some(Statement::ShowViews));
    }
    for (word, statement) in [
        ("QUERIES", Statement::ShowQueries),
        ("METRICS", Statement::ShowMetrics),
        ("CONFIG", Statement::ShowConfig),
    ] {
        if cursor.eat(&[word]) {
            cursor.expect_end()?;
            return Ok(Some(statement));
        }
    }
    if cursor.eat(&["PARTITIONS"]) {
        if !cursor.eat(&["FROM"]) && !cursor.eat(&["IN"]) {
            return Err(cursor.expected("FROM and the name of a table"));
        }
        let table = cursor.table_name()?;
        cursor.expect_end()?;
        return Ok(Some(Statement::ShowPartitions { table }));
    }
    if cursor.eat(&["COLUMNS"]) {
        if !cursor.eat(&["FROM"]) && !cursor.eat(&["IN"]) {
            return Err(cursor.expected("FROM and the name of a table"));
        }
        let table = cursor.table_name()?;
        cursor.expect_end()?;
        return Ok(Some(Statement::ShowColumns { table }));
    }
    Ok(None)
}

/// DESCRIBE t, DESC t.
pub(super) fn describe(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip(1);
    if cursor.words(&["SELECT"]) || cursor.words(&["WITH"]) || cursor.peek() == Some(&Token::LParen) {
        return Err(SqlError::new("DESCRIBE is of a table, not of a query", cursor.position())
            .hint("CREATE VIEW v AS the query, then DESCRIBE v; EXPLAIN shows how it is answered"));
    }
    if cursor.words(&["TABLE"]) && cursor.ahead(1).is_some() {
        cursor.skip(1);
    }
    let table = cursor.table_name()?;
    cursor.expect_end()?;
    Ok(Statement::ShowColumns { table })
}
