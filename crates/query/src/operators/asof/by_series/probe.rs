//! ASOF JOIN of rows that no table holds (a grid of times, bars, what another join yields) with a table: left rows come,
//! a stretch of them at a time, and the right rows of their series are looked up. They keep their order, which is that
//! of time where it matters.
//!
//! The right side must have one series for each key. Where the key says less than the table's series key, how many it
//! has is known once they are found; if there are several, both sides are merged instead.

use super::right::{Right, Search, Taken};
use crate::arrays::pinned::{NOWHERE, Place};
use crate::operators::below::batch_of;
use crate::operators::exec::Operator;
use crate::operators::filters::with_filters_in_scan;
use crate::operators::joins::exec::{AsOf, Matching, TimeJoinExec, Way};
use crate::operators::joins::rule::Order;
use crate::operators::joins::{Side, TASK_BATCHES, help_each_other};
use crate::operators::key::{KeyIds, KeyReader};
use crate::scan::{Ids, Series, SeriesFinder};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{cast, filter, filter_record_batch, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{HashMap, Result, internal_datafusion_err, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use std::collections::VecDeque;
use std::sync::Arc;

/// The series of each key, by its ids of symbols.
type ByKey = HashMap<Ids, usize>;

/// A join over a right scan that works out the filter of its input, its rows looked up; `None` where they
/// cannot be.
pub(in crate::operators) fn probing(join: &TimeJoinExec, needed: Order) -> Result<Option<TimeJoinExec>> {
    if !matches!(join.matching, Matching::AsOf(_)) {
        return Ok(None);
    }
    let [_, right] = join.inputs();
    let right = with_filters_in_scan(right)?.unwrap_or_else(|| Arc::clone(right));
    let join = join.over_right(right);
    let Some(side) = Side::probed(&join) else { return Ok(None) };
    let way = match needed {
        // That each key has one series, and that there is memory to find it, is known.
        Order::Any if side.is_by_index() && side.keys.len() == join.keys.1.len() => Way::Probe,
        // Where a condition holds is found for all rows, also if only the first few are read.
        Order::FirstOfTime if side.scan.has_condition() => return Ok(None),
        _ => Way::ProbeInOrder,
    };
    Ok(Some(join.with_way(way)))
}

/// The left rows of a partition in their order, each with the right row that is looked up for it.
pub(in crate::operators) fn probe(
    join: &TimeJoinExec,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let (Matching::AsOf(of), Some(side)) = (&join.matching, Side::probed(join)) else {
        return internal_err!("a join by time does not look up rows of a scan");
    };
    let of = of.clone();
    let finder = Arc::new(SeriesFinder::new(&side.scan, &side.keys)?);
    let held = join.reservation(context);
    if finder.bytes().is_none_or(|bytes| held.try_grow(bytes).is_err()) {
        return join.merge_right_ahead(context);
    }
    let (probing, context) = (join.clone(), Arc::clone(context));
    let rows = async move {
        let workers = context.session_config().target_partitions();
        let finding = Arc::clone(&finder);
        help_each_other(workers, move || {
            finding.help(None);
            Ok(())
        })
        .await?;
        let series = finder.series()?;
        match by_key(&series, probing.keys.1.len()) {
            Some(by_key) => {
                Probe::new(&probing, of, &side, (series, by_key), held, (partition, &context))?.rows()
            }
            None => probing.merge_right_ahead(&context),
        }
    };
    Ok(make_cooperative(join.stream(futures::stream::once(rows).try_flatten())))
}

/// The series by so many of their first ids; `None` where two have the same.
fn by_key(series: &[Series], keys: usize) -> Option<ByKey> {
    let mut by_key = ByKey::with_capacity(series.len());
    for (at, series) in series.iter().enumerate() {
        if by_key.insert(series.ids[..keys].into(), at).is_some() {
            return None;
        }
    }
    Some(by_key)
}

/// A join under way.
struct Probe {
    join: TimeJoinExec,
    of: AsOf,
    left: SendableRecordBatchStream,
    side: Side,
    right: Right,
    by_key: ByKey,
    /// Ids of the left keys.
    ids: KeyIds,
    reader: KeyReader,
    /// The right series of each id, where there is one.
    series: Vec<Option<usize>>,
    /// Rows of the next stretch, and of the longest.
    stretch: usize,
    longest: usize,
    joined: VecDeque<RecordBatch>,
    rows_read: Count,
    /// For the list of rows of each series.
    held: MemoryReservation,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

/// Left rows that are looked up together.
#[derive(Default)]
struct Stretch {
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Time, number and series of the rows that may have a right one.
    sought: Vec<Sought>,
}

/// A left row that may have a right one; they are looked up series by series, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sought {
    series: usize,
    time: i64,
    row: usize,
}

impl Probe {
    fn new(
        join: &TimeJoinExec,
        of: AsOf,
        side: &Side,
        (series, by_key): (Vec<Series>, ByKey),
        held: MemoryReservation,
        (partition, context): (usize, &Arc<TaskContext>),
    ) -> Result<Self> {
        held.try_resize(series.iter().map(Series::size).sum())?;
        let batch_rows = context.session_config().batch_size().max(1);
        Ok(Self {
            left: join.inputs()[0].execute(partition, Arc::clone(context))?,
            right: Right::new(join, &of, side, series)?,
            by_key,
            ids: KeyIds::of(&join.keys.0, &join.left_schema())?,
            reader: KeyReader::new(join.keys.0.len()),
            series: Vec::new(),
            stretch: batch_rows,
            longest: batch_rows.saturating_mul(TASK_BATCHES),
            joined: VecDeque::new(),
            rows_read: match partition {
                0 => side.scan.begin_reading(),
                _ => side.scan.go_on_reading(partition),
            },
            held,
            reservation: join.reservation(context),
            baseline: join.core.baseline(partition),
            side: side.clone(),
            join: join.clone(),
            of,
        })
    }

    fn rows(self) -> Result<SendableRecordBatchStream> {
        let schema = self.join.schema();
        let rows = futures::stream::try_unfold(self, |mut probe| async move {
            Ok::<_, DataFusionError>(probe.next().await?.map(|batch| (batch, probe)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The next batch of the result.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.joined.pop_front() {
                self.baseline.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let stretch = self.next_stretch().await?;
            if stretch.batches.is_empty() {
                self.reservation.free();
                self.held.free();
                return Ok(None);
            }
            let elapsed = self.baseline.elapsed_compute().clone();
            let _timer = elapsed.timer();
            self.look_up(stretch)?;
        }
    }

    async fn next_stretch(&mut self) -> Result<Stretch> {
        let mut stretch = Stretch::default();
        while stretch.rows < self.stretch
            && let Some(batch) = self.left.next().await
        {
            let batch = batch?;
            if batch.num_rows() > 0 {
                let elapsed = self.baseline.elapsed_compute().clone();
                let _timer = elapsed.timer();
                self.enter(batch, &mut stretch)?;
            }
        }
        // The first few rows come soon: perhaps no others are asked for.
        self.stretch = self.longest.min(self.stretch.saturating_mul(2));
        Ok(stretch)
    }

    /// Adds a batch to a stretch.
    fn enter(&mut self, batch: RecordBatch, stretch: &mut Stretch) -> Result<()> {
        let rows = batch.num_rows();
        let times = self.join.times.0.evaluate(&batch)?.into_array(rows)?;
        let times: &TimestampNanosecondArray = times
            .as_primitive_opt::<TimestampNanosecondType>()
            .ok_or_else(|| internal_datafusion_err!("a time of ASOF JOIN is {}", times.data_type()))?;
        let keys = self.join.keys.0.iter().map(|key| key.evaluate(&batch)?.into_array(rows));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let mut ids = Vec::with_capacity(rows);
        self.ids.read(&keys, rows, &mut self.reader, &mut ids)?;
        self.learn(&keys, &ids)?;
        for (row, id) in ids.iter().enumerate() {
            if let Some(series) = self.series[*id as usize]
                && times.is_valid(row)
            {
                stretch.sought.push(Sought { series, time: times.value(row), row: stretch.rows + row });
            }
        }
        stretch.rows += rows;
        stretch.batches.push(batch);
        let left: usize = stretch.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let places = stretch.rows * (size_of::<Place>() + size_of::<Sought>());
        self.reservation.try_resize(left + places + self.ids.size() + self.series.len() * size_of::<usize>())
    }

    /// Finds the series of ids that are new.
    fn learn(&mut self, keys: &[ArrayRef], ids: &[u32]) -> Result<()> {
        let known = self.series.len();
        let mut rows: Vec<u32> = Vec::new();
        for (row, id) in ids.iter().enumerate() {
            if *id as usize == known + rows.len() {
                rows.push(row as u32);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let new = rows.len();
        let rows = UInt32Array::from(rows);
        let texts = keys.iter().map(|key| Ok(cast(&take(key, &rows, None)?, &DataType::Utf8)?));
        let texts = texts.collect::<Result<Vec<ArrayRef>>>()?;
        for at in 0..new {
            let symbols = texts.iter().zip(&self.side.keys).map(|(texts, key)| {
                let texts = texts.as_string::<i32>();
                let text = texts.is_valid(at).then(|| texts.value(at))?;
                self.side.scan.selected().table.dictionary(*key)?.id(text)
            });
            let symbols = symbols.collect::<Option<Ids>>();
            self.series.push(symbols.and_then(|symbols| self.by_key.get(&symbols).copied()));
        }
        Ok(())
    }

    /// Joins the rows of a stretch.
    fn look_up(&mut self, mut stretch: Stretch) -> Result<()> {
        crate::wanted::look()?;
        stretch.sought.sort_unstable();
        let mut places = vec![NOWHERE; stretch.rows];
        let mut search = Search::default();
        let mut times: Vec<i64> = Vec::new();
        for alike in stretch.sought.chunk_by(|a, b| a.series == b.series) {
            let (first, last) = (alike[0], alike[alike.len() - 1]);
            let mut standing = self.right.standing(first.series, (first.time, last.time), &mut search);
            times.clear();
            times.extend(alike.iter().map(|sought| sought.time));
            let wanted = &mut search.wanted;
            let found = |at: usize, found| places[alike[at].row] = wanted.add(&found);
            standing.find_each(&times, self.of.options, &mut search.looks, found)?;
        }
        self.rows_read.add(self.right.rows_read(&search));
        let taken = self.right.take(&search.wanted)?;
        let mut start = 0;
        for batch in stretch.batches {
            let end = start + batch.num_rows();
            let batch = self.with_right_rows(batch, &places[start..end], &taken)?;
            start = end;
            if batch.num_rows() > 0 {
                self.joined.push_back(batch);
            }
        }
        let joined = self.joined.iter().map(RecordBatch::get_array_memory_size).sum();
        self.reservation.try_resize(joined)
    }

    /// Left rows with the right rows at their places; those that have none are left out of an inner join.
    fn with_right_rows(&self, mut left: RecordBatch, places: &[Place], taken: &Taken) -> Result<RecordBatch> {
        let mut numbers: UInt64Array = taken.numbers(places);
        if self.of.options.inner && numbers.null_count() > 0 {
            let found = is_not_null(&numbers)?;
            left = filter_record_batch(&left, &found)?;
            numbers = filter(&numbers, &found)?.as_primitive().clone();
        }
        let mut columns = left.columns().to_vec();
        for column in &taken.columns {
            columns.push(take(column, &numbers, None)?);
        }
        batch_of(&self.join.schema(), columns, left.num_rows())
    }
}
