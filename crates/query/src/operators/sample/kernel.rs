//! The aggregates of SAMPLE BY and GROUP BY, reduced run by run.
//!
//! Rows of one group mostly lie together, so that a sum is a sum over a slice, at the speed of memory.
//! count, sum, avg, min, max, vwap, stddev, var, corr, median and quantiles have kernels of their own (min and max of any
//! number, sum and avg too, of DECIMALs of up to 28 digits, quantiles of floats, one for all of an argument);
//! where rows come by series from parts, first and last look at the ends of runs only, and what statistics
//! keep is taken from them for whole blocks. Any other aggregate is fed through its accumulator of groups,
//! row by row.

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
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregate};
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr, expressions};
use std::sync::Arc;
use tickstone_engine::part::BlockSummary;

use distinct::Distinct;
pub(super) use ends::{End, Ends};
use extremes::Extremes;
pub(super) use moments::Spreads;
use moments::{Comoments, Deviation, Moments, Shared};
pub(in crate::operators) use moments::{Joint, Spread};
pub(super) use pair::Pair;
use quantiles::Quantiles;
pub(super) use sums::widened;
use sums::{Counts, IntegerSums, Sums, Vwap};

/// One aggregate of all groups.
pub(super) enum Kernel {
    Count(Counts),
    Sum(Sums),
    IntegerSum(IntegerSums),
    Extreme(Extremes),
    Vwap(Vwap),
    Moments(Moments),
    Comoments(Comoments),
    Distinct(Distinct),
    /// Medians and quantiles of one argument.
    Quantiles(Quantiles),
    /// A quantile that another kernel finds with its own.
    Found,
    /// first or last where the ends of runs are known; they are all it is told.
    Ends(Ends),
    Other(Other),
}

/// The statistics of the same rows of an aggregate's columns: one, or the two of a [`Pair`].
pub(super) type Blocks<'a> = [Option<&'a BlockSummary>; 2];

/// An accumulator of groups, which knows of those it was told of with rows.
pub(super) struct Other {
    accumulator: Box<dyn GroupsAccumulator>,
    /// One NULL of each argument.
    nothing: Vec<ArrayRef>,
    groups: usize,
}

impl Kernel {
    /// The kernel of an aggregate over arguments of these types; `pair` where it is a sum or a mean of what two
    /// doubles make, `by_ends` where it is first or last and is told the ends of runs, `parts` where it is of quantiles:
    /// none where another finds them.
    pub(super) fn try_new(
        lowered: &LoweredAggregate,
        types: &[DataType],
        pair: Option<Pair>,
        by_ends: bool,
        parts: Option<&[f64]>,
    ) -> Result<Self> {
        if let (Some(parts), Some(of)) = (parts, types.first()) {
            return match Quantiles::new(of, parts).filter(|_| !parts.is_empty()) {
                Some(quantiles) => Ok(Kernel::Quantiles(quantiles)),
                None => Ok(Kernel::Found),
            };
        }
        let aggregate = &lowered.aggregate;
        let plain = !aggregate.is_distinct() && lowered.order_bys.is_empty();
        if by_ends
            && let Some(ends) = types.first().and_then(|of| Ends::new(aggregate.fun().name() == "last", of))
        {
            return Ok(Kernel::Ends(ends));
        }
        if aggregate.is_distinct()
            && lowered.order_bys.is_empty()
            && let ("count", [of]) = (aggregate.fun().name(), types)
            && let Some(distinct) = Distinct::new(of)
        {
            return Ok(Kernel::Distinct(distinct));
        }
        let largest = aggregate.fun().name() == "max";
        if plain
            && let ("min" | "max", [of]) = (aggregate.fun().name(), types)
            && aggregate.field().data_type() == of
            && let Some(extremes) = Extremes::new(largest, of)
        {
            return Ok(Kernel::Extreme(extremes));
        }
        if plain
            && let (name @ ("sum" | "avg"), [of]) = (aggregate.fun().name(), types)
            && let result = aggregate.field()
            && let Some(sums) =
                IntegerSums::of_decimals(aggregate.name(), name == "avg", of, result.data_type())
        {
            return Ok(Kernel::IntegerSum(sums));
        }
        let doubles = types.iter().all(|data_type| *data_type == DataType::Float64);
        let deviation = |root, sample| Kernel::Moments(Moments::new(Deviation { root, sample }));
        Ok(match (aggregate.fun().name(), types) {
            ("count", [_]) if plain => Kernel::Count(Counts::default()),
            (name @ ("sum" | "avg"), [_]) if plain && doubles => Kernel::Sum(Sums::new(name == "avg", pair)),
            (name @ ("sum" | "avg"), [of @ (DataType::Int64 | DataType::UInt64)]) if plain => {
                let unsigned = *of == DataType::UInt64;
                Kernel::IntegerSum(IntegerSums::new(aggregate.name(), name == "avg", unsigned))
            }
            ("vwap", [_, _]) if plain && doubles => Kernel::Vwap(Vwap::default()),
            ("stddev", [_]) if plain && doubles => deviation(true, true),
            ("stddev_pop", [_]) if plain && doubles => deviation(true, false),
            ("var", [_]) if plain && doubles => deviation(false, true),
            ("var_pop", [_]) if plain && doubles => deviation(false, false),
            ("corr", [_, _]) if plain && doubles => Kernel::Comoments(Comoments::default()),
            _ => Kernel::Other(Other {
                accumulator: accumulator(aggregate)?,
                nothing: types.iter().map(|data_type| new_null_array(data_type, 1)).collect(),
                groups: 0,
            }),
        })
    }

