//! count, sum, avg and vwap.

use super::pair::Pair;
use super::{Batch, Blocks, Kernel, alike, fold, unfit, values};
use crate::functions::whole::{finished, mean, mean_of_decimals, needs_room, signed_total, unsigned_total};
use datafusion::arrow::array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Schema, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::ops::{AddAssign, Range};
use std::sync::Arc;
use tickstone_engine::part::{BlockSummary, StatValue};

/// Values of a block that are not NULL.
pub(super) fn held(block: &BlockSummary) -> usize {
    usize::try_from(block.stats.rows - block.stats.nulls).unwrap_or(usize::MAX)
}

/// The sum of a block without NULLs, and no less than what its values are without their signs, added up.
fn whole(block: &BlockSummary) -> Option<(f64, f64)> {
    let stats = &block.stats;
    match (stats.sum, stats.min, stats.max) {
        (Some(StatValue::Float(sum)), Some(StatValue::Float(min)), Some(StatValue::Float(max)))
            if stats.nulls == 0 =>
        {
            Some((sum, min.abs().max(max.abs()) * stats.rows as f64))
        }
        _ => None,
    }
}

fn add_all<T: Copy + AddAssign>(into: &mut [T], from: &[T], groups: &[usize]) {
    for (value, &group) in from.iter().zip(groups) {
        into[group] += *value;
    }
}

pub(super) fn seen(counts: &[i64]) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(counts.iter().map(|count| *count > 0)))
}

/// The sum of some rows, and how many they are.
#[derive(Debug, Clone, Copy, Default)]
struct Total<T> {
    sum: T,
    rows: i64,
}

impl<T: AddAssign> Total<T> {
    #[inline]
    fn add(&mut self, value: T) {
        self.sum += value;
        self.rows += 1;
    }
}

/// count(x).
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<i64>);

impl Kernel for Counts {
    fn grow(&mut self, total: usize) {
        self.0.resize(total, 0);
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let (counts, rows, counted) = (&mut self.0, batch.rows, batch.counted());
        let counted = counted.as_ref();
        if !rows.totals(counted, |count: &mut i64, _| *count += 1, |group, count| counts[group] += count) {
            rows.runs(counted, |group, rows| counts[group] += rows.len() as i64);
        }
        Ok(())
    }

    fn count_rows(&mut self, group: usize, rows: usize) -> Result<()> {
        self.0[group] += rows as i64;
        Ok(())
    }

    fn takes_blocks(&self) -> bool {
        true
    }

    fn block_suffices(&self, _: &Blocks<'_>) -> bool {
        true
    }

    fn update_block(&mut self, group: usize, blocks: &Blocks<'_>) -> Result<()> {
        match blocks {
            [Some(block), _] => self.count_rows(group, held(block)),
            _ => unfit(self, "no block"),
        }
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        add_all(&mut self.0, &alike::<Self>(other)?.0, groups);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.0))))
    }

    fn size(&self) -> usize {
        8 * self.0.capacity()
    }
}

/// sum(x) or avg(x) of doubles.
#[derive(Debug)]
pub(super) struct Sums {
    sums: Vec<f64>,
    counts: Vec<i64>,
    mean: bool,
    pair: Option<Pair>,
}

impl Sums {
    /// avg(x) where `mean`, else sum(x); `pair` where x is made of two columns.
    pub(super) fn new(mean: bool, pair: Option<Pair>) -> Self {
        Self { sums: Vec::new(), counts: Vec::new(), mean, pair }
    }

    fn add(&mut self, group: usize, rows: i64, sum: f64) {
        self.counts[group] += rows;
        self.sums[group] += sum;
    }

