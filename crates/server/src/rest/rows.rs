//! Rows of a statement as the body of an answer, written as they come.
//!
//! Memory does not grow with the rows: two batches wait at most, and a client that does not read holds its statement
//! back. One that goes cancels it.

use super::{csv, words::Fault};
use crate::http::json;
use crate::json::{Values, key};
use crate::statement::Rows;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use serde_json::json;
use std::ops::Range;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::arrow::ipc::writer::StreamWriter;

/// Bytes that are sent at once, at least.
const PIECE_BYTES: usize = 64 << 10;

/// Rows that are written before their size is looked at: at first, and at most.
const PIECE_ROWS: Range<usize> = 64..4096;

/// How rows become bytes.
pub(super) trait Form: Send + 'static {
    /// Puts what stands before the rows behind `out`.
    ///
    /// # Errors
    /// Where such rows cannot be written.
    fn head(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<(), QueryError>;

    /// Puts some rows behind `out`.
    ///
    /// # Errors
    /// As [`Self::head`].
    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError>;

    /// Puts what stands after the rows behind `out`.
    ///
    /// # Errors
    /// As [`Self::head`].
    fn tail(&mut self, _rows: &Rows, _counted: Counted, _out: &mut Vec<u8>) -> Result<(), QueryError> {
        Ok(())
    }

    /// Whether batches are written whole.
    fn is_columnar(&self) -> bool {
        false
    }
}

/// How many rows there were.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    /// Written.
    pub(super) written: u64,
    /// Seen, those outside of the range that was asked for too.
    pub(super) all: u64,
}

/// Which rows are wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// From 0.
    pub(super) rows: Range<u64>,
    /// Whether those behind them are counted too.
    pub(super) count: bool,
}

/// A body of rows, the first of which are there.
///
/// # Errors
/// Where such rows cannot be written, and what ends the statement within its first piece. An error behind that breaks the
/// answer off: the client sees that it is not whole.
pub(super) async fn body(mut form: impl Form, rows: Rows, wanted: Wanted) -> Result<Body, QueryError> {
    let mut out = Vec::with_capacity(PIECE_BYTES * 2);
    form.head(&rows.schema, &mut out)?;
    let writing = Writing {
        form,
        rows,
        wanted,
        out,
        counted: Counted::default(),
        batch: None,
        piece_rows: PIECE_ROWS.start,
    };
    let (first, rest) = writing.piece().await?;
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    Ok(Body::from_stream(first.chain(pieces(rest))))
}

struct Writing<F> {
    form: F,
    rows: Rows,
    wanted: Wanted,
    out: Vec<u8>,
    counted: Counted,
    /// Rows that are still to be written.
    batch: Option<RecordBatch>,
    /// How many rows make a piece, about.
    piece_rows: usize,
}

fn pieces<F: Form>(writing: Option<Writing<F>>) -> impl Stream<Item = Result<Bytes, QueryError>> {
    stream::try_unfold(writing, |writing| async move {
        let Some(writing) = writing else { return Ok(None) };
        let (piece, rest) = writing.piece().await?;
        Ok((!piece.is_empty()).then_some((piece, rest)))
    })
}

impl<F: Form> Writing<F> {
    /// The bytes that are sent next, and what is left to write; nothing after the last ones.
    async fn piece(mut self) -> Result<(Bytes, Option<Self>), QueryError> {
        let mut goes_on = true;
        while goes_on && self.out.len() < PIECE_BYTES {
            goes_on = self.more().await?;
        }
        let piece = std::mem::replace(&mut self.out, Vec::with_capacity(PIECE_BYTES * 2));
        Ok((Bytes::from(piece), goes_on.then_some(self)))
    }

    /// Writes some rows; whether there may be more.
    async fn more(&mut self) -> Result<bool, QueryError> {
        if let Some(batch) = self.batch.take() {
            self.write(&batch)?;
            return Ok(true);
        }
        let wants_more = self.counted.all < self.wanted.rows.end || self.wanted.count;
        let batch = if wants_more { self.rows.next().await } else { None };
        let Some(batch) = batch else {
            self.rows.keep_back(self.counted.all - self.counted.written);
            self.rows.enough();
            self.form.tail(&self.rows, self.counted, &mut self.out)?;
            return Ok(false);
        };
        let batch = batch?;
        // Where the wanted rows begin and end in this batch.
        let rows = batch.num_rows() as u64;
        let place = |row: u64| row.saturating_sub(self.counted.all).min(rows);
        let (start, end) = (place(self.wanted.rows.start), place(self.wanted.rows.end));
        self.counted.all += rows;
        if start < end {
            self.counted.written += end - start;
            self.batch = Some(batch.slice(start as usize, (end - start) as usize));
        }
        Ok(true)
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let rows = batch.num_rows();
        if self.form.is_columnar() || rows <= self.piece_rows {
            return self.form.rows(batch, &mut self.out);
        }
        let (piece, before) = (self.piece_rows, self.out.len());
        self.form.rows(&batch.slice(0, piece), &mut self.out)?;
        self.batch = Some(batch.slice(piece, rows - piece));
        let row_bytes = ((self.out.len() - before) / piece).max(1);
        self.piece_rows = (PIECE_BYTES / row_bytes).clamp(1, PIECE_ROWS.end);
        Ok(())
    }
}

/// Lines of CSV.
pub(super) struct Csv {
    /// Whether the names of the columns come first.
    pub(super) names: bool,
}

impl Form for Csv {
    fn head(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<(), QueryError> {
        if self.names {
            csv::head(schema, out);
        }
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError> {
        csv::rows(batch, out)
    }
}

/// An object of JSON a line.
#[derive(Default)]
pub(super) struct Ndjson {
    keys: Vec<Vec<u8>>,
}

impl Form for Ndjson {
    fn head(&mut self, schema: &SchemaRef, _out: &mut Vec<u8>) -> Result<(), QueryError> {
        self.keys = schema.fields().iter().map(|field| key(field.name())).collect();
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let mut values = Values::of(batch, false)?;
        for row in 0..batch.num_rows() {
            values.object(&self.keys, row, out);
            out.push(b'\n');
        }
        Ok(())
    }
}

/// A stream of Arrow IPC.
#[derive(Default)]
pub(super) struct Arrow {
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl Arrow {
    /// Hands what was written over.
    fn hand_over(writer: &mut StreamWriter<Vec<u8>>, out: &mut Vec<u8>) {
        out.append(writer.get_mut());
    }
}

impl Form for Arrow {
    fn head(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let writer = self.writer.insert(StreamWriter::try_new(Vec::new(), schema)?);
        Self::hand_over(writer, out);
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch)?;
            Self::hand_over(writer, out);
        }
        Ok(())
    }

    fn tail(&mut self, _rows: &Rows, _counted: Counted, out: &mut Vec<u8>) -> Result<(), QueryError> {
        if let Some(writer) = &mut self.writer {
            writer.finish()?;
            Self::hand_over(writer, out);
        }
        Ok(())
    }

    fn is_columnar(&self) -> bool {
        true
    }
}

/// What is wrong with a request, as QuestDB tells it.
pub(super) fn refused((status, what): Fault) -> Response {
    json(status, &json!({ "query": "", "error": what, "position": 0 }))
}
