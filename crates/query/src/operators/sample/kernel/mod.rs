//! The aggregates of SAMPLE BY and GROUP BY, reduced run by run.
//!
//! Rows of one group mostly lie together, so that a sum is a sum over a slice, at the speed of memory.
//! count, sum, avg, min, max, vwap, stddev, var, corr, median and quantiles have kernels of their own (min and max of any
//! number, sum and avg too, of DECIMALs of up to 28 digits, quantiles of floats, one for all of an argument);
//! where rows come by series from parts, first and last look at the ends of runs only, and what statistics
//! keep is taken from them for whole blocks. Any other aggregate is fed through its accumulator of groups,
//! row by row.
//!
//! Which kernel an aggregate has is looked up once, by [`kernel`]; from there on it is called for the rows of a batch, a
//! block or a run, never for a row.

mod distinct;
mod ends;
mod extremes;
mod fold;
mod moments;
mod pair;
mod quantiles;
mod sums;

use super::rows::Rows;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::cast::as_primitive_array;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr, expressions};
use std::any::{Any, type_name};
use std::sync::Arc;
use tickstone_engine::part::BlockSummary;

pub(super) use ends::{End, keeps_ends};
pub(super) use moments::Spreads;
use moments::{Comoments, Deviation, Moments, Shared};
pub(in crate::operators) use moments::{Joint, Spread};
pub(super) use pair::Pair;
pub(super) use sums::widened;
use sums::{Counts, IntegerSums, Sums, Vwap};

/// One aggregate of all groups, which are numbered from 0.
///
/// A method that a kernel has no use for is an internal error, as are arguments of another number or type than it was
/// made for: rows are never dropped.
pub(super) trait Kernel: Any + Send {
    /// Makes room for `total` groups, which never become fewer. The other methods are told of no group past them.
    fn grow(&mut self, total: usize);

    /// Takes in the rows of a batch, run by run.
    fn update(&mut self, batch: &Batch<'_>) -> Result<()>;

    /// Takes in the ends of runs: one array an argument, of the values at the rows that `ends` names.
    fn update_ends(&mut self, _: &[ArrayRef], _: &[End]) -> Result<()> {
        unfit(self, "the ends of runs")
    }

    /// Takes in `rows` rows of a group, none of whose values is looked at: count(*).
    fn count_rows(&mut self, _group: usize, _rows: usize) -> Result<()> {
        unfit(self, "a number of rows")
    }

    /// Whether the statistics of blocks can take the place of their values. Those of an aggregate of two columns can
    /// only of a [`Pair`].
    fn takes_blocks(&self) -> bool {
        false
    }

    /// Whether it wants the least and the largest of many values at once, or only their sum; `None` where neither does.
    fn wants_range(&self) -> Option<bool> {
        None
    }

    /// Whether the statistics of a block of each of its arguments say enough.
    fn block_suffices(&self, _: &Blocks<'_>) -> bool {
        false
    }

    /// Takes in all rows of whole blocks, which are of one group, by their statistics, which suffice.
    fn update_block(&mut self, _group: usize, _: &Blocks<'_>) -> Result<()> {
        unfit(self, "the statistics of a block")
    }

    /// Whether it is told the ends of runs: the last rows, or the first.
    fn wants_lasts(&self) -> Option<bool> {
        None
    }

    /// Whether the result is the same in whatever order states are merged.
    fn is_free_of_order(&self) -> bool {
        true
    }

    /// Takes in another kernel of the same aggregate: its group `n` is `groups[n]` here.
    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()>;

    /// The values, one a group in the order of their numbers; the groups are gone then.
    fn finish(&mut self) -> Result<ArrayRef>;

    /// The quantile at this place of those of a kernel that is finished, one value a group.
    fn quantile(&self, _at: usize) -> Result<ArrayRef> {
        unfit(self, "a question for a quantile")
    }

    /// Bytes that it holds, roughly.
    fn size(&self) -> usize;
}

/// Rows of a batch, as one kernel is given them.
pub(super) struct Batch<'a> {
    /// One array an argument, of a value a row.
    pub(super) values: &'a [ArrayRef],
    /// FILTER, of a value a row: NULL is false.
    pub(super) filter: Option<&'a BooleanArray>,
    /// The groups of the rows.
    pub(super) rows: &'a Rows<'a>,
    /// What was found out about the spreads of the arguments, for all aggregates.
    pub(super) spreads: Shared<'a>,
}

