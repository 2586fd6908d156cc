//! Values of placeholders as a row that goes to a server.

use crate::error;
use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationNanosecondArray,
    Float64Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray, Time64NanosecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::concat;
use pyo3::PyResult;
use std::collections::HashSet;
use std::sync::Arc;
use tickstone_query::dialect::Statement;
use tickstone_query::{ParameterValue, Parameters, QueryError};

/// The row of the values that a statement uses, `None` where it uses none: columns `$1` or `name`.
///
/// # Errors
/// Where a value cannot go there.
pub(super) fn row(parameters: &Parameters, statement: &Statement) -> PyResult<Option<RecordBatch>> {
    // Nothing is bound, so nothing can be wrong.
    let used = Parameters::Unbound.bind_some(&mut [statement.clone()]).unwrap_or_default();
    let values: Vec<(String, &ParameterValue)> = match parameters {
        Parameters::Positional(values) => {
            let numbered = values.iter().enumerate().map(|(place, value)| (place + 1, value));
            numbered
                .filter(|(place, _)| used.contains(&place.to_string()))
                .map(|(place, value)| (format!("${place}"), value))
                .collect()
        }
        Parameters::Named(values) => named(values, &used),
        Parameters::None | Parameters::Unbound => Vec::new(),
    };
    if values.is_empty() {
        return Ok(None);
    }
    let cannot = |name: &str| error::request(&format!("the value of {name} cannot go to a server"), None);
    let mut fields = Vec::with_capacity(values.len());
    let mut columns = Vec::with_capacity(values.len());
    for (name, value) in values {
        let column = array(value).ok_or_else(|| cannot(&name))?;
        fields.push(Field::new(name, column.data_type().clone(), true));
        columns.push(column);
    }
    let row = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    row.map(Some).map_err(|failed| error::of_query(&QueryError::from(failed), None))
}

fn named<'a>(
    values: &'a std::collections::HashMap<String, ParameterValue>,
    used: &HashSet<String>,
) -> Vec<(String, &'a ParameterValue)> {
    values
        .iter()
        .filter(|(name, _)| used.contains(*name))
        .map(|(name, value)| (name.clone(), value))
        .collect()
}

/// A value as an array of one; `None` where none is like it.
fn array(value: &ParameterValue) -> Option<ArrayRef> {
    Some(match value {
        ParameterValue::Null | ParameterValue::NullOf(_) | ParameterValue::Open => {
            Arc::new(NullArray::new(1))
        }
        ParameterValue::Boolean(truth) => Arc::new(BooleanArray::from(vec![*truth])),
        ParameterValue::Integer(number) => match i64::try_from(*number) {
            Ok(number) => Arc::new(Int64Array::from(vec![number])),
            Err(_) => Arc::new(UInt64Array::from(vec![u64::try_from(*number).ok()?])),
        },
        ParameterValue::Float(number) => Arc::new(Float64Array::from(vec![*number])),
        ParameterValue::Decimal(digits) => Arc::new(decimal(digits)?),
        ParameterValue::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        ParameterValue::Bytes(bytes) => Arc::new(BinaryArray::from(vec![bytes.as_slice()])),
        ParameterValue::Timestamp(nanos) => Arc::new(TimestampNanosecondArray::from(vec![*nanos])),
        ParameterValue::Date(days) => Arc::new(Date32Array::from(vec![*days])),
        ParameterValue::Time(nanos) => Arc::new(Time64NanosecondArray::from(vec![*nanos])),
        ParameterValue::Duration(nanos) => Arc::new(DurationNanosecondArray::from(vec![*nanos])),
        ParameterValue::List(values) => Arc::new(list(values)?),
    })
}

/// Digits with exactly the places they have.
fn decimal(digits: &str) -> Option<Decimal128Array> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    Decimal128Array::from(vec![unscaled]).with_precision_and_scale(Decimal128Type::MAX_PRECISION, scale).ok()
}

/// Values of one type, or of numbers that one type holds, NULLs among them.
fn list(values: &[ParameterValue]) -> Option<ListArray> {
    let arrays = values.iter().map(array).collect::<Option<Vec<_>>>()?;
    let types: Vec<&DataType> =
        arrays.iter().map(|array| array.data_type()).filter(|of| **of != DataType::Null).collect();
    let common = match types.as_slice() {
        [] => DataType::Null,
        [first, rest @ ..] if rest.iter().all(|other| other == first) => (*first).clone(),
        all if all.iter().all(|of| of.is_integer()) => DataType::Decimal128(20, 0),
        all if all.iter().all(|of| of.is_integer() || of.is_floating()) => DataType::Float64,
        all if all.iter().all(|of| of.is_integer() || matches!(of, DataType::Decimal128(..))) => {
            let scales = all.iter().filter_map(|of| match of {
                DataType::Decimal128(_, scale) => Some(*scale),
                _ => None,
            });
            DataType::Decimal128(Decimal128Type::MAX_PRECISION, scales.max()?)
        }
        _ => return None,
    };
    let arrays =
        arrays.iter().map(|array| arrow_cast::cast(array, &common).ok()).collect::<Option<Vec<_>>>()?;
    let items = match arrays.is_empty() {
        true => arrow_array::new_empty_array(&common),
        false => concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>()).ok()?,
    };
    let field = Arc::new(Field::new_list_field(common, true));
    ListArray::try_new(field, OffsetBuffer::from_lengths([items.len()]), items, None).ok()
}
