//! Joins of ours: each becomes `LEFT JOIN`, and its clause, which follows the right side, `ON __clause(…)`.

use super::asof::{self, AsOfKind, is_direction, is_tolerance};
use super::series_join::{self, SeriesJoinKind};
use super::{Clause, Cursor, Pass, Position, Result};
use crate::dialect::cursor::is_word;
use sqlparser::ast::{Ident, JoinConstraint};
use sqlparser::tokenizer::Token;

/// A join of ours whose right side is being read.
pub(super) struct Pending {
    depth: usize,
    position: Position,
    kind: JoinKind,
}

#[derive(Clone, Copy)]
pub(super) enum JoinKind {
    AsOf(AsOfKind),
    Series(SeriesJoinKind),
}

impl JoinKind {
    /// What errors call it.
    fn word(self) -> &'static str {
        match self {
            Self::AsOf(kind) => kind.word(),
            Self::Series(kind) => kind.word(),
        }
    }
}

/// Words that end the right side of a join.
const JOIN_ENDS: &str = "ON USING MATCH_CONDITION WHERE GROUP HAVING ORDER LIMIT OFFSET FETCH UNION EXCEPT \
    INTERSECT MINUS QUALIFY WINDOW JOIN LEFT RIGHT INNER FULL CROSS NATURAL ASOF LT RETURNING FOR";

impl Pass<'_> {
    /// Takes the words of a join; its clause is read where its right side ends.
    pub(super) fn join(&mut self, kind: JoinKind, words: usize) -> Result<()> {
        let (position, word) = (self.cursor.position(), kind.word());
        self.cursor.skip(words);
        if self.cursor.is_end() || self.cursor.words(&["ON"]) || self.cursor.words(&["USING"]) {
            let error = self.cursor.expected(&format!("the table that {word} joins"));
            return Err(error.hint(format!("the table stands before its keys: t {word} q ON (symbol)")));
        }
        self.pending.push(Pending { depth: self.depth, position, kind });
        self.keywords(&["LEFT", "JOIN"], position);
        Ok(())
    }

    /// Reads the clauses of every pending join whose right side ends here.
    pub(super) fn finish_joins(&mut self, at_end: bool) -> Result<()> {
        while let Some(pending) = self.pending.pop_if(|p| {
            let closes = self.depth == p.depth && ends_join(&self.cursor);
            at_end || closes || self.depth < p.depth
        }) {
            let (cursor, position) = (&mut self.cursor, pending.position);
            let clause = match pending.kind {
                JoinKind::AsOf(kind) => Clause::AsOf(asof::read(cursor, kind, position)?),
                JoinKind::Series(kind) => Clause::Series(series_join::read(cursor, kind, position)?),
            };
            self.keywords(&["ON"], position);
            self.placeholder(position, clause);
        }
        Ok(())
    }
}

fn ends_join(cursor: &Cursor<'_>) -> bool {
    match cursor.peek() {
        Some(Token::Comma | Token::RParen | Token::SemiColon) => true,
        Some(token) => {
            JOIN_ENDS.split(' ').any(|word| is_word(token, word))
                || cursor.words(&["SAMPLE", "BY"])
                || cursor.words(&["LATEST", "ON"])
                || cursor.words(&["LATEST", "BY"])
                || is_tolerance(cursor)
                || is_direction(cursor)
                || series_join::begins_tail(cursor)
        }
        None => true,
    }
}

/// ON or USING, where one stands here.
pub(super) fn keys(cursor: &mut Cursor<'_>) -> Result<JoinConstraint> {
    if cursor.eat(&["ON"]) {
        return Ok(JoinConstraint::On(cursor.expression()?));
    }
    if !cursor.eat(&["USING"]) {
        return Ok(JoinConstraint::None);
    }
    let names = cursor.names("a column of both sides")?.into_iter();
    let names = names.map(|name| vec![Ident::new(name)].into()).collect::<Vec<_>>();
    Ok(if names.is_empty() { JoinConstraint::None } else { JoinConstraint::Using(names) })
}
