//! Rows to the client: one message a row.

use super::super::digits::Digits;
use super::super::values::Column;
use super::{Format, Header};
use bytes::{BufMut, BytesMut};
use tickstone_query::arrow::datatypes::Schema;

/// What a file in binary begins with: a signature, no flags, no extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows as CopyData messages.
#[derive(Debug)]
pub(in crate::pg) struct Writer {
    format: Format,
    scratch: BytesMut,
    /// Whether a row was written.
    begun: bool,
}

impl Writer {
    pub(in crate::pg) fn new(format: Format) -> Self {
        Self { format, scratch: BytesMut::new(), begun: false }
    }

    /// What comes before the rows.
    pub(in crate::pg) fn begin(&mut self, schema: &Schema, out: &mut BytesMut) {
        match &self.format {
            // It stands in one message with the first row, as PostgreSQL has it and some clients want it.
            Format::Binary => {}
            Format::Text { header: Header::Names, delimiter, .. } => {
                let delimiter = *delimiter;
                message(out, |out| {
                    for (place, field) in schema.fields().iter().enumerate() {
                        if place > 0 {
                            out.put_u8(delimiter);
                        }
                        put_escaped(field.name().as_bytes(), delimiter, out);
                    }
                    out.put_u8(b'\n');
                });
            }
            Format::Csv { header: Header::Names, delimiter, quote, escape, .. } => {
                let (delimiter, quote, escape) = (*delimiter, *quote, *escape);
                message(out, |out| {
                    for (place, field) in schema.fields().iter().enumerate() {
                        if place > 0 {
                            out.put_u8(delimiter);
                        }
                        put_csv(field.name().as_bytes(), delimiter, quote, escape, false, out);
                    }
                    out.put_u8(b'\n');
                });
            }
            _ => {}
        }
    }

    /// One row.
    pub(in crate::pg) fn row(&mut self, columns: &[Column<'_>], row: usize, out: &mut BytesMut) {
        let scratch = &mut self.scratch;
        let begins = !std::mem::replace(&mut self.begun, true);
        message(out, |out| match &self.format {
            Format::Binary => {
                if begins {
                    out.extend_from_slice(SIGNATURE);
                }
                out.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
                columns.iter().for_each(|column| column.put_sized(row, true, Digits::Nanos, out));
            }
            Format::Text { delimiter, null, .. } => {
                for (place, column) in columns.iter().enumerate() {
                    if place > 0 {
                        out.put_u8(*delimiter);
                    }
                    if column.is_null(row) {
                        out.extend_from_slice(null.as_bytes());
                        continue;
                    }
                    scratch.clear();
                    column.put_text(row, Digits::Nanos, scratch);
                    put_escaped(scratch, *delimiter, out);
                }
                out.put_u8(b'\n');
            }
            Format::Csv { delimiter, null, quote, escape, .. } => {
                for (place, column) in columns.iter().enumerate() {
                    if place > 0 {
                        out.put_u8(*delimiter);
                    }
                    if column.is_null(row) {
                        out.extend_from_slice(null.as_bytes());
                        continue;
                    }
                    scratch.clear();
                    column.put_text(row, Digits::Nanos, scratch);
                    // What would be read as NULL is quoted.
                    let forced = scratch.as_ref() == null.as_bytes() || scratch.as_ref() == b"\\.";
                    put_csv(scratch, *delimiter, *quote, *escape, forced, out);
                }
                out.put_u8(b'\n');
            }
        });
    }

    /// What comes after the rows.
    pub(in crate::pg) fn end(&mut self, out: &mut BytesMut) {
        if self.format == Format::Binary {
            let begins = !self.begun;
            message(out, |out| {
                if begins {
                    out.extend_from_slice(SIGNATURE);
                }
                out.put_i16(-1);
            });
        }
    }
}

/// CopyData with what `body` writes.
fn message(out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(b'd');
    let start = out.len();
    out.put_i32(0);
    body(out);
    let length = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_escaped(text: &[u8], delimiter: u8, out: &mut BytesMut) {
    let odd = |byte: &u8| *byte == b'\\' || *byte == delimiter || matches!(byte, 8..=13);
    let mut rest = text;
    while let Some(at) = rest.iter().position(odd) {
        out.extend_from_slice(&rest[..at]);
        out.put_u8(b'\\');
        out.put_u8(match rest[at] {
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            11 => b'v',
            12 => b'f',
            b'\r' => b'r',
            other => other,
        });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn put_csv(text: &[u8], delimiter: u8, quote: u8, escape: u8, forced: bool, out: &mut BytesMut) {
    let odd = |byte: &u8| *byte == delimiter || *byte == quote || matches!(byte, b'\n' | b'\r');
    if !forced && !text.iter().any(odd) {
        out.extend_from_slice(text);
        return;
    }
    out.put_u8(quote);
    for &byte in text {
        if byte == quote || byte == escape {
            out.put_u8(escape);
        }
        out.put_u8(byte);
    }
    out.put_u8(quote);
}
