//! Rows of the binary format: a signature, rows of fields with their lengths, and an end.

use super::super::parameters::{NoValue, array, date, fixed, float, integer, numeric, text, timestamp};
use super::fill::Builder;
use crate::parameters::uuid;
use bytes::{Buf, Bytes, BytesMut};
use tickstone_query::arrow::datatypes::DataType;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The fields of a row; `None` is NULL.
pub(super) type Tuple = Vec<Option<Bytes>>;

/// Cuts rows out of bytes that come in pieces.
#[derive(Debug, Default)]
pub(super) struct Binary {
    pending: BytesMut,
    begun: bool,
    ended: bool,
}

impl Binary {
    pub(super) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Takes bytes, and hands each row that is whole to `each`.
    ///
    /// # Errors
    /// Where they are no rows, and those of `each`.
    pub(super) fn push<E: From<String>>(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(&mut Tuple) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.ended {
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        if !self.begun && !self.begin().map_err(E::from)? {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.pending).freeze();
        let mut tuple = Tuple::new();
        while !self.ended {
            let mut rest = all.clone();
            match self.row(&mut rest, &mut tuple).map_err(E::from)? {
                true => {
                    if !self.ended {
                        each(&mut tuple)?;
                    }
                    all = rest;
                }
                false => break,
            }
        }
        self.pending = BytesMut::from(all);
        Ok(())
    }

    /// # Errors
    /// Where a row has not ended.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self.pending.is_empty() || self.ended {
            true => Ok(()),
            false => Err("the data ends within it".to_string()),
        }
    }

    /// Reads the header; whether all of it is there.
    fn begin(&mut self) -> Result<bool, String> {
        let known = self.pending.len().min(SIGNATURE.len());
        if self.pending[..known] != SIGNATURE[..known] {
            return Err("the data does not begin as binary COPY does".to_string());
        }
        if self.pending.len() < SIGNATURE.len() + 8 {
            return Ok(false);
        }
        let mut rest = &self.pending[SIGNATURE.len()..];
        let (flags, extension) = (rest.get_u32(), rest.get_u32() as usize);
        if flags & 0xFFFF_0000 != 0 {
            return Err("its flags ask for what is not known (OIDs, say)".to_string());
        }
        let length = SIGNATURE.len() + 8 + extension;
        if self.pending.len() < length {
            return Ok(false);
        }
        self.pending.advance(length);
        self.begun = true;
        Ok(true)
    }

    /// Reads a row; whether all of it is there.
    fn row(&mut self, rest: &mut Bytes, tuple: &mut Tuple) -> Result<bool, String> {
        if rest.len() < 2 {
            return Ok(false);
        }
        let count = rest.get_i16();
        if count < 0 {
            self.ended = true;
            return Ok(true);
        }
        tuple.clear();
        for _ in 0..count {
            if rest.len() < 4 {
                return Ok(false);
            }
            tuple.push(match usize::try_from(rest.get_i32()) {
                Err(_) => None,
                Ok(length) if length <= rest.len() => Some(rest.split_to(length)),
                Ok(_) => return Ok(false),
            });
        }
        Ok(true)
    }
}

/// Adds a value to a column.
///
/// # Errors
/// Where it is none of its type.
pub(super) fn push(column: &mut Builder, value: Option<Bytes>) -> Result<(), NoValue> {
    macro_rules! typed {
        ($builder:expr, $value:expr) => {
            match value {
                #[allow(clippy::redundant_closure_call, reason = "one form for all types")]
                Some(bytes) => $builder.append_value($value(bytes)?),
                None => $builder.append_null(),
            }
        };
    }
    match column {
        Builder::Text(builder) => typed!(builder, |bytes: Bytes| text(&bytes)),
        Builder::Bytes(builder) => typed!(builder, |bytes: Bytes| Ok::<_, NoValue>(bytes)),
        Builder::Bool(builder) => typed!(builder, |bytes: Bytes| fixed::<1>(&bytes).map(|byte| byte[0] != 0)),
        Builder::Integer(builder) => typed!(builder, |bytes: Bytes| integer(&bytes)),
        Builder::Double(builder) => typed!(builder, |bytes: Bytes| float(&bytes)),
        Builder::Timestamp(builder) => typed!(builder, |bytes: Bytes| timestamp(&bytes)),
        Builder::Date(builder) => typed!(builder, |bytes: Bytes| date(&bytes)),
        Builder::Time(builder) => {
            typed!(builder, |bytes: Bytes| fixed(&bytes)
                .map(|micros| i64::from_be_bytes(micros).saturating_mul(1_000)))
        }
        Builder::Numeric(builder) => typed!(builder, |mut bytes: Bytes| match bytes.len() {
            // A driver may send what it takes for a whole number.
            2 | 4 => integer(&bytes).map(|number| number.to_string()),
            _ => numeric(&mut bytes),
        }),
        Builder::Uuid(builder) => match value {
            Some(bytes) => {
                builder.append_value(fixed::<16>(&bytes)?).map_err(|error| ("22P03", error.to_string()))?
            }
            None => builder.append_null(),
        },
        Builder::List(builder, element) => match value {
            None => builder.append(false),
            Some(mut bytes) => {
                for value in array(&mut bytes)? {
                    let text = value.map(|value| element_text(value, element)).transpose()?;
                    builder.values().append_option(text);
                }
                builder.append(true);
            }
        },
    }
    Ok(())
}

/// An element of an array as text, which its column's type reads.
fn element_text(mut bytes: Bytes, element: &DataType) -> Result<String, NoValue> {
    Ok(match element {
        DataType::Boolean => (fixed::<1>(&bytes)?[0] != 0).to_string(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => integer(&bytes)?.to_string(),
        DataType::Float32 | DataType::Float64 => float(&bytes)?.to_string(),
        DataType::UInt64 | DataType::Decimal128(..) => numeric(&mut bytes)?,
        DataType::Timestamp(..) => tickstone_model::format_nanos(timestamp(&bytes)?),
        DataType::FixedSizeBinary(_) => uuid(&fixed::<16>(&bytes)?),
        _ => text(&bytes)?,
    })
}
