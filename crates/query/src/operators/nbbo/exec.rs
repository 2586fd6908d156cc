//! The operator of nbbo.

use super::book::{Sides, Venues};
use crate::operators::TIME_ORDER;
use crate::operators::exec::{Core, Need, Operator, known, operator};
use crate::operators::key::{KeyIds, KeyReader};
use crate::operators::node::write_list;
use crate::operators::reduce::Pieces;
use crate::operators::series::BySeries;
use crate::operators::shared::{Shared, Tasks};
use crate::scan::{ScanExec, SeriesReader, SeriesTask};
use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// Rows that a worker reads at once: few enough to stay in the cache.
const TASK_ROWS: usize = if cfg!(test) { 16 } else { 61_440 };

/// Batches that are yielded as one: rows of a task lie together already.
const BATCHES_AT_ONCE: usize = 4;

/// What is read of each quote; pairs are of the bid and the ask.
#[derive(Debug)]
pub(crate) struct QuoteColumns {
    pub(crate) time: Arc<dyn PhysicalExpr>,
    pub(crate) series: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) venue: Arc<dyn PhysicalExpr>,
    pub(crate) prices: [Arc<dyn PhysicalExpr>; 2],
    pub(crate) sizes: [Option<Arc<dyn PhysicalExpr>>; 2],
}

/// Yields a row a quote: the best of both sides.
#[derive(Debug, Clone)]
pub(crate) struct NbboExec {
    /// Its input is the rows, or the scan they are read from by series.
    core: Core,
    /// That of the quotes.
    quotes: SchemaRef,
    by_series: Option<BySeries>,
    columns: Arc<QuoteColumns>,
    execution: Shared<Tasks<Found>>,
}

/// What the outputs of one execution share.
#[derive(Debug)]
struct Found {
    reader: SeriesReader,
    chains: Vec<Vec<SeriesTask>>,
}

impl NbboExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, columns: QuoteColumns, output: SchemaRef) -> Self {
        let quotes = input.schema();
        let (by_series, input) = match BySeries::of(&input, &columns.time, &columns.series) {
            Some((by_series, scan)) => (Some(by_series), scan),
            None => (None, input),
        };
        let scan = by_series.as_ref().and_then(|_| ScanExec::of(&input));
        let one = scan.is_none_or(|scan| scan.filters().is_none() && scan.selected().is_one_series());
        let outputs = if one { 1 } else { scan.map_or(1, ScanExec::outputs) };
        let mut equivalences = EquivalenceProperties::new(Arc::clone(&output));
        if one {
            let time: Arc<dyn PhysicalExpr> = Arc::new(Column::new(output.field(0).name(), 0));
            equivalences.add_orderings([[PhysicalSortExpr::new(time, TIME_ORDER)]]);
        }
        let core = Core::new([input], known(equivalences, outputs, EmissionType::Incremental));
        Self { core, quotes, by_series, columns: Arc::new(columns), execution: Shared::default() }
    }

    fn scan(&self) -> Result<&ScanExec> {
        ScanExec::of(self.core.input())
            .ok_or_else(|| internal_datafusion_err!("NbboExec by series has no scan"))
    }
}

operator!(NbboExec);

impl Operator for NbboExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuoteColumns { series, venue, prices: [bid, ask], .. } = self.columns.as_ref();
        write!(f, "NbboExec: bid={bid}, ask={ask}, venue={venue}, series=[")?;
        write_list(f, series)?;
        f.write_str(if self.by_series.is_some() { "], by series" } else { "], by rows in order of time" })
    }

    fn needs(&self) -> Vec<Need> {
        vec![if self.by_series.is_some() { Need::Any } else { Need::by_time(&self.columns.time) }]
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let QuoteColumns { time, series, venue, prices, sizes } = self.columns.as_ref();
        [time, venue].into_iter().chain(series).chain(prices).chain(sizes.iter().flatten()).cloned().collect()
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = self.core.baseline(output);
        let reservation = self.reservation(&context);
        let books = Books::try_new(&self.columns, &self.quotes, self.schema(), reservation)?;
        let Some(by_series) = self.by_series.clone() else {
            let input = self.core.input().execute(0, context)?;
            let state = (input, books);
            let rows = futures::stream::try_unfold(state, move |(mut input, mut books)| {
                let metrics = metrics.clone();
                async move {
                    let Some(batch) = input.try_next().await? else { return Ok(None) };
                    let _timer = metrics.elapsed_compute().timer();
                    let rows = books.update(&batch, None)?;
                    metrics.record_output(rows.num_rows());
                    Ok(Some((rows, (input, books))))
                }
            });
            return Ok(self.stream(rows));
        };
        let scan = self.scan()?.bound()?;
        let width = scan.projection().len() + self.quotes.fields().len() + self.schema().fields().len();
        let mut worker = Worker {
            read: scan.read_by_another(output),
            scan: scan.clone(),
            by_series,
            work: self.execution.join(output, self.core.outputs(), || Ok(Tasks::default()))?,
            chain: None,
            books,
            row_bytes: 2 * width * size_of::<u64>(),
            ready: None,
            batch_rows: context.session_config().batch_size().max(1).saturating_mul(BATCHES_AT_ONCE),
            metrics,
        };
        let rows = futures::stream::iter(std::iter::from_fn(move || worker.next().transpose()));
        Ok(self.stream(rows))
    }
}

