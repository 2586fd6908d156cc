//! GROUP BY symbols, and totals, by range reduction: the aggregation of DataFusion's that reads a scan
//! gives way to ours.

use super::exec::SampleByExec;
use super::ranges::Source;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use std::sync::Arc;

/// Must run before partitions are dealt out, and after totals that statistics know were answered.
#[derive(Debug)]
pub(crate) struct ReduceByRanges;

impl PhysicalOptimizerRule for ReduceByRanges {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            Ok(match plan.downcast_ref::<AggregateExec>().and_then(by_ranges) {
                Some(reduced) => Transformed::yes(Arc::new(reduced) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(plan),
            })
        };
        plan.transform_down(replace).data()
    }

    fn name(&self) -> &str {
        "reduce_by_ranges"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What takes the place of an aggregation; `None` where it is no grouping of a scan by symbols.
fn by_ranges(last: &AggregateExec) -> Option<SampleByExec> {
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => last,
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let partial = last.input().downcast_ref::<AggregateExec>()?;
            Some(partial).filter(|partial| *partial.mode() == AggregateMode::Partial)?
        }
        AggregateMode::Partial | AggregateMode::PartialReduce => return None,
    };
    // Nobody would put the rows in the order that such an aggregate needs.
    let ordered = first.aggr_expr().iter().any(|of| of.order_sensitivity().hard_requires());
    let limited = last.limit_options().is_some() || first.limit_options().is_some();
    if ordered || limited || first.group_expr().has_grouping_set() {
        return None;
    }
    let keys: Vec<Arc<dyn PhysicalExpr>> =
        first.group_expr().expr().iter().map(|(key, _)| Arc::clone(key)).collect();
    let source = Source::of(first.input())?;
    if !source.has_ranges(None, &keys) {
        return None;
    }
    let aggregates = first.aggr_expr().iter().zip(first.filter_expr());
    let aggregates = aggregates.map(|(aggregate, filter)| LoweredAggregate {
        aggregate: Arc::clone(aggregate),
        filter: filter.clone(),
        order_bys: aggregate.order_bys().to_vec(),
    });
    Some(SampleByExec::new(Arc::clone(first.input()), None, keys, aggregates.collect(), last.schema()))
}
