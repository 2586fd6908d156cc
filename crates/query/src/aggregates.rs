//! Aggregates that DataFusion 55.2 computes wrongly as they are written.
//!
//! - `last_value(x ORDER BY id, y, id)`: a key of an order that came before says nothing. It is dropped from the order
//!   but not from what rows are compared by, and a panic follows.
//! - `quantile_cont(x, 0.0)` and `(x, 1.0)` become DataFusion's own min and max, to which a NaN is less than every
//!   number. They become ours.
//! - `bit_xor(DISTINCT x)` by group takes every value: it is refused.

use crate::functions::{largest, smallest};
use crate::named::change_named;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, SortExpr, cast};
use datafusion::optimizer::AnalyzerRule;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct RightAggregates;

impl AnalyzerRule for RightAggregates {
    fn name(&self) -> &str {
        "right_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Extension(_) => {
                let schema = merge_schema(&plan.inputs());
                change_named(plan, |expr| expr.transform_up(|expr| read(expr, &schema)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn read(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::AggregateFunction(call) => {
            if call.params.distinct && call.func.name() == "bit_xor" {
                return plan_err!("bit_xor(DISTINCT …) is not supported outside of windows");
            }
            if let Some(extreme) = as_extreme(call, schema)? {
                return Ok(Transformed::yes(extreme));
            }
            once(&mut call.params.order_by)
        }
        Expr::WindowFunction(call) => once(&mut call.params.order_by),
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// A quantile that is the smallest or the largest value.
fn as_extreme(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if call.func.name() != "percentile_cont" {
        return Ok(None);
    }
    let [value, Expr::Literal(part, _)] = call.params.args.as_slice() else { return Ok(None) };
    let from_above = call.params.order_by.first().is_some_and(|key| !key.asc);
    let extreme = match (part, from_above) {
        (ScalarValue::Float64(Some(0.0)) | ScalarValue::Int64(Some(0)), false)
        | (ScalarValue::Float64(Some(1.0)) | ScalarValue::Int64(Some(1)), true) => smallest(),
        (ScalarValue::Float64(Some(0.0 | 1.0)) | ScalarValue::Int64(Some(0 | 1)), _) => largest(),
        _ => return Ok(None),
    };
    let data_type = Expr::AggregateFunction(call.clone()).get_type(schema)?;
    let mut params = call.params.clone();
    params.args = vec![cast(value.clone(), data_type)];
    params.order_by = Vec::new();
    params.distinct = false;
    Ok(Some(Expr::AggregateFunction(AggregateFunction { func: extreme, params })))
}

fn once(keys: &mut Vec<SortExpr>) -> bool {
    let before = keys.len();
    let mut kept: Vec<SortExpr> = Vec::with_capacity(before);
    for key in std::mem::take(keys) {
        if kept.iter().all(|other| other.expr != key.expr) {
            kept.push(key);
        }
    }
    *keys = kept;
    keys.len() != before
}
