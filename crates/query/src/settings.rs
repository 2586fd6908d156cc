//! Settings of one session that operators go by: `SET block_statistics = false`, `SET deterministic_sums = true`,
//! `SET pipeline = false`.

use crate::scan::of_columns_too;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, extensions_options};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

extensions_options! {
    /// What a session may change of how its statements run.
    pub(crate) struct SessionSettings {
        /// Whether count, sum, avg, min and max come from statistics where these say enough; if not, every value is read
        pub block_statistics: bool, default = true
        /// Whether sums of doubles, and what is made of them, are the same to the last digit however rows are read
        pub deterministic_sums: bool, default = false
        /// Whether windows, groups and joins go series by series where they can; if not, they go the SQL engine's own way
        pub pipeline: bool, default = true
    }
}

impl ConfigExtension for SessionSettings {
    const PREFIX: &'static str = "tickstone";
}

/// Whether statistics may take the place of values.
pub(crate) fn goes_by_statistics(options: &ConfigOptions) -> bool {
    options.extensions.get::<SessionSettings>().is_none_or(|settings| settings.block_statistics)
}

/// Whether operators over series take the place of DataFusion's.
pub(crate) fn has_pipeline(options: &ConfigOptions) -> bool {
    options.extensions.get::<SessionSettings>().is_none_or(|settings| settings.pipeline)
}

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
