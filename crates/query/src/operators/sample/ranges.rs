//! Range reduction: in a part the rows of one series are a range in order of time, so that a bucket is a
//! slice of it whose end is searched for, not met.
//!
//! Of the rows themselves only that is read which all aggregates together need: nothing for count(*) alone,
//! the ends of slices where no more than first and last are asked for, no whole block where statistics say
//! enough for each of them, else the columns they name: summed as they are packed where sums, least and largest
//! are all that is wanted of whole blocks. Units of ranges are taken by workers, one a core, as
//! they get done with the one before; the states are merged.
//!
//! Rows of runs, in memory, are placed row by row.

use super::calendar::{holds_from, is_plain};
use super::exec::SampleByExec;
use super::kernel::{Blocks, End, column};
use super::sampler::{Sampler, Shape, Shaped};
use super::source::Source;
use crate::error::external;
use crate::operators::quick::quick;
use crate::operators::reduce::Reduce;
use crate::operators::shared::Turns;
use crate::operators::workers;
use crate::scan::{BLOCK_ROWS, RangeReader, Unit};
use datafusion::arrow::array::{ArrayRef, TimestampNanosecondArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::part::{BlockSummary, PartTimes};

/// What an aggregate needs of the rows of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// How many there are.
    Count,
    /// The values at the ends of slices.
    Ends,
    /// Statistics of this column of the table, or of both of these, where blocks are whole, else values.
    Blocks(usize, Option<usize>),
    /// The values.
    Values,
}

/// How the rows of a scan are reduced by ranges.
pub(super) struct RangePlan {
    reader: RangeReader,
    shape: Arc<Shape>,
    /// The columns of the table that outer keys are.
    outer: Vec<usize>,
    /// The outer keys behind them, which hang on the time.
    calendar: Option<Calendar>,
    needs: Vec<Need>,
    /// Whether statistics may take the place of values.
    by_statistics: bool,
    /// Columns that are reduced as they are packed, and whether the least and the largest are wanted of them; `None`
    /// where some aggregate needs more.
    packed: Option<Vec<(usize, bool)>>,
    batch_rows: usize,
    /// Rows whose values were not read.
    spared: Count,
}

/// Keys that have one value between edges in time.
struct Calendar {
    /// Nanoseconds between two edges, which are counted from the Unix epoch.
    step: i64,
    /// Over the time alone.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
}

/// Rows of one outer key and one bucket.
#[derive(Debug)]
struct Span {
    outer: u32,
    bucket: i64,
    rows: Range<usize>,
    /// The times of the first and the last row, where they are needed.
    times: (i64, i64),
}

/// Some rows of a span that are read together.
#[derive(Debug)]
struct Cut {
    span: usize,
    rows: Range<usize>,
}

