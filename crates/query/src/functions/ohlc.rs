//! `ohlc(price)`: open, high, low, close; `candle(price, size)`: and volume, vwap, count.
//!
//! Open and close go by the designated timestamp, which the planner adds as last argument; on equal
//! times the row that arrived first opens and the last one closes. Rows without a price do not count;
//! a group without any is NULL.

use super::first_last::{time_type, time_values, without_time};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StructArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, Int64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// `ohlc(price [, ts])` or `candle(price, size [, ts])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ohlc {
    signature: Signature,
    sized: bool,
}

impl Ohlc {
    pub(crate) fn prices() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), sized: false }
    }

    pub(crate) fn candle() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), sized: true }
    }

    /// Arguments without the time.
    fn width(&self) -> usize {
        if self.sized { 2 } else { 1 }
    }
}

/// Columns of a group's state; the first is how many rows it has seen.
const STATE: [(&str, DataType); 9] = [
    ("count", DataType::Int64),
    ("open_time", DataType::Int64),
    ("close_time", DataType::Int64),
    ("open", DataType::Float64),
    ("high", DataType::Float64),
    ("low", DataType::Float64),
    ("close", DataType::Float64),
    ("volume", DataType::Float64),
    ("notional", DataType::Float64),
];

fn fields(sized: bool) -> Fields {
    let mut names = vec!["open", "high", "low", "close"];
    if sized {
        names.extend(["volume", "vwap"]);
    }
    let mut fields: Vec<Field> =
        names.into_iter().map(|name| Field::new(name, DataType::Float64, true)).collect();
    if sized {
        fields.push(Field::new("count", DataType::Int64, true));
    }
    fields.into()
}

impl AggregateUDFImpl for Ohlc {
    fn name(&self) -> &str {
        if self.sized { "candle" } else { "ohlc" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let width = self.width();
        let mut coerced = vec![DataType::Float64; width];
        let numbers = types.iter().take(width).all(|t| t.is_numeric() || *t == DataType::Null);
        match types.get(width).map(time_type) {
            _ if !numbers || types.len() < width || types.len() > width + 1 => {
                plan_err!(
                    "{} takes {}",
                    self.name(),
                    if self.sized { "a price and a size" } else { "a price" }
                )
            }
            Some(None) => plan_err!("the last argument of {} is a timestamp", self.name()),
            Some(Some(time)) => {
                coerced.push(time);
                Ok(coerced)
            }
            None => Ok(coerced),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(self.sized)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |(name, data_type): &(&str, DataType)| {
            Arc::new(Field::new(format_state_name(args.name, name), data_type.clone(), true))
        };
        Ok(STATE.iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.expr_fields.len() != self.width() + 1 {
            return Err(without_time(self.name()));
        }
        Ok(Box::new(One(Bars::new(self.sized))))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        args.expr_fields.len() == self.width() + 1
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Bars::new(self.sized)))
    }
}

/// One group's bar.
#[derive(Debug, Clone, Copy)]
struct Bar {
    count: i64,
    open_time: i64,
    close_time: i64,
    open: f64,
    high: f64,
    low: f64,
    close: f64,
    volume: f64,
    notional: f64,
}

impl Bar {
    const EMPTY: Bar = Bar {
        count: 0,
        open_time: 0,
        close_time: 0,
        open: 0.0,
        high: 0.0,
        low: 0.0,
        close: 0.0,
        volume: 0.0,
        notional: 0.0,
    };

    /// The bar of one row.
    fn of(time: i64, price: f64, size: f64) -> Self {
        Self {
            count: 1,
            open_time: time,
            close_time: time,
            open: price,
            high: price,
            low: price,
            close: price,
            volume: size,
            notional: price * size,
        }
    }

    /// Adds a bar that arrived later.
    fn add(&mut self, later: Bar) {
        if self.count == 0 {
            *self = later;
            return;
        }
        if later.open_time < self.open_time {
            (self.open_time, self.open) = (later.open_time, later.open);
        }
        if later.close_time >= self.close_time {
            (self.close_time, self.close) = (later.close_time, later.close);
        }
        // NaN is the largest number, as it is for max and min.
        if later.high > self.high || later.high.is_nan() {
            self.high = later.high;
        }
        self.low = self.low.min(later.low);
        self.volume += later.volume;
        self.notional += later.notional;
        self.count += later.count;
    }
}

#[derive(Debug)]
struct Bars {
    sized: bool,
    bars: Vec<Bar>,
}

impl Bars {
    fn new(sized: bool) -> Self {
        Self { sized, bars: Vec::new() }
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: impl Iterator<Item = usize>,
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let (prices, sizes, times) = match values {
            [prices, times] => (prices, None, times),
            [prices, sizes, times] => (prices, Some(sizes.as_primitive::<Float64Type>()), times),
            _ => return Err(without_time(if self.sized { "candle" } else { "ohlc" })),
        };
        let prices = prices.as_primitive::<Float64Type>();
        let times = time_values(times)?;
        let all = prices.null_count() == 0 && times.null_count() == 0 && filter.is_none();
        for (row, ((&price, &time), group)) in
            prices.values().iter().zip(times.values()).zip(groups).enumerate()
        {
            let counts = all
                || (prices.is_valid(row)
                    && times.is_valid(row)
                    && filter.is_none_or(|f| f.is_valid(row) && f.value(row)));
            if counts {
                let size = sizes.filter(|sizes| sizes.is_valid(row)).map_or(0.0, |sizes| sizes.value(row));
                self.bars[group].add(Bar::of(time, price, size));
            }
        }
        Ok(())
    }

