//! Batches as messages: cut to a size that every client takes, with no more of a dictionary than their rows need.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_flight::FlightDescriptor;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoder, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::dictionary::garbage_collect_any_dictionary;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use std::sync::Arc;

/// Bytes of rows that a message has at most, unless one row is larger: half of what clients take by default.
const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// Values of a dictionary that are sent for however few rows.
const DICTIONARY_VALUES_MIN: usize = 1024;

/// Rows as messages, the schema before them. `metadata` goes with the first message, and so does `descriptor`.
pub fn messages<S>(
    schema: &SchemaRef,
    descriptor: Option<FlightDescriptor>,
    metadata: Bytes,
    batches: S,
) -> FlightDataEncoder
where
    S: Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
{
    let mut sending = Sending::new(schema);
    let pieces = batches.flat_map(move |batch| {
        let pieces = batch.and_then(|batch| Ok(sending.pieces(batch)?));
        stream::iter(match pieces {
            Ok(pieces) => pieces.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    });
    FlightDataEncoderBuilder::new()
        .with_dictionary_handling(DictionaryHandling::Resend)
        // They are cut already, by the bytes of their rows and not of the memory behind them.
        .with_max_flight_data_size(usize::MAX)
        .with_schema(Arc::clone(schema))
        .with_flight_descriptor(descriptor)
        .with_metadata(metadata)
        .build(pieces)
}

/// Batches on their way.
struct Sending {
    /// Of each column the dictionary that was sent whole last.
    sent: Vec<Option<ArrayRef>>,
    /// Rows so far.
    rows: usize,
}

impl Sending {
    fn new(schema: &SchemaRef) -> Self {
        Self { sent: vec![None; schema.fields().len()], rows: 0 }
    }

    fn pieces(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut cut = Vec::new();
        halve(batch, &mut cut);
        cut.iter().map(|piece| self.small(piece)).collect()
    }

    /// A piece without what its rows do not refer to.
    fn small(&mut self, piece: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        self.rows += piece.num_rows();
        let columns = piece.columns().iter().enumerate().map(|(place, column)| match column.data_type() {
            DataType::Dictionary(..) => self.dictionary(place, column),
            DataType::Utf8View => Ok(Arc::new(column.as_string_view().gc()) as ArrayRef),
            DataType::BinaryView => Ok(Arc::new(column.as_binary_view().gc()) as ArrayRef),
            _ => Ok(Arc::clone(column)),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(piece.num_rows()));
        RecordBatch::try_new_with_options(piece.schema(), columns, &options)
    }

    /// A dictionary is sent whole once there were as many rows as it has values, and is not sent again while it stays
    /// the same; before that, and where each batch has another, only what the rows refer to.
    fn dictionary(&mut self, place: usize, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let dictionary = column.as_any_dictionary();
        let values = dictionary.values();
        let last = &mut self.sent[place];
        if last.as_ref().is_some_and(|last| is_same(last, values)) {
            return Ok(Arc::clone(column));
        }
        let rows = if last.is_none() { self.rows } else { column.len() };
        if values.len() <= rows.max(DICTIONARY_VALUES_MIN) && bytes_of(values) <= MESSAGE_BYTES_MAX {
            *last = Some(Arc::clone(values));
            return Ok(Arc::clone(column));
        }
        garbage_collect_any_dictionary(dictionary)
    }
}

fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    Arc::ptr_eq(a, b) || a.to_data().ptr_eq(&b.to_data())
}

/// Cuts a batch in halves until each has at most [`MESSAGE_BYTES_MAX`] or one row.
fn halve(batch: RecordBatch, out: &mut Vec<RecordBatch>) {
    let rows = batch.num_rows();
    if rows < 2 || batch.columns().iter().map(bytes_of_rows).sum::<usize>() <= MESSAGE_BYTES_MAX {
        out.push(batch);
        return;
    }
    halve(batch.slice(0, rows / 2), out);
    halve(batch.slice(rows / 2, rows - rows / 2), out);
}

fn bytes_of(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size())
}

/// What the rows of a column take; of a dictionary their keys and, at most, as many values as there are rows.
fn bytes_of_rows(column: &ArrayRef) -> usize {
    match column.as_any_dictionary_opt() {
        None => match column.data_type() {
            // Short texts are in the views; of longer ones it is not known which a slice refers to.
            DataType::Utf8View => 16 * column.len() + column.as_string_view().total_buffer_bytes_used(),
            DataType::BinaryView => 16 * column.len() + column.as_binary_view().total_buffer_bytes_used(),
            _ => bytes_of(column),
        },
        Some(dictionary) => {
            let values = dictionary.values();
            let each = bytes_of(values) / values.len().max(1);
            bytes_of(&dictionary.keys().slice(0, column.len())) + each * column.len().min(values.len())
        }
    }
}

#[cfg(test)]
mod tests;
