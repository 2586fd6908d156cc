//! Values that come with a type of their own, into columns of any type that takes them without loss.

use super::{ColumnBuilder, Values};
use crate::Fault;
use crate::ilp::Value;
use crate::value::{is_no_decimal, parse_decimal};
use std::io::Write as _;
use tickstone_model::ColumnType;

impl ColumnBuilder {
    /// Adds a value of a field.
    ///
    /// Numbers go into columns of numbers that hold them; whole numbers and decimals into columns of doubles too,
    /// doubles into DECIMAL by their shortest digits, booleans into columns of numbers as 1 and 0; texts into SYMBOL,
    /// VARCHAR, BINARY, UUID, DECIMAL, DATE, TIME and TIMESTAMP, as they are written in CSV.
    pub(crate) fn push_value(&mut self, value: &Value<'_>) -> Result<(), Fault> {
        let conflict = Fault::Conflict { sent: value.kind(), wanted: self.column_type };
        match value {
            Value::Text(text) => match self.column_type {
                ColumnType::Symbol
                | ColumnType::Varchar
                | ColumnType::Binary
                | ColumnType::Uuid
                | ColumnType::Decimal { .. }
                | ColumnType::Date
                | ColumnType::Time
                | ColumnType::Timestamp => self.push(text),
                _ => Err(conflict),
            },
            Value::Boolean(value) => match &mut self.values {
                Values::Boolean(values) => {
                    values.push(*value);
                    Ok(())
                }
                _ => self.push_integer(i128::from(*value), conflict),
            },
            Value::Integer(value) => self.push_integer(i128::from(*value), conflict),
            Value::Unsigned(value) => self.push_integer(i128::from(*value), conflict),
            Value::Double(value, text) => self.push_double(*value, *text, conflict),
            Value::Decimal(text) => self.push_decimal(text, conflict),
            Value::Scaled { unscaled, scale } => match &self.values {
                Values::Decimal { .. } | Values::Float64(_) | Values::Float32(_) => {
                    let mut text = Digits::default();
                    text.write_scaled(*unscaled, *scale);
                    self.push_decimal(text.bytes(), conflict)
                }
                _ => Err(conflict),
            },
            Value::Time(nanos) => match &mut self.values {
                Values::Timestamp { values, .. } => {
                    values.push(*nanos);
                    Ok(())
                }
                _ => Err(conflict),
            },
            Value::Doubles(doubles) => match &mut self.values {
                Values::Array(lists) => lists.push_doubles(doubles, conflict),
                _ => Err(conflict),
            },
        }
    }

    fn push_integer(&mut self, value: i128, conflict: Fault) -> Result<(), Fault> {
        let (wanted, fits) = (self.column_type, ColumnType::Int64);
        let out_of_range = Fault::OutOfRange { wanted, fits };
        macro_rules! checked {
            ($values:expr, $number:ty) => {
                $values.push(<$number>::try_from(value).map_err(|_| out_of_range)?)
            };
        }
        macro_rules! exact {
            ($values:expr, $number:ty) => {{
                let number = value as $number;
                if number as i128 != value {
                    return Err(out_of_range);
                }
                $values.push(number);
            }};
        }
        match &mut self.values {
            Values::Int8(values) => checked!(values, i8),
            Values::Int16(values) => checked!(values, i16),
            Values::Int32(values) => checked!(values, i32),
            Values::Int64(values) => checked!(values, i64),
            Values::UInt8(values) => checked!(values, u8),
            Values::UInt16(values) => checked!(values, u16),
            Values::UInt32(values) => checked!(values, u32),
            Values::UInt64(values) => checked!(values, u64),
            Values::Float32(values) => exact!(values, f32),
            Values::Float64(values) => exact!(values, f64),
            Values::Decimal { .. } => {
                let mut text = Digits::default();
                text.write_scaled(value, 0);
                return self.push_decimal(text.bytes(), conflict);
            }
            // Of what unit is not said.
            Values::Timestamp { .. } => return Err(Fault::UnknownUnit),
            _ => return Err(conflict),
        }
        Ok(())
    }

