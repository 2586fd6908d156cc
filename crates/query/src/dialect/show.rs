//! SHOW, DESCRIBE and SUMMARIZE.

use super::cursor::{Cursor, Result, Tokens};
use super::files::is_file;
use super::subscribe::{query_of, quoted};
use super::{Inspect, SqlError, Statement, parse_query};
use sqlparser::ast::Query;
use sqlparser::tokenizer::Token;

/// SHOW TABLES, SHOW COLUMNS FROM t and the like; `None` for those that the parser reads.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Option<Statement>> {
    cursor.expect(&["SHOW"])?;
    if cursor.words(&["TABLE"]) {
        return Err(SqlError::new("there is no SHOW TABLE", cursor.position())
            .hint("SHOW TABLES lists the tables, SHOW COLUMNS FROM t the columns of one"));
    }
    for (word, statement) in [
        ("TABLES", Statement::ShowTables),
        ("VIEWS", Statement::ShowViews),
        ("STREAMS", Statement::ShowStreams),
        ("QUERIES", Statement::ShowQueries),
        ("METRICS", Statement::ShowMetrics),
        ("CONFIG", Statement::ShowConfig),
    ] {
        if cursor.eat(&[word]) {
            return cursor.expect_end().map(|()| Some(statement));
        }
    }
    if let Some(statement) = super::accounts::show(cursor)? {
        return Ok(Some(statement));
    }
    if cursor.eat(&["PARTITIONS"]) {
        return Ok(Some(Statement::ShowPartitions { table: of_table(cursor)? }));
    }
    if cursor.eat(&["CREATE"]) {
        if !["TABLE", "VIEW"].iter().any(|kind| cursor.eat(&[kind])) && !cursor.eat(&["MATERIALIZED", "VIEW"])
        {
            return Err(cursor.expected("TABLE, VIEW or MATERIALIZED VIEW"));
        }
        let table = cursor.table_name()?;
        cursor.expect_end()?;
        return Ok(Some(Statement::ShowCreate { table }));
    }
    if cursor.eat(&["COLUMNS"]) {
        return Ok(Some(Statement::ShowColumns { table: of_table(cursor)? }));
    }
    Ok(None)
}

/// FROM t or IN t, to the end of the statement.
fn of_table(cursor: &mut Cursor<'_>) -> Result<String> {
    if !cursor.eat(&["FROM"]) && !cursor.eat(&["IN"]) {
        return Err(cursor.expected("FROM and the name of a table"));
    }
    let table = cursor.table_name()?;
    cursor.expect_end()?;
    Ok(table)
}

/// DESCRIBE t, DESC t, DESCRIBE query.
pub(super) fn describe(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip(1);
    if begins_query(cursor) {
        return Ok(Statement::Inspect(Box::new(Inspect { query: rest(cursor)?, summarizes: false })));
    }
    if let Some(query) = of_file(cursor)? {
        return Ok(Statement::Inspect(Box::new(Inspect { query, summarizes: false })));
    }
    if cursor.words(&["TABLE"]) && cursor.ahead(1).is_some() {
        cursor.skip(1);
    }
    let table = cursor.table_name()?;
    cursor.expect_end()?;
    Ok(Statement::ShowColumns { table })
}

/// The rows of a file, where it is named in the place of a table.
fn of_file(cursor: &mut Cursor<'_>) -> Result<Option<Box<Query>>> {
    let Some(Token::SingleQuotedString(name)) = cursor.peek().cloned() else { return Ok(None) };
    if !is_file(&name) {
        return Ok(None);
    }
    let position = cursor.position();
    cursor.skip(1);
    cursor.expect_end()?;
    query_of(&format!("SELECT * FROM '{}'", name.replace('\'', "''")), position).map(Some)
}

/// SUMMARIZE t, SUMMARIZE query.
pub(super) fn summarize(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.skip(1);
    let query = if begins_query(cursor) {
        rest(cursor)?
    } else if let Some(query) = of_file(cursor)? {
        query
    } else {
        if cursor.words(&["TABLE"]) && cursor.ahead(1).is_some() {
            cursor.skip(1);
        }
        let position = cursor.position();
        let table = cursor.table_name()?;
        cursor.expect_end()?;
        query_of(&format!("SELECT * FROM {}", quoted(&table)), position)?
    };
    Ok(Statement::Inspect(Box::new(Inspect { query, summarizes: true })))
}

fn begins_query(cursor: &Cursor<'_>) -> bool {
    let words = ["SELECT", "WITH", "FROM", "VALUES"];
    words.iter().any(|word| cursor.words(&[word])) || cursor.peek() == Some(&Token::LParen)
}

/// The query that the rest of the statement is.
fn rest(cursor: &mut Cursor<'_>) -> Result<Box<Query>> {
    parse_query(&Tokens { tokens: cursor.rest().to_vec(), end: cursor.end() })
}
