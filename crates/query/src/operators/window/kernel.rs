//! The window functions, each over the rows of one series at a time.
//!
//! sum, avg, count, min, max, vwap, first_value and last_value have kernels of their own for the types they
//! mostly meet; any other function is DataFusion's own, called with the rows of each series.

use super::fold::{Fold, Values};
use super::frame::Frame;
use crate::error::from_arrow;
use crate::functions::whole::{finished, mean, sums_fit};
use crate::scan::Reach;
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Float64Array, Int64Array,
    PrimitiveArray, RecordBatch, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Float64Type, Int64Type, Schema, TimeUnit, TimestampNanosecondType,
    UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{SlidingAggregateWindowExpr, StandardWindowFunctionExpr};
use datafusion::physical_plan::windows::{PlainAggregateWindowExpr, StandardWindowExpr, WindowUDFExpr};
use datafusion::physical_plan::{PhysicalExpr, WindowExpr};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of some series, one after the other, each in order of time.
pub(super) struct Rows<'a> {
    pub(super) batch: &'a RecordBatch,
    /// Where each series ends.
    pub(super) ends: &'a [usize],
    /// The designated timestamps; empty where the window has no order.
    pub(super) times: &'a [i64],
}

/// A window function and how it is computed.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    pub(super) expr: Arc<dyn WindowExpr>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Sum(Frame),
    Mean(Frame),
    Count(Frame),
    /// max(x) where the flag says so, else min(x).
    Extreme(Frame, bool),
    Vwap(Frame),
    /// last_value(x) where the flag says so, else first_value(x).
    Edge(Frame, bool),
    /// As DataFusion does.
    Other,
}

impl Kernel {
    /// The kernel of a function over rows of this schema.
    pub(super) fn new(expr: &Arc<dyn WindowExpr>, input: &Schema) -> Result<Self> {
        let arguments = expr.expressions();
        let types = arguments.iter().map(|argument| argument.data_type(input)).collect::<Result<Vec<_>>>()?;
        let frame = Frame::of(expr.get_window_frame(), !expr.order_by().is_empty());
        let how = frame.and_then(|frame| How::of(expr, frame, &types, expr.field().ok()?.data_type()));
        Ok(Self { expr: Arc::clone(expr), arguments, how: how.unwrap_or(How::Other) })
    }

    /// The value of each row.
    pub(super) fn evaluate(&self, rows: &Rows<'_>) -> Result<ArrayRef> {
        match self.how {
            How::Sum(frame) => self.sum(frame, rows),
            How::Mean(frame) => self.mean(frame, rows),
            How::Count(frame) => self.count(frame, rows),
            How::Extreme(frame, largest) => self.extreme(frame, largest, rows),
            How::Vwap(frame) => self.vwap(frame, rows),
            How::Edge(frame, last) => self.edge(frame, last, rows),
            How::Other => self.other(rows),
        }
    }

    /// How far the function sees from a row; `None` where that is not known or has no end.
    pub(super) fn reach(&self) -> Option<Reach> {
        match self.how {
            How::Sum(frame)
            | How::Mean(frame)
            | How::Count(frame)
            | How::Extreme(frame, _)
            | How::Vwap(frame)
            | How::Edge(frame, _) => frame.reach(),
            How::Other => reach_of_shift(&self.expr),
        }
    }

    fn argument(&self, index: usize, batch: &RecordBatch) -> Result<ArrayRef> {
        let Some(argument) = self.arguments.get(index) else {
            return internal_err!("{} has no argument {index}", self.expr.name());
        };
        argument.evaluate(batch)?.into_array(batch.num_rows())
    }

    fn sum(&self, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        let argument = self.argument(0, rows.batch)?;
        match argument.data_type() {
            DataType::Int64 => self.whole_sum::<Int64Type>(&argument, frame, rows),
            DataType::UInt64 => self.whole_sum::<UInt64Type>(&argument, frame, rows),
            _ => {
                let values = Counted::<Float64Type>::new(&argument, 0.0);
                Ok(values.fold(rows, frame, |a, b| a + b, |sum, _| sum))
            }
        }
    }