    fn grow(&mut self, total: usize) {
        self.bars.resize(total, Bar::EMPTY);
    }

    fn output(&self, bars: &[Bar]) -> Result<StructArray> {
        let doubles = |value: fn(&Bar) -> f64| -> ArrayRef {
            Arc::new(bars.iter().map(|bar| (bar.count > 0).then(|| value(bar))).collect::<Float64Array>())
        };
        let mut columns = vec![
            doubles(|bar| bar.open),
            doubles(|bar| bar.high),
            doubles(|bar| bar.low),
            doubles(|bar| bar.close),
        ];
        if self.sized {
            columns.push(doubles(|bar| bar.volume));
            let vwap = bars.iter().map(|bar| (bar.volume != 0.0).then(|| bar.notional / bar.volume));
            columns.push(Arc::new(vwap.collect::<Float64Array>()));
            columns.push(Arc::new(
                bars.iter().map(|bar| (bar.count > 0).then_some(bar.count)).collect::<Int64Array>(),
            ));
        }
        let seen: NullBuffer = bars.iter().map(|bar| bar.count > 0).collect();
        Ok(StructArray::try_new(fields(self.sized), columns, Some(seen))?)
    }

    fn states(bars: &[Bar]) -> Vec<ArrayRef> {
        let integers = |value: fn(&Bar) -> i64| -> ArrayRef {
            Arc::new(bars.iter().map(|bar| Some(value(bar))).collect::<Int64Array>())
        };
        let doubles = |value: fn(&Bar) -> f64| -> ArrayRef {
            Arc::new(bars.iter().map(|bar| Some(value(bar))).collect::<Float64Array>())
        };
        vec![
            integers(|bar| bar.count),
            integers(|bar| bar.open_time),
            integers(|bar| bar.close_time),
            doubles(|bar| bar.open),
            doubles(|bar| bar.high),
            doubles(|bar| bar.low),
            doubles(|bar| bar.close),
            doubles(|bar| bar.volume),
            doubles(|bar| bar.notional),
        ]
    }
}

/// The bars in a state's columns.
fn read_states(values: &[ArrayRef]) -> Result<Vec<Bar>> {
    let [count, open_time, close_time, open, high, low, close, volume, notional] = values else {
        return exec_err!("a bar's state has {} columns, not {}", STATE.len(), values.len());
    };
    let integer = |array: &ArrayRef, row: usize| array.as_primitive::<Int64Type>().value(row);
    let double = |array: &ArrayRef, row: usize| array.as_primitive::<Float64Type>().value(row);
    let bar = |row: usize| Bar {
        count: integer(count, row),
        open_time: integer(open_time, row),
        close_time: integer(close_time, row),
        open: double(open, row),
        high: double(high, row),
        low: double(low, row),
        close: double(close, row),
        volume: double(volume, row),
        notional: double(notional, row),
    };
    Ok((0..count.len()).map(bar).collect())
}

impl GroupsAccumulator for Bars {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.grow(total);
        self.update(values, groups.iter().copied(), filter)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let bars = emit_to.take_needed(&mut self.bars);
        Ok(Arc::new(self.output(&bars)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::states(&emit_to.take_needed(&mut self.bars)))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.grow(total);
        for (bar, group) in read_states(values)?.into_iter().zip(groups) {
            if bar.count > 0 {
                self.bars[*group].add(bar);
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Bars::new(self.sized);
        let count = values.first().map_or(0, |v| v.len());
        rows.grow(count);
        rows.update(values, 0..count, filter)?;
        Ok(Self::states(&rows.bars))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bars.capacity() * size_of::<Bar>()
    }
}

/// One group, as the only one of many.
#[derive(Debug)]
struct One(Bars);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.grow(1);
        self.0.update(values, std::iter::repeat(0), None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.grow(1);
        Ok(ScalarValue::Struct(Arc::new(self.0.output(&self.0.bars)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of::<Bar>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.grow(1);
        Bars::states(&self.0.bars).iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |s| s.len());
        GroupsAccumulator::merge_batch(&mut self.0, states, &vec![0; rows], 1)
    }
}
