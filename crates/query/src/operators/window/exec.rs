//! The operator of window functions over series.

use super::frame::Sight;
use super::kernel::Kernel;
use super::slices::{Order, Slices};
use crate::operators::below::{Layer, batch_of};
use crate::operators::exec::{Core, Operator, known, operator};
use crate::operators::filters::on_scan;
use crate::operators::node::write_list;
use crate::operators::pieces::is_large;
use crate::operators::reduce::{Pieces, Reduce};
use crate::operators::sample::sampler::{Sampler, Shape};
use crate::operators::shared::{Shared, Tasks};
use crate::operators::{TIME_ORDER, workers};
use crate::scan::{Reach, ScanExec, SeriesOrder, SeriesReader, SeriesTask};
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties, WindowExpr,
};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Rows that a worker reads at once: few enough to stay in the cache, many enough that the blocks a task
/// shares with its neighbours do not count.
const TASK_ROWS: usize = if cfg!(test) { 16 } else { 61_440 };

/// Batches that are yielded as one: rows of a task lie together already, and each batch costs something.
const BATCHES_AT_ONCE: usize = 4;

/// Window functions by the same partitions in the same order, which do not see each other's results.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    kernels: Vec<Kernel>,
    /// What PARTITION BY names, and the column of the table that it is.
    partition: Vec<(Arc<dyn PhysicalExpr>, Option<usize>)>,
    slices: Slices,
    /// The columns that the functions look at.
    wanted: Vec<usize>,
    /// That of the rows with the results.
    schema: SchemaRef,
}

impl Stage {
    /// Windows over rows of the schema `input`, which have `schema` with the results.
    pub(super) fn new(
        windows: &[Arc<dyn WindowExpr>],
        partition: Vec<(Arc<dyn PhysicalExpr>, Option<usize>)>,
        order: Order,
        (input, schema): (&SchemaRef, SchemaRef),
    ) -> Result<Self> {
        let kernels = windows.iter().map(|window| Kernel::new(window, input, &order));
        let kernels = kernels.collect::<Result<Vec<Kernel>>>()?;
        let mut wanted: Vec<usize> = kernels.iter().flat_map(|kernel| kernel.columns(input)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let slices = Slices { keys: Vec::new(), order };
        Ok(Self { kernels, partition, slices, wanted, schema })
    }

    /// What the results for a row hang on; `None` where that is not known of a function.
    pub(super) fn sight(&self) -> Option<Sight> {
        self.kernels.iter().map(Kernel::sight).reduce(|a, b| Some(a?.and(b?))).flatten()
    }

    /// What PARTITION BY names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.partition.iter().map(|(key, _)| key)
    }

    /// What ORDER BY names.
    pub(super) fn order(&self) -> impl Iterator<Item = Arc<dyn PhysicalExpr>> {
        let first = self.kernels.first().map(|kernel| kernel.expr.order_by());
        first.into_iter().flatten().map(|by| Arc::clone(&by.expr))
    }

    /// The names of its functions.
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.expr.name())
    }

    /// The columns of the table that are of its partitions.
    pub(super) fn table_columns(&self) -> impl Iterator<Item = usize> {
        self.partition.iter().filter_map(|(_, column)| *column)
    }

    /// The same over series that `keys` make.
    fn by(mut self, keys: &[usize]) -> Self {
        let beside = self.partition.iter().filter(|(_, of)| of.is_none_or(|of| !keys.contains(&of)));
        self.slices.keys = beside.map(|(key, _)| Arc::clone(key)).collect();
        self
    }

    /// The rows with the results.
    pub(super) fn apply(&self, batch: &RecordBatch, ends: &[usize]) -> Result<RecordBatch> {
        let ranked = self.kernels.iter().any(Kernel::goes_by_times);
        let mut columns = batch.columns().to_vec();
        let sliced = self.slices.of(batch, ends, ranked)?;
        let rows = sliced.batch(batch, &self.wanted)?;
        let back = sliced.back();
        for kernel in &self.kernels {
            let results = kernel.evaluate(&sliced.rows(&rows))?;
            columns.push(match &back {
                None => results,
                Some(back) => take(&results, back, None)?,
            });
        }
        batch_of(&self.schema, columns, batch.num_rows())
    }

    /// How far its functions see from each row of a series; `None` where that is not known.
    fn reach(&self) -> Option<Reach> {
        let reaches = self.kernels.iter().map(Kernel::reach).collect::<Option<Vec<Reach>>>()?;
        let farthest = |of: fn(&Reach) -> usize| reaches.iter().map(of).max().unwrap_or(0);
        let reach = Reach { before: farthest(|of| of.before), after: farthest(|of| of.after) };
        self.slices.are_series().then_some(reach)
    }
}

