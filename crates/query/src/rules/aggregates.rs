//! Aggregates that DataFusion 55.2 computes wrongly as they are written.
//!
//! - `last_value(x ORDER BY id, y, id)`: a key of an order that came before says nothing. It is dropped from the order
//!   but not from what rows are compared by, and a panic follows.
//! - `bit_xor(DISTINCT x)` by group takes every value: it is refused.

use crate::named::change_named;
use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
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
                change_named(plan, |expr| expr.transform_up(read))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn read(mut expr: Expr) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::AggregateFunction(call) => {
            if call.params.distinct && call.func.name() == "bit_xor" {
                return plan_err!("bit_xor(DISTINCT …) is not supported outside of windows");
            }
            once(&mut call.params.order_by)
        }
        Expr::WindowFunction(call) => once(&mut call.params.order_by),
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
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
