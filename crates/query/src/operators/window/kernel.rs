//! The window functions, each over the rows of one series at a time.
//!
//! sum, avg, count, min, max, vwap, first_value, last_value and nth_value have kernels of their own for the types they
//! mostly meet, lag, lead, row_number, ranks and ntile too; variances, correlations, regressions and medians are asked
//! for all frames at once ([`crate::functions::windowed`]); any other function is DataFusion's own, called with the
//! rows of each series.

use super::fold::{Fold, Values};
use super::frame::{Frame, Sight};
use super::picks::{Edge, Shift, Tiles, reach_of_shift};
use super::slices::{Order, columns_read};
use crate::error::from_arrow;
use crate::functions::whole::{finished, mean, sums_fit};
use crate::functions::windowed::Framed;
use crate::operators::quick::quick;
use crate::scan::Reach;
use arrow_select::concat::concat;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Float64Array, Int64Array,
    PrimitiveArray, RecordBatch, new_empty_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::SlidingAggregateWindowExpr;
use datafusion::physical_plan::windows::{PlainAggregateWindowExpr, StandardWindowExpr, WindowUDFExpr};
use datafusion::physical_plan::{PhysicalExpr, WindowExpr};
use std::borrow::Cow;
use std::sync::Arc;

/// The least or the largest of floats: NaN is the largest number; no two of them, nor of the zeros, are told apart.
macro_rules! extreme_of_floats {
    ($of:ty, $native:ty, $argument:expr, $frame:expr, $largest:expr, $rows:expr) => {{
        let last = |value, _| value;
        if $largest {
            let larger = |a: $native, b: $native| if b > a || b.is_nan() { b } else { a };
            Counted::<$of>::new($argument, <$native>::NEG_INFINITY).fold($rows, $frame, larger, last)
        } else {
            let smaller = |a: $native, b: $native| if b < a || a.is_nan() { b } else { a };
            Counted::<$of>::new($argument, <$native>::NAN).fold($rows, $frame, smaller, last)
        }
    }};
}

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

#[derive(Debug, Clone)]
enum How {
    Sum(Frame),
    Mean(Frame),
    Count(Frame),
    /// max(x) where the flag says so, else min(x).
    Extreme(Frame, bool),
    Vwap(Frame),
    Edge(Frame, Edge),
    /// Of all frames at once.
    Framed(Frame, Framed),
    Shift(Shift),
    Tiles(Tiles),
    RowNumber,
    /// dense_rank() where the flag says so, else rank().
    Rank(bool),
    /// As DataFusion does.
    Other,
}

impl How {
    /// The frames it goes by.
    fn frame(&self) -> Option<Frame> {
        match self {
            How::Sum(frame)
            | How::Mean(frame)
            | How::Count(frame)
            | How::Extreme(frame, _)
            | How::Vwap(frame)
            | How::Edge(frame, _)
            | How::Framed(frame, _) => Some(*frame),
            How::Shift(_) | How::Tiles(_) | How::RowNumber | How::Rank(_) | How::Other => None,
        }
    }
}

impl Kernel {
    /// The kernel of a function over rows of this schema in this order.
    pub(super) fn new(expr: &Arc<dyn WindowExpr>, input: &Schema, order: &Order) -> Result<Self> {
        let arguments = expr.expressions();
        let types = arguments.iter().map(|argument| argument.data_type(input)).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(input.clone());
        let arguments = arguments.into_iter().map(|argument| quick(argument, &schema));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let frame = Frame::of(expr.get_window_frame(), order);
        let result = expr.field()?;
        let how = frame.and_then(|frame| How::of(expr, frame, &types, result.data_type()));
        let how = how.or_else(|| How::without_frame(expr, &types, result.data_type(), order));
        Ok(Self { expr: Arc::clone(expr), arguments, how: how.unwrap_or(How::Other) })
    }

