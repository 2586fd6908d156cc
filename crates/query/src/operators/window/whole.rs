//! Aggregates over whole partitions as windows: `max(x) OVER (PARTITION BY k)`.
//!
//! Every row of a partition has the same result, so that nothing needs sorting: rows are grouped as they come, kept, and
//! each is given the result of its group.

use super::kernel::plain_aggregate;
use crate::error::from_arrow;
use crate::operators::below::batch_of;
use crate::operators::exec::{Core, Operator, operator};
use crate::operators::sample::groups::Keys;
use crate::operators::shared::Shared;
use crate::operators::workers;
use crate::scan::row_bytes;
use arrow_select::take::take;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties, WindowExpr};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Adds aggregates over the whole partition that a row is of.
///
/// Its outputs share what all of its inputs give: the first that is asked for rows has them read.
#[derive(Debug, Clone)]
pub(crate) struct PartitionAggregatesExec {
    core: Core,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    windows: Vec<Arc<dyn WindowExpr>>,
    execution: Shared<OnceCell<Arc<Grouped>>>,
}

/// The rows of all inputs and the results of their groups.
#[derive(Debug)]
struct Grouped {
    /// By input: each batch and the group of each of its rows.
    inputs: Vec<Vec<(RecordBatch, UInt32Array)>>,
    results: Vec<ArrayRef>,
    /// Holds them.
    _reservations: Vec<MemoryReservation>,
}

impl PartitionAggregatesExec {
    /// In the place of a node of these windows, whose rows have `schema`; `None` where a function is no aggregate of
    /// whole partitions, or not one that groups are made of.
    pub(super) fn of(
        windows: &[Arc<dyn WindowExpr>],
        input: &Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
    ) -> Option<Self> {
        let whole = |window: &Arc<dyn WindowExpr>| {
            let frame = window.get_window_frame();
            // Without an order all rows are peers.
            let peers = |bound: &WindowFrameBound| {
                frame.units == WindowFrameUnits::Range && matches!(bound, WindowFrameBound::CurrentRow)
            };
            let open =
                [&frame.start_bound, &frame.end_bound].into_iter().all(|of| of.is_unbounded() || peers(of));
            let aggregate = plain_aggregate(window);
            open && window.order_by().is_empty()
                && aggregate.is_some_and(AggregateFunctionExpr::groups_accumulator_supported)
        };
        let keys = windows.first()?.partition_by().to_vec();
        if !windows.iter().all(whole) {
            return None;
        }
        let mut equivalences = EquivalenceProperties::new(schema);
        // Columns of the input keep their places, and rows their order.
        equivalences.add_orderings(input.equivalence_properties().oeq_class().iter().cloned());
        let properties = PlanProperties::new(
            equivalences,
            input.output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let core = Core::new([Arc::clone(input)], properties);
        Some(Self { core, keys, windows: windows.to_vec(), execution: Shared::default() })
    }

    /// The aggregates of its windows.
    fn aggregates(&self) -> impl Iterator<Item = &AggregateFunctionExpr> {
        self.windows.iter().filter_map(plain_aggregate)
    }

    /// Reads all inputs at the same time.
    async fn grouped(self, context: Arc<TaskContext>) -> Result<Arc<Grouped>> {
        let exec = Arc::new(self);
        let inputs = exec.core.input().output_partitioning().partition_count();
        let mut reading = Vec::with_capacity(inputs);
        for input in 0..inputs {
            let rows = exec.core.input().execute(input, Arc::clone(&context))?;
            let reservation = exec.reservation(&context);
            let baseline = exec.core.baseline(input);
            let groups = Groups::try_new(&exec, reservation)?;
            reading.push(groups.read(Arc::clone(&exec), rows, baseline));
        }
        let mut all: Option<Groups> = None;
        let mut grouped = Vec::with_capacity(inputs);
        let mut reservations = Vec::with_capacity(inputs);
        for read in workers::started(reading) {
            let mut groups = read.await?;
            let mut batches = std::mem::take(&mut groups.batches);
            reservations.push(groups.reservation.take());
            match &mut all {
                None => all = Some(groups),
                Some(all) => {
                    let numbers = all.merge(groups)?;
                    for (_, ids) in &mut batches {
                        *ids = ids.unary(|id| numbers[id as usize] as u32);
                    }
                }
            }
            grouped.push(batches);
        }
        let results = all.map(Groups::finish).transpose()?.unwrap_or_default();
        Ok(Arc::new(Grouped { inputs: grouped, results, _reservations: reservations }))
    }

    /// A batch with the results of its groups.
    fn with_results(
        schema: &SchemaRef,
        batch: &RecordBatch,
        ids: &UInt32Array,
        results: &[ArrayRef],
    ) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for results in results {
            columns.push(take(results, ids, None).map_err(from_arrow)?);
        }
        batch_of(schema, columns, batch.num_rows())
    }
}

