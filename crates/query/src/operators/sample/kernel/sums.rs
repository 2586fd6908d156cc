//! count, sum, avg and vwap.

use super::fold;
use super::pair::Pair;
use crate::functions::whole::{finished, mean, needs_room, signed_total, unsigned_total};
use crate::operators::sample::rows::Rows;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Schema, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::ops::AddAssign;
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
pub(in super::super) struct Counts(Vec<i64>);

impl Counts {
    pub(super) fn grow(&mut self, total: usize) {
        self.0.resize(total, 0);
    }

    pub(super) fn update(&mut self, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        let counts = &mut self.0;
        if !rows.totals(counted, |count: &mut i64, _| *count += 1, |group, count| counts[group] += count) {
            rows.runs(counted, |group, rows| counts[group] += rows.len() as i64);
        }
    }

    pub(super) fn add(&mut self, group: usize, rows: usize) {
        self.0[group] += rows as i64;
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        add_all(&mut self.0, &theirs.0, groups);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(std::mem::take(&mut self.0)))
    }

    pub(super) fn size(&self) -> usize {
        8 * self.0.capacity()
    }
}

/// sum(x) or avg(x) of doubles.
#[derive(Debug)]
pub(in super::super) struct Sums {
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

    pub(super) fn grow(&mut self, total: usize) {
        self.sums.resize(total, 0.0);
        self.counts.resize(total, 0);
    }

    pub(super) fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        match values.data_type() {
            DataType::Float32 => {
                self.add_values(values.as_primitive::<Float32Type>().values(), rows, counted)
            }
            _ => self.add_values(values.as_primitive::<Float64Type>().values(), rows, counted),
        }
    }

    fn add_values<T: Copy + Into<f64>>(
        &mut self,
        values: &[T],
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
    ) {
        let Self { sums, counts, .. } = self;
        let one_by_one = rows.totals(
            counted,
            |total: &mut Total<f64>, row| total.add(values[row].into()),
            |group, total| {
                counts[group] += total.rows;
                sums[group] += total.sum;
            },
        );
        if !one_by_one {
            rows.runs(counted, |group, rows| {
                counts[group] += rows.len() as i64;
                sums[group] += fold::sum(&values[rows]);
            });
        }
    }

    pub(super) fn is_pair(&self) -> bool {
        self.pair.is_some()
    }

    /// Takes in what two columns make.
    pub(super) fn update_pair(
        &mut self,
        left: &ArrayRef,
        right: &ArrayRef,
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
    ) {
        let Some(pair) = self.pair else { return };
        let left = left.as_primitive::<Float64Type>().values();
        let right = right.as_primitive::<Float64Type>().values();
        let Self { sums, counts, .. } = self;
        let one_by_one = rows.totals(
            counted,
            |total: &mut Total<f64>, row| total.add(pair.apply(left[row], right[row])),
            |group, total| {
                counts[group] += total.rows;
                sums[group] += total.sum;
            },
        );
        if !one_by_one {
            rows.runs(counted, |group, rows| {
                counts[group] += rows.len() as i64;
                sums[group] += pair.total(&left[rows.clone()], &right[rows]);
            });
        }
    }

    pub(super) fn add_block(&mut self, group: usize, block: &BlockSummary) {
        if let Some(StatValue::Float(sum)) = block.stats.sum {
            self.counts[group] += held(block) as i64;
            self.sums[group] += sum;
        }
    }

    /// Whether sums of its columns say what the sum of what they make is.
    pub(super) fn takes_blocks(&self) -> bool {
        self.pair != Some(Pair::Product)
    }

    /// The sum of what the rows of two blocks make, from the sums of each; `None` where it would not be exact enough.
    pub(super) fn of_blocks(&self, left: &BlockSummary, right: &BlockSummary) -> Option<f64> {
        // Only rows that have both values make one.
        let [(left, left_size), (right, right_size)] = [whole(left)?, whole(right)?];
        self.pair?.of_sums(left, right, left_size + right_size)
    }

    pub(super) fn add_blocks(&mut self, group: usize, left: &BlockSummary, right: &BlockSummary) {
        if let Some(sum) = self.of_blocks(left, right) {
            self.counts[group] += held(left) as i64;
            self.sums[group] += sum;
        }
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        add_all(&mut self.sums, &theirs.sums, groups);
        add_all(&mut self.counts, &theirs.counts, groups);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        let mut sums = std::mem::take(&mut self.sums);
        if self.mean {
            sums.iter_mut().zip(&self.counts).for_each(|(sum, count)| *sum /= *count as f64);
        }
        Arc::new(Float64Array::new(sums.into(), seen(&self.counts)))
    }

    pub(super) fn size(&self) -> usize {
        8 * (self.sums.capacity() + self.counts.capacity())
    }
}

/// sum(x) or avg(x) of whole numbers and DECIMALs, in 128 bits.
#[derive(Debug)]
pub(in super::super) struct IntegerSums {
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

