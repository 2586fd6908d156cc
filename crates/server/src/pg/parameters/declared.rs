//! Texts of parameters whose type the client has said: each is read as that type, or refused.

use super::{INVALID_TEXT, NoValue, OUT_OF_RANGE, of_text, times};
use crate::parameters::uuid;
use tickstone_query::arrow::datatypes::DataType;
use tickstone_query::{ParameterValue, array_elements};
use tickstone_wire::parse_uuid;

/// The value of its type that a text is.
///
/// # Errors
/// Where it is none.
pub(super) fn value(text: &str, data_type: &DataType) -> Result<ParameterValue, NoValue> {
    let trimmed = text.trim();
    Ok(match data_type {
        DataType::Int16 => whole(trimmed, i16::MIN.into(), i16::MAX.into())?,
        DataType::Int32 => whole(trimmed, i32::MIN.into(), i32::MAX.into())?,
        DataType::Int64 => whole(trimmed, i64::MIN.into(), i64::MAX.into())?,
        DataType::Float32 => ParameterValue::Float(float(trimmed, true)?),
        DataType::Float64 => ParameterValue::Float(float(trimmed, false)?),
        DataType::Timestamp(_, zone) => ParameterValue::Timestamp(times::instant(trimmed, zone.is_some())?),
        DataType::Date32 => ParameterValue::Date(times::date(trimmed)?),
        DataType::Time64(_) => ParameterValue::Time(times::time(trimmed)?),
        DataType::Duration(_) => ParameterValue::Duration(times::length(trimmed)?),
        DataType::FixedSizeBinary(16) => {
            let bytes = parse_uuid(trimmed.as_bytes()).ok_or_else(none)?;
            ParameterValue::Text(uuid(&bytes))
        }
        DataType::List(element) => {
            let elements = array_elements(trimmed).ok_or_else(none)?;
            let values = elements.iter().map(|text| match text {
                Some(text) => value(text, element.data_type()),
                None => Ok(ParameterValue::Null),
            });
            ParameterValue::List(values.collect::<Result<_, _>>()?)
        }
        other => match of_text(text, other) {
            Some(ParameterValue::Float(number)) if number.is_infinite() && is_digits(trimmed) => {
                return Err(too_large());
            }
            Some(value) => value,
            // A number of more digits than there are.
            None if matches!(other, DataType::Decimal128(..)) && trimmed.parse::<f64>().is_ok() => {
                return Err(too_large());
            }
            None => return Err(none()),
        },
    })
}

fn none() -> NoValue {
    (INVALID_TEXT, "it is not written as one".to_string())
}

fn too_large() -> NoValue {
    (OUT_OF_RANGE, "it is too large or too small".to_string())
}

fn whole(text: &str, least: i128, most: i128) -> Result<ParameterValue, NoValue> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(none());
    }
    let number = text.parse::<i128>().ok().filter(|number| (least..=most).contains(number));
    number.map(ParameterValue::Integer).ok_or_else(too_large)
}

/// A double; a `single` is one of four bytes.
fn float(text: &str, single: bool) -> Result<f64, NoValue> {
    let number: f64 = match single {
        true => text.parse::<f32>().map_err(|_| none())?.into(),
        false => text.parse().map_err(|_| none())?,
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let vanished = number == 0.0 && mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    match is_digits(text) && (number.is_infinite() || vanished) {
        true => Err(too_large()),
        false => Ok(number),
    }
}

/// Whether a number is written with digits, not as the word for an infinity or for none.
fn is_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}
