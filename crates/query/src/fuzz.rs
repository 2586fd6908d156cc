//! SQL as a function of any text, for `fuzz/` and for the tests: no text may end the process, panic, or take longer than
//! its length allows.

use crate::dialect::{Statement, parse_with_texts};
use crate::{Database, DatabaseOptions, ErrorKind, Outcome};
use std::sync::LazyLock;

/// Tables of every kind of column, without rows.
static TABLES: LazyLock<Option<Database>> = LazyLock::new(|| {
    let options = DatabaseOptions { query_threads: Some(1), ..DatabaseOptions::default() };
    let database = Database::in_memory(options).ok()?;
    let mut session = database.session();
    for sql in [
        "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT, note VARCHAR, up BOOLEAN, amount DECIMAL(38, 6), day DATE, key UUID, bids DOUBLE[]) TIMESTAMP(ts)",
        "CREATE TABLE quotes (ts TIMESTAMP, symbol SYMBOL, bid DOUBLE, ask DOUBLE) TIMESTAMP(ts) DEDUP UPSERT KEYS (ts, symbol)",
    ] {
        database.runtime().block_on(session.query(sql)).ok()?;
    }
    Some(database)
});

/// Reads a text and plans its queries over two tables; the message of a defect that it met.
pub fn sql(text: &str) -> Option<String> {
    sql_in(TABLES.as_ref()?, text).err()
}

/// Reads a text and plans its queries in a database; how many were planned.
///
/// # Errors
/// The message of a defect that it met.
pub fn sql_in(database: &Database, text: &str) -> Result<usize, String> {
    let Ok(statements) = parse_with_texts(text) else { return Ok(0) };
    let mut session = database.session();
    let mut planned = 0;
    for (_, statement) in statements.into_iter().take(4) {
        if !matches!(statement, Statement::Query(_)) {
            continue;
        }
        match database.runtime().block_on(session.run(statement)) {
            // The rows are not asked for.
            Ok(Outcome::Rows { .. } | Outcome::Done { .. }) => planned += 1,
            Err(error) if error.kind == ErrorKind::Report => return Err(error.to_string()),
            Err(_) => {}
        }
    }
    Ok(planned)
}