    /// The value of each row.
    pub(super) fn evaluate(&self, rows: &Rows<'_>) -> Result<ArrayRef> {
        match &self.how {
            How::Sum(frame) => self.sum(*frame, rows),
            How::Mean(frame) => self.mean(*frame, rows),
            How::Count(frame) => self.count(*frame, rows),
            How::Extreme(frame, largest) => self.extreme(*frame, *largest, rows),
            How::Vwap(frame) => self.vwap(*frame, rows),
            How::Edge(frame, edge) => edge.pick(&self.argument(0, rows.batch)?, *frame, rows),
            How::Framed(frame, function) => self.framed(*frame, function, rows),
            How::Shift(shift) => shift.pick(&self.argument(0, rows.batch)?, rows),
            How::Tiles(tiles) => Ok(tiles.number(rows)),
            How::RowNumber => Ok(numbers(rows)),
            How::Rank(dense) => Ok(ranks(*dense, rows)),
            How::Other => self.other(rows),
        }
    }

    /// The columns of `input` that it looks at.
    pub(super) fn columns(&self, input: &Schema) -> Vec<usize> {
        match self.how {
            How::Other if has_filter(&self.expr) => (0..input.fields().len()).collect(),
            How::Other => {
                let all = self.expr.all_expressions();
                columns_read(&[all.args, all.partition_by_exprs, all.order_by_exprs].concat(), input)
            }
            _ => columns_read(&self.arguments, input),
        }
    }

    /// Whether it asks which rows are peers, or how far apart in time they are.
    pub(super) fn goes_by_times(&self) -> bool {
        matches!(self.how.frame(), Some(Frame::Times { .. })) || matches!(self.how, How::Rank(_))
    }

    /// How far the function sees from a row; `None` where that is not known or has no end.
    pub(super) fn reach(&self) -> Option<Reach> {
        match self.how.frame() {
            Some(frame) => frame.reach(),
            None => reach_of_shift(&self.expr),
        }
    }