/// The groups of one input's rows.
struct Groups {
    keys: Keys,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    batches: Vec<(RecordBatch, UInt32Array)>,
    rows: usize,
    bytes: usize,
    reservation: MemoryReservation,
}

impl Groups {
    fn try_new(exec: &PartitionAggregatesExec, reservation: MemoryReservation) -> Result<Self> {
        let schema = exec.core.input().schema();
        let types = exec.keys.iter().enumerate().map(|(at, key)| Ok((at, key.data_type(&schema)?)));
        let types = types.collect::<Result<Vec<(usize, DataType)>>>()?;
        let accumulators = exec.aggregates().map(AggregateFunctionExpr::create_groups_accumulator);
        Ok(Self {
            keys: Keys::try_new(&types)?,
            accumulators: accumulators.collect::<Result<_>>()?,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            reservation,
        })
    }

    async fn read(
        mut self,
        exec: Arc<PartitionAggregatesExec>,
        mut rows: SendableRecordBatchStream,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let mut ids = Vec::new();
        while let Some(batch) = rows.try_next().await? {
            let _timer = baseline.elapsed_compute().timer();
            let count = batch.num_rows();
            if count == 0 {
                continue;
            }
            let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(count);
            let keys = exec.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
            self.keys.read(&keys, count, &mut ids)?;
            let groups: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
            let total = self.keys.len();
            for (aggregate, accumulator) in exec.aggregates().zip(&mut self.accumulators) {
                let values =
                    aggregate.expressions().iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
                accumulator.update_batch(&values, &groups, None, total)?;
            }
            self.rows += count;
            self.bytes += count * (row_bytes(&batch.schema()) + size_of::<u32>());
            self.batches.push((batch, UInt32Array::from(ids.clone())));
            let states: usize = self.accumulators.iter().map(|of| of.size()).sum();
            self.reservation.try_resize(self.bytes + self.keys.size() + states)?;
        }
        Ok(self)
    }

    /// Takes in the groups of another input; the number each of them has here.
    fn merge(&mut self, mut other: Self) -> Result<Vec<usize>> {
        if other.rows == 0 {
            // Without keys there is a group, of which its accumulators know nothing.
            return Ok(Vec::new());
        }
        let numbers: Vec<usize> = self.keys.merge(&other.keys)?.into_iter().map(|id| id as usize).collect();
        for (mine, theirs) in self.accumulators.iter_mut().zip(&mut other.accumulators) {
            mine.merge_batch(&theirs.state(EmitTo::All)?, &numbers, self.keys.len())?;
        }
        Ok(numbers)
    }

    fn finish(mut self) -> Result<Vec<ArrayRef>> {
        self.accumulators.iter_mut().map(|of| of.evaluate(EmitTo::All)).collect()
    }
}

operator!(PartitionAggregatesExec);

impl Operator for PartitionAggregatesExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions: Vec<&str> = self.windows.iter().map(|window| window.name()).collect();
        write!(f, "PartitionAggregatesExec: [{}]", functions.join(", "))
    }

    fn keeps_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let arguments = self.windows.iter().flat_map(|window| window.expressions());
        self.keys.iter().cloned().chain(arguments).collect()
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        if known == ChildrenPropertiesMode::Keep {
            return Ok(Arc::new(self));
        }
        Self::of(&self.windows, self.core.input(), self.schema())
            .map(|exec| Arc::new(exec) as Arc<dyn ExecutionPlan>)
            .ok_or_else(|| internal_datafusion_err!("windows are over whole partitions no longer"))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let cell = self.execution.join(output, self.core.outputs(), || Ok(OnceCell::new()))?;
        let (exec, schema, baseline) = (self.clone(), self.schema(), self.core.baseline(output));
        let rows = async move {
            let all = cell.get_or_try_init(|| exec.grouped(context)).await?;
            let all = Arc::clone(all);
            let batches = all.inputs.get(output).map_or(0, Vec::len);
            let each = move |at: usize| {
                let _timer = baseline.elapsed_compute().timer();
                let (batch, ids) = &all.inputs[output][at];
                let found = Self::with_results(&schema, batch, ids, &all.results)?;
                baseline.record_output(found.num_rows());
                Ok(found)
            };
            Ok::<_, DataFusionError>(futures::stream::iter(0..batches).map(each))
        };
        Ok(self.stream(futures::stream::once(rows).try_flatten()))
    }
}
