//! ORDER BY the designated timestamp, or symbols of the series key and then time, also where a filter stands
//! between: the scan yields its rows in that order, and nothing is sorted. A sort that is not stable would
//! also lose the order of arrival of equal times.

use super::pieces::PiecesExec;
use super::rules::{NodeRule, Replaced};
use super::window::exec::SeriesWindowExec;
use crate::scan::{ScanExec, plain_columns};
use datafusion::arrow::compute::SortOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use std::sync::Arc;

/// Must run after sorts were put where they are needed.
pub(super) const ORDER_OF_SCAN: NodeRule = NodeRule::up("order_of_scan", without_sort);

/// What takes the place of a sort that a scan can spare, or of a merge of sorted partitions of which there is one left.
fn without_sort(plan: &Arc<dyn ExecutionPlan>) -> Replaced {
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        let properties = merge.input().equivalence_properties();
        let sorted = properties.ordering_satisfy(merge.expr().iter().cloned())?;
        let one = merge.input().output_partitioning().partition_count() == 1;
        return Ok((one && sorted).then(|| limited(Arc::clone(merge.input()), merge.fetch())));
    }
    let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(None) };
    let Some(columns) = plain_columns(sort.expr()) else { return Ok(None) };
    let ordered = in_order(sort.input(), columns)?;
    Ok(ordered.map(|ordered| limited(ordered, sort.fetch())))
}

fn limited(plan: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
    match fetch {
        Some(_) => Arc::new(GlobalLimitExec::new(plan, 0, fetch)),
        None => plan,
    }
}

/// The same rows in the order of columns, where a scan yields them so.
pub(super) fn in_order(plan: &Arc<dyn ExecutionPlan>, columns: Vec<(usize, SortOptions)>) -> Replaced {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(scan.sorted_by(&columns).map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>));
    }
    if let Some(windows) = plan.downcast_ref::<SeriesWindowExec>() {
        let sorted = windows.sorted_by(&columns)?;
        return Ok(sorted.map(|windows| Arc::new(windows) as Arc<dyn ExecutionPlan>));
    }
    // These only join or deal out the partitions, of which there is one now.
    if let Some(joined) = plan.downcast_ref::<CoalescePartitionsExec>().filter(|of| of.fetch().is_none()) {
        return in_order(joined.input(), columns);
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>()
        && matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_))
    {
        return in_order(dealt.input(), columns);
    }
    let below = columns.into_iter().map(|(column, options)| Some((column_below(plan, column)?, options)));
    let Some(below) = below.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(input) = in_order(plan.children()[0], below)? else { return Ok(None) };
    Arc::clone(plan).replace_children(vec![input], super::recompute()).map(Some)
}

/// The column of its input that a column is, of a node that keeps the order of rows.
fn column_below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<usize> {
    if plan.downcast_ref::<CooperativeExec>().is_some() {
        return Some(column);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let unlimited = filter.fetch().is_none();
        return match filter.projection() {
            Some(projection) => projection.get(column).copied().filter(|_| unlimited),
            None => unlimited.then_some(column),
        };
    }
    let pieces = plan.downcast_ref::<PiecesExec>().map(PiecesExec::projection);
    let projection = pieces.or_else(|| plan.downcast_ref::<ProjectionExec>())?;
    projection.expr().get(column)?.expr.downcast_ref::<Column>().map(Column::index)
}
