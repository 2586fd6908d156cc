//! Values of fields: what they are by their own looks, before they meet a column.

use super::scan::{Token, quoted, unquoted};
use crate::Fault;
use crate::value::{IntegerFault, is_no_decimal, is_number, parse_f64, parse_i64, parse_u64};
use tickstone_model::{ColumnType, ElementType};

/// The most dimensions QuestDB's arrays have; a table's have one.
const DIMENSIONS_MAX: usize = 32;

/// Types of binary values, as QuestDB's clients write them behind `==`.
mod binary {
    pub(super) const ARRAY: u8 = 14;
    pub(super) const DOUBLE: u8 = 16;
    pub(super) const DECIMAL: u8 = 23;
    /// The type of an array's elements.
    pub(super) const ELEMENT_DOUBLE: u8 = 10;
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Boolean(bool),
    /// `1i`.
    Integer(i64),
    /// `1u`.
    Unsigned(u64),
    /// A double, and its digits where it came as text.
    Double(f64, Option<&'a [u8]>),
    /// `1.50d`, without the letter.
    Decimal(&'a [u8]),
    /// A count of units of 10 to the power of minus `scale`.
    Scaled {
        unscaled: i128,
        scale: u8,
    },
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    /// Text, as it is after its escapes.
    Text(&'a [u8]),
    /// Little-endian doubles.
    Doubles(&'a [u8]),
}

impl Value<'_> {
    /// The type of a column that the value makes.
    ///
    /// A decimal makes QuestDB's default, DECIMAL(18, 3), with more digits where it has more.
    pub(super) fn column_type(&self) -> ColumnType {
        match self {
            Value::Boolean(_) => ColumnType::Boolean,
            Value::Integer(_) => ColumnType::Int64,
            Value::Unsigned(_) => ColumnType::UInt64,
            Value::Double(..) => ColumnType::Float64,
            Value::Decimal(text) => {
                let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
                decimal_of(point, text.len().saturating_sub(point + 1))
            }
            Value::Scaled { unscaled, scale } => {
                let digits = unscaled.unsigned_abs().checked_ilog10().map_or(1, |last| last as usize + 1);
                decimal_of(digits.saturating_sub(usize::from(*scale)), usize::from(*scale))
            }
            Value::Time(_) => ColumnType::Timestamp,
            Value::Text(_) => ColumnType::Varchar,
            Value::Doubles(_) => ColumnType::Array(ElementType::Float64),
        }
    }

    /// What it is, as in "is a whole number".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Boolean(_) => "a boolean",
            Value::Integer(_) | Value::Unsigned(_) => "a whole number",
            Value::Double(..) => "a double",
            Value::Decimal(_) | Value::Scaled { .. } => "a decimal",
            Value::Time(_) => "a timestamp",
            Value::Text(_) => "a text",
            Value::Doubles(_) => "an array",
        }
    }
}

/// DECIMAL(18, 3), or wider where so many digits stand before and after the point.
pub(crate) fn decimal_of(whole: usize, fraction: usize) -> ColumnType {
    let scale = fraction.clamp(3, 38);
    let precision = (whole.max(15) + scale).min(38);
    ColumnType::Decimal { precision: precision as u8, scale: scale as i8 }
}

/// Why there is no value.
#[derive(Debug)]
pub(super) enum NoValue {
    /// The bytes end before it does.
    Incomplete,
    /// It is none; up to where it was read, and why.
    Bad(usize, Fault),
}

/// The value at `at`, and where it ends. `scratch` holds a text with escapes.
pub(super) fn value<'a>(
    bytes: &'a [u8],
    at: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<(Value<'a>, usize), NoValue> {
    match bytes.get(at).ok_or(NoValue::Incomplete)? {
        b'"' => {
            let token = quoted(bytes, at + 1).ok_or(NoValue::Incomplete)?;
            Ok((Value::Text(token.text(bytes, scratch)), token.end + 1))
        }
        b'=' => binary_value(bytes, at + 1),
        _ => {
            let token = unquoted(bytes, at, is_value_end).ok_or(NoValue::Incomplete)?;
            let end = token.end;
            let bad = |what| NoValue::Bad(end, what);
            Ok((word(token, bytes).map_err(bad)?, end))
        }
    }
}

/// Whether a byte ends a value without quotes.
#[inline]
pub(super) fn is_value_end(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\n' | b'\r')
}

fn word(token: Token, bytes: &[u8]) -> Result<Value<'_>, Fault> {
    let text = token.raw(bytes);
    let not_a = Fault::Field { what: "is no value of a field: a text stands in quotes" };
    let Some((last, digits)) = text.split_last() else {
        return Err(Fault::Field { what: "is empty" });
    };
    let integer = |fault| match fault {
        IntegerFault::NotAnInteger => {
            Fault::Field { what: "is no value of a field: a text stands in quotes" }
        }
        IntegerFault::OutOfRange => Fault::Field { what: "has more digits than 64 bits hold" },
    };
    let is_digit = digits.last().is_some_and(u8::is_ascii_digit);
    match last {
        b'i' if digits.starts_with(b"0x") => {
            Err(Fault::Field { what: "is a LONG256, which no column can hold" })
        }
        b'i' if is_digit => parse_i64(digits).map(Value::Integer).map_err(integer),
        b'u' if is_digit => parse_u64(digits).map(Value::Unsigned).map_err(integer),
        b't' if is_digit => time(digits, 1_000),
        b'n' if is_digit => time(digits, 1),
        b'd' if is_digit || is_no_decimal(digits) => Ok(Value::Decimal(digits)),
        _ => match text {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => Ok(Value::Boolean(true)),
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => Ok(Value::Boolean(false)),
            _ => match parse_f64(text) {
                Some(value) => Ok(Value::Double(value, Some(text))),
                None if is_number(text) => Err(Fault::Field { what: "is past what a DOUBLE holds" }),
                None => Err(not_a),
            },
        },
    }
}