impl RangePlan {
    /// How `exec` can be done so; `None` where its input is no plain scan, or its keys are no symbols.
    pub(super) fn of(
        exec: &SampleByExec,
        batch_rows: usize,
        by_statistics: bool,
        spared: Count,
    ) -> Result<Option<Self>> {
        let Some(source) = Source::of(exec.core.input()) else { return Ok(None) };
        let time = exec.time.as_ref().map(|(time, _)| time);
        if !source.has_ranges(time, &exec.keys) {
            return Ok(None);
        }
        let input = exec.core.input().schema();
        // Which rows there are is found out from their values.
        let conditional = source.scan.has_condition();
        let resolve = |expr: &Arc<dyn PhysicalExpr>| source.resolve(expr);
        let place = |expr: &Arc<dyn PhysicalExpr>| Ok::<_, DataFusionError>((0, resolve(expr)?));
        let (mut outer, mut inner, mut timed) = (Vec::new(), Vec::new(), Vec::new());
        let mut step = i64::MAX;
        let first = source.scan.selected().bounds().map_or(i64::MIN, |(first, _)| first);
        for (at, key) in exec.keys.iter().enumerate() {
            let of_key = (at, place(key)?.1);
            if source.is_of_series(key) {
                outer.push(of_key);
            } else if let Some(of) = source
                .calendar_step(key)
                .filter(|_| exec.time.is_none() && (!conditional || is_plain(&of_key.1)))
                .filter(|_| holds_from(&of_key.1, first))
            {
                timed.push(of_key);
                step = step.min(of);
            } else {
                inner.push(of_key);
            }
        }
        let calendar = Calendar::of(&timed, step, &source.scan.schema())?;
        outer.append(&mut timed);
        let (mut aggregates, mut exprs) = (Vec::with_capacity(exec.aggregates.len()), Vec::new());
        for lowered in &exec.aggregates {
            let by_ends = inner.is_empty() && !conditional && source.takes_ends(lowered, &input);
            aggregates.push(Shaped::new(lowered, &input, by_ends, &mut exprs)?);
        }
        Shaped::share(&mut aggregates);
        let mut exprs = exprs.iter().map(resolve).collect::<Result<Vec<_>>>()?;
        let outer_columns = exec.keys.iter().filter(|key| source.is_of_series(key));
        let outer_columns: Vec<usize> = outer_columns.filter_map(|key| source.table_column(key)).collect();
        let mut time = match &exec.time {
            Some((time, bucketing)) => Some((resolve(time)?, *bucketing)),
            None => None,
        };

        // What is read of parts comes first; runs need times and keys beside it.
        let mut places = distinct(inner.iter().map(|(_, key)| key).chain(&exprs), Vec::new());
        let narrow = places.len();
        let of_runs = outer.iter().map(|(_, key)| key).chain(time.as_ref().map(|(time, _)| time));
        places = distinct(of_runs, places);
        let Some(reader) = RangeReader::new(source.scan, &places, narrow)? else { return Ok(None) };

        let needs: Vec<Need> = aggregates
            .iter()
            .map(|of| if conditional { Need::Values } else { need(of, &exprs, &source) })
            .collect();
        let packed = packed(&needs, &aggregates).filter(|_| inner.is_empty());
        let moved = |expr: &mut Arc<dyn PhysicalExpr>| {
            *expr = move_columns(expr, &places)?;
            Ok::<_, DataFusionError>(())
        };
        outer.iter_mut().chain(&mut inner).try_for_each(|(_, key)| moved(key))?;
        time.iter_mut().try_for_each(|(time, _)| moved(time))?;
        exprs.iter_mut().try_for_each(moved)?;
        let (input, output) = (Arc::clone(reader.schema()), exec.schema());
        let exprs = exprs.into_iter().map(|expr| quick(expr, &input)).collect::<Result<_>>()?;
        let shape = Arc::new(Shape { input, time, outer, inner, aggregates, exprs, output });
        let outer = outer_columns;
        Ok(Some(Self { reader, shape, outer, calendar, needs, by_statistics, packed, batch_rows, spared }))
    }

    fn wants_ends(&self) -> bool {
        self.needs.contains(&Need::Ends)
    }

    /// Whether no more than the ends of slices are read.
    fn wants_only_ends(&self) -> bool {
        let ends = |need: &Need| matches!(need, Need::Count | Need::Ends);
        self.needs.iter().all(ends) && self.shape.inner.is_empty() && !self.reader.has_condition()
    }

    /// Whether whole blocks may be taken in without their values.
    fn takes_blocks(&self) -> bool {
        let by_blocks = |need: &Need| matches!(need, Need::Count | Need::Blocks(..));
        (self.by_statistics || self.packed.is_some())
            && self.needs.iter().all(by_blocks)
            && self.shape.inner.is_empty()
            && !self.reader.has_condition()
    }
}

impl Calendar {
    /// That of keys over rows of `schema`; `None` without keys.
    fn of(keys: &[(usize, Arc<dyn PhysicalExpr>)], step: i64, schema: &SchemaRef) -> Result<Option<Self>> {
        let Some(time) =
            keys.first().and_then(|(_, key)| collect_columns(key).iter().next().map(Column::index))
        else {
            return Ok(None);
        };
        let keys = keys.iter().map(|(_, key)| move_columns(key, &[time])).collect::<Result<_>>()?;
        let schema = Arc::new(Schema::new(vec![Arc::clone(&schema.fields()[time])]));
        Ok(Some(Self { step, keys, schema }))
    }

    /// The edges around a time.
    fn edges(&self, time: i64) -> (i64, i64) {
        let low = time.saturating_sub(time.rem_euclid(self.step));
        (low, low.saturating_add(self.step))
    }