    /// Takes in `one` of each row, or `run` of rows of one group.
    #[inline]
    fn add_rows(&mut self, batch: &Batch<'_>, one: impl Fn(usize) -> f64, run: impl Fn(Range<usize>) -> f64) {
        let counted = batch.counted();
        let one_by_one = batch.rows.totals(
            counted.as_ref(),
            |total: &mut Total<f64>, row| total.add(one(row)),
            |group, total| self.add(group, total.rows, total.sum),
        );
        if !one_by_one {
            let add = |group, rows: Range<usize>| self.add(group, rows.len() as i64, run(rows));
            batch.rows.runs(counted.as_ref(), add);
        }
    }

    fn add_values<T: Copy + Into<f64>>(&mut self, batch: &Batch<'_>, values: &[T]) {
        self.add_rows(batch, |row| values[row].into(), |rows| fold::sum(&values[rows]));
    }

    /// The sum of blocks: of one, or of what the rows of two make, from the sums of each; `None` where it would not be
    /// exact enough, or is not known.
    fn of_blocks(&self, blocks: &Blocks<'_>) -> Option<f64> {
        match (blocks, self.pair) {
            ([Some(block), None], _) => match block.stats.sum {
                Some(StatValue::Float(sum)) => Some(sum),
                _ => None,
            },
            ([Some(left), Some(right)], Some(pair)) => {
                // Only rows that have both values make one.
                let [(left, left_size), (right, right_size)] = [whole(left)?, whole(right)?];
                pair.of_sums(left, right, left_size + right_size)
            }
            _ => None,
        }
    }
}

impl Kernel for Sums {
    fn grow(&mut self, total: usize) {
        self.sums.resize(total, 0.0);
        self.counts.resize(total, 0);
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        if let Some(pair) = self.pair {
            let [left, right] = batch.arguments()?;
            let (left, right) = (values::<Float64Type>(left)?, values::<Float64Type>(right)?);
            let run = |rows: Range<usize>| pair.total(&left[rows.clone()], &right[rows]);
            self.add_rows(batch, |row| pair.apply(left[row], right[row]), run);
            return Ok(());
        }
        let [column] = batch.arguments()?;
        match column.data_type() {
            DataType::Float32 => self.add_values(batch, values::<Float32Type>(column)?),
            _ => self.add_values(batch, values::<Float64Type>(column)?),
        }
        Ok(())
    }

    /// Whether sums of its columns say what the sum of what they make is.
    fn takes_blocks(&self) -> bool {
        self.pair != Some(Pair::Product)
    }

    fn wants_range(&self) -> Option<bool> {
        self.pair.is_none().then_some(false)
    }

    fn block_suffices(&self, blocks: &Blocks<'_>) -> bool {
        self.of_blocks(blocks).is_some()
    }

    fn update_block(&mut self, group: usize, blocks: &Blocks<'_>) -> Result<()> {
        let ([Some(block), _], Some(sum)) = (blocks, self.of_blocks(blocks)) else {
            return unfit(self, "a block without a sum");
        };
        self.add(group, held(block) as i64, sum);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let theirs = alike::<Self>(other)?;
        add_all(&mut self.sums, &theirs.sums, groups);
        add_all(&mut self.counts, &theirs.counts, groups);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let mut sums = std::mem::take(&mut self.sums);
        if self.mean {
            sums.iter_mut().zip(&self.counts).for_each(|(sum, count)| *sum /= *count as f64);
        }
        Ok(Arc::new(Float64Array::new(sums.into(), seen(&self.counts))))
    }

    fn size(&self) -> usize {
        8 * (self.sums.capacity() + self.counts.capacity())
    }
}

/// sum(x) or avg(x) of whole numbers and DECIMALs, in 128 bits.
#[derive(Debug)]
pub(super) struct IntegerSums {
    /// As the user knows it, for the error of a sum that does not fit.
    name: String,
    sums: Vec<i128>,
    counts: Vec<i64>,
    mean: bool,
    /// The type of a sum; of DECIMALs that of the result, and how many digits it has after those of the values.
    of: DataType,
    more_digits: u32,
}

