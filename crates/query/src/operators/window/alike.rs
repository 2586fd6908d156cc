//! Windows whose PARTITION BY has columns that are one: `PARTITION BY a, b` over `SELECT x AS a, x AS b`, over a join by
//! `a = b`, or over rows that a filter made alike.
//!
//! Rows in the order of a are in the order of both, and DataFusion 55.2 takes that for rows sorted by two keys. When it
//! runs it finds but one of them sorted and ends with "Expects PARTITION BY expression to be ordered". Such a node may
//! as well take its rows as sorted by some of its keys, which it knows how to do.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, get_ordered_partition_by_indices};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

/// Must run after the rule that puts sorts below windows.
#[derive(Debug)]
pub(crate) struct KeysAlike;

impl PhysicalOptimizerRule for KeysAlike {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else {
                return Ok(Transformed::no(plan));
            };
            let sorted = window.input_order_mode == InputOrderMode::Sorted;
            let [first, ..] = window.window_expr() else { return Ok(Transformed::no(plan)) };
            let keys = first.partition_by();
            let found = get_ordered_partition_by_indices(keys, window.input())?;
            if !sorted || found.len() == keys.len() {
                return Ok(Transformed::no(plan));
            }
            let mode = match found.is_empty() {
                true => InputOrderMode::Linear,
                false => InputOrderMode::PartiallySorted(found),
            };
            let (exprs, input) = (window.window_expr().to_vec(), Arc::clone(window.input()));
            let can_repartition = !window.partition_keys().is_empty();
            let some = BoundedWindowAggExec::try_new(exprs, input, mode, can_repartition)?;
            Ok(Transformed::yes(Arc::new(some) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "keys_alike"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