    /// What its result for a row hangs on; `None` where that is not known.
    pub(super) fn sight(&self) -> Option<Sight> {
        match self.how.frame() {
            Some(frame) => Some(frame.sight()),
            None if matches!(self.how, How::Tiles(_)) => {
                Some(Sight { before: None, after: None, peers: false })
            }
            None if matches!(self.how, How::RowNumber | How::Rank(_)) => {
                Some(Sight { before: None, after: Some(0), peers: false })
            }
            None => reach_of_shift(&self.expr).map(Sight::from),
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
        macro_rules! extreme {
            ($($pattern:pat => $of:ty),* $(,)?) => {
                match argument.data_type() {
                    DataType::Float32 => extreme_of_floats!(Float32Type, f32, &argument, frame, largest, rows),
                    DataType::Float64 => extreme_of_floats!(Float64Type, f64, &argument, frame, largest, rows),
                    $($pattern => of::<$of>(&argument, frame, largest, rows),)*
                    other => return internal_err!("no least or largest {other}"),
                }
            };
        }
        Ok(extreme!(
            DataType::Int8 => Int8Type,
            DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type,
            DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type,
            DataType::UInt64 => UInt64Type,
            DataType::Date32 => Date32Type,
            DataType::Decimal128(..) => Decimal128Type,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        ))
    }

    /// A function that is asked for all frames at once.
    fn framed(&self, frame: Frame, function: &Framed, rows: &Rows<'_>) -> Result<ArrayRef> {
        let arguments = (0..self.arguments.len()).map(|at| self.argument(at, rows.batch));
        let arguments = arguments.collect::<Result<Vec<ArrayRef>>>()?;
        function.over(&arguments, &mut |visit| {
            each_series(rows, |from, rows, times| {
                frame.each(rows, times, |start, end| visit(from + start..from + end));
            });
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
            return Edge::of(function.get_standard_func_expr()).map(|edge| How::Edge(frame, edge));
        }
        let aggregate = plain_aggregate(expr)?;
        let same = types.first() == Some(result);
        let ordered = result.is_integer()
            || matches!(
                result,
                DataType::Float32
                    | DataType::Float64
                    | DataType::Date32
                    | DataType::Decimal128(..)
                    | DataType::Timestamp(TimeUnit::Nanosecond, _)
            );
        let added = matches!(result, DataType::Float64 | DataType::Int64 | DataType::UInt64);
        match (aggregate.fun().name(), types) {
            ("count", [_]) => Some(How::Count(frame)),
            ("sum", [_]) if same && added => Some(How::Sum(frame)),
            ("avg", [DataType::Float64 | DataType::Int64 | DataType::UInt64]) => Some(How::Mean(frame)),
            ("min", [_]) if same && ordered => Some(How::Extreme(frame, false)),
            ("max", [_]) if same && ordered => Some(How::Extreme(frame, true)),
            ("vwap", [DataType::Float64, DataType::Float64]) => Some(How::Vwap(frame)),
            // Those that are sums of doubles are above.
            (name, types) if same || *result == DataType::Float64 => {
                Framed::of(name, types).map(|function| How::Framed(frame, function))
            }
            _ => None,
        }
    }

    /// The kernel of a function that goes by places whatever its frame.
    fn without_frame(
        expr: &Arc<dyn WindowExpr>,
        types: &[DataType],
        result: &DataType,
        order: &Order,
    ) -> Option<Self> {
        let function = expr.as_any().downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
        let name = function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name();
        let numbers = *result == DataType::Int64;
        match (name, types) {
            ("row_number", _) if numbers => Some(How::RowNumber),
            ("rank" | "dense_rank", _) if numbers && !matches!(order, Order::Any) => {
                Some(How::Rank(name == "dense_rank"))
            }
            ("ntile", _) if numbers => Tiles::of(function).map(How::Tiles),
            ("lag" | "lead", [of]) if of == result => Shift::of(expr, function, of).map(How::Shift),
            _ => None,
        }
    }
}

/// The aggregate of a window function without DISTINCT, ORDER BY, IGNORE NULLS or FILTER.
pub(super) fn plain_aggregate(expr: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let any = expr.as_any();
    let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>().map(|expr| expr.get_aggregate_expr());
    let aggregate = sliding
        .or_else(|| any.downcast_ref::<PlainAggregateWindowExpr>().map(|expr| expr.get_aggregate_expr()))?;
    let plain = !aggregate.is_distinct() && !aggregate.ignore_nulls() && aggregate.order_bys().is_empty();
    (plain && !has_filter(expr)).then_some(aggregate)
}

/// Whether only some rows count. Only what a function prints says so: where that changes, no kernel is taken.
fn has_filter(expr: &Arc<dyn WindowExpr>) -> bool {
    let aggregate = expr.as_any().downcast_ref::<StandardWindowExpr>().is_none();
    aggregate && !format!("{expr:?}").ends_with("filter: None }")
}

/// The number of each row, from 1 on.
fn numbers(rows: &Rows<'_>) -> ArrayRef {
    let mut numbers: Vec<i64> = Vec::with_capacity(rows.batch.num_rows());
    each_series(rows, |_, rows, _| numbers.extend(1..=rows as i64));
    Arc::new(Int64Array::from(numbers))
}

/// The number of the first of each row's peers, or (`dense`) of the peers.
fn ranks(dense: bool, rows: &Rows<'_>) -> ArrayRef {
    let mut ranks: Vec<i64> = Vec::with_capacity(rows.batch.num_rows());
    each_series(rows, |_, _, times| {
        let mut rank = 0;
        for (at, time) in times.iter().enumerate() {
            if at == 0 || times[at - 1] != *time {
                rank = if dense { rank + 1 } else { at as i64 + 1 };
            }
            ranks.push(rank);
        }
    });
    Arc::new(Int64Array::from(ranks))
}

/// Calls `reduce` for each series with where it begins, how many rows it has, and their times.
pub(super) fn each_series(rows: &Rows<'_>, mut reduce: impl FnMut(usize, usize, &[i64])) {
    let mut from = 0;
    for end in rows.ends.iter().copied() {
        if end > from {
            reduce(from, end - from, rows.times.get(from..end).unwrap_or(&[]));
        }
        from = end;
    }
}

/// How many values are there before each row, and before the end.
pub(super) fn valid_before(nulls: &NullBuffer) -> Vec<u32> {
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
