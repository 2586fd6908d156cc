//! The operator of ASOF JOIN.

use super::by_series::{Running, Side, Work};
use super::merge::Merge;
use super::node::AsOfOptions;
use super::rule::Order;
use super::waiting::WaitingMerge;
use crate::dialect::marker::Direction;
use crate::operators::TIME_ORDER;
use crate::operators::filters::with_filters_in_scan;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
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
use std::fmt;
use std::sync::Arc;

/// The key expressions of one side, in the order of the join's keys.
pub(in crate::operators) type KeyExprs = Vec<Arc<dyn PhysicalExpr>>;

/// How the rows are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Both inputs come in time order and are merged; the left rows keep their order.
    Merge,
    /// Series by series, out of the segments of two scans; rows come in no order.
    BySeries,
    /// Series by series, the rows put in time order at the end; where they are too many for that, and that is
    /// only known now, by merging.
    BySeriesInOrder,
    /// Left rows come and stay in any order; for them those of a scan on the right are looked up, series by series.
    Probe,
    /// The same, of left rows that come in time order and keep it.
    ProbeInOrder,
}

/// Most left rows that are put in order at the end, in batches: about a million.
const ORDERED_BATCHES_MAX: u64 = 128;

/// Whether so many left rows are put in order at the end.
pub(in crate::operators) fn are_ordered(left_rows: u64, batch_rows: usize) -> bool {
    left_rows <= ORDERED_BATCHES_MAX.saturating_mul(batch_rows as u64)
}

/// Yields the left rows, each with the right row that stood at its time.
#[derive(Debug, Clone)]
pub(crate) struct AsOfJoinExec {
    way: Way,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    pub(super) times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
    pub(super) keys: (KeyExprs, KeyExprs),
    /// The right columns of the output.
    pub(super) right_columns: Vec<usize>,
    pub(super) options: AsOfOptions,
    properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) running: Arc<Running<Work>>,
}

impl AsOfJoinExec {
    /// Merges its inputs.
    pub(crate) fn try_new(
        (left, right): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
        times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
        keys: (KeyExprs, KeyExprs),
        right_columns: Vec<usize>,
        options: AsOfOptions,
        schema: SchemaRef,
    ) -> Result<Self> {
        let properties = properties(Way::Merge, [&left, &right], &times.0, schema);
        Ok(Self {
            way: Way::Merge,
            left,
            right,
            times,
            keys,
            right_columns,
            options,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            running: Arc::default(),
        })
    }

    /// The same join in another way.
    pub(super) fn with_way(&self, way: Way) -> Self {
        let properties = properties(way, self.inputs(), &self.times.0, self.schema());
        let (metrics, running) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Self { way, properties, metrics, running, ..self.clone() }
    }

    /// The same join over a right scan that works out the filter of its input, its rows looked up; `None` where they
    /// cannot be.
    pub(super) fn probing(&self, needed: Order) -> Result<Option<Self>> {
        let right = with_filters_in_scan(&self.right)?.unwrap_or_else(|| Arc::clone(&self.right));
        let join = Self { right, ..self.clone() };
        let Some(side) = Side::probed(&join) else { return Ok(None) };
        let way = match needed {
            // That each key has one series, and that there is memory to find it, is known.
            Order::Any if side.is_by_index() && side.keys.len() == join.keys.1.len() => Way::Probe,
            // Where a condition holds is found for all rows, also if only the first few are read.
            Order::FirstOfTime if side.scan.has_condition() => return Ok(None),
            _ => Way::ProbeInOrder,
        };
        Ok(Some(join.with_way(way)))
    }

    /// The same join over scans that work out the filters of its inputs; `None` where there are none.
    pub(super) fn with_filters_in_scans(&self) -> Result<Option<Self>> {
        let (left, right) = (with_filters_in_scan(&self.left)?, with_filters_in_scan(&self.right)?);
        if left.is_none() && right.is_none() {
            return Ok(None);
        }
        let or = |new: Option<_>, old: &Arc<dyn ExecutionPlan>| new.unwrap_or_else(|| Arc::clone(old));
        let (left, right) = (or(left, &self.left), or(right, &self.right));
        Ok(Some(Self { left, right, ..self.clone() }.with_way(self.way)))
    }

    pub(super) fn inputs(&self) -> [&Arc<dyn ExecutionPlan>; 2] {
        [&self.left, &self.right]
    }