fn time<'a>(digits: &[u8], unit_ns: i64) -> Result<Value<'a>, Fault> {
    let count = parse_i64(digits).map_err(|_| Fault::Field { what: "is no timestamp" })?;
    count.checked_mul(unit_ns).map(Value::Time).ok_or(Fault::PastTime)
}

/// A binary value, whose type is at `at`.
fn binary_value(bytes: &[u8], at: usize) -> Result<(Value<'_>, usize), NoValue> {
    let byte = |at: usize| bytes.get(at).copied().ok_or(NoValue::Incomplete);
    let bad = |what| NoValue::Bad(at, Fault::Field { what });
    match byte(at)? {
        binary::DOUBLE => {
            let end = at + 9;
            let number = bytes.get(at + 1..end).ok_or(NoValue::Incomplete)?;
            let number = f64::from_le_bytes(number.try_into().unwrap_or_default());
            Ok((Value::Double(number, None), end))
        }
        binary::ARRAY => array(bytes, at),
        binary::DECIMAL => {
            let (scale, length) = (byte(at + 1)?, usize::from(byte(at + 2)?));
            let end = at + 3 + length;
            let digits = bytes.get(at + 3..end).ok_or(NoValue::Incomplete)?;
            let unscaled = signed(digits).ok_or(bad("is a decimal of more than 38 digits"))?;
            Ok((Value::Scaled { unscaled, scale }, end))
        }
        _ => Err(bad(
            "is a binary value of a type that is not known: QuestDB's are 14 (array), 16 (double) and 23 (decimal)",
        )),
    }
}

fn array(bytes: &[u8], at: usize) -> Result<(Value<'_>, usize), NoValue> {
    let byte = |at: usize| bytes.get(at).copied().ok_or(NoValue::Incomplete);
    let bad = |what| NoValue::Bad(at, Fault::Field { what });
    let (element, dimensions) = (byte(at + 1)?, usize::from(byte(at + 2)?));
    if element != binary::ELEMENT_DOUBLE {
        return Err(bad("is an array of something else than doubles"));
    }
    if dimensions == 0 || dimensions > DIMENSIONS_MAX {
        return Err(bad("is an array without dimensions or of more than 32"));
    }
    let start = at + 3 + 4 * dimensions;
    let shape = bytes.get(at + 3..start).ok_or(NoValue::Incomplete)?;
    let (lengths, _) = shape.as_chunks::<4>();
    let lengths = lengths.iter().map(|length| u32::from_le_bytes(*length) as usize);
    let elements = lengths.clone().try_fold(1_usize, usize::checked_mul);
    let length = elements.and_then(|elements| elements.checked_mul(8));
    let length = length.filter(|length| *length <= crate::RECORD_BYTES_MAX);
    let length = length.ok_or_else(|| bad("is an array of more than 16 MB"))?;
    if dimensions > 1 {
        return Err(bad("is an array of several dimensions; a table's have one"));
    }
    let elements = bytes.get(start..start + length).ok_or(NoValue::Incomplete)?;
    Ok((Value::Doubles(elements), start + length))
}

/// A big-endian number in two's complement, where it fits.
fn signed(digits: &[u8]) -> Option<i128> {
    let fill = if digits.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
    let (extra, digits) = digits.split_at(digits.len().saturating_sub(16));
    let mut number = [fill; 16];
    number[16 - digits.len()..].copy_from_slice(digits);
    let number = i128::from_be_bytes(number);
    let same_sign = (number < 0) == (fill == 0xff);
    (same_sign && extra.iter().all(|byte| *byte == fill)).then_some(number)
}
