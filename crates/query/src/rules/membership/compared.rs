//! `x >= ALL (SELECT y …)` and `x < ANY (SELECT y …)`: x beside the largest or the smallest y.
//!
//! DataFusion 55.2 makes EXISTS of them in the optimizer, where columns are known by the old name already, and has joins
//! for EXISTS in conditions only. Here x is compared with `max(y)` or `min(y)`, scalar sub-queries that are joined by the
//! columns that are to be equal, or computed once. It is NULL where a y is NULL and the others do not decide it. Where the
//! y have no order, or are picked by other conditions than equalities, it is EXISTS by pairs of x and y.

use super::counted::rows;
use super::{Common, exists, first, is_correlated, null, outer, typed};
use crate::functions::{max, min};
use crate::rules::dependent::{is_refused, same_each_time};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery, lit,
};
use std::sync::Arc;

pub(super) fn compared(of: SetComparison, schema: &DFSchema, common: Common) -> Result<Expr> {
    let SetComparison { expr: x, subquery, op, quantifier } = of;
    let mut subquery = typed(subquery, &x.get_type(schema)?)?;
    if !is_correlated(&subquery) {
        // It is read several times.
        subquery.subquery = Arc::new(same_each_time(&subquery.subquery, common)?);
    }
    let is_all = quantifier == SetQuantifier::All;
    match extremes(&subquery, op, is_all)? {
        Some(extremes) => by_extremes(*x, op, extremes, &subquery, is_all),
        None => by_pairs(*x, op, &subquery, schema, is_all),
    }
}

/// Those of y that decide the comparison; `None` where it goes by pairs.
fn extremes(subquery: &Subquery, op: Operator, is_all: bool) -> Result<Option<Vec<Expr>>> {
    let functions: Vec<Arc<AggregateUDF>> = match (op, is_all) {
        (Operator::Gt | Operator::GtEq, true) | (Operator::Lt | Operator::LtEq, false) => vec![max()],
        (Operator::Lt | Operator::LtEq, true) | (Operator::Gt | Operator::GtEq, false) => vec![min()],
        (Operator::Eq | Operator::NotEq, _) => vec![min(), max()],
        _ => return Ok(None),
    };
    if !has_order(subquery.subquery.schema().field(0).data_type()) {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(functions.len());
    for function in functions {
        let none: [Expr; 0] = [];
        let extreme = function.call(vec![first(subquery)]).alias("extreme");
        let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
        let plan = plan.aggregate(none, [extreme])?.build()?;
        if is_refused(&plan, false) {
            return Ok(None);
        }
        found.push(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..subquery.clone() }));
    }
    Ok(Some(found))
}

/// Whether values are compared as `min` and `max` order them.
fn has_order(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => has_order(values),
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..) => true,
        of => of.is_numeric(),
    }
}

fn by_extremes(
    x: Expr,
    op: Operator,
    extremes: Vec<Expr>,
    subquery: &Subquery,
    is_all: bool,
) -> Result<Expr> {
    let both = if is_all { Operator::And } else { Operator::Or };
    let each = extremes.into_iter().map(|extreme| binary(x.clone(), op, extreme));
    let Some(decided) = each.reduce(|one, other| binary(one, both, other)) else { return Ok(null()) };
    let mut cases = vec![(Box::new(rows(subquery, None)?.eq(lit(0_i64))), Box::new(lit(is_all)))];
    if subquery.subquery.schema().field(0).is_nullable() {
        let any_null = rows(subquery, Some(first(subquery).is_null()))?.gt(lit(0_i64));
        cases.push((Box::new(any_null), Box::new(binary(decided.clone(), both, null()))));
    }
    Ok(Expr::Case(Case { expr: None, when_then_expr: cases, else_expr: Some(Box::new(decided)) }))
}

fn by_pairs(x: Expr, op: Operator, subquery: &Subquery, schema: &DFSchema, is_all: bool) -> Result<Expr> {
    let pair = binary(outer(x, schema)?, op, first(subquery));
    let decides = if is_all { pair.clone().is_false() } else { pair.clone().is_true() };
    let cases = [(decides, lit(!is_all)), (pair.is_null(), null())];
    let cases =
        cases.into_iter().map(|(when, then)| Ok((Box::new(exists(subquery, Some(when))?), Box::new(then))));
    let cases = cases.collect::<Result<Vec<_>>>()?;
    Ok(Expr::Case(Case { expr: None, when_then_expr: cases, else_expr: Some(Box::new(lit(is_all))) }))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}
