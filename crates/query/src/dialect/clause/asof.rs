//! ASOF and LT JOIN: the right row that prevails at a left row's time.

use super::joins::keys;
use super::lengths::{LengthOf, length};
use super::{Cursor, Position, Result, SqlError};
use crate::dialect::cursor::is_word;
use sqlparser::ast::{Expr, JoinConstraint};
use sqlparser::tokenizer::Token;

/// Which way from a left row's time its right row is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// The last row not after it.
    Backward,
    /// The first row not before it.
    Forward,
    /// The nearer of these two, of equally near ones the earlier.
    Nearest,
}

impl Direction {
    pub(crate) const ALL: [Self; 3] = [Self::Backward, Self::Forward, Self::Nearest];

    /// The word after DIRECTION.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Backward => "BACKWARD",
            Self::Forward => "FORWARD",
            Self::Nearest => "NEAREST",
        }
    }
}

/// How a join with the prevailing row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsOfKind {
    /// ASOF [LEFT] JOIN.
    Left,
    /// ASOF INNER JOIN.
    Inner,
    /// LT JOIN: like ASOF JOIN, to strictly earlier rows.
    Lt,
    /// ASOF SEMI JOIN: the left rows that have a right one.
    Semi,
    /// ASOF ANTI JOIN: the left rows that have none.
    Anti,
    /// ASOF RIGHT JOIN: also the right rows that stand for no left one, and not the left rows without a match.
    Right,
    /// ASOF FULL JOIN: the rows of both sides.
    Full,
}

impl AsOfKind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Left, Self::Inner, Self::Lt, Self::Semi, Self::Anti, Self::Right, Self::Full];

    /// What errors call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Left => "ASOF JOIN",
            Self::Inner => "ASOF INNER JOIN",
            Self::Lt => "LT JOIN",
            Self::Semi => "ASOF SEMI JOIN",
            Self::Anti => "ASOF ANTI JOIN",
            Self::Right => "ASOF RIGHT JOIN",
            Self::Full => "ASOF FULL JOIN",
        }
    }

    /// The join that begins here, and of how many words.
    pub(super) fn begins(cursor: &Cursor<'_>) -> Option<(Self, usize)> {
        let spellings: [(&[&str], Self); 12] = [
            (&["ASOF", "JOIN"], Self::Left),
            (&["ASOF", "LEFT", "JOIN"], Self::Left),
            (&["ASOF", "LEFT", "OUTER", "JOIN"], Self::Left),
            (&["ASOF", "INNER", "JOIN"], Self::Inner),
            (&["ASOF", "SEMI", "JOIN"], Self::Semi),
            (&["ASOF", "ANTI", "JOIN"], Self::Anti),
            (&["ASOF", "RIGHT", "JOIN"], Self::Right),
            (&["ASOF", "RIGHT", "OUTER", "JOIN"], Self::Right),
            (&["ASOF", "FULL", "JOIN"], Self::Full),
            (&["ASOF", "FULL", "OUTER", "JOIN"], Self::Full),
            (&["LT", "JOIN"], Self::Lt),
            (&["LT", "LEFT", "JOIN"], Self::Lt),
        ];
        spellings.iter().find(|(words, _)| cursor.words(words)).map(|(words, kind)| (*kind, words.len()))
    }
}

/// What follows the right side of an ASOF or LT JOIN.
#[derive(Debug, Clone)]
pub(in crate::dialect) struct AsOfClause {
    pub(crate) position: Position,
    pub(crate) kind: AsOfKind,
    pub(crate) direction: Option<Direction>,
    pub(crate) condition: Option<Expr>,
    /// ON or USING.
    pub(crate) keys: JoinConstraint,
    pub(crate) tolerance: Option<Expr>,
}

/// TOLERANCE and a length; alone the word may be an alias.
pub(super) fn is_tolerance(cursor: &Cursor<'_>) -> bool {
    cursor.words(&["TOLERANCE"])
        && match cursor.ahead(1) {
            Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::Minus) => true,
            Some(token) => is_word(token, "INTERVAL") || cursor.is_placeholder(1),
            None => false,
        }
}

pub(super) fn is_direction(cursor: &Cursor<'_>) -> bool {
    Direction::ALL.iter().any(|way| cursor.words(&["DIRECTION", way.word()]))
}

pub(super) fn read(cursor: &mut Cursor<'_>, kind: AsOfKind, position: Position) -> Result<AsOfClause> {
    let mut clause = AsOfClause {
        position,
        kind,
        direction: None,
        condition: None,
        keys: JoinConstraint::None,
        tolerance: None,
    };
    loop {
        if cursor.words(&["MATCH_CONDITION"]) && clause.condition.is_none() {
            cursor.skip(1);
            cursor.expect_token(&Token::LParen)?;
            clause.condition = Some(cursor.expression()?);
            cursor.expect_token(&Token::RParen)?;
        } else if (cursor.words(&["ON"]) || cursor.words(&["USING"])) && clause.keys == JoinConstraint::None {
            clause.keys = keys(cursor)?;
        } else if is_tolerance(cursor) && clause.tolerance.is_none() {
            cursor.skip(1);
            clause.tolerance = Some(length(cursor, LengthOf::Tolerance)?);
        } else if is_direction(cursor) && clause.direction.is_none() {
            if kind == AsOfKind::Lt {
                return Err(SqlError::new("LT JOIN looks back and takes no DIRECTION", cursor.position())
                    .hint(
                        "write ASOF JOIN … DIRECTION …, or MATCH_CONDITION (l.ts < r.ts) for later rows only",
                    ));
            }
            cursor.skip(1);
            clause.direction = Direction::ALL.into_iter().find(|way| cursor.eat(&[way.word()]));
        } else {
            return Ok(clause);
        }
    }
}
