//! CREATE TABLE and the small statements about tables.

use super::cursor::{Cursor, Result, Tokens};
use super::{CreateTable, SqlError, Statement, TableStream};
use sqlparser::tokenizer::Token;
use tickstone_model::{ColumnType, ModelError, PartitionBy, StreamFormat, SyncPolicy};

/// CREATE [OR REPLACE] [TEMP] TABLE [IF NOT EXISTS] t (…) | AS (SELECT …), then the tail clauses in any order.
pub(super) fn create_table(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CREATE"])?;
    let replaces = cursor.eat(&["OR", "REPLACE"]);
    let temporary = cursor.eat(&["TEMP"]) || cursor.eat(&["TEMPORARY"]);
    cursor.expect(&["TABLE"])?;
    let position = cursor.position();
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    if replaces && if_not_exists {
        return Err(SqlError::new("OR REPLACE and IF NOT EXISTS do not go together", position));
    }
    let time_position = cursor.position();
    let name = cursor.table_name()?;
    let mut table = CreateTable {
        name,
        if_not_exists,
        replaces,
        temporary,
        columns: Vec::new(),
        timestamp: None,
        series: None,
        partition_by: None,
        ttl: None,
        dedup: None,
        indexed: None,
        sync: None,
        query: None,
        stream: None,
        time_position,
    };
    if cursor.eat(&["AS", "STREAM"]) {
        table.stream = Some(table_stream(cursor)?);
        table.columns = columns(cursor)?;
    } else if cursor.peek() == Some(&Token::LParen) {
        table.columns = columns(cursor)?;
    }
    if table.columns.is_empty() || cursor.words(&["AS"]) {
        cursor.expect(&["AS"])?;
        table.query = Some(query(cursor)?);
    }
    while !cursor.is_end() {
        tail_clause(cursor, &mut table)?;
    }
    Ok(Statement::CreateTable(table))
}

/// 'name' FORMAT json | csv | ilp [EPOCH unit] [RENAME 'key=column,…'], after AS STREAM.
fn table_stream(cursor: &mut Cursor<'_>) -> Result<TableStream> {
    let name = cursor.text("the name of a stream")?;
    cursor.expect(&["FORMAT"])?;
    let position = cursor.position();
    let format = StreamFormat::parse(&cursor.name("json, csv or ilp")?);
    let format = format.ok_or_else(|| {
        SqlError::new("documents of a stream are json, csv or ilp", position)
            .hint("AS STREAM 'raw' FORMAT json (ts TIMESTAMP, …)")
    })?;
    let mut epoch = None;
    if cursor.eat(&["EPOCH"]) {
        let position = cursor.position();
        let unit = cursor.name("s, ms, us or ns")?.to_lowercase();
        if !["s", "ms", "us", "ns"].contains(&unit.as_str()) {
            return Err(SqlError::new("the unit of times is s, ms, us or ns", position));
        }
        if format == StreamFormat::Ilp {
            let error = SqlError::new("EPOCH is of json and csv", position);
            return Err(error.hint("the unit of line protocol is told by the size of its times"));
        }
        epoch = Some(unit);
    }
    let (mut renames, mut renames_position) = (Vec::new(), cursor.position());
    if cursor.eat(&["RENAME"]) {
        renames_position = cursor.position();
        let text = cursor.text("'key=column'")?;
        if format != StreamFormat::Json {
            let error = SqlError::new("RENAME is of json", renames_position);
            return Err(
                error.hint("fields of csv are columns in their order, those of line protocol by name")
            );
        }
        let given =
            renames_of(&text).filter(|pairs| pairs.iter().all(|(key, _)| !key.contains(char::is_control)));
        renames = given.ok_or_else(|| {
            SqlError::new("RENAME takes keys and the columns they fill", renames_position)
                .hint("RENAME 'E=event_time,e=kind'")
        })?;
    }
    Ok(TableStream { name, format, epoch, renames, renames_position })
}

