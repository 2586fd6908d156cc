//! WINDOW, HORIZON and SPLICE JOIN: how their clauses travel to the relation planner.
//!
//! The clause becomes the match condition of an as-of join as the parser knows it: a call of
//! `__series_join(kind => 'WINDOW JOIN', …)`. A SELECT over a WINDOW JOIN becomes
//! `SELECT * FROM __window_select(query => (SELECT …))`, since its aggregates belong to the join.

use super::clause::{SeriesJoinClause, SeriesJoinKind, side_of};
use super::cursor::Result;
use super::marker::{arguments, asof_call, factor, named, place, query_of, simple_name, text, text_of};
use super::{Position, SqlError};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, Query,
    Select, TableFactor, TableWithJoins,
};

/// The call that carries the clause.
const SERIES_JOIN: &str = "__series_join";

/// The table function that stands for a SELECT over a WINDOW JOIN.
pub(super) const WINDOW_SELECT: &str = "__window_select";

/// The join operator that stands for the clause.
pub(super) fn operator(clause: SeriesJoinClause) -> JoinOperator {
    let mut args = vec![named("kind", text(clause.kind.word(), clause.position))];
    args.extend(clause.args);
    asof_call(SERIES_JOIN, args, clause.keys, clause.position)
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
