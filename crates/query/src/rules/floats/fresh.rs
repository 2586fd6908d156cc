//! Columns that expressions, aggregates and window functions made and that nothing has brought to the one NaN yet.

use super::settle::makes_nan;
use datafusion::common::Column;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::HashSet;

/// What a function does with NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Gives one of the values it gets: no NaN that it did not get.
    Picks,
    /// Adds up or counts: any NaN is as good as another.
    Adds,
    /// Anything else: may tell NaNs apart, and may make one.
    Other,
}

/// What the aggregate or window function of this name does with NaN.
pub(super) fn kind(name: &str) -> Kind {
    match name {
        "min" | "max" | "first" | "last" | "first_value" | "last_value" | "nth_value" | "lag" | "lead"
        | "arg_min" | "arg_max" | "first_not_null" | "last_not_null" | "prev" => Kind::Picks,
        "sum" | "avg" | "mean" | "count" | "stddev" | "stddev_pop" | "stddev_samp" | "var" | "var_pop"
        | "var_samp" | "corr" | "covar_pop" | "covar_samp" | "vwap" | "ksum" | "skewness" | "kurtosis"
        | "twap" | "realized_vol" => Kind::Adds,
        _ => Kind::Other,
    }
}

/// Columns of rows.
pub(super) type Columns = HashSet<Column>;

/// The columns of a plan's rows that may hold other NaNs than the one; `inputs` are those of its inputs.
pub(super) fn columns(plan: &LogicalPlan, inputs: &[Columns]) -> Columns {
    match (plan, inputs) {
        (LogicalPlan::Projection(projection), [inner]) => {
            let schema = projection.input.schema();
            let made = projection.expr.iter().enumerate().filter(|(_, expr)| makes_nan(expr, schema, inner));
            made.filter_map(|(at, _)| float(plan, at)).collect()
        }
        (LogicalPlan::Aggregate(aggregate), _) => {
            let groups = plan.schema().fields().len() - aggregate.aggr_expr.len();
            let makers = aggregate.aggr_expr.iter().enumerate().filter(|(_, expr)| makes(expr));
            makers.filter_map(|(at, _)| float(plan, groups + at)).collect()
        }
        (LogicalPlan::Window(window), [inner]) => {
            let before = window.input.schema().fields().len();
            let makers = window.window_expr.iter().enumerate().filter(|(_, expr)| makes(expr));
            let made = makers.filter_map(|(at, _)| float(plan, before + at));
            made.chain(inner.iter().cloned()).collect()
        }
        (LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_), _) => {
            let each = plan.inputs().into_iter().zip(inputs);
            each.flat_map(|(input, inner)| by_place(plan, input, inner)).collect()
        }
        (LogicalPlan::Values(_) | LogicalPlan::Unnest(_) | LogicalPlan::RecursiveQuery(_), _) => {
            (0..plan.schema().fields().len()).filter_map(|at| float(plan, at)).collect()
        }
        (LogicalPlan::Extension(_), _) => {
            let of = plan.inputs();
            let is_made = |column: &Column| !of.iter().any(|input| input.schema().has_column(column));
            let made = (0..plan.schema().fields().len()).filter_map(|at| float(plan, at)).filter(is_made);
            made.chain(inputs.iter().flatten().cloned()).collect()
        }
        // Rows pass with the columns they have.
        _ => inputs.iter().flatten().cloned().collect(),
    }
}

/// The columns of a plan in the places where the input's may hold others.
fn by_place(plan: &LogicalPlan, input: &LogicalPlan, inner: &Columns) -> Vec<Column> {
    let places =
        input.schema().columns().into_iter().enumerate().filter(|(_, column)| inner.contains(column));
    places.filter_map(|(at, _)| float(plan, at)).collect()
}

fn float(plan: &LogicalPlan, at: usize) -> Option<Column> {
    let (qualifier, field) = plan.schema().qualified_field(at);
    field.data_type().is_floating().then(|| Column::new(qualifier.cloned(), field.name()))
}

fn makes(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => makes(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, .. }) => kind(func.name()) != Kind::Picks,
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, .. } = call.as_ref();
            kind(fun.name()) != Kind::Picks
        }
        _ => true,
    }
}
