//! What a subscriber is told, in JSON or Arrow: a batch of his subscription as one message.

use crate::json::{Values, key, quoted};
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_query::arrow::array::cast::AsArray;
use tickstone_query::arrow::array::types::UInt32Type;
use tickstone_query::arrow::array::{Array, ArrayRef, DictionaryArray, RecordBatch};
use tickstone_query::arrow::compute::{cast, take};
use tickstone_query::arrow::datatypes::{DataType, Schema, SchemaRef};
use tickstone_query::arrow::ipc::writer::StreamWriter;
use tickstone_query::{QueryError, type_name};

/// The columns of a message that are not the query's: position, event, detail.
const OWN_COLUMNS: usize = 3;

/// How messages are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Json,
    Arrow,
}

/// A message as it is sent.
pub(crate) enum Told {
    Text(Vec<u8>),
    Bytes(Vec<u8>),
}

/// How the messages of a subscription are written.
pub(crate) struct Form {
    format: Format,
    /// The names of the query's columns, as they stand before values.
    keys: Vec<Vec<u8>>,
    /// The columns and their types, as JSON.
    columns: Vec<u8>,
}

impl Told {
    /// That a subscription was refused, or has ended.
    pub(crate) fn failed(id: &str, error: &QueryError) -> Vec<u8> {
        let mut out = begun(id, "error");
        put(&mut out, "message", &error.message);
        for (name, text) in [("detail", &error.detail), ("hint", &error.hint)] {
            if let Some(text) = text {
                put(&mut out, name, text);
            }
        }
        if let Some(at) = error.position {
            out.extend(format!(",\"line\":{},\"column\":{}", at.line, at.column).bytes());
        }
        out.push(b'}');
        out
    }

    /// That a subscription has ended as was asked.
    pub(crate) fn ended(id: &str) -> Vec<u8> {
        let mut out = begun(id, "unsubscribed");
        out.push(b'}');
        out
    }
}

fn begun(id: &str, event: &str) -> Vec<u8> {
    let mut out = b"{\"id\":".to_vec();
    quoted(id, &mut out);
    put(&mut out, "event", event);
    out
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b',');
    out.extend(key(name));
    quoted(value, out);
}

impl Form {
    /// Of messages of these columns.
    pub(crate) fn new(format: Format, schema: &Schema) -> Self {
        let fields = &schema.fields()[OWN_COLUMNS..];
        let keys = fields.iter().map(|field| key(field.name())).collect();
        let mut columns = b"[".to_vec();
        for (place, field) in fields.iter().enumerate() {
            columns.extend(if place > 0 { &b",{\"name\":"[..] } else { &b"{\"name\":"[..] });
            quoted(field.name(), &mut columns);
            put(&mut columns, "type", &type_name(field.data_type()));
            columns.push(b'}');
        }
        columns.push(b']');
        Self { format, keys, columns }
    }

    /// A batch as a message.
    ///
    /// # Errors
    /// Where a column cannot be written.
    pub(crate) fn message(&mut self, id: &str, batch: &RecordBatch) -> Result<Told, QueryError> {
        match self.format {
            Format::Json => self.json(id, batch).map(Told::Text),
            Format::Arrow => arrow(id, batch).map(Told::Bytes),
        }
    }

    /// What happened in a batch, as JSON: with its rows where that is no longer than `bytes_max`.
    ///
    /// # Errors
    /// Where a column cannot be written.
    pub(crate) fn brief(
        &self,
        id: &str,
        batch: &RecordBatch,
        bytes_max: usize,
    ) -> Result<Vec<u8>, QueryError> {
        if batch.num_rows() <= bytes_max {
            let whole = self.json(id, batch)?;
            if whole.len() <= bytes_max {
                return Ok(whole);
            }
        }
        let mut out = begun(id, &event_of(batch));
        if let Some(position) = text(batch, 0) {
            put(&mut out, "position", &position);
        }
        out.extend(format!(",\"count\":{}}}", batch.num_rows()).bytes());
        Ok(out)
    }

    fn json(&self, id: &str, batch: &RecordBatch) -> Result<Vec<u8>, QueryError> {
        let event = event_of(batch);
        let mut out = begun(id, &event);
        if let Some(position) = text(batch, 0) {
            put(&mut out, "position", &position);
        }
        if let Some(detail) = text(batch, 2) {
            // It is JSON itself.
            out.extend(b",\"detail\":");
            out.extend(detail.bytes());
        }
        match event.as_str() {
            "subscribed" => {
                out.extend(b",\"columns\":");
                out.extend(&self.columns);
            }
            "insert" | "update" | "delete" => {
                let places: Vec<usize> = (OWN_COLUMNS..batch.num_columns()).collect();
                let rows = batch.project(&places).map_err(QueryError::from)?;
                let mut values = Values::of(&rows, false)?;
                out.extend(b",\"rows\":[");
                // Bars of which none is left are told with one row of nothing.
                let none = event == "delete" && batch.column(2).is_valid(0);
                let count = if none { 0 } else { rows.num_rows() };
                for row in 0..count {
                    if row > 0 {
                        out.push(b',');
                    }
                    values.object(&self.keys, row, &mut out);
                }
                out.push(b']');
            }
            _ => {}
        }
        out.push(b'}');
        Ok(out)
    }
}

/// What happened.
pub(crate) fn event_of(batch: &RecordBatch) -> String {
    text(batch, 1).unwrap_or_default()
}

/// The text of a column of the first row.
fn text(batch: &RecordBatch, column: usize) -> Option<String> {
    let column = batch.column(column).as_dictionary_opt::<UInt32Type>()?;
    let key = column.key(0)?;
    Some(column.values().as_string_opt::<i32>()?.value(key).to_string())
}

/// A batch as a stream of Arrow IPC that stands for itself; its schema says which subscription it is of.
fn arrow(id: &str, batch: &RecordBatch) -> Result<Vec<u8>, QueryError> {
    let columns = batch.columns().iter().map(compact).collect::<Result<Vec<_>, QueryError>>()?;
    let mut metadata: HashMap<String, String> = batch.schema().metadata().clone();
    metadata.insert("subscription".to_string(), id.to_string());
    let fields = batch.schema().fields().clone();
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batch = RecordBatch::try_new(schema, columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// The same values; of a column of symbols only those that are there, where there are many more.
fn compact(column: &ArrayRef) -> Result<ArrayRef, QueryError> {
    let Some(symbols) = column.as_dictionary_opt::<UInt32Type>() else { return Ok(Arc::clone(column)) };
    if symbols.values().len() <= symbols.len().max(64) {
        return Ok(Arc::clone(column));
    }
    let used = take(symbols.values(), symbols.keys(), None)?;
    let DataType::Dictionary(_, values) = column.data_type() else { return Ok(Arc::clone(column)) };
    debug_assert_eq!(used.data_type(), values.as_ref());
    let again = cast(&used, column.data_type())?;
    let array: &DictionaryArray<UInt32Type> = again.as_dictionary();
    Ok(Arc::new(array.clone()))
}
