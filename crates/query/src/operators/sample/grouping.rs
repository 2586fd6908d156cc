//! GROUP BY symbols, and totals, by range reduction: the aggregation of DataFusion's that reads a scan
//! gives way to ours.

use super::exec::SampleByExec;
use super::source::Source;
use crate::operators::filters::with_filters_in_scan;
use crate::operators::rules::NodeRule;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use std::sync::Arc;

/// Must run before partitions are dealt out, and after totals that statistics know were answered.
pub(in crate::operators) const REDUCE_BY_RANGES: NodeRule = NodeRule::down("reduce_by_ranges", |plan| {
    let reduced = plan.downcast_ref::<AggregateExec>().map(by_ranges).transpose()?.flatten();
    Ok(reduced.map(|reduced| Arc::new(reduced) as _))
})
.of_pipeline();

/// What an aggregation groups, by what, and what it makes of each group.
pub(in crate::operators) struct Grouping<'a> {
    pub(in crate::operators) input: &'a Arc<dyn ExecutionPlan>,
    pub(in crate::operators) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(in crate::operators) aggregates: Vec<LoweredAggregate>,
}

impl<'a> Grouping<'a> {
    /// That of an aggregation with all of its steps; `None` where it asks for more than groups of rows in any order.
    pub(in crate::operators) fn of(last: &'a AggregateExec) -> Option<Self> {
        let first = match last.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => last,
            AggregateMode::Final | AggregateMode::FinalPartitioned => {
                let partial = last.input().downcast_ref::<AggregateExec>();
                partial.filter(|partial| *partial.mode() == AggregateMode::Partial)?
            }
            AggregateMode::Partial | AggregateMode::PartialReduce => return None,
        };
        // Nobody would put the rows in the order that such an aggregate needs.
        let ordered = first.aggr_expr().iter().any(|of| of.order_sensitivity().hard_requires());
        let limited = last.limit_options().is_some() || first.limit_options().is_some();
        if ordered || limited || first.group_expr().has_grouping_set() {
            return None;
        }
        let keys = first.group_expr().expr().iter().map(|(key, _)| Arc::clone(key)).collect();
        let aggregates = first.aggr_expr().iter().zip(first.filter_expr());
        let aggregates = aggregates.map(|(aggregate, filter)| LoweredAggregate {
            aggregate: Arc::clone(aggregate),
            filter: filter.clone(),
            order_bys: aggregate.order_bys().to_vec(),
        });
        Some(Self { input: first.input(), keys, aggregates: aggregates.collect() })
    }
}

/// What takes the place of an aggregation; `None` where it is no grouping of a scan by symbols.
fn by_ranges(last: &AggregateExec) -> Result<Option<SampleByExec>> {
    let Some(Grouping { input, keys, aggregates }) = Grouping::of(last) else { return Ok(None) };
    let input = with_filters_in_scan(input)?.unwrap_or_else(|| Arc::clone(input));
    if !Source::of(&input).is_some_and(|source| source.has_ranges(None, &keys)) {
        return Ok(None);
    }
    Ok(Some(SampleByExec::new(input, None, keys, aggregates, last.schema())))
}
