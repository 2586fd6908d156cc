//! [`FrameExec`]: the rows of a frame, as they came or by time.

use super::{Frame, TIME_ORDER};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{Schema, SchemaRef, TimestampNanosecondType};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SortOrderPushdownResult,
};
use std::fmt;
use std::sync::Arc;
use tickstone_model::with_one_nan;

/// Reads a frame in one output partition.
#[derive(Debug, Clone)]
pub(super) struct FrameExec {
    frame: Arc<Frame>,
    projection: Vec<usize>,
    schema: SchemaRef,
    by_time: bool,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl FrameExec {
    /// The columns `projection` of a frame (all where `None`), at most `fetch` rows.
    pub(super) fn new(frame: &Arc<Frame>, projection: Option<&Vec<usize>>, fetch: Option<usize>) -> Self {
        let projection = projection.cloned().unwrap_or_else(|| (0..frame.schema().fields().len()).collect());
        let fields = projection.iter().map(|&column| Arc::clone(&frame.schema().fields()[column]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = properties(frame, &schema, &projection, frame.is_time_ordered);
        Self { frame: Arc::clone(frame), projection, schema, by_time: false, fetch, properties }
    }

    fn sorted(&self) -> Self {
        let properties = properties(&self.frame, &self.schema, &self.projection, true);
        Self { by_time: true, properties, ..self.clone() }
    }

    /// Slices of the frame's batches: nothing is copied.
    fn slices(&self, batch_rows: usize) -> Result<Vec<Result<RecordBatch>>> {
        let batches = if self.by_time { self.frame.by_time()? } else { &self.frame.batches };
        let (mut left, mut slices) = (self.fetch.unwrap_or(usize::MAX), Vec::new());
        for batch in batches {
            let batch = batch.project(&self.projection)?;
            let mut from = 0;
            while from < batch.num_rows() && left > 0 {
                let rows = batch_rows.min(batch.num_rows() - from).min(left);
                slices
                    .push(batch.slice(from, rows).with_schema(Arc::clone(&self.schema)).map_err(Into::into));
                from += rows;
                left -= rows;
            }
        }
        Ok(slices)
    }
}

/// The rows with the one NaN: a frame's may be any.
fn one_nan(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(with_one_nan).collect();
    // Also of no columns, whose rows count.
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
}

/// Where a row of times goes: rows without a time after all others.
fn place(times: &TimestampNanosecondArray, row: usize) -> (bool, i64) {
    if times.is_valid(row) { (false, times.value(row)) } else { (true, 0) }
}

/// Whether the rows come by the times in this column.
pub(super) fn is_ordered(batches: &[RecordBatch], column: usize) -> bool {
    let mut last = (false, i64::MIN);
    batches.iter().all(|batch| {
        let times = batch.column(column).as_primitive::<TimestampNanosecondType>();
        let rows = times.len();
        let inside = match times.null_count() {
            0 => times.values().is_sorted(),
            _ => (1..rows).all(|row| place(times, row - 1) <= place(times, row)),
        };
        let joins = rows == 0 || last <= place(times, 0);
        if rows > 0 {
            last = place(times, rows - 1);
        }
        inside && joins
    })
}

/// The order that brings times into [`TIME_ORDER`], equal ones as they came.
pub(super) fn stable_order(times: &ArrayRef) -> UInt64Array {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut order: Vec<u64> = (0..times.len() as u64).collect();
    order.sort_by_key(|row| usize::try_from(*row).map_or((true, 0), |row| place(times, row)));
    UInt64Array::from(order)
}

fn properties(frame: &Frame, schema: &SchemaRef, projection: &[usize], ordered: bool) -> Arc<PlanProperties> {
    let mut equivalence = EquivalenceProperties::new(Arc::clone(schema));
    let at = projection.iter().position(|&column| Some(column) == frame.timestamp);
    if let (Some(at), true) = (at, ordered) {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
        if let Some(order) = LexOrdering::new([PhysicalSortExpr { expr: column, options: TIME_ORDER }]) {
            equivalence.add_ordering(order);
        }
    }
    Arc::new(PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for FrameExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let order = if self.by_time { "time" } else { "natural" };
        let (name, rows) = (self.frame.name(), self.frame.rows());
        write!(f, "FrameExec: frame={name}, columns=[{}], order={order}, rows={rows}", names.join(", "))?;
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for FrameExec {
    fn name(&self) -> &str {
        "FrameExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a frame has no inputs") }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a frame has one output, not an output {partition}");
        }
        let slices = self.slices(context.session_config().batch_size())?;
        let slices =
            futures::stream::iter(slices.into_iter().map(|slice| slice.and_then(|rows| one_nan(&rows))));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), slices)))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = self.frame.rows().min(self.fetch.unwrap_or(usize::MAX));
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = datafusion::common::stats::Precision::Exact(rows);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let [only] = order else { return Ok(SortOrderPushdownResult::Unsupported) };
        let column = only.expr.downcast_ref::<Column>().map(|column| self.projection[column.index()]);
        let ours = column.is_some() && column == self.frame.timestamp && only.options == TIME_ORDER;
        match ours && self.fetch.is_none() {
            true => Ok(SortOrderPushdownResult::Exact { inner: Arc::new(self.sorted()) }),
            false => Ok(SortOrderPushdownResult::Unsupported),
        }
    }
}
