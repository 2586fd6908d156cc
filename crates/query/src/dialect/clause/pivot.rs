//! GROUP BY of a PIVOT, for which the parser has no room: `GROUP BY a, b` becomes
//! `DEFAULT ON NULL (__pivot_groups(a, b))`.

use super::{Pass, Position, Result, SqlError};
use crate::dialect::pivot::GROUPS;
use sqlparser::tokenizer::Token;

/// The brackets of a PIVOT that is being read.
pub(super) struct Pivot {
    depth: usize,
    /// Whether GROUP BY came.
    grouped: bool,
    /// Whether DEFAULT ON NULL came.
    defaulted: bool,
}

impl Pass<'_> {
    pub(super) fn open_pivot(&mut self) {
        self.pivots.push(Pivot { depth: self.depth, grouped: false, defaulted: false });
    }

    /// Closes the brackets of GROUP BY where those of its PIVOT end.
    pub(super) fn close_pivot(&mut self, position: Position) {
        if self.pivots.pop_if(|pivot| pivot.depth == self.depth).is_some_and(|pivot| pivot.grouped) {
            self.push(Token::RParen, position);
            self.push(Token::RParen, position);
        }
    }

    /// Says whether GROUP BY stood here.
    pub(super) fn pivot_group(&mut self) -> Result<bool> {
        let groups = self.cursor.words(&["GROUP", "BY"]);
        let defaults = self.cursor.words(&["DEFAULT", "ON", "NULL"]);
        let Some(pivot) = self.pivots.last_mut().filter(|pivot| pivot.depth == self.depth) else {
            return Ok(false);
        };
        let position = self.cursor.position();
        if (pivot.grouped && defaults) || (pivot.defaulted && groups) {
            let error = SqlError::new("PIVOT takes GROUP BY or DEFAULT ON NULL, not both", position);
            return Err(error.hint("write coalesce(column, 0) in SELECT"));
        }
        (pivot.grouped, pivot.defaulted) = (pivot.grouped || groups, pivot.defaulted || defaults);
        if groups {
            self.cursor.skip(2);
            self.keywords(&["DEFAULT", "ON", "NULL"], position);
            self.push(Token::LParen, position);
            self.push(Token::make_word(GROUPS, None), position);
            self.push(Token::LParen, position);
        }
        Ok(groups)
    }
}
