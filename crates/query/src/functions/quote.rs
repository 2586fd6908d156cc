//! Scalar functions of a quote, all of doubles; NULL where an argument is or a divisor is 0.
//!
//! | function | definition |
//! |---|---|
//! | `mid(bid, ask)` | (bid + ask) / 2 |
//! | `spread(bid, ask)` | ask − bid |
//! | `spread_bps(bid, ask)` | (ask − bid) / mid · 10⁴ |
//! | `wmid(bid_size, bid, ask, ask_size)` | ask·I + bid·(1 − I), I = bid_size / (bid_size + ask_size) |
//! | `imbalance(bid_size, ask_size)` | (bid_size − ask_size) / (bid_size + ask_size) |

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Quote {
    Mid,
    Spread,
    SpreadBps,
    WeightedMid,
    Imbalance,
}

impl Quote {
    pub(crate) const ALL: [Quote; 5] =
        [Quote::Mid, Quote::Spread, Quote::SpreadBps, Quote::WeightedMid, Quote::Imbalance];

    fn name(self) -> &'static str {
        match self {
            Quote::Mid => "mid",
            Quote::Spread => "spread",
            Quote::SpreadBps => "spread_bps",
            Quote::WeightedMid => "wmid",
            Quote::Imbalance => "imbalance",
        }
    }

    fn width(self) -> usize {
        if self == Quote::WeightedMid { 4 } else { 2 }
    }

    /// The value for one row's arguments; not finite where a divisor is 0.
    fn value(self, a: f64, b: f64, c: f64, d: f64) -> Option<f64> {
        let divide = |x: f64, y: f64| (y != 0.0).then(|| x / y);
        match self {
            Quote::Mid => Some((a + b) / 2.0),
            Quote::Spread => Some(b - a),
            Quote::SpreadBps => divide((b - a) * 10_000.0, (a + b) / 2.0),
            Quote::WeightedMid => {
                let share = divide(a, a + d)?;
                Some(c * share + b * (1.0 - share))
            }
            Quote::Imbalance => divide(a - b, a + b),
        }
    }
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct QuoteFunction {
    quote: Quote,
    signature: Signature,
}

impl QuoteFunction {
    pub(crate) fn new(quote: Quote) -> Self {
        let signature = Signature::exact(vec![DataType::Float64; quote.width()], Volatility::Immutable);
        Self { quote, signature }
    }
}

impl ScalarUDFImpl for QuoteFunction {
    fn name(&self) -> &str {
        self.quote.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let columns: Vec<&Float64Array> = arrays.iter().map(|a| a.as_primitive::<Float64Type>()).collect();
        let rows = arrays.first().map_or(0, |a| a.len());
        let result: Float64Array = match columns.as_slice() {
            [a, b] => (0..rows)
                .map(|row| {
                    let valid = a.is_valid(row) && b.is_valid(row);
                    if valid { self.quote.value(a.value(row), b.value(row), 0.0, 0.0) } else { None }
                })
                .collect(),
            [a, b, c, d] => (0..rows)
                .map(|row| {
                    let valid = columns.iter().all(|column| column.is_valid(row));
                    let value = || self.quote.value(a.value(row), b.value(row), c.value(row), d.value(row));
                    if valid { value() } else { None }
                })
                .collect(),
            other => {
                return datafusion::common::exec_err!("{} got {} arguments", self.quote.name(), other.len());
            }
        };
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if all_scalar && rows == 1 {
            let value = result.is_valid(0).then(|| result.value(0));
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::Float64(value)));
        }
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}
