//! Rules of planning that look first whether the statement is still wanted, so that a plan of many nodes or long lists
//! can be cancelled while it is made.

use crate::wanted;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The same rules, each of which looks before each node it is asked about.
pub(super) fn looking(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(Looking(rule)) as _).collect()
}

/// The same physical rules, each of which looks before it begins.
pub(super) fn looking_physical(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(LookingPhysical(rule)) as _).collect()
}

#[derive(Debug)]
struct Looking(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Looking {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        wanted::look()?;
        self.0.rewrite(plan, config)
    }
}

#[derive(Debug)]
struct LookingPhysical(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for LookingPhysical {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        wanted::look()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        wanted::look()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
