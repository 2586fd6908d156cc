//! Values that a client binds to placeholders, in text or binary, as values of statements.

mod declared;
mod times;

use super::error::Fault;
use super::types;
use crate::parameters::uuid;
use bytes::{Buf, Bytes};
use pgwire::api::Type;
use std::fmt::Write;
use tickstone_query::arrow::datatypes::DataType;
use tickstone_query::{ParameterValue, array_elements, parse_bytes};

/// Microseconds from 1970 to 2000, where PostgreSQL begins.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;
const INVALID_TEXT: &str = "22P02";
const INVALID_BINARY: &str = "22P03";
const OUT_OF_RANGE: &str = "22003";

/// What stands at a place of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// From 1.
    pub(super) place: usize,
    /// The number of the type that the client said; 0 where it said none.
    pub(super) oid: u32,
    /// That type, or that of what the parameter meets.
    pub(super) data_type: &'a DataType,
}

/// The value of a parameter.
///
/// # Errors
/// Where it is no value of its type, or binary of a type that is not known.
pub(super) fn value(
    bytes: Option<&Bytes>,
    wanted: Wanted<'_>,
    binary: bool,
) -> Result<ParameterValue, Fault> {
    let Some(bytes) = bytes else { return Ok(ParameterValue::Null) };
    let Wanted { place, oid, data_type } = wanted;
    if binary {
        if let Some(name) = types::unknown(oid) {
            let what = format!("parameter ${place} is {name} in binary, which is not known");
            return Err(Fault::new("0A000", what).hint("send it as text"));
        }
        let mut bytes = bytes.clone();
        let read = match oid == Type::JSONB.oid() {
            true => json(&mut bytes).and_then(|()| of_binary(&mut bytes, data_type)),
            false => of_binary(&mut bytes, data_type),
        };
        return read.map_err(|(code, what)| {
            let name = tickstone_query::type_name(data_type);
            Fault::new(code, format!("parameter ${place} is no {name}: {what}"))
        });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Fault::new("22021", format!("parameter ${place} is no UTF-8")))?;
    let read = match types::of_oid(oid) {
        Some(_) => declared::value(text, data_type),
        None => of_text(text, data_type).ok_or((INVALID_TEXT, String::new())),
    };
    read.map_err(|(code, what)| {
        let name = tickstone_query::type_name(data_type);
        let colon = if what.is_empty() { "" } else { ": " };
        Fault::new(code, format!("'{text}', the value of ${place}, is no {name}{colon}{what}"))
    })
}

/// Takes the version off that JSON has in binary.
fn json(bytes: &mut Bytes) -> Result<(), NoValue> {
    match bytes.first() {
        Some(1) => {
            bytes.advance(1);
            Ok(())
        }
        _ => Err((INVALID_BINARY, "it is not of version 1".to_string())),
    }
}

/// The value that a text is whose type the client has not said; `None` where it is none of the type.
fn of_text(text: &str, data_type: &DataType) -> Option<ParameterValue> {
    let trimmed = text.trim();
    Some(match data_type {
        DataType::Boolean => ParameterValue::Boolean(match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => true,
            "f" | "false" | "n" | "no" | "off" | "0" => false,
            _ => return None,
        }),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt32
        | DataType::UInt64 => ParameterValue::Integer(trimmed.parse().ok()?),
        DataType::Float32 | DataType::Float64 => ParameterValue::Float(trimmed.parse().ok()?),
        DataType::Decimal128(..) => decimal(trimmed)?,
        DataType::Binary => ParameterValue::Bytes(parse_bytes(text)?.into_owned()),
        DataType::List(element) => {
            let elements = array_elements(trimmed)?;
            let values = elements.iter().map(|element_text| match element_text {
                Some(text) => of_text(text, element.data_type()),
                None => Some(ParameterValue::Null),
            });
            ParameterValue::List(values.collect::<Option<_>>()?)
        }
        // A type without a zone has no use for one, as PostgreSQL has it; drivers send theirs all the same.
        DataType::Timestamp(_, None) | DataType::Date32 => {
            ParameterValue::Text(without_zone(trimmed).to_string())
        }
        // Times, UUIDs and texts are read as what they meet.
        _ => ParameterValue::Text(text.to_string()),
    })
}

