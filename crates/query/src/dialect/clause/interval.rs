//! `ts IN '2024-08'`: the text of an interval becomes `IN (__clause(…))`.

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

impl Pass<'_> {
    pub(super) fn interval(&mut self, text: &str) -> Result<()> {
        self.copy(1);
        let position = self.cursor.position();
        let intervals = parse_intervals(text).ok_or_else(|| {
            SqlError::new(format!("'{text}' is no interval of time"), position).hint(INTERVAL_HINT)
        })?;
        self.cursor.skip(1);
        self.push(Token::LParen, position);
        self.placeholder(position, Clause::Interval(IntervalClause { position, intervals }));
        self.push(Token::RParen, position);
        Ok(())
    }
}
