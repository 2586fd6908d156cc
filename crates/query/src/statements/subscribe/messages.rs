//! What a subscriber is given: batches of rows, each with what happened and from where to resume.

use super::token::Token;
use crate::error::{Result, from_arrow};
use crate::live::MESSAGE_COLUMNS;
use chrono::{DateTime, SecondsFormat};
use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{SchemaRef, UInt32Type};
use std::sync::Arc;

/// What a message says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The subscription begins after this position.
    Subscribed,
    /// The rows that were there are all told.
    CaughtUp,
    /// Rows came.
    Insert,
    /// Rows have other values.
    Update,
    /// Rows are gone; as they were.
    Delete,
    /// All rows of the table are gone.
    Truncate,
    /// Partitions are gone with their rows.
    DropPartitions,
    /// Rows of a partition went from memory into a part.
    Sealed,
    /// Rows of a later day came for the first time.
    EndOfDay,
    /// Rows that waited are left out: of each series the newest comes.
    Conflated,
    /// Nothing came.
    Heartbeat,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Event::Subscribed => "subscribed",
            Event::CaughtUp => "caught_up",
            Event::Insert => "insert",
            Event::Update => "update",
            Event::Delete => "delete",
            Event::Truncate => "truncate",
            Event::DropPartitions => "drop_partitions",
            Event::Sealed => "sealed",
            Event::EndOfDay => "end_of_day",
            Event::Conflated => "conflated",
            Event::Heartbeat => "heartbeat",
        }
    }
}

/// One batch of what a subscriber is given.
#[derive(Debug)]
pub(super) struct Message {
    event: Event,
    /// `None` while the rows that were there are told: there is no going on in their midst.
    at: Option<Token>,
    detail: Option<String>,
    rows: Option<RecordBatch>,
}

impl Message {
    /// Rows; all up to `at` is told with them.
    pub(super) fn rows(event: Event, at: Option<Token>, rows: RecordBatch) -> Self {
        Self { event, at, detail: None, rows: Some(rows) }
    }

    /// No rows.
    pub(super) fn event(event: Event, at: Token, detail: Option<String>) -> Self {
        Self { event, at: Some(at), detail, rows: None }
    }

    /// No rows, and no place to resume from.
    pub(super) fn untimely(event: Event, detail: Option<String>) -> Self {
        Self { event, at: None, detail, rows: None }
    }

    /// With more about it.
    pub(super) fn with_detail(self, detail: String) -> Self {
        Self { detail: Some(detail), ..self }
    }

    /// As a batch of `schema`, which is that of [`crate::live::message_schema`]: one row where it has none.
    pub(super) fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = self.rows.filter(|rows| rows.num_rows() > 0);
        let count = rows.as_ref().map_or(1, RecordBatch::num_rows);
        let at = self.at.map(|at| at.to_string());
        let mut columns: Vec<ArrayRef> = [at.as_deref(), Some(self.event.name()), self.detail.as_deref()]
            .into_iter()
            .map(|text| repeated(text, count))
            .collect();
        for (index, field) in schema.fields().iter().skip(MESSAGE_COLUMNS.len()).enumerate() {
            columns.push(match &rows {
                None => new_null_array(field.data_type(), count),
                Some(rows) => {
                    let column = rows.column(index);
                    match column.data_type() == field.data_type() {
                        true => Arc::clone(column),
                        false => cast(column, field.data_type()).map_err(from_arrow)?,
                    }
                }
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(schema), columns).map_err(from_arrow)?)
    }
}

fn repeated(text: Option<&str>, count: usize) -> ArrayRef {
    let keys = match text {
        Some(_) => UInt32Array::from(vec![0; count]),
        None => UInt32Array::new_null(count),
    };
    let values = StringArray::from(vec![text.unwrap_or_default()]);
    let array = DictionaryArray::<UInt32Type>::new(keys, Arc::new(values));
    Arc::new(array)
}

/// An instant (ns since the Unix epoch) as text, in UTC.
pub(super) fn instant(ns: i64) -> String {
    DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
