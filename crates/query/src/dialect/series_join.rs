//! WINDOW, HORIZON and SPLICE JOIN: what follows their right side, cut out of the text, and how it travels to
//! the relation planner.
//!
//! ```text
//! a WINDOW JOIN b [ON …] RANGE BETWEEN 5s PRECEDING AND 1s FOLLOWING [INCLUDE | EXCLUDE PREVAILING]
//! a HORIZON JOIN b [ON …] RANGE FROM -1s TO 5m STEP 1s AS h      (or LIST (0, 1s, 5s) AS h)
//! a SPLICE JOIN b [ON …]
//! ```
//!
//! The clause becomes the match condition of an as-of join as the parser knows it: a call of
//! `__series_join(kind => 'WINDOW JOIN', …)`. A SELECT over a WINDOW JOIN becomes
//! `SELECT * FROM __window_select(query => (SELECT …))`, since its aggregates belong to the join.

use super::clause::{length, text};
use super::cursor::{Cursor, Result};
use super::marker::{arguments, asof_call, factor, named, place, query_of, simple_name, text_of};
use super::{Position, SqlError};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, Query,
    Select, TableFactor, TableWithJoins,
};
use sqlparser::tokenizer::Token;

/// The call that carries the clause.
const SERIES_JOIN: &str = "__series_join";

/// The table function that stands for a SELECT over a WINDOW JOIN.
pub(super) const WINDOW_SELECT: &str = "__window_select";

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
    const ALL: [Self; 3] = [Self::Window, Self::Horizon, Self::Splice];

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
        let first = |kind: Self| match kind {
            Self::Window => "WINDOW",
            Self::Horizon => "HORIZON",
            Self::Splice => "SPLICE",
        };
        Self::ALL.into_iter().find(|kind| cursor.words(&[first(*kind), "JOIN"]))
    }
}

/// What follows the right side of such a join.
#[derive(Debug, Clone)]
pub(super) struct SeriesJoinClause {
    pub(super) position: Position,
    pub(super) kind: SeriesJoinKind,
    on: Option<Expr>,
    using: Vec<String>,
    /// What the call carries.
    args: Vec<FunctionArg>,
}

/// Whether a tail of such a join begins here, and the right side ends.
pub(super) fn begins_tail(cursor: &Cursor<'_>) -> bool {
    cursor.words(&["RANGE", "BETWEEN"])
        || cursor.words(&["RANGE", "FROM"])
        || (cursor.words(&["LIST"]) && cursor.ahead(1) == Some(&Token::LParen))
        || SeriesJoinKind::begins(cursor).is_some()
}

/// Reads ON or USING and what the kind asks for after it.
pub(super) fn clause(
    cursor: &mut Cursor<'_>,
    kind: SeriesJoinKind,
    position: Position,
) -> Result<SeriesJoinClause> {
    let (mut on, mut using) = (None, Vec::new());
    if cursor.eat(&["ON"]) {
        on = Some(cursor.expression()?);
    } else if cursor.eat(&["USING"]) {
        using = cursor.names("a column of both sides")?;
    }
    let args = match kind {
        SeriesJoinKind::Window => window(cursor)?,
        SeriesJoinKind::Horizon => horizon(cursor)?,
        SeriesJoinKind::Splice => Vec::new(),
    };
    if cursor.words(&["TOLERANCE"]) {
        return Err(SqlError::new(format!("{} takes no TOLERANCE", kind.word()), cursor.position())
            .hint("ASOF JOIN and LT JOIN do"));
    }
    Ok(SeriesJoinClause { position, kind, on, using, args })
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
    let length = amount(cursor, "a window's end")?;
    let position = cursor.position();
    let side = ["PRECEDING", "FOLLOWING"].into_iter().find(|side| cursor.eat(&[side]));
    let side = side.ok_or_else(|| cursor.expected("PRECEDING or FOLLOWING"))?;
    args.push(named(name, length));
    args.push(named(side_of(name), text(side, position)));
    Ok(())
}

fn side_of(name: &str) -> &'static str {
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
        loop {
            args.push(named("at", offset(cursor).map_err(hinted)?));
            if cursor.eat_token(&Token::RParen) {
                break;
            }
            cursor.expect_token(&Token::Comma).map_err(hinted)?;
        }
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
    let length = amount(cursor, "an offset")?;
    Ok(match (minus, text_of(&length)) {
        (false, _) => length,
        (true, Some(written)) => text(&format!("-{written}"), position),
        (true, None) => Expr::UnaryOp { op: sqlparser::ast::UnaryOperator::Minus, expr: Box::new(length) },
    })
}

fn followed_by_unit(cursor: &Cursor<'_>) -> bool {
    matches!(cursor.ahead(1), Some(Token::Word(word))
        if !["PRECEDING", "FOLLOWING", "TO", "STEP", "AS"].iter().any(|end| word.value.eq_ignore_ascii_case(end)))
}

/// `5s`, `5 seconds`, `INTERVAL '5 seconds'`.
fn amount(cursor: &mut Cursor<'_>, what: &str) -> Result<Expr> {
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
    length(cursor, what)
}

/// The join operator that stands for the clause.
pub(super) fn operator(clause: SeriesJoinClause) -> JoinOperator {
    let mut args = vec![named("kind", text(clause.kind.word(), clause.position))];
    args.extend(clause.args);
    asof_call(SERIES_JOIN, args, clause.on, clause.using, clause.position)
}

/// One of these joins, as the planner reads it.
#[derive(Debug, Clone)]
pub(crate) struct SeriesJoinMarker {
    pub(crate) spec: SeriesJoinSpec,
    /// Where the join stands.
    pub(crate) position: Position,
}

