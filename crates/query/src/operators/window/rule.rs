//! Recognises windows over the series of a table.
//!
//! The rule stands before the one that adds the sorts and the partitions that nodes require: the new node
//! requires none, and what else wants an order still gets its own sort.

use super::exec::{SeriesWindowExec, Stage, Step};
use super::slices::Order;
use super::sorted::SortedWindowExec;
use super::whole::PartitionAggregatesExec;
use crate::operators::below::{Below, Layer, down, table_column};
use crate::operators::rules::NodeRule;
use crate::operators::sample::grouping::Grouping;
use crate::operators::sample::sampler::Shape;
use crate::scan::ScanExec;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, WindowExpr};
use std::sync::Arc;

/// Has window functions over series run in the order in which rows are stored.
pub(in crate::operators) const WINDOWS_BY_SERIES: NodeRule = NodeRule::up("WindowsBySeries", |node| {
    if let Some(found) = by_series(node)? {
        return Ok(Some(Arc::new(found)));
    }
    let whole = windows_of(node)
        .and_then(|(windows, input)| PartitionAggregatesExec::of(windows, input, node.schema()));
    Ok(whole.map(|found| Arc::new(found) as _))
})
.of_pipeline();

/// Has other windows run by the same kernels, where rows come sorted for them.
///
/// Must run after sorts were put where they are needed, and the plan is checked.
pub(in crate::operators) const SORTED_WINDOWS: NodeRule =
    NodeRule::up("SortedWindows", |node| Ok(SortedWindowExec::of(node)?.map(|found| Arc::new(found) as _)))
        .of_pipeline();

/// The operator in the place of a node, where that is a window over the series of a table, or a filter of such.
fn by_series(node: &Arc<dyn ExecutionPlan>) -> Result<Option<SeriesWindowExec>> {
    if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) {
        let below = filter.input().downcast_ref::<SeriesWindowExec>().filter(|below| !below.is_grouped());
        let Some(below) = below else { return Ok(None) };
        let mut steps = below.steps().to_vec();
        steps.extend(Layer::of_filter(filter).into_iter().map(Step::Layer));
        let (input, keys) = (Arc::clone(below.input()), below.keys().to_vec());
        return SeriesWindowExec::new(input, steps, keys, node.schema()).map(Some);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return grouped(aggregate);
    }
    let Some((windows, input)) = windows_of(node) else { return Ok(None) };
    let mut steps = Vec::new();
    let Some((plan, known)) = below_steps(input, &mut steps) else { return Ok(None) };
    let Some(stage) = stage_of(windows, &steps, plan, (&input.schema(), node.schema()))? else {
        return Ok(None);
    };
    let Some(scan) = ScanExec::of(plan) else { return Ok(None) };
    let of_series = |column: &usize| scan.selected().table.schema().series().contains(column);
    let mut keys: Vec<usize> = stage.table_columns().filter(of_series).collect();
    if let Some(known) = known {
        keys.retain(|key| known.contains(key));
    }
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Ok(None);
    }
    steps.push(Step::Windows(stage));
    SeriesWindowExec::new(Arc::clone(plan), steps, keys, node.schema()).map(Some)
}

/// Groups of rows that windows by series give, in the place of an aggregation: each group is of one series where its keys
/// say which, so that whoever has the rows of a series makes its groups.
fn grouped(aggregate: &AggregateExec) -> Result<Option<SeriesWindowExec>> {
    let Some(Grouping { input, keys, aggregates }) = Grouping::of(aggregate) else { return Ok(None) };
    let mut steps = Vec::new();
    let Some((plan, Some(series))) = below_steps(input, &mut steps) else { return Ok(None) };
    let windows = SeriesWindowExec::new(Arc::clone(plan), steps.clone(), series.to_vec(), input.schema())?;
    let named = |column: &usize| keys.iter().any(|key| windows.table_column(key) == Some(*column));
    if !series.iter().all(named) {
        return Ok(None);
    }
    let (keys_of, output) = (series.to_vec(), aggregate.schema());
    let shape = Shape::of_batches(input.schema(), None, &keys, &aggregates, Arc::clone(&output))?;
    steps.push(Step::Groups(Arc::new(shape)));
    SeriesWindowExec::new(Arc::clone(plan), steps, keys_of, output).map(Some)
}

