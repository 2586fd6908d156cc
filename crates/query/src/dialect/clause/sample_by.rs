//! SAMPLE BY: buckets of time, and bars of a size.

use super::lengths::stride;
use super::{Clause, Cursor, Position, Result, SqlError};
use crate::dialect::marker::{text, text_of};
use crate::functions::bucket::Bucketing;
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

/// SAMPLE BY stride [FROM t0 TO t1] [FILL(…)] [ALIGN TO …], SAMPLE BY VOLUME(x) 100.
#[derive(Debug, Clone)]
pub(in crate::dialect) struct SampleClause {
    pub(crate) position: Position,
    pub(crate) every: Every,
    /// ALIGN TO FIRST OBSERVATION.
    pub(crate) from_first: bool,
    pub(crate) from: Option<Expr>,
    pub(crate) to: Option<Expr>,
    pub(crate) fill: Vec<Expr>,
    pub(crate) zone: Option<String>,
    pub(crate) offset: Option<String>,
}

/// What ends a bucket.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(in crate::dialect) enum Every {
    /// Time: a length as a text that is read already, or a placeholder for one.
    Time(Expr),
    /// What its rows add up to.
    Bar(BarClause),
}

/// VOLUME(x) limit, VALUE(x) limit, TICKS limit.
#[derive(Debug, Clone)]
pub(crate) struct BarClause {
    pub(crate) kind: BarKind,
    /// What each row adds; `None` for TICKS.
    pub(crate) of: Option<Expr>,
    /// The size at which a bar is full.
    pub(crate) limit: Expr,
}

/// How bars of a size are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum BarKind {
    /// VOLUME(x).
    Volume,
    /// VALUE(x): the same by another name.
    Value,
    /// TICKS: each row adds 1.
    Ticks,
}

impl BarKind {
    pub(crate) const ALL: [Self; 3] = [Self::Volume, Self::Value, Self::Ticks];

    /// The word after SAMPLE BY.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Volume => "VOLUME",
            Self::Value => "VALUE",
            Self::Ticks => "TICKS",
        }
    }
}

pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Clause> {
    let position = cursor.position();
    cursor.expect(&["SAMPLE", "BY"])?;
    let every = match BarKind::ALL.into_iter().find(|kind| cursor.words(&[kind.word()])) {
        Some(kind) => Every::Bar(bar(cursor, kind)?),
        None if cursor.is_placeholder(0) => Every::Time(cursor.expression()?),
        None => {
            let at = cursor.position();
            Every::Time(text(&stride(cursor)?.to_string(), at))
        }
    };
    let from = if cursor.eat(&["FROM"]) { Some(cursor.expression()?) } else { None };
    let to = if cursor.eat(&["TO"]) { Some(cursor.expression()?) } else { None };
    let mut fill = Vec::new();
    if cursor.eat(&["FILL"]) {
        cursor.expect_token(&Token::LParen)?;
        fill = cursor.list(Cursor::expression)?;
    }
    let mut clause =
        SampleClause { position, every, from_first: false, from, to, fill, zone: None, offset: None };
    align(cursor, &mut clause)?;
    Ok(Clause::Sample(clause))
}

/// `VOLUME(x) 100`, `VALUE(x) 1e6`, `TICKS 1000`.
fn bar(cursor: &mut Cursor<'_>, kind: BarKind) -> Result<BarClause> {
    let word = kind.word();
    cursor.expect(&[word])?;
    let of = match kind {
        BarKind::Ticks => None,
        BarKind::Volume | BarKind::Value => {
            if cursor.peek() != Some(&Token::LParen) {
                return Err(cursor.expected("'('").hint(format!(
                    "say what each row adds to a bar: SAMPLE BY {word}({}) 1000",
                    if kind == BarKind::Volume { "amount" } else { "price * amount" }
                )));
            }
            cursor.skip(1);
            let of = cursor.expression()?;
            cursor.expect_token(&Token::RParen)?;
            Some(of)
        }
    };
    if !cursor.is_placeholder(0)
        && !matches!(cursor.peek(), Some(Token::Number(..) | Token::Minus | Token::Plus))
    {
        return Err(cursor
            .expected("the size of a bar")
            .hint("write a number: VOLUME(amount) 100, TICKS 1000 or VALUE(price * amount) 1e6"));
    }
    let limit = cursor.expression()?;
    refuse_of_time(cursor, word)?;
    Ok(BarClause { kind, of, limit })
}

/// Refuses what only buckets of time have.
fn refuse_of_time(cursor: &Cursor<'_>, word: &str) -> Result<()> {
    let (clause, hint) = if cursor.words(&["FROM"]) || cursor.words(&["TO"]) {
        ("FROM … TO", "write WHERE ts >= … AND ts < … before SAMPLE BY")
    } else if cursor.words(&["FILL"]) {
        ("FILL", "there are no gaps to fill: a bar is there because rows are")
    } else if cursor.words(&["ALIGN"]) {
        ("ALIGN TO", "each bar begins with the row after the one that filled the last")
    } else {
        return Ok(());
    };
    Err(SqlError::new(format!("SAMPLE BY {word} takes no {clause}"), cursor.position()).hint(hint))
}

fn align(cursor: &mut Cursor<'_>, clause: &mut SampleClause) -> Result<()> {
    if !cursor.words(&["ALIGN"]) {
        return Ok(());
    }
    let position = cursor.position();
    cursor.expect(&["ALIGN", "TO"])?;
    if cursor.eat(&["FIRST", "OBSERVATION"]) {
        if clause.from.is_some() || clause.to.is_some() {
            return Err(SqlError::new("ALIGN TO FIRST OBSERVATION takes no FROM … TO", position)
                .hint("the first row says where buckets begin: choose it with WHERE before SAMPLE BY"));
        }
        for words in [["TIME", "ZONE"], ["WITH", "OFFSET"]] {
            if cursor.words(&words) {
                let message = format!("ALIGN TO FIRST OBSERVATION takes no {}", words.join(" "));
                return Err(SqlError::new(message, cursor.position())
                    .hint("buckets count from the first row, whatever the calendar says"));
            }
        }
        clause.from_first = true;
        return Ok(());
    }
    if !cursor.eat(&["CALENDAR"]) {
        return Err(cursor.expected("CALENDAR or FIRST OBSERVATION"));
    }
    if cursor.eat(&["TIME", "ZONE"]) {
        clause.zone = Some(cursor.text("the name of a time zone")?);
    }
    if cursor.eat(&["WITH", "OFFSET"]) {
        clause.offset = Some(cursor.text("an offset such as +09:30")?);
    }
    if let Every::Time(length) = &clause.every
        && let Some(stride) = text_of(length)
    {
        Bucketing::parse(&stride, clause.zone.as_deref(), clause.offset.as_deref())
            .map_err(|message| SqlError::new(message, position))?;
    }
    Ok(())
}
