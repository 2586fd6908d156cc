//! SHOW and DESCRIBE.

use super::cursor::{Cursor, Result};
use super::{SqlError, Statement};
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
    if cursor.eat(&["PARTITIONS"]) {
        return Ok(Some(Statement::ShowPartitions { table: of_table(cursor)? }));
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
