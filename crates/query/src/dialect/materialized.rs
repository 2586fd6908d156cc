//! CREATE MATERIALIZED VIEW, REFRESH, and the query that stands for a materialized view where it is read.
//!
//! What is stored of a view stands under a name that no table can have ([`stored_name`]). Where it lacks nothing, the view
//! is that table; else it is the stored rows outside of the stretches that it lacks, and its query over the rows of each.

use super::cursor::{Cursor, Result, Tokens, is_word};
use super::view::within_times;
use super::{CreateMaterializedView, SqlError, Statement, alter, table, view, zone};
use sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier};
use sqlparser::tokenizer::Token;
use tickstone_model::{PartitionBy, format_nanos};

/// What follows a view's name where its stored rows are meant: a name of a table does not end with a space.
const STORED: &str = " (stored) ";

/// The name of what is stored of a view.
pub(crate) fn stored_name(view: &str) -> String {
    format!("{view}{STORED}")
}

/// The view whose stored rows a name means, if it is such a name.
pub(crate) fn view_of_stored(name: &str) -> Option<&str> {
    name.strip_suffix(STORED)
}

/// A materialized view as a snapshot has it.
#[derive(Debug, Clone)]
pub struct StoredView {
    /// The view's name.
    pub view: String,
    /// The table, or view, that it reads, and that one's designated timestamp.
    pub base: (String, String),
    /// The view's columns, its designated timestamp among them.
    pub columns: Vec<String>,
    /// Its designated timestamp.
    pub time: String,
    /// Stretches of whole buckets (ns since the Unix epoch) whose stored rows are not those of the query: apart,
    /// ascending.
    pub stale: Vec<(i64, i64)>,
}

impl StoredView {
    /// The query that gives the view's rows; `query` is what it stands for.
    pub(super) fn current(&self, query: Box<Query>) -> Result<Box<Query>> {
        if self.stale == [(i64::MIN, i64::MAX)] {
            return Ok(query);
        }
        let mut pieces = Vec::with_capacity(2 * self.stale.len() + 1);
        // One a stretch, so that each is read by its range.
        let begins = std::iter::once(i64::MIN).chain(self.stale.iter().map(|(_, to)| *to));
        let ends = self.stale.iter().map(|(from, _)| *from).chain(std::iter::once(i64::MAX));
        for stretch in begins.zip(ends).filter(|(from, to)| from < to) {
            pieces.push(parsed(&self.stored(stretch))?);
        }
        // No row of it says which stored columns are times by the clocks of a zone.
        let says = zone::is_in(query.as_ref()).then_some(&(0, 0));
        for stretch in self.stale.iter().chain(says) {
            let mut of = query.clone();
            within_times(&mut of, &self.base.0, &self.base.1, *stretch)?;
            pieces.push(of);
        }
        // Each has clauses of its own, which a query in brackets may have.
        let bodies = pieces.into_iter().map(|piece| Box::new(SetExpr::Query(piece)));
        let (op, set_quantifier) = (SetOperator::Union, SetQuantifier::All);
        let all =
            bodies.reduce(|left, right| Box::new(SetExpr::SetOperation { op, set_quantifier, left, right }));
        let mut whole = parsed(&self.stored((i64::MIN, i64::MAX)))?;
        if let Some(body) = all {
            whole.body = body;
        }
        Ok(whole)
    }

    /// The stored rows of a stretch of time, as a query.
    fn stored(&self, (from, to): (i64, i64)) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let columns: Vec<String> = self.columns.iter().map(|column| quoted(column)).collect();
        let table = quoted(&stored_name(&self.view));
        let mut text = format!("SELECT {} FROM {table}", columns.join(", "));
        let (time, instant) =
            (quoted(&self.time), |ns: i64| format!("CAST('{}' AS TIMESTAMP)", format_nanos(ns)));
        if from > i64::MIN {
            text.push_str(&format!(" WHERE {time} >= {}", instant(from)));
        }
        if to < i64::MAX {
            let word = if from > i64::MIN { "AND" } else { "WHERE" };
            text.push_str(&format!(" {word} {time} < {}", instant(to)));
        }
        text
    }
}

