//! Window functions of series of prices, row by row in the order of the window:
//!
//! | function | definition, xₜ the value in row t |
//! |---|---|
//! | `log_return(x)` | ln xₜ − ln xₜ₋₁; NULL where either is not positive |
//! | `simple_return(x)` | xₜ / xₜ₋₁ − 1; NULL where xₜ₋₁ is 0 |
//! | `delta(x)` | xₜ − xₜ₋₁ |
//! | `ratio(x)` | xₜ / xₜ₋₁; NULL where xₜ₋₁ is 0 |
//! | `drawdown(x)` | xₜ / max(x₁ … xₜ) − 1 |
//! | `ema(x, 'period', n)`, `ema(x, 'alpha', a)` | eₜ = a·xₜ + (1 − a)·eₜ₋₁, e₁ = x₁, a = 2 / (n + 1) |
//! | `ema(x, 'second', tau)` and other units | the same with a = 1 − exp(−(tsₜ − tsₜ₋₁) / tau) |
//! | `obv(price, size)` | sum of sizes, with the sign of the change of price (Granville 1963) |
//! | `rsi(x [, n])` | 100·G / (G + L), G and L Wilder's means of the last n gains and losses, n = 14 (Wilder 1978) |
//! | `atr(high, low, close [, n])` | Wilder's mean of the last n true ranges, n = 14 (Wilder 1978) |
//! | `macd(x [, fast, slow, signal])` | struct macd, signal, histogram; 12, 26, 9 periods (Appel 1979) |
//! | `bollinger(x [, n, k])` | struct middle, upper, lower: mean ± k population deviations of n rows; 20, 2 |
//! | `vpin(buys, sells [, n])` | Σ |bᵢ − sᵢ| / Σ (bᵢ + sᵢ) over the last n rows, volume bars as a rule; 50 (Easley, López de Prado & O'Hara 2012) |
//!
//! Wilder's mean of n is the plain one of the first n values, then ((n − 1)·mean + value) / n. Rows where an
//! argument is NULL are NULL and passed over, but for `log_return`, `simple_return`, `delta` and `ratio`, where the
//! row after them is NULL too.
//!
//! `log_return(price) OVER (PARTITION BY symbol ORDER BY ts)`

use super::stride::Stride;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, TimeUnit};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Indicator {
    LogReturn,
    SimpleReturn,
    Delta,
    Ratio,
    Drawdown,
    Ema,
    Obv,
    Rsi,
    Atr,
    Macd,
    Bollinger,
    Vpin,
}

impl Indicator {
    const ALL: [Self; 12] = [
        Self::LogReturn,
        Self::SimpleReturn,
        Self::Delta,
        Self::Ratio,
        Self::Drawdown,
        Self::Ema,
        Self::Obv,
        Self::Rsi,
        Self::Atr,
        Self::Macd,
        Self::Bollinger,
        Self::Vpin,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::LogReturn => "log_return",
            Self::SimpleReturn => "simple_return",
            Self::Delta => "delta",
            Self::Ratio => "ratio",
            Self::Drawdown => "drawdown",
            Self::Ema => "ema",
            Self::Obv => "obv",
            Self::Rsi => "rsi",
            Self::Atr => "atr",
            Self::Macd => "macd",
            Self::Bollinger => "bollinger",
            Self::Vpin => "vpin",
        }
    }

    /// How many columns it takes, and what its parameters after them are when they are not written.
    fn arguments(self) -> (usize, &'static [f64]) {
        match self {
            Self::LogReturn | Self::SimpleReturn | Self::Delta | Self::Ratio | Self::Drawdown => (1, &[]),
            // Its kind, its parameter and, where that is one of time, the time.
            Self::Ema => (1, &[]),
            Self::Obv => (2, &[]),
            Self::Rsi => (1, &[14.0]),
            Self::Atr => (3, &[14.0]),
            Self::Macd => (1, &[12.0, 26.0, 9.0]),
            Self::Bollinger => (1, &[20.0, 2.0]),
            Self::Vpin => (2, &[50.0]),
        }
    }

    /// The names of the doubles it gives, where they are several.
    fn parts(self) -> Option<[&'static str; 3]> {
        match self {
            Self::Macd => Some(["macd", "signal", "histogram"]),
            Self::Bollinger => Some(["middle", "upper", "lower"]),
            _ => None,
        }
    }

    fn data_type(self) -> DataType {
        match self.parts() {
            Some(parts) => DataType::Struct(
                parts.iter().map(|part| Field::new(*part, DataType::Float64, true)).collect(),
            ),
            None => DataType::Float64,
        }
    }
}