    /// The sums of whole numbers: in 64 bits where no sum can be too large for them, else in 128.
    fn whole_sum<A: ArrowPrimitiveType>(
        &self,
        argument: &ArrayRef,
        frame: Frame,
        rows: &Rows<'_>,
    ) -> Result<ArrayRef>
    where
        A::Native: Into<i128>,
    {
        let values = Counted::<A>::new(argument, A::Native::ZERO);
        if sums_fit(&values.values) {
            return Ok(values.fold(rows, frame, |a, b| a.add_wrapping(b), |sum, _| sum));
        }
        let sums = values.sums(rows, frame, |sum, count| (sum, count));
        finished(self.called(), sums.into_iter(), argument.data_type())
    }

    /// The means of whole numbers.
    fn whole_mean<A: ArrowPrimitiveType>(
        &self,
        argument: &ArrayRef,
        frame: Frame,
        rows: &Rows<'_>,
    ) -> ArrayRef
    where
        A::Native: Into<i128>,
    {
        let values = Counted::<A>::new(argument, A::Native::ZERO);
        let means = values.sums(rows, frame, |sum, count| (count > 0).then(|| mean(sum, count)));
        Arc::new(Float64Array::from(means))
    }

    /// The function as the user knows it, without its window.
    fn called(&self) -> &str {
        plain_aggregate(&self.expr).map_or_else(|| self.expr.name(), AggregateFunctionExpr::name)
    }

    fn mean(&self, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        let argument = self.argument(0, rows.batch)?;
        Ok(match argument.data_type() {
            DataType::Int64 => self.whole_mean::<Int64Type>(&argument, frame, rows),
            DataType::UInt64 => self.whole_mean::<UInt64Type>(&argument, frame, rows),
            _ => {
                let values = Counted::<Float64Type>::new(&argument, 0.0);
                values.fold(rows, frame, |a, b| a + b, |sum, count| sum / count as f64)
            }
        })
    }

