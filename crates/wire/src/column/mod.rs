//! Columns under construction: one value at a time from its text.
//!
//! Invariants of a [`ColumnBuilder`]: a fault leaves it as it was, so that a bad row is undone by
//! [`ColumnBuilder::truncate`] of the columns before the one at fault; NULLs are kept as a list of
//! rows, so that a column without them pays nothing.

mod lists;
mod symbols;
mod typed;

use crate::value::{
    DateCache, IntegerFault, has_exact_exponent, is_number, is_past_nanoseconds, is_printed_bool,
    is_printed_double, is_printed_integer, parse_bool, parse_date, parse_decimal, parse_epoch, parse_f32,
    parse_f64, parse_hex, parse_i64, parse_iso, parse_time, parse_u64, parse_uuid, plain_f64, plain_i64,
    plain_iso, plain_u64, printed_decimal, trim,
};
use crate::{ColumnPlan, EpochUnit, Fault, TimeFormat};
use arrow_array::types::UInt32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    Time64NanosecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use lists::Lists;
use std::sync::Arc;
use symbols::ChunkDictionary;
use tickstone_model::ColumnType;

/// A column that grows by one value or NULL a row.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    column_type: ColumnType,
    required: bool,
    /// Whether only fields that print as they are written are values.
    inferred: bool,
    values: Values,
    /// Rows that are NULL, ascending; each also has a filler in `values`.
    nulls: Vec<u32>,
}

/// The longest ISO 8601 that is known to have no more than nine digits of a second's fraction.
const PLAIN_ISO_BYTES: usize = "2024-08-08T09:30:00.123456789".len();

#[derive(Debug)]
enum Values {
    Boolean(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal { values: Vec<i128>, precision: u8, scale: i8 },
    Symbol { ids: Vec<u32>, dictionary: ChunkDictionary },
    Varchar(Text),
    Binary(Text),
    Uuid(Vec<[u8; 16]>),
    Date(Vec<i32>),
    Time(Vec<i64>),
    Timestamp { values: Vec<i64>, time: TimeFormat, cache: DateCache },
    Array(Lists),
}

/// Values of any length, one behind the other.
#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    ends: Vec<i32>,
    /// Bytes of the chunk before.
    bytes_before: usize,
}

impl Text {
    fn push(&mut self) {
        // A chunk is at most a few MB, and a record at most RECORD_BYTES_MAX: far below 2 GiB.
        self.ends.push(i32::try_from(self.bytes.len()).unwrap_or(i32::MAX));
    }

    fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
        self.bytes.reserve(self.bytes_before + self.bytes_before / 8);
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.bytes.truncate(self.ends.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let bytes_before = self.bytes.len();
        let text = std::mem::replace(self, Self { bytes_before, ..Self::default() });
        let offsets: Vec<i32> = std::iter::once(0).chain(text.ends).collect();
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(text.bytes))
    }
}

/// Runs the same expression over whichever vector holds the values, another over those of no fixed size.
macro_rules! each {
    ($values:expr, $vector:ident => $body:expr, $text:ident => $text_body:expr) => {
        match $values {
            Values::Boolean($vector) => $body,
            Values::Int8($vector) => $body,
            Values::Int16($vector) => $body,
            Values::Int32($vector) | Values::Date($vector) => $body,
            Values::Int64($vector) | Values::Time($vector) => $body,
            Values::UInt8($vector) => $body,
            Values::UInt16($vector) => $body,
            Values::UInt32($vector) => $body,
            Values::UInt64($vector) => $body,
            Values::Float32($vector) => $body,
            Values::Float64($vector) => $body,
            Values::Decimal { values: $vector, .. } => $body,
            Values::Symbol { ids: $vector, .. } => $body,
            Values::Uuid($vector) => $body,
            Values::Timestamp { values: $vector, .. } => $body,
            Values::Varchar($text) | Values::Binary($text) => $text_body,
            Values::Array($text) => $text_body,
        }
    };
}

