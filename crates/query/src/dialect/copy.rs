//! COPY, SET, SHOW and CANCEL.

use super::cursor::{Cursor, Result, Tokens};
use super::{CopySource, SqlError, Statement};
use sqlparser::tokenizer::Token;

/// COPY t [(columns)] FROM 'file' …, COPY t TO 'file' …, COPY (SELECT …) TO 'file' ….
pub(super) fn copy(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["COPY"])?;
    if cursor.eat_token(&Token::LParen) {
        let source = CopySource::Query(bracketed_query(cursor)?);
        cursor.expect(&["TO"])?;
        let path = cursor.text("the path of a file")?;
        return Ok(Statement::CopyTo { source, path, options: options(cursor)? });
    }
    let table = cursor.table_name()?;
    let position = cursor.position();
    let columns = match cursor.peek() {
        Some(Token::LParen) => cursor.names("the name of a column")?,
        _ => Vec::new(),
    };
    if cursor.eat(&["FROM"]) {
        let path = cursor.text("the path of a file")?;
        return Ok(Statement::CopyFrom { table, columns, path, options: options(cursor)? });
    }
    if !cursor.eat(&["TO"]) {
        return Err(cursor.expected("FROM 'file' or TO 'file'"));
    }
    if !columns.is_empty() {
        return Err(SqlError::new("COPY … TO takes a whole table", position)
            .hint("for some of its columns write COPY (SELECT …) TO 'file'"));
    }
    let path = cursor.text("the path of a file")?;
    Ok(Statement::CopyTo { source: CopySource::Table(table), path, options: options(cursor)? })
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

/// [STORED AS format] [[WITH | OPTIONS] (name [=] value, …)], names in lower case.
fn options(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>> {
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
    } else if announced {
        return Err(cursor.expected("'(' and the options"));
    }
    cursor.expect_end()?;
    Ok(options)
}

/// SET name = value, SET name TO value, SET TIME ZONE 'zone'.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["SET"])?;
    if cursor.words(&["SESSION"]) || cursor.words(&["LOCAL"]) {
        cursor.skip(1);
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
    let value = cursor.scalar()?;
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

/// DESCRIBE t, DESC t; `None` where a query follows.
pub(super) fn describe(cursor: &mut Cursor<'_>) -> Result<Option<Statement>> {
    cursor.skip(1);
    if cursor.words(&["SELECT"]) || cursor.words(&["WITH"]) || cursor.peek() == Some(&Token::LParen) {
        return Ok(None);
    }
    if cursor.words(&["TABLE"]) && cursor.ahead(1).is_some() {
        cursor.skip(1);
    }
    let table = cursor.table_name()?;
    cursor.expect_end()?;
    Ok(Some(Statement::ShowColumns { table }))
}
