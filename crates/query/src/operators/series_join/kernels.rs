//! The kernels of a WINDOW JOIN's aggregates.

use super::windows::Windows;
use crate::functions::whole::sums_fit;
use crate::operators::window::fold::Fold;
use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, PrimitiveArray};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Float64Type, Int64Type, TimestampNanosecondType,
};
use std::sync::Arc;

/// How many rows count.
pub(super) struct Counts(Option<Vec<u32>>);

impl Counts {
    /// Where those count that `valid` says; all where `None`.
    pub(super) fn new(valid: Option<&BooleanBuffer>) -> Self {
        Self(valid.map(|valid| {
            let mut before = 0;
            let mut all = Vec::with_capacity(valid.len() + 1);
            all.push(0);
            all.extend(valid.iter().map(|valid| {
                before += u32::from(valid);
                before
            }));
            all
        }))
    }

    /// How many of the rows from `start` to before `end`.
    #[inline]
    pub(super) fn within(&self, start: usize, end: usize) -> usize {
        match &self.0 {
            None => end - start,
            Some(before) => (before[end] - before[start]) as usize,
        }
    }
}

/// `finish` of the fold of each window's values and of how many count; NULL where none does.
pub(super) fn folded<A: ArrowPrimitiveType>(
    argument: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    windows: &Windows,
    fold: &Fold<A::Native, impl Fn(A::Native, A::Native) -> A::Native>,
    finish: impl Fn(A::Native, usize) -> A::Native,
) -> ArrayRef {
    let array = argument.as_primitive::<A>();
    let counts = Counts::new(valid);
    let filled: Vec<A::Native>;
    let values = match valid {
        None => &array.values()[..],
        Some(valid) => {
            let pick = |(value, valid): (&A::Native, bool)| if valid { *value } else { fold.identity };
            filled = array.values().iter().zip(valid.iter()).map(pick).collect();
            &filled
        }
    };
    let out = windows.fold(values, fold, |value, start, end| finish(value, counts.within(start, end)));
    let some: BooleanBuffer = windows.rows().map(|(start, end)| counts.within(start, end) > 0).collect();
    let nulls = Some(NullBuffer::new(some)).filter(|nulls| nulls.null_count() > 0);
    Arc::new(PrimitiveArray::<A>::new(out.into(), nulls).with_data_type(argument.data_type().clone()))
}

/// Σ of each window's doubles.
pub(super) fn summed(argument: &ArrayRef, valid: Option<&BooleanBuffer>, windows: &Windows) -> ArrayRef {
    let fold = Fold { identity: 0.0, join: |a: f64, b: f64| a + b };
    folded::<Float64Type>(argument, valid, windows, &fold, |sum, _| sum)
}

/// Σ and the number of each window's whole numbers, in 64 bits where no sum can be too large for them, else in 128.
pub(super) fn whole_sums<A: ArrowPrimitiveType>(
    argument: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    windows: &Windows,
) -> Vec<(i128, i64)>
where
    A::Native: Into<i128>,
{
    let counts = Counts::new(valid);
    let values = argument.as_primitive::<A>().values();
    let number =
        |row: usize| if valid.is_none_or(|valid| valid.value(row)) { values[row] } else { A::Native::ZERO };
    let counted = |start, end| counts.within(start, end) as i64;
    let narrow: Vec<A::Native> = (0..values.len()).map(number).collect();
    if sums_fit(&narrow) {
        let fold = Fold { identity: A::Native::ZERO, join: |a: A::Native, b: A::Native| a.add_wrapping(b) };
        return windows.fold(&narrow, &fold, |sum, start, end| (sum.into(), counted(start, end)));
    }
    let wide: Vec<i128> = narrow.into_iter().map(Into::into).collect();
    windows
        .fold(&wide, &Fold { identity: 0, join: |a, b| a + b }, |sum, start, end| (sum, counted(start, end)))
}

/// The largest value of each window, or the smallest.
pub(super) fn extreme(
    argument: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    windows: &Windows,
    largest: bool,
) -> ArrayRef {
    fn of<A: ArrowPrimitiveType>(
        argument: &ArrayRef,
        valid: Option<&BooleanBuffer>,
        windows: &Windows,
        largest: bool,
    ) -> ArrayRef {
        let join = |a: A::Native, b: A::Native| if b.is_gt(a) == largest && b.is_ne(a) { b } else { a };
        let identity = if largest { A::Native::MIN_TOTAL_ORDER } else { A::Native::MAX_TOTAL_ORDER };
        folded::<A>(argument, valid, windows, &Fold { identity, join }, |value, _| value)
    }
    match (argument.data_type(), largest) {
        (DataType::Int64, _) => of::<Int64Type>(argument, valid, windows, largest),
        (DataType::Timestamp(..), _) => of::<TimestampNanosecondType>(argument, valid, windows, largest),
        // NaN is the largest number.
        (_, true) => {
            let join = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
            let fold = Fold { identity: f64::NEG_INFINITY, join };
            folded::<Float64Type>(argument, valid, windows, &fold, |value, _| value)
        }
        (_, false) => {
            let join = |a: f64, b: f64| if b < a || a.is_nan() { b } else { a };
            let fold = Fold { identity: f64::NAN, join };
            folded::<Float64Type>(argument, valid, windows, &fold, |value, _| value)
        }
    }
}

/// Σ price · size / Σ size; NULL where the sizes sum to nothing.
pub(super) fn vwap(
    prices: &ArrayRef,
    sizes: &ArrayRef,
    valid: Option<&BooleanBuffer>,
    windows: &Windows,
) -> ArrayRef {
    let prices = prices.as_primitive::<Float64Type>().values();
    let sizes = sizes.as_primitive::<Float64Type>().values();
    let pair = |(row, (price, size)): (usize, (&f64, &f64))| {
        if valid.is_none_or(|valid| valid.value(row)) { [price * size, *size] } else { [0.0; 2] }
    };
    let pairs: Vec<[f64; 2]> = prices.iter().zip(sizes.iter()).enumerate().map(pair).collect();
    let fold = Fold { identity: [0.0; 2], join: |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]] };
    let sums = windows.fold(&pairs, &fold, |sums, _, _| sums);
    let quotients = sums.into_iter().map(|[products, weights]| (weights != 0.0).then(|| products / weights));
    Arc::new(quotients.collect::<Float64Array>())
}