/// A time without the offset at its end: `2024-08-08 09:30:00+02`.
fn without_zone(text: &str) -> &str {
    // The day has signs of its own.
    let after_day = text.char_indices().skip(10);
    let offset = after_day.into_iter().find(|(_, c)| matches!(c, '+' | '-'));
    offset.map_or(text, |(at, _)| text[..at].trim_end())
}

/// Digits, or a double where there are more than a decimal has, or none: NaN.
fn decimal(text: &str) -> Option<ParameterValue> {
    let plain = tickstone_query::without_exponent(text)?;
    let text = plain.as_ref();
    let digits = text.trim_start_matches(['-', '+']);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match plain && digits.bytes().filter(u8::is_ascii_digit).count() <= 38 {
        true => Some(ParameterValue::Decimal(text.to_string())),
        false => text.parse().ok().map(ParameterValue::Float),
    }
}

/// Why bytes are no value: the state and the reason.
pub(super) type NoValue = (&'static str, String);

fn of_binary(bytes: &mut Bytes, data_type: &DataType) -> Result<ParameterValue, NoValue> {
    Ok(match data_type {
        DataType::Boolean => ParameterValue::Boolean(fixed::<1>(bytes)?[0] != 0),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::UInt32 => {
            ParameterValue::Integer(i128::from(integer(bytes)?))
        }
        DataType::Float32 | DataType::Float64 => ParameterValue::Float(float(bytes)?),
        DataType::UInt64 | DataType::Decimal128(..) => {
            let text = numeric(bytes)?;
            decimal(&text).ok_or_else(|| (INVALID_BINARY, format!("{text} is no number")))?
        }
        DataType::Timestamp(..) => ParameterValue::Timestamp(timestamp(bytes)?),
        DataType::Date32 => ParameterValue::Date(date(bytes)?),
        DataType::Time64(_) => ParameterValue::Time(i64::from_be_bytes(fixed(bytes)?).saturating_mul(1_000)),
        DataType::Duration(_) | DataType::Interval(_) => ParameterValue::Duration(interval(bytes)?),
        DataType::FixedSizeBinary(16) => ParameterValue::Text(uuid(&fixed::<16>(bytes)?)),
        DataType::Binary => ParameterValue::Bytes(std::mem::take(bytes).to_vec()),
        DataType::List(element) => {
            let values = array(bytes)?.into_iter().map(|value| match value {
                Some(mut value) => of_binary(&mut value, element.data_type()),
                None => Ok(ParameterValue::Null),
            });
            ParameterValue::List(values.collect::<Result<_, _>>()?)
        }
        _ => ParameterValue::Text(text(bytes)?),
    })
}

/// So many bytes, all there are.
pub(super) fn fixed<const N: usize>(bytes: &Bytes) -> Result<[u8; N], NoValue> {
    let found = <[u8; N]>::try_from(bytes.as_ref());
    found.map_err(|_| (INVALID_BINARY, format!("it has {} bytes, not {N}", bytes.len())))
}

/// A whole number of 2, 4 or 8 bytes.
pub(super) fn integer(bytes: &Bytes) -> Result<i64, NoValue> {
    Ok(match bytes.len() {
        2 => i64::from(i16::from_be_bytes(fixed(bytes)?)),
        4 => i64::from(i32::from_be_bytes(fixed(bytes)?)),
        _ => i64::from_be_bytes(fixed(bytes)?),
    })
}

/// A number of 4 or 8 bytes.
pub(super) fn float(bytes: &Bytes) -> Result<f64, NoValue> {
    Ok(match bytes.len() {
        4 => f64::from(f32::from_be_bytes(fixed(bytes)?)),
        _ => f64::from_be_bytes(fixed(bytes)?),
    })
}

pub(super) fn text(bytes: &Bytes) -> Result<String, NoValue> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ("22021", "it is no UTF-8".to_string()))
}

