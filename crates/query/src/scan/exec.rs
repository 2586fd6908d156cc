//! [`ScanExec`]: the plan node, its properties and its streams.

use super::columns::Columns;
use super::condition::{Condition, Test};
use super::merge::MergeCursor;
use super::natural::{BLOCK_ROWS, NaturalCursor};
use super::selected::Selected;
use super::series_order::{SeriesCursor, SeriesOrder};
use super::statistics;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SortOrderPushdownResult,
};
use datafusion::prelude::SessionConfig;
use futures::Stream;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tickstone_engine::TableSnapshot;

/// Batches of rows from which a scan is worth splitting over several output partitions.
const SPLIT_BATCHES_MIN: u64 = 32;

/// The order in which a scan yields its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanOrder {
    /// As they lie: partitions in time, inside by series and time, runs after parts.
    Natural,
    /// By the designated timestamp; ties in order of arrival within a series.
    Time,
    /// By the designated timestamp, the newest first.
    TimeDescending,
    /// By symbols of the series key, perhaps by the designated timestamp after them.
    Series(Arc<SeriesOrder>),
}

/// Reads rows of one table of a snapshot. It holds what it reads: later commits do not change it.
#[derive(Debug, Clone)]
pub struct ScanExec {
    selected: Arc<Selected>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    order: ScanOrder,
    fetch: Option<usize>,
    /// What rows must fulfil beside what was selected.
    condition: Option<Arc<Condition>>,
    /// Rows of each output partition, counted over all segments as they lie.
    shares: Arc<[Range<usize>]>,
    /// In a template, what is to be selected; `None` where it has been.
    template: Option<Arc<[Expr]>>,
    properties: Arc<PlanProperties>,
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    /// A scan of the columns `projection` (all where `None`) of what was selected of a table, whose
    /// edge schema is `schema`; split over the partitions `config` aims at where there are many rows.
    pub fn new(
        selected: &Arc<Selected>,
        schema: &SchemaRef,
        projection: Option<&Vec<usize>>,
        fetch: Option<usize>,
        config: &SessionConfig,
    ) -> Self {
        let all = || (0..schema.fields().len()).collect();
        let projection: Arc<[usize]> = projection.map_or_else(all, |columns| columns.as_slice().into());
        let fields = projection.iter().map(|&column| Arc::clone(&schema.fields()[column]));
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        let few = selected.rows < SPLIT_BATCHES_MIN * config.batch_size() as u64;
        let outputs = if few || fetch.is_some() { 1 } else { config.target_partitions().max(1) };
        let shares = shares(usize::try_from(selected.rows).unwrap_or(usize::MAX), outputs);
        let order = ScanOrder::Natural;
        let ordered = selected.is_time_ordered();
        let properties = properties(selected, &schema, &projection, (&order, ordered), shares.len());
        Self {
            selected: Arc::clone(selected),
            projection,
            schema,
            order,
            fetch,
            condition: None,
            shares,
            template: None,
            properties,
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// A scan of a plan that is kept: what it selects by `filters` is known when it is bound.
    ///
    /// It declares no statistics and, as the rows lie, no order.
    pub(crate) fn template(
        table: &Arc<TableSnapshot>,
        schema: &SchemaRef,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        fetch: Option<usize>,
        config: &SessionConfig,
    ) -> Self {
        let unknown = Arc::new(Selected::unknown(table));
        let scan = Self::new(&unknown, schema, projection, fetch, config);
        let outputs = if fetch.is_some() { 1 } else { config.target_partitions().max(1) };
        let properties =
            properties(&unknown, &scan.schema, &scan.projection, (&ScanOrder::Natural, false), outputs);
        Self { template: Some(filters.into()), shares: shares(0, outputs), properties, ..scan }
    }

    /// What a template is to select by; `None` where the rows are selected already.
    pub(crate) fn filters(&self) -> Option<&[Expr]> {
        self.template.as_deref()
    }

    /// The scan, where its rows are selected.
    ///
    /// # Errors
    /// Of a template.
    pub(crate) fn bound(&self) -> Result<&Self> {
        match self.template {
            Some(_) => internal_err!("a template of a plan cannot run"),
            None => Ok(self),
        }
    }

    /// The scan that a template becomes with these rows: its properties stay as they are declared.
    pub(crate) fn bind(&self, selected: Arc<Selected>) -> Self {
        let rows = usize::try_from(selected.rows).unwrap_or(usize::MAX);
        Self {
            shares: shares(rows, self.shares.len()),
            selected,
            projection: Arc::clone(&self.projection),
            schema: Arc::clone(&self.schema),
            order: self.order.clone(),
            fetch: self.fetch,
            condition: self.condition.clone(),
            template: None,
            properties: Arc::clone(&self.properties),
            statistics: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What it reads.
    pub fn selected(&self) -> &Arc<Selected> {
        &self.selected
    }

    /// Rows it has yielded so far, of all its outputs.
    pub fn rows_read(&self) -> u64 {
        self.metrics.clone_inner().output_rows().unwrap_or(0) as u64
    }

    /// The columns it yields, as indices in the table.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The columns it yields.
    pub(super) fn row_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Most rows it yields.
    pub(crate) fn fetch_limit(&self) -> Option<usize> {
        self.fetch
    }

    /// The scan a plan is, also below nodes that only join its outputs or make it give way to others; `None` of one with
    /// a condition, which not everybody who reads in its stead asks for.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        Self::with_any_condition(plan).filter(|scan| scan.condition.is_none())
    }

    /// [`Self::of`], also of a scan with a condition: for those who go by [`Self::test`].
    pub(crate) fn with_any_condition(plan: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
            return Self::with_any_condition(cooperative.input());
        }
        if let Some(joined) =
            plan.downcast_ref::<CoalescePartitionsExec>().filter(|joined| joined.fetch().is_none())
        {
            return Self::with_any_condition(joined.input());
        }
        plan.downcast_ref()
    }

    /// The same scan, of the rows only that fulfil a condition over its columns; of these it yields those at `yielded`.
    /// `None` where the condition is not one on columns of the table, or only some rows are wanted.
    pub(crate) fn with_condition(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        fetch: Option<usize>,
        yielded: Option<&[usize]>,
    ) -> Result<Option<Self>> {
        let columns = self.selected.table.schema().columns().len();
        let read: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        let of_table = |at: &usize| self.projection.get(*at).is_some_and(|column| *column < columns);
        if self.fetch.is_some() || !read.iter().all(of_table) {
            return Ok(None);
        }
        let condition = Condition {
            expr: Arc::clone(expr),
            columns: self.projection.to_vec(),
            schema: Arc::clone(&self.schema),
        };
        let condition = match &self.condition {
            Some(known) => known.and(&condition)?,
            None => condition,
        };
        let all: Vec<usize> = (0..self.projection.len()).collect();
        Ok(Some(Self {
            condition: Some(Arc::new(condition)),
            fetch,
            ..self.yielding(yielded.unwrap_or(&all))
        }))
    }

    /// The same rows with some of its columns.
    pub(crate) fn yielding(&self, columns: &[usize]) -> Self {
        let projection: Arc<[usize]> = columns.iter().map(|at| self.projection[*at]).collect();
        let fields: Vec<_> = columns.iter().map(|at| Arc::clone(&self.schema.fields()[*at])).collect();
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
        let column = |schema: &SchemaRef, at: usize| {
            Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>
        };
        let passed = columns.iter().enumerate();
        let mapping: ProjectionMapping = passed
            .map(|(at, of)| (column(&self.schema, *of), vec![(column(&schema, at), at)].into()))
            .collect();
        let equivalences = self.properties.eq_properties.project(&mapping, Arc::clone(&schema));
        let properties = PlanProperties::clone(&self.properties).with_eq_properties(equivalences);
        let properties = Arc::new(properties);
        let (statistics, metrics) = (Arc::default(), ExecutionPlanMetricsSet::new());
        Self { projection, schema, properties, statistics, metrics, ..self.clone() }
    }

    /// The same with what is known of its rows by its condition: which columns have one value, say.
    pub(crate) fn with_equivalences(self, equivalences: EquivalenceProperties) -> Self {
        let properties = PlanProperties::clone(&self.properties).with_eq_properties(equivalences);
        Self { properties: Arc::new(properties), ..self }
    }

    /// Whether rows must fulfil a condition.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// What says which rows fulfil its condition; `None` where it has none.
    ///
    /// # Errors
    /// Where the condition cannot be worked out.
    pub(crate) fn test(&self) -> Result<Option<Test>> {
        self.condition.as_ref().map(|condition| condition.test(&self.selected.table)).transpose()
    }

    /// The order in which it yields rows.
    pub fn order(&self) -> &ScanOrder {
        &self.order
    }

    /// Where an operator that reads the rows in the scan's stead, from `output` of its own, counts them.
    pub(crate) fn read_by_another(&self, output: usize) -> BaselineMetrics {
        if output == 0 {
            self.count_selection();
        }
        BaselineMetrics::new(&self.metrics, output)
    }

    /// The same rows in another order, from one output partition, counted as read by this scan.
    #[must_use]
    pub fn with_order(&self, order: ScanOrder) -> Self {
        let shares = shares(usize::try_from(self.selected.rows).unwrap_or(usize::MAX), 1);
        let properties = properties(&self.selected, &self.schema, &self.projection, (&order, false), 1);
        Self { order, shares, properties, ..self.clone() }
    }

    /// The same rows in the order of some columns of what it yields, where it can have that without sorting
    /// them: by time, or by symbols of the series key and perhaps time after them. `None` where it cannot, or
    /// where not all rows are wanted.
    pub(crate) fn sorted_by(&self, columns: &[(usize, SortOptions)]) -> Option<Self> {
        let in_table =
            columns.iter().map(|(column, options)| Some((*self.projection.get(*column)?, *options)));
        let columns = in_table.collect::<Option<Vec<_>>>().filter(|_| self.fetch.is_none())?;
        let table = &self.selected.table;
        // Merging cuts what was selected anew, in whose segments rows have other numbers.
        let by_time = matches!(columns[..], [(column, _)] if table.schema().timestamp() == Some(column));
        if by_time && self.projection.contains(&table.schema().columns().len()) {
            return None;
        }
        let order = match columns[..] {
            [(column, options)] if table.schema().timestamp() == Some(column) => match options.descending {
                true => ScanOrder::TimeDescending,
                false => ScanOrder::Time,
            },
            _ => ScanOrder::Series(Arc::new(SeriesOrder::new(table, &columns)?)),
        };
        Some(self.with_order(order))
    }

    /// For an operator that reads what is selected by itself: notes that it begins, and counts the rows it reads.
    pub(crate) fn begin_reading(&self) -> Count {
        self.count_selection();
        self.go_on_reading(0)
    }

    /// The same for a further partition of such an operator.
    pub(crate) fn go_on_reading(&self, partition: usize) -> Count {
        BaselineMetrics::new(&self.metrics, partition).output_rows().clone()
    }

    fn rows(&self, share: &Range<usize>) -> usize {
        // How many fulfil a condition is not known before.
        let fetch = self.fetch.filter(|_| self.condition.is_none());
        share.len().min(fetch.unwrap_or(usize::MAX))
    }

    fn cursor(&self, partition: usize, context: &TaskContext) -> Result<Cursor> {
        let batch_rows = context.session_config().batch_size();
        let reservation = || MemoryConsumer::new("ScanExec").register(context.memory_pool());
        let dictionary_of = &self.selected.table;
        let (schema, bytes) = (Arc::clone(&self.schema), self.bytes_read());
        let columns = Arc::new(Columns::new(dictionary_of, schema, &self.projection, bytes));
        let selected = Arc::clone(&self.selected);
        let test = self.test()?.map(Arc::new);
        Ok(match &self.order {
            ScanOrder::Natural => {
                let share = &self.shares[partition];
                let share = share.start..share.start + self.rows(share);
                let cursor = NaturalCursor::new(selected, columns, share, batch_rows);
                Cursor::Natural(cursor.tested(test, self.fetch.unwrap_or(usize::MAX)))
            }
            ScanOrder::Time | ScanOrder::TimeDescending => {
                let descending = self.order == ScanOrder::TimeDescending;
                let held = (batch_rows, reservation());
                Cursor::Merge(MergeCursor::new(selected, columns, descending, (self.fetch, test), held))
            }
            ScanOrder::Series(order) => {
                let held = (batch_rows, reservation());
                Cursor::Series(Box::new(SeriesCursor::new(self, order, self.fetch, held)?))
            }
        })
    }

    /// A counter of bytes of values read, in its metrics.
    pub(super) fn bytes_read(&self) -> Count {
        MetricBuilder::new(&self.metrics).global_counter("bytes_read")
    }

    /// How many outputs it has.
    pub(crate) fn outputs(&self) -> usize {
        self.shares.len()
    }

    /// Notes what it reads of the table in its metrics.
    fn count_selection(&self) {
        let table = &self.selected.table;
        let partitions = table.partitions().len();
        let mut read: Vec<usize> = self.selected.segments.iter().map(|s| s.partition()).collect();
        read.dedup();
        let count = |name: &'static str, value: u64| {
            MetricBuilder::new(&self.metrics)
                .global_counter(name)
                .add(usize::try_from(value).unwrap_or(usize::MAX));
        };
        count("partitions_read", read.len() as u64);
        count("partitions_skipped", partitions.saturating_sub(read.len()) as u64);
        let parts = self.selected.segments.iter().filter(|segment| segment.is_part());
        let slices = parts.clone().count() as u64;
        count("part_slices", slices);
        count("runs", self.selected.segments.len() as u64 - slices);
        count("blocks", parts.map(|segment| blocks(segment.rows())).sum());
        count("rows_selected", self.selected.rows);
        count("rows_skipped", table.rows().saturating_sub(self.selected.rows));
    }
}

/// Blocks of a part that hold some of the rows.
fn blocks(rows: &[Range<usize>]) -> u64 {
    let (mut blocks, mut next) = (0, 0);
    for range in rows.iter().filter(|range| !range.is_empty()) {
        let first = (range.start / BLOCK_ROWS).max(next);
        next = (range.end - 1) / BLOCK_ROWS + 1;
        blocks += next.saturating_sub(first) as u64;
    }
    blocks
}

/// `rows` in `count` shares of about the same size.
fn shares(rows: usize, count: usize) -> Arc<[Range<usize>]> {
    let edge = |index: usize| usize::try_from(rows as u128 * index as u128 / count as u128).unwrap_or(rows);
    (0..count).map(|index| edge(index)..edge(index + 1)).collect()
}

fn properties(
    selected: &Selected,
    schema: &SchemaRef,
    projection: &[usize],
    (order, naturally_ordered): (&ScanOrder, bool),
    outputs: usize,
) -> Arc<PlanProperties> {
    let mut equivalence = EquivalenceProperties::new(Arc::clone(schema));
    let time = |descending| {
        let timestamp = selected.table.schema().timestamp();
        timestamp.map(|column| (column, SortOptions { descending, nulls_first: descending }))
    };
    let by: Vec<(usize, SortOptions)> = match order {
        ScanOrder::Natural if !naturally_ordered => Vec::new(),
        ScanOrder::Natural | ScanOrder::Time => time(false).into_iter().collect(),
        ScanOrder::TimeDescending => time(true).into_iter().collect(),
        ScanOrder::Series(order) => {
            let time = order.time.and_then(|options| Some((time(false)?.0, options)));
            order.keys.iter().copied().chain(time).collect()
        }
    };
    // An order ends where a column of it is not yielded.
    let yielded = by.into_iter().map_while(|(column, options)| {
        let at = projection.iter().position(|of| *of == column)?;
        let expr = Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
        Some(PhysicalSortExpr { expr, options })
    });
    if let Some(ordering) = LexOrdering::new(yielded) {
        equivalence.add_ordering(ordering);
    }
    Arc::new(PlanProperties::new(
        equivalence,
        Partitioning::UnknownPartitioning(outputs),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Selected { table, selection, rows, .. } = self.selected.as_ref();
        let schema = table.schema();
        if matches!(format, DisplayFormatType::TreeRender) {
            return write!(f, "table={}\nrows={rows}", schema.name());
        }
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ScanExec: table={}, columns=[{}]", schema.name(), names.join(", "))?;
        if selection.time != tickstone_model::TimeRange::ALL {
            write!(f, ", time={}", TimeText(selection.time))?;
        }
        for (column, ids) in &selection.series {
            let dictionary = table.dictionary(*column);
            let symbol = |id: &u32| match dictionary.and_then(|d| d.symbol(*id)) {
                Some(symbol) => symbol.to_string(),
                None => "NULL".to_string(),
            };
            let mut symbols: Vec<String> = ids.iter().take(8).map(symbol).collect();
            if ids.len() > symbols.len() {
                symbols.push(format!("… {} more", ids.len() - symbols.len()));
            }
            write!(f, ", {}=[{}]", schema.columns()[*column].name, symbols.join(", "))?;
        }
        f.write_str(", order=")?;
        match &self.order {
            ScanOrder::Natural if self.selected.is_time_ordered() => f.write_str("natural (by time)")?,
            ScanOrder::Natural => f.write_str("natural")?,
            ScanOrder::Time => f.write_str("time")?,
            ScanOrder::TimeDescending => f.write_str("time descending")?,
            ScanOrder::Series(order) => write!(f, "{order}")?,
        }
        write!(f, ", rows={rows} of {}", table.rows())?;
        if let Some(condition) = &self.condition {
            write!(f, ", where={}", condition.expr)?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.shares.len() > 1 {
            write!(f, ", outputs={}", self.shares.len())?;
        }
        Ok(())
    }
}

/// A time range with its open ends left out.
struct TimeText(tickstone_model::TimeRange);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = |nanos: i64, open: i64| match nanos == open {
            true => "…".to_string(),
            false => tickstone_model::format_nanos(nanos),
        };
        write!(f, "[{}, {})", edge(self.0.from, i64::MIN), edge(self.0.to, i64::MAX))
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
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
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no inputs") }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.bound()?;
        if partition >= self.shares.len() {
            return internal_err!("a scan of {} outputs has no output {partition}", self.shares.len());
        }
        if partition == 0 {
            self.count_selection();
        }
        let cursor = self.cursor(partition, &context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(Box::pin(ScanStream { schema: Arc::clone(&self.schema), cursor, metrics }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let columns = self.projection.len();
        if self.template.is_some() || self.condition.is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema)));
        }
        if let Some(share) = args.partition().and_then(|partition| self.shares.get(partition))
            && self.shares.len() > 1
        {
            return Ok(Arc::new(statistics::of_rows(self.rows(share) as u64, columns)));
        }
        if let Some(fetch) = self.fetch
            && (fetch as u64) < self.selected.rows
        {
            return Ok(Arc::new(statistics::of_rows(fetch as u64, columns)));
        }
        if !statistics::are_of_columns() {
            return Ok(Arc::new(statistics::of_rows(self.selected.rows, columns)));
        }
        let statistics = self
            .statistics
            .get_or_init(|| Arc::new(statistics::of_selected(&self.selected, &self.projection)));
        Ok(Arc::clone(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let metrics = ExecutionPlanMetricsSet::new();
        Some(Arc::new(Self { fetch, metrics, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let Some(ordered) = plain_columns(order).and_then(|columns| self.sorted_by(&columns)) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        Ok(SortOrderPushdownResult::Exact { inner: Arc::new(ordered) })
    }
}

/// The columns that rows are sorted by, and how; `None` where an expression is none.
pub(crate) fn plain_columns<'a>(
    order: impl IntoIterator<Item = &'a PhysicalSortExpr>,
) -> Option<Vec<(usize, SortOptions)>> {
    let column = |by: &PhysicalSortExpr| Some((by.expr.downcast_ref::<Column>()?.index(), by.options));
    order.into_iter().map(column).collect()
}

#[derive(Debug)]
enum Cursor {
    Natural(NaturalCursor),
    Merge(MergeCursor),
    Series(Box<SeriesCursor>),
}

struct ScanStream {
    schema: SchemaRef,
    cursor: Cursor,
    metrics: BaselineMetrics,
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if let Err(over) = ready!(crate::wanted::give_way(context)) {
            return Poll::Ready(Some(Err(over)));
        }
        let timer = stream.metrics.elapsed_compute().timer();
        let next = match &mut stream.cursor {
            Cursor::Natural(cursor) => cursor.next(),
            Cursor::Merge(cursor) => cursor.next(),
            Cursor::Series(cursor) => cursor.next(),
        };
        drop(timer);
        stream.metrics.record_poll(Poll::Ready(next.transpose()))
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests;
