//! Aggregates by grouping sets (ROLLUP, CUBE), of whose rows nothing is known.
//!
//! DataFusion 55.2 takes over what is known of their input: that a column has one value (`WHERE a = 1`), or that two are
//! equal. In a set that leaves a key out it is NULL, also where it was 1 and where the other is not NULL: `ORDER BY a`
//! was not sorted by, and windows parted their rows wrong.

use super::give_way::GiveWayExec;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use std::sync::Arc;

/// Must run before all rules that look at the order of rows.
#[derive(Debug)]
pub(crate) struct NothingKnown;

impl PhysicalOptimizerRule for NothingKnown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let sets =
                plan.downcast_ref::<AggregateExec>().is_some_and(|of| of.group_expr().has_grouping_set());
            Ok(match sets {
                true => Transformed::yes(Arc::new(GiveWayExec::bare(plan)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "nothing_known_of_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
