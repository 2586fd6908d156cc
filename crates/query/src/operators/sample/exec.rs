//! The operator of SAMPLE BY.

use super::groups::KEY_ORDER;
use super::ranges::{self, RangePlan};
use super::sampler::{Sampler, Shape};
use super::source::Source;
use crate::error::external;
use crate::functions::bucket::Bucketing;
use crate::operators::exec::{Core, Need, Operator, known, operator};
use crate::operators::node::write_list;
use crate::operators::reduce::{Reduce, feed, in_pieces, reduce};
use crate::operators::{TIME_ORDER, workers};
use crate::settings::{goes_by_statistics, has_pipeline};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{
    EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Groups its whole input by key and, for SAMPLE BY, bucket; yields groups in order of bucket, then keys.
///
/// Where the input is a scan, keys are symbols and time is the designated timestamp, rows are reduced by
/// ranges ([`ranges`]); else batch by batch.
#[derive(Debug, Clone)]
pub(crate) struct SampleByExec {
    pub(super) core: Core,
    /// The time and how it falls into buckets; `None` for GROUP BY.
    pub(super) time: Option<(Arc<dyn PhysicalExpr>, Bucketing)>,
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) aggregates: Vec<LoweredAggregate>,
}

impl SampleByExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        time: Option<(Arc<dyn PhysicalExpr>, Bucketing)>,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        aggregates: Vec<LoweredAggregate>,
        schema: SchemaRef,
    ) -> Self {
        let ordered_by = keys.len() + usize::from(time.is_some());
        Self { core: Core::new([input], grid_properties(schema, ordered_by)), time, keys, aggregates }
    }

    /// Whether its rows are reduced by ranges of one series.
    fn is_by_ranges(&self) -> bool {
        let time = self.time.as_ref().map(|(time, _)| time);
        let fits = |source: Source<'_>| {
            let known = !self.awaits_first() || !source.has_condition();
            source.has_ranges(time, &self.keys) && source.is_as_it_lies() && known
        };
        self.aggregate_order().is_none() && Source::of(self.core.input()).is_some_and(fits)
    }

    /// Whether buckets count from the first row.
    fn awaits_first(&self) -> bool {
        self.time.as_ref().is_some_and(|(_, bucketing)| bucketing.awaits_first())
    }

    /// The order in which rows must come.
    fn order(&self) -> Option<LexOrdering> {
        match &self.time {
            // The first one says where buckets begin.
            Some((time, bucketing)) if bucketing.awaits_first() && !self.is_by_ranges() => {
                LexOrdering::new([PhysicalSortExpr::new(Arc::clone(time), TIME_ORDER)])
            }
            _ => self.aggregate_order(),
        }
    }

    /// The order of rows without which an aggregate goes wrong, such as that of `nth_value(x, 2 ORDER BY y)`.
    fn aggregate_order(&self) -> Option<LexOrdering> {
        let hard = |of: &&LoweredAggregate| of.aggregate.order_sensitivity().hard_requires();
        let of = self.aggregates.iter().find(hard)?;
        LexOrdering::new(of.order_bys.iter().cloned())
    }

    /// Whether all rows are one group.
    pub(crate) fn is_total(&self) -> bool {
        self.time.is_none() && self.keys.is_empty()
    }

    /// The names of its aggregates.
    pub(crate) fn aggregate_names(&self) -> impl Iterator<Item = &str> {
        self.aggregates.iter().map(|lowered| lowered.aggregate.fun().name())
    }

    /// The same with its buckets counted from this time, where they await the first row.
    fn with_first(&self, first: Option<i64>) -> Self {
        let time = self.time.as_ref().map(|(time, bucketing)| {
            (Arc::clone(time), first.map_or(*bucketing, |first| bucketing.with_first(first)))
        });
        Self { time, ..self.clone() }
    }

    /// The rows of an input that comes in order of time, by rows; its first row says where buckets begin.
    async fn reduce_from_first(
        self,
        mut input: SendableRecordBatchStream,
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<RecordBatch> {
        let mut sampler = None;
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let _timer = baseline.elapsed_compute().timer();
            if sampler.is_none() {
                let first = self.first_of(&batch)?;
                let Some(_) = first else { continue };
                let shape = Arc::new(self.with_first(first).shape()?);
                sampler = Some(Sampler::try_new(&shape, reservation.new_empty())?);
            }
            sampler.iter_mut().try_for_each(|sampler| sampler.update(&batch))?;
        }
        let Some(mut sampler) = sampler else { return Ok(RecordBatch::new_empty(self.schema())) };
        let rows = sampler.finish()?;
        baseline.record_output(rows.num_rows());
        Ok(rows)
    }

    /// The time of the first row that has one.
    fn first_of(&self, batch: &RecordBatch) -> Result<Option<i64>> {
        let Some((time, _)) = &self.time else { return Ok(None) };
        let times = time.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(times.as_primitive::<TimestampNanosecondType>().iter().flatten().next())
    }

    /// What is grouped by what, batch by batch.
    fn shape(&self) -> Result<Shape> {
        let (time, output) = (self.time.clone(), self.schema());
        Shape::of_batches(self.core.input().schema(), time, &self.keys, &self.aggregates, output)
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.core.input()
    }

    pub(crate) fn keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.keys
    }

    pub(crate) fn aggregates(&self) -> impl Iterator<Item = &AggregateFunctionExpr> {
        self.aggregates.iter().map(|lowered| lowered.aggregate.as_ref())
    }
}

