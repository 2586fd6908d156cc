//! Cuts the rows of each key into bars, and reduces them.

use super::super::groups::{Keys, key_order};
use super::super::kernel::{End, Kernel};
use super::super::rows::Placed;
use super::super::sampler::{Shape, Shaped};
use super::node::BarSize;
use crate::operators::below::batch_of;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{concat, filter_record_batch, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// What is cut, by what and by which keys, and what is computed of each bar.
#[derive(Debug)]
pub(super) struct BarShape {
    pub(super) time: Arc<dyn PhysicalExpr>,
    pub(super) of: Arc<dyn PhysicalExpr>,
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) size: BarSize,
    /// Of its fields those about aggregates and the output.
    pub(super) reduced: Shape,
}

/// The bars of some keys, the rows of each of which come in order of time.
pub(super) struct BarState {
    shape: Arc<BarShape>,
    kernels: Vec<Box<dyn Kernel>>,
    placed: Placed,
    keys: Keys,
    cuts: Cuts,
    ids: Vec<u32>,
    /// Rows taken in so far.
    rows: usize,
    reservation: MemoryReservation,
}

/// Where each key's rows are cut.
#[derive(Debug)]
struct Cuts {
    limit: f64,
    /// By key: the bar that is not full yet.
    open: Vec<Open>,
    /// By bar: the time of its first row, and its key.
    starts: Vec<i64>,
    keys: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    bar: Option<u32>,
    /// What its rows add up to.
    filled: f64,
}

/// What the rows of a batch add to their bars.
enum Sizes<'a> {
    /// 1 each.
    Ones,
    /// None of them is NaN or negative.
    Each(Cow<'a, [f64]>),
}

/// Finished bars of some keys.
pub(super) struct Finished {
    starts: Vec<i64>,
    /// Places among `key_values`.
    keys: Vec<u32>,
    /// A column each, a row a key.
    key_values: Vec<ArrayRef>,
    key_count: usize,
    values: Vec<ArrayRef>,
    /// Holds what the columns take.
    reservation: MemoryReservation,
}

impl BarState {
    pub(super) fn try_new(shape: &Arc<BarShape>, reservation: MemoryReservation) -> Result<Self> {
        let types = shape.keys.iter().enumerate();
        let types = types.map(|(at, key)| Ok((at, key.data_type(&shape.reduced.input)?)));
        let cuts = Cuts { limit: shape.size.limit(), open: Vec::new(), starts: Vec::new(), keys: Vec::new() };
        Ok(Self {
            kernels: shape.reduced.aggregates.iter().map(Shaped::kernel).collect::<Result<_>>()?,
            placed: Placed::default(),
            keys: Keys::try_new(&types.collect::<Result<Vec<(usize, DataType)>>>()?)?,
            cuts,
            ids: Vec::new(),
            rows: 0,
            shape: Arc::clone(shape),
            reservation,
        })
    }

