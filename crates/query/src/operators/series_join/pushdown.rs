//! Pushes conditions on the result of such a join below it, where the result stays the same:
//!
//! - of a window or a horizon, a condition on left columns goes to the left side, one on left key columns
//!   alone to the right side too;
//! - of a splice, a condition on merged key columns alone goes to both sides. Any other would change which row
//!   of the other side is the last.

use super::node::{Kind, SeriesJoin};
use crate::operators::asof::pushdown::by_right_names;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct PushFilterBelowSeriesJoin;

impl OptimizerRule for PushFilterBelowSeriesJoin {
    fn name(&self) -> &str {
        "push_filter_below_series_join"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        // Unused columns may have been cut off in between.
        let (between, below) = match filter.input.as_ref() {
            LogicalPlan::Projection(projection)
                if projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) =>
            {
                (Some(projection), projection.input.as_ref())
            }
            other => (None, other),
        };
        let LogicalPlan::Extension(extension) = below else { return Ok(Transformed::no(plan)) };
        let Some(join) = extension.node.as_any().downcast_ref::<SeriesJoin>() else {
            return Ok(Transformed::no(plan));
        };
        let Some((mut pushed, kept)) = push(filter, join, config)? else { return Ok(Transformed::no(plan)) };
        if let Some(projection) = between {
            pushed = LogicalPlanBuilder::from(pushed).project(projection.expr.clone())?.build()?;
        }
        if let Some(kept) = kept {
            pushed = LogicalPlanBuilder::from(pushed).filter(kept)?.build()?;
        }
        Ok(Transformed::yes(pushed))
    }
}

/// The join with the conditions below it, and what stays above; `None` where nothing can be pushed.
fn push(
    filter: &Filter,
    join: &SeriesJoin,
    config: &dyn OptimizerConfig,
) -> Result<Option<(LogicalPlan, Option<Expr>)>> {
    let (mut left, mut right, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let is_merged = |right: &Expr| matches!(right, Expr::Column(column) if join.merged.contains(column));
    let merged: Vec<(Expr, Expr)> = join.keys.iter().filter(|(_, right)| is_merged(right)).cloned().collect();
    for part in split_conjunction(&filter.predicate) {
        let columns = part.column_refs();
        let of_left = !columns.is_empty() && columns.iter().all(|c| join.left.schema().has_column(c));
        let keys = if join.kind == Kind::Splice { &merged } else { &join.keys };
        let on_right = by_right_names(part, keys)?;
        let goes = of_left && !part.is_volatile() && (join.kind != Kind::Splice || on_right.is_some());
        if !goes {
            kept.push(part.clone());
            continue;
        }
        left.push(part.clone());
        right.extend(on_right);
    }
    if left.is_empty() {
        return Ok(None);
    }
    let side = |input: &LogicalPlan, conditions: Vec<Expr>| -> Result<LogicalPlan> {
        let Some(condition) = conjunction(conditions) else { return Ok(input.clone()) };
        let filtered = LogicalPlanBuilder::from(input.clone()).filter(condition)?.build()?;
        let further = PushDownFilter::new();
        Ok(filtered.transform_down(|node| further.rewrite(node, config))?.data)
    };
    let below = SeriesJoin::try_new(
        (side(&join.left, left)?, side(&join.right, right)?),
        join.times.clone(),
        join.keys.clone(),
        join.kind.clone(),
        join.merged.clone(),
        join.aggregates.clone(),
    )?;
    let below = LogicalPlan::Extension(Extension { node: Arc::new(below) });
    Ok(Some((below, conjunction(kept))))
}
