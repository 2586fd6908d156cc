//! The state of one execution of SAMPLE BY or GROUP BY, or of one of its workers.

use super::groups::Groups;
use super::kernel::{self, Batch, End, Kernel, Pair, Spreads, widened};
use super::rows::{Placed, Rows};
use crate::functions::bucket::Bucketing;
use crate::functions::quantile::part_of;
use crate::operators::below::batch_of;
use crate::operators::quick::quick;
use crate::operators::reduce::Reduce;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray, UInt64Array};
use datafusion::arrow::compute::{filter_record_batch, is_not_null, take};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, TimestampNanosecondType};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use std::sync::Arc;

/// What is to be grouped by what, over batches of one schema.
#[derive(Debug)]
pub(in crate::operators) struct Shape {
    /// The columns of the batches.
    pub(super) input: SchemaRef,
    /// The time that falls into buckets, and how; `None` for GROUP BY.
    pub(super) time: Option<(Arc<dyn PhysicalExpr>, Bucketing)>,
    /// The keys with their places in the output: see [`Groups`].
    pub(super) outer: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    pub(super) inner: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    pub(super) aggregates: Vec<Shaped>,
    /// What the aggregates are of, each once: the arguments and filters of [`Shaped`] are places here.
    pub(super) exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns of the result: the bucket where there are any, the keys, the aggregates.
    pub(super) output: SchemaRef,
}

/// One aggregate and what it reads of a batch.
#[derive(Debug)]
pub(super) struct Shaped {
    pub(super) lowered: LoweredAggregate,
    /// Places among the expressions of the shape.
    pub(super) arguments: Vec<usize>,
    pub(super) filter: Option<usize>,
    /// Types of the arguments, as the aggregate was planned: numbers may come in fewer bits.
    pub(super) types: Vec<DataType>,
    /// What its argument makes of two doubles, where that is all it does: they are its arguments then.
    pub(super) pair: Option<Pair>,
    /// Whether it is first or last and is told the ends of runs.
    pub(super) by_ends: bool,
    /// Whether it is a quantile of floats, and who finds it.
    quantile: Option<Quantile>,
}

/// Who finds a quantile: all of one argument are found together, by the first of them.
#[derive(Debug)]
enum Quantile {
    /// It does, and all these parts.
    Found(Vec<f64>),
    /// Another aggregate, at this place, with its own at that one.
    By(usize, usize),
}

impl Shaped {
    /// An aggregate over batches of this schema; what it reads joins `exprs`.
    pub(super) fn new(
        lowered: &LoweredAggregate,
        input: &Schema,
        by_ends: bool,
        exprs: &mut Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let mut arguments = lowered.aggregate.expressions();
        arguments.extend(lowered.order_bys.iter().map(|order| Arc::clone(&order.expr)));
        let types = arguments.iter().map(|argument| argument.data_type(input)).collect::<Result<Vec<_>>>()?;
        let mut pair = None;
        let plain = !lowered.aggregate.is_distinct() && lowered.order_bys.is_empty();
        match (lowered.aggregate.fun().name(), arguments.as_slice(), types.as_slice()) {
            ("sum" | "avg", [argument], [DataType::Float64]) if plain => {
                if let Some((found, sides)) = Pair::of(argument, input) {
                    (arguments, pair) = (sides.to_vec(), Some(found));
                } else if let Some(narrow) = widened(argument, input) {
                    arguments = vec![narrow];
                }
            }
            ("sum" | "avg", [argument], [DataType::Int64 | DataType::UInt64]) if plain => {
                if let Some(narrow) = widened(argument, input) {
                    arguments = vec![narrow];
                }
            }
            _ => {}
        }
        let part = quantile_of(lowered, &types)?;
        if part.is_some() {
            arguments.truncate(1);
        }
        if by_ends {
            // The ends come with their times.
            arguments.truncate(1);
        }
        let mut place = |expr: &Arc<dyn PhysicalExpr>| {
            exprs.iter().position(|known| known == expr).unwrap_or_else(|| {
                exprs.push(Arc::clone(expr));
                exprs.len() - 1
            })
        };
        let arguments = arguments.iter().map(&mut place).collect();
        let filter = lowered.filter.as_ref().map(place);
        let quantile = part.map(|part| Quantile::Found(vec![part]));
        Ok(Self { lowered: lowered.clone(), arguments, filter, types, pair, by_ends, quantile })
    }

