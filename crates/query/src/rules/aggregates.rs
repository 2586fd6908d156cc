//! Aggregates that DataFusion 55.2 computes wrongly as they are written.
//!
//! - `last_value(x ORDER BY id, y, id)`: a key of an order that came before says nothing. It is dropped from the order
//!   but not from what rows are compared by, and a panic follows. So it is with `SELECT DISTINCT ON (sym) … ORDER BY sym,
//!   ts, sym`, which becomes an aggregate.
//! - `bit_xor(DISTINCT x)` by group takes every value: it is refused.

use crate::named::change_named;
use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr};
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
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let keys = on.on_expr.len();
                let changed = on.sort_expr.as_mut().is_some_and(|order| once(order, keys));
                let plan = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(plan, changed))
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
            once(&mut call.params.order_by, 0)
        }
        Expr::WindowFunction(call) => once(&mut call.params.order_by, 0),
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// An order without the keys after the first so many that came before.
fn once(keys: &mut Vec<SortExpr>, from: usize) -> bool {
    let before = keys.len();
    for key in keys.split_off(from.min(before)) {
        if keys.iter().all(|other| other.expr != key.expr) {
            keys.push(key);
        }
    }
    keys.len() != before
}
