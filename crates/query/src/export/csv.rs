//! CSV with a header: NULL is an empty field, the empty string and no bytes a quoted one, and a field is quoted
//! where it holds a comma, a quote or a line end, so that an import reads back what was written.

use super::layout::Layout;
use crate::texts::{Cells, TimeStyle};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use std::io::{self, Write};

/// Writes batches as CSV.
#[derive(Debug)]
pub(crate) struct CsvWriter<W> {
    out: W,
    line: String,
    cell: String,
    /// Which columns are of text or bytes: only there nothing between quotes is a value.
    text: Vec<bool>,
    delimiter: char,
}

impl<W: Write> CsvWriter<W> {
    /// A writer that has written the header, where there is one.
    pub(crate) fn new(out: W, schema: &SchemaRef, layout: &Layout) -> Result<Self, crate::QueryError> {
        let text = schema.fields().iter().map(|field| is_text(field.data_type())).collect();
        let delimiter = char::from(layout.delimiter);
        let mut writer = Self { out, line: String::new(), cell: String::new(), text, delimiter };
        if !layout.header {
            return Ok(writer);
        }
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                writer.line.push(delimiter);
            }
            push_quoted(&mut writer.line, field.name(), true, delimiter);
        }
        writer.line.push('\n');
        writer.out.write_all(writer.line.as_bytes()).map_err(super::write_error)?;
        Ok(writer)
    }

    /// Writes the rows of a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let cells = batch.columns().iter().map(|column| Cells::new(column, TimeStyle::Full));
        let cells = cells.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        self.line.clear();
        for row in 0..batch.num_rows() {
            for (index, column) in cells.iter().enumerate() {
                if index > 0 {
                    self.line.push(self.delimiter);
                }
                if column.is_null(row) {
                    continue;
                }
                self.cell.clear();
                column.write(row, &mut self.cell);
                let is_text = self.text.get(index).copied().unwrap_or(false);
                push_quoted(&mut self.line, &self.cell, is_text, self.delimiter);
            }
            // A line of one NULL would be empty, and skipped when read.
            if cells.len() == 1 && self.line.ends_with('\n') | self.line.is_empty() {
                self.line.push_str("\"\"");
            }
            self.line.push('\n');
            if self.line.len() > 1 << 16 {
                self.out.write_all(self.line.as_bytes())?;
                self.line.clear();
            }
        }
        self.out.write_all(self.line.as_bytes())
    }

    /// The output below.
    pub(crate) fn finish(self) -> io::Result<W> {
        Ok(self.out)
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        _ => false,
    }
}

fn push_quoted(line: &mut String, cell: &str, is_text: bool, delimiter: char) {
    let quoted = cell.contains([delimiter, '"', '\n', '\r']) || (is_text && cell.is_empty());
    if !quoted {
        line.push_str(cell);
        return;
    }
    line.push('"');
    line.push_str(&cell.replace('"', "\"\""));
    line.push('"');
}
