//! The aggregates of SAMPLE BY, reduced run by run.
//!
//! Rows of one group mostly lie together, so that a sum is a sum over a slice, at the speed of memory.
//! count, sum, avg, min, max and vwap of doubles have kernels of their own; any other aggregate is fed
//! through its accumulator of groups, row by row.

use super::groups::{Run, expand};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use std::sync::Arc;

/// Independent sums that a loop over a slice keeps, so that additions need not wait for each other.
const LANES: usize = 8;

/// One aggregate of all groups.
pub(super) enum Kernel {
    Count(Vec<i64>),
    /// sum(x), and avg(x) where the flag says so.
    Sum {
        sums: Vec<f64>,
        counts: Vec<i64>,
        mean: bool,
    },
    /// max(x), else min(x): NaN is the largest number.
    Extreme {
        extremes: Vec<f64>,
        counts: Vec<i64>,
        largest: bool,
    },
    /// vwap(price, size).
    Vwap {
        products: Vec<f64>,
        weights: Vec<f64>,
    },
    Other(Box<dyn GroupsAccumulator>),
}

impl Kernel {
    /// The kernel of an aggregate over rows of this schema.
    pub(super) fn try_new(lowered: &LoweredAggregate, input: &Schema) -> Result<Self> {
        let aggregate = &lowered.aggregate;
        let arguments = aggregate.expressions();
        let types = arguments.iter().map(|argument| argument.data_type(input)).collect::<Result<Vec<_>>>()?;
        let plain = !aggregate.is_distinct() && lowered.order_bys.is_empty();
        let doubles = types.iter().all(|data_type| *data_type == DataType::Float64);
        Ok(match (aggregate.fun().name(), types.len()) {
            ("count", 1) if plain => Kernel::Count(Vec::new()),
            (name @ ("sum" | "avg"), 1) if plain && doubles => {
                Kernel::Sum { sums: Vec::new(), counts: Vec::new(), mean: name == "avg" }
            }
            (name @ ("min" | "max"), 1) if plain && doubles => {
                Kernel::Extreme { extremes: Vec::new(), counts: Vec::new(), largest: name == "max" }
            }
            ("vwap", 2) if plain && doubles => Kernel::Vwap { products: Vec::new(), weights: Vec::new() },
            _ => Kernel::Other(accumulator(aggregate)?),
        })
    }