impl Batch<'_> {
    /// As many arguments as a kernel takes.
    fn arguments<const N: usize>(&self) -> Result<&[ArrayRef; N]> {
        match self.values.try_into() {
            Ok(values) => Ok(values),
            Err(_) => internal_err!("a kernel of {N} arguments is given {}", self.values.len()),
        }
    }

    /// The rows that count: no argument is NULL and the filter holds; `None` where all do.
    fn counted(&self) -> Option<BooleanBuffer> {
        let filter = self.filter.map(|filter| match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        });
        let nulls = self.values.iter().filter_map(|array| array.logical_nulls());
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::into_inner);
        let counted = filter.into_iter().chain(nulls).reduce(|a, b| &a & &b)?;
        (counted.count_set_bits() < counted.len()).then_some(counted)
    }
}

/// The values of an array of one type, those of NULLs being any.
fn values<A: ArrowPrimitiveType>(array: &ArrayRef) -> Result<&[A::Native]> {
    Ok(as_primitive_array::<A>(array)?.values())
}

/// The kernel that is to be merged with one of `K`.
fn alike<K: Kernel>(other: Box<dyn Kernel>) -> Result<Box<K>> {
    let other: Box<dyn Any> = other;
    match other.downcast() {
        Ok(other) => Ok(other),
        Err(_) => internal_err!("{} and a kernel of another kind do not go together", type_name::<K>()),
    }
}

/// The error of a kernel that is given what it has no use for.
fn unfit<T, K: ?Sized>(_: &K, given: &str) -> Result<T> {
    internal_err!("{} does not take {given}", type_name::<K>())
}

/// The statistics of the same rows of an aggregate's columns: one, or the two of a [`Pair`].
pub(super) type Blocks<'a> = [Option<&'a BlockSummary>; 2];

/// A kernel of the primitive type that values of a type have; `None` of other types.
macro_rules! of_type {
    ($of:expr, $kernel:ident::new($($argument:expr),*)) => {{
        use datafusion::arrow::datatypes::{self, DataType, TimeUnit};
        macro_rules! kernel {
            ($type:ident) => {
                Box::new($kernel::<datatypes::$type>::new($($argument),*)) as Box<dyn Kernel>
            };
        }
        Some(match $of {
            DataType::Int8 => kernel!(Int8Type),
            DataType::Int16 => kernel!(Int16Type),
            DataType::Int32 => kernel!(Int32Type),
            DataType::Int64 => kernel!(Int64Type),
            DataType::UInt8 => kernel!(UInt8Type),
            DataType::UInt16 => kernel!(UInt16Type),
            DataType::UInt32 => kernel!(UInt32Type),
            DataType::UInt64 => kernel!(UInt64Type),
            DataType::Float32 => kernel!(Float32Type),
            DataType::Float64 => kernel!(Float64Type),
            DataType::Date32 => kernel!(Date32Type),
            DataType::Decimal128(..) => kernel!(Decimal128Type),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => kernel!(TimestampNanosecondType),
            _ => return None,
        })
    }};
}
use of_type;

/// The kernel of an aggregate over arguments of these types; `pair` where it is a sum or a mean of what two
/// doubles make, `by_ends` where it is first or last and is told the ends of runs, `parts` where it is of quantiles:
/// none where another finds them.
pub(super) fn kernel(
    lowered: &LoweredAggregate,
    types: &[DataType],
    pair: Option<Pair>,
    by_ends: bool,
    parts: Option<&[f64]>,
) -> Result<Box<dyn Kernel>> {
    let aggregate = &lowered.aggregate;
    let name = aggregate.fun().name();
    if let (Some(parts), Some(of)) = (parts, types.first()) {
        return Ok(quantiles::kernel(of, parts).unwrap_or_else(|| Box::new(Found)));
    }
    let ends = types.first().filter(|_| by_ends).and_then(|of| ends::kernel(of, name == "last"));
    let known = match (ends, types) {
        (Some(ends), _) => Some(ends),
        (None, [of]) if lowered.order_bys.is_empty() && aggregate.is_distinct() && name == "count" => {
            distinct::kernel(of)
        }
        (None, _) if lowered.order_bys.is_empty() && !aggregate.is_distinct() => {
            plain(aggregate, types, pair)
        }
        (None, _) => None,
    };
    match known {
        Some(kernel) => Ok(kernel),
        None => Ok(Box::new(Other::of(aggregate, types)?)),
    }
}