    /// Takes in the next rows; `ends` says where each key's rows end, where they lie together.
    pub(super) fn update(&mut self, batch: &RecordBatch, ends: Option<&[usize]>) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let shape = Arc::clone(&self.shape);
        let times = shape.time.evaluate(batch)?.into_array(rows)?;
        if times.null_count() > 0 {
            // Only rows that come in order of time may have none.
            return self.update(&filter_record_batch(batch, &is_not_null(&times)?)?, None);
        }
        let times = times.as_primitive::<TimestampNanosecondType>().values();
        let of = if shape.size.is_ticks() { None } else { Some(shape.of.evaluate(batch)?.into_array(rows)?) };
        let sizes = match &of {
            Some(of) => Sizes::Each(sizes(of.as_primitive(), shape.size)?),
            None => Sizes::Ones,
        };
        self.placed.clear();
        let keys = shape.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        match ends {
            Some(ends) => self.place_series(&keys, ends, times, &sizes)?,
            None => self.place_rows(&keys, times, &sizes)?,
        }
        let total = self.cuts.starts.len();
        if shape.reduced.aggregates.iter().any(|of| of.by_ends) {
            let ends = self.ends_of_runs();
            shape.reduced.take_ends(&mut self.kernels, batch, &ends, total)?;
        }
        shape.reduced.take_values(&mut self.kernels, batch, &self.placed.rows(), total)?;
        self.rows += rows;
        self.reservation.try_resize(self.size())
    }

    /// Places rows of which those of one key lie together, up to each of `ends`.
    fn place_series(
        &mut self,
        keys: &[ArrayRef],
        ends: &[usize],
        times: &[i64],
        sizes: &Sizes<'_>,
    ) -> Result<()> {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let series: Vec<Range<usize>> = starts.zip(ends).map(|(start, end)| start..*end).collect();
        let series: Vec<Range<usize>> = series.into_iter().filter(|rows| !rows.is_empty()).collect();
        let firsts = UInt32Array::from_iter_values(series.iter().map(|rows| rows.start as u32));
        let keys = keys.iter().map(|key| Ok(take(key, &firsts, None)?)).collect::<Result<Vec<_>>>()?;
        self.keys.read(&keys, series.len(), &mut self.ids)?;
        for (rows, &key) in series.into_iter().zip(&self.ids) {
            self.cuts.place(key, rows, times, sizes, &mut self.placed);
        }
        Ok(())
    }

    /// Places rows of any keys.
    fn place_rows(&mut self, keys: &[ArrayRef], times: &[i64], sizes: &Sizes<'_>) -> Result<()> {
        self.keys.read(keys, times.len(), &mut self.ids)?;
        let mut start = 0;
        for same in self.ids.chunk_by(|a, b| a == b) {
            let end = start + same.len();
            self.cuts.place(same[0], start..end, times, sizes, &mut self.placed);
            start = end;
        }
        Ok(())
    }

    /// The ends of the runs that were just placed. The order of rows is that in which they were taken in.
    fn ends_of_runs(&self) -> Vec<End> {
        let mut ends = Vec::with_capacity(2 * self.placed.runs().len());
        let mut start = 0;
        for run in self.placed.runs() {
            for (row, last) in [(start, false), (run.end - 1, true)] {
                ends.push(End { group: run.group, row, place: (0, 0, self.rows + row), last });
            }
            start = run.end;
        }
        ends
    }

    fn size(&self) -> usize {
        let kernels: usize = self.kernels.iter().map(|kernel| kernel.size()).sum();
        self.keys.size() + self.placed.size() + self.cuts.size() + self.ids.capacity() * 4 + kernels
    }

    /// The bars, those of each key in order.
    pub(super) fn finish(mut self) -> Result<Finished> {
        let total = self.cuts.starts.len();
        // The columns beside the states they are made of.
        self.reservation.try_resize(2 * self.size())?;
        self.kernels.iter_mut().for_each(|kernel| kernel.grow(total));
        Ok(Finished {
            values: self.kernels.iter_mut().map(|kernel| kernel.finish()).collect::<Result<_>>()?,
            key_values: self.keys.values()?,
            key_count: self.keys.len(),
            starts: self.cuts.starts,
            keys: self.cuts.keys,
            reservation: self.reservation,
        })
    }
}

impl Cuts {
    /// Places the next rows of a key.
    fn place(&mut self, key: u32, rows: Range<usize>, times: &[i64], sizes: &Sizes<'_>, placed: &mut Placed) {
        let at = key as usize;
        if at >= self.open.len() {
            self.open.resize(at + 1, Open { bar: None, filled: 0.0 });
        }
        let mut open = self.open[at];
        let mut start = rows.start;
        while start < rows.end {
            let bar = open.bar.unwrap_or_else(|| {
                self.starts.push(times[start]);
                self.keys.push(key);
                // A query that makes four billion bars has run out of memory long before.
                u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
            });
            let (end, filled) = sizes.fill(open.filled, start..rows.end, self.limit);
            placed.push(bar as usize, end);
            let full = filled >= self.limit;
            open = if full { Open { bar: None, filled: 0.0 } } else { Open { bar: Some(bar), filled } };
            start = end;
        }
        self.open[at] = open;
    }

    fn size(&self) -> usize {
        self.open.capacity() * size_of::<Open>() + self.starts.capacity() * 8 + self.keys.capacity() * 4
    }
}

