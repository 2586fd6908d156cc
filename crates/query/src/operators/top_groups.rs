//! The first groups by their key, or by the least or the largest of their values: `GROUP BY … ORDER BY … LIMIT`, for which
//! an aggregation holds no more groups than the limit.
//!
//! In the place of DataFusion's `TopKAggregation`, which (55.2) looks for the column it sorts by in any node below that
//! yields a row for each it reads, and goes by names: it took groups away from below windows, which count them, from below
//! a projection that gives the name to another value, and by the numbers of symbols ([`super::symbols`]) in the place of
//! their texts.

use super::rules::{NodeRule, Replaced};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, LimitOptions, topk_types_supported,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Most groups that are held for a limit: what holds them has room for all of them when it begins, and claims none. Past it
/// all groups are held and claimed, as without a limit.
const GROUPS_MAX: usize = 10_000;

/// Must run after sorts were put where they are needed.
pub(super) const TOP_GROUPS: NodeRule = NodeRule::up("top_groups", |plan| {
    let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(None) };
    let ([by], Some(limit)) = (sort.expr().as_ref(), sort.fetch()) else { return Ok(None) };
    let Some(column) = by.expr.downcast_ref::<Column>().filter(|_| limit <= GROUPS_MAX) else {
        return Ok(None);
    };
    let first = First { limit, options: by.options };
    let input = first.of(sort.input(), column.index())?;
    input.map(|input| Arc::clone(plan).replace_children(vec![input], super::recompute())).transpose()
});

/// How many rows are wanted, the first in an order.
#[derive(Debug, Clone, Copy)]
struct First {
    limit: usize,
    options: SortOptions,
}

impl First {
    /// The plan with an aggregation that holds no more groups than the first by a column; `None` where there is none.
    fn of(self, plan: &Arc<dyn ExecutionPlan>, column: usize) -> Replaced {
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.groups(aggregate, column);
        }
        let below = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            projection.expr().get(column).and_then(|of| Some(of.expr.downcast_ref::<Column>()?.index()))
        } else {
            let deals = plan.is::<RepartitionExec>()
                || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|of| of.fetch().is_none());
            deals.then_some(column)
        };
        let Some(below) = below else { return Ok(None) };
        let input = self.of(plan.children()[0], below)?;
        input.map(|input| Arc::clone(plan).replace_children(vec![input], super::recompute())).transpose()
    }

    fn groups(self, aggregate: &AggregateExec, column: usize) -> Replaced {
        if !self.takes(aggregate, column)? {
            return Ok(None);
        }
        let options = LimitOptions::new_with_order(self.limit, self.options.descending);
        let limited: Arc<dyn ExecutionPlan> = Arc::new(aggregate.with_new_limit_options(Some(options)));
        // The groups of each input, of which the last aggregation makes one.
        let is_last = matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        let input = if is_last { self.of(aggregate.input(), column)? } else { None };
        Ok(Some(match input {
            Some(input) => limited.replace_children(vec![input], super::recompute())?,
            None => limited,
        }))
    }

    /// Whether an aggregation can hold the first groups by a column of its own: its key, which is all it yields, or its
    /// only aggregate.
    fn takes(self, aggregate: &AggregateExec, column: usize) -> Result<bool> {
        let by = aggregate.group_expr();
        let ([(key, _)], false) = (by.expr(), by.has_grouping_set()) else { return Ok(false) };
        let key = key.data_type(&aggregate.input().schema())?;
        if aggregate.filter_expr().iter().any(Option::is_some) {
            return Ok(false);
        }
        let Some((value, descending)) = aggregate.get_minmax_desc() else {
            let alone = aggregate.aggr_expr().is_empty() && column == 0;
            return Ok(alone && topk_types_supported(&key, &key));
        };
        // A group that is NULL so far may not be so in the end.
        let values = aggregate.aggr_expr().iter().flat_map(|of| of.expressions());
        let nullable = values.map(|of| of.nullable(&aggregate.input_schema())).collect::<Result<Vec<_>>>()?;
        let settled = !self.options.nulls_first || !nullable.contains(&true);
        let wanted = column == 1 && descending == self.options.descending;
        Ok(wanted && settled && topk_types_supported(&key, value.data_type()))
    }
}

#[cfg(test)]
mod tests;
