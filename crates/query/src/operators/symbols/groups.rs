//! The first half of an aggregation: the groups of each input's rows, by numbers of their keys.
//!
//! A key of several columns is folded into one small number column by column ([`crate::operators::key`]), and accumulators
//! are places of arrays by it: no row is hashed that has been met in the same dictionary. What comes out is what a partial
//! [`AggregateExec`] yields.

use super::ids::Slot;
use crate::operators::below::batch_of;
use crate::operators::exec::{Core, Operator, known, operator};
use crate::operators::sample::groups::Keys;
use crate::operators::sample::kernel::accumulator;
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Most groups that an output holds before it hands them on: their numbers and states stay in a core's caches.
const GROUPS_MAX: usize = if cfg!(test) { 8 } else { 1 << 16 };
/// Rows of a group at least, on average of those that were handed on, for groups to be worth making.
const ROWS_OF_GROUP_MIN: usize = 2;

/// Groups of each input.
#[derive(Debug, Clone)]
pub(crate) struct PartialGroupsExec {
    core: Core,
    keys: Arc<[Arc<dyn PhysicalExpr>]>,
    /// Which of them are symbols, and come out as numbers.
    symbols: Arc<[usize]>,
    aggregates: Arc<[Arc<AggregateFunctionExpr>]>,
    filters: Arc<[Option<Arc<dyn PhysicalExpr>>]>,
    slot: Slot,
}

impl PartialGroupsExec {
    /// In the place of a partial aggregation, whose groups go by numbers of symbols; `keys` are those symbols, and the
    /// rest. `None` where it is one of several sets of keys, or the order of rows counts.
    pub(super) fn of(
        by_ids: &AggregateExec,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        symbols: Arc<[usize]>,
        slot: &Slot,
    ) -> Option<Self> {
        let in_order = |aggregate: &Arc<AggregateFunctionExpr>| !aggregate.order_bys().is_empty();
        if by_ids.group_expr().has_grouping_set() || by_ids.aggr_expr().iter().any(in_order) {
            return None;
        }
        Some(Self {
            core: core(by_ids.input(), by_ids.schema()),
            keys: keys.into(),
            symbols,
            aggregates: by_ids.aggr_expr().into(),
            filters: by_ids.filter_expr().into(),
            slot: slot.clone(),
        })
    }
}

fn core(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Core {
    let outputs = input.output_partitioning().partition_count();
    let properties = known(EquivalenceProperties::new(schema), outputs, input.pipeline_behavior());
    Core::new([Arc::clone(input)], properties)
}

operator!(PartialGroupsExec);

impl Operator for PartialGroupsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let aggregates: Vec<&str> = self.aggregates.iter().map(|aggregate| aggregate.name()).collect();
        write!(f, "PartialGroupsExec: by=[{}], aggr=[{}]", keys.join(", "), aggregates.join(", "))
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let arguments = self.aggregates.iter().flat_map(|aggregate| aggregate.expressions());
        self.keys.iter().cloned().chain(arguments).chain(self.filters.iter().flatten().cloned()).collect()
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(match known {
            ChildrenPropertiesMode::Keep => self,
            ChildrenPropertiesMode::Recompute => {
                Self { core: core(self.core.input(), self.schema()), ..self }
            }
        }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.core.input().execute(output, Arc::clone(&context))?;
        let groups = Groups::try_new(self.clone(), self.reservation(&context), self.core.baseline(output))?;
        let next = async |(mut groups, mut rows): (Groups, SendableRecordBatchStream)| {
            while let Some(batch) = rows.next().await.transpose()? {
                if let Some(found) = groups.take_in(&batch)? {
                    return Ok(Some((found, (groups, rows))));
                }
            }
            Ok(groups.last()?.map(|found| (found, (groups, rows))))
        };
        Ok(self.stream(futures::stream::try_unfold((groups, rows), next)))
    }
}