/// One partition in order of the first `columns`.
pub(crate) fn grid_properties(schema: SchemaRef, columns: usize) -> PlanProperties {
    let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
    equivalences.add_orderings(grid_order(&schema, columns));
    known(equivalences, 1, EmissionType::Final)
}

/// The order by the first `columns`.
pub(crate) fn grid_order(schema: &SchemaRef, columns: usize) -> Option<LexOrdering> {
    let columns = schema.fields().iter().enumerate().take(columns);
    LexOrdering::new(columns.map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        PhysicalSortExpr::new(column, KEY_ORDER)
    }))
}

operator!(SampleByExec);

impl Operator for SampleByExec {
    fn named(&self) -> &'static str {
        if self.time.is_some() { "SampleByExec" } else { "GroupByExec" }
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        if let Some((time, bucketing)) = &self.time {
            write!(f, "{time} every {bucketing}, ")?;
        }
        f.write_str("keys=[")?;
        write_list(f, &self.keys)?;
        f.write_str("], aggregates=[")?;
        let names: Vec<&str> = self.aggregates.iter().map(|a| a.aggregate.name()).collect();
        write_list(f, &names)?;
        f.write_str(if self.is_by_ranges() { "], by ranges" } else { "], by rows" })
    }

    fn needs(&self) -> Vec<Need> {
        vec![self.order().map_or(Need::Any, Need::Ordered)]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let mut exprs: Vec<_> = self.time.iter().map(|(time, _)| time).chain(&self.keys).cloned().collect();
        for aggregate in &self.aggregates {
            exprs.extend(aggregate.aggregate.expressions());
            exprs.extend(aggregate.filter.clone());
        }
        exprs
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let by_ranges = self.is_by_ranges();
        if by_ranges && self.awaits_first() {
            let first = Source::of(self.core.input()).map(|source| source.first_time()).transpose();
            let first = first.map_err(external)?.flatten();
            let Some(_) = first else { return Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))) };
            return self.with_first(first).run(output, context);
        }
        let baseline = self.core.baseline(output);
        let batch_rows = context.session_config().batch_size();
        let held = self.reservation(&context);
        let spared = self.core.counter("rows_not_read");
        let by_statistics = goes_by_statistics(context.session_config().options());
        let by_ranges = by_ranges && has_pipeline(context.session_config().options());
        if by_ranges && let Some(plan) = RangePlan::of(self, batch_rows, by_statistics, spared)? {
            let workers = Source::of(self.core.input()).map_or(1, |source| source.outputs());
            let rows = ranges::run(Arc::new(plan), workers, self.reservations(&context), baseline);
            return Ok(in_pieces(rows, self.schema(), batch_rows, held));
        }
        if self.awaits_first() {
            let input = self.core.input().execute(0, Arc::clone(&context))?;
            let rows = self.clone().reduce_from_first(input, self.reservation(&context), baseline);
            return Ok(in_pieces(rows, self.schema(), batch_rows, held));
        }
        let shape = Arc::new(self.shape()?);
        let sampler = || Sampler::try_new(&shape, self.reservation(&context));
        let inputs = self.core.input().output_partitioning().partition_count();
        if inputs == 1 {
            let input = self.core.input().execute(0, Arc::clone(&context))?;
            return Ok(reduce(sampler()?, input, self.schema(), (batch_rows, held), baseline));
        }
        let parts = (0..inputs).map(|input| {
            let rows = self.core.input().execute(input, Arc::clone(&context))?;
            Ok(feed(sampler()?, rows, baseline.clone()))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(in_pieces(merge_all(parts, baseline), self.schema(), batch_rows, held))
    }
}

/// Merges the states of the inputs, which run at the same time, in the order of the inputs: of rows with
/// equal times those that arrived first come first.
async fn merge_all(
    parts: Vec<impl Future<Output = Result<Sampler>> + Send + 'static>,
    baseline: BaselineMetrics,
) -> Result<RecordBatch> {
    let mut all: Option<Sampler> = None;
    for part in workers::started(parts) {
        let part = part.await?;
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
