//! The operator of WINDOW, HORIZON and SPLICE JOIN.

use super::by_series::{Work, in_batches};
use super::chunks::Chunks;
use super::node::Kind;
use super::rows::Shape;
use crate::operators::TIME_ORDER;
use crate::operators::asof::by_series::{Running, Side, Sides};
use crate::operators::asof::exec::{KeyExprs, Way};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PlanProperties,
};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// Yields left rows with what the right side is around their times; of a splice the rows of both sides.
#[derive(Debug, Clone)]
pub(crate) struct SeriesJoinExec {
    way: Way,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    pub(super) times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
    pub(super) keys: (KeyExprs, KeyExprs),
    pub(super) shape: Shape,
    properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) running: Arc<Running<Work>>,
}

impl SeriesJoinExec {
    /// Joins its inputs in order of time.
    pub(super) fn new(
        (left, right): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
        times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
        keys: (KeyExprs, KeyExprs),
        shape: Shape,
    ) -> Self {
        let properties = properties(Way::Merge, [&left, &right], &times.0, &shape);
        let (metrics, running) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Self { way: Way::Merge, left, right, times, keys, shape, properties, metrics, running }
    }

    /// The same join in another way.
    pub(in crate::operators) fn with_way(&self, way: Way) -> Self {
        let properties = properties(way, self.inputs(), &self.times.0, &self.shape);
        let (metrics, running) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Self { way, properties, metrics, running, ..self.clone() }
    }

    pub(super) fn inputs(&self) -> [&Arc<dyn ExecutionPlan>; 2] {
        [&self.left, &self.right]
    }

    pub(super) fn schemas(&self) -> (SchemaRef, SchemaRef) {
        (self.left.schema(), self.right.schema())
    }

    /// Its inputs as scans that can be read by series; `None` where they are not.
    pub(super) fn scans(&self) -> Option<Sides> {
        let left = Side::of(&self.left, &self.times.0, &self.keys.0)?;
        let right = Side::of(&self.right, &self.times.1, &self.keys.1)?;
        (!left.keys.is_empty()).then_some(Sides { left, right })
    }

    /// Whether it can be done by series, and the most rows that then come; `None` in it where that is not
    /// known yet.
    pub(in crate::operators) fn rows_by_series(&self) -> Option<Option<u64>> {
        self.scans().map(|sides| self.rows_of(&sides))
    }

    pub(super) fn merge(
        &self,
        [left, right]: [&Arc<dyn ExecutionPlan>; 2],
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let left = left.execute(partition, Arc::clone(context))?;
        let right = right.execute(partition, Arc::clone(context))?;
        let chunks = Chunks::try_new(self, (left, right), self.reservation(context), baseline)?;
        let chunks = futures::stream::try_unfold(chunks, |mut chunks| async move {
            Ok::<_, DataFusionError>(chunks.next().await?.map(|joined| (joined, chunks)))
        });
        let (shape, most) = (self.shape.clone(), context.session_config().batch_size().max(1));
        let batches = chunks.map_ok(move |joined| in_batches(joined, shape.clone(), most));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten())))
    }

    pub(super) fn reservation(&self, context: &Arc<TaskContext>) -> MemoryReservation {
        MemoryConsumer::new("SeriesJoinExec").register(context.memory_pool())
    }
}

fn properties(
    way: Way,
    [left, right]: [&Arc<dyn ExecutionPlan>; 2],
    time: &Arc<dyn PhysicalExpr>,
    shape: &Shape,
) -> Arc<PlanProperties> {
    let mut equivalences = EquivalenceProperties::new(Arc::clone(&shape.schema));
    let partitions = |input: &Arc<dyn ExecutionPlan>| input.output_partitioning().partition_count();
    let partitions = match way {
        Way::BySeries => partitions(left).max(partitions(right)),
        Way::Merge | Way::Probe | Way::ProbeInOrder | Way::BySeriesInOrder => {
            // Left columns have the same places in the output. No column of a splice has the time of each row.
            if shape.kind != Kind::Splice {
                equivalences.add_orderings(by_time(time));
            }
            1
        }
    };
    let emission = match way {
        Way::BySeriesInOrder => EmissionType::Final,
        Way::Merge | Way::Probe | Way::ProbeInOrder | Way::BySeries => EmissionType::Incremental,
    };
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    Arc::new(PlanProperties::new(equivalences, partitioning, emission, Boundedness::Bounded))
}

fn by_time(time: &Arc<dyn PhysicalExpr>) -> Option<LexOrdering> {
    LexOrdering::new([PhysicalSortExpr::new(Arc::clone(time), TIME_ORDER)])
}

impl DisplayAs for SeriesJoinExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeriesJoinExec: {}, {} {}, on=[", self.shape.kind, self.times.0, self.times.1)?;
        for (index, (left, right)) in self.keys.0.iter().zip(&self.keys.1).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        write!(f, "], aggregates=[{}]", self.shape.aggregates.names().join(", "))?;
        match self.way {
            Way::Merge | Way::Probe | Way::ProbeInOrder => Ok(()),
            Way::BySeries => f.write_str(", by series"),
            Way::BySeriesInOrder => f.write_str(", by series, then in time order"),
        }
    }
}

impl ExecutionPlan for SeriesJoinExec {
    fn name(&self) -> &'static str {
        "SeriesJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let each = match self.way {
            Way::Merge | Way::Probe | Way::ProbeInOrder => Distribution::SinglePartition,
            Way::BySeries | Way::BySeriesInOrder => Distribution::UnspecifiedDistribution,
        };
        InputDistributionRequirements::new(vec![each.clone(), each])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        if self.way != Way::Merge {
            return vec![None, None];
        }
        [&self.times.0, &self.times.1].map(|time| by_time(time).map(OrderingRequirements::from)).to_vec()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // Only the order of time, which it declares itself.
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut go_on = f(&self.times.0)?;
        go_on = go_on.visit_sibling(|| f(&self.times.1))?;
        for expr in self.keys.0.iter().chain(&self.keys.1).chain(self.shape.aggregates.exprs()) {
            go_on = go_on.visit_sibling(|| f(expr))?;
        }
        Ok(go_on)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = <[_; 2]>::try_from(children).map_err(|given| {
            datafusion::common::internal_datafusion_err!("SeriesJoinExec has two inputs, not {}", given.len())
        })?;
        let (metrics, running) = (ExecutionPlanMetricsSet::new(), Arc::default());
        let moved = Self { left, right, metrics, running, ..Self::clone(&self) };
        Ok(Arc::new(match options.children_properties {
            ChildrenPropertiesMode::Keep => moved,
            ChildrenPropertiesMode::Recompute => moved.with_way(self.way),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, crate::operators::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.way {
            Way::Merge | Way::Probe | Way::ProbeInOrder => self.merge(self.inputs(), partition, &context),
            Way::BySeries => self.by_series(partition, &context),
            Way::BySeriesInOrder => self.by_series_in_order(&context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