impl IntegerSums {
    /// avg(x) where `mean`, else sum(x); of BIGINT, or where `unsigned` of BIGINT UNSIGNED.
    pub(super) fn new(name: &str, mean: bool, unsigned: bool) -> Self {
        let of = if unsigned { DataType::UInt64 } else { DataType::Int64 };
        Self { name: name.to_string(), sums: Vec::new(), counts: Vec::new(), mean, of, more_digits: 0 }
    }

    /// Those of DECIMALs of this type; `None` where sums of them may need more than 128 bits.
    pub(super) fn of_decimals(name: &str, mean: bool, values: &DataType, result: &DataType) -> Option<Self> {
        let (DataType::Decimal128(_, scale), DataType::Decimal128(_, to)) = (values, result) else {
            return None;
        };
        let more_digits = u32::try_from(to - scale).ok().filter(|more| mean || *more == 0)?;
        let sums = Self::new(name, mean, false);
        (!needs_room(values)).then(|| Self { of: result.clone(), more_digits, ..sums })
    }

    fn add(&mut self, group: usize, rows: usize, sum: i128) {
        self.counts[group] += rows as i64;
        self.sums[group] += sum;
    }

    /// Takes in values that are added up in `S`, one by one or by `total`.
    #[inline]
    fn add_values<T: ArrowPrimitiveType, S: Copy + Default + AddAssign + Into<i128>>(
        &mut self,
        batch: &Batch<'_>,
        total: impl Fn(&[T::Native]) -> S,
    ) -> Result<()>
    where
        T::Native: Into<S>,
    {
        let [column] = batch.arguments()?;
        let (values, counted) = (values::<T>(column)?, batch.counted());
        let one_by_one = batch.rows.totals(
            counted.as_ref(),
            |total: &mut Total<S>, row| total.add(values[row].into()),
            |group, total| self.add(group, total.rows as usize, total.sum.into()),
        );
        if !one_by_one {
            let add = |group, rows: Range<usize>| self.add(group, rows.len(), total(&values[rows]).into());
            batch.rows.runs(counted.as_ref(), add);
        }
        Ok(())
    }
}

impl Kernel for IntegerSums {
    fn grow(&mut self, total: usize) {
        self.sums.resize(total, 0);
        self.counts.resize(total, 0);
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [column] = batch.arguments()?;
        // Of values of up to 32 bits, those of a batch fit 64 together.
        match column.data_type() {
            DataType::Int8 => self.add_values::<Int8Type, i64>(batch, narrow),
            DataType::Int16 => self.add_values::<Int16Type, i64>(batch, narrow),
            DataType::Int32 => self.add_values::<Int32Type, i64>(batch, wide),
            DataType::UInt8 => self.add_values::<UInt8Type, i64>(batch, narrow),
            DataType::UInt16 => self.add_values::<UInt16Type, i64>(batch, narrow),
            DataType::UInt32 => self.add_values::<UInt32Type, i64>(batch, wide),
            DataType::UInt64 => self.add_values::<UInt64Type, i128>(batch, unsigned_total),
            DataType::Decimal128(..) => {
                self.add_values::<Decimal128Type, i128>(batch, |values| values.iter().sum())
            }
            _ => self.add_values::<Int64Type, i128>(batch, signed_total),
        }
    }

    fn takes_blocks(&self) -> bool {
        true
    }

    fn wants_range(&self) -> Option<bool> {
        Some(false)
    }

    fn block_suffices(&self, blocks: &Blocks<'_>) -> bool {
        matches!(blocks, [Some(block), None] if block.stats.sum.is_some())
    }

    fn update_block(&mut self, group: usize, blocks: &Blocks<'_>) -> Result<()> {
        let [Some(block), _] = blocks else { return unfit(self, "no block") };
        let Some(StatValue::Int(sum)) = block.stats.sum else { return unfit(self, "a block without a sum") };
        self.add(group, held(block), sum);
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let theirs = alike::<Self>(other)?;
        add_all(&mut self.sums, &theirs.sums, groups);
        add_all(&mut self.counts, &theirs.counts, groups);
        Ok(())
    }

