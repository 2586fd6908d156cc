//! The scaffold of operators: what DataFusion asks of a node of a physical plan that is the same for all of ours.
//!
//! ```text
//! Core (inputs, properties, metrics) + Operator (what is its own) -> operator! -> DisplayAs, ExecutionPlan
//! ```
//!
//! A macro, as nobody may implement a foreign trait for all that implement one of his own. Nodes that stand for one of
//! DataFusion's pass on what that says, and are written out ([`super::give_way`], [`super::pieces`]); so are scans,
//! which have no inputs and take much in.

use super::TIME_ORDER;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, Statistics, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, CardinalityEffect, ChildrenPropertiesMode, EmissionType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties};
use futures::Stream;
use std::fmt;
use std::sync::Arc;

/// What every operator holds, in a field of this name.
#[derive(Debug, Clone)]
pub(super) struct Core<const N: usize = 1> {
    pub(super) inputs: [Arc<dyn ExecutionPlan>; N],
    /// What is known of its rows.
    pub(super) properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

impl<const N: usize> Core<N> {
    pub(super) fn new(
        inputs: [Arc<dyn ExecutionPlan>; N],
        properties: impl Into<Arc<PlanProperties>>,
    ) -> Self {
        Self { inputs, properties: properties.into(), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// That of the same operator, which has counted nothing, over other inputs.
    pub(super) fn over(&self, name: &str, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let inputs = inputs
            .try_into()
            .map_err(|of: Vec<_>| internal_datafusion_err!("{name} has {N} inputs, not {}", of.len()))?;
        Ok(Self::new(inputs, Arc::clone(&self.properties)))
    }

    /// The same, where other things are known of its rows.
    pub(super) fn with_properties(&self, properties: PlanProperties) -> Self {
        Self::new(self.inputs.clone(), properties)
    }

    /// How many outputs it has.
    pub(super) fn outputs(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// What an output counts.
    pub(super) fn baseline(&self, output: usize) -> BaselineMetrics {
        BaselineMetrics::new(&self.metrics, output)
    }

    /// What all outputs count under a name.
    pub(super) fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).global_counter(name)
    }
}

impl Core {
    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inputs[0]
    }
}

/// What is known of rows that come from so many outputs and end.
pub(super) fn known(
    equivalences: EquivalenceProperties,
    outputs: usize,
    emission: EmissionType,
) -> PlanProperties {
    let partitioning = Partitioning::UnknownPartitioning(outputs);
    PlanProperties::new(equivalences, partitioning, emission, Boundedness::Bounded)
}

/// How an operator needs the rows of an input.
#[derive(Debug)]
pub(super) enum Need {
    /// In any order, from any number of outputs.
    Any,
    /// From one output.
    One,
    /// From one output, in an order.
    Ordered(LexOrdering),
}

impl Need {
    /// From one output, in order of time.
    pub(super) fn by_time(time: &Arc<dyn PhysicalExpr>) -> Self {
        Self::Ordered([PhysicalSortExpr::new(Arc::clone(time), TIME_ORDER)].into())
    }
}

/// What is an operator's own.
pub(super) trait Operator: ExecutionPlan + Clone {
    fn named(&self) -> &'static str {
        Self::static_name()
    }

    /// Writes what EXPLAIN says of it.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// How it needs the rows of each input.
    fn needs(&self) -> Vec<Need> {
        self.children().iter().map(|_| Need::Any).collect()
    }

    fn distributions(&self) -> InputDistributionRequirements {
        let each = self.needs().into_iter().map(|need| match need {
            Need::Any => Distribution::UnspecifiedDistribution,
            Need::One | Need::Ordered(_) => Distribution::SinglePartition,
        });
        InputDistributionRequirements::new(each.collect())
    }

    fn orders(&self) -> Vec<Option<OrderingRequirements>> {
        let each = self.needs().into_iter().map(|need| match need {
            Need::Any | Need::One => None,
            Need::Ordered(order) => Some(order.into()),
        });
        each.collect()
    }

