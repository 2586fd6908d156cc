//! Outer joins and aggregates by grouping sets (ROLLUP, CUBE), of whose rows less is known than of those they read.
//!
//! DataFusion 55.2 takes over what is known of their inputs: that a column has one value (`WHERE a = 1`), or that two are
//! equal. Where a row of an outer join has no partner, and in a set that leaves a key out, it is NULL: `ORDER BY a` was
//! not sorted by, and windows parted their rows wrong. Above such a node stands one that keeps what is certain
//! ([`GiveWayExec::bare`]): the orders of columns that are never made NULL.

use super::give_way::GiveWayExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Must run before all rules that look at the order of rows.
#[derive(Debug)]
pub(crate) struct OnlyWhatIsKnown;

impl PhysicalOptimizerRule for OnlyWhatIsKnown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let is_wrong = !plan.is::<ProjectionExec>() && columns_kept(&plan).is_some();
            Ok(match is_wrong {
                true => Transformed::yes(Arc::new(GiveWayExec::bare(plan)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "only_what_is_known"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What is certain of the rows of such a node, or of a projection of them.
pub(super) fn certain(plan: &Arc<dyn ExecutionPlan>) -> EquivalenceProperties {
    let mut certain = EquivalenceProperties::new(plan.schema());
    let kept = columns_kept(plan).unwrap_or_default();
    for order in plan.properties().equivalence_properties().oeq_class().iter() {
        if order.iter().all(|sort| is_kept(&sort.expr, &kept)) {
            certain.add_ordering(order.clone());
        }
    }
    certain
}

/// Which columns are as they were in what the node reads; `None` of other nodes.
fn columns_kept(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<bool>> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let sets = aggregate.group_expr().has_grouping_set();
        return sets.then(|| vec![false; plan.schema().fields().len()]);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let kept = columns_kept(projection.input())?;
        return Some(projection.expr().iter().map(|of| is_kept(&of.expr, &kept)).collect());
    }
    let (left, right, join_type, places) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection.as_ref())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection().as_ref())
    } else {
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        (join.left(), join.right(), join.join_type(), None)
    };
    let (of_left, of_right) = match join_type {
        JoinType::Left => (true, false),
        JoinType::Right => (false, true),
        JoinType::Full => (false, false),
        _ => return None,
    };
    let mut kept = vec![of_left; left.schema().fields().len()];
    kept.resize(kept.len() + right.schema().fields().len(), of_right);
    Some(match places {
        Some(places) => places.iter().map(|&place| kept[place]).collect(),
        None => kept,
    })
}

fn is_kept(expr: &Arc<dyn PhysicalExpr>, kept: &[bool]) -> bool {
    collect_columns(expr).iter().all(|column| kept.get(column.index()).copied().unwrap_or(false))
}