/// A step on the way of rows from the scan.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Rows go or change, each by itself.
    Layer(Layer),
    /// Rows get results of windows.
    Windows(Stage),
    /// Rows of groups, each of which is within a series, become one; nothing comes after it.
    Groups(Arc<Shape>),
}

/// Adds window functions to the rows of a table, which it reads series by series, each in order of time.
///
/// It reads the rows itself: the scan below says which. Its outputs take tasks from one list, whichever is
/// free the next one.
#[derive(Debug, Clone)]
pub(crate) struct SeriesWindowExec {
    core: Core,
    /// The lowest first.
    steps: Arc<[Step]>,
    /// Columns of the table that make a series, ascending.
    keys: Vec<usize>,
    /// In which order series come, where that matters: they come from one output then.
    order: Option<Arc<SeriesOrder>>,
    execution: Shared<Tasks<Found>>,
}

/// The tasks of one execution.
#[derive(Debug)]
struct Found {
    reader: SeriesReader,
    tasks: Vec<SeriesTask>,
}

impl SeriesWindowExec {
    /// Takes the rows of the series that the columns `keys` make of what the scan `input` selects through steps.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        steps: Vec<Step>,
        keys: Vec<usize>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let mut above = input.schema();
        let mut by_keys = |step| {
            Ok(match step {
                Step::Windows(stage) => {
                    above = Arc::clone(&stage.schema);
                    Step::Windows(stage.by(&keys))
                }
                groups @ Step::Groups(_) => groups,
                Step::Layer(layer) => {
                    let layer = layer.quick(&above)?;
                    if let Layer::Project(_, schema) = &layer {
                        above = Arc::clone(schema);
                    }
                    Step::Layer(layer)
                }
            })
        };
        let steps: Arc<[Step]> = steps.into_iter().map(&mut by_keys).collect::<Result<_>>()?;
        let properties = properties(&input, &steps, schema)?;
        Ok(Self {
            core: Core::new([input], properties),
            steps,
            keys,
            order: None,
            execution: Shared::default(),
        })
    }

    /// The same rows in the order of some columns of what it yields: of symbols of the series, and perhaps of time after
    /// them. `None` where it does not read them so.
    pub(in crate::operators) fn sorted_by(&self, columns: &[(usize, SortOptions)]) -> Result<Option<Self>> {
        let scan = self.scan()?;
        let in_table =
            columns.iter().map(|(at, options)| Some((column_before(scan, &self.steps, *at)?, *options)));
        let Some(by) = in_table.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let order = SeriesOrder::new(&scan.selected().table, &by);
        let Some(order) = order.filter(|order| order.goes_forwards_by(&self.keys)) else { return Ok(None) };
        let schema = self.schema();
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        let sorted = columns.iter().map(|(at, options)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(*at).name(), *at));
            PhysicalSortExpr::new(column, *options)
        });
        equivalences.add_orderings([sorted.collect::<Vec<_>>()]);
        let one = Partitioning::UnknownPartitioning(1);
        let properties = PlanProperties::clone(&self.core.properties).with_eq_properties(equivalences);
        let core = self.core.with_properties(properties.with_partitioning(one));
        Ok(Some(Self { core, order: Some(Arc::new(order)), ..self.clone() }))
    }

    /// The same where the scan works out the filter that rows come through first; `None` where they come through none.
    pub(in crate::operators) fn with_filter_in_scan(&self) -> Result<Option<Self>> {
        let Some(Step::Layer(Layer::Filter(predicate))) = self.steps.first() else { return Ok(None) };
        if is_large(predicate) {
            return Ok(None);
        }
        let Some(input) = on_scan(self.core.input(), |scan| scan.with_condition(predicate, None, None))?
        else {
            return Ok(None);
        };
        let steps = self.steps[1..].to_vec().into();
        let core = Core::new([input], Arc::clone(&self.core.properties));
        Ok(Some(Self { core, steps, ..self.clone() }))
    }

    fn scan(&self) -> Result<&ScanExec> {
        scan_of(self.core.input())
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.core.input()
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// The column of the table that an expression over its rows is.
    pub(super) fn table_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        column_before(self.scan().ok()?, &self.steps, expr.downcast_ref::<Column>()?.index())
    }

    /// Whether its rows are groups.
    pub(super) fn is_grouped(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Groups(_)))
    }
}

fn scan_of(input: &Arc<dyn ExecutionPlan>) -> Result<&ScanExec> {
    ScanExec::with_any_condition(input)
        .ok_or_else(|| internal_datafusion_err!("SeriesWindowExec has no scan below it"))
}

