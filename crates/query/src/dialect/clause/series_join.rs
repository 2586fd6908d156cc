//! WINDOW, HORIZON and SPLICE JOIN: what follows their right side.
//!
//! ```text
//! a WINDOW JOIN b [ON …] RANGE BETWEEN 5s PRECEDING AND 1s FOLLOWING [INCLUDE | EXCLUDE PREVAILING]
//! a HORIZON JOIN b [ON …] RANGE FROM -1s TO 5m STEP 1s AS h      (or LIST (0, 1s, 5s) AS h)
//! a SPLICE JOIN b [ON …]
//! ```

use super::joins::keys;
use super::lengths::{LengthOf, length};
use super::{Cursor, Position, Result, SqlError};
use crate::dialect::marker::{named, text, text_of};
use sqlparser::ast::{Expr, FunctionArg, Ident, JoinConstraint, UnaryOperator};
use sqlparser::tokenizer::Token;

/// What bounds and offsets may look like.
const BOUNDS_HINT: &str = "write RANGE BETWEEN 5s PRECEDING AND 1s FOLLOWING; both ends are inside";
const OFFSETS_HINT: &str = "write RANGE FROM -1s TO 5m STEP 1s AS h, or LIST (0, 1s, 5s) AS h";

/// Joins that look at rows around a left row's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SeriesJoinKind {
    /// Aggregates of the right rows around each left row.
    Window,
    /// The prevailing right row at some offsets from each left row.
    Horizon,
    /// The rows of both sides, each with the prevailing one of the other.
    Splice,
}

impl SeriesJoinKind {
    pub(crate) const ALL: [Self; 3] = [Self::Window, Self::Horizon, Self::Splice];

    /// What errors call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Window => "WINDOW JOIN",
            Self::Horizon => "HORIZON JOIN",
            Self::Splice => "SPLICE JOIN",
        }
    }

    /// The join that begins here, in two words.
    pub(super) fn begins(cursor: &Cursor<'_>) -> Option<Self> {
        let begins = |first: &str| cursor.words(&[first, "JOIN"]);
        Self::ALL.into_iter().find(|kind| kind.word().strip_suffix(" JOIN").is_some_and(begins))
    }
}

/// What follows the right side of such a join.
#[derive(Debug, Clone)]
pub(in crate::dialect) struct SeriesJoinClause {
    pub(crate) position: Position,
    pub(crate) kind: SeriesJoinKind,
    /// ON or USING.
    pub(crate) keys: JoinConstraint,
    /// What the call carries.
    pub(crate) args: Vec<FunctionArg>,
}

/// Whether a tail of such a join begins here, and the right side ends.
pub(super) fn begins_tail(cursor: &Cursor<'_>) -> bool {
    cursor.words(&["RANGE", "BETWEEN"])
        || cursor.words(&["RANGE", "FROM"])
        || (cursor.words(&["LIST"]) && cursor.ahead(1) == Some(&Token::LParen))
        || SeriesJoinKind::begins(cursor).is_some()
}

/// Reads ON or USING and what the kind asks for after it.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    kind: SeriesJoinKind,
    position: Position,
) -> Result<SeriesJoinClause> {
    let keys = keys(cursor)?;
    let args = match kind {
        SeriesJoinKind::Window => window(cursor)?,
        SeriesJoinKind::Horizon => horizon(cursor)?,
        SeriesJoinKind::Splice => Vec::new(),
    };
    if cursor.words(&["TOLERANCE"]) {
        return Err(SqlError::new(format!("{} takes no TOLERANCE", kind.word()), cursor.position())
            .hint("ASOF JOIN and LT JOIN do"));
    }
    Ok(SeriesJoinClause { position, kind, keys, args })
}

fn window(cursor: &mut Cursor<'_>) -> Result<Vec<FunctionArg>> {
    let hinted = |error: SqlError| if error.hint.is_none() { error.hint(BOUNDS_HINT) } else { error };
    cursor.expect(&["RANGE", "BETWEEN"]).map_err(hinted)?;
    let mut args = Vec::with_capacity(5);
    bound(cursor, "low", &mut args).map_err(hinted)?;
    cursor.expect(&["AND"]).map_err(hinted)?;
    bound(cursor, "high", &mut args).map_err(hinted)?;
    if cursor.eat(&["EXCLUDE", "PREVAILING"]) {
        args.push(named("prevailing", text("EXCLUDE", cursor.position())));
    } else if !cursor.eat(&["INCLUDE", "PREVAILING"])
        && (cursor.words(&["INCLUDE"]) || cursor.words(&["EXCLUDE"]))
    {
        cursor.skip(1);
        return Err(cursor.expected("PREVAILING"));
    }
    Ok(args)
}

