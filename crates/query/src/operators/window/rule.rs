//! Recognises windows over the series of a table.
//!
//! The rule stands before the one that adds the sorts and the partitions that nodes require: the new node
//! requires none, and what else wants an order still gets its own sort.

use super::exec::{Layer, SeriesWindowExec};
use crate::scan::{ScanExec, ScanOrder};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, WindowExpr};
use std::sync::Arc;

/// Has window functions over series run in the order in which rows are stored.
#[derive(Debug)]
pub(crate) struct WindowsBySeries;

impl PhysicalOptimizerRule for WindowsBySeries {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let found = by_series(&node)?;
            Ok(found.map_or_else(|| Transformed::no(node), |found| Transformed::yes(Arc::new(found) as _)))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "WindowsBySeries"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator in the place of a node, where that is a window over the series of a table.
fn by_series(node: &Arc<dyn ExecutionPlan>) -> Result<Option<SeriesWindowExec>> {
    let Some((windows, input)) = windows_of(node) else { return Ok(None) };
    if let Some(below) = input.downcast_ref::<SeriesWindowExec>() {
        let Some(found) = Found::in_scan(windows, below.layers(), below.input()) else { return Ok(None) };
        if found.keys != below.keys() {
            return Ok(None);
        }
        return below.with_windows(&found.windows, node.schema()).map(Some);
    }
    let mut layers = Vec::new();
    let Some(scan) = below_layers(input, &mut layers) else { return Ok(None) };
    let Some(found) = Found::in_scan(windows, &layers, scan) else { return Ok(None) };
    let exec = SeriesWindowExec::new(Arc::clone(scan), layers, found.keys, found.time)?;
    exec.with_windows(&found.windows, node.schema()).map(Some)
}

/// Window functions and what they read.
type Windows<'a> = (&'a [Arc<dyn WindowExpr>], &'a Arc<dyn ExecutionPlan>);

fn windows_of(node: &Arc<dyn ExecutionPlan>) -> Option<Windows<'_>> {
    if let Some(bounded) = node.downcast_ref::<BoundedWindowAggExec>() {
        return bounded.state_observer().is_none().then(|| (bounded.window_expr(), bounded.input()));
    }
    node.downcast_ref::<WindowAggExec>().map(|window| (window.window_expr(), window.input()))
}

/// The scan below nodes that make one row of one row, or none; those are added to `layers`, the lowest first.
pub(in crate::operators) fn below_layers<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    layers: &mut Vec<Layer>,
) -> Option<&'a Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let as_it_lies = *scan.order() == ScanOrder::Natural && scan.fetch_limit().is_none();
        return as_it_lies.then_some(plan);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let scan = below_layers(projection.input(), layers)?;
        let exprs = projection.expr().iter().map(|projected| Arc::clone(&projected.expr)).collect();
        layers.push(Layer::Project(exprs, plan.schema()));
        return Some(scan);
    }
    let filter = plan.downcast_ref::<FilterExec>()?;
    if filter.projection().is_some() || filter.fetch().is_some() {
        return None;
    }
    let scan = below_layers(filter.input(), layers)?;
    layers.push(Layer::Filter(Arc::clone(filter.predicate())));
    Some(scan)
}

/// Windows that go by series and time.
struct Found {
    /// In ascending order of time.
    windows: Vec<Arc<dyn WindowExpr>>,
    /// The columns of the table they are partitioned by, ascending.
    keys: Vec<usize>,
    /// Where the designated timestamp is among the columns they read, where they are in its order.
    time: Option<usize>,
}

impl Found {
    fn in_scan(
        windows: &[Arc<dyn WindowExpr>],
        layers: &[Layer],
        scan: &Arc<dyn ExecutionPlan>,
    ) -> Option<Self> {
        let scan = ScanExec::of(scan)?;
        let schema = scan.selected().table.schema();
        let (first, timestamp) = (windows.first()?, schema.timestamp()?);
        let keys = first.partition_by().iter().map(|key| table_column(key, layers, scan));
        let mut keys = keys.collect::<Option<Vec<usize>>>()?;
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() || !keys.iter().all(|key| schema.series().contains(key)) {
            return None;
        }
        let (time, descending) = match first.order_by() {
            [] => (None, false),
            [order] if table_column(&order.expr, layers, scan) == Some(timestamp) => {
                (Some(order.expr.downcast_ref::<Column>()?.index()), order.options.descending)
            }
            _ => return None,
        };
        let forwards = |window: &Arc<dyn WindowExpr>| match descending {
            true => window.get_reverse_expr(),
            false => Some(Arc::clone(window)),
        };
        Some(Self { windows: windows.iter().map(forwards).collect::<Option<_>>()?, keys, time })
    }
}

/// The column of the table that an expression over the layers is.
pub(in crate::operators) fn table_column(
    expr: &Arc<dyn PhysicalExpr>,
    layers: &[Layer],
    scan: &ScanExec,
) -> Option<usize> {
    let mut index = expr.downcast_ref::<Column>()?.index();
    for layer in layers.iter().rev() {
        if let Layer::Project(exprs, _) = layer {
            index = exprs.get(index)?.downcast_ref::<Column>()?.index();
        }
    }
    scan.projection().get(index).copied()
}
