//! `last_value(x ORDER BY id, y, id)`: a key of an order that came before says nothing.
//!
//! DataFusion 55.2 drops it from the order but not from what the rows are compared by, and panics.

use crate::named::change_named;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct OrderOnce;

impl AnalyzerRule for OrderOnce {
    fn name(&self) -> &str {
        "order_once"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Extension(_) => {
                change_named(plan, |expr| expr.transform_up(|expr| Ok(ordered_once(expr))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn ordered_once(mut expr: Expr) -> Transformed<Expr> {
    let changed = match &mut expr {
        Expr::AggregateFunction(call) => once(&mut call.params.order_by),
        Expr::WindowFunction(call) => once(&mut call.params.order_by),
        _ => false,
    };
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
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