    /// Has the quantiles of one argument found together.
    pub(super) fn share(all: &mut [Self]) {
        for at in 1..all.len() {
            let (before, rest) = all.split_at_mut(at);
            let of = &mut rest[0];
            let Some(Quantile::Found(part)) = &of.quantile else { continue };
            let same = |other: &Self| (&other.arguments, other.filter) == (&of.arguments, of.filter);
            let mut before = before.iter_mut().enumerate();
            let found = before.find_map(|(place, other)| match same(other) {
                true => match &mut other.quantile {
                    Some(Quantile::Found(parts)) => Some((place, parts)),
                    _ => None,
                },
                false => None,
            });
            if let Some((place, parts)) = found {
                parts.extend(part);
                of.quantile = Some(Quantile::By(place, parts.len() - 1));
            }
        }
    }

    /// A kernel of no groups yet.
    pub(super) fn kernel(&self) -> Result<Box<dyn Kernel>> {
        let parts = self.quantile.as_ref().map(|quantile| match quantile {
            Quantile::Found(parts) => parts.as_slice(),
            Quantile::By(..) => &[],
        });
        kernel::kernel(&self.lowered, &self.types, self.pair, self.by_ends, parts)
    }
}

/// The part of the values below an aggregate, where it is a quantile or the median of floats.
fn quantile_of(lowered: &LoweredAggregate, types: &[DataType]) -> Result<Option<f64>> {
    let aggregate = &lowered.aggregate;
    let floats = matches!(types.first(), Some(DataType::Float32 | DataType::Float64));
    if aggregate.is_distinct() || !floats {
        return Ok(None);
    }
    let falls = lowered.order_bys.first().is_some_and(|order| order.options.descending);
    match aggregate.fun().name() {
        "median" if lowered.order_bys.is_empty() => Ok(Some(0.5)),
        "percentile_cont" => part_of(&aggregate.expressions(), falls),
        _ => Ok(None),
    }
}

impl Shape {
    /// Groups of batches of the schema `input` by keys and, where there is one, by the bucket of a time.
    pub(in crate::operators) fn of_batches(
        input: SchemaRef,
        time: Option<(Arc<dyn PhysicalExpr>, Bucketing)>,
        keys: &[Arc<dyn PhysicalExpr>],
        aggregates: &[LoweredAggregate],
        output: SchemaRef,
    ) -> Result<Self> {
        let mut exprs = Vec::new();
        let aggregates = aggregates.iter().map(|of| Shaped::new(of, &input, false, &mut exprs));
        let mut aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        Shaped::share(&mut aggregates);
        let exprs = exprs.into_iter().map(|expr| quick(expr, &input)).collect::<Result<_>>()?;
        let outer = keys.iter().cloned().enumerate().collect();
        Ok(Self { input, time, outer, inner: Vec::new(), aggregates, exprs, output })
    }

    /// The keys.
    pub(in crate::operators) fn keys(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.outer.iter().chain(&self.inner).map(|(_, key)| key)
    }

    /// The names of the aggregates.
    pub(in crate::operators) fn aggregates(&self) -> impl Iterator<Item = &str> {
        self.aggregates.iter().map(|of| of.lowered.aggregate.name())
    }

