//! Filters that scans work out themselves: before the other columns of a row are read, and before rows are put in order.

use super::pieces::is_large;
use super::window::exec::SeriesWindowExec;
use crate::scan::ScanExec;
use crate::settings::has_pipeline;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Must run after all rules that look for filters, or for what scans yield.
#[derive(Debug)]
pub(crate) struct FiltersInScans;

impl PhysicalOptimizerRule for FiltersInScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_pipeline(config) {
            return Ok(plan);
        }
        let into_scan = |node: Arc<dyn ExecutionPlan>| {
            let changed = if let Some(filter) = node.downcast_ref::<FilterExec>() {
                filtered(filter)?
            } else if let Some(windows) = node.downcast_ref::<SeriesWindowExec>() {
                windows.with_filter_in_scan()?.map(|windows| Arc::new(windows) as Arc<dyn ExecutionPlan>)
            } else {
                None
            };
            Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
        };
        let plan = plan.transform_down(into_scan).data()?;
        plan.transform_up(|node| {
            let narrowed = node.downcast_ref::<ProjectionExec>().map(narrowed).transpose()?.flatten();
            Ok(narrowed.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "filters_in_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan that works out a filter above it; `None` where that is above something else, or makes large values.
fn filtered(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if is_large(filter.predicate()) {
        return Ok(None);
    }
    if let Some(projection) = filter.input().downcast_ref::<ProjectionExec>() {
        return below_projection(filter, projection);
    }
    let (fetch, yielded) = (filter.fetch(), filter.projection().as_deref());
    on_scan(filter.input(), |scan| {
        let scan = scan.with_condition(filter.predicate(), fetch, yielded)?;
        Ok(scan.map(|scan| scan.with_equivalences(filter.properties().eq_properties.clone())))
    })
}

/// A projection over a scan that works out the filter above it: what they have in common stands below filters.
fn below_projection(
    filter: &FilterExec,
    projection: &ProjectionExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let exprs = projection.expr();
    if exprs.iter().any(|made| is_volatile(&made.expr)) {
        return Ok(None);
    }
    let predicate = Arc::clone(filter.predicate()).transform_up(|expr| {
        let made = expr.downcast_ref::<Column>().and_then(|column| exprs.get(column.index()));
        Ok(made.map_or_else(
            || Transformed::no(Arc::clone(&expr)),
            |made| Transformed::yes(Arc::clone(&made.expr)),
        ))
    });
    let below = FilterExecBuilder::new(predicate.data()?, Arc::clone(projection.input()));
    let Some(input) = filtered(&below.with_fetch(filter.fetch()).build()?)? else { return Ok(None) };
    let exprs = match filter.projection() {
        Some(yielded) => yielded.iter().map(|at| exprs[*at].clone()).collect(),
        None => exprs.to_vec(),
    };
    let above = ProjectionExec::try_new(exprs, input)?;
    Ok(Some(narrowed(&above)?.unwrap_or_else(|| Arc::new(above))))
}

/// A scan that works out the filters above it, and what is made of its columns; `None` where there is no filter of it.
pub(super) fn with_filters_in_scan(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filtered(filter);
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(input) = with_filters_in_scan(projection.input())? else { return Ok(None) };
    let projection = ProjectionExec::try_new(projection.expr().to_vec(), input)?;
    Ok(Some(narrowed(&projection)?.unwrap_or_else(|| Arc::new(projection))))
}

/// What becomes of a scan, perhaps below a node that makes it give way to others.
pub(super) fn on_scan(
    plan: &Arc<dyn ExecutionPlan>,
    change: impl Fn(&ScanExec) -> Result<Option<ScanExec>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        let changed = on_scan(cooperative.input(), change)?;
        return Ok(changed.map(|changed| Arc::new(CooperativeExec::new(changed)) as Arc<dyn ExecutionPlan>));
    }
    let Some(scan) = plan.downcast_ref::<ScanExec>() else { return Ok(None) };
    Ok(change(scan)?.map(|changed| Arc::new(changed) as Arc<dyn ExecutionPlan>))
}

/// A projection over a scan that yields no more than it reads: what only the condition looks at is not yielded.
fn narrowed(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut read: Vec<usize> = projection
        .expr()
        .iter()
        .flat_map(|of| collect_columns(&of.expr).into_iter().map(|column| column.index()))
        .collect();
    read.sort_unstable();
    read.dedup();
    let narrow = |scan: &ScanExec| {
        let fewer = scan.has_condition() && read.len() < scan.projection().len();
        Ok(fewer.then(|| scan.yielding(&read)))
    };
    let Some(input) = on_scan(projection.input(), narrow)? else { return Ok(None) };
    let exprs = projection.expr().iter().map(|of| {
        let moved = Arc::clone(&of.expr).transform_up(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = read.binary_search(&column.index()).unwrap_or(usize::MAX);
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as _))
        });
        Ok(ProjectionExpr::new(moved.data()?, of.alias.clone()))
    });
    let projection = ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, input)?;
    Ok(Some(Arc::new(projection)))
}

#[cfg(test)]
pub(super) mod tests;
