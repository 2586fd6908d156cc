//! Lengths of time, as clauses write them.

use super::{Cursor, Position, Result, SqlError};
use crate::dialect::marker::text;
use crate::functions::stride::{STRIDE_HINT, Stride};
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

/// A tolerance of nothing: rows of the same time.
pub(crate) const NO_TIME: &str = "0n";

/// What has a length of time.
#[derive(Clone, Copy)]
pub(super) enum LengthOf {
    Tolerance,
    WindowEnd,
    Offset,
}

impl LengthOf {
    /// What errors call it.
    fn word(self) -> &'static str {
        match self {
            Self::Tolerance => "a tolerance",
            Self::WindowEnd => "a window's end",
            Self::Offset => "an offset",
        }
    }
}

/// A length of time: `50T` as text, or an expression such as INTERVAL '5 seconds'.
pub(super) fn length(cursor: &mut Cursor<'_>, of: LengthOf) -> Result<Expr> {
    let (position, what) = (cursor.position(), of.word());
    match (cursor.peek(), of) {
        (Some(Token::Number(digits, _)), LengthOf::Tolerance) if digits == "0" => {
            cursor.skip(1);
            let unit = cursor.name("a unit such as s")?;
            // Any unit that there is: nothing is as long in all of them.
            let known = Stride::parse(&unit).map(|_| text(NO_TIME, position));
            known.ok_or_else(|| no_duration(&format!("0{unit}"), position))
        }
        (Some(Token::Number(..) | Token::SingleQuotedString(_)), _) => {
            let stride = stride(cursor)?;
            if stride.nanos().is_none() {
                let message = format!("{what} has a fixed length, not months or years");
                return Err(SqlError::new(message, position));
            }
            Ok(text(&stride.to_string(), position))
        }
        (Some(Token::Minus), LengthOf::Tolerance) => {
            Err(SqlError::new("a tolerance is not negative: it says how old a match may be", position)
                .hint("write TOLERANCE 5s, or leave it out for a match of any age"))
        }
        (Some(Token::Minus), _) => Err(SqlError::new(format!("{what} has no sign"), position)
            .hint("PRECEDING and FOLLOWING say on which side it lies")),
        _ => cursor.expression(),
    }
}

/// `5m` or `'5m'`.
pub(super) fn stride(cursor: &mut Cursor<'_>) -> Result<Stride> {
    let position = cursor.position();
    let written = match (cursor.peek(), cursor.ahead(1)) {
        (Some(Token::Number(digits, _)), Some(Token::Word(unit))) => {
            cursor.skip(2);
            format!("{digits}{}", unit.value)
        }
        (Some(Token::SingleQuotedString(text)), _) => {
            cursor.skip(1);
            text.clone()
        }
        _ => return Err(cursor.expected("a duration such as 5m").hint(STRIDE_HINT)),
    };
    Stride::parse(&written).ok_or_else(|| no_duration(&written, position))
}

fn no_duration(written: &str, position: Position) -> SqlError {
    SqlError::new(format!("'{written}' is no duration"), position).hint(STRIDE_HINT)
}
