//! `date_trunc` of instants to units of one length, from nanoseconds to weeks, downwards on both sides of 1970.
//!
//! DataFusion 55.2 goes towards 1970 where the instant is a constant and the unit below a second, calculates with what
//! lies under a NULL, and wraps or panics at the first instants that there are. Longer units and other types are its own.

use super::handed_on::handed_on;
use crate::wanted;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

const NAME: &str = "date_trunc";

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// From 1970-01-01, a Thursday, to the Monday after.
const TO_MONDAY: i64 = 4 * DAY;

/// The functions as they are, `date_trunc` in this way.
pub(super) fn downwards(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let downwards = |function: Arc<ScalarUDF>| match function.name() {
        NAME => Arc::new(ScalarUDF::from(DateTrunc { inner: function })),
        _ => function,
    };
    functions.into_iter().map(downwards).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

/// The length of a unit in nanoseconds, and when one of them begins.
fn length_of(unit: &str) -> Option<(i64, i64)> {
    Some(match unit.to_lowercase().as_str() {
        "microsecond" => (1_000, 0),
        "millisecond" => (1_000_000, 0),
        "second" => (SECOND, 0),
        "minute" => (60 * SECOND, 0),
        "hour" => (3_600 * SECOND, 0),
        "day" => (DAY, 0),
        "week" => (7 * DAY, TO_MONDAY),
        _ => return None,
    })
}

fn floor(ns: i64, (length, begins): (i64, i64)) -> Option<i64> {
    // The remainder of the difference, which itself may not fit.
    let past = (ns.rem_euclid(length) - begins.rem_euclid(length)).rem_euclid(length);
    ns.checked_sub(past)
}

fn outside<T>(unit: &str) -> Result<T> {
    exec_err!("the {unit} begins before the first instant that a TIMESTAMP holds")
}

impl ScalarUDFImpl for DateTrunc {
    handed_on!(
        inner: name, aliases, signature, coerce_types, return_type, return_field_from_args, is_strict,
        simplify, properties, documentation
    );

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        wanted::look()?;
        let unit = match args.args.first() {
            Some(ColumnarValue::Scalar(unit)) => unit.try_as_str().flatten(),
            _ => None,
        };
        let length = unit.and_then(length_of);
        let (Some(unit), Some(length), [_, times]) = (unit, length, args.args.as_slice()) else {
            return self.inner.invoke_with_args(cleared(args));
        };
        match times {
            ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(ns), None)) => {
                match floor(*ns, length) {
                    Some(ns) => Ok(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(ns), None))),
                    None => outside(unit),
                }
            }
            ColumnarValue::Array(array)
                if *array.data_type() == DataType::Timestamp(TimeUnit::Nanosecond, None) =>
            {
                let times = array.as_primitive::<TimestampNanosecondType>();
                truncated(times, length)
                    .map_or_else(|| outside(unit), |array| Ok(ColumnarValue::Array(array)))
            }
            _ => self.inner.invoke_with_args(cleared(args)),
        }
    }
}

/// `None` where a unit begins before the first instant.
fn truncated(times: &TimestampNanosecondArray, length: (i64, i64)) -> Option<ArrayRef> {
    let least = i64::MIN + length.0;
    let first = times.values().iter().copied().min().unwrap_or_default();
    if first >= least {
        // Nothing can be outside, nor under a NULL.
        let ns: Vec<i64> = times.values().iter().map(|ns| floor(*ns, length).unwrap_or_default()).collect();
        return Some(Arc::new(TimestampNanosecondArray::new(ns.into(), times.nulls().cloned())));
    }
    let each = times.iter().map(|ns| match ns {
        Some(ns) => floor(ns, length).map(Some),
        None => Some(None),
    });
    let ns: Option<TimestampNanosecondArray> = each.collect();
    Some(Arc::new(ns?))
}

/// Times with 0 under their NULLs; anything else as it is.
fn cleared(args: ScalarFunctionArgs) -> ScalarFunctionArgs {
    let clear = |value: ColumnarValue| {
        let ColumnarValue::Array(array) = &value else { return value };
        let (Some(times), Some(nulls)) = (array.as_primitive_opt::<TimestampNanosecondType>(), array.nulls())
        else {
            return value;
        };
        let clear = |(ns, is_there): (&i64, bool)| if is_there { *ns } else { 0 };
        let ns: Vec<i64> = times.values().iter().zip(nulls).map(clear).collect();
        let zone = times.timezone().map(Arc::from);
        let times = TimestampNanosecondArray::new(ns.into(), Some(nulls.clone()));
        ColumnarValue::Array(Arc::new(times.with_timezone_opt::<Arc<str>>(zone)))
    };
    ScalarFunctionArgs { args: args.args.into_iter().map(clear).collect(), ..args }
}
