//! Operators that make many batches without reading from others give way now and then, as scans do: a query over one
//! of them can be cancelled in the midst of it, and does not keep a thread to itself.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use std::sync::Arc;

/// Nodes that may yield any number of batches for one they read, and those that read a table in their scan's stead.
const TIRELESS: [&str; 9] = [
    "CrossJoinExec",
    "NestedLoopJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoinExec",
    "UnnestExec",
    "FillExec",
    "NbboExec",
    "SeriesWindowExec",
];

/// Must run after all rules that look for these nodes.
#[derive(Debug)]
pub(crate) struct GiveWay;

impl PhysicalOptimizerRule for GiveWay {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match TIRELESS.contains(&plan.name()) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(plan))),
                false => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "give_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