    /// What the result is of.
    pub(in crate::operators) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.keys().chain(&self.exprs)
    }

    /// The values of the expressions of those aggregates that are told the ends of runs, or of the others.
    fn values(&self, batch: &RecordBatch, by_ends: bool) -> Result<Vec<Option<ArrayRef>>> {
        let mut values = vec![None; self.exprs.len()];
        for of in self.aggregates.iter().filter(|of| of.by_ends == by_ends) {
            for &place in of.arguments.iter().chain(&of.filter) {
                if values[place].is_none() {
                    let array = self.exprs[place].evaluate(batch)?.into_array(batch.num_rows())?;
                    values[place] = Some(array);
                }
            }
        }
        Ok(values)
    }

    /// Takes the values of a batch's rows into the kernels of the aggregates; there are `total` groups now.
    pub(super) fn take_values(
        &self,
        kernels: &mut [Box<dyn Kernel>],
        batch: &RecordBatch,
        rows: &Rows<'_>,
        total: usize,
    ) -> Result<()> {
        let values = self.values(batch, false)?;
        let spreads = Spreads::new(values.len());
        for (of, kernel) in self.aggregates.iter().zip(kernels).filter(|(of, _)| !of.by_ends) {
            if matches!(of.quantile, Some(Quantile::By(..))) {
                continue;
            }
            let arguments: Vec<ArrayRef> = of.arguments.iter().filter_map(|at| values[*at].clone()).collect();
            let filter = of.filter.and_then(|at| values[at].as_ref());
            let filter = filter.map(|filter| as_boolean_array(filter)).transpose()?;
            let spreads = spreads.of(&of.arguments);
            kernel.grow(total);
            kernel.update(&Batch { values: &arguments, filter, rows, spreads })?;
        }
        Ok(())
    }

    /// Takes the ends of runs, rows of a batch, into those kernels that are told them.
    pub(super) fn take_ends(
        &self,
        kernels: &mut [Box<dyn Kernel>],
        batch: &RecordBatch,
        ends: &[End],
        total: usize,
    ) -> Result<()> {
        let values = self.values(batch, true)?;
        for (of, kernel) in self.aggregates.iter().zip(kernels).filter(|(of, _)| of.by_ends) {
            let arguments: Vec<ArrayRef> = of.arguments.iter().filter_map(|at| values[*at].clone()).collect();
            kernel.grow(total);
            kernel.update_ends(&arguments, ends)?;
        }
        Ok(())
    }
}

pub(in crate::operators) struct Sampler {
    shape: Arc<Shape>,
    pub(super) kernels: Vec<Box<dyn Kernel>>,
    pub(super) groups: Groups,
    /// The groups of the rows of the batch at hand.
    pub(super) placed: Placed,
    reservation: MemoryReservation,
}

impl Sampler {
    pub(in crate::operators) fn try_new(shape: &Arc<Shape>, reservation: MemoryReservation) -> Result<Self> {
        let typed = |keys: &[(usize, Arc<dyn PhysicalExpr>)]| {
            let types = keys.iter().map(|(place, key)| Ok((*place, key.data_type(&shape.input)?)));
            types.collect::<Result<Vec<(usize, DataType)>>>()
        };
        let bucketing = shape.time.as_ref().map(|(_, bucketing)| *bucketing);
        let mut groups = Groups::try_new(&typed(&shape.outer)?, &typed(&shape.inner)?, bucketing)?;
        if bucketing.is_none() && shape.outer.is_empty() && shape.inner.is_empty() {
            groups.add_total();
        }
        let kernels = shape.aggregates.iter().map(Shaped::kernel).collect::<Result<_>>()?;
        Ok(Self { shape: Arc::clone(shape), kernels, groups, placed: Placed::default(), reservation })
    }

    /// Expects rows of these times, both inside.
    pub(in crate::operators) fn expect(mut self, times: Option<(i64, i64)>) -> Self {
        if let Some(times) = times {
            self.groups.expect(times);
        }
        self
    }

    /// Takes in what another has of later rows.
    pub(super) fn merge(&mut self, other: Self) -> Result<()> {
        let groups = self.groups.merge(&other.groups)?;
        for (kernel, theirs) in self.kernels.iter_mut().zip(other.kernels) {
            kernel.grow(self.groups.len());
            kernel.merge(theirs, &groups)?;
        }
        self.account()
    }