/// The groups of one input's rows.
struct Groups {
    exec: PartialGroupsExec,
    types: Vec<(usize, DataType)>,
    keys: Keys,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// Rows of the groups at hand.
    rows: usize,
    /// Whether rows are handed on as groups of one.
    one_by_one: bool,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
    // What batches are read into.
    ids: Vec<u32>,
    places: Vec<usize>,
}

impl Groups {
    fn try_new(
        exec: PartialGroupsExec,
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let schema = exec.core.input().schema();
        let types = exec.keys.iter().enumerate().map(|(at, key)| Ok((at, key.data_type(&schema)?)));
        let types = types.collect::<Result<Vec<(usize, DataType)>>>()?;
        Ok(Self {
            keys: Keys::try_new(&types)?,
            accumulators: exec.aggregates.iter().map(accumulator).collect::<Result<_>>()?,
            exec,
            types,
            rows: 0,
            one_by_one: false,
            reservation,
            baseline,
            ids: Vec::new(),
            places: Vec::new(),
        })
    }

    /// Takes in rows; groups where they are handed on.
    fn take_in(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let count = batch.num_rows();
        if count == 0 {
            return Ok(None);
        }
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(count);
        let keys = self.exec.keys.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        let arguments = |at: usize| -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
            let values = self.exec.aggregates[at].expressions();
            let values = values.iter().map(evaluate).collect::<Result<_>>()?;
            let filter = self.exec.filters[at].as_ref().map(evaluate).transpose()?;
            Ok((values, filter.map(|filter| filter.as_boolean().clone())))
        };
        if self.one_by_one {
            let mut columns = keys;
            for (at, accumulator) in self.accumulators.iter().enumerate() {
                let (values, filter) = arguments(at)?;
                columns.extend(accumulator.convert_to_state(&values, filter.as_ref())?);
            }
            return self.numbered(columns, count).map(Some);
        }
        self.keys.read(&keys, count, &mut self.ids)?;
        self.places.clear();
        self.places.extend(self.ids.iter().map(|id| *id as usize));
        for (at, accumulator) in self.accumulators.iter_mut().enumerate() {
            let (values, filter) = arguments(at)?;
            accumulator.update_batch(&values, &self.places, filter.as_ref(), self.keys.len())?;
        }
        self.rows += count;
        let states: usize = self.accumulators.iter().map(|of| of.size()).sum();
        let held = self.reservation.try_resize(self.keys.size() + states);
        // Where there is no room the rest of the plan has it: each batch is handed on.
        if self.keys.len() < GROUPS_MAX && held.is_ok() {
            return Ok(None);
        }
        self.one_by_one = self.rows < ROWS_OF_GROUP_MIN * self.keys.len();
        self.handed_on()
    }

    /// The groups at the end of the rows.
    fn last(&mut self) -> Result<Option<RecordBatch>> {
        self.handed_on()
    }

    /// The groups at hand, of which nothing stays.
    fn handed_on(&mut self) -> Result<Option<RecordBatch>> {
        let count = self.keys.len();
        if count == 0 {
            return Ok(None);
        }
        let mut columns = std::mem::replace(&mut self.keys, Keys::try_new(&self.types)?).values()?;
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.rows = 0;
        self.reservation.free();
        self.numbered(columns, count).map(Some)
    }

    /// Groups as they come out: numbers in the place of symbols.
    fn numbered(&self, mut columns: Vec<ArrayRef>, count: usize) -> Result<RecordBatch> {
        let ids = self.exec.slot.ids()?;
        for &key in self.exec.symbols.iter() {
            let symbols = columns[key].as_dictionary_opt();
            let symbols = symbols.ok_or_else(|| internal_datafusion_err!("a key of groups is no symbol"))?;
            columns[key] = Arc::new(ids.of(symbols)?);
        }
        Ok(batch_of(&self.exec.schema(), columns, count)?.record_output(&self.baseline))
    }
}
