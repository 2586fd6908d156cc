//! Sub-queries beside rows of values give rows, too: `(a, b) IN (SELECT x, y …)` asks `SELECT (__row_1, __row_2) FROM
//! (SELECT x, y …) AS __row (__row_1, __row_2)`, since DataFusion takes one column only ([`crate::rules::rows`]).
//!
//! Rows beside rows are compared value by value, as PostgreSQL does: `(a, b) < (c, d)` is `a < c OR a = c AND b < d`, and
//! `(a, b) IN ((1, 2), …)` says which of them equal. As structs a NULL would be a value that equals another.

use super::SqlError;
use super::cursor::Result;
use super::marker::{place as place_of, simple_name};
use super::restructure::{all_of_a_table, set_from};
use super::walks::each_expr;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, VisitMut,
};

/// What such rows are called as a table.
pub(crate) const ROW: &str = "__row";

/// See the file's header.
///
/// # Errors
/// None that a statement can cause.
pub(super) fn place(node: &mut impl VisitMut) -> Result<()> {
    let mut placed = Ok(());
    each_expr(node, &mut |expr| {
        if let Err(error) = placed_in(expr) {
            placed = Err(error);
        }
    });
    placed
}

fn placed_in(expr: &mut Expr) -> Result<()> {
    if let Some(compared) = by_values(expr) {
        *expr = compared;
        return Ok(());
    }
    match expr {
        Expr::InSubquery { expr: row, subquery, .. } => match width(row) {
            Some(width) => as_row(subquery, width),
            None => Ok(()),
        },
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
        | Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            let (Some(width), Some(subquery)) = (width(left), query(right)) else { return Ok(()) };
            as_row(subquery, width)?;
            let (row, subquery) = (left.clone(), subquery.clone());
            let negated = matches!(expr, Expr::AllOp { .. });
            *expr = Expr::InSubquery { expr: row, subquery, negated };
            Ok(())
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } => {
            // The row comes first.
            if is_query(left) && width(right).is_some() {
                std::mem::swap(left, right);
            }
            let (Some(width), Some(subquery)) = (width(left), query(right)) else { return Ok(()) };
            as_row(subquery, width)
        }
        Expr::AnyOp { left, compare_op: op, right, .. }
        | Expr::AllOp { left, compare_op: op, right }
        | Expr::BinaryOp { left, op, right }
            if width(left).is_some() && is_query(right) =>
        {
            let error =
                SqlError::new(format!("{op} does not compare a row with a sub-query"), place_of(&**left));
            Err(error.hint("=, <> and IN do; write out the order: a > x OR a = x AND b > y"))
        }
        _ => Ok(()),
    }
}

/// A comparison of rows value by value; `None` where it is none, or they have not as many values.
fn by_values(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => compared(&values(left)?, op, &values(right)?),
        Expr::InList { expr: row, list, negated } => {
            let row = values(row)?;
            let equal = |other: &Expr| compared(&row, &BinaryOperator::Eq, &values(other)?);
            let any = joined(list.iter().map(equal).collect::<Option<_>>()?, &BinaryOperator::Or)?;
            Some(match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) },
                false => any,
            })
        }
        _ => None,
    }
}

fn compared(left: &[&Expr], op: &BinaryOperator, right: &[&Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if left.len() != right.len() {
        return None;
    }
    let pairs = left.iter().zip(right);
    match op {
        Eq => {
            joined(pairs.map(|(left, right)| binary((*left).clone(), &Eq, (*right).clone())).collect(), &And)
        }
        NotEq => joined(
            pairs.map(|(left, right)| binary((*left).clone(), &NotEq, (*right).clone())).collect(),
            &Or,
        ),
        Lt | LtEq | Gt | GtEq => {
            let first = if matches!(op, Lt | LtEq) { &Lt } else { &Gt };
            pairs.rev().fold(None, |rest: Option<Expr>, (left, right)| {
                let pair = |op: &BinaryOperator| binary((*left).clone(), op, (*right).clone());
                Some(match rest {
                    None => pair(op),
                    Some(rest) => binary(pair(first), &Or, binary(pair(&Eq), &And, rest)),
                })
            })
        }
        _ => None,
    }
}

/// Conditions joined by an operator, as a tree of little depth; `None` of none.
fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut pairs = conditions.into_iter();
        let mut joined = Vec::with_capacity(pairs.len().div_ceil(2));
        while let Some(left) = pairs.next() {
            joined.push(match pairs.next() {
                Some(right) => binary(left, op, right),
                None => left,
            });
        }
        conditions = joined;
    }
    conditions.pop()
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let compared = Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    Expr::Nested(Box::new(compared))
}

/// The values of a row.
fn values(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Nested(inner) => values(inner),
        Expr::Tuple(values) => Some(values.iter().collect()),
        Expr::Function(call)
            if simple_name(&call.name).is_some_and(|name| name.eq_ignore_ascii_case("row")) =>
        {
            let FunctionArguments::List(list) = &call.args else { return None };
            let mut values = Vec::with_capacity(list.args.len());
            for arg in &list.args {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg else { return None };
                values.push(value);
            }
            Some(values)
        }
        _ => None,
    }
}

/// How many values a row has.
fn width(expr: &Expr) -> Option<usize> {
    values(expr).map(|values| values.len())
}

fn is_query(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_query(inner),
        other => matches!(other, Expr::Subquery(_)),
    }
}

fn query(expr: &mut Expr) -> Option<&mut Box<Query>> {
    match expr {
        Expr::Nested(inner) => query(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

fn as_row(query: &mut Box<Query>, width: usize) -> Result<()> {
    let names = (1..=width).map(|place| Ident::new(format!("{ROW}_{place}")));
    let columns = names.clone().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    let alias = TableAlias { explicit: true, name: Ident::new(ROW), columns, at: None };
    let inner = std::mem::replace(query, all_of_a_table()?);
    set_from(
        query,
        TableFactor::Derived { lateral: false, subquery: inner, alias: Some(alias), sample: None },
    );
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(Expr::Tuple(names.map(Expr::Identifier).collect()))];
    }
    Ok(())
}