    /// Claims the memory it holds.
    pub(super) fn account(&mut self) -> Result<()> {
        let kernels: usize = self.kernels.iter().map(|kernel| kernel.size()).sum();
        self.reservation.try_resize(self.groups.size() + self.placed.size() + kernels)
    }

    /// The columns of some keys.
    fn keys(keys: &[(usize, Arc<dyn PhysicalExpr>)], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        keys.iter().map(|(_, key)| key.evaluate(batch)?.into_array(batch.num_rows())).collect()
    }

    /// The inner keys of a batch.
    pub(super) fn inner_keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        Self::keys(&self.shape.inner, batch)
    }

    /// Takes in the values of rows whose groups are in `placed`.
    pub(super) fn take_values(&mut self, batch: &RecordBatch) -> Result<()> {
        let total = self.groups.len();
        self.shape.take_values(&mut self.kernels, batch, &self.placed.rows(), total)?;
        self.account()
    }

    /// Takes in the ends of runs, rows of a batch.
    pub(super) fn take_ends(&mut self, batch: &RecordBatch, ends: &[End]) -> Result<()> {
        self.shape.take_ends(&mut self.kernels, batch, ends, self.groups.len())
    }

    /// Places the rows of a batch by their times and keys; the times, where there are any.
    pub(super) fn place(&mut self, batch: &RecordBatch) -> Result<Option<TimestampNanosecondArray>> {
        let rows = batch.num_rows();
        let times = self.shape.time.as_ref().map(|(time, _)| time.evaluate(batch)?.into_array(rows));
        let times = times.transpose()?.map(|times| times.as_primitive::<TimestampNanosecondType>().clone());
        let values: &[i64] = times.as_ref().map_or(&[], |times| times.values());
        let (outer, inner) = (Self::keys(&self.shape.outer, batch)?, self.inner_keys(batch)?);
        self.placed.clear();
        self.groups.place_rows(values, (&outer, &inner), rows, &mut self.placed)?;
        Ok(times)
    }
}

impl Reduce for Sampler {
    fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if let Some((time, _)) = &self.shape.time {
            let times = time.evaluate(batch)?.into_array(batch.num_rows())?;
            if times.null_count() > 0 {
                let timed = filter_record_batch(batch, &is_not_null(&times)?)?;
                return self.update(&timed);
            }
        }
        self.place(batch)?;
        self.take_values(batch)
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        self.finished(true)
    }
}

impl Sampler {
    /// The result in the order in which groups were met.
    pub(in crate::operators) fn finish_as_met(&mut self) -> Result<RecordBatch> {
        self.finished(false)
    }

    fn finished(&mut self, sorted: bool) -> Result<RecordBatch> {
        let schema = Arc::clone(&self.shape.output);
        let total = self.groups.len();
        if total == 0 {
            return Ok(RecordBatch::new_empty(schema));
        }
        let finished = self.groups.finish(sorted)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        if self.shape.time.is_some() {
            let buckets = TimestampNanosecondArray::from(finished.buckets);
            columns.push(Arc::new(match schema.field(0).data_type() {
                DataType::Timestamp(_, zone) => buckets.with_timezone_opt(zone.clone()),
                _ => buckets,
            }));
        }
        columns.extend(finished.keys);
        let ordered = finished.order.iter().enumerate().all(|(row, group)| row == *group);
        let order = UInt64Array::from_iter_values(finished.order.iter().map(|group| *group as u64));
        for (at, of) in self.shape.aggregates.iter().enumerate() {
            let values = match of.quantile {
                Some(Quantile::By(place, quantile)) => self.kernels[place].quantile(quantile)?,
                _ => {
                    self.kernels[at].grow(total);
                    self.kernels[at].finish()?
                }
            };
            columns.push(if ordered { values } else { take(&values, &order, None)? });
        }
        batch_of(&schema, columns, total)
    }
}