/// One output that reads by series: takes chains until none is left.
struct Worker {
    scan: ScanExec,
    by_series: BySeries,
    work: Arc<Tasks<Found>>,
    /// The chain at hand, and the next of its tasks.
    chain: Option<(usize, usize)>,
    books: Books,
    row_bytes: usize,
    /// Rows that have not been yielded.
    ready: Option<Pieces>,
    batch_rows: usize,
    /// What the scan counts.
    read: BaselineMetrics,
    metrics: BaselineMetrics,
}

impl Worker {
    /// The next rows, `None` after the last.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let metrics = self.metrics.clone();
        let _timer = metrics.elapsed_compute().timer();
        loop {
            if let Some(rows) = self.ready.as_mut().and_then(Iterator::next) {
                metrics.record_output(rows.num_rows());
                return Ok(Some(rows));
            }
            let work = Arc::clone(&self.work);
            let found = work.plan(|| self.find())?;
            let (chain, task) = self.chain.take().unwrap_or_else(|| (work.next(), 0));
            let Some(tasks) = found.chains.get(chain) else { return Ok(None) };
            let Some(next) = tasks.get(task) else { continue };
            self.chain = Some((chain, task + 1));
            self.books.expect(next.rows * self.row_bytes)?;
            let (batch, ends) = self.by_series.rows(&found.reader, next)?;
            self.read.record_output(next.rows);
            let rows = self.books.update(&batch, self.by_series.whole.then_some(&ends[..]))?;
            self.ready = Some(Pieces::new(rows, self.batch_rows, ()));
        }
    }

    /// The chains.
    fn find(&self) -> Result<Found> {
        let Some(reader) = SeriesReader::new(&self.scan, &self.by_series.columns)? else {
            return internal_err!("quotes are not of series of the table");
        };
        let chains = reader.chains(TASK_ROWS);
        Ok(Found { reader, chains })
    }
}

/// The books of some series, whose quotes come in order of time.
struct Books {
    columns: Arc<QuoteColumns>,
    schema: SchemaRef,
    series: KeyIds,
    reader: KeyReader,
    series_ids: Vec<u32>,
    venues: Venues,
    venue_ids: Vec<u32>,
    sides: [Sides; 2],
    reservation: MemoryReservation,
}

impl Books {
    fn try_new(
        columns: &Arc<QuoteColumns>,
        quotes: &SchemaRef,
        schema: SchemaRef,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        Ok(Self {
            series: KeyIds::of(&columns.series, quotes)?,
            reader: KeyReader::new(columns.series.len()),
            series_ids: Vec::new(),
            venues: Venues::try_new(&columns.venue.data_type(quotes)?)?,
            venue_ids: Vec::new(),
            sides: [Sides::new(true), Sides::new(false)],
            columns: Arc::clone(columns),
            schema,
            reservation,
        })
    }

    /// Claims memory for the books and so many bytes of rows.
    fn expect(&self, bytes: usize) -> Result<()> {
        let sides: usize = self.sides.iter().map(Sides::size).sum();
        self.reservation.try_resize(bytes + self.series.size() + self.venues.size() + sides)
    }

    /// The best after each of the quotes; `ends` says where those of each series end, where they lie together.
    fn update(&mut self, batch: &RecordBatch, ends: Option<&[usize]>) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        if ends.is_none() {
            self.expect(2 * rows * self.schema.fields().len() * size_of::<u64>())?;
        }
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(rows);
        let columns = Arc::clone(&self.columns);
        let series = columns.series.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        self.read_series(&series, ends, rows)?;
        self.venue_ids.clear();
        self.venues.read(&evaluate(&columns.venue)?, &mut self.venue_ids)?;
        let mut out = vec![evaluate(&columns.time)?];
        out.extend(series);
        for ((side, price), size) in self.sides.iter_mut().zip(&columns.prices).zip(&columns.sizes) {
            let (price, size) = (evaluate(price)?, size.as_ref().map(evaluate).transpose()?);
            let (series, venues) = (&self.series_ids, &self.venue_ids);
            out.append(&mut side.update(series, venues, &price, size.as_ref(), &mut self.venues)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), out)?)
    }

    /// The id of each row's series.
    fn read_series(&mut self, series: &[ArrayRef], ends: Option<&[usize]>, rows: usize) -> Result<()> {
        self.series_ids.clear();
        let Some(ends) = ends else {
            return self.series.read(series, rows, &mut self.reader, &mut self.series_ids);
        };
        let starts = std::iter::once(0).chain(ends.iter().copied()).zip(ends);
        let held: Vec<(usize, usize)> =
            starts.map(|(start, end)| (start, *end)).filter(|(start, end)| start < end).collect();
        let firsts = UInt32Array::from_iter_values(held.iter().map(|(start, _)| *start as u32));
        let firsts = series.iter().map(|of| Ok(take(of, &firsts, None)?)).collect::<Result<Vec<_>>>()?;
        let mut ids = Vec::with_capacity(held.len());
        self.series.read(&firsts, held.len(), &mut self.reader, &mut ids)?;
        for ((_, end), id) in held.into_iter().zip(ids) {
            self.series_ids.resize(end, id);
        }
        Ok(())
    }
}