    pub(super) fn grow(&mut self, total: usize) {
        self.sums.resize(total, 0);
        self.counts.resize(total, 0);
    }

    fn add(&mut self, group: usize, rows: usize, sum: i128) {
        self.counts[group] += rows as i64;
        self.sums[group] += sum;
    }

    pub(super) fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        match values.data_type() {
            DataType::Int8 => self.narrow::<Int8Type>(values, rows, counted, narrow),
            DataType::Int16 => self.narrow::<Int16Type>(values, rows, counted, narrow),
            DataType::Int32 => self.narrow::<Int32Type>(values, rows, counted, wide),
            DataType::UInt8 => self.narrow::<UInt8Type>(values, rows, counted, narrow),
            DataType::UInt16 => self.narrow::<UInt16Type>(values, rows, counted, narrow),
            DataType::UInt32 => self.narrow::<UInt32Type>(values, rows, counted, wide),
            DataType::UInt64 => self.wide::<UInt64Type>(values, rows, counted, unsigned_total),
            DataType::Decimal128(..) => {
                self.wide::<Decimal128Type>(values, rows, counted, |values| values.iter().sum())
            }
            _ => self.wide::<Int64Type>(values, rows, counted, signed_total),
        }
    }

    /// Values of up to 32 bits, of which those of a batch fit 64 together.
    fn narrow<T: ArrowPrimitiveType>(
        &mut self,
        values: &ArrayRef,
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
        total: impl Fn(&[T::Native]) -> i64,
    ) where
        T::Native: Into<i64>,
    {
        let values = values.as_primitive::<T>().values();
        let one_by_one = rows.totals(
            counted,
            |total: &mut Total<i64>, row| total.add(values[row].into()),
            |group, total| self.add(group, total.rows as usize, total.sum.into()),
        );
        if !one_by_one {
            rows.runs(counted, |group, rows| self.add(group, rows.len(), total(&values[rows]).into()));
        }
    }

    /// Values of 64 bits and more.
    fn wide<T: ArrowPrimitiveType>(
        &mut self,
        values: &ArrayRef,
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
        total: impl Fn(&[T::Native]) -> i128,
    ) where
        T::Native: Into<i128>,
    {
        let values = values.as_primitive::<T>().values();
        let one_by_one = rows.totals(
            counted,
            |total: &mut Total<i128>, row| total.add(values[row].into()),
            |group, total| self.add(group, total.rows as usize, total.sum),
        );
        if !one_by_one {
            rows.runs(counted, |group, rows| self.add(group, rows.len(), total(&values[rows])));
        }
    }

    pub(super) fn add_block(&mut self, group: usize, block: &BlockSummary) {
        if let Some(StatValue::Int(sum)) = block.stats.sum {
            self.add(group, held(block), sum);
        }
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        add_all(&mut self.sums, &theirs.sums, groups);
        add_all(&mut self.counts, &theirs.counts, groups);
    }

    /// The value of each group.
    ///
    /// # Errors
    /// Where a sum does not fit its type.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let sums = std::mem::take(&mut self.sums).into_iter().zip(self.counts.iter().copied());
        if let DataType::Decimal128(..) = self.of {
            let values = sums.map(|(sum, count)| match self.mean {
                true => mean_of_decimals(sum, count, self.more_digits),
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

    pub(super) fn size(&self) -> usize {
        16 * self.sums.capacity() + 8 * self.counts.capacity()
    }
}

/// The mean of `count` decimals that add up to `sum`, with so many more digits; those past them are cut off. 0 of none.
fn mean_of_decimals(sum: i128, count: i64, more_digits: u32) -> i128 {
    let (count, more) = (i128::from(count.max(1)), 10_i128.pow(more_digits));
    sum / count * more + sum % count * more / count
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
pub(in super::super) struct Vwap {
    products: Vec<f64>,
    weights: Vec<f64>,
}

impl Vwap {
    pub(super) fn grow(&mut self, total: usize) {
        self.products.resize(total, 0.0);
        self.weights.resize(total, 0.0);
    }

    pub(super) fn update(
        &mut self,
        prices: &ArrayRef,
        sizes: &ArrayRef,
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
    ) {
        let prices = prices.as_primitive::<Float64Type>().values();
        let sizes = sizes.as_primitive::<Float64Type>().values();
        let Self { products, weights } = self;
        let one_by_one = rows.totals(
            counted,
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
            rows.runs(counted, |group, rows| {
                let (prices, sizes) = (&prices[rows.clone()], &sizes[rows]);
                products[group] += fold::product(prices, sizes, (0.0, 0.0));
                weights[group] += fold::sum(sizes);
            });
        }
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        add_all(&mut self.products, &theirs.products, groups);
        add_all(&mut self.weights, &theirs.weights, groups);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        let quotients = self.products.iter().zip(&self.weights);
        Arc::new(quotients.map(|(p, w)| (*w != 0.0).then(|| p / w)).collect::<Float64Array>())
    }

    pub(super) fn size(&self) -> usize {
        8 * (self.products.capacity() + self.weights.capacity())
    }
}
