//! The operator of FILL.

use super::grid::Grid;
use crate::functions::bucket::Bucketing;
use crate::operators::sample::exec::{grid_order, grid_properties};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// The most rows FILL makes; past it the query fails with the way out.
pub(crate) const MAX_FILLED_ROWS: usize = 50_000_000;

/// How a value column of a missing row is filled.
#[derive(Debug, Clone)]
pub(crate) enum FillColumn {
    Null,
    Prev,
    /// With another column of the key's last row: its place in the input.
    PrevOf(usize),
    Linear,
    /// A constant expression of the column's type.
    Constant(Arc<dyn PhysicalExpr>),
}

type Bound = Option<Arc<dyn PhysicalExpr>>;

/// Collects the rows of SAMPLE BY, yields the grid in pieces.
#[derive(Debug, Clone)]
pub(crate) struct FillExec {
    input: Arc<dyn ExecutionPlan>,
    keys: usize,
    bucketing: Bucketing,
    bounds: (Bound, Bound),
    fills: Vec<FillColumn>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FillExec {
    pub(crate) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        keys: usize,
        bucketing: Bucketing,
        bounds: (Bound, Bound),
        fills: Vec<FillColumn>,
        schema: SchemaRef,
    ) -> Result<Self> {
        for (fill, field) in fills.iter().zip(schema.fields().iter().skip(1 + keys)) {
            let data_type = field.data_type();
            let numeric = data_type.is_numeric() || *data_type == DataType::Null;
            if matches!(fill, FillColumn::Linear) && !numeric {
                return plan_err!("FILL(LINEAR) fills numbers, and '{}' is {data_type}", field.name());
            }
        }
        let properties = Arc::new(grid_properties(schema, 1 + keys));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, keys, bucketing, bounds, fills, properties, metrics })
    }
}

/// The value of a constant expression, in nanoseconds.
fn instant(bound: &Bound) -> Result<Option<i64>> {
    let Some(bound) = bound else { return Ok(None) };
    match constant(bound)? {
        ScalarValue::TimestampNanosecond(Some(nanos), _) => Ok(Some(nanos)),
        other => plan_err!("FROM and TO of SAMPLE BY are instants, not {other}"),
    }
}

/// The value of an expression that reads no columns.
pub(super) fn constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    let one = ScalarValue::Boolean(Some(true)).to_array()?;
    let batch = datafusion::arrow::record_batch::RecordBatch::try_from_iter([("one", one)])?;
    let array = expr.evaluate(&batch)?.into_array(1)?;
    ScalarValue::try_from_array(&array, 0)
}

impl DisplayAs for FillExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FillExec: every {}, keys={}, values=[", self.bucketing, self.keys)?;
        for (index, fill) in self.fills.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match fill {
                FillColumn::Null => write!(f, "{comma}NULL")?,
                FillColumn::Prev => write!(f, "{comma}PREV")?,
                FillColumn::PrevOf(of) => {
                    write!(f, "{comma}PREV({})", self.input.schema().field(*of).name())?
                }
                FillColumn::Linear => write!(f, "{comma}LINEAR")?,
                FillColumn::Constant(expr) => write!(f, "{comma}{expr}")?,
            }
        }
        f.write_str("]")
    }
}

impl ExecutionPlan for FillExec {
    fn name(&self) -> &'static str {
        "FillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![grid_order(&self.input.schema(), 1 + self.keys).map(OrderingRequirements::from)]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut go_on = TreeNodeRecursion::Continue;
        let constants = self.fills.iter().filter_map(|fill| match fill {
            FillColumn::Constant(expr) => Some(expr),
            _ => None,
        });
        for expr in self.bounds.0.iter().chain(&self.bounds.1).chain(constants) {
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
        self.replace_children(children, super::super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let mut input = self.input.execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new("FillExec").register(context.memory_pool());
        let (from, to) = (instant(&self.bounds.0)?, instant(&self.bounds.1)?);
        let (fills, keys, bucketing) = (self.fills.clone(), self.keys, self.bucketing);
        let (schema, batch_rows) = (self.schema(), context.session_config().batch_size());
        let input_schema = self.input.schema();
        let grid = async move {
            let mut batches = Vec::new();
            while let Some(batch) = input.next().await {
                let batch = batch?;
                reservation.try_grow(2 * batch.get_array_memory_size())?;
                batches.push(batch);
            }
            let rows = concat_batches(&input_schema, &batches)?;
            let grid = Grid::try_new(rows, keys, bucketing, (from, to), &fills, schema)?;
            Ok::<_, datafusion::error::DataFusionError>((grid, reservation))
        };
        let stream = futures::stream::once(grid).map_ok(move |(mut grid, reservation)| {
            let baseline = baseline.clone();
            futures::stream::iter(std::iter::from_fn(move || {
                let _held = &reservation;
                let _timer = baseline.elapsed_compute().timer();
                let batch = grid.next(batch_rows).transpose()?;
                if let Ok(batch) = &batch {
                    baseline.record_output(batch.num_rows());
                }
                Some(batch)
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
