//! Totals over a table by its statistics.

use crate::scan::of_columns_too;
use crate::settings::goes_by_statistics;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// DataFusion's rule that answers totals over a table by its statistics, where the session goes by them and nothing but
/// columns stands between the two: no condition, and no cast, of whose text it takes that of the largest number for the
/// largest (55.2).
#[derive(Debug, Default)]
pub(super) struct TotalsByStatistics(AggregateStatistics);

impl PhysicalOptimizerRule for TotalsByStatistics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !goes_by_statistics(options) {
            return Ok(plan);
        }
        plan.transform_down(|node| {
            if !node.is::<AggregateExec>() || node.exists(|below| Ok(!passes_on(below)))? {
                return Ok(Transformed::no(node));
            }
            let total = of_columns_too(|| self.0.optimize(node, options))?;
            Ok(Transformed::new(total, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether the statistics of a node's columns are those of columns below it.
fn passes_on(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let plain = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return aggregate.aggr_expr().iter().all(|of| of.expressions().iter().all(plain));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().all(|of| plain(&of.expr));
    }
    !plan.is::<FilterExec>()
}