/// Microseconds since 2000 as nanoseconds since 1970.
pub(super) fn timestamp(bytes: &Bytes) -> Result<i64, NoValue> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    let nanos = micros.checked_add(EPOCH_MICROS).and_then(|micros| micros.checked_mul(1_000));
    nanos.ok_or_else(times::out_of_years)
}

/// Days since 2000 as days since 1970.
pub(super) fn date(bytes: &Bytes) -> Result<i32, NoValue> {
    Ok(match i32::from_be_bytes(fixed(bytes)?) {
        i32::MIN => times::FIRST_DAY,
        i32::MAX => times::LAST_DAY,
        days => days.saturating_add(EPOCH_DAYS),
    })
}

/// Nanoseconds of an interval without months.
fn interval(bytes: &mut Bytes) -> Result<i64, NoValue> {
    let all = fixed::<16>(bytes)?;
    let mut rest = &all[..];
    let (micros, days, months) = (rest.get_i64(), rest.get_i32(), rest.get_i32());
    if months != 0 {
        return Err(("0A000", "months have no length: say days".to_string()));
    }
    let nanos = i64::from(days).checked_mul(86_400_000_000).and_then(|days| days.checked_add(micros));
    nanos.and_then(|micros| micros.checked_mul(1_000)).ok_or_else(times::too_long)
}

/// A number in groups of four digits as text.
pub(super) fn numeric(bytes: &mut Bytes) -> Result<String, NoValue> {
    let wrong = |what: &str| (INVALID_BINARY, what.to_string());
    if bytes.len() < 8 {
        return Err(wrong("it is too short"));
    }
    let (count, weight) = (usize::from(bytes.get_u16()), i64::from(bytes.get_i16()));
    let (sign, scale) = (bytes.get_u16(), usize::from(bytes.get_u16()));
    if sign == 0xC000 {
        return Ok("NaN".to_string());
    }
    if bytes.len() != count * 2 {
        return Err(wrong("its digits are not as many as it says"));
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    // The group of a weight; those beside the ones sent are zero.
    let group =
        |of: i64| usize::try_from(weight - of).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut text = String::new();
    if sign == 0x4000 {
        text.push('-');
    }
    let _ = write!(text, "{}", group(weight.max(0)));
    for of in (0..weight.max(0)).rev() {
        let _ = write!(text, "{:04}", group(of));
    }
    if scale > 0 {
        text.push('.');
        let start = text.len();
        for of in 1..=i64::try_from(scale.div_ceil(4)).unwrap_or(0) {
            let _ = write!(text, "{:04}", group(-of));
        }
        text.truncate(start + scale);
    }
    Ok(text)
}

/// The elements of an array of one dimension.
pub(super) fn array(bytes: &mut Bytes) -> Result<Vec<Option<Bytes>>, NoValue> {
    let wrong = |what: &str| (INVALID_BINARY, what.to_string());
    if bytes.len() < 12 {
        return Err(wrong("it is too short"));
    }
    let dimensions = bytes.get_i32();
    bytes.advance(8);
    match dimensions {
        0 => return Ok(Vec::new()),
        1 if bytes.len() >= 8 => {}
        _ => return Err(wrong("arrays have one dimension")),
    }
    let count = usize::try_from(bytes.get_i32()).map_err(|_| wrong("its length is negative"))?;
    bytes.advance(4);
    // Each element has a length of four bytes.
    if count > bytes.len() / 4 {
        return Err(wrong("it is longer than what came"));
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        if bytes.len() < 4 {
            return Err(wrong("it ends within an element"));
        }
        elements.push(match usize::try_from(bytes.get_i32()) {
            Err(_) => None,
            Ok(length) if length <= bytes.len() => Some(bytes.split_to(length)),
            Ok(_) => return Err(wrong("it ends within an element")),
        });
    }
    Ok(elements)
}

#[cfg(test)]
mod tests;