/// Whether `ema` of this kind goes by time.
pub(crate) fn is_by_time(kind: &str) -> bool {
    !matches!(kind.to_ascii_lowercase().as_str(), "period" | "alpha")
}

/// The functions of this file.
pub(super) fn all() -> impl Iterator<Item = IndicatorFunction> {
    Indicator::ALL.into_iter().map(IndicatorFunction::new)
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct IndicatorFunction {
    indicator: Indicator,
    signature: Signature,
}

impl IndicatorFunction {
    fn new(indicator: Indicator) -> Self {
        Self { indicator, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl WindowUDFImpl for IndicatorFunction {
    fn name(&self) -> &str {
        self.indicator.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (columns, parameters) = self.indicator.arguments();
        if self.indicator == Indicator::Ema {
            let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
            return match types.len() {
                3 => Ok(vec![DataType::Float64, DataType::Utf8, DataType::Float64]),
                4 => Ok(vec![DataType::Float64, DataType::Utf8, DataType::Float64, time]),
                _ => plan_err!("ema takes a value, 'period', 'alpha' or a unit of time, and its parameter"),
            };
        }
        if types.len() < columns || types.len() > columns + parameters.len() {
            let most = columns + parameters.len();
            return plan_err!("{} takes {columns} to {most} arguments, not {}", self.name(), types.len());
        }
        Ok(vec![DataType::Float64; types.len()])
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator(self.indicator)))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), self.indicator.data_type(), true)))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::None
    }
}

#[derive(Debug)]
struct Evaluator(Indicator);

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let indicator = self.0;
        if indicator == Indicator::Ema {
            return ema(values, rows);
        }
        let (columns, defaults) = indicator.arguments();
        let columns: Vec<&Float64Array> =
            values.iter().take(columns).map(|column| column.as_primitive::<Float64Type>()).collect();
        let mut parameters = defaults.to_vec();
        for (parameter, written) in parameters.iter_mut().zip(values.iter().skip(columns.len())) {
            *parameter = constant(written, indicator.name())?;
        }
        let periods = |at: usize| periods(parameters[at], indicator.name());
        let mut wilder = match indicator {
            Indicator::Rsi | Indicator::Atr => [Wilder::new(periods(0)?), Wilder::new(periods(0)?)],
            _ => [Wilder::new(1), Wilder::new(1)],
        };
        let mut emas = match indicator {
            Indicator::Macd => [Ema::of(periods(0)?), Ema::of(periods(1)?), Ema::of(periods(2)?)],
            _ => [Ema::of(1), Ema::of(1), Ema::of(1)],
        };
        let row = |row: usize| columns.iter().map(move |c| c.is_valid(row).then(|| c.value(row)));
        Ok(match indicator {
            Indicator::LogReturn => {
                changes(columns[0], |before, now| (now > 0.0 && before > 0.0).then(|| now.ln() - before.ln()))
            }
            Indicator::SimpleReturn => {
                changes(columns[0], |before, now| (before != 0.0).then(|| now / before - 1.0))
            }
            Indicator::Delta => changes(columns[0], |before, now| Some(now - before)),
            Indicator::Ratio => changes(columns[0], |before, now| (before != 0.0).then(|| now / before)),
            Indicator::Drawdown => {
                let mut highest = f64::NEG_INFINITY;
                each(columns[0], |x| {
                    highest = highest.max(x);
                    (highest != 0.0).then(|| x / highest - 1.0)
                })
            }
            Indicator::Obv => {
                let (mut before, mut volume) = (None, 0.0);
                let found = (0..rows).map(|at| {
                    let [Some(price), Some(size)] = two(row(at)) else { return None };
                    let change = before.replace(price).map_or(0.0, |before| price - before);
                    volume += if change == 0.0 { 0.0 } else { size * change.signum() };
                    Some(volume)
                });
                Arc::new(found.collect::<Float64Array>())
            }
            Indicator::Rsi => {
                let mut before = None;
                each(columns[0], |x| {
                    let change = x - before.replace(x)?;
                    let (gain, loss) = (wilder[0].next(change.max(0.0)), wilder[1].next((-change).max(0.0)));
                    let (gain, loss) = (gain?, loss?);
                    (gain + loss != 0.0).then(|| 100.0 * gain / (gain + loss))
                })
            }
            Indicator::Atr => {
                let mut before: Option<f64> = None;
                let found = (0..rows).map(|at| {
                    let mut values = row(at);
                    let (high, low, close) = (values.next()??, values.next()??, values.next()??);
                    let range = before.replace(close).map_or(high - low, |before| {
                        (high - low).max((high - before).abs()).max((low - before).abs())
                    });
                    wilder[0].next(range)
                });
                Arc::new(found.collect::<Float64Array>())
            }
            Indicator::Macd => several(indicator, columns[0], |x| {
                let macd = emas[0].next(x) - emas[1].next(x);
                let signal = emas[2].next(macd);
                Some([macd, signal, macd - signal])
            }),
            Indicator::Bollinger => {
                let (periods, width) = (periods(0)?, parameters[1]);
                let mut last = VecDeque::with_capacity(periods);
                several(indicator, columns[0], |x| {
                    if last.len() == periods {
                        last.pop_front();
                    }
                    last.push_back(x);
                    let count = periods as f64;
                    let mean = last.iter().sum::<f64>() / count;
                    let squares: f64 = last.iter().map(|x| (x - mean) * (x - mean)).sum();
                    let apart = width * (squares / count).sqrt();
                    (last.len() == periods).then_some([mean, mean + apart, mean - apart])
                })
            }
            Indicator::Vpin => vpin(columns[0], columns[1], periods(0)?),
            Indicator::Ema => unreachable!("has its own arguments"),
        })
    }
}

