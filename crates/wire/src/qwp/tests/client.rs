//! The side of a client: columns onto the wire.

use crate::qwp::WireType;
use crate::qwp::header::flags;
use crate::qwp::write::{put_bytes, put_message, put_varint};
use std::convert::Infallible;

/// The values of a column; a NULL is `None`.
#[derive(Debug, Clone)]
pub(super) enum Cells {
    Boolean(Vec<Option<bool>>),
    Byte(Vec<Option<i8>>),
    Short(Vec<Option<i16>>),
    Int(Vec<Option<i32>>),
    Long(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
    Symbol(Vec<Option<String>>),
    Timestamp(Vec<Option<i64>>),
    Date(Vec<Option<i64>>),
    Uuid(Vec<Option<u128>>),
    Long256(Vec<Option<[u64; 4]>>),
    Geohash(u32, Vec<Option<u64>>),
    Varchar(Vec<Option<String>>),
    TimestampNanos(Vec<Option<i64>>),
    Doubles(Vec<Option<Vec<f64>>>),
    Longs(Vec<Option<Vec<i64>>>),
    Decimal64(u8, Vec<Option<i64>>),
    Decimal128(u8, Vec<Option<i128>>),
    Decimal256(u8, Vec<Option<i128>>),
    Char(Vec<Option<u16>>),
    Binary(Vec<Option<Vec<u8>>>),
    Ipv4(Vec<Option<u32>>),
}

/// How a message is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style {
    /// NULLs as values where the type has one, else as bits.
    pub(super) null_values: bool,
    pub(super) packed_times: bool,
    /// Symbols with each column, not with the connection.
    pub(super) own_symbols: bool,
    pub(super) defers: bool,
}

/// A client of a connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    symbols: Vec<String>,
    sent: usize,
}

