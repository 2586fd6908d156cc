//! The operator of window functions over series.

use super::kernel::{Kernel, Rows};
use crate::operators::TIME_ORDER;
use crate::operators::series::Shared;
use crate::scan::{Reach, ScanExec, SeriesReader, SeriesTask};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PlanProperties, WindowExpr,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Rows that a worker reads at once: few enough to stay in the cache, many enough that the blocks a task
/// shares with its neighbours do not count.
const TASK_ROWS: usize = if cfg!(test) { 16 } else { 61_440 };

/// Batches that are yielded as one: rows of a task lie together already, and each batch costs something.
const BATCHES_AT_ONCE: usize = 4;

/// What happens to rows between the scan and the windows.
#[derive(Debug, Clone)]
pub(in crate::operators) enum Layer {
    /// Only those stay that this holds for.
    Filter(Arc<dyn PhysicalExpr>),
    /// They become these values, with this schema.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

/// Window functions that see the rows below them and their results, not each other's.
#[derive(Debug, Clone)]
struct Stage {
    kernels: Vec<Kernel>,
    /// That of the rows with the results.
    schema: SchemaRef,
}

/// Adds window functions to the rows of a table, which it reads series by series, each in order of time.
///
/// It reads the rows itself: the scan below says which. Its outputs take tasks from one list, whichever is
/// free the next one.
#[derive(Debug, Clone)]
pub(crate) struct SeriesWindowExec {
    input: Arc<dyn ExecutionPlan>,
    /// The lowest first.
    layers: Arc<[Layer]>,
    stages: Vec<Stage>,
    /// Columns of the table that make a series, ascending.
    keys: Vec<usize>,
    /// Where the designated timestamp is among the columns of the layers, where the windows ask for it.
    time: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    execution: Arc<Shared<Work>>,
}

/// The tasks of one execution.
#[derive(Debug, Default)]
struct Work {
    found: Mutex<Option<Arc<Found>>>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Found {
    reader: SeriesReader,
    tasks: Vec<SeriesTask>,
}

impl SeriesWindowExec {
    /// Reads the series that the columns `keys` make of what the scan `input` selects; `time` says where the
    /// designated timestamp is above the layers.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        layers: Vec<Layer>,
        keys: Vec<usize>,
        time: Option<usize>,
    ) -> Result<Self> {
        let properties = Arc::clone(input.properties());
        let metrics = ExecutionPlanMetricsSet::new();
        let (layers, stages) = (layers.into(), Vec::new());
        Ok(Self { input, layers, stages, keys, time, properties, metrics, execution: Arc::default() })
    }

    /// With more functions on top, and the schema that the rows then have.
    pub(super) fn with_windows(&self, windows: &[Arc<dyn WindowExpr>], schema: SchemaRef) -> Result<Self> {
        let input = self.stages.last().map_or_else(|| self.row_schema(), |below| Arc::clone(&below.schema));
        let kernels = windows.iter().map(|window| Kernel::new(window, &input));
        let stage = Stage { kernels: kernels.collect::<Result<_>>()?, schema: Arc::clone(&schema) };
        let mut stages = self.stages.clone();
        stages.push(stage);
        let properties = Arc::new(self.properties_with(schema)?);
        let time = self.time.or_else(|| time_of(windows));
        let (metrics, execution) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Ok(Self { stages, time, properties, metrics, execution, ..self.clone() })
    }

    /// That of the rows the windows see.
    fn row_schema(&self) -> SchemaRef {
        let projected = self.layers.iter().rev().find_map(|layer| match layer {
            Layer::Project(_, schema) => Some(Arc::clone(schema)),
            Layer::Filter(_) => None,
        });
        projected.unwrap_or_else(|| self.input.schema())
    }