    fn count(&self, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        // count(*) counts a literal.
        let of_rows = self.arguments.iter().all(|argument| {
            argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        });
        let nulls = if of_rows { None } else { self.argument(0, rows.batch)?.logical_nulls() };
        let counts = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| valid_before(&nulls));
        let mut out = Vec::with_capacity(rows.batch.num_rows());
        each_series(rows, |from, rows, times| {
            frame.each(rows, times, |start, end| {
                out.push(counted(counts.as_deref(), from, start, end) as i64)
            });
        });
        Ok(Arc::new(Int64Array::from(out)))
    }

    fn extreme(&self, frame: Frame, largest: bool, rows: &Rows<'_>) -> Result<ArrayRef> {
        fn of<A: ArrowPrimitiveType>(
            argument: &ArrayRef,
            frame: Frame,
            largest: bool,
            rows: &Rows<'_>,
        ) -> ArrayRef {
            let last = |value, _| value;
            // In the total order NaN is the largest number.
            if largest {
                let larger = |a: A::Native, b: A::Native| if b.is_gt(a) { b } else { a };
                Counted::<A>::new(argument, A::Native::MIN_TOTAL_ORDER).fold(rows, frame, larger, last)
            } else {
                let smaller = |a: A::Native, b: A::Native| if b.is_lt(a) { b } else { a };
                Counted::<A>::new(argument, A::Native::MAX_TOTAL_ORDER).fold(rows, frame, smaller, last)
            }
        }
        let argument = self.argument(0, rows.batch)?;
        Ok(match argument.data_type() {
            DataType::Int64 => of::<Int64Type>(&argument, frame, largest, rows),
            DataType::Timestamp(..) => of::<TimestampNanosecondType>(&argument, frame, largest, rows),
            _ => extreme_of_doubles(&argument, frame, largest, rows),
        })
    }

    fn vwap(&self, frame: Frame, rows: &Rows<'_>) -> Result<ArrayRef> {
        let (prices, sizes) = (self.argument(0, rows.batch)?, self.argument(1, rows.batch)?);
        let nulls = NullBuffer::union(prices.logical_nulls().as_ref(), sizes.logical_nulls().as_ref());
        let prices = prices.as_primitive::<Float64Type>().values();
        let sizes = sizes.as_primitive::<Float64Type>().values();
        let pair = |(row, (price, size)): (usize, (&f64, &f64))| {
            let counts = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            if counts { [price * size, *size] } else { [0.0; 2] }
        };
        let pairs: Vec<[f64; 2]> = prices.iter().zip(sizes.iter()).enumerate().map(pair).collect();
        let fold = Fold { identity: [0.0; 2], join: |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]] };
        let mut sums = Vec::with_capacity(pairs.len());
        each_series(rows, |from, rows, times| {
            let values = Values { values: &pairs[from..from + rows], times };
            fold.over(values, frame, &mut sums, |sum, _, _| sum);
        });
        let quotients =
            sums.into_iter().map(|[products, weights]| (weights != 0.0).then(|| products / weights));
        Ok(Arc::new(quotients.collect::<Float64Array>()))
    }

    fn edge(&self, frame: Frame, last: bool, rows: &Rows<'_>) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(rows.batch.num_rows());
        let mut some = Vec::with_capacity(if frame.has_current() { 0 } else { rows.batch.num_rows() });
        each_series(rows, |from, rows, times| {
            frame.each(rows, times, |start, end| {
                places.push((from + if last { end.saturating_sub(1) } else { start.min(rows - 1) }) as u64);
                if !frame.has_current() {
                    some.push(start < end);
                }
            });
        });
        let nulls = (!frame.has_current()).then(|| NullBuffer::from(some));
        let places = UInt64Array::new(places.into(), nulls);
        take(&self.argument(0, rows.batch)?, &places, None).map_err(from_arrow)
    }

    /// DataFusion's own function, over the rows of each series.
    fn other(&self, rows: &Rows<'_>) -> Result<ArrayRef> {
        let mut arrays = Vec::with_capacity(rows.ends.len());
        let mut from = 0;
        for end in rows.ends.iter().copied() {
            if end > from {
                arrays.push(self.expr.evaluate(&rows.batch.slice(from, end - from))?);
            }
            from = end;
        }
        match arrays.as_slice() {
            [] => Ok(new_empty_array(self.expr.field()?.data_type())),
            [only] => Ok(Arc::clone(only)),
            _ => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                concat(&arrays).map_err(from_arrow)
            }
        }
    }
}

impl How {
    /// The kernel of a function of arguments of these types; `None` where it has none.
    fn of(expr: &Arc<dyn WindowExpr>, frame: Frame, types: &[DataType], result: &DataType) -> Option<Self> {
        if let Some(function) = expr.as_any().downcast_ref::<StandardWindowExpr>() {
            return How::of_edge(function.get_standard_func_expr(), frame, types);
        }
        let aggregate = plain_aggregate(expr)?;
        let same = types.first() == Some(result);
        let ordered = matches!(
            result,
            DataType::Float64 | DataType::Int64 | DataType::Timestamp(TimeUnit::Nanosecond, _)
        );
        let added = matches!(result, DataType::Float64 | DataType::Int64 | DataType::UInt64);
        match (aggregate.fun().name(), types) {
            ("count", [_]) => Some(How::Count(frame)),
            ("sum", [_]) if same && added => Some(How::Sum(frame)),
            ("avg", [DataType::Float64 | DataType::Int64 | DataType::UInt64]) => Some(How::Mean(frame)),
            ("min", [_]) if same && ordered => Some(How::Extreme(frame, false)),
            ("max", [_]) if same && ordered => Some(How::Extreme(frame, true)),
            ("vwap", [DataType::Float64, DataType::Float64]) => Some(How::Vwap(frame)),
            _ => None,
        }
    }

