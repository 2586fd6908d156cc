//! Filters that yield some of their columns, and the projections above them.
//!
//! DataFusion 55.2 carries a projection below a filter and looks up the columns of the condition in it. It takes them for
//! columns that the filter yields, which they are not where it yields some only: `b.s` became `a.s` where both happened to
//! stand at one place, or the plan was refused. Before it looks, such a filter is one that yields all and a projection.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Must run right before the rule that carries projections down, which embeds them again.
#[derive(Debug)]
pub(crate) struct FiltersYieldAll;

impl PhysicalOptimizerRule for FiltersYieldAll {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let Some(places) = filter.projection().as_ref() else { return Ok(Transformed::no(plan)) };
            let schema = filter.input().schema();
            let column = |&place: &usize| {
                let name = schema.field(place).name();
                ProjectionExpr::new(Arc::new(Column::new(name, place)), name.clone())
            };
            let columns: Vec<ProjectionExpr> = places.iter().map(column).collect();
            let all = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
            let some = ProjectionExec::try_new(columns, Arc::new(all))?;
            Ok(Transformed::yes(Arc::new(some) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "filters_yield_all"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
