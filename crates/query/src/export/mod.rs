//! Rows of a query into files: CSV, JSON, NDJSON, Parquet, Arrow IPC, plain or packed.
//!
//! Owns how values look outside (timestamps in ISO 8601 with nanoseconds, NULL as an empty field) and
//! the rule that a file is there whole or not at all. Batches are written as they come: memory does
//! not grow with the result, but for JSON's brackets nothing waits for the end.
//!
//! Enter at [`write`] for any writer, [`write_file`] for a file.

mod csv;
mod file;
mod folders;
mod layout;
mod room;

pub use crate::texts::{Cells, TimeStyle};
pub use file::{Written, detect, write_file};
pub use layout::{Layout, Pages};
pub use room::Room;

use crate::paths::Compression;
use crate::texts::{holds_uuids, uuids_as_text};
use crate::{ErrorKind, QueryError, Result};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_json::writer::{JsonArray, LineDelimited, Writer as JsonWriter, WriterBuilder as JsonOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// ISO 8601 with nanoseconds, for writers that take a pattern.
const TIMESTAMP_PATTERN: &str = "%Y-%m-%dT%H:%M:%S%.9fZ";

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Delimited text with a header.
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    Ndjson,
    /// Apache Parquet, zstd inside.
    Parquet,
    /// Arrow IPC file; symbols as text.
    Arrow,
}

impl Format {
    /// The names [`Self::parse`] knows.
    pub const NAMES: &'static str = "csv, json, ndjson, parquet or arrow";

    /// The format of this name or file ending.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "json" => Format::Json,
            "ndjson" | "jsonl" => Format::Ndjson,
            "parquet" | "pq" => Format::Parquet,
            "arrow" | "ipc" | "feather" => Format::Arrow,
            _ => return None,
        })
    }

    /// The ending of its files.
    fn ending(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Ndjson => "ndjson",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ending())
    }
}

/// Writes the rows of `stream` to `out`; how many there were. Row groups of Parquet wait in `room`.
///
/// # Errors
/// The stream's, or where `out` takes no more: what was written so far stays in it.
pub async fn write(
    stream: SendableRecordBatchStream,
    layout: &Layout,
    room: &Room,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    let schema = stream.schema();
    let batches = stream.map(|batch| batch.map_err(QueryError::from));
    write_batches(&schema, batches, layout, room, out).await
}

/// As [`write`], of batches from elsewhere.
///
/// # Errors
/// As there.
pub async fn write_batches(
    schema: &SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>>,
    layout: &Layout,
    room: &Room,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    let mut batches = std::pin::pin!(batches);
    let mut encoder = Encoder::new(layout, schema, Packer::new(layout.compression, Box::new(out))?)?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        encoder.write(&batch)?;
        if !room.has(encoder.waiting_bytes()) {
            encoder.end_row_group()?;
            room.count(encoder.waiting_bytes());
        }
    }
    encoder.finish()?.finish()?;
    Ok(rows)
}

