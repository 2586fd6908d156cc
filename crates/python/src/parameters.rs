//! Python values as parameters of statements.

use crate::error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use tickstone_query::{ParameterValue, Parameters};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// `datetime.date(1970, 1, 1).toordinal()`.
const EPOCH_ORDINAL: i32 = 719_163;

/// `None`, a sequence for `$1`, `$2`, … or a mapping for `:name`.
pub(crate) fn parameters(values: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(values) = values.filter(|values| !values.is_none()) else { return Ok(Parameters::None) };
    if let Ok(dict) = values.cast::<PyDict>() {
        let named = dict.iter().map(|(name, value)| Ok((name.extract()?, parameter(&value)?)));
        return named.collect::<PyResult<_>>().map(Parameters::Named);
    }
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>() {
        let hint = "put a single value into a list: [value]";
        return Err(error::request("parameters are a sequence or a mapping", Some(hint)));
    }
    let positional = values.try_iter()?.map(|value| parameter(&value?));
    positional.collect::<PyResult<_>>().map(Parameters::Positional)
}

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    if value.is_none() {
        return Ok(ParameterValue::Null);
    }
    // A bool is an int, a datetime a date: the narrower comes first.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(ParameterValue::Boolean(truth.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(ParameterValue::Float(number.value()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(ParameterValue::Text(text.to_str()?.to_string()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(ParameterValue::Bytes(bytes.as_bytes().to_vec()));
    }
    let class = value.get_type();
    let (module, name) = (class.module()?.to_string(), class.name()?.to_string());
    match (module.split('.').next().unwrap_or_default(), name.as_str()) {
        ("datetime", "datetime") => timestamp(value),
        ("pandas", "Timestamp") => Ok(ParameterValue::Timestamp(value.getattr("value")?.extract()?)),
        ("pandas", "NaTType" | "NAType") => Ok(ParameterValue::Null),
        ("pandas", "Timedelta") => Ok(ParameterValue::Duration(value.getattr("value")?.extract()?)),
        ("datetime", "date") => {
            let ordinal: i32 = value.call_method0("toordinal")?.extract()?;
            Ok(ParameterValue::Date(ordinal - EPOCH_ORDINAL))
        }
        ("datetime", "timedelta") => duration(value),
        ("decimal", "Decimal") => {
            let digits = value.call_method1("__format__", ("f",))?;
            Ok(ParameterValue::Decimal(digits.extract()?))
        }
        ("uuid", "UUID") => Ok(ParameterValue::Text(value.str()?.to_string())),
        ("numpy", "datetime64") => numpy_time(value, "datetime64[ns]").map(ParameterValue::Timestamp),
        ("numpy", "timedelta64") => numpy_time(value, "timedelta64[ns]").map(ParameterValue::Duration),
        ("numpy", "ndarray") => list(&value.call_method0("tolist")?),
        ("numpy", _) => parameter(&value.call_method0("item")?),
        _ if value.hasattr("__iter__")? => list(value),
        _ => {
            let message = format!("a {module}.{name} cannot be a parameter");
            Err(error::request(&message, Some("convert it to a number, a text or a datetime")))
        }
    }
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    match value.extract::<i64>() {
        Ok(number) => Ok(ParameterValue::Integer(i128::from(number))),
        Err(_) => match value.extract::<u64>() {
            Ok(number) => Ok(ParameterValue::Integer(i128::from(number))),
            Err(_) => Err(error::request("a parameter is beyond 64 bits", Some("hand it over as a Decimal"))),
        },
    }
}

/// Nanoseconds since the epoch of a `datetime`; one without a zone is UTC.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    let offset = value.call_method0("utcoffset")?;
    let offset_nanos = if offset.is_none() { 0 } else { duration_nanos(&offset)? };
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let days = i64::from(value.call_method0("toordinal")?.extract::<i32>()? - EPOCH_ORDINAL);
    let seconds = part("hour")? * 3_600 + part("minute")? * 60 + part("second")?;
    let nanos = seconds * 1_000_000_000 + part("microsecond")? * 1_000;
    let total = i128::from(days) * i128::from(NANOS_PER_DAY) + i128::from(nanos) - i128::from(offset_nanos);
    i64::try_from(total).map(ParameterValue::Timestamp).map_err(|_| {
        error::request(
            "a datetime is outside of what nanoseconds can say",
            Some("they reach from 1677 to 2262"),
        )
    })
}

fn duration(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    duration_nanos(value).map(ParameterValue::Duration)
}

fn duration_nanos(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
    let within = seconds * 1_000_000_000 + micros * 1_000;
    let total = days.checked_mul(NANOS_PER_DAY).and_then(|nanos| nanos.checked_add(within));
    total.ok_or_else(|| error::request("a timedelta is longer than 292 years", None))
}

fn numpy_time(value: &Bound<'_, PyAny>, unit: &str) -> PyResult<i64> {
    value.call_method1("astype", (unit,))?.call_method1("astype", ("int64",))?.call_method0("item")?.extract()
}

fn list(values: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    let values = values.try_iter()?.map(|value| parameter(&value?));
    values.collect::<PyResult<_>>().map(ParameterValue::List)
}
