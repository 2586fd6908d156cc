//! The parameters of a query as values of placeholders.

use tickstone_query::arrow::array::{Array, ArrayRef, AsArray};
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimestampNanosecondType,
};
use tickstone_query::{ParameterValue, Parameters, QueryError};

/// Values for `$1`, `$2`, …, each an array of one.
///
/// # Errors
/// Where one is of a type that no placeholder takes.
pub(super) fn parameters(arrays: &[ArrayRef]) -> Result<Parameters, QueryError> {
    if arrays.is_empty() {
        return Ok(Parameters::None);
    }
    let value = |(place, array): (usize, &ArrayRef)| {
        value(array, 0).map_err(|error| error.detail(format!("parameter ${}", place + 1)))
    };
    Ok(Parameters::Positional(arrays.iter().enumerate().map(value).collect::<Result<_, _>>()?))
}

fn value(array: &ArrayRef, row: usize) -> Result<ParameterValue, QueryError> {
    if array.is_null(row) {
        return Ok(ParameterValue::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => ParameterValue::Boolean(array.as_boolean().value(row)),
        of if of.is_integer() => {
            let numbers = cast(array, &DataType::Int64)?;
            ParameterValue::Integer(numbers.as_primitive::<Int64Type>().value(row).into())
        }
        of if of.is_floating() => {
            let numbers = cast(array, &DataType::Float64)?;
            ParameterValue::Float(numbers.as_primitive::<Float64Type>().value(row))
        }
        DataType::Decimal128(..) => {
            ParameterValue::Decimal(array.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Utf8 => ParameterValue::Text(array.as_string::<i32>().value(row).to_string()),
        DataType::FixedSizeBinary(16) => ParameterValue::Text(uuid(array.as_fixed_size_binary().value(row))),
        DataType::Binary => ParameterValue::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::Date32 => ParameterValue::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(..) => {
            ParameterValue::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            let elements = (0..elements.len()).map(|place| value(&elements, place));
            ParameterValue::List(elements.collect::<Result<_, _>>()?)
        }
        other => return Err(QueryError::request(format!("{other} is of a type that no placeholder takes"))),
    })
}

fn uuid(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let place = |start: usize, end: usize| digits.get(start..end).unwrap_or_default();
    [place(0, 8), place(8, 12), place(12, 16), place(16, 20), place(20, 32)].join("-")
}