/// The share of volume that was out of balance, over so many rows; NULL in fewer, and where there was none.
fn vpin(buys: &Float64Array, sells: &Float64Array, periods: usize) -> ArrayRef {
    let mut last = VecDeque::with_capacity(periods);
    let found = buys.iter().zip(sells).map(|(buys, sells)| {
        let (buys, sells) = (buys?, sells?);
        if last.len() == periods {
            last.pop_front();
        }
        last.push_back(((buys - sells).abs(), buys + sells));
        // Added anew for each row, so that no rounding stays.
        let (apart, volume) = last.iter().fold((0.0, 0.0), |(a, b), (apart, volume)| (a + apart, b + volume));
        (last.len() == periods && volume != 0.0).then(|| apart / volume)
    });
    Arc::new(found.collect::<Float64Array>())
}

fn two(mut values: impl Iterator<Item = Option<f64>>) -> [Option<f64>; 2] {
    [values.next().flatten(), values.next().flatten()]
}

/// Of each value and the one in the row before.
fn changes(values: &Float64Array, change: impl Fn(f64, f64) -> Option<f64>) -> ArrayRef {
    let at = |row: usize| values.is_valid(row).then(|| values.value(row));
    let change = |row: usize| change(at(row.checked_sub(1)?)?, at(row)?);
    Arc::new((0..values.len()).map(change).collect::<Float64Array>())
}

/// Of each value that is not NULL, in order.
fn each(values: &Float64Array, mut next: impl FnMut(f64) -> Option<f64>) -> ArrayRef {
    Arc::new(values.iter().map(|value| next(value?)).collect::<Float64Array>())
}

/// [`each`] where it gives several doubles.
fn several(
    indicator: Indicator,
    values: &Float64Array,
    mut next: impl FnMut(f64) -> Option<[f64; 3]>,
) -> ArrayRef {
    let found: Vec<Option<[f64; 3]>> = values.iter().map(|value| next(value?)).collect();
    let part = |at: usize| -> ArrayRef {
        Arc::new(found.iter().map(|found| found.map(|found| found[at])).collect::<Float64Array>())
    };
    let fields = match indicator.data_type() {
        DataType::Struct(fields) => fields,
        _ => Fields::empty(),
    };
    let nulls: NullBuffer = found.iter().map(Option::is_some).collect();
    Arc::new(StructArray::new(fields, vec![part(0), part(1), part(2)], Some(nulls)))
}