/// A query as text, whose place is nowhere.
fn parsed(text: &str) -> Result<Box<Query>> {
    let nothing = Tokens { tokens: Vec::new(), end: Default::default() };
    let mut tokens = super::cursor::statements(text)?.pop().unwrap_or(nothing);
    tokens.tokens.iter_mut().for_each(|token| token.span = sqlparser::tokenizer::Span::empty());
    super::parse_query(&tokens)
}

/// CREATE MATERIALIZED VIEW [IF NOT EXISTS] v AS query [PARTITION BY unit] [TTL time]; `sql` is the text that the tokens
/// are of.
pub(super) fn create(cursor: &mut Cursor<'_>, sql: &str) -> Result<Statement> {
    let begins = cursor.position();
    cursor.expect(&["CREATE"])?;
    if cursor.eat(&["OR", "REPLACE"]) {
        let error = SqlError::new("a materialized view is not replaced", begins);
        return Err(error.hint("DROP MATERIALIZED VIEW first, then CREATE MATERIALIZED VIEW"));
    }
    cursor.expect(&["MATERIALIZED", "VIEW"])?;
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    let position = cursor.position();
    let name = cursor.table_name()?;
    if !cursor.words(&["AS"]) {
        return Err(cursor.expected("AS and a query").hint("the query ends with SAMPLE BY"));
    }
    cursor.skip(1);
    let bracketed = cursor.peek() == Some(&Token::LParen);
    let length = match bracketed {
        true => {
            cursor.skip(1);
            cursor.closing().ok_or_else(|| cursor.expected("')' after the query"))?
        }
        false => query_length(cursor),
    };
    let tokens = Tokens { tokens: cursor.rest()[..length].to_vec(), end: cursor.end() };
    cursor.skip(length);
    if bracketed {
        cursor.expect_token(&Token::RParen)?;
    }
    let text = view::text_of(&tokens, sql).to_string();
    let query = super::parse_query(&tokens)?;
    let (mut partition_by, mut ttl) = (None, None);
    while !cursor.is_end() {
        if partition_by.is_none() && cursor.eat(&["PARTITION", "BY"]) {
            partition_by = Some(table::partition_unit(cursor)?);
        } else if ttl.is_none() && cursor.eat(&["TTL"]) {
            ttl = Some(alter::ttl(cursor)?);
        } else {
            return Err(cursor.expected("PARTITION BY or TTL, each once, or the end"));
        }
    }
    let create = CreateMaterializedView { name, if_not_exists, text, query, partition_by, ttl, position };
    Ok(Statement::CreateMaterializedView(Box::new(create)))
}

/// How many tokens a query has that clauses of the view follow: they come after its SAMPLE BY.
fn query_length(cursor: &Cursor<'_>) -> usize {
    let tokens = cursor.rest();
    let (mut depth, mut sampled) = (0_usize, false);
    for (at, token) in tokens.iter().enumerate() {
        let next = |word| tokens.get(at + 1).is_some_and(|next| is_word(&next.token, word));
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            of if depth == 0 && is_word(of, "SAMPLE") && next("BY") => sampled = true,
            of if depth == 0 && sampled && is_word(of, "PARTITION") && next("BY") => return at,
            of if depth == 0 && sampled && is_word(of, "TTL") => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// REFRESH MATERIALIZED VIEW v [FULL].
pub(super) fn refresh(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["REFRESH", "MATERIALIZED", "VIEW"])?;
    let name = cursor.table_name()?;
    let full = cursor.eat(&["FULL"]);
    cursor.eat(&["INCREMENTAL"]);
    cursor.expect_end()?;
    Ok(Statement::RefreshView { name, full })
}

/// How long the partitions of a view are that says nothing itself: some thousands of buckets.
pub(crate) fn partitions_of(bucket_ns: i64) -> PartitionBy {
    const SECOND: i64 = 1_000_000_000;
    match bucket_ns {
        of if of <= SECOND => PartitionBy::Day,
        of if of <= 600 * SECOND => PartitionBy::Month,
        _ => PartitionBy::Year,
    }
}