impl ColumnBuilder {
    pub(crate) fn new(plan: &ColumnPlan) -> Self {
        let values = match plan.column_type {
            ColumnType::Boolean => Values::Boolean(Vec::new()),
            ColumnType::Int8 => Values::Int8(Vec::new()),
            ColumnType::Int16 => Values::Int16(Vec::new()),
            ColumnType::Int32 => Values::Int32(Vec::new()),
            ColumnType::Int64 => Values::Int64(Vec::new()),
            ColumnType::UInt8 => Values::UInt8(Vec::new()),
            ColumnType::UInt16 => Values::UInt16(Vec::new()),
            ColumnType::UInt32 => Values::UInt32(Vec::new()),
            ColumnType::UInt64 => Values::UInt64(Vec::new()),
            ColumnType::Float32 => Values::Float32(Vec::new()),
            ColumnType::Float64 => Values::Float64(Vec::new()),
            ColumnType::Decimal { precision, scale } => {
                Values::Decimal { values: Vec::new(), precision, scale }
            }
            ColumnType::Symbol => Values::Symbol { ids: Vec::new(), dictionary: ChunkDictionary::default() },
            ColumnType::Varchar => Values::Varchar(Text::default()),
            ColumnType::Binary => Values::Binary(Text::default()),
            ColumnType::Uuid => Values::Uuid(Vec::new()),
            ColumnType::Date => Values::Date(Vec::new()),
            ColumnType::Time => Values::Time(Vec::new()),
            ColumnType::Timestamp => {
                Values::Timestamp { values: Vec::new(), time: plan.time, cache: DateCache::default() }
            }
            ColumnType::Array(element) => Values::Array(Lists::new(element, plan)),
        };
        let (required, inferred) = (plan.required, plan.inferred);
        Self { column_type: plan.column_type, required, inferred, values, nulls: Vec::new() }
    }

    pub(crate) fn column_type(&self) -> ColumnType {
        self.column_type
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        each!(&self.values, values => values.len(), text => text.ends.len())
    }

    /// Makes room for as many more rows.
    pub(crate) fn reserve(&mut self, rows: usize) {
        each!(&mut self.values, values => values.reserve(rows), text => text.reserve(rows));
    }