/// One of the format writers over packed output.
enum Encoder<'a> {
    Csv(csv::CsvWriter<Packer<'a>>),
    Json(JsonWriter<Packer<'a>, JsonArray>),
    Ndjson(JsonWriter<Packer<'a>, LineDelimited>),
    Parquet(Box<ArrowWriter<Packer<'a>>>),
    Arrow(Box<FileWriter<Packer<'a>>>),
}

impl<'a> Encoder<'a> {
    fn new(layout: &Layout, schema: &SchemaRef, out: Packer<'a>) -> Result<Self> {
        let json = || {
            JsonOptions::new().with_explicit_nulls(true).with_timestamp_format(TIMESTAMP_PATTERN.to_string())
        };
        Ok(match layout.format {
            Format::Csv => Encoder::Csv(csv::CsvWriter::new(out, schema, layout)?),
            Format::Json => Encoder::Json(json().build(out)),
            Format::Ndjson => Encoder::Ndjson(json().build(out)),
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(layout.pages.codec())
                    .set_max_row_group_row_count(Some(layout.row_group_rows))
                    .build();
                let writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(properties));
                Encoder::Parquet(Box::new(writer.map_err(parquet_error)?))
            }
            Format::Arrow => Encoder::Arrow(Box::new(FileWriter::try_new(out, &plain_schema(schema))?)),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Encoder::Csv(writer) => writer.write(batch).map_err(write_error)?,
            Encoder::Json(writer) => writer.write(&json_batch(batch)?)?,
            Encoder::Ndjson(writer) => writer.write(&json_batch(batch)?)?,
            Encoder::Parquet(writer) => writer.write(batch).map_err(parquet_error)?,
            Encoder::Arrow(writer) => writer.write(&plain_batch(batch)?)?,
        }
        Ok(())
    }

    /// Memory of the row group that is put together, in bytes.
    fn waiting_bytes(&self) -> usize {
        match self {
            Encoder::Parquet(writer) => writer.memory_size(),
            _ => 0,
        }
    }

    /// Writes the row group that is put together.
    fn end_row_group(&mut self) -> Result<()> {
        match self {
            Encoder::Parquet(writer) => writer.flush().map_err(parquet_error),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Packer<'a>> {
        Ok(match self {
            Encoder::Csv(writer) => writer.finish().map_err(write_error)?,
            Encoder::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Encoder::Ndjson(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Encoder::Parquet(writer) => writer.into_inner().map_err(parquet_error)?,
            Encoder::Arrow(writer) => writer.into_inner()?,
        })
    }
}

/// Output, packed.
enum Packer<'a> {
    None(Box<dyn Write + Send + 'a>),
    Gzip(GzEncoder<Box<dyn Write + Send + 'a>>),
    Zstd(zstd::Encoder<'a, Box<dyn Write + Send + 'a>>),
}

impl<'a> Packer<'a> {
    fn new(compression: Compression, out: Box<dyn Write + Send + 'a>) -> Result<Self> {
        Ok(match compression {
            Compression::None => Packer::None(out),
            Compression::Gzip => Packer::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Packer::Zstd(zstd::Encoder::new(out, 0).map_err(write_error)?),
        })
    }

    fn finish(self) -> Result<()> {
        let mut out = match self {
            Packer::None(out) => out,
            Packer::Gzip(encoder) => encoder.finish().map_err(write_error)?,
            Packer::Zstd(encoder) => encoder.finish().map_err(write_error)?,
        };
        out.flush().map_err(write_error)
    }
}

impl Write for Packer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packer::None(out) => out.write(bytes),
            Packer::Gzip(encoder) => encoder.write(bytes),
            Packer::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packer::None(out) => out.flush(),
            Packer::Gzip(encoder) => encoder.flush(),
            Packer::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// The schema with text for symbols: an IPC file holds one dictionary a column, and batches of a query
/// may come with several.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, values) => {
            Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone()))
        }
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().map(plain).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

fn plain_batch(batch: &RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
    let schema = plain_schema(&batch.schema());
    let plain = |(field, column): (&Arc<Field>, &ArrayRef)| arrow_cast::cast(column, field.data_type());
    let columns =
        schema.fields().iter().zip(batch.columns()).map(plain).collect::<std::result::Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// The batch with UUIDs as the texts they are known by, which JSON's writer has no word for.
fn json_batch(batch: &RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| holds_uuids(column.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(uuids_as_text).collect::<std::result::Result<Vec<_>, _>>()?;
    let schema = batch.schema();
    let fields =
        schema.fields().iter().zip(&columns).map(|(field, column)| {
            Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
        });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

fn write_error(error: io::Error) -> QueryError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::FreeSpace,
        _ => ErrorKind::FixRequest,
    };
    QueryError::new(kind, format!("cannot write the result: {error}"))
}

fn parquet_error(error: parquet::errors::ParquetError) -> QueryError {
    QueryError::new(ErrorKind::Report, format!("cannot write Parquet: {error}"))
}

#[cfg(test)]
mod tests;
