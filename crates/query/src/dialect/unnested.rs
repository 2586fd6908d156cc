//! Queries of WITH and in FROM that have `unnest`, or group the rows of a join or of another query, become markers: a GROUP
//! BY above them goes by the keys that planning knows of their rows, and must not know of any ([`crate::operators`]).

use super::SqlError;
use super::cursor::Result;
use super::marker::{place, simple_name, unkeyed_factor};
use super::restructure::{all_of_a_table, set_from};
use super::volatile::reads;
use super::walks::{has_expr, walk_mut};
use sqlparser::ast::{Expr, GroupByExpr, Query, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// See the file's header.
///
/// # Errors
/// None of its own.
pub(super) fn mark(node: &mut impl VisitMut) -> Result<()> {
    match walk_mut(node, &mut Mark) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Mark;

impl VisitorMut for Mark {
    type Break = SqlError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            // Of a recursive query nothing is known.
            if reads(&cte.query, &cte.alias.name.value) == 0
                && (is_to_mark(&cte.query.body) || joins(&cte.query.body))
                && let Err(error) = wrap(&mut cte.query)
            {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Derived { lateral: false, subquery, .. } if is_to_mark(&subquery.body) => {
                match wrap(subquery) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn wrap(query: &mut Box<Query>) -> Result<()> {
    let position = place(&**query);
    let inner = std::mem::replace(query, all_of_a_table()?);
    set_from(query, unkeyed_factor(inner, position));
    Ok(())
}

/// Whether a list of SELECT has `unnest`, or its rows are groups of those of a join or of another query.
fn is_to_mark(body: &SetExpr) -> bool {
    let is_unnest = |expr: &Expr| matches!(expr, Expr::Function(call) if simple_name(&call.name).is_some_and(|name| name.eq_ignore_ascii_case("unnest")));
    match body {
        SetExpr::Select(select) => {
            let is_query = |from: &TableWithJoins| !matches!(from.relation, TableFactor::Table { .. });
            let joins = joins(body) || select.from.iter().any(is_query);
            let groups = match &select.group_by {
                GroupByExpr::All(_) => true,
                GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
            };
            joins && (groups || select.distinct.is_some()) || has_expr(&select.projection, &is_unnest)
        }
        SetExpr::Query(query) => is_to_mark(&query.body),
        SetExpr::SetOperation { left, right, .. } => is_to_mark(left) || is_to_mark(right),
        _ => false,
    }
}

/// Whether a query joins: a table of WITH that is grouped where it is read is not seen to.
fn joins(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty())
        }
        SetExpr::Query(query) => joins(&query.body),
        SetExpr::SetOperation { left, right, .. } => joins(left) || joins(right),
        _ => false,
    }
}
