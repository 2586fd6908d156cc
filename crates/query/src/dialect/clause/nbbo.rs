//! The table that `nbbo` takes: `TABLE quotes` becomes `(SELECT * FROM quotes)`.

use super::{Pass, Result};
use crate::dialect::cursor::is_word;
use crate::dialect::marker::NBBO;
use sqlparser::tokenizer::Token;

impl Pass<'_> {
    /// Whether the last tokens are `nbbo (`.
    pub(super) fn is_in_nbbo(&self) -> bool {
        match self.out.as_slice() {
            [.., name, bracket] => is_word(&name.token, NBBO) && bracket.token == Token::LParen,
            _ => false,
        }
    }

    pub(super) fn table_argument(&mut self) -> Result<()> {
        let position = self.cursor.position();
        self.cursor.expect(&["TABLE"])?;
        self.push(Token::LParen, position);
        self.keywords(&["SELECT"], position);
        self.push(Token::Mul, position);
        self.keywords(&["FROM"], position);
        let mut after = self.cursor.clone();
        after.table_name()?;
        self.copy(self.cursor.rest().len() - after.rest().len());
        self.push(Token::RParen, position);
        Ok(())
    }
}