    /// The keys at some times.
    fn keys_at(&self, times: Vec<i64>) -> Result<Vec<ArrayRef>> {
        let rows = times.len();
        let times = TimestampNanosecondArray::from(times);
        let times = times.with_data_type(self.schema.field(0).data_type().clone());
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(times)])?;
        self.keys.iter().map(|key| key.evaluate(&batch)?.into_array(rows)).collect()
    }
}

/// See [`RangePlan::packed`].
fn packed(needs: &[Need], aggregates: &[Shaped]) -> Option<Vec<(usize, bool)>> {
    let mut columns: Vec<(usize, bool)> = Vec::new();
    for (need, of) in needs.iter().zip(aggregates) {
        match need {
            Need::Count => {}
            Need::Blocks(column, None) => {
                let range = of.kernel().ok()?.wants_range()?;
                match columns.iter_mut().find(|(known, _)| known == column) {
                    Some((_, ranged)) => *ranged |= range,
                    None => columns.push((*column, range)),
                }
            }
            _ => return None,
        }
    }
    Some(columns)
}

/// The columns that expressions read, each once, after those in `known`.
fn distinct<'a>(exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>, mut known: Vec<usize>) -> Vec<usize> {
    for expr in exprs {
        let mut places: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        places.sort_unstable();
        places.retain(|place| !known.contains(place));
        known.extend(places);
    }
    known
}

/// An expression over the columns at `places` of those it is over now.
fn move_columns(expr: &Arc<dyn PhysicalExpr>, places: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        let Some(found) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let place = places.iter().position(|place| *place == found.index());
        let moved = Column::new(found.name(), place.unwrap_or(usize::MAX));
        Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
    };
    Arc::clone(expr).transform_up(replace).data()
}

fn need(of: &Shaped, exprs: &[Arc<dyn PhysicalExpr>], source: &Source<'_>) -> Need {
    if of.by_ends {
        return Need::Ends;
    }
    let takes_blocks = of.kernel().is_ok_and(|kernel| kernel.takes_blocks());
    let by_blocks = takes_blocks && of.filter.is_none();
    let table_column = |argument: usize| {
        column(&exprs[argument]).map(|place| source.scan.projection()[place]).filter(|_| by_blocks)
    };
    let argument = match of.arguments.as_slice() {
        [argument] => *argument,
        [left, right] => match (table_column(*left), table_column(*right)) {
            (Some(left), right @ Some(_)) => return Need::Blocks(left, right),
            _ => return Need::Values,
        },
        _ => return Need::Values,
    };
    let argument_expr = &exprs[argument];
    let counts = of.lowered.aggregate.fun().name() == "count" && by_blocks;
    if counts && argument_expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null()) {
        return Need::Count;
    }
    table_column(argument).map_or(Need::Values, |column| Need::Blocks(column, None))
}

/// Reduces all rows on at most `workers` cores; one batch.
pub(super) async fn run(
    plan: Arc<RangePlan>,
    workers: usize,
    reservation: impl Fn() -> MemoryReservation,
    baseline: BaselineMetrics,
) -> Result<RecordBatch> {
    let units: Arc<[Unit]> = plan.reader.units().into();
    let workers = workers.min(units.len()).max(1);
    let worker = || {
        Ok::<_, DataFusionError>(Worker::new(
            &plan,
            Sampler::try_new(&plan.shape, reservation())?.expect(plan.reader.bounds()),
        ))
    };
    let first = worker()?;
    let turns = Turns::of(units.len(), workers, first.is_free_of_order());
    let mut each = vec![first];
    for _ in 1..workers {
        each.push(worker()?);
    }
    let working = each.into_iter().zip(turns).map(|(mut worker, turns)| {
        let (units, baseline) = (Arc::clone(&units), baseline.clone());
        async move {
            worker.work(&units, turns, &baseline).await?;
            Ok(worker.sampler)
        }
    });
    let mut done = workers::started(working).into_iter();
    let Some(first) = done.next() else { return internal_err!("no worker reduces the ranges") };
    let mut all = first.await?;
    for other in done {
        let other = other.await?;
        let _timer = baseline.elapsed_compute().timer();
        all.merge(other)?;
    }
    let _timer = baseline.elapsed_compute().timer();
    let batch = all.finish()?;
    baseline.record_output(batch.num_rows());
    Ok(batch)
}