/// Pairs of names, `E=event_time,e=kind`; `None` of another text.
pub(crate) fn renames_of(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(|pair| pair.split_once('='));
    pairs.map(|pair| pair.map(|(name, other)| (name.trim().to_string(), other.trim().to_string()))).collect()
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<(String, ColumnType)>> {
    cursor.expect_token(&Token::LParen)?;
    let mut columns = Vec::new();
    loop {
        let name = cursor.name("the name of a column")?;
        columns.push((name, column_type(cursor)?));
        if cursor.is_end() {
            return Err(cursor.expected("')' after the columns"));
        }
        if cursor.eat_token(&Token::RParen) {
            return Ok(columns);
        }
        cursor.expect_token(&Token::Comma)?;
    }
}

/// The tokens up to the next comma or bracket at this depth, or the end, as the name of a type.
pub(super) fn column_type(cursor: &mut Cursor<'_>) -> Result<ColumnType> {
    let position = cursor.position();
    let mut written = String::new();
    let mut depth = 0_usize;
    loop {
        for constraint in [&["NOT", "NULL"][..], &["PRIMARY"], &["DEFAULT"], &["UNIQUE"], &["CHECK"]] {
            if depth == 0 && cursor.words(constraint) {
                return Err(SqlError::new(
                    format!("column constraints are not supported: {}", constraint.join(" ")),
                    cursor.position(),
                )
                .hint("every column but the designated timestamp may hold NULLs"));
            }
        }
        match cursor.peek() {
            None => break,
            Some(Token::Comma | Token::RParen) if depth == 0 => break,
            Some(token) => {
                match token {
                    Token::LParen | Token::LBracket => depth += 1,
                    Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                    Token::Word(_) if !written.is_empty() && depth == 0 => written.push(' '),
                    _ => {}
                }
                written.push_str(&token.to_string());
                cursor.skip(1);
            }
        }
    }
    if written.is_empty() {
        return Err(cursor.expected("the type of the column"));
    }
    ColumnType::parse(&written).map_err(|e| type_error(&e, &written, position))
}

fn type_error(error: &ModelError, written: &str, position: super::Position) -> SqlError {
    let message = error.to_string();
    if let ModelError::ElementType { .. } = error {
        let (message, hint) = message.split_once("; ").unwrap_or((&message, ""));
        return SqlError::new(message, position).hint(hint);
    }
    let message = message.split("; known are").next().unwrap_or_default();
    let written = written.to_uppercase();
    let hint = OTHER_TYPES.iter().find(|(other, _)| written.starts_with(other)).map(|(_, hint)| *hint);
    SqlError::new(message, position).hint(hint.unwrap_or("types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), SYMBOL, VARCHAR, BINARY, UUID, DATE, TIME, TIMESTAMP, and arrays of them, as in DOUBLE[]"))
}

/// Beginnings of types of other databases, and what to write instead.
const OTHER_TYPES: [(&str, &str); 10] = [
    ("SYMBOL ", "write SYMBOL alone: there is no capacity, cache or index to choose"),
    ("SYM", "did you mean SYMBOL?"),
    ("LOWCARDINALITY", "write SYMBOL"),
    ("ENUM", "write SYMBOL"),
    ("TIMESTAMP", "write TIMESTAMP: it holds nanoseconds, UTC"),
    ("DATETIME", "write TIMESTAMP: it holds nanoseconds, UTC"),
    ("SERIAL", "write BIGINT: nothing counts up by itself"),
    ("REAL", "write FLOAT for 32 bits, DOUBLE for 64"),
    ("ARRAY", "write the type of the elements and brackets, as in DOUBLE[]"),
    ("NULLABLE", "write the type alone: every column but the designated timestamp may be NULL"),
];

/// The query after AS: in brackets, so that clauses may follow, or all that is left.
fn query(cursor: &mut Cursor<'_>) -> Result<Box<sqlparser::ast::Query>> {
    let bracketed = cursor.eat_token(&Token::LParen);
    let all = cursor.rest();
    let length = if bracketed { cursor.closing() } else { None }.unwrap_or(all.len());
    let tokens = all[..length].to_vec();
    cursor.skip(length);
    let end = cursor.position();
    if bracketed {
        cursor.expect_token(&Token::RParen)?;
    }
    super::parse_query(&Tokens { tokens, end })
}

fn tail_clause(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<()> {
    let position = cursor.position();
    let twice = |clause: &str| SqlError::new(format!("{clause} is given twice"), position);
    if cursor.eat(&["TIMESTAMP"]) {
        cursor.expect_token(&Token::LParen)?;
        let name = cursor.name("the name of the timestamp column")?;
        cursor.expect_token(&Token::RParen)?;
        set(&mut table.timestamp, name, || twice("TIMESTAMP"))
    } else if cursor.eat(&["SERIES", "BY"]) {
        let names = cursor.names("the name of a SYMBOL column")?;
        set(&mut table.series, names, || twice("SERIES BY"))
    } else if cursor.eat(&["PARTITION", "BY"]) {
        let unit = partition_unit(cursor)?;
        set(&mut table.partition_by, unit, || twice("PARTITION BY"))
    } else if cursor.eat(&["TTL"]) {
        set(&mut table.ttl, super::alter::ttl(cursor)?, || twice("TTL"))
    } else if cursor.eat(&["DEDUP"]) {
        cursor.expect(&["UPSERT", "KEYS"])?;
        let names = cursor.names("the name of a column")?;
        set(&mut table.dedup, names, || twice("DEDUP"))
    } else if cursor.eat(&["INDEX"]) || is_index_after_comma(cursor) {
        let names = cursor.names("the name of a column")?;
        set(&mut table.indexed, names, || twice("INDEX"))
    } else if cursor.eat(&["WITH"]) {
        with_options(cursor, table)
    } else if cursor.eat(&["WAL"]) {
        // Every table has a write-ahead log; dumps of other databases say so.
        Ok(())
    } else {
        Err(cursor.expected("TIMESTAMP, SERIES BY, PARTITION BY, TTL, DEDUP UPSERT KEYS, INDEX or WITH"))
    }
}

/// How long partitions are, after PARTITION BY.
pub(super) fn partition_unit(cursor: &mut Cursor<'_>) -> Result<PartitionBy> {
    let at = cursor.position();
    let unit = cursor.name("HOUR, DAY, WEEK, MONTH or YEAR")?;
    PartitionBy::parse(&unit).map_err(|e| {
        SqlError::new(e.to_string(), at).hint("partitions are by HOUR, DAY, WEEK, MONTH, YEAR or NONE")
    })
}

/// `, INDEX`, as QuestDB has it.
fn is_index_after_comma(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = cursor.clone();
    let found = ahead.eat_token(&Token::Comma) && ahead.eat(&["INDEX"]);
    if found {
        *cursor = ahead;
    }
    found
}

fn set<T>(slot: &mut Option<T>, value: T, twice: impl FnOnce() -> SqlError) -> Result<()> {
    if slot.is_some() {
        return Err(twice());
    }
    *slot = Some(value);
    Ok(())
}

fn with_options(cursor: &mut Cursor<'_>, table: &mut CreateTable) -> Result<()> {
    cursor.expect_token(&Token::LParen)?;
    let option = |cursor: &mut Cursor<'_>| {
        let position = cursor.position();
        let name = cursor.name("the name of an option")?;
        cursor.expect_token(&Token::Eq)?;
        let at = cursor.position();
        let value = cursor.scalar()?;
        if !name.eq_ignore_ascii_case("sync") {
            return Err(SqlError::new(format!("there is no table option {name}"), position)
                .hint("sync = 'always' | 'interval' | 'none' is the only one"));
        }
        let policy = SyncPolicy::parse(&value)
            .map_err(|e| SqlError::new(e.to_string(), at).hint("write 'always', 'interval' or 'none'"))?;
        set(&mut table.sync, policy, || SqlError::new("sync is given twice", position))
    };
    cursor.list(option).map(|_| ())
}

/// DROP TABLE [IF EXISTS] t, … [CASCADE | RESTRICT].
pub(super) fn drop_table(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP", "TABLE"])?;
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let (names, cascades) = dropped_names(cursor)?;
    Ok(Statement::DropTable { names, if_exists, cascades })
}

/// TRUNCATE [TABLE] t, ….
pub(super) fn truncate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["TRUNCATE"])?;
    if cursor.words(&["TABLE"]) && cursor.ahead(1).is_some() {
        cursor.skip(1);
    }
    let names = table_names(cursor)?;
    cursor.expect_end()?;
    Ok(Statement::Truncate { names })
}

fn table_names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    let mut names = vec![cursor.table_name()?];
    while cursor.eat_token(&Token::Comma) {
        names.push(cursor.table_name()?);
    }
    Ok(names)
}

/// What is dropped, and whether what is made of it goes as well.
pub(super) fn dropped_names(cursor: &mut Cursor<'_>) -> Result<(Vec<String>, bool)> {
    let names = table_names(cursor)?;
    let cascades = cursor.eat(&["CASCADE"]);
    if !cascades {
        cursor.eat(&["RESTRICT"]);
    }
    cursor.expect_end()?;
    Ok((names, cascades))
}