/// Rows of one series come in order of time, those of several in none that could be named.
fn properties(input: &Arc<dyn ExecutionPlan>, steps: &[Step], schema: SchemaRef) -> Result<PlanProperties> {
    let scan = scan_of(input)?;
    let mut equivalences = EquivalenceProperties::new(Arc::clone(&schema));
    let mut outputs = input.output_partitioning().partition_count();
    if scan.filters().is_none() && scan.selected().is_one_series() {
        outputs = 1;
        if let Some(time) = time_after(scan, steps) {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(time).name(), time));
            equivalences.add_orderings([[PhysicalSortExpr::new(column, TIME_ORDER)]]);
        }
    }
    Ok(known(equivalences, outputs, EmissionType::Incremental))
}

/// The column of the table that one is after the steps.
fn column_before(scan: &ScanExec, steps: &[Step], at: usize) -> Option<usize> {
    let mut place = at;
    for step in steps.iter().rev() {
        match step {
            Step::Layer(Layer::Project(exprs, _)) => {
                place = exprs.get(place)?.downcast_ref::<Column>()?.index();
            }
            Step::Groups(_) => return None,
            Step::Layer(Layer::Filter(_)) | Step::Windows(_) => {}
        }
    }
    scan.projection().get(place).copied()
}

/// Where the designated timestamp is after the steps.
fn time_after(scan: &ScanExec, steps: &[Step]) -> Option<usize> {
    let time = scan.selected().table.schema().timestamp()?;
    let mut place = scan.projection().iter().position(|column| *column == time)?;
    for step in steps {
        if matches!(step, Step::Groups(_)) {
            return None;
        }
        if let Step::Layer(Layer::Project(exprs, _)) = step {
            let is_it = |expr: &Arc<dyn PhysicalExpr>| {
                expr.downcast_ref::<Column>().is_some_and(|column| column.index() == place)
            };
            place = exprs.iter().position(is_it)?;
        }
    }
    Some(place)
}

operator!(SeriesWindowExec);

impl Operator for SeriesWindowExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages = self.steps.iter().filter_map(|step| match step {
            Step::Windows(stage) => Some(stage),
            Step::Layer(_) | Step::Groups(_) => None,
        });
        let functions: Vec<&str> = stages.flat_map(Stage::functions).collect();
        write!(f, "SeriesWindowExec: [{}]", functions.join(", "))?;
        if let Some(order) = &self.order {
            write!(f, ", order={order}")?;
        }
        for step in self.steps.iter() {
            match step {
                Step::Layer(Layer::Filter(predicate)) => write!(f, ", filter={predicate}")?,
                Step::Layer(Layer::Project(exprs, _)) => {
                    f.write_str(", projection=[")?;
                    write_list(f, exprs)?;
                    f.write_str("]")?;
                }
                Step::Windows(stage) => write!(f, "{}", stage.slices)?,
                Step::Groups(shape) => {
                    f.write_str(", grouped by [")?;
                    let keys: Vec<_> = shape.keys().collect();
                    write_list(f, &keys)?;
                    f.write_str("], aggregates=[")?;
                    let aggregates: Vec<&str> = shape.aggregates().collect();
                    write_list(f, &aggregates)?;
                    f.write_str("]")?;
                }
            }
        }
        Ok(())
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let of_step = |step: &Step| -> Vec<Arc<dyn PhysicalExpr>> {
            match step {
                Step::Layer(Layer::Filter(predicate)) => vec![Arc::clone(predicate)],
                Step::Layer(Layer::Project(exprs, _)) => exprs.clone(),
                Step::Windows(stage) => {
                    let arguments = stage.kernels.iter().flat_map(|kernel| kernel.expr.expressions());
                    arguments.chain(stage.slices.exprs().cloned()).collect()
                }
                Step::Groups(shape) => shape.exprs().cloned().collect(),
            }
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.scan()?.bound()?;
        let worker = Worker {
            read: scan.read_by_another(output),
            scan: scan.clone(),
            keys: self.keys.clone(),
            order: self.order.clone(),
            steps: Arc::clone(&self.steps),
            work: self.execution.join(output, self.core.outputs(), || Ok(Tasks::default()))?,
            schema: self.schema(),
            batch_rows: context.session_config().batch_size().max(1).saturating_mul(BATCHES_AT_ONCE),
            ready: None,
            reservation: self.reservation(&context),
            metrics: self.core.baseline(output),
        };
        if self.order.is_none() {
            return Ok(Box::pin(worker));
        }
        let cores = self.core.input().output_partitioning().partition_count();
        Ok(self.stream(worker.in_order(cores)))
    }
}

