//! Chooses how each ASOF, WINDOW, HORIZON and SPLICE JOIN of a physical plan is done: by series wherever its inputs allow
//! that and nobody above relies on rows that come in order of time one by one.
//!
//! Walks down from the root with what is needed of the rows' order. The rows of the whole plan are needed in
//! order, as a user who reads them without ORDER BY has always had them so.

use super::exec::{Matching, TimeJoinExec, Way, are_ordered};
use super::sides::Sides;
use crate::facts::takes_any_order;
use crate::operators::asof::by_series::probe::probing;
use crate::operators::latest::exec::LatestOnExec;
use crate::operators::sample::exec::SampleByExec;
use crate::settings::has_pipeline;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct ChooseJoins;

/// What is needed of the order in which rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::operators) enum Order {
    /// Nothing.
    Any,
    /// They are in order of time, all of them.
    Time,
    /// They are in order of time, and perhaps only the first few are read.
    FirstOfTime,
}

impl PhysicalOptimizerRule for ChooseJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let chosen = match has_pipeline(config) {
            true => choose(&plan, Order::Time, config.execution.batch_size.into())?,
            false => None,
        };
        Ok(chosen.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "ChooseJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its joins done in the best way; `None` where it stays as it is.
fn choose(
    plan: &Arc<dyn ExecutionPlan>,
    needed: Order,
    batch_rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<TimeJoinExec>() {
        let filtered = join.with_filters_in_scans()?;
        let both = filtered.as_ref().unwrap_or(join);
        if let Some(way) = way(both, needed, batch_rows) {
            return Ok(Some(Arc::new(both.with_way(way))));
        }
        if let Some(probing) = probing(join, needed)? {
            let probing: Arc<dyn ExecutionPlan> = Arc::new(probing);
            let chosen = choose_in_children(&probing, needed, batch_rows)?;
            return Ok(Some(chosen.unwrap_or(probing)));
        }
    }
    choose_in_children(plan, needed, batch_rows)
}

fn choose_in_children(
    plan: &Arc<dyn ExecutionPlan>,
    needed: Order,
    batch_rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    let mut changed = false;
    for (at, child) in children.iter_mut().enumerate() {
        if let Some(chosen) = choose(child, needed_of_child(plan, at, needed)?, batch_rows)? {
            *child = chosen;
            changed = true;
        }
    }
    changed.then(|| Arc::clone(plan).replace_children(children, crate::operators::recompute())).transpose()
}

/// The way of a join of two scans by series; `None` where it cannot be, or should not.
fn way(join: &TimeJoinExec, needed: Order, batch_rows: usize) -> Option<Way> {
    let rows = join.most_rows(&Sides::of(join)?);
    match needed {
        Order::Any => Some(Way::BySeries),
        // In a plan that is kept, and with a condition, it is known later how many rows there are.
        Order::Time if rows.is_none_or(|rows| are_ordered(rows, batch_rows)) => Some(Way::BySeriesInOrder),
        Order::Time | Order::FirstOfTime => None,
    }
}

/// The order that a node needs of one of its inputs, where `needed` is what is needed of its own rows.
fn needed_of_child(node: &Arc<dyn ExecutionPlan>, at: usize, needed: Order) -> Result<Order> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let input = sort.input().equivalence_properties();
        return Ok(match (input.ordering_satisfy(sort.expr().clone())?, sort.fetch()) {
            (false, _) => Order::Any,
            (true, None) => Order::Time,
            (true, Some(_)) => Order::FirstOfTime,
        });
    }
    if node.downcast_ref::<GlobalLimitExec>().is_some() || node.downcast_ref::<LocalLimitExec>().is_some() {
        return Ok(Order::FirstOfTime);
    }
    if node.downcast_ref::<UnionExec>().is_some() {
        return Ok(needed);
    }
    let asks = node.required_input_ordering().get(at).is_some_and(Option::is_some) || heeds_arrival(node);
    let own = if asks { Order::Time } else { Order::Any };
    let keeps = node.maintains_input_order().get(at).copied().unwrap_or(false);
    Ok(own.max(if keeps { needed } else { Order::Any }))
}

/// Whether what a node yields depends on the order of its input though it does not ask for one.
fn heeds_arrival(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return !aggregate.aggr_expr().iter().all(|aggregate| is_free(aggregate));
    }
    if let Some(sample) = node.downcast_ref::<SampleByExec>() {
        // Rows of one series come in order also from a join by series.
        return !sample.aggregates().all(is_free) && !is_by_series(sample);
    }
    node.downcast_ref::<LatestOnExec>().is_some()
        || node.downcast_ref::<WindowAggExec>().is_some()
        || node.downcast_ref::<BoundedWindowAggExec>().is_some()
}

fn is_free(aggregate: &AggregateFunctionExpr) -> bool {
    takes_any_order(aggregate.fun().name())
}

/// Whether a sample's keys hold the keys of the join that it samples, so that a group is of one series.
fn is_by_series(sample: &SampleByExec) -> bool {
    let mut places: Vec<Option<usize>> = sample.keys().iter().map(index_of).collect();
    let mut input = sample.input();
    while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        let below =
            |place: usize| projection.expr().get(place).and_then(|projected| index_of(&projected.expr));
        places = places.into_iter().map(|place| place.and_then(below)).collect();
        input = projection.input();
    }
    let Some(join) = input.downcast_ref::<TimeJoinExec>() else { return false };
    matches!(join.matching, Matching::AsOf(_))
        && join.left_keys().all(|key| key.is_some() && places.contains(&key))
}

fn index_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
