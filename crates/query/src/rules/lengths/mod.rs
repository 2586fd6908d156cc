//! Lengths of time that are compared: INTERVALs, and differences of times beside them. A day is 24 hours and a month 30
//! days, as in PostgreSQL and DuckDB.
//!
//! DataFusion compares an INTERVAL month by month, day by day and nanosecond by nanosecond, so that 48 hours are less
//! than a day, and makes one of a difference of times beside it. The rule compares nanoseconds: a literal becomes a
//! length like the other side, anything else a DECIMAL by [`nanoseconds`], which sorts, windows, `min`, `max` and what
//! else is ordered or found equal go by too. Inside lists and structs they stay as they are.

mod groups;
mod nanoseconds;

pub(crate) use groups::grouped;

use crate::functions::{arg_max, arg_min};
use crate::named::change_named;
use crate::rules::literals::is_comparison;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, InList, InSubquery, SetComparison, WindowFunctionParams,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Subquery,
    WindowFunctionDefinition,
};
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
        Expr::AggregateFunction(AggregateFunction { func, params })
            if matches!(
                (func.name(), params.distinct),
                ("count_distinct" | "approx_distinct", _) | ("count", true)
            ) =>
        {
            lengths_of(params.args.iter_mut(), schema)?
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let ordered = match params.distinct {
                // Its order is that of what it takes once.
                true => false,
                false => lengths_of(params.order_by.iter_mut().map(|key| &mut key.expr), schema)?,
            };
            by_length(func, &mut params.args, schema)? | ordered
        }
        Expr::WindowFunction(call) => match &mut call.fun {
            WindowFunctionDefinition::AggregateUDF(func) => by_length(func, &mut call.params.args, schema)?,
            WindowFunctionDefinition::WindowUDF(_) => false,
        },
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => {
            if let [left, right] = call.args.as_slice() {
                let (mut same_left, mut same_right) = (left.clone(), right.clone());
                if agree(vec![&mut same_left, &mut same_right], schema) {
                    let case = Case {
                        expr: None,
                        when_then_expr: vec![(
                            Box::new(same_left.eq(same_right)),
                            Box::new(Expr::Literal(ScalarValue::Null, None)),
                        )],
                        else_expr: Some(Box::new(left.clone())),
                    };
                    return Ok(Transformed::yes(Expr::Case(case)));
                }
            }
            false
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, .. }) => {
            let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
            agree(std::iter::once(of.as_mut()).chain(whens).collect(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => in_rows(expr, subquery, schema)?,
        Expr::InList(InList { expr, list, .. }) => {
            agree(std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect(), schema)
        }
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Makes `min` and `max` of INTERVALs those of the least and greatest length, and what `arg_min` and `arg_max` go by a
/// length; says whether it did.
fn by_length(func: &mut Arc<AggregateUDF>, args: &mut Vec<Expr>, schema: &DFSchema) -> Result<bool> {
    let picks = match (func.name(), args.as_slice()) {
        ("min", [_]) => arg_min as fn() -> Arc<AggregateUDF>,
        ("max", [_]) => arg_max,
        ("arg_min" | "arg_max", [_, _]) => return lengths_of(args.iter_mut().skip(1), schema),
        _ => return Ok(false),
    };
    let mut length = args.clone();
    let is_interval = lengths_of(length.iter_mut(), schema)?;
    if is_interval {
        *func = picks();
        args.extend(length);
    }
    Ok(is_interval)
}

/// Makes lengths of the INTERVALs among keys; says whether there were any.
fn lengths_of<'a>(keys: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for key in keys {
        if matches!(key.get_type(schema)?, DataType::Interval(_)) {
            *key = length(std::mem::take(key));
            changed = true;
        }
    }
    Ok(changed)
}

fn length(interval: Expr) -> Expr {
    ScalarUDF::from(Nanoseconds::default()).call(vec![interval])
}

/// Compares lengths where an INTERVAL is compared with rows, or rows are INTERVALs; says whether it did.
fn in_rows(x: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let plan = Arc::clone(&subquery.subquery);
    let [field] = plan.schema().fields().as_ref() else { return Ok(false) };
    let of_rows = field.data_type();
    let of_x = x.get_type(schema)?;
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    let is_length = |of: &DataType| is_interval(of) || matches!(of, DataType::Duration(_));
    if !(is_interval(&of_x) || is_interval(of_rows)) || !is_length(&of_x) || !is_length(of_rows) {
        return Ok(false);
    }
    let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let name = field.name().clone();
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project([length(column).alias(name)])?;
    subquery.subquery = Arc::new(rows.build()?);
    *x = length(std::mem::take(x));
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
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let changed = lengths_of(sort.expr.iter_mut().map(|key| &mut key.expr), &schema)?;
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
        }
        plan => change_named(plan, |expr| {
            expr.transform_up(|mut expr| {
                let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
                let WindowFunctionParams { partition_by, order_by, .. } = &mut call.params;
                let keys = partition_by.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr));
                let changed = lengths_of(keys, &schema)?;
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
        *side = length(std::mem::take(side));
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
