//! Scalar functions of instants:
//!
//! | function | definition |
//! |---|---|
//! | `timestamp_s(n)`, `timestamp_ms(n)`, `timestamp_us(n)`, `timestamp_ns(n)` | the instant n units after 1970 |
//! | `dateadd(unit, n, ts)` | `ts` moved by n units, spelled as in SAMPLE BY: months and years go by the calendar |
//! | `today()` | the start of the current day, UTC |
//!
//! and `haversine(lat1, lon1, lat2, lon2)`, the kilometres between two points given in degrees, on a sphere of radius
//! 6,371.0088 km (the IUGG's mean radius).

use chrono::{DateTime, Months};
use datafusion::arrow::array::{Array, AsArray, Float64Array, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::sync::Arc;

const DAY_NS: i64 = 86_400_000_000_000;
const EARTH_KM: f64 = 6_371.008_8;

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Instant {
    /// The name, and how many nanoseconds a unit has.
    Units(&'static str, i64),
    DateAdd,
    Today,
    Haversine,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct InstantFunction {
    of: Instant,
    signature: Signature,
}

impl InstantFunction {
    /// The functions of this file.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let units = [
            ("timestamp_s", 1_000_000_000),
            ("timestamp_ms", 1_000_000),
            ("timestamp_us", 1_000),
            ("timestamp_ns", 1),
        ];
        let units = units.into_iter().map(|(name, nanos)| {
            let signature = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
            Self { of: Instant::Units(name, nanos), signature }
        });
        let moved = vec![DataType::Utf8, DataType::Int64, instant()];
        let others = [
            Self { of: Instant::DateAdd, signature: Signature::exact(moved, Volatility::Immutable) },
            Self { of: Instant::Today, signature: Signature::nullary(Volatility::Stable) },
            Self {
                of: Instant::Haversine,
                signature: Signature::exact(vec![DataType::Float64; 4], Volatility::Immutable),
            },
        ];
        units.chain(others)
    }
}

impl ScalarUDFImpl for InstantFunction {
    fn name(&self) -> &str {
        match self.of {
            Instant::Units(name, _) => name,
            Instant::DateAdd => "dateadd",
            Instant::Today => "today",
            Instant::Haversine => "haversine",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(if self.of == Instant::Haversine { DataType::Float64 } else { instant() })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.of != Instant::Today {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let Some(now) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let now = now.timestamp_nanos_opt().ok_or_else(|| exec_datafusion_err!("the clock is past 2262"))?;
        let today = ScalarValue::TimestampNanosecond(Some(now.div_euclid(DAY_NS) * DAY_NS), None);
        Ok(ExprSimplifyResult::Simplified(lit(today)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let array: Arc<dyn Array> = match (self.of, arrays.as_slice()) {
            (Instant::Units(name, nanos), [counts]) => {
                let instants = counts.as_primitive::<Int64Type>().iter().map(|count| {
                    count.map(|count| {
                        count.checked_mul(nanos).ok_or_else(|| {
                            exec_datafusion_err!("{name}({count}) lies outside the years 1677 to 2262")
                        })
                    })
                });
                Arc::new(instants.map(Option::transpose).collect::<Result<TimestampNanosecondArray>>()?)
            }
            (Instant::DateAdd, [units, counts, instants]) => {
                let (units, counts) = (units.as_string::<i32>(), counts.as_primitive::<Int64Type>());
                let instants = instants.as_primitive::<TimestampNanosecondType>();
                let rows = (0..instants.len()).map(|row| {
                    let valid = units.is_valid(row) && counts.is_valid(row) && instants.is_valid(row);
                    valid.then(|| moved(units.value(row), counts.value(row), instants.value(row))).transpose()
                });
                Arc::new(rows.collect::<Result<TimestampNanosecondArray>>()?)
            }
            (Instant::Haversine, [a, b, c, d]) => {
                let of = [a, b, c, d].map(|values| values.as_primitive::<Float64Type>());
                let rows = (0..a.len()).map(|row| {
                    of.iter()
                        .all(|values| values.is_valid(row))
                        .then(|| kilometres(of.map(|values| values.value(row))))
                });
                Arc::new(rows.collect::<Float64Array>())
            }
            _ => return exec_err!("{} is not evaluated", self.name()),
        };
        if all_scalar && array.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// An instant moved by so many units.
fn moved(unit: &str, count: i64, instant: i64) -> Result<i64> {
    let outside =
        || exec_datafusion_err!("dateadd('{unit}', {count}, …) lies outside the years 1677 to 2262");
    let months = match unit {
        "M" => Some(1),
        "y" => Some(12),
        _ => None,
    };
    if let Some(months) = months {
        let from = DateTime::from_timestamp_nanos(instant);
        let months =
            count.checked_mul(months).and_then(|months| i32::try_from(months).ok()).ok_or_else(outside)?;
        let by = Months::new(months.unsigned_abs());
        let to = if months < 0 { from.checked_sub_months(by) } else { from.checked_add_months(by) };
        return to.and_then(|to| to.timestamp_nanos_opt()).ok_or_else(outside);
    }
    let nanos = match unit {
        "n" => 1,
        "u" | "U" => 1_000,
        "T" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => DAY_NS,
        "w" => 7 * DAY_NS,
        _ => {
            return exec_err!(
                "dateadd knows the units n, U (µs), T (ms), s, m, h, d, w, M (months) and y, not '{unit}'"
            );
        }
    };
    count.checked_mul(nanos).and_then(|by| instant.checked_add(by)).ok_or_else(outside)
}

fn kilometres([lat1, lon1, lat2, lon2]: [f64; 4]) -> f64 {
    let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
    let h = half(lat1, lat2) + lat1.to_radians().cos() * lat2.to_radians().cos() * half(lon1, lon2);
    2.0 * EARTH_KM * h.sqrt().min(1.0).asin()
}