/// `5s PRECEDING`, `CURRENT ROW`.
fn bound(cursor: &mut Cursor<'_>, name: &str, args: &mut Vec<FunctionArg>) -> Result<()> {
    if cursor.words(&["UNBOUNDED"]) {
        return Err(SqlError::new("a window of WINDOW JOIN has two ends", cursor.position())
            .hint("give a length, such as 1d PRECEDING"));
    }
    if cursor.eat(&["CURRENT", "ROW"]) {
        args.push(named(name, text("0", cursor.position())));
        return Ok(());
    }
    let length = amount(cursor, LengthOf::WindowEnd)?;
    let position = cursor.position();
    let side = ["PRECEDING", "FOLLOWING"].into_iter().find(|side| cursor.eat(&[side]));
    let side = side.ok_or_else(|| cursor.expected("PRECEDING or FOLLOWING"))?;
    args.push(named(name, length));
    args.push(named(side_of(name), text(side, position)));
    Ok(())
}

pub(in crate::dialect) fn side_of(name: &str) -> &'static str {
    if name == "low" { "low_side" } else { "high_side" }
}

fn horizon(cursor: &mut Cursor<'_>) -> Result<Vec<FunctionArg>> {
    let hinted = |error: SqlError| if error.hint.is_none() { error.hint(OFFSETS_HINT) } else { error };
    let mut args = Vec::new();
    if cursor.eat(&["RANGE"]) {
        for (word, name) in [("FROM", "from"), ("TO", "to"), ("STEP", "step")] {
            cursor.expect(&[word]).map_err(hinted)?;
            args.push(named(name, offset(cursor).map_err(hinted)?));
        }
    } else if cursor.eat(&["LIST"]) {
        cursor.expect_token(&Token::LParen).map_err(hinted)?;
        let offsets = cursor.list(offset).map_err(hinted)?;
        args.extend(offsets.into_iter().map(|offset| named("at", offset)));
    } else {
        return Err(cursor.expected("RANGE FROM or LIST").hint(OFFSETS_HINT));
    }
    cursor.expect(&["AS"]).map_err(hinted)?;
    let quote = match cursor.peek() {
        Some(Token::Word(word)) => word.quote_style,
        _ => None,
    };
    let alias = cursor.name("a name for the horizon, whose column is name.offset")?;
    args.push(named("alias", Expr::Identifier(Ident { quote_style: quote, ..Ident::new(alias) })));
    Ok(args)
}

/// A length of time with a sign.
fn offset(cursor: &mut Cursor<'_>) -> Result<Expr> {
    let position = cursor.position();
    let minus = cursor.eat_token(&Token::Minus);
    if let (Some(Token::Number(digits, _)), false) = (cursor.peek(), followed_by_unit(cursor)) {
        if digits.chars().all(|digit| digit == '0') {
            cursor.skip(1);
            return Ok(text("0", position));
        }
        return Err(SqlError::new("an offset has a unit", position).hint("write 5s, 100T (ms), 1m"));
    }
    let length = amount(cursor, LengthOf::Offset)?;
    Ok(match (minus, text_of(&length)) {
        (false, _) => length,
        (true, Some(written)) => text(&format!("-{written}"), position),
        (true, None) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(length) },
    })
}

fn followed_by_unit(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.ahead(1), Some(Token::Word(word))
        if !["PRECEDING", "FOLLOWING", "TO", "STEP", "AS"].iter().any(|end| word.value.eq_ignore_ascii_case(end)))
}

/// `5s`, `5 seconds`, `INTERVAL '5 seconds'`.
fn amount(cursor: &mut Cursor<'_>, of: LengthOf) -> Result<Expr> {
    let units = [
        ("nanosecond", "n"),
        ("microsecond", "U"),
        ("millisecond", "T"),
        ("second", "s"),
        ("minute", "m"),
        ("hour", "h"),
        ("day", "d"),
    ];
    let position = cursor.position();
    if let (Some(Token::Number(digits, _)), Some(Token::Word(word))) = (cursor.peek(), cursor.ahead(1)) {
        if digits.chars().all(|digit| digit == '0') {
            cursor.skip(if followed_by_unit(cursor) { 2 } else { 1 });
            return Ok(text("0", position));
        }
        let word = word.value.to_lowercase();
        let named = |unit: &str| word.strip_prefix(unit).is_some_and(|rest| rest.is_empty() || rest == "s");
        if let Some((_, letter)) = units.into_iter().find(|(unit, _)| named(unit)) {
            let written = format!("{digits}{letter}");
            cursor.skip(2);
            return Ok(text(&written, position));
        }
    }
    length(cursor, of)
}
