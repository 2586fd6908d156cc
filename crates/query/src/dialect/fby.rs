//! kdb+'s `fby`: `fby(max(size), venue)` is the aggregate of all rows that have the row's venue, which is
//! `max(size) OVER (PARTITION BY venue)`.
//!
//! In WHERE, where no window may stand, it goes by the rows that the other conditions leave, as a later condition of
//! q's does: the table becomes a sub-query with the others in its WHERE and these in its QUALIFY.

use super::cursor::{Result, parser_error};
use super::marker::place as place_of;
use super::walks::{each_expr, has_expr};
use super::{Position, SqlError};
use crate::facts::is_of_windows;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Query, Select, SetExpr, TableAlias, TableFactor, TableWithJoins, WindowSpec, WindowType,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

const FBY: &str = "fby";
const HINT: &str = "write fby(max(size), venue), or fby(max(size), venue, symbol)";

/// Makes each fby of a SELECT a window.
///
/// # Errors
/// Where it takes no aggregate, or is in the WHERE of a SELECT that reads more than one table.
pub(super) fn place(select: &mut Select) -> Result<()> {
    if !has_expr(select, &is_fby) {
        return Ok(());
    }
    let elsewhere = select.having.as_ref().is_some_and(|having| has_expr(having, &is_fby))
        || has_expr(&select.group_by, &is_fby)
        || has_expr(&select.from, &is_fby);
    if elsewhere {
        let at = select.from.first().map_or_else(Default::default, |from| place_of(&from.relation));
        return Err(SqlError::new("fby stands in SELECT, WHERE, QUALIFY and ORDER BY", at)
            .hint("make a column of it in a sub-query, and use that"));
    }
    if let Some(selection) = select.selection.take() {
        let (mut rest, mut by) = (None, None);
        for part in conjuncts(selection) {
            let all = if has_expr(&part, &is_fby) { &mut by } else { &mut rest };
            *all = Some(match all.take() {
                Some(left) => {
                    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(part) }
                }
                None => part,
            });
        }
        match by {
            Some(by) => select.from = vec![chosen(std::mem::take(&mut select.from), rest, by)?],
            None => select.selection = rest,
        }
    }
    let mut wrong = None;
    each_expr(select, &mut |expr| become_window(expr, &mut wrong));
    right(wrong)
}

/// The same in the ORDER BY of a query.
///
/// # Errors
/// Where it takes no aggregate.
pub(super) fn place_in_order(query: &mut Query) -> Result<()> {
    let mut wrong = None;
    if let Some(order_by) = query.order_by.as_mut().filter(|order_by| has_expr(*order_by, &is_fby)) {
        each_expr(order_by, &mut |expr| become_window(expr, &mut wrong));
    }
    right(wrong)
}

fn right(wrong: Option<Position>) -> Result<()> {
    match wrong {
        Some(at) => Err(SqlError::new("fby takes an aggregate and what it is by", at).hint(HINT)),
        None => Ok(()),
    }
}

fn become_window(expr: &mut Expr, wrong: &mut Option<Position>) {
    if is_fby(expr) {
        match window(expr) {
            Some(window) => *expr = window,
            None => *wrong = Some(place_of(expr)),
        }
    }
}

fn is_fby(expr: &Expr) -> bool {
    let Expr::Function(Function { name, over: None, .. }) = expr else { return false };
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case(FBY)))
}

/// The window that a call is.
fn window(call: &Expr) -> Option<Expr> {
    let Expr::Function(Function {
        args: FunctionArguments::List(FunctionArgumentList { args, duplicate_treatment: None, clauses }),
        filter: None,
        null_treatment: None,
        within_group,
        ..
    }) = call
    else {
        return None;
    };
    if !clauses.is_empty() || !within_group.is_empty() {
        return None;
    }
    let plain = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let mut plain = plain.collect::<Option<Vec<Expr>>>()?.into_iter();
    let Some(Expr::Function(aggregate)) = plain.next() else { return None };
    let partition_by: Vec<Expr> = plain.collect();
    let is_aggregate = match aggregate.name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| !is_of_windows(&name.value)),
        _ => true,
    };
    if !is_aggregate || aggregate.over.is_some() || partition_by.is_empty() {
        return None;
    }
    let spec = WindowSpec { window_name: None, partition_by, order_by: Vec::new(), window_frame: None };
    Some(Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), ..aggregate }))
}

/// What is joined by AND.
fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(*left);
            all.extend(conjuncts(*right));
            all
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(*inner)
        }
        other => vec![other],
    }
}

/// The rows of a table that fulfil `rest`, and of those the ones that fulfil `by`.
fn chosen(from: Vec<TableWithJoins>, rest: Option<Expr>, by: Expr) -> Result<TableWithJoins> {
    let alias = match from.as_slice() {
        [TableWithJoins { relation, joins }] if joins.is_empty() => alias_of(relation),
        _ => None,
    };
    let Some(alias) = alias else {
        return Err(SqlError::new("fby in WHERE is about one table", place_of(&by))
            .hint("put the join in a sub-query: FROM (SELECT … FROM a JOIN b …) AS j WHERE … fby(…)"));
    };
    let parsed = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t");
    let mut query =
        parsed.and_then(|mut parser| parser.parse_query()).map_err(|e| parser_error(e, place_of(&by)))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        (select.from, select.selection, select.qualify) = (from, rest, Some(by));
    }
    Ok(TableWithJoins { relation: derived(query, alias), joins: Vec::new() })
}

fn derived(subquery: Box<Query>, alias: TableAlias) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
}

/// What a relation is called.
fn alias_of(relation: &TableFactor) -> Option<TableAlias> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.clone())
        }
        TableFactor::Table { name, .. } => {
            let name = name.0.last()?.as_ident()?.clone();
            Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
        }
        _ => None,
    }
}
