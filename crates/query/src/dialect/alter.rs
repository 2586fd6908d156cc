//! ALTER TABLE: one change of a table, read by hand.

use super::accounts;
use super::cursor::{Cursor, Result, Tokens};
use super::table::column_type;
use super::{AlterTable, Partitions, SqlError, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// ALTER TABLE t, or ALTER MATERIALIZED VIEW v, and one change; RENAME TABLE t TO u.
pub(super) fn alter_table(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if cursor.eat(&["RENAME", "TABLE"]) {
        let table = cursor.table_name()?;
        cursor.expect(&["TO"])?;
        let change = AlterTable::Rename { to: cursor.table_name()? };
        cursor.expect_end()?;
        return Ok(Statement::AlterTable { table, change, of_view: false });
    }
    let of_view = cursor.eat(&["ALTER", "MATERIALIZED", "VIEW"]);
    if !of_view {
        cursor.expect(&["ALTER", "TABLE"])?;
    }
    let table = cursor.table_name()?;
    if cursor.words(&["OWNER"]) {
        return accounts::owner(cursor, table);
    }
    let change = change(cursor, &table)?;
    cursor.expect_end()?;
    Ok(Statement::AlterTable { table, change, of_view })
}

fn change(cursor: &mut Cursor<'_>, table: &str) -> Result<AlterTable> {
    const COLUMN: &str = "the name of a column";
    if cursor.eat(&["DROP", "PARTITION"]) {
        return partitions(cursor, table).map(AlterTable::DropPartitions);
    }
    // `ADD index INT` is a column of that name.
    let is_index = matches!(cursor.ahead(2), Some(Token::LParen));
    if is_index && cursor.eat(&["ADD", "INDEX"]) {
        return Ok(AlterTable::AddIndex(cursor.names(COLUMN)?));
    }
    if is_index && cursor.eat(&["DROP", "INDEX"]) {
        return Ok(AlterTable::DropIndex(cursor.names(COLUMN)?));
    }
    if cursor.eat(&["ADD"]) {
        cursor.eat(&["COLUMN"]);
        let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
        let name = cursor.name(COLUMN)?;
        return Ok(AlterTable::AddColumn { name, column_type: column_type(cursor)?, if_not_exists });
    }
    if cursor.eat(&["DROP"]) {
        cursor.eat(&["COLUMN"]);
        let if_exists = cursor.eat(&["IF", "EXISTS"]);
        return Ok(AlterTable::DropColumn { name: cursor.name(COLUMN)?, if_exists });
    }
    if cursor.eat(&["RENAME", "TO"]) {
        return Ok(AlterTable::Rename { to: cursor.table_name()? });
    }
    if cursor.eat(&["RENAME"]) {
        cursor.eat(&["COLUMN"]);
        let from = cursor.name(COLUMN)?;
        cursor.expect(&["TO"])?;
        return Ok(AlterTable::RenameColumn { from, to: cursor.name(COLUMN)? });
    }
    if cursor.eat(&["SET", "TTL"]) {
        let none = cursor.eat(&["NONE"]);
        return Ok(AlterTable::SetTtl(if none { None } else { Some(ttl(cursor)?) }));
    }
    if cursor.words(&["ALTER"]) || cursor.words(&["MODIFY"]) {
        let error = SqlError::new("the type of a column cannot be changed", cursor.position());
        return Err(error.hint(
            "ADD COLUMN a new one, fill it with UPDATE, DROP COLUMN the old one and RENAME COLUMN the new one",
        ));
    }
    Err(cursor.expected(
        "ADD COLUMN, DROP COLUMN, RENAME COLUMN, RENAME TO, ADD INDEX, DROP INDEX, SET TTL or DROP PARTITION",
    ))
}

/// How long rows are kept, as written: `30 DAYS`, `'30d'`, `2w`.
pub(super) fn ttl(cursor: &mut Cursor<'_>) -> Result<String> {
    let number = cursor.scalar()?;
    match cursor.peek() {
        Some(Token::Word(word)) if number.chars().all(|c| c.is_ascii_digit()) => {
            cursor.skip(1);
            Ok(format!("{number} {}", word.value))
        }
        _ => Ok(number),
    }
}

fn partitions(cursor: &mut Cursor<'_>, table: &str) -> Result<Partitions> {
    if cursor.words(&["WHERE"]) {
        // The rows it holds for are found as those of a query.
        let table = Token::make_word(table, Some('"'));
        let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM"), table];
        let tokens = select.into_iter().map(TokenWithSpan::wrap).chain(cursor.rest().iter().cloned());
        let query = super::parse_query(&Tokens { tokens: tokens.collect(), end: cursor.end() })?;
        cursor.skip(cursor.rest().len());
        return Ok(Partitions::Where(query));
    }
    if !cursor.eat(&["LIST"]) {
        return Err(cursor.expected("LIST and names of partitions, or WHERE and a condition on the time"));
    }
    let mut names = vec![cursor.text("the name of a partition")?];
    while cursor.eat_token(&Token::Comma) {
        names.push(cursor.text("the name of a partition")?);
    }
    Ok(Partitions::List(names))
}