/// A table of a message: its name, its columns.
pub(super) type Block<'a> = (&'a str, Vec<(&'a str, Cells)>);

impl Client {
    pub(super) fn message(&mut self, style: Style, blocks: &[Block<'_>]) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, columns) in blocks {
            let rows = columns.first().map_or(0, |(_, cells)| cells.rows());
            put_bytes(&mut body, name.as_bytes());
            put_varint(&mut body, rows as u64);
            put_varint(&mut body, columns.len() as u64);
            for (column, cells) in columns {
                put_bytes(&mut body, column.as_bytes());
                body.push(cells.wire_type() as u8);
            }
            columns.iter().for_each(|(_, cells)| self.put(&mut body, cells, style));
        }
        let mut message = Vec::new();
        let bits = [
            (flags::DEFER, style.defers),
            (flags::PACKED_TIMES, style.packed_times),
            (flags::SYMBOLS, !style.own_symbols),
        ];
        let flags = bits.iter().filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum();
        let written = put_message(&mut message, flags, blocks.len() as u16, |out| {
            if !style.own_symbols {
                put_varint(out, self.sent as u64);
                put_varint(out, (self.symbols.len() - self.sent) as u64);
                self.symbols[self.sent..].iter().for_each(|symbol| put_bytes(out, symbol.as_bytes()));
                self.sent = self.symbols.len();
            }
            out.extend_from_slice(&body);
            Ok::<(), Infallible>(())
        });
        written.unwrap();
        message
    }

    fn put(&mut self, out: &mut Vec<u8>, cells: &Cells, style: Style) {
        let null_word = 1_u64 << 63;
        match cells {
            Cells::Boolean(values) => {
                let values = nulls(out, values, style, Some(false));
                for eight in values.chunks(8) {
                    out.push(eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
                }
            }
            Cells::Byte(values) => put_numbers(out, values, style, Some(0), i8::to_le_bytes),
            Cells::Short(values) => put_numbers(out, values, style, Some(0), i16::to_le_bytes),
            Cells::Int(values) => put_numbers(out, values, style, Some(i32::MIN), i32::to_le_bytes),
            Cells::Long(values) | Cells::Date(values) => {
                put_numbers(out, values, style, Some(i64::MIN), i64::to_le_bytes);
            }
            Cells::Float(values) => put_numbers(out, values, style, Some(f32::NAN), f32::to_le_bytes),
            Cells::Double(values) => put_numbers(out, values, style, Some(f64::NAN), f64::to_le_bytes),
            Cells::Timestamp(values) | Cells::TimestampNanos(values) => {
                let values = nulls(out, values, style, Some(i64::MIN));
                put_times(out, &values, style.packed_times);
            }
            Cells::Uuid(values) => {
                let null = u128::from(null_word) << 64 | u128::from(null_word);
                put_numbers(out, values, style, Some(null), u128::to_le_bytes);
            }
            Cells::Long256(values) => {
                for words in nulls(out, values, style, Some([null_word; 4])) {
                    put_all(out, words.to_vec(), u64::to_le_bytes);
                }
            }
            Cells::Geohash(bits, values) => {
                let width = bits.div_ceil(8) as usize;
                let values = nulls(out, values, style, Some(u64::MAX));
                put_varint(out, u64::from(*bits));
                values.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()[..width]));
            }
            Cells::Symbol(values) => self.put_symbols(out, values, style),
            Cells::Varchar(values) => {
                let values = nulls(out, values, style, None);
                put_texts(out, &values.iter().map(String::as_bytes).collect::<Vec<_>>());
            }
            Cells::Binary(values) => {
                let values = nulls(out, values, style, None);
                put_texts(out, &values.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            Cells::Doubles(values) => {
                for values in nulls(out, values, style, None) {
                    put_array(out, values, f64::to_le_bytes);
                }
            }
            Cells::Longs(values) => {
                for values in nulls(out, values, style, None) {
                    put_array(out, values, i64::to_le_bytes);
                }
            }
            Cells::Decimal64(scale, values) => {
                let values = nulls(out, values, style, Some(i64::MIN));
                out.push(*scale);
                put_all(out, values, i64::to_le_bytes);
            }
            Cells::Decimal128(scale, values) => {
                let null = (u128::from(null_word) << 64 | u128::from(null_word)).cast_signed();
                let values = nulls(out, values, style, Some(null));
                out.push(*scale);
                put_all(out, values, i128::to_le_bytes);
            }
            Cells::Decimal256(scale, values) => {
                let values = nulls(out, values, style, None);
                out.push(*scale);
                for value in values {
                    out.extend_from_slice(&value.to_le_bytes());
                    out.extend_from_slice(&[if value < 0 { 0xff } else { 0 }; 16]);
                }
            }
            Cells::Char(values) => put_numbers(out, values, style, Some(0), u16::to_le_bytes),
            Cells::Ipv4(values) => put_numbers(out, values, style, Some(0), u32::to_le_bytes),
        }
    }

    fn put_symbols(&mut self, out: &mut Vec<u8>, values: &[Option<String>], style: Style) {
        let values = nulls(out, values, style, None);
        let mut own = Vec::new();
        let symbols = if style.own_symbols { &mut own } else { &mut self.symbols };
        let id = |symbol: &String| match symbols.iter().position(|known| known == symbol) {
            Some(id) => id,
            None => {
                symbols.push(symbol.clone());
                symbols.len() - 1
            }
        };
        let ids: Vec<usize> = values.iter().map(id).collect();
        if style.own_symbols {
            put_varint(out, own.len() as u64);
            own.iter().for_each(|symbol| put_bytes(out, symbol.as_bytes()));
        }
        ids.iter().for_each(|id| put_varint(out, *id as u64));
    }
}

impl Cells {
    pub(super) fn rows(&self) -> usize {
        match self {
            Cells::Boolean(values) => values.len(),
            Cells::Byte(values) => values.len(),
            Cells::Short(values) => values.len(),
            Cells::Int(values) => values.len(),
            Cells::Long(values) | Cells::Date(values) => values.len(),
            Cells::Timestamp(values) | Cells::TimestampNanos(values) => values.len(),
            Cells::Float(values) => values.len(),
            Cells::Double(values) => values.len(),
            Cells::Symbol(values) | Cells::Varchar(values) => values.len(),
            Cells::Uuid(values) => values.len(),
            Cells::Long256(values) => values.len(),
            Cells::Geohash(_, values) => values.len(),
            Cells::Doubles(values) => values.len(),
            Cells::Longs(values) => values.len(),
            Cells::Decimal64(_, values) => values.len(),
            Cells::Decimal128(_, values) | Cells::Decimal256(_, values) => values.len(),
            Cells::Char(values) => values.len(),
            Cells::Binary(values) => values.len(),
            Cells::Ipv4(values) => values.len(),
        }
    }

    pub(super) fn wire_type(&self) -> WireType {
        match self {
            Cells::Boolean(_) => WireType::Boolean,
            Cells::Byte(_) => WireType::Byte,
            Cells::Short(_) => WireType::Short,
            Cells::Int(_) => WireType::Int,
            Cells::Long(_) => WireType::Long,
            Cells::Float(_) => WireType::Float,
            Cells::Double(_) => WireType::Double,
            Cells::Symbol(_) => WireType::Symbol,
            Cells::Timestamp(_) => WireType::Timestamp,
            Cells::Date(_) => WireType::Date,
            Cells::Uuid(_) => WireType::Uuid,
            Cells::Long256(_) => WireType::Long256,
            Cells::Geohash(..) => WireType::Geohash,
            Cells::Varchar(_) => WireType::Varchar,
            Cells::TimestampNanos(_) => WireType::TimestampNanos,
            Cells::Doubles(_) => WireType::DoubleArray,
            Cells::Longs(_) => WireType::LongArray,
            Cells::Decimal64(..) => WireType::Decimal64,
            Cells::Decimal128(..) => WireType::Decimal128,
            Cells::Decimal256(..) => WireType::Decimal256,
            Cells::Char(_) => WireType::Char,
            Cells::Binary(_) => WireType::Binary,
            Cells::Ipv4(_) => WireType::Ipv4,
        }
    }
}

/// Writes the NULLs, and gives the values to write: with `null` for each where that stands for one.
fn nulls<T: Clone>(out: &mut Vec<u8>, values: &[Option<T>], style: Style, null: Option<T>) -> Vec<T> {
    let has_none = values.iter().all(Option::is_some);
    if let Some(null) = null.filter(|_| style.null_values && !has_none) {
        out.push(0);
        return values.iter().map(|value| value.clone().unwrap_or(null.clone())).collect();
    }
    out.push(u8::from(!has_none));
    if !has_none {
        for eight in values.chunks(8) {
            out.push(eight.iter().rev().fold(0, |byte, value| byte << 1 | u8::from(value.is_none())));
        }
    }
    values.iter().flatten().cloned().collect()
}

/// Numbers, with `null` for each NULL where the style has it.
fn put_numbers<T: Clone, const N: usize>(
    out: &mut Vec<u8>,
    values: &[Option<T>],
    style: Style,
    null: Option<T>,
    bytes: fn(T) -> [u8; N],
) {
    let values = nulls(out, values, style, null);
    put_all(out, values, bytes);
}

fn put_all<T, const N: usize>(out: &mut Vec<u8>, values: Vec<T>, bytes: fn(T) -> [u8; N]) {
    values.into_iter().for_each(|value| out.extend_from_slice(&bytes(value)));
}

fn put_texts(out: &mut Vec<u8>, texts: &[&[u8]]) {
    let mut end = 0_u32;
    out.extend_from_slice(&end.to_le_bytes());
    for text in texts {
        end += text.len() as u32;
        out.extend_from_slice(&end.to_le_bytes());
    }
    out.extend_from_slice(&texts.concat());
}

fn put_array<T>(out: &mut Vec<u8>, values: Vec<T>, bytes: fn(T) -> [u8; 8]) {
    out.push(1);
    out.extend_from_slice(&(values.len() as i32).to_le_bytes());
    put_all(out, values, bytes);
}

fn put_times(out: &mut Vec<u8>, times: &[i64], is_packed: bool) {
    if is_packed && let Some(bits) = packed(times) {
        out.push(1);
        times.iter().take(2).for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
        for eight in bits.chunks(8) {
            out.push(eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        }
        return;
    }
    if is_packed {
        out.push(0);
    }
    put_all(out, times.to_vec(), i64::to_le_bytes);
}

/// The bits of the times from the third on; `None` where a step changes by more than 32 bits hold.
fn packed(times: &[i64]) -> Option<Vec<bool>> {
    let mut bits = Vec::new();
    for three in times.windows(3) {
        let [before, last, time] = three.try_into().ok()?;
        let change = time.wrapping_sub(last).wrapping_sub(last.wrapping_sub(before));
        let (ones, is_last, width) = match change {
            0 => (0, false, 0),
            -64..=63 => (1, false, 7),
            -256..=255 => (2, false, 9),
            -2048..=2047 => (3, false, 12),
            _ => (4, true, 32),
        };
        i32::try_from(change).ok()?;
        bits.extend(std::iter::repeat_n(true, ones));
        bits.extend((!is_last).then_some(false));
        bits.extend((0..width).map(|bit| change >> bit & 1 == 1));
    }
    Some(bits)
}