    /// Drops every row from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        each!(&mut self.values, values => values.truncate(rows), text => text.truncate(rows));
        while self.nulls.last().is_some_and(|&row| row as usize >= rows) {
            self.nulls.pop();
        }
    }

    /// Adds a NULL.
    #[inline]
    pub(crate) fn push_null(&mut self) -> Result<(), Fault> {
        if self.required {
            return Err(Fault::NullTimestamp);
        }
        let row = u32::try_from(self.len()).unwrap_or(u32::MAX);
        each!(&mut self.values, values => values.push(Default::default()), text => text.push());
        self.nulls.push(row);
        Ok(())
    }

    /// Adds the value that is all of `field`, where it has a common shape; `None`, and nothing added, where it has not.
    /// Numbers of such shapes print as they are written.
    #[inline]
    pub(crate) fn push_plain(&mut self, field: &[u8]) -> Option<()> {
        match &mut self.values {
            Values::Float64(values) => values.push(plain_f64(field)?),
            Values::Int64(values) => values.push(plain_i64(field)?),
            Values::UInt64(values) => values.push(plain_u64(field)?),
            Values::Timestamp { values, time: TimeFormat::Iso, cache } => {
                let nanos = plain_iso(field, cache)?;
                if self.inferred && field.len() > PLAIN_ISO_BYTES && is_past_nanoseconds(field) {
                    return None;
                }
                values.push(nanos);
            }
            Values::Timestamp { values, time, .. } => {
                let nanos = plain_i64(field)?.checked_mul(time.unit()?.nanos())?;
                time.is_plausible(nanos).then(|| values.push(nanos))?;
            }
            Values::Symbol { ids, dictionary } => ids.push(dictionary.latest(field)?),
            _ => return None,
        }
        Some(())
    }

    /// The same of a field of any shape that no quotes are around; `None` too where it is no value.
    #[inline]
    pub(crate) fn push_unquoted(&mut self, field: &[u8], is_ascii: bool) -> Option<()> {
        self.push_plain(field).or_else(|| match &mut self.values {
            Values::Varchar(values) if is_ascii => {
                values.bytes.extend_from_slice(field);
                values.push();
                Some(())
            }
            _ => self.push(field).ok(),
        })
    }

    /// Adds the value that is all of `text`.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), Fault> {
        let wanted = self.column_type;
        let not_a = || Fault::NotA { wanted, fits: fitting_type(text, wanted) };
        let integer = |fault| match fault {
            IntegerFault::NotAnInteger => not_a(),
            IntegerFault::OutOfRange => Fault::OutOfRange { wanted, fits: fitting_type(text, wanted) },
        };
        let out_of_range = |_| integer(IntegerFault::OutOfRange);
        let no_float = || match is_number(trim(text)) {
            true => integer(IntegerFault::OutOfRange),
            false => not_a(),
        };
        if self.inferred && self.changes(trim(text)) {
            return Err(Fault::Changed { wanted });
        }
        let signed = || parse_i64(trim(text)).map_err(integer);
        let unsigned = || parse_u64(trim(text)).map_err(integer);
        match &mut self.values {
            Values::Boolean(values) => values.push(parse_bool(trim(text)).ok_or_else(not_a)?),
            Values::Int8(values) => values.push(i8::try_from(signed()?).map_err(out_of_range)?),
            Values::Int16(values) => values.push(i16::try_from(signed()?).map_err(out_of_range)?),
            Values::Int32(values) => values.push(i32::try_from(signed()?).map_err(out_of_range)?),
            Values::Int64(values) => values.push(signed()?),
            Values::UInt8(values) => values.push(u8::try_from(unsigned()?).map_err(out_of_range)?),
            Values::UInt16(values) => values.push(u16::try_from(unsigned()?).map_err(out_of_range)?),
            Values::UInt32(values) => values.push(u32::try_from(unsigned()?).map_err(out_of_range)?),
            Values::UInt64(values) => values.push(unsigned()?),
            Values::Float32(values) => values.push(parse_f32(trim(text)).ok_or_else(no_float)?),
            Values::Float64(values) => values.push(parse_f64(trim(text)).ok_or_else(no_float)?),
            Values::Decimal { values, precision, scale } => {
                values.push(parse_decimal(trim(text), *precision, *scale).map_err(integer)?);
            }
            Values::Symbol { ids, dictionary } => ids.push(dictionary.id(text)?),
            Values::Varchar(values) => {
                std::str::from_utf8(text).map_err(|_| Fault::NotUtf8)?;
                values.bytes.extend_from_slice(text);
                values.push();
            }
            Values::Binary(values) => {
                if !parse_hex(text, &mut values.bytes) {
                    return Err(not_a());
                }
                values.push();
            }
            Values::Uuid(values) => values.push(parse_uuid(trim(text)).ok_or_else(not_a)?),
            Values::Date(values) => values.push(parse_date(trim(text)).ok_or_else(not_a)?),
            Values::Time(values) => values.push(parse_time(trim(text)).ok_or_else(not_a)?),
            Values::Timestamp { values, time, .. } => values.push(parse_timestamp(trim(text), *time)?),
            Values::Array(lists) => lists.push_json(trim(text)).ok_or_else(not_a)?,
        }
        Ok(())
    }

    /// Adds the number, or true or false, that is all of `token`, as JSON writes it: an exponent is no sign of a code
    /// there.
    pub(crate) fn push_token(&mut self, token: &[u8]) -> Result<(), Fault> {
        let inferred = self.inferred;
        self.inferred &= !has_exact_exponent(token);
        let pushed = self.push(token);
        self.inferred = inferred;
        pushed
    }

    /// Whether a text is a value that would not print as it.
    fn changes(&self, text: &[u8]) -> bool {
        match &self.values {
            Values::Boolean(_) => parse_bool(text).is_some() && !is_printed_bool(text),
            Values::Int64(_) => parse_i64(text).is_ok() && !is_printed_integer(text),
            Values::UInt64(_) => parse_u64(text).is_ok() && !is_printed_integer(text),
            Values::Float64(_) => parse_f64(text).is_some() && !is_printed_double(text),
            Values::Decimal { precision, scale, .. } => {
                parse_decimal(text, *precision, *scale).is_ok() && printed_decimal(text).is_none()
            }
            Values::Timestamp { .. } => is_past_nanoseconds(text),
            _ => false,
        }
    }

    /// The column so far, in its edge type; the builder is empty after.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        let rows = self.len();
        let nulls = null_buffer(&std::mem::take(&mut self.nulls), rows);
        macro_rules! primitive {
            ($array:ident, $values:expr) => {
                Arc::new($array::new(ScalarBuffer::from(std::mem::take($values)), nulls))
            };
        }
        match &mut self.values {
            Values::Boolean(values) => {
                let bits = BooleanBuffer::from_iter(std::mem::take(values));
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Values::Int8(values) => primitive!(Int8Array, values),
            Values::Int16(values) => primitive!(Int16Array, values),
            Values::Int32(values) => primitive!(Int32Array, values),
            Values::Int64(values) => primitive!(Int64Array, values),
            Values::UInt8(values) => primitive!(UInt8Array, values),
            Values::UInt16(values) => primitive!(UInt16Array, values),
            Values::UInt32(values) => primitive!(UInt32Array, values),
            Values::UInt64(values) => primitive!(UInt64Array, values),
            Values::Float32(values) => primitive!(Float32Array, values),
            Values::Float64(values) => primitive!(Float64Array, values),
            Values::Date(values) => primitive!(Date32Array, values),
            Values::Time(values) => primitive!(Time64NanosecondArray, values),
            Values::Timestamp { values, .. } => primitive!(TimestampNanosecondArray, values),
            Values::Decimal { values, precision, scale } => {
                let array = Decimal128Array::new(ScalarBuffer::from(std::mem::take(values)), nulls);
                let array = array.with_precision_and_scale(*precision, *scale);
                Arc::new(array.expect("a ColumnType's precision and scale are Arrow's"))
            }
            Values::Symbol { ids, dictionary } => {
                let keys = UInt32Array::new(ScalarBuffer::from(std::mem::take(ids)), nulls);
                let array = DictionaryArray::<UInt32Type>::try_new(keys, Arc::new(dictionary.finish()));
                Arc::new(array.expect("every id is one the dictionary gave out"))
            }
            Values::Varchar(text) => {
                let (offsets, bytes) = text.take();
                let array = StringArray::try_new(offsets, bytes, nulls);
                Arc::new(array.expect("each value was checked to be UTF-8"))
            }
            Values::Binary(text) => {
                let (offsets, bytes) = text.take();
                Arc::new(BinaryArray::new(offsets, bytes, nulls))
            }
            Values::Uuid(values) => {
                let bytes = Buffer::from_vec(std::mem::take(values).into_flattened());
                Arc::new(FixedSizeBinaryArray::new(16, bytes, nulls))
            }
            Values::Array(lists) => lists.finish(nulls),
        }
    }
}