    /// Takes in rows of a batch, `total` being how many groups there are now; what is found out about an
    /// argument's spread goes into `spreads` for other aggregates.
    pub(super) fn update(
        &mut self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
        total: usize,
        spreads: Shared<'_>,
    ) -> Result<()> {
        self.grow(total);
        let counted = || counted(values, filter);
        match (self, values) {
            (Kernel::Count(counts), _) => counts.update(rows, counted().as_ref()),
            (Kernel::Sum(sums), [values]) => sums.update(values, rows, counted().as_ref()),
            (Kernel::Sum(sums), [left, right]) => {
                sums.update_pair(left, right, rows, counted().as_ref());
            }
            (Kernel::IntegerSum(sums), [values]) => sums.update(values, rows, counted().as_ref()),
            (Kernel::Extreme(extremes), [values]) => extremes.update(values, rows, counted().as_ref()),
            (Kernel::Vwap(vwap), [prices, sizes]) => vwap.update(prices, sizes, rows, counted().as_ref()),
            (Kernel::Moments(moments), [values]) => {
                moments.update(values, rows, counted().as_ref(), spreads);
            }
            (Kernel::Comoments(moments), [y, x]) => moments.update(y, x, rows, counted().as_ref(), spreads),
            (Kernel::Distinct(distinct), [values]) => distinct.update(values, rows, counted().as_ref()),
            (Kernel::Quantiles(quantiles), [values]) => quantiles.update(values, rows, counted().as_ref()),
            (Kernel::Other(other), values) => {
                other.groups = total;
                other.accumulator.update_batch(values, &rows.expand(), filter, total)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in the ends of runs: `values` are the argument's at those rows.
    pub(super) fn update_ends(&mut self, values: &[ArrayRef], ends: &[End], total: usize) -> Result<()> {
        self.grow(total);
        if let (Kernel::Ends(kept), [values, ..]) = (self, values) {
            kept.update(values, ends);
        }
        Ok(())
    }

    /// Takes in `rows` rows of a group, none of whose values is looked at: count(*).
    pub(super) fn count_rows(&mut self, group: usize, rows: usize, total: usize) {
        self.grow(total);
        if let Kernel::Count(counts) = self {
            counts.add(group, rows);
        }
    }

    /// Whether the statistics of blocks can take the place of their values. Those of an aggregate of two columns can
    /// only of a [`Pair`].
    pub(super) fn takes_blocks(&self) -> bool {
        match self {
            Kernel::Sum(sums) => sums.takes_blocks(),
            Kernel::Count(_) | Kernel::IntegerSum(_) | Kernel::Extreme(_) => true,
            _ => false,
        }
    }

    /// Whether it wants the least and the largest of many values at once, or only their sum; `None` where neither does.
    pub(super) fn wants_range(&self) -> Option<bool> {
        match self {
            Kernel::Sum(sums) if sums.is_pair() => None,
            Kernel::Sum(_) | Kernel::IntegerSum(_) => Some(false),
            Kernel::Extreme(_) => Some(true),
            _ => None,
        }
    }

    /// Whether those of a block of each of its arguments say enough.
    pub(super) fn block_suffices(&self, blocks: &Blocks<'_>) -> bool {
        match (self, blocks) {
            (Kernel::Count(_), _) => true,
            (Kernel::Sum(_) | Kernel::IntegerSum(_), [Some(block), None]) => block.stats.sum.is_some(),
            (Kernel::Sum(sums), [Some(left), Some(right)]) => sums.of_blocks(left, right).is_some(),
            (Kernel::Extreme(extremes), [Some(block), None]) => extremes.knows(block),
            _ => false,
        }
    }

    /// Takes in all rows of a block by the statistics of its arguments.
    pub(super) fn update_block(&mut self, group: usize, blocks: &Blocks<'_>, total: usize) {
        self.grow(total);
        match (self, blocks) {
            (Kernel::Count(counts), [Some(block), _]) => counts.add(group, sums::held(block)),
            (Kernel::Sum(sums), [Some(block), None]) => sums.add_block(group, block),
            (Kernel::Sum(sums), [Some(left), Some(right)]) => sums.add_blocks(group, left, right),
            (Kernel::IntegerSum(sums), [Some(block), _]) => sums.add_block(group, block),
            (Kernel::Extreme(extremes), [Some(block), _]) => extremes.add_block(group, block),
            _ => {}
        }
    }

    /// Whether the result is the same in whatever order states are merged.
    pub(super) fn is_free_of_order(&self) -> bool {
        !matches!(self, Kernel::Other(_))
    }

    /// Takes in another kernel of the same aggregate: its group `n` is `groups[n]` here, of `total`.
    pub(super) fn merge(&mut self, other: Self, groups: &[usize], total: usize) -> Result<()> {
        self.grow(total);
        match (self, other) {
            (Kernel::Count(ours), Kernel::Count(theirs)) => ours.merge(&theirs, groups),
            (Kernel::Sum(ours), Kernel::Sum(theirs)) => ours.merge(&theirs, groups),
            (Kernel::IntegerSum(ours), Kernel::IntegerSum(theirs)) => ours.merge(&theirs, groups),
            (Kernel::Extreme(ours), Kernel::Extreme(theirs)) => ours.merge(&theirs, groups)?,
            (Kernel::Vwap(ours), Kernel::Vwap(theirs)) => ours.merge(&theirs, groups),
            (Kernel::Moments(ours), Kernel::Moments(theirs)) => ours.merge(&theirs, groups),
            (Kernel::Comoments(ours), Kernel::Comoments(theirs)) => ours.merge(&theirs, groups),
            (Kernel::Distinct(ours), Kernel::Distinct(theirs)) => ours.merge(theirs, groups),
            (Kernel::Quantiles(ours), Kernel::Quantiles(theirs)) => ours.merge(theirs, groups),
            (Kernel::Ends(ours), Kernel::Ends(theirs)) => ours.merge(&theirs, groups)?,
            (Kernel::Other(ours), Kernel::Other(mut theirs)) => {
                theirs.complete(groups.len())?;
                let states = theirs.accumulator.state(EmitTo::All)?;
                ours.groups = total;
                ours.accumulator.merge_batch(&states, groups, total)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of each group, of which there are `total`.
    pub(super) fn finish(&mut self, total: usize) -> Result<ArrayRef> {
        self.grow(total);
        Ok(match self {
            Kernel::Count(counts) => counts.finish(),
            Kernel::Sum(sums) => sums.finish(),
            Kernel::IntegerSum(sums) => sums.finish()?,
            Kernel::Extreme(extremes) => extremes.finish(),
            Kernel::Vwap(vwap) => vwap.finish(),
            Kernel::Moments(moments) => moments.finish(),
            Kernel::Comoments(moments) => moments.finish(),
            Kernel::Distinct(distinct) => distinct.finish(),
            Kernel::Quantiles(quantiles) => quantiles.finish(),
            Kernel::Found => return internal_err!("a quantile that another kernel finds"),
            Kernel::Ends(ends) => ends.finish(),
            Kernel::Other(other) => {
                other.complete(total)?;
                other.accumulator.evaluate(EmitTo::All)?
            }
        })
    }

    /// The quantile at this place of those of a kernel that is finished.
    pub(super) fn quantile(&self, at: usize) -> Result<ArrayRef> {
        match self {
            Kernel::Quantiles(quantiles) => Ok(quantiles.finished(at)),
            _ => internal_err!("a kernel without quantiles"),
        }
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            Kernel::Count(counts) => counts.size(),
            Kernel::Sum(sums) => sums.size(),
            Kernel::IntegerSum(sums) => sums.size(),
            Kernel::Extreme(extremes) => extremes.size(),
            Kernel::Vwap(vwap) => vwap.size(),
            Kernel::Moments(moments) => moments.size(),
            Kernel::Comoments(moments) => moments.size(),
            Kernel::Distinct(distinct) => distinct.size(),
            Kernel::Quantiles(quantiles) => quantiles.size(),
            Kernel::Found => 0,
            Kernel::Ends(ends) => ends.size(),
            Kernel::Other(other) => other.accumulator.size(),
        }
    }

    fn grow(&mut self, total: usize) {
        match self {
            Kernel::Count(counts) => counts.grow(total),
            Kernel::Sum(sums) => sums.grow(total),
            Kernel::IntegerSum(sums) => sums.grow(total),
            Kernel::Extreme(extremes) => extremes.grow(total),
            Kernel::Vwap(vwap) => vwap.grow(total),
            Kernel::Moments(moments) => moments.grow(total),
            Kernel::Comoments(moments) => moments.grow(total),
            Kernel::Distinct(distinct) => distinct.grow(total),
            Kernel::Quantiles(quantiles) => quantiles.grow(total),
            Kernel::Ends(ends) => ends.grow(total),
            Kernel::Found | Kernel::Other(_) => {}
        }
    }
}

impl Other {
    /// Tells the accumulator of groups that have had no rows for it.
    fn complete(&mut self, total: usize) -> Result<()> {
        if self.groups < total {
            // A row that does not count: without rows, some accumulators take all groups to have had one.
            let none = BooleanArray::from(vec![false]);
            self.accumulator.update_batch(&self.nothing, &[total - 1], Some(&none), total)?;
            self.groups = total;
        }
        Ok(())
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

/// The rows that count: no argument is NULL and the filter holds; `None` where all do.
fn counted(values: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let filter = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    let nulls = values.iter().filter_map(|array| array.logical_nulls());
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::into_inner);
    let counted = filter.into_iter().chain(nulls).reduce(|a, b| &a & &b)?;
    (counted.count_set_bits() < counted.len()).then_some(counted)
}

#[cfg(test)]
mod tests;