/// Window functions and what they read.
type Windows<'a> = (&'a [Arc<dyn WindowExpr>], &'a Arc<dyn ExecutionPlan>);

pub(super) fn windows_of(node: &Arc<dyn ExecutionPlan>) -> Option<Windows<'_>> {
    if let Some(bounded) = node.downcast_ref::<BoundedWindowAggExec>() {
        return bounded.state_observer().is_none().then(|| (bounded.window_expr(), bounded.input()));
    }
    node.downcast_ref::<WindowAggExec>().map(|window| (window.window_expr(), window.input()))
}

/// The scan below steps, and the columns by which rows are read where some of these are windows; the steps are added to
/// `steps`, the lowest first.
#[expect(clippy::type_complexity, reason = "a plan and columns of its table")]
fn below_steps<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    steps: &mut Vec<Step>,
) -> Option<(&'a Arc<dyn ExecutionPlan>, Option<&'a [usize]>)> {
    let mut layers = Vec::new();
    let windows = |plan: &'a Arc<dyn ExecutionPlan>| {
        plan.downcast_ref::<SeriesWindowExec>().filter(|below| !below.is_grouped())
    };
    let found = match down(plan, &mut layers, &windows) {
        Some(below) => {
            steps.extend(below.steps().iter().cloned());
            (below.input(), Some(below.keys()))
        }
        None => {
            layers.clear();
            let below = Below::of(plan).filter(Below::is_as_it_lies)?;
            layers = below.layers;
            (below.plan, None)
        }
    };
    steps.extend(layers.into_iter().map(Step::Layer));
    Some(found)
}

/// Window functions over what steps make of a scan; `None` where they are not to be run by series.
fn stage_of(
    windows: &[Arc<dyn WindowExpr>],
    steps: &[Step],
    scan: &Arc<dyn ExecutionPlan>,
    schemas: (&SchemaRef, SchemaRef),
) -> Result<Option<Stage>> {
    let (Some(first), Some(scan)) = (windows.first(), ScanExec::of(scan)) else { return Ok(None) };
    let Some(timestamp) = scan.selected().table.schema().timestamp() else { return Ok(None) };
    let layers = steps.iter().filter_map(|step| match step {
        Step::Layer(layer) => Some(layer),
        Step::Windows(_) | Step::Groups(_) => None,
    });
    let column = |expr: &Arc<dyn PhysicalExpr>| table_column(expr, layers.clone(), scan);
    let partition = first.partition_by().iter().map(|key| (Arc::clone(key), column(key))).collect();
    let is_time = |by: &PhysicalSortExpr| column(&by.expr) == Some(timestamp);
    let order = match first.order_by() {
        [] => Order::Any,
        [by] if is_time(by) => {
            let Some(column) = by.expr.downcast_ref::<Column>() else { return Ok(None) };
            if by.options.descending {
                let backwards = windows.iter().map(|window| window.get_reverse_expr());
                if let Some(windows) = backwards.collect::<Option<Vec<_>>>() {
                    return Stage::new(&windows, partition, Order::Time(column.index()), schemas).map(Some);
                }
            } else {
                return Stage::new(windows, partition, Order::Time(column.index()), schemas).map(Some);
            }
            Order::By { exprs: first.order_by().to_vec(), in_time: false }
        }
        [by, ..] => {
            let in_time = is_time(by) && !by.options.descending;
            Order::By { exprs: first.order_by().to_vec(), in_time }
        }
    };
    Stage::new(windows, partition, order, schemas).map(Some)
}
