//! Python values as parameters of statements.

use crate::error;
use crate::rows::{self, decimal_class};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDict, PyFloat, PyInt, PyList, PyString};
use tickstone_query::{ParameterValue, Parameters};

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

/// A value as `tickstone.scalars.plain` leaves it.
fn parameter(value: &Bound<'_, PyAny>) -> PyResult<ParameterValue> {
    if value.is_none() {
        return Ok(ParameterValue::Null);
    }
    if let Some(own) = own(value)? {
        return Ok(own);
    }
    // A bool is an int: the narrower comes first.
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
    if let Ok(date) = value.cast::<PyDate>() {
        let ordinal: i32 = date.call_method0("toordinal")?.extract()?;
        return Ok(ParameterValue::Date(ordinal - EPOCH_ORDINAL));
    }
    if let Ok(values) = value.cast::<PyList>() {
        let values = values.iter().map(|value| parameter(&value));
        return values.collect::<PyResult<_>>().map(ParameterValue::List);
    }
    if value.is_instance(&decimal_class(value.py())?)? {
        let digits = value.call_method1("__format__", ("f",))?;
        return Ok(ParameterValue::Decimal(digits.extract()?));
    }
    let class = value.get_type();
    let message = format!("a {}.{} cannot be a parameter", class.module()?, class.name()?);
    Err(error::request(&message, Some("convert it to a number, a text or a datetime")))
}

/// A value of a class of `tickstone.scalars`.
fn own(value: &Bound<'_, PyAny>) -> PyResult<Option<ParameterValue>> {
    let class = value.get_type();
    if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyString>() {
        return Ok(None);
    }
    if class.module()?.to_str()? != "tickstone.scalars" {
        return Ok(None);
    }
    Ok(Some(match class.name()?.to_str()? {
        "Instant" => ParameterValue::Timestamp(value.extract()?),
        "Length" => ParameterValue::Duration(value.extract()?),
        "TimeOfDay" => ParameterValue::Time(value.extract()?),
        _ => ParameterValue::Text(rows::uuid(value.py(), &value.extract::<Vec<u8>>()?)?.str()?.to_string()),
    }))
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