/// Adds a span. Several series may be one group: what lies together is one stretch.
fn push_span(spans: &mut Vec<Span>, next: Span, wants_times: bool) {
    match spans.last_mut() {
        Some(span)
            if !wants_times
                && (span.outer, span.bucket, span.rows.end) == (next.outer, next.bucket, next.rows.start) =>
        {
            span.rows.end = next.rows.end;
        }
        _ => spans.push(next),
    }
}

/// Units after which a worker lets others have the thread.
const UNITS_A_TURN: usize = 4;

struct Worker {
    plan: Arc<RangePlan>,
    sampler: Sampler,
    outer_ids: Vec<u32>,
    spans: Vec<Span>,
}

impl Worker {
    fn new(plan: &Arc<RangePlan>, sampler: Sampler) -> Self {
        Self { plan: Arc::clone(plan), sampler, outer_ids: Vec::new(), spans: Vec::new() }
    }

    fn is_free_of_order(&self) -> bool {
        self.sampler.kernels.iter().all(|kernel| kernel.is_free_of_order())
    }

    async fn work(&mut self, units: &[Unit], turns: Turns, baseline: &BaselineMetrics) -> Result<()> {
        for (done, unit) in turns.enumerate() {
            crate::wanted::look()?;
            let timer = baseline.elapsed_compute().timer();
            self.take(&units[unit])?;
            drop(timer);
            if (done + 1).is_multiple_of(UNITS_A_TURN) {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn take(&mut self, unit: &Unit) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        if plan.reader.segment(unit.segment).is_part() {
            self.find_spans(unit)?;
            let spans = std::mem::take(&mut self.spans);
            if plan.wants_only_ends() {
                self.take_ends(unit.segment, &spans)?;
            } else {
                self.take_spans(unit.segment, &spans)?;
            }
            self.spans = spans;
        } else {
            self.take_run(unit)?;
        }
        plan.reader.done(unit.ranges.iter().map(|(_, rows)| rows.len()).sum());
        self.sampler.account()
    }

    /// Finds where buckets end in the ranges of a part.
    fn find_spans(&mut self, unit: &Unit) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let keys =
            plan.outer.iter().map(|column| plan.reader.series(unit, *column)).collect::<Result<Vec<_>>>()?;
        match &plan.calendar {
            None => self.sampler.groups.read_outer(&keys, unit.ranges.len(), &mut self.outer_ids)?,
            // They are known when the edges are.
            Some(_) => self.outer_ids = (0..unit.ranges.len() as u32).collect(),
        }
        let edges = |worker: &Self, time: i64| match &plan.calendar {
            None => worker.sampler.groups.bucket(time),
            Some(calendar) => calendar.edges(time),
        };
        let buckets = self.sampler.groups.has_buckets() || plan.calendar.is_some();
        let wants_times = plan.wants_ends();
        let segment = plan.reader.segment(unit.segment);
        // Where the whole segment lies in one bucket, no time needs to be looked at.
        let bounds = segment.times().filter(|_| buckets && !wants_times);
        let only = bounds.map(|(first, last)| (edges(self, first), last));
        let only = only.filter(|((_, high), last)| last < high).map(|((low, _), _)| low);
        let mut times = segment.part_times().filter(|_| (buckets && only.is_none()) || wants_times);
        let time = |times: &mut Option<PartTimes<'_>>, row| match times {
            Some(times) => times.time(row).map_err(external),
            None => Ok(0),
        };
        self.spans.clear();
        let (mut low, mut high) = (i64::MIN, i64::MIN);
        for ((_, rows), &outer) in unit.ranges.iter().zip(&self.outer_ids) {
            let mut start = rows.start;
            while start < rows.end {
                let first = time(&mut times, start)?;
                match only {
                    Some(bucket) => low = bucket,
                    None if first < low || first >= high => {
                        (low, high) = edges(self, first);
                    }
                    None => {}
                }
                let end = match &mut times {
                    Some(times) if buckets && only.is_none() => {
                        // At the end of all time a bucket ends before its last instant.
                        let end = times.lower_bound(&(start..rows.end), high).map_err(external)?;
                        end.max(start + 1)
                    }
                    _ => rows.end,
                };
                let last = if wants_times { time(&mut times, end - 1)? } else { 0 };
                let span = Span { outer, bucket: low, rows: start..end, times: (first, last) };
                push_span(&mut self.spans, span, wants_times);
                start = end;
            }
        }
        match &plan.calendar {
            Some(calendar) => self.find_keys(calendar, &keys),
            None => Ok(()),
        }
    }

