//! Sub-queries beside rows of values give rows, too: `(a, b) IN (SELECT x, y …)` asks `SELECT (__row_1, __row_2) FROM
//! (SELECT x, y …) AS __row (__row_1, __row_2)`, since DataFusion takes one column only ([`crate::rules::rows`]).

use super::SqlError;
use super::cursor::Result;
use super::marker::{place as place_of, simple_name};
use super::restructure::{all_of_a_table, set_from};
use super::walks::each_expr;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, VisitMut,
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

/// How many values a row has.
fn width(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => width(inner),
        Expr::Tuple(values) => Some(values.len()),
        Expr::Function(call)
            if simple_name(&call.name).is_some_and(|name| name.eq_ignore_ascii_case("row")) =>
        {
            match &call.args {
                FunctionArguments::List(list) => Some(list.args.len()),
                _ => None,
            }
        }
        _ => None,
    }
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
