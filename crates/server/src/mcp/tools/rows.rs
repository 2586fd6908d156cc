//! Rows as an assistant reads them: few, short, and with word of what was left out.

use super::Limits;
use crate::statement::Rows;
use serde_json::{Number, Value, json};
use tickstone_query::arrow::array::{Array, ArrayRef, AsArray};
use tickstone_query::arrow::buffer::OffsetBuffer;
use tickstone_query::arrow::datatypes::DataType;
use tickstone_query::export::{Cells, TimeStyle};
use tickstone_query::{QueryError, type_name};

/// Rows of an answer.
#[derive(Debug)]
pub(super) struct Grid {
    /// Names and types.
    pub(super) columns: Vec<(String, String)>,
    pub(super) rows: Vec<Vec<Value>>,
    /// Why there are no more, where there are.
    cut: Option<String>,
    /// Whether values were cut.
    cut_values: bool,
    cell_chars: usize,
}

/// The first rows, as many as fit; those behind them are not computed.
///
/// # Errors
/// Where the statement fails.
pub(super) async fn grid(mut rows: Rows, limits: Limits) -> Result<Grid, QueryError> {
    let columns =
        rows.schema.fields().iter().map(|field| (field.name().clone(), type_name(field.data_type())));
    let mut grid = Grid {
        columns: columns.collect(),
        rows: Vec::new(),
        cut: None,
        cut_values: false,
        cell_chars: limits.cell_chars,
    };
    let mut bytes = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let columns: Vec<Column<'_>> =
            batch.columns().iter().map(Column::of).collect::<Result<_, QueryError>>()?;
        for row in 0..batch.num_rows() {
            if grid.rows.len() == limits.rows {
                rows.keep_back((batch.num_rows() - row) as u64);
                rows.enough();
                grid.cut = Some(format!("there are more than these {} rows", limits.rows));
                return Ok(grid);
            }
            let mut values = Vec::with_capacity(columns.len());
            for column in &columns {
                let (value, length, is_cut) = column.value(row, limits.cell_chars);
                bytes += length;
                grid.cut_values |= is_cut;
                values.push(value);
            }
            if bytes > limits.bytes {
                rows.keep_back((batch.num_rows() - row) as u64);
                rows.enough();
                let rows = grid.rows.len();
                grid.cut = Some(format!(
                    "there are more than these {rows} rows: the next would make the answer longer than \
                     mcp_answer_bytes_max, {} bytes",
                    limits.bytes
                ));
                return Ok(grid);
            }
            grid.rows.push(values);
        }
    }
    Ok(grid)
}

impl Grid {
    /// Its rows, each an object.
    pub(super) fn objects(self) -> Vec<Value> {
        let names: Vec<String> = self.columns.into_iter().map(|(name, _)| name).collect();
        let object = |row: Vec<Value>| names.iter().cloned().zip(row).collect::<Value>();
        self.rows.into_iter().map(object).collect()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// What stands behind the rows: how many there are, and what was left out.
    pub(super) fn note(&self) -> String {
        let mut note = match (&self.cut, self.rows.len()) {
            (Some(cut), _) => format!("Cut: {cut}. Aggregate, filter, or select fewer columns."),
            (None, 1) => "1 row.".into(),
            (None, rows) => format!("{rows} rows."),
        };
        if self.cut_values {
            note += &format!(
                " Values longer than {} characters (mcp_cell_chars_max) are cut and end with '…'.",
                self.cell_chars
            );
        }
        note
    }

    /// As JSON.
    pub(super) fn data(&self) -> Value {
        let column = |(name, kind): &(String, String)| json!({ "name": name, "type": kind });
        json!({
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
            "rows": self.rows,
            "row_count": self.rows.len(),
            "truncated": self.is_cut(),
            "note": self.note(),
        })
    }

    /// As a table of Markdown.
    pub(super) fn text(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| name.as_str());
        table(&names.collect::<Vec<_>>(), &self.rows)
    }
}

/// A table of Markdown.
pub(super) fn table(names: &[&str], rows: &[Vec<Value>]) -> String {
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        text.push('|');
        cells.for_each(|cell| text.push_str(&format!(" {cell} |")));
        text.push('\n');
    };
    line(&mut names.iter().map(|name| in_table(name)));
    line(&mut names.iter().map(|_| "---".into()));
    for row in rows {
        line(&mut row.iter().map(cell));
    }
    text
}

/// A value in a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => in_table(text),
        other => in_table(&other.to_string()),
    }
}

/// A text in one line, in which no column ends.
fn in_table(text: &str) -> String {
    let unprintable = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    text.chars().map(unprintable).collect::<String>().replace('|', "\\|").replace('\n', "<br>")
}

/// The values of a column as JSON.
struct Column<'a> {
    cells: Cells<'a>,
    look: Look<'a>,
}

/// What a value is in JSON.
enum Look<'a> {
    Boolean,
    /// What JSON has no number for, NaN say, is a text.
    Number,
    /// An array of such values, as far as it is whole: where those of each row end, and all.
    Array(&'a OffsetBuffer<i32>, Box<Column<'a>>),
    Text,
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, QueryError> {
        let look = match array.data_type() {
            DataType::Boolean => Look::Boolean,
            // The digits of a decimal are kept: as texts.
            DataType::Decimal32(..) | DataType::Decimal64(..) => Look::Text,
            DataType::Decimal128(..) | DataType::Decimal256(..) => Look::Text,
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                Look::Array(lists.offsets(), Box::new(Self::of(lists.values())?))
            }
            other if other.is_numeric() => Look::Number,
            _ => Look::Text,
        };
        Ok(Self { cells: Cells::new(array, TimeStyle::Short)?, look })
    }

    /// A value, how long it is, and whether it was cut.
    fn value(&self, row: usize, chars_max: usize) -> (Value, usize, bool) {
        if self.cells.is_null(row) {
            return (Value::Null, 4, false);
        }
        let mut text = String::new();
        self.cells.write(row, &mut text);
        let cut = text.char_indices().nth(chars_max).map(|(end, _)| end);
        if let Some(end) = cut {
            text.truncate(end);
            text.push('…');
            return (Value::String(text.clone()), text.len(), true);
        }
        let length = text.len();
        (self.whole(row, text), length, false)
    }

    /// A value that is not cut, and is not NULL; `text` is how it looks.
    fn whole(&self, row: usize, text: String) -> Value {
        match &self.look {
            Look::Boolean => Value::Bool(text == "true"),
            Look::Number => number(&text).unwrap_or(Value::String(text)),
            Look::Text => Value::String(text),
            Look::Array(ends, elements) => {
                let range = ends[row].cast_unsigned() as usize..ends[row + 1].cast_unsigned() as usize;
                range.map(|row| elements.element(row)).collect()
            }
        }
    }

    fn element(&self, row: usize) -> Value {
        if self.cells.is_null(row) {
            return Value::Null;
        }
        let mut text = String::new();
        self.cells.write(row, &mut text);
        self.whole(row, text)
    }
}

/// A number of JSON, with all digits of a double: `serde_json` reads some as those next to them.
fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
    whole.ok().or_else(|| text.parse().ok().and_then(Number::from_f64).map(Value::Number))
}

#[cfg(test)]
mod tests;