/// What a kind of join is told.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(crate) enum SeriesJoinSpec {
    Window { low: Bound, high: Bound, prevailing: bool },
    Horizon { offsets: Offsets, alias: Ident },
    Splice,
}

/// An end of a window.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// Whether it lies before the left row's time.
    pub(crate) preceding: bool,
    pub(crate) length: Expr,
}

/// The offsets of a horizon: texts such as `-5s`, or intervals.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
#[derive(Debug, Clone)]
pub(crate) enum Offsets {
    Range { from: Expr, to: Expr, step: Expr },
    List(Vec<Expr>),
}

impl SeriesJoinMarker {
    /// The kind of a join's operator.
    pub(crate) fn kind(join: &Join) -> Option<SeriesJoinKind> {
        let (args, _) = call(join)?;
        let kind = arguments(args, "kind").next().and_then(text_of)?;
        SeriesJoinKind::ALL.into_iter().find(|known| known.word() == kind)
    }

    /// The marker in a join's operator.
    pub(crate) fn read(join: &Join) -> Option<(Self, JoinConstraint)> {
        let (args, position) = call(join)?;
        let JoinOperator::AsOf { constraint, .. } = &join.join_operator else { return None };
        let one = |name: &'static str| arguments(args, name).next().cloned();
        let word = |name: &'static str| one(name).as_ref().and_then(text_of);
        let spec = match Self::kind(join)? {
            SeriesJoinKind::Window => {
                let bound = |name: &'static str| {
                    let preceding = word(side_of(name)).as_deref() == Some("PRECEDING");
                    Some(Bound { preceding, length: one(name)? })
                };
                let prevailing = word("prevailing").is_none();
                SeriesJoinSpec::Window { low: bound("low")?, high: bound("high")?, prevailing }
            }
            SeriesJoinKind::Horizon => {
                let offsets = match (one("from"), one("to"), one("step")) {
                    (Some(from), Some(to), Some(step)) => Offsets::Range { from, to, step },
                    _ => Offsets::List(arguments(args, "at").cloned().collect()),
                };
                let Some(Expr::Identifier(alias)) = one("alias") else { return None };
                SeriesJoinSpec::Horizon { offsets, alias }
            }
            SeriesJoinKind::Splice => SeriesJoinSpec::Splice,
        };
        Some((Self { spec, position }, constraint.clone()))
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.spec {
            SeriesJoinSpec::Window { .. } => SeriesJoinKind::Window.word(),
            SeriesJoinSpec::Horizon { .. } => SeriesJoinKind::Horizon.word(),
            SeriesJoinSpec::Splice => SeriesJoinKind::Splice.word(),
        }
    }
}

/// What a join's operator carries, and where it stands.
fn call(join: &Join) -> Option<(&[FunctionArg], Position)> {
    let JoinOperator::AsOf { match_condition: Expr::Function(call), .. } = &join.join_operator else {
        return None;
    };
    let FunctionArguments::List(list) = &call.args else { return None };
    (simple_name(&call.name) == Some(SERIES_JOIN)).then(|| (&list.args[..], place(&call.name)))
}

/// The name that a HORIZON JOIN gives its offsets.
pub(super) fn horizon_alias(expr: &Expr) -> Option<&Ident> {
    let Expr::Function(call) = expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    match arguments(&list.args, "alias").next() {
        Some(Expr::Identifier(alias)) if simple_name(&call.name) == Some(SERIES_JOIN) => Some(alias),
        _ => None,
    }
}

/// A SELECT over a WINDOW JOIN.
#[derive(Debug, Clone)]
pub(crate) struct WindowSelect {
    pub(crate) query: Box<Query>,
    pub(crate) position: Position,
}

impl WindowSelect {
    /// Where the WINDOW JOIN stands that a SELECT reads.
    ///
    /// # Errors
    /// [`SqlError`] where it is not the last join, or a GROUP BY stands beside it.
    pub(super) fn of(select: &Select) -> Result<Option<Position>> {
        let Some(position) = select.from.iter().find_map(window_in) else { return Ok(None) };
        let last = match select.from.as_slice() {
            [TableWithJoins { relation: TableFactor::NestedJoin { table_with_joins, .. }, joins }] => {
                joins.is_empty() && table_with_joins.joins.last().is_some_and(is_window)
            }
            _ => false,
        };
        if !last {
            return Err(SqlError::new("WINDOW JOIN is the last join of its FROM", position)
                .hint("put it into a sub-query, and join what that yields"));
        }
        match &select.group_by {
            GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty() => {
                Ok(Some(position))
            }
            _ => Err(SqlError::new("WINDOW JOIN and GROUP BY (SAMPLE BY, LATEST ON) exclude each other", position).hint(
                "WINDOW JOIN has one row for each left row: put it into a sub-query and group what that yields",
            )),
        }
    }

    /// The table factor that stands for the SELECT.
    pub(super) fn factor(query: Box<Query>, position: Position) -> TableFactor {
        factor(WINDOW_SELECT, vec![named("query", Expr::Subquery(query))], position)
    }

    pub(super) fn read(args: &[FunctionArg], position: Position) -> Option<Self> {
        Some(Self { query: query_of(arguments(args, "query").next()?)?, position })
    }
}

fn is_window(join: &Join) -> bool {
    SeriesJoinMarker::kind(join) == Some(SeriesJoinKind::Window)
}

/// A WINDOW JOIN among the joins of a FROM item, brackets looked into.
fn window_in(from: &TableWithJoins) -> Option<Position> {
    let here = from.joins.iter().find(|join| is_window(join)).and_then(call).map(|(_, position)| position);
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => window_in(table_with_joins),
        _ => None,
    };
    here.or_else(|| nested(&from.relation))
        .or_else(|| from.joins.iter().find_map(|join| nested(&join.relation)))
}