    /// The places of the left keys among the columns of either input and of the output.
    pub(super) fn left_keys(&self) -> impl Iterator<Item = Option<usize>> {
        self.keys.0.iter().map(|key| key.downcast_ref::<Column>().map(Column::index))
    }

    pub(super) fn right_schema(&self) -> SchemaRef {
        self.right.schema()
    }

    pub(super) fn left_schema(&self) -> SchemaRef {
        self.left.schema()
    }
}

fn properties(
    way: Way,
    [left, right]: [&Arc<dyn ExecutionPlan>; 2],
    time: &Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
) -> Arc<PlanProperties> {
    let mut equivalences = EquivalenceProperties::new(schema);
    // Left columns have the same places in the output.
    if matches!(way, Way::Merge | Way::Probe | Way::ProbeInOrder) {
        equivalences.add_orderings(left.output_ordering().cloned());
    }
    let partitions = |input: &Arc<dyn ExecutionPlan>| input.output_partitioning().partition_count();
    let partitions = match way {
        Way::BySeries => partitions(left).max(partitions(right)),
        Way::Probe => partitions(left),
        Way::Merge | Way::ProbeInOrder | Way::BySeriesInOrder => {
            equivalences.add_orderings(by_time(time));
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

impl DisplayAs for AsOfJoinExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoinExec: {} {} {}, on=[", self.times.0, self.options.sign(), self.times.1)?;
        for (index, (left, right)) in self.keys.0.iter().zip(&self.keys.1).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        write!(f, "], {}", self.options)?;
        match self.way {
            Way::Merge => Ok(()),
            Way::BySeries => f.write_str(", by series"),
            Way::BySeriesInOrder => f.write_str(", by series, then in time order"),
            Way::Probe => f.write_str(", right rows looked up by series"),
            Way::ProbeInOrder => f.write_str(", right rows looked up by series, in time order"),
        }
    }
}

impl ExecutionPlan for AsOfJoinExec {
    fn name(&self) -> &'static str {
        "AsOfJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let each = self.are_in_order().map(|ordered| match ordered {
            true => Distribution::SinglePartition,
            false => Distribution::UnspecifiedDistribution,
        });
        InputDistributionRequirements::new(each.to_vec())
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let times = [&self.times.0, &self.times.1];
        let order = |(ordered, time): (bool, _)| {
            ordered.then(|| by_time(time).map(OrderingRequirements::from)).flatten()
        };
        self.are_in_order().into_iter().zip(times).map(order).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![matches!(self.way, Way::Merge | Way::Probe | Way::ProbeInOrder), false]
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
        for key in self.keys.0.iter().chain(&self.keys.1) {
            go_on = go_on.visit_sibling(|| f(key))?;
        }
        Ok(go_on)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [left, right] = <[_; 2]>::try_from(children).map_err(|given| {
            datafusion::common::internal_datafusion_err!("AsOfJoinExec has two inputs, not {}", given.len())
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
        self.replace_children(children, super::super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.way {
            Way::Merge => self.merge(self.inputs(), partition, &context),
            Way::BySeries => self.by_series(partition, &context),
            Way::BySeriesInOrder => self.by_series_in_order(&context),
            Way::Probe | Way::ProbeInOrder => self.probe(partition, &context),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl AsOfJoinExec {
    /// Whether each input has to come in order of time.
    fn are_in_order(&self) -> [bool; 2] {
        match self.way {
            Way::Merge => [true, true],
            Way::ProbeInOrder => [true, false],
            Way::Probe | Way::BySeries | Way::BySeriesInOrder => [false, false],
        }
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
        let reservation = self.reservation(context);
        if self.options.direction == Direction::Backward {
            let merge = Merge::try_new(self, left, right, reservation, baseline)?;
            let stream = futures::stream::try_unfold(merge, |mut merge| async move {
                Ok(merge.next().await?.map(|batch| (batch, merge)))
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)));
        }
        let merge = WaitingMerge::try_new(self, left, right, reservation, baseline)?;
        let stream = futures::stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.next().await?.map(|batch| (batch, merge)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    pub(super) fn reservation(&self, context: &Arc<TaskContext>) -> MemoryReservation {
        MemoryConsumer::new("AsOfJoinExec").register(context.memory_pool())
    }
}