fn parse_timestamp(text: &[u8], time: TimeFormat) -> Result<i64, Fault> {
    let number = time.unit().and_then(|unit| Some((unit, parse_epoch(text, unit)?)));
    match number {
        Some((_, nanos)) if time.is_plausible(nanos) => Ok(nanos),
        Some((unit, _)) => Err(Fault::OtherUnit { unit }),
        None => parse_iso(text).ok_or_else(|| timestamp_fault(text, time)),
    }
}

fn timestamp_fault(text: &[u8], time: TimeFormat) -> Fault {
    if time == TimeFormat::Iso && parse_epoch(text, EpochUnit::Nanosecond).is_some() {
        return Fault::UnknownUnit;
    }
    if let TimeFormat::GuessedEpoch(unit) = time
        && text.first().is_some_and(u8::is_ascii_digit)
        && parse_f64(text).is_some()
    {
        return Fault::OtherUnit { unit };
    }
    let wanted = ColumnType::Timestamp;
    if parse_f64(text).is_some() {
        return Fault::OutOfRange { wanted, fits: fitting_type(text, wanted) };
    }
    Fault::NotA { wanted, fits: fitting_type(text, wanted) }
}

/// The narrowest of the usual types that holds `text`, other than `wanted`.
fn fitting_type(text: &[u8], wanted: ColumnType) -> ColumnType {
    let text = trim(text);
    let candidates = [
        (ColumnType::Int64, parse_i64(text).is_ok()),
        (ColumnType::UInt64, parse_u64(text).is_ok()),
        (ColumnType::Float64, parse_f64(text).is_some()),
        (ColumnType::Timestamp, parse_iso(text).is_some()),
        (ColumnType::Varchar, true),
    ];
    let fits = candidates.into_iter().find(|(candidate, fits)| *fits && *candidate != wanted);
    fits.map_or(ColumnType::Varchar, |(candidate, _)| candidate)
}

fn null_buffer(nulls: &[u32], rows: usize) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, true);
    for &row in nulls {
        bits.set_bit(row as usize, false);
    }
    Some(NullBuffer::new(bits.finish()))
}

#[cfg(test)]
mod tests;
