//! The operator of SAMPLE BY with bars of a size.

use super::super::exec::grid_properties;
use super::super::kernel::keeps_ends;
use super::super::node::write_list;
use super::super::sampler::{Shape, Shaped};
use super::cut::{BarShape, BarState, joined};
use super::node::BarSize;
use super::series;
use crate::operators::TIME_ORDER;
use crate::operators::reduce::in_pieces;
use crate::operators::series::BySeries;
use crate::scan::ScanExec;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_datafusion_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_expr::{
    Distribution, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Groups its whole input by bar and key; yields bars in order of time, then keys.
#[derive(Debug, Clone)]
pub(crate) struct BarsExec {
    /// The rows, or the scan they are read from by series.
    input: Arc<dyn ExecutionPlan>,
    by_series: Option<BySeries>,
    shape: Arc<BarShape>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
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
        let properties = Arc::new(grid_properties(Arc::clone(&output), 1 + keys.len()));
        let (by_series, input) = match BySeries::of(&input, &time, &keys) {
            Some((by_series, scan)) => (Some(by_series), scan),
            None => (None, input),
        };
        let (outer, inner) = (Vec::new(), Vec::new());
        let reduced = Shape { input: row_schema, time: None, outer, inner, aggregates, exprs, output };
        let shape = Arc::new(BarShape { time, of, keys, size, reduced });
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, by_series, shape, properties, metrics })
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

impl DisplayAs for BarsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
}

impl ExecutionPlan for BarsExec {
    fn name(&self) -> &'static str {
        "BarsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match &self.by_series {
            Some(_) => Distribution::UnspecifiedDistribution,
            None => Distribution::SinglePartition,
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let time = || LexOrdering::new([PhysicalSortExpr::new(Arc::clone(&self.shape.time), TIME_ORDER)]);
        vec![if self.by_series.is_some() { None } else { time().map(OrderingRequirements::from) }]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let BarShape { time, of, keys, reduced, .. } = self.shape.as_ref();
        let mut go_on = TreeNodeRecursion::Continue;
        for expr in [time, of].into_iter().chain(keys).chain(&reduced.exprs) {
            go_on = go_on.visit_sibling(|| f(expr))?;
        }
        Ok(go_on)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, crate::operators::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = context.session_config().batch_size();
        let (consumer, pool) = (MemoryConsumer::new("BarsExec"), Arc::clone(context.memory_pool()));
        let reservation = move || consumer.clone_with_new_id().register(&pool);
        let (shape, held) = (Arc::clone(&self.shape), reservation());
        let Some(by_series) = self.by_series.clone() else {
            let input = self.input.execute(0, Arc::clone(&context))?;
            let state = BarState::try_new(&shape, reservation())?;
            let rows = Self::reduce(shape, input, state, baseline);
            return Ok(in_pieces(rows, self.schema(), batch_rows, held));
        };
        let scan = ScanExec::of(&self.input)
            .ok_or_else(|| internal_datafusion_err!("BarsExec by series has no scan below it"))?;
        if scan.filters().is_some() {
            return internal_err!("a template of a plan cannot run");
        }
        let rows = series::run(scan.clone(), by_series, shape, reservation, baseline);
        Ok(in_pieces(rows, self.schema(), batch_rows, held))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
