//! Which inputs of a join can be read series by series.

use super::super::exec::AsOfJoinExec;
use crate::scan::{ScanExec, ScanOrder};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Both sides of a join that can be done by series.
#[derive(Debug)]
pub(in crate::operators) struct Sides {
    pub(in crate::operators) left: Side,
    pub(in crate::operators) right: Side,
}

/// A scan, and what the join takes of it.
#[derive(Debug)]
pub(in crate::operators) struct Side {
    pub(in crate::operators) scan: ScanExec,
    /// The columns of the input as columns of the table.
    pub(in crate::operators) columns: Vec<usize>,
    /// The keys as columns of the table.
    pub(in crate::operators) keys: Vec<usize>,
}

impl Sides {
    /// The sides of a join; `None` where it cannot be done by series.
    pub(in crate::operators) fn of(join: &AsOfJoinExec) -> Option<Self> {
        let [left, right] = join.inputs();
        let left = Side::of(left, &join.times.0, &join.keys.0)?;
        let right = Side::of(right, &join.times.1, &join.keys.1)?;
        // A key that is only a part of the right series key has many series, which overlap in time.
        let whole = right.series_key().iter().all(|column| right.keys.contains(column));
        (whole && !left.keys.is_empty()).then_some(Self { left, right })
    }
}

impl Side {
    /// The side that an input is with this time and these keys; `None` where it cannot be read by series.
    pub(in crate::operators) fn of(
        input: &Arc<dyn ExecutionPlan>,
        time: &Arc<dyn PhysicalExpr>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Option<Self> {
        let (scan, columns) = scan_of(input)?;
        let column = |expr: &Arc<dyn PhysicalExpr>| {
            expr.downcast_ref::<Column>().and_then(|column| columns.get(column.index()).copied())
        };
        let keys: Vec<usize> = keys.iter().map(column).collect::<Option<_>>()?;
        let schema = scan.selected().table.schema();
        let fits = schema.timestamp().is_some()
            && column(time) == schema.timestamp()
            && keys.iter().all(|key| schema.series().contains(key))
            && scan.fetch_limit().is_none()
            && *scan.order() == ScanOrder::Natural;
        let scan = scan.clone();
        fits.then_some(Self { scan, columns, keys })
    }

    fn series_key(&self) -> &[usize] {
        self.scan.selected().table.schema().series()
    }

    /// Rows that its scan selects; `None` where that is not known yet.
    pub(in crate::operators) fn rows(&self) -> Option<u64> {
        self.scan.filters().is_none().then(|| self.scan.selected().rows)
    }
}

/// The scan that a plan is but for plain projections, and the columns of its table that the plan yields.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(&ScanExec, Vec<usize>)> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        let scan = ScanExec::of(plan)?;
        return Some((scan, scan.projection().to_vec()));
    };
    let (scan, below) = scan_of(projection.input())?;
    let columns = projection.expr().iter().map(|projected| {
        let column = projected.expr.downcast_ref::<Column>()?;
        below.get(column.index()).copied()
    });
    Some((scan, columns.collect::<Option<_>>()?))
}

/// The input of a join by series with its scan in order of time instead, in one partition.
pub(in crate::operators) fn in_time_order(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(Arc::new(scan.in_time_order()));
    }
    let [input] = plan.children()[..] else {
        return datafusion::common::internal_err!("{} is not above a scan", plan.name());
    };
    let ordered = in_time_order(input)?;
    if plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some()
    {
        return Ok(ordered);
    }
    Arc::clone(plan).replace_children(vec![ordered], crate::operators::recompute())
}
