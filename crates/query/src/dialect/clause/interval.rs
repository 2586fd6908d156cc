//! `ts IN '2024-08'`: the text of an interval becomes `IN (__clause(…))`. `ts IN $1` becomes `IN (__interval($1))`.

use super::{Clause, Pass, Position, Result, SqlError};
use crate::texts::interval::{INTERVAL_HINT, Interval, parse_intervals};
use sqlparser::tokenizer::Token;

/// The text after IN.
#[derive(Debug, Clone)]
pub(in crate::dialect) struct IntervalClause {
    pub(crate) position: Position,
    /// At least one.
    pub(crate) intervals: Vec<Interval>,
}

/// The function that a placeholder for an interval stands in.
pub(in crate::dialect) const OPEN_INTERVAL: &str = "__interval";

/// The intervals of a text.
///
/// # Errors
/// [`SqlError`] where it is none.
pub(in crate::dialect) fn intervals(text: &str, position: Position) -> Result<IntervalClause> {
    let intervals = parse_intervals(text).ok_or_else(|| {
        SqlError::new(format!("'{text}' is no interval of time"), position).hint(INTERVAL_HINT)
    })?;
    Ok(IntervalClause { position, intervals })
}

impl Pass<'_> {
    pub(super) fn interval(&mut self, text: &str) -> Result<()> {
        self.copy(1);
        let position = self.cursor.position();
        let clause = intervals(text, position)?;
        self.cursor.skip(1);
        self.push(Token::LParen, position);
        self.placeholder(position, Clause::Interval(clause));
        self.push(Token::RParen, position);
        Ok(())
    }

    /// A placeholder after IN.
    pub(super) fn open_interval(&mut self) {
        self.copy(1);
        let position = self.cursor.position();
        self.push(Token::LParen, position);
        self.push(Token::make_word(OPEN_INTERVAL, None), position);
        self.push(Token::LParen, position);
        // `:name` is two tokens.
        self.copy(if self.cursor.peek() == Some(&Token::Colon) { 2 } else { 1 });
        self.push(Token::RParen, position);
        self.push(Token::RParen, position);
    }
}
