//! Rules over physical plans that look at one node at a time.

use crate::settings::has_pipeline;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What stands in the place of a node; `None` where it stays.
pub(super) type Replaced = Result<Option<Arc<dyn ExecutionPlan>>>;

/// Puts other nodes in the place of some.
#[derive(Debug)]
pub(super) struct NodeRule {
    name: &'static str,
    replaced: fn(&Arc<dyn ExecutionPlan>) -> Replaced,
    /// Whether a node is looked at before those below it.
    downwards: bool,
    /// Whether it is of the pipeline, without which plans stay as DataFusion makes them.
    of_pipeline: bool,
}

impl NodeRule {
    /// Looks at the inputs of a node first.
    pub(super) const fn up(name: &'static str, replaced: fn(&Arc<dyn ExecutionPlan>) -> Replaced) -> Self {
        Self { name, replaced, downwards: false, of_pipeline: false }
    }

    /// Looks at a node before its inputs.
    pub(super) const fn down(name: &'static str, replaced: fn(&Arc<dyn ExecutionPlan>) -> Replaced) -> Self {
        Self { downwards: true, ..Self::up(name, replaced) }
    }

    /// The same rule of the pipeline.
    pub(super) const fn of_pipeline(self) -> Self {
        Self { of_pipeline: true, ..self }
    }
}

impl PhysicalOptimizerRule for NodeRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.of_pipeline && !has_pipeline(config) {
            return Ok(plan);
        }
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let replaced = (self.replaced)(&node)?;
            Ok(replaced.map_or_else(|| Transformed::no(node), Transformed::yes))
        };
        let plan = if self.downwards { plan.transform_down(replace) } else { plan.transform_up(replace) };
        plan.data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
