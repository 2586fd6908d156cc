//! Queries of WITH and in FROM that have `unnest`, or group the rows of a join or of another query, become markers: a GROUP
//! BY above them goes by the keys that planning knows of their rows, and must not know of any ([`crate::operators`]).
//!
//! `FROM t, unnest(t.a) AS v(x)`, with LATERAL or without, becomes `FROM t, LATERAL (SELECT unnest(t.a) AS x) AS v`.

use super::SqlError;
use super::cursor::Result;
use super::marker::{call, place, simple_name, unkeyed_factor};
use super::restructure::{all_of_a_table, set_from};
use super::volatile::reads;
use super::walks::{has_expr, walk_mut};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, ObjectName, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
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

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        // What comes first reads the query around, if anything.
        if let Some(first) = select.from.first_mut()
            && let Err(error) = place_lists(&mut first.relation, false)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let Err(error) = place_lists(factor, true) {
            return ControlFlow::Break(error);
        }
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

/// Has a query give the elements of lists in FROM that are columns, `lateral` those of tables before it.
fn place_lists(factor: &mut TableFactor, lateral: bool) -> Result<()> {
    let (lists, alias) = match factor {
        TableFactor::Function { lateral: true, name, args, with_ordinality: false, alias }
            if is_unnest(name) =>
        {
            let list = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
                _ => None,
            };
            let Some(lists) = args.iter().map(list).collect::<Option<Vec<Expr>>>() else { return Ok(()) };
            (lists, alias.take())
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. } => {
            (array_exprs.clone(), alias.take())
        }
        _ => return Ok(()),
    };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if !has_expr(&lists, &is_column) {
        *factor = TableFactor::UNNEST {
            alias,
            array_exprs: lists,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
        return Ok(());
    }
    let mut alias = alias;
    let mut subquery = all_of_a_table()?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.from.clear();
        // One without a name is called as the table.
        let names = alias.as_mut().map(|alias| std::mem::take(&mut alias.columns)).unwrap_or_default();
        let table = alias.as_ref().map(|alias| alias.name.clone()).filter(|_| lists.len() == 1);
        let mut names = names.into_iter().map(|column| column.name).chain(table);
        select.projection = lists
            .into_iter()
            .map(|list| {
                let expr = call("unnest", vec![list]);
                match names.next() {
                    Some(alias) => SelectItem::ExprWithAlias { expr, alias },
                    None => SelectItem::UnnamedExpr(expr),
                }
            })
            .collect();
    }
    *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
    Ok(())
}

fn is_unnest(name: &ObjectName) -> bool {
    simple_name(name).is_some_and(|name| name.eq_ignore_ascii_case("unnest"))
}

fn wrap(query: &mut Box<Query>) -> Result<()> {
    let position = place(&**query);
    let inner = std::mem::replace(query, all_of_a_table()?);
    set_from(query, unkeyed_factor(inner, position));
    Ok(())
}

/// Whether a list of SELECT has `unnest`, or its rows are groups of those of a join or of another query.
fn is_to_mark(body: &SetExpr) -> bool {
    let calls = |expr: &Expr| matches!(expr, Expr::Function(call) if is_unnest(&call.name));
    match body {
        SetExpr::Select(select) => {
            let is_query = |from: &TableWithJoins| !matches!(from.relation, TableFactor::Table { .. });
            let joins = joins(body) || select.from.iter().any(is_query);
            let groups = match &select.group_by {
                GroupByExpr::All(_) => true,
                GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
            };
            joins && (groups || select.distinct.is_some()) || has_expr(&select.projection, &calls)
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
