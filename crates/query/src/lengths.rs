//! Lengths of time that are compared: INTERVALs, and differences of times beside them. A day is 24 hours and a month 30
//! days, as in PostgreSQL and DuckDB.
//!
//! DataFusion compares an INTERVAL month by month, day by day and nanosecond by nanosecond, so that 48 hours are less
//! than a day, and makes one of a difference of times beside it. The rule compares nanoseconds: a literal becomes a
//! length like the other side, anything else a DECIMAL by [`nanoseconds`], which sorts, windows,
//! `min` and `max` go by too.

mod nanoseconds;

use crate::functions::{arg_max, arg_min};
use crate::literals::is_comparison;
use crate::named::change_named;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Between, InList, WindowFunctionParams};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{AggregateUDF, BinaryExpr, Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use nanoseconds::Nanoseconds;
use std::sync::Arc;

/// See the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn compared(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            agree(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            agree(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::AggregateFunction(call) => by_length(call, schema)?,
        Expr::InList(InList { expr, list, .. }) => {
            agree(std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect(), schema)
        }
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Makes `min` and `max` of INTERVALs those of the least and greatest length; says whether it did.
fn by_length(call: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let picks = match call.func.name() {
        "min" => arg_min as fn() -> Arc<AggregateUDF>,
        "max" => arg_max,
        _ => return Ok(false),
    };
    let [of] = call.params.args.as_slice() else { return Ok(false) };
    if !matches!(of.get_type(schema)?, DataType::Interval(_)) {
        return Ok(false);
    }
    let length = ScalarUDF::from(Nanoseconds::default()).call(vec![of.clone()]);
    call.func = picks();
    call.params.distinct = false;
    call.params.args.push(length);
    Ok(true)
}

/// A plan that goes by the order of INTERVALs, by that of their lengths.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn ordered(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let as_length = |key: &mut Expr| -> Result<bool> {
        let is_interval = matches!(key.get_type(&schema)?, DataType::Interval(_));
        if is_interval {
            *key = ScalarUDF::from(Nanoseconds::default()).call(vec![std::mem::take(key)]);
        }
        Ok(is_interval)
    };
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let changed =
                sort.expr.iter_mut().map(|key| as_length(&mut key.expr)).collect::<Result<Vec<_>>>()?;
            let is_changed = changed.contains(&true);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
        }
        plan => change_named(plan, |expr| {
            expr.transform_up(|mut expr| {
                let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
                let WindowFunctionParams { partition_by, order_by, .. } = &mut call.params;
                let keys = partition_by.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr));
                let changed = keys.map(as_length).collect::<Result<Vec<_>>>()?.contains(&true);
                Ok(Transformed::new_transformed(expr, changed))
            })
        }),
    }
}

/// Makes numbers of lengths of which some are INTERVALs; says whether it did.
fn agree(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> = sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(types) = types else { return false };
    let is_length = |of: &DataType| matches!(of, DataType::Interval(_) | DataType::Duration(_));
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    if !types.iter().any(is_interval) || !types.iter().all(is_length) {
        return false;
    }
    let literals: Vec<Option<i64>> = sides.iter().map(|side| literal(side)).collect();
    let simple = types.iter().zip(&literals).all(|(of, literal)| !is_interval(of) || literal.is_some());
    let in_nanoseconds = |of: &DataType| is_interval(of) || *of == DataType::Duration(TimeUnit::Nanosecond);
    if simple && types.iter().all(in_nanoseconds) {
        for (side, literal) in sides.into_iter().zip(literals) {
            if let Some(nanos) = literal {
                *side = Expr::Literal(ScalarValue::DurationNanosecond(Some(nanos)), None);
            }
        }
        return true;
    }
    for side in sides {
        *side = ScalarUDF::from(Nanoseconds::default()).call(vec![side.clone()]);
    }
    true
}

/// The length that an INTERVAL in the text has, in nanoseconds.
fn literal(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => {
            i64::try_from(nanoseconds::of(length.months, length.days, length.nanoseconds)).ok()
        }
        Expr::Negative(inner) => literal(inner)?.checked_neg(),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}