    /// Gives spans, which know the place of their range and the edge before them, the ids of their keys.
    fn find_keys(&mut self, calendar: &Calendar, of_series: &[ArrayRef]) -> Result<()> {
        let ranges: UInt32Array = self.spans.iter().map(|span| Some(span.outer)).collect();
        let mut keys =
            of_series.iter().map(|key| Ok(take(key, &ranges, None)?)).collect::<Result<Vec<_>>>()?;
        keys.extend(calendar.keys_at(self.spans.iter().map(|span| span.bucket).collect())?);
        let spans = std::mem::take(&mut self.spans);
        self.sampler.groups.read_outer(&keys, spans.len(), &mut self.outer_ids)?;
        let (all_time, _) = self.sampler.groups.bucket(0);
        let wants_times = self.plan.wants_ends();
        for (span, outer) in spans.into_iter().zip(&self.outer_ids) {
            push_span(&mut self.spans, Span { outer: *outer, bucket: all_time, ..span }, wants_times);
        }
        Ok(())
    }

    fn group(&mut self, span: &Span) -> usize {
        self.sampler.groups.of(span.outer, span.bucket)
    }

    /// Takes in spans of which only the ends are read.
    fn take_ends(&mut self, segment: usize, spans: &[Span]) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let groups: Vec<usize> = spans.iter().map(|span| self.group(span)).collect();
        let total = self.sampler.groups.len();
        for (need, kernel) in plan.needs.iter().zip(&mut self.sampler.kernels) {
            if *need == Need::Count {
                kernel.grow(total);
                let mut spans = spans.iter().zip(&groups);
                spans.try_for_each(|(span, group)| kernel.count_rows(*group, span.rows.len()))?;
            }
        }
        let rows: usize = spans.iter().map(|span| span.rows.len()).sum();
        plan.spared.add(rows);
        if !plan.wants_ends() {
            return Ok(());
        }
        let is = |last: bool| self.sampler.kernels.iter().any(|kernel| kernel.wants_lasts() == Some(last));
        let (firsts, lasts) = (is(false), is(true));
        for chunk in (0..spans.len()).collect::<Vec<_>>().chunks(plan.batch_rows) {
            let (mut ranges, mut ends, mut read) = (Vec::<Range<usize>>::new(), Vec::new(), 0);
            for &at in chunk {
                let (span, group) = (&spans[at], groups[at]);
                let mut add = |row: usize, time: i64, last: bool| {
                    match ranges.last_mut() {
                        // A span of one row has both ends in it.
                        Some(range) if range.end > row => {}
                        Some(range) if range.end == row => {
                            range.end += 1;
                            read += 1;
                        }
                        _ => {
                            ranges.push(row..row + 1);
                            read += 1;
                        }
                    }
                    ends.push(End { group, row: read - 1, place: (time, segment, row), last });
                };
                if firsts {
                    add(span.rows.start, span.times.0, false);
                }
                if lasts {
                    add(span.rows.end - 1, span.times.1, true);
                }
            }
            let batch = plan.reader.read(segment, &ranges)?;
            self.sampler.take_ends(&batch, &ends)?;
        }
        Ok(())
    }

    /// Takes in spans by the statistics of their blocks where these suffice, else as they are packed, else by their
    /// values.
    fn take_spans(&mut self, segment: usize, spans: &[Span]) -> Result<()> {
        let mut cuts: Vec<Cut> = Vec::new();
        let mut rows = 0;
        for (at, span) in spans.iter().enumerate() {
            for left in self.take_blocks(segment, span)? {
                let mut start = left.start;
                while start < left.end {
                    let end = self.end_of_cut(start, left.end, self.plan.batch_rows - rows);
                    cuts.push(Cut { span: at, rows: start..end });
                    rows += end - start;
                    start = end;
                    if rows >= self.plan.batch_rows || start < left.end {
                        self.take_cuts(segment, spans, &cuts)?;
                        cuts.clear();
                        rows = 0;
                    }
                }
            }
        }
        if cuts.is_empty() { Ok(()) } else { self.take_cuts(segment, spans, &cuts) }
    }

    /// Where rows from `start` on are cut, of which at most `most` are wanted: at the end of a block, so that
    /// none is decoded twice.
    fn end_of_cut(&self, start: usize, end: usize, most: usize) -> usize {
        if end - start <= most {
            return end;
        }
        let aligned = (start + most) / BLOCK_ROWS * BLOCK_ROWS;
        if aligned > start { aligned } else { start + most }
    }

    /// Takes in those blocks of a span whose statistics suffice, or which can be reduced as they are packed; the rows
    /// that are left.
    fn take_blocks(&mut self, segment: usize, span: &Span) -> Result<Vec<Range<usize>>> {
        let plan = Arc::clone(&self.plan);
        if span.rows.len() < BLOCK_ROWS || !plan.takes_blocks() {
            return Ok(vec![span.rows.clone()]);
        }
        let of = plan.reader.segment(segment);
        if !plan.by_statistics {
            let Range { start, end } = span.rows;
            let whole = of.whole_blocks(start..end);
            let group = self.group(span);
            let taken = self.take_packed(segment, group, &whole)?;
            let left = if taken { [start..whole.start, whole.end..end] } else { [start..start, start..end] };
            return Ok(left.into_iter().filter(|rows| !rows.is_empty()).collect());
        }
        let mut columns: Vec<[Option<Vec<BlockSummary>>; 2]> = Vec::with_capacity(plan.needs.len());
        let blocks = |column| of.blocks(column, span.rows.clone()).map_err(external);
        for need in &plan.needs {
            columns.push(match need {
                Need::Blocks(column, None) => [blocks(*column)?, None],
                Need::Blocks(left, Some(right)) => [blocks(*left)?, blocks(*right)?],
                _ => [None, None],
            });
        }
        let Some(count) = columns.iter().flatten().flatten().map(Vec::len).next() else {
            return Ok(vec![span.rows.clone()]);
        };
        let group = self.group(span);
        let (mut left, mut of_kernels) = (Vec::<Range<usize>>::new(), Vec::<Blocks<'_>>::new());
        for block in 0..count {
            of_kernels.clear();
            of_kernels
                .extend(columns.iter().map(|of| of.each_ref().map(|of| of.as_ref().map(|of| &of[block]))));
            let Some(rows) = of_kernels.iter().flatten().flatten().map(|block| block.rows.clone()).next()
            else {
                continue;
            };
            let whole = span.rows.start <= rows.start && rows.end <= span.rows.end;
            let suffices = self
                .sampler
                .kernels
                .iter()
                .zip(&of_kernels)
                .all(|(kernel, blocks)| blocks[0].is_none() || kernel.block_suffices(blocks));
            if whole && suffices {
                self.take_summaries(group, rows.len(), &of_kernels)?;
                plan.spared.add(rows.len());
                continue;
            }
            let inside = rows.start.max(span.rows.start)..rows.end.min(span.rows.end);
            match left.last_mut() {
                Some(last) if last.end == inside.start => last.end = inside.end,
                _ => left.push(inside),
            }
        }
        Ok(left)
    }

    /// Takes in whole blocks of a group as they are packed; `false` where what is found so does not say enough.
    fn take_packed(&mut self, segment: usize, group: usize, rows: &Range<usize>) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let Some(packed) = plan.packed.as_ref().filter(|_| !rows.is_empty()) else { return Ok(true) };
        let mut found: Vec<(usize, BlockSummary)> = Vec::with_capacity(packed.len());
        for &(column, range) in packed {
            let Some(stats) = plan.reader.reduce(segment, column, rows, range)? else { return Ok(false) };
            found.push((column, BlockSummary { rows: rows.clone(), stats, first: None, last: None }));
        }
        let of = |need: &Need| match need {
            Need::Blocks(column, _) => found.iter().find(|(of, _)| of == column).map(|(_, block)| block),
            _ => None,
        };
        let of_kernels: Vec<Blocks<'_>> = plan.needs.iter().map(|need| [of(need), None]).collect();
        let mut kernels = self.sampler.kernels.iter().zip(&of_kernels);
        if !kernels.all(|(kernel, blocks)| blocks[0].is_none() || kernel.block_suffices(blocks)) {
            return Ok(false);
        }
        self.take_summaries(group, rows.len(), &of_kernels)?;
        Ok(true)
    }

    /// Takes in so many rows of a group by what is known of them.
    fn take_summaries(&mut self, group: usize, rows: usize, of_kernels: &[Blocks<'_>]) -> Result<()> {
        let total = self.sampler.groups.len();
        for (kernel, blocks) in self.sampler.kernels.iter_mut().zip(of_kernels) {
            kernel.grow(total);
            match blocks {
                [None, _] => kernel.count_rows(group, rows)?,
                blocks => kernel.update_block(group, blocks)?,
            }
        }
        Ok(())
    }

    /// Reads the rows of cuts and takes in their values.
    fn take_cuts(&mut self, segment: usize, spans: &[Span], cuts: &[Cut]) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for cut in cuts {
            match ranges.last_mut() {
                Some(last) if last.end == cut.rows.start => last.end = cut.rows.end,
                _ => ranges.push(cut.rows.clone()),
            }
        }
        let (batch, left) = plan.reader.read_tested(segment, ranges)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.sampler.placed.clear();
        let (mut end, mut read, mut ends) = (0, 0, Vec::new());
        let mut placed_spans = Vec::new();
        for cut in cuts {
            let (span, first) = (&spans[cut.span], end);
            let rows = cut.rows.len();
            end += left.as_ref().map_or(rows, |bits| bits.slice(read, rows).count_set_bits());
            read += rows;
            if end == first {
                continue;
            }
            if self.sampler.groups.has_inner() {
                placed_spans.push((span.outer, span.bucket, end));
                continue;
            }
            let group = self.group(span);
            self.sampler.placed.push(group, end);
            if plan.wants_ends() && cut.rows.start == span.rows.start {
                let place = (span.times.0, segment, cut.rows.start);
                ends.push(End { group, row: first, place, last: false });
            }
            if plan.wants_ends() && cut.rows.end == span.rows.end {
                let place = (span.times.1, segment, cut.rows.end - 1);
                ends.push(End { group, row: end - 1, place, last: true });
            }
        }
        if self.sampler.groups.has_inner() {
            let inner = self.sampler.inner_keys(&batch)?;
            let Sampler { groups, placed, .. } = &mut self.sampler;
            groups.place_spans(&placed_spans, &inner, placed)?;
        }
        self.sampler.take_values(&batch)?;
        if ends.is_empty() { Ok(()) } else { self.sampler.take_ends(&batch, &ends) }
    }

    /// Takes in rows of a run, which are of any series, in order of time.
    fn take_run(&mut self, unit: &Unit) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        for (_, rows) in &unit.ranges {
            for start in rows.clone().step_by(plan.batch_rows) {
                let some = start..rows.end.min(start + plan.batch_rows);
                let batch = plan.reader.read_wide(unit.segment, some.clone())?;
                if batch.num_rows() == 0 {
                    continue;
                }
                let times = self.sampler.place(&batch)?;
                if plan.wants_ends() {
                    let times = match times {
                        Some(times) => Some(times),
                        None => plan.reader.times(unit.segment, some.clone())?,
                    };
                    let ends = self.ends_of_run(unit.segment, start, times.as_ref());
                    self.sampler.take_ends(&batch, &ends)?;
                }
                self.sampler.take_values(&batch)?;
            }
        }
        Ok(())
    }

    /// The ends of the runs of rows of one group that were just placed; `first` is the row they begin with.
    fn ends_of_run(
        &self,
        segment: usize,
        first: usize,
        times: Option<&TimestampNanosecondArray>,
    ) -> Vec<End> {
        let Some(times) = times else { return Vec::new() };
        let mut ends = Vec::new();
        let mut start = 0;
        for run in self.sampler.placed.runs() {
            for (row, last) in [(start, false), (run.end - 1, true)] {
                let place = (times.value(row), segment, first + row);
                ends.push(End { group: run.group, row, place, last });
            }
            start = run.end;
        }
        ends
    }
}