    /// # Errors
    /// Where a sum does not fit its type.
    fn finish(&mut self) -> Result<ArrayRef> {
        let sums = std::mem::take(&mut self.sums).into_iter().zip(self.counts.iter().copied());
        if let DataType::Decimal128(..) = self.of {
            let values = sums.map(|(sum, count)| match self.mean {
                // The digits of the values and four more, which have room.
                true => {
                    mean_of_decimals(i256::from_i128(sum), count, self.more_digits).map_or(0, i256::as_i128)
                }
                false => sum,
            });
            let values = values.collect::<Vec<i128>>();
            let values = Decimal128Array::new(values.into(), seen(&self.counts));
            return Ok(Arc::new(values.with_data_type(self.of.clone())));
        }
        if self.mean {
            let means = sums.map(|(sum, count)| (count > 0).then(|| mean(sum, count)));
            return Ok(Arc::new(means.collect::<Float64Array>()));
        }
        finished(&self.name, sums, &self.of)
    }

    fn size(&self) -> usize {
        16 * self.sums.capacity() + 8 * self.counts.capacity()
    }
}

/// Values of up to 16 bits, added in 32 as long as that holds their sum.
fn narrow<T: Copy + Into<i32>>(values: &[T]) -> i64 {
    let sum = |values: &[T]| values.iter().fold(0, |sum: i32, value| sum + (*value).into());
    values.chunks(1 << 14).map(|values| i64::from(sum(values))).sum()
}

/// Values of 32 bits, of which there are less than 2^31 in a batch.
fn wide<T: Copy + Into<i64>>(values: &[T]) -> i64 {
    values.iter().fold(0, |sum: i64, value| sum + (*value).into())
}

/// The numbers that an argument widens to 64 bits before they are added, where that is all it does.
pub(in super::super) fn widened(
    argument: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Option<Arc<dyn PhysicalExpr>> {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let cast = argument.downcast_ref::<CastExpr>()?;
    let from = cast.expr().data_type(input).ok()?;
    let widens = matches!(
        (from, cast.cast_type()),
        (Int8 | Int16 | Int32, Int64) | (UInt8 | UInt16 | UInt32, UInt64) | (Float32, Float64)
    );
    (widens && super::column(cast.expr()).is_some()).then(|| Arc::clone(cast.expr()))
}

/// vwap(price, size).
#[derive(Debug, Default)]
pub(super) struct Vwap {
    products: Vec<f64>,
    weights: Vec<f64>,
}

impl Kernel for Vwap {
    fn grow(&mut self, total: usize) {
        self.products.resize(total, 0.0);
        self.weights.resize(total, 0.0);
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [prices, sizes] = batch.arguments()?;
        let (prices, sizes) = (values::<Float64Type>(prices)?, values::<Float64Type>(sizes)?);
        let (rows, counted) = (batch.rows, batch.counted());
        let Self { products, weights } = self;
        let one_by_one = rows.totals(
            counted.as_ref(),
            |(product, weight): &mut (f64, f64), row| {
                *product += prices[row] * sizes[row];
                *weight += sizes[row];
            },
            |group, (product, weight)| {
                products[group] += product;
                weights[group] += weight;
            },
        );
        if !one_by_one {
            rows.runs(counted.as_ref(), |group, rows| {
                let (prices, sizes) = (&prices[rows.clone()], &sizes[rows]);
                products[group] += fold::product(prices, sizes, (0.0, 0.0));
                weights[group] += fold::sum(sizes);
            });
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let theirs = alike::<Self>(other)?;
        add_all(&mut self.products, &theirs.products, groups);
        add_all(&mut self.weights, &theirs.weights, groups);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let quotients = self.products.iter().zip(&self.weights);
        Ok(Arc::new(quotients.map(|(p, w)| (*w != 0.0).then(|| p / w)).collect::<Float64Array>()))
    }

    fn size(&self) -> usize {
        8 * (self.products.capacity() + self.weights.capacity())
    }
}