    fn of_edge(
        function: &Arc<dyn StandardWindowFunctionExpr>,
        frame: Frame,
        types: &[DataType],
    ) -> Option<Self> {
        let last = match function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name() {
            "first_value" => false,
            "last_value" => true,
            _ => return None,
        };
        let [data_type] = types else { return None };
        respects_nulls(function, data_type, last).then_some(How::Edge(frame, last))
    }
}

/// The aggregate of a window function without DISTINCT, ORDER BY, IGNORE NULLS or FILTER.
fn plain_aggregate(expr: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let any = expr.as_any();
    let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>().map(|expr| expr.get_aggregate_expr());
    let aggregate = sliding
        .or_else(|| any.downcast_ref::<PlainAggregateWindowExpr>().map(|expr| expr.get_aggregate_expr()))?;
    let plain = !aggregate.is_distinct() && !aggregate.ignore_nulls() && aggregate.order_bys().is_empty();
    // Only what it prints says whether there is a filter: where that changes, no kernel is taken.
    let filtered = !format!("{expr:?}").ends_with("filter: None }");
    (plain && !filtered).then_some(aggregate)
}

/// Whether first_value (last_value) of a NULL and a value (a value and a NULL) is the NULL.
fn respects_nulls(function: &Arc<dyn StandardWindowFunctionExpr>, data_type: &DataType, last: bool) -> bool {
    let probe = || -> Result<bool> {
        let mut values = [ScalarValue::try_from(data_type)?, ScalarValue::new_default(data_type)?];
        if last {
            values.reverse();
        }
        let values = ScalarValue::iter_to_array(values)?;
        Ok(function.create_evaluator()?.evaluate(&[values], &(0..2))?.is_null())
    };
    probe().unwrap_or(false)
}

/// How far lag and lead see, which tell it of a row far from both ends.
fn reach_of_shift(expr: &Arc<dyn WindowExpr>) -> Option<Reach> {
    const ROW: usize = 1 << 40;
    let function = expr.as_any().downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
    let name = function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name();
    if !matches!(name, "lag" | "lead") {
        return None;
    }
    let seen = function.create_evaluator().ok()?.get_range(ROW, 2 * ROW).ok()?;
    let (before, after) = (ROW.checked_sub(seen.start)?, seen.end.checked_sub(ROW)?);
    // One that passes over NULLs may have to look through the whole series.
    (before.max(after) < ROW / 2).then_some(Reach { before, after: after + 1 })
}

/// Calls `reduce` for each series with where it begins, how many rows it has, and their times.
fn each_series(rows: &Rows<'_>, mut reduce: impl FnMut(usize, usize, &[i64])) {
    let mut from = 0;
    for end in rows.ends.iter().copied() {
        if end > from {
            reduce(from, end - from, rows.times.get(from..end).unwrap_or(&[]));
        }
        from = end;
    }
}

/// How many values are there before each row, and before the end.
fn valid_before(nulls: &NullBuffer) -> Vec<u32> {
    let mut before = 0;
    let mut all = Vec::with_capacity(nulls.len() + 1);
    all.push(0);
    all.extend(nulls.iter().map(|valid| {
        before += u32::from(valid);
        before
    }));
    all
}

/// How many values there are from `start` to `end` of the series that begins at `from`.
#[inline]
fn counted(valid_before: Option<&[u32]>, from: usize, start: usize, end: usize) -> usize {
    match valid_before {
        None => end - start,
        Some(before) => (before[from + end] - before[from + start]) as usize,
    }
}

/// The values of an argument, with what changes nothing in the place of those that are missing.
struct Counted<'a, A: ArrowPrimitiveType> {
    values: Cow<'a, [A::Native]>,
    /// Where some are missing.
    valid_before: Option<Vec<u32>>,
    identity: A::Native,
    data_type: DataType,
}