impl Sizes<'_> {
    /// Adds rows to a bar until it is full or they end; where that is, and what it then holds.
    fn fill(&self, mut filled: f64, rows: Range<usize>, limit: f64) -> (usize, f64) {
        match self {
            Sizes::Ones => {
                // Both are whole numbers; past 2^53 rows no bar is full anyway.
                let wanted = (limit - filled).min(rows.len() as f64);
                (rows.start + wanted as usize, filled + wanted)
            }
            Sizes::Each(sizes) => {
                for (at, size) in sizes[rows.clone()].iter().enumerate() {
                    filled += size;
                    if filled >= limit {
                        return (rows.start + at + 1, filled);
                    }
                }
                (rows.end, filled)
            }
        }
    }
}

/// What each row adds: 0 where it is NULL or NaN.
fn sizes(of: &Float64Array, size: BarSize) -> Result<Cow<'_, [f64]>> {
    // NaN is not, so that one pass answers for both.
    if of.null_count() == 0 && of.values().iter().fold(true, |plain, size| plain & (*size >= 0.0)) {
        return Ok(Cow::Borrowed(of.values()));
    }
    if let Some(negative) = of.iter().flatten().find(|size| *size < 0.0) {
        let word = size.word();
        return exec_err!(
            "SAMPLE BY {word} met a negative size, {negative}: no bar could be said to be full (leave such rows out with WHERE, or take abs(…))"
        );
    }
    Ok(Cow::Owned(of.iter().map(|size| size.filter(|size| !size.is_nan()).unwrap_or(0.0)).collect()))
}

/// The bars of all keys, no two parts having one in common: by time, keys, and as they follow each other.
pub(super) fn joined(parts: Vec<Finished>, schema: &SchemaRef) -> Result<RecordBatch> {
    let total: usize = parts.iter().map(|part| part.starts.len()).sum();
    if total == 0 {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let parts: Vec<Finished> = parts.into_iter().filter(|part| !part.starts.is_empty()).collect();
    let column = |of: &dyn Fn(&Finished) -> &ArrayRef| {
        let arrays: Vec<&dyn Array> = parts.iter().map(|part| of(part).as_ref()).collect();
        if let [only] = parts.as_slice() { Ok(Arc::clone(of(only))) } else { Ok(concat(&arrays)?) }
    };
    let key_columns = parts[0].key_values.len();
    let key_values =
        (0..key_columns).map(|at| column(&|part| &part.key_values[at])).collect::<Result<Vec<ArrayRef>>>()?;
    let ranks = ranks(&key_values, parts.iter().map(|part| part.key_count).sum())?;
    // Reserved by the parts: what lies in their columns lies here once more.
    for part in &parts {
        part.reservation.try_grow(part.starts.len() * size_of::<(i64, u32, u32, u32)>())?;
    }
    let mut rows: Vec<(i64, u32, u32, u32)> = Vec::with_capacity(total);
    let (mut bar, mut first_key) = (0, 0);
    for part in &parts {
        for (start, key) in part.starts.iter().zip(&part.keys) {
            let key = first_key + key;
            rows.push((*start, ranks[key as usize], bar, key));
            bar += 1;
        }
        first_key += u32::try_from(part.key_count).unwrap_or(u32::MAX);
    }
    rows.sort_unstable();
    let starts = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0));
    let mut columns: Vec<ArrayRef> = vec![Arc::new(match schema.field(0).data_type() {
        DataType::Timestamp(_, zone) => starts.with_timezone_opt(zone.clone()),
        _ => starts,
    })];
    let keys = UInt32Array::from_iter_values(rows.iter().map(|row| row.3));
    for values in &key_values {
        columns.push(take(values, &keys, None)?);
    }
    let order = UInt64Array::from_iter_values(rows.iter().map(|row| u64::from(row.2)));
    for at in 0..parts[0].values.len() {
        columns.push(take(&column(&|part| &part.values[at])?, &order, None)?);
    }
    batch_of(schema, columns, total)
}

/// The place of each of `count` keys in their order.
fn ranks(key_values: &[ArrayRef], count: usize) -> Result<Vec<u32>> {
    let mut ranks = vec![0; count];
    if !key_values.is_empty() {
        for (rank, key) in (0..).zip(key_order(key_values)?.values()) {
            ranks[*key as usize] = rank;
        }
    }
    Ok(ranks)
}