    /// Rows of one series come in order of time, those of several in none that could be named.
    fn properties_with(&self, schema: SchemaRef) -> Result<PlanProperties> {
        let scan = self.scan()?;
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        let mut outputs = self.input.output_partitioning().partition_count();
        if scan.filters().is_none() && scan.selected().is_one_series() {
            outputs = 1;
            if let Some(time) = self.time {
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(time).name(), time));
                equivalences.add_orderings([[PhysicalSortExpr::new(column, TIME_ORDER)]]);
            }
        }
        let partitioning = Partitioning::UnknownPartitioning(outputs);
        Ok(PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded))
    }

    fn scan(&self) -> Result<&ScanExec> {
        ScanExec::of(&self.input)
            .ok_or_else(|| internal_datafusion_err!("SeriesWindowExec has no scan below it"))
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    pub(super) fn keys(&self) -> &[usize] {
        &self.keys
    }
}

/// Where the column is that windows are in the order of.
fn time_of(windows: &[Arc<dyn WindowExpr>]) -> Option<usize> {
    Some(windows.first()?.order_by().first()?.expr.downcast_ref::<Column>()?.index())
}

impl DisplayAs for SeriesWindowExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions: Vec<&str> =
            self.stages.iter().flat_map(|stage| &stage.kernels).map(|kernel| kernel.expr.name()).collect();
        write!(f, "SeriesWindowExec: [{}]", functions.join(", "))?;
        for layer in self.layers.iter() {
            match layer {
                Layer::Filter(predicate) => write!(f, ", filter={predicate}")?,
                Layer::Project(exprs, _) => {
                    f.write_str(", projection=[")?;
                    crate::operators::sample::node::write_list(f, exprs)?;
                    f.write_str("]")?;
                }
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for SeriesWindowExec {
    fn name(&self) -> &'static str {
        "SeriesWindowExec"
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
        let mut go_on = TreeNodeRecursion::Continue;
        for layer in self.layers.iter() {
            let exprs = match layer {
                Layer::Filter(predicate) => std::slice::from_ref(predicate),
                Layer::Project(exprs, _) => exprs,
            };
            for expr in exprs {
                go_on = go_on.visit_sibling(|| f(expr))?;
            }
        }
        for kernel in self.stages.iter().flat_map(|stage| &stage.kernels) {
            for argument in kernel.expr.expressions() {
                go_on = go_on.visit_sibling(|| f(&argument))?;
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
        let (metrics, execution) = (ExecutionPlanMetricsSet::new(), Arc::default());
        Ok(Arc::new(Self { input, metrics, execution, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, super::super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.scan()?;
        if scan.filters().is_some() {
            return internal_err!("a template of a plan cannot run");
        }
        Ok(Box::pin(Worker {
            read: scan.read_by_another(partition),
            scan: scan.clone(),
            keys: self.keys.clone(),
            layers: Arc::clone(&self.layers),
            stages: self.stages.clone(),
            time: self.time,
            work: self.execution.of(partition),
            schema: self.schema(),
            batch_rows: context.session_config().batch_size().max(1).saturating_mul(BATCHES_AT_ONCE),
            ready: None,
            reservation: MemoryConsumer::new("SeriesWindowExec").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One output: takes tasks until none is left.
struct Worker {
    scan: ScanExec,
    keys: Vec<usize>,
    layers: Arc<[Layer]>,
    stages: Vec<Stage>,
    time: Option<usize>,
    work: Arc<Work>,
    schema: SchemaRef,
    batch_rows: usize,
    /// Rows of the task at hand that have not been yielded.
    ready: Option<RecordBatch>,
    reservation: MemoryReservation,
    /// What the scan counts.
    read: BaselineMetrics,
    metrics: BaselineMetrics,
}

impl Worker {
    /// The next rows, `None` after the last.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.take().filter(|rows| rows.num_rows() > 0) {
                let now = self.batch_rows.min(rows.num_rows());
                self.ready = Some(rows.slice(now, rows.num_rows() - now));
                return Ok(Some(rows.slice(0, now)));
            }
            let found = self.found()?;
            let Some(task) = found.tasks.get(self.work.next.fetch_add(1, Ordering::Relaxed)) else {
                self.reservation.free();
                return Ok(None);
            };
            self.ready = Some(self.run(&found.reader, task)?);
        }
    }

    /// The tasks, found by whichever output comes first.
    fn found(&self) -> Result<Arc<Found>> {
        let mut found = self.work.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found.as_ref() {
            return Ok(Arc::clone(found));
        }
        let Some(reader) = SeriesReader::new(&self.scan, &self.keys)? else {
            return internal_err!("the windows are not over series of the table");
        };
        let tasks = reader.tasks(TASK_ROWS, self.reach());
        Ok(Arc::clone(found.insert(Arc::new(Found { reader, tasks }))))
    }

    fn run(&self, reader: &SeriesReader, task: &SeriesTask) -> Result<RecordBatch> {
        // What is read, the same rows side by side, and the results: eight bytes a value as a rule.
        let columns = 2 * self.scan.projection().len() + self.schema.fields().len();
        self.reservation.try_resize(task.rows * columns * size_of::<u64>())?;
        let read = reader.read(task)?;
        self.read.record_output(task.kept.len());
        let (mut batch, mut ends) = (read.batch, read.ends);
        for layer in self.layers.iter() {
            batch = layer.apply(batch, &mut ends)?;
        }
        let times = self.time.map(|time| Arc::clone(batch.column(time)));
        let times =
            times.as_ref().map_or(&[][..], |times| times.as_primitive::<TimestampNanosecondType>().values());
        for stage in &self.stages {
            let rows = Rows { batch: &batch, ends: &ends, times };
            let results = stage.kernels.iter().map(|kernel| kernel.evaluate(&rows));
            let mut columns = batch.columns().to_vec();
            columns.append(&mut results.collect::<Result<Vec<ArrayRef>>>()?);
            batch = batch_of(&stage.schema, columns, batch.num_rows())?;
        }
        // Only a task without filters reads more than it is about.
        let whole = task.kept.len() == task.rows;
        Ok(if whole { batch } else { batch.slice(task.kept.start, task.kept.len()) })
    }

    /// How far the windows see from each row of a series; `None` where that is not known.
    fn reach(&self) -> Option<Reach> {
        let filtered = self.layers.iter().any(|layer| matches!(layer, Layer::Filter(_)));
        let mut all = Reach::default();
        for stage in &self.stages {
            let reaches = stage.kernels.iter().map(Kernel::reach).collect::<Option<Vec<Reach>>>()?;
            all.before += reaches.iter().map(|reach| reach.before).max().unwrap_or(0);
            all.after += reaches.iter().map(|reach| reach.after).max().unwrap_or(0);
        }
        (!filtered).then_some(all)
    }
}

impl Layer {
    /// The rows after the layer; `ends` is where each series ends.
    pub(in crate::operators) fn apply(&self, batch: RecordBatch, ends: &mut [usize]) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        match self {
            Layer::Filter(predicate) => {
                let held = evaluate(predicate)?;
                let held = held.as_boolean();
                let held = if held.null_count() > 0 { &prep_null_mask_filter(held) } else { held };
                move_ends(ends, held);
                Ok(filter_record_batch(&batch, held)?)
            }
            Layer::Project(exprs, schema) => {
                let columns = exprs.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
                batch_of(schema, columns, rows)
            }
        }
    }
}

/// Where each series ends when only the rows `held` are left.
fn move_ends(ends: &mut [usize], held: &BooleanArray) {
    let (mut from, mut kept) = (0, 0);
    for end in ends {
        kept += held.values().slice(from, *end - from).count_set_bits();
        from = *end;
        *end = kept;
    }
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

impl Stream for Worker {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let worker = self.get_mut();
        let time = worker.metrics.elapsed_compute().clone();
        let timer = time.timer();
        let next = worker.next();
        drop(timer);
        worker.metrics.record_poll(Poll::Ready(next.transpose()))
    }
}

impl RecordBatchStream for Worker {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