impl<'a, A: ArrowPrimitiveType> Counted<'a, A> {
    fn new(argument: &'a ArrayRef, identity: A::Native) -> Self {
        let array = argument.as_primitive::<A>();
        let data_type = array.data_type().clone();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => Self { values: Cow::Borrowed(array.values()), valid_before: None, identity, data_type },
            Some(nulls) => {
                let values = array.iter().map(|value| value.unwrap_or(identity)).collect();
                Self { values, valid_before: Some(valid_before(nulls)), identity, data_type }
            }
        }
    }

    /// The fold of each row's frame, with `finish` of it and of how many values there are; NULL where there
    /// are none.
    fn fold(
        &self,
        rows: &Rows<'_>,
        frame: Frame,
        join: impl Fn(A::Native, A::Native) -> A::Native + Copy,
        finish: impl Fn(A::Native, usize) -> A::Native + Copy,
    ) -> ArrayRef {
        let fold = Fold { identity: self.identity, join };
        let mut out: Vec<A::Native> = Vec::with_capacity(self.values.len());
        each_series(rows, |from, rows, times| {
            let values = Values { values: &self.values[from..from + rows], times };
            match &self.valid_before {
                None => fold.over(values, frame, &mut out, |value, start, end| finish(value, end - start)),
                some => fold.over(values, frame, &mut out, |value, start, end| {
                    finish(value, counted(some.as_deref(), from, start, end))
                }),
            }
        });
        let nulls = self.nulls(rows, frame);
        Arc::new(PrimitiveArray::<A>::new(out.into(), nulls).with_data_type(self.data_type.clone()))
    }

    /// What `finish` makes of the fold of each row's frame and of how many values there are; `values` are the
    /// argument's, in whatever type they are folded in.
    fn folded<T: Copy, U>(
        &self,
        values: &[T],
        rows: &Rows<'_>,
        frame: Frame,
        fold: Fold<T, impl Fn(T, T) -> T + Copy>,
        finish: impl Fn(T, i64) -> U,
    ) -> Vec<U> {
        let mut out = Vec::with_capacity(values.len());
        each_series(rows, |from, rows, times| {
            let values = Values { values: &values[from..from + rows], times };
            fold.over(values, frame, &mut out, |value, start, end| {
                finish(value, counted(self.valid_before.as_deref(), from, start, end) as i64)
            });
        });
        out
    }

    /// What `finish` makes of the sum of each row's frame and of how many values there are: the sums are added up in
    /// 64 bits where none can be too large for them, else in 128.
    fn sums<U>(&self, rows: &Rows<'_>, frame: Frame, finish: impl Fn(i128, i64) -> U) -> Vec<U>
    where
        A::Native: Into<i128>,
    {
        if sums_fit(&self.values) {
            let fold = Fold { identity: self.identity, join: |a: A::Native, b: A::Native| a.add_wrapping(b) };
            return self.folded(&self.values, rows, frame, fold, |sum, count| finish(sum.into(), count));
        }
        let values: Vec<i128> = self.values.iter().map(|value| (*value).into()).collect();
        self.folded(&values, rows, frame, Fold { identity: 0, join: |a, b| a + b }, finish)
    }

    /// Which frames have values; `None` where all do.
    fn nulls(&self, rows: &Rows<'_>, frame: Frame) -> Option<NullBuffer> {
        if self.valid_before.is_none() && frame.has_current() {
            return None;
        }
        let mut some = BooleanBufferBuilder::new(self.values.len());
        each_series(rows, |from, rows, times| {
            frame.each(rows, times, |start, end| {
                some.append(counted(self.valid_before.as_deref(), from, start, end) > 0);
            });
        });
        Some(NullBuffer::new(some.finish()))
    }
}

/// NaN is the largest number; no two of them, nor of the zeros, are told apart.
fn extreme_of_doubles(argument: &ArrayRef, frame: Frame, largest: bool, rows: &Rows<'_>) -> ArrayRef {
    let last = |value, _| value;
    if largest {
        let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
        Counted::<Float64Type>::new(argument, f64::NEG_INFINITY).fold(rows, frame, larger, last)
    } else {
        let smaller = |a: f64, b: f64| if b < a || a.is_nan() { b } else { a };
        Counted::<Float64Type>::new(argument, f64::NAN).fold(rows, frame, smaller, last)
    }
}
