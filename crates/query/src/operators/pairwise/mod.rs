//! Groups of pairs: how each series moves with each other.
//!
//! ```text
//! Aggregate: a.symbol, b.symbol, corr(a.r, b.r)
//!   Join: a.t = b.t [and a.symbol < b.symbol]     ->     [Filter: a.symbol < b.symbol]
//!     r AS a                                               PairGroups: r AS a, r AS b
//!     r AS b
//! ```
//!
//! A matrix of correlations is written as a join of returns with themselves: of 50 symbols 2,500 rows for each moment,
//! each of which finds its group. Here the rows of each side are put side by side by group, in order of the keys of the
//! join, and a pair of groups is one pass over two slices ([`exec`]).

pub(super) mod exec;
pub(super) mod node;
pub(super) mod side;

#[cfg(test)]
mod tests;

use super::eager::plain_join;
use crate::settings::has_pipeline;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, Extension, Filter, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use node::{Measure, PairGroups, PairMeasure, PairSide};
use std::sync::Arc;

/// Must run after conditions have come down to the join.
#[derive(Debug)]
pub(crate) struct GroupPairs;

impl OptimizerRule for GroupPairs {
    fn name(&self) -> &str {
        "group_pairs"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_pipeline(&config.options()) {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
            let pairs = pairs_of(aggregate)?;
            Ok(pairs.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
    }
}

/// The groups as those of pairs; `None` where they are not.
fn pairs_of(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some(join) = plain_join(&aggregate.input) else { return Ok(None) };
    let inputs = [&join.left, &join.right];
    let side_of = |expr: &Expr| {
        let columns = expr.column_refs();
        let is_of = |schema: &DFSchema| columns.iter().all(|column| schema.has_column(column));
        let sides = inputs.map(|input| is_of(input.schema()));
        (!columns.is_empty() && !expr.is_volatile()).then_some(match sides {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        })?
    };
    let mut sides = inputs.map(|input| PairSide::of(input.as_ref().clone()));
    for (left, right) in &join.on {
        let types = [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
        if types[0] != types[1] || types[0].is_floating() || left.is_volatile() || right.is_volatile() {
            return Ok(None);
        }
        sides[0].on.push(left.clone());
        sides[1].on.push(right.clone());
    }
    let mut keys = Vec::with_capacity(aggregate.group_expr.len());
    for expr in &aggregate.group_expr {
        let (Expr::Column(_), Some(side)) = (expr, side_of(expr)) else { return Ok(None) };
        keys.push((side, sides[side].groups.len()));
        sides[side].groups.push(expr.clone());
    }
    let mut measures = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        let Some((of, arguments)) = measure_of(expr) else { return Ok(None) };
        let mut values = [0; 2];
        if of != Measure::Count {
            let [y, x] = arguments else { return Ok(None) };
            let (Some(of_y), Some(of_x)) = (side_of(y), side_of(x)) else { return Ok(None) };
            if of_y == of_x {
                return Ok(None);
            }
            for (side, value) in [(of_y, y), (of_x, x)] {
                if value.get_type(inputs[side].schema())? != DataType::Float64 {
                    return Ok(None);
                }
                values[side] = sides[side].value(value);
            }
        }
        measures.push(PairMeasure { of, values });
    }
    // Counts alone are a matter of counting.
    if sides.iter().any(|side| side.values.is_empty() || side.groups.is_empty()) {
        return Ok(None);
    }
    let schema = Arc::clone(&aggregate.schema);
    let node = Extension { node: Arc::new(PairGroups { sides, keys, measures, schema }) };
    let pairs = LogicalPlan::Extension(node);
    match &join.filter {
        None => Ok(Some(pairs)),
        // All rows of a pair pass, or none.
        Some(filter) => {
            let of_groups = filter.column_refs().into_iter().all(|column| pairs.schema().has_column(column));
            let passes = of_groups && !filter.is_volatile();
            passes
                .then(|| Filter::try_new(filter.clone(), Arc::new(pairs)).map(LogicalPlan::Filter))
                .transpose()
        }
    }
}

/// What an aggregate is of pairs, and its arguments; `None` where it is another.
fn measure_of(expr: &Expr) -> Option<(Measure, &[Expr])> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
        return if let Expr::Alias(alias) = expr { measure_of(&alias.expr) } else { None };
    };
    let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
    if *distinct || filter.is_some() || !order_by.is_empty() || null_treatment.is_some() {
        return None;
    }
    let of = match func.name() {
        "corr" => Measure::Correlation,
        "covar_samp" => Measure::Covariance { sample: true },
        "covar_pop" => Measure::Covariance { sample: false },
        "count" if matches!(args.as_slice(), [Expr::Literal(value, _)] if !value.is_null()) => Measure::Count,
        _ => return None,
    };
    Some((of, args))
}
