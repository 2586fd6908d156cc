//! Rows as CSV (RFC 4180): names in quotes, lines that end in CR LF, NULL as nothing and an empty text as two quotes.

use tickstone_query::QueryError;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::Schema;
use tickstone_query::export::{Cells, TimeStyle};

/// Puts the line of names behind `out`.
pub(super) fn head(schema: &Schema, out: &mut Vec<u8>) {
    for (place, field) in schema.fields().iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        in_quotes(field.name(), out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Puts the rows of a batch behind `out`.
///
/// # Errors
/// Where a column is of a type that has no text.
pub(super) fn rows(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError> {
    let columns = batch.columns().iter().map(|array| Cells::new(array, TimeStyle::Full));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            if column.is_null(row) {
                continue;
            }
            text.clear();
            column.write(row, &mut text);
            match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
                true => in_quotes(&text, out),
                false => out.extend_from_slice(text.as_bytes()),
            }
        }
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

fn in_quotes(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for (place, piece) in text.split('"').enumerate() {
        if place > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'"');
}
