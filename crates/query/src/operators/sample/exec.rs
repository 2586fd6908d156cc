//! The operator of SAMPLE BY.

use super::groups::{Groups, KEY_ORDER, Run};
use super::kernel::Kernel;
use crate::functions::bucket::Bucketing;
use crate::operators::reduce::{Reduce, feed, in_pieces, reduce};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::compute::{filter_record_batch, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// Groups its whole input by key and bucket; yields groups in order of bucket, then keys.
#[derive(Debug, Clone)]
pub(crate) struct SampleByExec {
    input: Arc<dyn ExecutionPlan>,
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    aggregates: Vec<LoweredAggregate>,
    bucketing: Bucketing,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SampleByExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        time: Arc<dyn PhysicalExpr>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        aggregates: Vec<LoweredAggregate>,
        bucketing: Bucketing,
        schema: SchemaRef,
    ) -> Self {
        let properties = Arc::new(grid_properties(schema, keys.len()));
        Self { input, time, keys, aggregates, bucketing, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    pub(crate) fn aggregates(&self) -> impl Iterator<Item = &AggregateFunctionExpr> {
        self.aggregates.iter().map(|lowered| lowered.aggregate.as_ref())
    }
}

/// One partition in order of the first column and the `keys` after it.
pub(crate) fn grid_properties(schema: SchemaRef, keys: usize) -> PlanProperties {
    let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
    equivalences.add_orderings(grid_order(&schema, keys));
    PlanProperties::new(
        equivalences,
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    )
}

/// The order by the first column and the `keys` after it.
pub(crate) fn grid_order(schema: &SchemaRef, keys: usize) -> Option<LexOrdering> {
    let columns = schema.fields().iter().enumerate().take(1 + keys);
    LexOrdering::new(columns.map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        PhysicalSortExpr::new(column, KEY_ORDER)
    }))
}

impl DisplayAs for SampleByExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SampleByExec: {} every {}, keys=[", self.time, self.bucketing)?;
        super::node::write_list(f, &self.keys)?;
        f.write_str("], aggregates=[")?;
        let names: Vec<&str> = self.aggregates.iter().map(|a| a.aggregate.name()).collect();
        super::node::write_list(f, &names)?;
        f.write_str("]")
    }
}

impl ExecutionPlan for SampleByExec {
    fn name(&self) -> &'static str {
        "SampleByExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut go_on = f(&self.time)?;
        for key in &self.keys {
            go_on = go_on.visit_sibling(|| f(key))?;
        }
        for aggregate in &self.aggregates {
            for argument in aggregate.aggregate.expressions().iter().chain(&aggregate.filter) {
                go_on = go_on.visit_sibling(|| f(argument))?;
            }
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
        let batch_rows = context.session_config().batch_size();
        let sampler = || {
            let reservation = MemoryConsumer::new("SampleByExec").register(context.memory_pool());
            Sampler::try_new(self, reservation)
        };
        let inputs = self.input.output_partitioning().partition_count();
        if inputs == 1 {
            let input = self.input.execute(0, Arc::clone(&context))?;
            return Ok(reduce(sampler()?, input, self.schema(), batch_rows, baseline));
        }
        let parts = (0..inputs).map(|input| {
            let rows = self.input.execute(input, Arc::clone(&context))?;
            Ok(SpawnedTask::spawn(feed(sampler()?, rows, baseline.clone())))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(in_pieces(merge_all(parts, baseline), self.schema(), batch_rows))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Merges the states of the inputs, which run at the same time, in the order of the inputs: of rows with
/// equal times those that arrived first come first.
async fn merge_all(
    parts: Vec<SpawnedTask<Result<Sampler>>>,
    baseline: BaselineMetrics,
) -> Result<RecordBatch> {
    let mut all: Option<Sampler> = None;
    for part in parts {
        let part =
            part.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        let _timer = baseline.elapsed_compute().timer();
        match &mut all {
            Some(all) => all.merge(part)?,
            None => all = Some(part),
        }
    }
    let _timer = baseline.elapsed_compute().timer();
    let Some(mut all) = all else { return internal_err!("SampleByExec has an input without partitions") };
    let batch = all.finish()?;
    baseline.record_output(batch.num_rows());
    Ok(batch)
}

/// The state of one execution, or of one of the inputs.
struct Sampler {
    time: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    aggregates: Vec<Running>,
    groups: Groups,
    /// The groups of the rows of the batch at hand.
    runs: Vec<Run>,
    schema: SchemaRef,
    reservation: MemoryReservation,
}

struct Running {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    kernel: Kernel,
}

impl Sampler {
    fn try_new(exec: &SampleByExec, reservation: MemoryReservation) -> Result<Self> {
        let input = exec.input.schema();
        let types = exec.keys.iter().map(|key| key.data_type(&input)).collect::<Result<Vec<DataType>>>()?;
        let aggregates = exec.aggregates.iter().map(|lowered| {
            let mut arguments = lowered.aggregate.expressions();
            arguments.extend(lowered.order_bys.iter().map(|order| Arc::clone(&order.expr)));
            let kernel = Kernel::try_new(lowered, &input)?;
            Ok(Running { arguments, filter: lowered.filter.clone(), kernel })
        });
        Ok(Self {
            time: Arc::clone(&exec.time),
            keys: exec.keys.clone(),
            aggregates: aggregates.collect::<Result<_>>()?,
            groups: Groups::try_new(&types, exec.bucketing)?,
            runs: Vec::new(),
            schema: exec.schema(),
            reservation,
        })
    }
}

impl Sampler {
    /// Takes in what another has of later rows.
    fn merge(&mut self, other: Self) -> Result<()> {
        let groups = self.groups.merge(&other.groups)?;
        for (running, theirs) in self.aggregates.iter_mut().zip(other.aggregates) {
            running.kernel.merge(theirs.kernel, &groups, self.groups.len())?;
        }
        let size: usize = self.aggregates.iter().map(|running| running.kernel.size()).sum();
        self.reservation.try_resize(self.groups.size() + size)?;
        Ok(())
    }
}

impl Reduce for Sampler {
    fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = self.time.evaluate(batch)?.into_array(batch.num_rows())?;
        if times.null_count() > 0 {
            let timed = filter_record_batch(batch, &is_not_null(&times)?)?;
            return self.update(&timed);
        }
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let keys = self.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        self.runs.clear();
        let times = times.as_primitive::<TimestampNanosecondType>().values();
        self.groups.assign(times, &keys, &mut self.runs)?;
        let mut size = self.groups.size() + self.runs.capacity() * size_of::<Run>();
        for running in &mut self.aggregates {
            let values = running.arguments.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
            let filter = running.filter.as_ref().map(evaluate).transpose()?;
            let filter: Option<&BooleanArray> = filter.as_ref().and_then(|f| f.as_boolean_opt());
            running.kernel.update(&values, filter, &self.runs, self.groups.len())?;
            size += running.kernel.size();
        }
        self.reservation.try_resize(size)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        if self.groups.len() == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let finished = self.groups.finish()?;
        let buckets = TimestampNanosecondArray::from(finished.buckets);
        let buckets = match self.schema.field(0).data_type() {
            DataType::Timestamp(_, zone) => buckets.with_timezone_opt(zone.clone()),
            _ => buckets,
        };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(buckets)];
        columns.extend(finished.keys);
        let ordered = finished.order.iter().enumerate().all(|(row, group)| row == *group);
        let order = UInt64Array::from_iter_values(finished.order.iter().map(|group| *group as u64));
        for running in &mut self.aggregates {
            let values = running.kernel.finish()?;
            columns.push(if ordered { values } else { take(&values, &order, None)? });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