/// One output: takes tasks until none is left.
struct Worker {
    scan: ScanExec,
    keys: Vec<usize>,
    order: Option<Arc<SeriesOrder>>,
    steps: Arc<[Step]>,
    work: Arc<Tasks<Found>>,
    schema: SchemaRef,
    batch_rows: usize,
    /// Rows of the task at hand that have not been yielded.
    ready: Option<Pieces>,
    reservation: MemoryReservation,
    /// What the scan counts.
    read: BaselineMetrics,
    metrics: BaselineMetrics,
}

impl Worker {
    /// The next rows, `None` after the last.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.as_mut().and_then(Iterator::next) {
                return Ok(Some(rows));
            }
            let found = self.found()?;
            let Some(task) = found.tasks.get(self.work.next()) else {
                self.reservation.free();
                return Ok(None);
            };
            let rows = self.run(&found.reader, task, &self.reservation)?;
            self.ready = Some(Pieces::new(rows, self.batch_rows, ()));
        }
    }

    /// The rows of all tasks in their order: so many cores work on the next ones.
    fn in_order(self, cores: usize) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let worker = Arc::new(self);
        let tasks = async move {
            let tasks = worker.found()?.tasks.len();
            let each = futures::stream::iter(0..tasks).map(move |at| {
                let worker = Arc::clone(&worker);
                let run = async move {
                    let found = worker.found()?;
                    let _timer = worker.metrics.elapsed_compute().timer();
                    let reservation = worker.reservation.new_empty();
                    let rows = worker.run(&found.reader, &found.tasks[at], &reservation)?;
                    worker.metrics.record_output(rows.num_rows());
                    Ok((rows, reservation, worker.batch_rows))
                };
                if at == 0 { FutureExt::boxed(run) } else { workers::aside(run) }
            });
            Ok::<_, DataFusionError>(each.buffered(cores.max(1)).then(async |done| {
                let (rows, reservation, batch_rows) = done?;
                let pieces = Pieces::new(rows, batch_rows, reservation);
                Ok::<_, DataFusionError>(futures::stream::iter(pieces.map(Ok)))
            }))
        };
        futures::stream::once(tasks).try_flatten().try_flatten()
    }

    /// The tasks, found by whichever output comes first.
    fn found(&self) -> Result<&Found> {
        self.work.plan(|| {
            let Some(mut reader) = SeriesReader::new(&self.scan, &self.keys)? else {
                return internal_err!("the windows are not over series of the table");
            };
            if let Some(order) = &self.order {
                reader.sort_by(order, &self.scan);
            }
            let tasks = reader.tasks(TASK_ROWS, self.reach());
            Ok(Found { reader, tasks })
        })
    }

    fn run(
        &self,
        reader: &SeriesReader,
        task: &SeriesTask,
        reservation: &MemoryReservation,
    ) -> Result<RecordBatch> {
        // What is read, the same rows side by side, and the results: eight bytes a value as a rule.
        let columns = 2 * self.scan.projection().len() + self.schema.fields().len();
        crate::wanted::look()?;
        reservation.try_resize(task.rows * columns * size_of::<u64>())?;
        let read = reader.read(task)?;
        self.read.record_output(task.kept.len());
        let (mut batch, mut ends) = (read.batch, read.ends);
        let last = self.steps.iter().rposition(|step| matches!(step, Step::Windows(_)));
        for (at, step) in self.steps.iter().enumerate() {
            batch = match step {
                Step::Layer(layer) => layer.apply(batch, &mut ends)?,
                Step::Windows(stage) => stage.apply(&batch, &ends)?,
                Step::Groups(shape) => {
                    let groups = Sampler::try_new(shape, reservation.new_empty())?;
                    // Without buckets any time does.
                    let mut groups = groups.expect(Some((0, 0)));
                    groups.update(&batch)?;
                    groups.finish_as_met()?
                }
            };
            // Only a task without filters below windows reads more than it is about: that of one series.
            if Some(at) == last && task.kept.len() < task.rows {
                batch = batch.slice(task.kept.start, task.kept.len());
                ends = vec![batch.num_rows()];
            }
        }
        Ok(batch)
    }

    /// How far the windows see from each row of a series; `None` where that is not known.
    fn reach(&self) -> Option<Reach> {
        let (mut all, mut filtered) = (Reach::default(), self.scan.has_condition());
        for step in self.steps.iter() {
            match step {
                Step::Layer(layer) => filtered |= matches!(layer, Layer::Filter(_)),
                Step::Windows(stage) => {
                    let reach = stage.reach().filter(|_| !filtered)?;
                    all.before += reach.before;
                    all.after += reach.after;
                }
                // All rows of a group are of one task.
                Step::Groups(_) => return None,
            }
        }
        Some(all)
    }
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
