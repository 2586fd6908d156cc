//! Rows as an aligned table.

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use comfy_table::{Cell, CellAlignment, Table};
use futures::{Stream, StreamExt};
use tickstone_query::export::{Cells, TimeStyle};
use tickstone_query::{QueryError, Result};

/// How a NULL is shown.
const NULL: &str = "NULL";
/// The longest text a cell shows, in characters.
const CELL_CHARS_MAX: usize = 200;

/// The first rows of a result, and how many it has.
#[derive(Debug)]
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    kept: usize,
    total: u64,
}

/// Reads all of a stream, keeping the first rows (all of them where `rows_max` is 0).
pub(crate) async fn collect<E: Into<QueryError>>(
    schema: SchemaRef,
    mut stream: impl Stream<Item = std::result::Result<RecordBatch, E>> + Unpin,
    rows_max: usize,
) -> Result<Rows> {
    let rows_max = if rows_max == 0 { usize::MAX } else { rows_max };
    let mut rows = Rows { schema, batches: Vec::new(), kept: 0, total: 0 };
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(Into::into)?;
        rows.total += batch.num_rows() as u64;
        let room = (rows_max - rows.kept).min(batch.num_rows());
        if room > 0 {
            rows.kept += room;
            rows.batches.push(batch.slice(0, room));
        }
    }
    Ok(rows)
}

impl Rows {
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn cut(&self) -> bool {
        (self.kept as u64) < self.total
    }

    /// The table, with a line end; numbers stand to the right.
    pub(crate) fn text(&self) -> Result<String> {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table.set_header(self.schema.fields().iter().map(|field| Cell::new(field.name())));
        for batch in &self.batches {
            let cells = batch.columns().iter().map(|column| Cells::new(column, TimeStyle::Short));
            let cells = cells.collect::<std::result::Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                table.add_row(cells.iter().zip(batch.columns()).map(|(cells, column)| {
                    Cell::new(cell_text(cells, row)).set_alignment(alignment(column.data_type()))
                }));
            }
        }
        Ok(format!("{table}\n"))
    }
}

fn cell_text(cells: &Cells<'_>, row: usize) -> String {
    if cells.is_null(row) {
        return NULL.to_string();
    }
    let mut text = String::new();
    cells.write(row, &mut text);
    // Line ends stay: a plan or a document is many lines, and is read as such.
    let unprintable = |c: char| c.is_control() && c != '\n';
    if text.contains(unprintable) {
        text = text.chars().map(|c| if unprintable(c) { ' ' } else { c }).collect();
    }
    if text.contains('\n') {
        return text;
    }
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn alignment(data_type: &DataType) -> CellAlignment {
    if data_type.is_numeric() { CellAlignment::Right } else { CellAlignment::Left }
}

#[cfg(test)]
mod tests;
