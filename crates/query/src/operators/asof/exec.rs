//! The operator of ASOF JOIN.

use super::merge::Merge;
use super::node::AsOfOptions;
use crate::operators::TIME_ORDER;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
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
use std::fmt;
use std::sync::Arc;

/// The key expressions of one side, in the order of the join's keys.
pub(super) type KeyExprs = Vec<Arc<dyn PhysicalExpr>>;

/// Merges two inputs that come in time order; yields the left rows in their order.
#[derive(Debug, Clone)]
pub(crate) struct AsOfJoinExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    pub(super) times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
    pub(super) keys: (KeyExprs, KeyExprs),
    /// The right columns of the output.
    pub(super) right_columns: Vec<usize>,
    pub(super) options: AsOfOptions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsOfJoinExec {
    pub(crate) fn try_new(
        (left, right): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
        times: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>),
        keys: (KeyExprs, KeyExprs),
        right_columns: Vec<usize>,
        options: AsOfOptions,
        schema: SchemaRef,
    ) -> Result<Self> {
        let mut equivalences = EquivalenceProperties::new(schema);
        // Left columns have the same places in the output, and left rows keep their order.
        equivalences.add_orderings(left.output_ordering().cloned());
        equivalences.add_orderings(by_time(&times.0));
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self {
            left,
            right,
            times,
            keys,
            right_columns,
            options,
            properties: Arc::new(properties),
            metrics,
        })
    }

    pub(super) fn right_schema(&self) -> SchemaRef {
        self.right.schema()
    }

    pub(super) fn left_schema(&self) -> SchemaRef {
        self.left.schema()
    }
}

fn by_time(time: &Arc<dyn PhysicalExpr>) -> Option<LexOrdering> {
    LexOrdering::new([PhysicalSortExpr::new(Arc::clone(time), TIME_ORDER)])
}

impl DisplayAs for AsOfJoinExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.options.strict { ">" } else { ">=" };
        write!(f, "AsOfJoinExec: {} {sign} {}, on=[", self.times.0, self.times.1)?;
        for (index, (left, right)) in self.keys.0.iter().zip(&self.keys.1).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        write!(f, "], {}", self.options)
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
        InputDistributionRequirements::new(vec![Distribution::SinglePartition, Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        [&self.times.0, &self.times.1].map(|time| by_time(time).map(OrderingRequirements::from)).to_vec()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
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
        if options.children_properties == ChildrenPropertiesMode::Keep {
            let metrics = ExecutionPlanMetricsSet::new();
            return Ok(Arc::new(Self { left, right, metrics, ..Self::clone(&self) }));
        }
        Ok(Arc::new(Self::try_new(
            (left, right),
            self.times.clone(),
            self.keys.clone(),
            self.right_columns.clone(),
            self.options,
            self.schema(),
        )?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, super::super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let right = self.right.execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new("AsOfJoinExec").register(context.memory_pool());
        let merge = Merge::try_new(self, left, right, reservation, baseline)?;
        let stream = futures::stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.next().await?.map(|batch| (batch, merge)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