    /// Takes in the rows of a batch: `runs` say which group they are of, `total` how many there are now.
    pub(super) fn update(
        &mut self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        runs: &[Run],
        total: usize,
    ) -> Result<()> {
        self.grow(total);
        if let Kernel::Other(accumulator) = self {
            return accumulator.update_batch(values, &expand(runs), filter, total);
        }
        let counted = counted(values, filter);
        match (self, values) {
            (Kernel::Count(counts), _) => {
                each(runs, counted.as_ref(), |group, rows| counts[group] += rows.len() as i64);
            }
            (Kernel::Sum { sums, counts, .. }, [values]) => {
                let values = values.as_primitive::<Float64Type>().values();
                each(runs, counted.as_ref(), |group, rows| {
                    counts[group] += rows.len() as i64;
                    sums[group] += sum(&values[rows]);
                });
            }
            (Kernel::Extreme { extremes, counts, largest }, [values]) => {
                let values = values.as_primitive::<Float64Type>().values();
                let largest = *largest;
                each(runs, counted.as_ref(), |group, rows| {
                    counts[group] += rows.len() as i64;
                    let found = if largest { max(&values[rows]) } else { min(&values[rows]) };
                    extremes[group] = further(extremes[group], found, largest);
                });
            }
            (Kernel::Vwap { products, weights }, [prices, sizes]) => {
                let prices = prices.as_primitive::<Float64Type>().values();
                let sizes = sizes.as_primitive::<Float64Type>().values();
                each(runs, counted.as_ref(), |group, rows| {
                    let (prices, sizes) = (&prices[rows.clone()], &sizes[rows]);
                    products[group] += product(prices, sizes);
                    weights[group] += sum(sizes);
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in another kernel of the same aggregate: its group `n` is `groups[n]` here, of `total`.
    pub(super) fn merge(&mut self, other: Self, groups: &[usize], total: usize) -> Result<()> {
        self.grow(total);
        fn add<T: Copy + std::ops::AddAssign>(into: &mut [T], from: &[T], groups: &[usize]) {
            for (value, &group) in from.iter().zip(groups) {
                into[group] += *value;
            }
        }
        match (self, other) {
            (Kernel::Count(counts), Kernel::Count(theirs)) => add(counts, &theirs, groups),
            (Kernel::Sum { sums, counts, .. }, Kernel::Sum { sums: s, counts: c, .. }) => {
                add(sums, &s, groups);
                add(counts, &c, groups);
            }
            (
                Kernel::Extreme { extremes, counts, largest },
                Kernel::Extreme { extremes: e, counts: c, .. },
            ) => {
                for (value, &group) in e.iter().zip(groups) {
                    extremes[group] = further(extremes[group], *value, *largest);
                }
                add(counts, &c, groups);
            }
            (Kernel::Vwap { products, weights }, Kernel::Vwap { products: p, weights: w }) => {
                add(products, &p, groups);
                add(weights, &w, groups);
            }
            (Kernel::Other(accumulator), Kernel::Other(mut theirs)) => {
                let states = theirs.state(EmitTo::All)?;
                accumulator.merge_batch(&states, groups, total)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of each group.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let seen = |counts: &[i64]| NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
        Ok(match self {
            Kernel::Count(counts) => Arc::new(Int64Array::from(std::mem::take(counts))),
            Kernel::Sum { sums, counts, mean } => {
                let mut sums = std::mem::take(sums);
                if *mean {
                    sums.iter_mut().zip(&*counts).for_each(|(sum, count)| *sum /= *count as f64);
                }
                Arc::new(Float64Array::new(sums.into(), Some(seen(counts))))
            }
            Kernel::Extreme { extremes, counts, .. } => {
                Arc::new(Float64Array::new(std::mem::take(extremes).into(), Some(seen(counts))))
            }
            Kernel::Vwap { products, weights } => {
                let quotients = products.iter().zip(&*weights);
                Arc::new(quotients.map(|(p, w)| (*w != 0.0).then(|| p / w)).collect::<Float64Array>())
            }
            Kernel::Other(accumulator) => accumulator.evaluate(EmitTo::All)?,
        })
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            Kernel::Count(counts) => 8 * counts.capacity(),
            Kernel::Sum { sums: values, counts, .. } | Kernel::Extreme { extremes: values, counts, .. } => {
                8 * (values.capacity() + counts.capacity())
            }
            Kernel::Vwap { products, weights } => 8 * (products.capacity() + weights.capacity()),
            Kernel::Other(accumulator) => accumulator.size(),
        }
    }

    fn grow(&mut self, total: usize) {
        match self {
            Kernel::Count(counts) => counts.resize(total, 0),
            Kernel::Sum { sums, counts, .. } => {
                sums.resize(total, 0.0);
                counts.resize(total, 0);
            }
            Kernel::Extreme { extremes, counts, largest } => {
                extremes.resize(total, if *largest { f64::NEG_INFINITY } else { f64::NAN });
                counts.resize(total, 0);
            }
            Kernel::Vwap { products, weights } => {
                products.resize(total, 0.0);
                weights.resize(total, 0.0);
            }
            Kernel::Other(_) => {}
        }
    }
}

/// The aggregate's own accumulator for groups, or one accumulator a group.
fn accumulator(aggregate: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if aggregate.groups_accumulator_supported() {
        return aggregate.create_groups_accumulator();
    }
    let aggregate = Arc::clone(aggregate);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator())))
}

/// The rows that count: no argument is NULL and the filter holds; `None` where all do.
fn counted(values: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let filter = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    let nulls = values.iter().filter_map(|array| array.logical_nulls());
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::into_inner);
    filter.into_iter().chain(nulls).reduce(|a, b| &a & &b)
}

/// Calls `reduce` with the group and the rows of each run; of a run in which not all rows count, with
/// those pieces that do.
fn each(
    runs: &[Run],
    counted: Option<&BooleanBuffer>,
    mut reduce: impl FnMut(usize, std::ops::Range<usize>),
) {
    let mut start = 0;
    for run in runs {
        match counted {
            None => reduce(run.group, start..run.end),
            Some(counted) => {
                for (from, to) in counted.slice(start, run.end - start).set_slices() {
                    reduce(run.group, start + from..start + to);
                }
            }
        }
        start = run.end;
    }
}

/// `found` where it is further out than `held`.
fn further(held: f64, found: f64, largest: bool) -> f64 {
    if largest { larger(held, found) } else { smaller(held, found) }
}

fn larger(held: f64, found: f64) -> f64 {
    if found > held || found.is_nan() { found } else { held }
}

fn smaller(held: f64, found: f64) -> f64 {
    if found < held || held.is_nan() { found } else { held }
}

fn sum(values: &[f64]) -> f64 {
    lanes(values, 0.0, |held, value| held + value, |a, b| a + b)
}

fn max(values: &[f64]) -> f64 {
    lanes(values, f64::NEG_INFINITY, larger, larger)
}

fn min(values: &[f64]) -> f64 {
    lanes(values, f64::NAN, smaller, smaller)
}

/// Folds a slice in [`LANES`] lanes, then the lanes.
#[inline]
fn lanes(values: &[f64], start: f64, fold: impl Fn(f64, f64) -> f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let rest = rest.iter().fold(start, |held, value| fold(held, *value));
    if chunks.is_empty() {
        return rest;
    }
    let mut held = [start; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            held[lane] = fold(held[lane], chunk[lane]);
        }
    }
    held.into_iter().fold(rest, join)
}

/// The sum of products.
#[inline]
fn product(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.into_iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests;