    /// Whether it yields rows in the order of each input.
    fn keeps_order(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    /// Whether rows of each input are worth dealing round to more outputs.
    fn wants_more_outputs(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    /// The expressions that it works out.
    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    /// What becomes of it, which has other inputs now; of these the same is known, or not.
    fn moved(self, _known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self))
    }

    /// Starts an output.
    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Unknown
    }

    fn statistics(&self, _inputs: &[Arc<Statistics>]) -> Statistics {
        Statistics::new_unknown(&self.schema())
    }

    /// What is known of its rows where it yields one for each of its input.
    fn as_many_rows(&self, inputs: &[Arc<Statistics>]) -> Statistics {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(input) = inputs.first() {
            statistics.num_rows = input.num_rows;
        }
        statistics
    }

    /// Memory that it claims.
    fn reservation(&self, context: &TaskContext) -> MemoryReservation {
        MemoryConsumer::new(self.name()).register(context.memory_pool())
    }

    /// What makes such claims later on.
    fn reservations(
        &self,
        context: &TaskContext,
    ) -> impl Fn() -> MemoryReservation + Send + 'static + use<Self> {
        let (consumer, pool) = (MemoryConsumer::new(self.name()), Arc::clone(context.memory_pool()));
        move || consumer.clone_with_new_id().register(&pool)
    }

    /// A stream of its rows.
    fn stream(
        &self,
        rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
    }
}

/// Makes a node of a physical plan of an [`Operator`] with a [`Core`].
macro_rules! operator {
    ($exec:ty) => {
        const _: () = {
            use datafusion::common::tree_node::TreeNodeRecursion;
            use datafusion::common::{Result, Statistics};
            use datafusion::execution::{SendableRecordBatchStream, TaskContext};
            use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
            use datafusion::physical_plan::execution_plan::{
                CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
            };
            use datafusion::physical_plan::metrics::MetricsSet;
            use datafusion::physical_plan::statistics::StatisticsArgs;
            use datafusion::physical_plan::{
                DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
                apply_expression_roots,
            };
            use std::fmt;
            use std::sync::Arc;
            use $crate::operators::exec::Operator;

            impl DisplayAs for $exec {
                fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.show(f)
                }
            }

            impl ExecutionPlan for $exec {
                fn name(&self) -> &'static str {
                    self.named()
                }

                fn properties(&self) -> &Arc<PlanProperties> {
                    &self.core.properties
                }

                fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
                    self.core.inputs.iter().collect()
                }

                fn input_distribution_requirements(&self) -> InputDistributionRequirements {
                    self.distributions()
                }

                fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
                    self.orders()
                }

                fn maintains_input_order(&self) -> Vec<bool> {
                    self.keeps_order()
                }

                fn benefits_from_input_partitioning(&self) -> Vec<bool> {
                    self.wants_more_outputs()
                }

                fn apply_expressions(
                    &self,
                    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
                ) -> Result<TreeNodeRecursion> {
                    apply_expression_roots(self.exprs(), f)
                }

                #[allow(clippy::needless_update, reason = "an operator may be no more than its core")]
                fn replace_children(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn ExecutionPlan>>,
                    options: ReplaceChildrenOptions,
                ) -> Result<Arc<dyn ExecutionPlan>> {
                    let core = self.core.over(self.named(), children)?;
                    Self { core, ..Self::clone(&self) }.moved(options.children_properties)
                }

                // The trait still asks for it.
                fn with_new_children(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn ExecutionPlan>>,
                ) -> Result<Arc<dyn ExecutionPlan>> {
                    self.replace_children(
                        children,
                        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
                    )
                }

                fn execute(
                    &self,
                    partition: usize,
                    context: Arc<TaskContext>,
                ) -> Result<SendableRecordBatchStream> {
                    self.run(partition, context)
                }

                fn metrics(&self) -> Option<MetricsSet> {
                    Some(self.core.metrics.clone_inner())
                }

                fn statistics_from_inputs(
                    &self,
                    inputs: &[Arc<Statistics>],
                    _args: &StatisticsArgs,
                ) -> Result<Arc<Statistics>> {
                    Ok(Arc::new(self.statistics(inputs)))
                }

                fn cardinality_effect(&self) -> CardinalityEffect {
                    self.effect()
                }
            }
        };
    };
}

pub(super) use operator;