/// That of an aggregate of all values in any order.
fn plain(
    aggregate: &AggregateFunctionExpr,
    types: &[DataType],
    pair: Option<Pair>,
) -> Option<Box<dyn Kernel>> {
    use DataType::{Decimal128, Float64, Int64, UInt64};
    let (name, shown, result) = (aggregate.fun().name(), aggregate.name(), aggregate.field());
    let deviation = |root, sample| Box::new(Moments::new(Deviation { root, sample }));
    Some(match (name, types) {
        ("count", [_]) => Box::new(Counts::default()),
        ("min" | "max", [of]) if result.data_type() == of => return extremes::kernel(of, name == "max"),
        ("sum" | "avg", [Float64]) => Box::new(Sums::new(name == "avg", pair)),
        ("sum" | "avg", [of @ (Int64 | UInt64)]) => {
            Box::new(IntegerSums::new(shown, name == "avg", *of == UInt64))
        }
        ("sum" | "avg", [of @ Decimal128(..)]) => {
            Box::new(IntegerSums::of_decimals(shown, name == "avg", of, result.data_type())?)
        }
        ("vwap", [Float64, Float64]) => Box::new(Vwap::default()),
        ("stddev", [Float64]) => deviation(true, true),
        ("stddev_pop", [Float64]) => deviation(true, false),
        ("var", [Float64]) => deviation(false, true),
        ("var_pop", [Float64]) => deviation(false, false),
        ("corr", [Float64, Float64]) => Box::new(Comoments::default()),
        _ => return None,
    })
}

/// A quantile that another kernel finds with its own.
struct Found;

impl Kernel for Found {
    fn grow(&mut self, _total: usize) {}

    fn update(&mut self, _: &Batch<'_>) -> Result<()> {
        unfit(self, "rows")
    }

    fn merge(&mut self, other: Box<dyn Kernel>, _: &[usize]) -> Result<()> {
        alike::<Self>(other).map(|_| ())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        internal_err!("a quantile that another kernel finds")
    }

    fn size(&self) -> usize {
        0
    }
}

/// Any other aggregate: an accumulator of groups, which is fed row by row and knows of those groups it was told of with
/// rows.
struct Other {
    accumulator: Box<dyn GroupsAccumulator>,
    /// One NULL of each argument.
    nothing: Vec<ArrayRef>,
    /// Groups that the accumulator knows of.
    told: usize,
    groups: usize,
}

impl Other {
    fn of(aggregate: &Arc<AggregateFunctionExpr>, types: &[DataType]) -> Result<Self> {
        let nothing = types.iter().map(|data_type| new_null_array(data_type, 1)).collect();
        Ok(Self { accumulator: accumulator(aggregate)?, nothing, told: 0, groups: 0 })
    }

    /// Tells the accumulator of groups that have had no rows for it.
    fn complete(&mut self) -> Result<()> {
        if self.told < self.groups {
            // A row that does not count: without rows, some accumulators take all groups to have had one.
            let none = BooleanArray::from(vec![false]);
            self.accumulator.update_batch(&self.nothing, &[self.groups - 1], Some(&none), self.groups)?;
            self.told = self.groups;
        }
        Ok(())
    }
}

impl Kernel for Other {
    fn grow(&mut self, total: usize) {
        self.groups = total;
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.told = self.groups;
        self.accumulator.update_batch(batch.values, &batch.rows.expand(), batch.filter, self.groups)
    }

    fn is_free_of_order(&self) -> bool {
        false
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let mut theirs = alike::<Self>(other)?;
        theirs.grow(groups.len());
        theirs.complete()?;
        let states = theirs.accumulator.state(EmitTo::All)?;
        self.told = self.groups;
        self.accumulator.merge_batch(&states, groups, self.groups)
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.complete()?;
        self.accumulator.evaluate(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.accumulator.size()
    }
}

/// The input column that an expression is.
pub(super) fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<expressions::Column>().map(expressions::Column::index)
}

/// The aggregate's own accumulator for groups, or one accumulator a group.
pub(in crate::operators) fn accumulator(
    aggregate: &Arc<AggregateFunctionExpr>,
) -> Result<Box<dyn GroupsAccumulator>> {
    if aggregate.groups_accumulator_supported() {
        return aggregate.create_groups_accumulator();
    }
    let aggregate = Arc::clone(aggregate);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator())))
}

#[cfg(test)]
mod tests;