    fn push_double(&mut self, value: f64, text: Option<&[u8]>, conflict: Fault) -> Result<(), Fault> {
        match &mut self.values {
            Values::Float64(values) => values.push(value),
            Values::Float32(values) => {
                if value.is_finite() && !(value as f32).is_finite() {
                    return Err(Fault::OutOfRange { wanted: ColumnType::Float32, fits: ColumnType::Float64 });
                }
                values.push(value as f32);
            }
            Values::Decimal { .. } => {
                let mut digits = Digits::default();
                let text = text.unwrap_or_else(|| {
                    digits.write_double(value);
                    digits.bytes()
                });
                return self.push_decimal(text, conflict);
            }
            _ => return Err(conflict),
        }
        Ok(())
    }

    fn push_decimal(&mut self, text: &[u8], conflict: Fault) -> Result<(), Fault> {
        if is_no_decimal(text) {
            // QuestDB's clients write NaN and infinities for decimals that are none.
            return self.push_null();
        }
        match &mut self.values {
            Values::Decimal { .. } | Values::Float64(_) | Values::Float32(_) => {}
            _ => return Err(conflict),
        }
        let (wanted, fits) = (self.column_type, ColumnType::Float64);
        match (&mut self.values, exponent(text)) {
            // An exponent moves the point.
            (Values::Decimal { values, precision, scale }, Some(_)) => {
                let mut digits = Digits::default();
                let plain = digits.write_plain(text).ok_or(Fault::OutOfRange { wanted, fits })?;
                let value = parse_decimal(plain, *precision, *scale);
                values.push(value.map_err(|_| Fault::OutOfRange { wanted, fits })?);
                Ok(())
            }
            _ => self.push(text),
        }
    }
}

fn exponent(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| matches!(byte, b'e' | b'E'))
}

/// Room for the digits of any number that a DECIMAL may hold, written without an allocation.
struct Digits {
    bytes: [u8; Digits::BYTES],
    length: usize,
}

impl Default for Digits {
    fn default() -> Self {
        Self { bytes: [0; Digits::BYTES], length: 0 }
    }
}

impl Digits {
    /// A double has up to 309 digits before the point, and one of 17 digits and an exponent of -324 as many after it.
    const BYTES: usize = 400;

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Writes what there is room for: what is longer is no DECIMAL either.
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let mut rest = &mut self.bytes[self.length..];
        let before = rest.len();
        let written = rest.write_fmt(text).is_ok();
        let left = if written { rest.len() } else { 0 };
        self.length += before - left;
    }

    /// The shortest digits that give the double back.
    fn write_double(&mut self, value: f64) {
        self.write(format_args!("{value}"));
    }

    fn write_scaled(&mut self, unscaled: i128, scale: u8) {
        self.write(format_args!("{unscaled}e-{scale}"));
    }

    /// A number with an exponent without one; `None` where it has too many digits.
    fn write_plain(&mut self, text: &[u8]) -> Option<&[u8]> {
        let at = exponent(text)?;
        let power = crate::value::parse_i64(&text[at + 1..]).ok()?;
        let (sign, number) = match text[..at].split_first()? {
            (b'-', rest) => (Some(b'-'), rest),
            (b'+', rest) => (None, rest),
            _ => (None, &text[..at]),
        };
        let point = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
        let fraction = number.get(point + 1..).unwrap_or_default();
        // How many of the digits stand before the point.
        let whole = i64::try_from(point).ok()?.checked_add(power)?;
        let digits = number[..point].iter().chain(fraction);
        let leading = usize::try_from(-whole.min(0)).ok()?;
        let trailing = usize::try_from(whole.max(0)).ok()?.saturating_sub(point + fraction.len());
        if leading > 100 || trailing > 100 || number.len() > 200 {
            // More than a DECIMAL holds, unless all digits are zeros.
            return digits.clone().all(|byte| *byte == b'0').then_some(b"0");
        }
        self.length = 0;
        let mut push = |byte: u8| {
            self.bytes[self.length] = byte;
            self.length += 1;
        };
        sign.into_iter().for_each(&mut push);
        let whole = usize::try_from(whole.max(0)).ok()?;
        if whole == 0 {
            b"0.".iter().copied().for_each(&mut push);
            std::iter::repeat_n(b'0', leading).for_each(&mut push);
            digits.copied().for_each(&mut push);
        } else {
            let zeros = std::iter::repeat_n(&b'0', trailing);
            for (index, digit) in digits.chain(zeros).enumerate() {
                if index == whole {
                    push(b'.');
                }
                push(*digit);
            }
        }
        Some(self.bytes())
    }
}
