//! Sorts with a limit below a merge: `SELECT 2 AS y, n FROM t UNION ALL SELECT 1, n FROM t ORDER BY y, n LIMIT 3`.
//!
//! DataFusion 55.2 leaves out of a sort what is constant in each partition, y, though each has another: right for each of
//! them alone. But the partitions of a sort with a limit share what the last row so far is, by which each leaves rows out,
//! and the rows of one partition went by those of another. Such a sort goes by all that the merge above it goes by, or has
//! no limit.

use super::rules::NodeRule;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use std::sync::Arc;

/// Must run after all rules that make sorts shorter, and before sorts become ours.
pub(super) const MERGED_LIMITS: NodeRule = NodeRule::up("merged_limits", |plan| {
    let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else { return Ok(None) };
    let wanted = merge.expr();
    let is_short = |sort: &SortExec| {
        sort.fetch().is_some() && sort.preserve_partitioning() && sort.expr().len() < wanted.len()
    };
    let input = match merge.input().downcast_ref::<SortExec>() {
        Some(sort) if is_short(sort) => {
            let whole = SortExec::new(wanted.clone(), Arc::clone(sort.input()));
            Arc::new(whole.with_fetch(sort.fetch()).with_preserve_partitioning(true))
                as Arc<dyn ExecutionPlan>
        }
        Some(_) => return Ok(None),
        None => {
            let below = Arc::clone(merge.input()).transform_down(|plan| {
                if let Some(sort) = plan.downcast_ref::<SortExec>() {
                    let sorted = is_short(sort).then(|| Arc::new(sort.with_fetch(None)) as _);
                    let changed = sorted.is_some();
                    return Ok(Transformed::new(sorted.unwrap_or(plan), changed, TreeNodeRecursion::Stop));
                }
                let ends = plan.children().len() != 1;
                let recursion = if ends { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue };
                Ok(Transformed::new(plan, false, recursion))
            })?;
            if !below.transformed {
                return Ok(None);
            }
            below.data
        }
    };
    let merged = SortPreservingMergeExec::new(wanted.clone(), input).with_fetch(merge.fetch());
    Ok(Some(Arc::new(merged)))
});