/// A parameter: the same in all rows.
fn constant(values: &ArrayRef, function: &str) -> Result<f64> {
    let values = values.as_primitive::<Float64Type>();
    match values.iter().next() {
        None => Ok(1.0),
        Some(Some(value)) if value > 0.0 && value.is_finite() => Ok(value),
        Some(value) => {
            exec_err!(
                "a parameter of {function} is a positive number, not {}",
                value.map_or("NULL".into(), |v| v.to_string())
            )
        }
    }
}

fn periods(value: f64, function: &str) -> Result<usize> {
    if value.fract() == 0.0 && value <= 1e6 {
        return Ok(value as usize);
    }
    exec_err!("{function} takes a whole number of rows up to 1,000,000, not {value}")
}

/// Wilder's mean.
struct Wilder {
    periods: usize,
    seen: usize,
    mean: f64,
}

impl Wilder {
    fn new(periods: usize) -> Self {
        Self { periods, seen: 0, mean: 0.0 }
    }

    fn next(&mut self, value: f64) -> Option<f64> {
        let count = self.periods as f64;
        self.seen += 1;
        if self.seen <= self.periods {
            self.mean += value / count;
        } else {
            self.mean = (self.mean * (count - 1.0) + value) / count;
        }
        (self.seen >= self.periods).then_some(self.mean)
    }
}

/// An exponential mean.
struct Ema {
    alpha: f64,
    mean: Option<f64>,
}

impl Ema {
    fn of(periods: usize) -> Self {
        Self { alpha: 2.0 / (periods as f64 + 1.0), mean: None }
    }

    fn next(&mut self, value: f64) -> f64 {
        let mean = self.mean.map_or(value, |mean| self.alpha * value + (1.0 - self.alpha) * mean);
        self.mean = Some(mean);
        mean
    }
}

/// The units of time that `ema` takes, as SAMPLE BY spells them.
const UNITS: [(&str, &str); 8] = [
    ("nanosecond", "1n"),
    ("microsecond", "1U"),
    ("millisecond", "1T"),
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("week", "1w"),
];

fn ema(values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [x, kind, parameter, times @ ..] = values else { return exec_err!("ema takes three arguments") };
    let x = x.as_primitive::<Float64Type>();
    let parameter = constant(parameter, "ema")?;
    let kind = kind.as_string::<i32>();
    let kind =
        if rows > 0 && kind.is_valid(0) { kind.value(0).to_ascii_lowercase() } else { "period".into() };
    let mut mean = Ema { alpha: parameter, mean: None };
    match kind.as_str() {
        "period" => mean.alpha = 2.0 / (parameter + 1.0),
        "alpha" if parameter <= 1.0 => {}
        "alpha" => return exec_err!("the alpha of ema lies between 0 and 1, not {parameter}"),
        unit => {
            let unit = unit.strip_suffix('s').unwrap_or(unit);
            let stride =
                UNITS.iter().find(|(name, _)| *name == unit).and_then(|(_, stride)| Stride::parse(stride));
            let Some(nanos) = stride.and_then(Stride::nanos) else {
                let units: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
                return exec_err!(
                    "ema takes 'period', 'alpha' or a unit of time ({}), not '{kind}'",
                    units.join(", ")
                );
            };
            let [times] = times else { return Err(super::first_last::without_time("ema by time")) };
            let times = super::first_last::time_values(times)?;
            let tau = parameter * nanos as f64;
            let mut before = None;
            let found = (0..rows).map(|row| {
                let (x, time) =
                    (x.is_valid(row).then(|| x.value(row))?, times.is_valid(row).then(|| times.value(row))?);
                let apart = before.replace(time).map_or(0.0, |before| time.saturating_sub(before) as f64);
                mean.alpha = 1.0 - (-apart / tau).exp();
                Some(mean.next(x))
            });
            return Ok(Arc::new(found.collect::<Float64Array>()));
        }
    }
    Ok(each(x, |x| Some(mean.next(x))))
}
