//! The operator of SAMPLE BY with bars of a size.

use super::super::exec::grid_properties;
use super::super::kernel::keeps_ends;
use super::super::sampler::{Shape, Shaped};
use super::cut::{BarShape, BarState, joined};
use super::node::BarSize;
use super::series;
use crate::operators::exec::{Core, Need, Operator, operator};
use crate::operators::node::write_list;
use crate::operators::reduce::in_pieces;
use crate::operators::series::BySeries;
use crate::scan::ScanExec;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{internal_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Groups its whole input by bar and key; yields bars in order of time, then keys.
#[derive(Debug, Clone)]
pub(crate) struct BarsExec {
    /// Its input is the rows, or the scan they are read from by series.
    core: Core,
    by_series: Option<BySeries>,
    shape: Arc<BarShape>,
}

/// What a bar is of: the order of rows, what each adds, and the keys.
pub(crate) struct BarRows {
    pub(crate) time: Arc<dyn PhysicalExpr>,
    pub(crate) of: Arc<dyn PhysicalExpr>,
    pub(crate) keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl BarsExec {
    /// # Errors
    /// Where an aggregate needs its rows in an order other than that of time.
    pub(crate) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        rows: BarRows,
        size: BarSize,
        aggregates: &[LoweredAggregate],
        output: SchemaRef,
    ) -> Result<Self> {
        if let Some(ordered) = aggregates.iter().find(|of| of.aggregate.order_sensitivity().hard_requires()) {
            let name = ordered.aggregate.fun().name();
            return plan_err!(
                "SAMPLE BY {} reads rows in order of time, which {name}(… ORDER BY …) cannot do with: leave its ORDER BY out, or put the bars into a sub-query and join them",
                size.word()
            );
        }
        let BarRows { time, of, keys } = rows;
        let row_schema = input.schema();
        let mut exprs = Vec::new();
        let aggregates = aggregates.iter().map(|of| {
            let by_ends = takes_ends(of, &time, &row_schema);
            Shaped::new(of, &row_schema, by_ends, &mut exprs)
        });
        let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        let properties = grid_properties(Arc::clone(&output), 1 + keys.len());
        let (by_series, input) = match BySeries::of(&input, &time, &keys) {
            Some((by_series, scan)) => (Some(by_series), scan),
            None => (None, input),
        };
        let (outer, inner) = (Vec::new(), Vec::new());
        let reduced = Shape { input: row_schema, time: None, outer, inner, aggregates, exprs, output };
        let shape = Arc::new(BarShape { time, of, keys, size, reduced });
        Ok(Self { core: Core::new([input], properties), by_series, shape })
    }

    /// The rows of an input that comes in order of time.
    async fn reduce(
        shape: Arc<BarShape>,
        mut input: SendableRecordBatchStream,
        mut state: BarState,
        baseline: BaselineMetrics,
    ) -> Result<RecordBatch> {
        while let Some(batch) = input.next().await {
            let _timer = baseline.elapsed_compute().timer();
            state.update(&batch?, None)?;
        }
        let _timer = baseline.elapsed_compute().timer();
        let rows = joined(vec![state.finish()?], &shape.reduced.output)?;
        baseline.record_output(rows.num_rows());
        Ok(rows)
    }
}

/// Whether an aggregate is first or last by the order of rows, over values that are kept.
fn takes_ends(lowered: &LoweredAggregate, time: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let LoweredAggregate { aggregate, filter, order_bys } = lowered;
    let plain = !aggregate.is_distinct() && !aggregate.ignore_nulls() && order_bys.is_empty();
    let arguments = aggregate.expressions();
    let [value, by] = arguments.as_slice() else { return false };
    let held = value.data_type(input).is_ok_and(|of| keeps_ends(&of));
    let named = matches!(aggregate.fun().name(), "first" | "last");
    plain && filter.is_none() && named && held && by == time
}

operator!(BarsExec);

impl Operator for BarsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BarShape { of, keys, size, reduced, .. } = self.shape.as_ref();
        write!(f, "BarsExec: {size}")?;
        if !size.is_ticks() {
            write!(f, " of {of}")?;
        }
        f.write_str(", keys=[")?;
        write_list(f, keys)?;
        f.write_str("], aggregates=[")?;
        let names: Vec<&str> = reduced.aggregates.iter().map(|of| of.lowered.aggregate.name()).collect();
        write_list(f, &names)?;
        f.write_str(if self.by_series.is_some() { "], by series" } else { "], by rows in order of time" })
    }

    fn needs(&self) -> Vec<Need> {
        vec![if self.by_series.is_some() { Need::Any } else { Need::by_time(&self.shape.time) }]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let BarShape { time, of, keys, reduced, .. } = self.shape.as_ref();
        [time, of].into_iter().chain(keys).chain(&reduced.exprs).cloned().collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(output);
        let batch_rows = context.session_config().batch_size();
        let reservation = self.reservations(&context);
        let (shape, held) = (Arc::clone(&self.shape), reservation());
        let Some(by_series) = self.by_series.clone() else {
            let input = self.core.input().execute(0, Arc::clone(&context))?;
            let state = BarState::try_new(&shape, reservation())?;
            let rows = Self::reduce(shape, input, state, baseline);
            return Ok(in_pieces(rows, self.schema(), batch_rows, held));
        };
        let scan = ScanExec::of(self.core.input())
            .ok_or_else(|| internal_datafusion_err!("BarsExec by series has no scan below it"))?;
        let rows = series::run(scan.bound()?.clone(), by_series, shape, reservation, baseline);
        Ok(in_pieces(rows, self.schema(), batch_rows, held))
    }
}
