//! Times of Parquet's INT96, which hold every year: their reader gives nanoseconds, and wraps around where 64 bits do not
//! hold them (9999-12-31 becomes 1816).
//!
//! The columns of such times are read in seconds first, which none is too far for. Files that have them are old ones:
//! Spark, Hive and Impala wrote them until TIMESTAMP was part of the format.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use arrow_array::types::TimestampSecondType;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::sync::Arc;

/// A time that no TIMESTAMP is.
pub(crate) struct PastTime {
    /// Its column.
    pub(crate) column: String,
    /// Its row, from 1, and what it is.
    pub(crate) what: String,
}

/// The first time of a file that 64 bits of nanoseconds do not hold.
///
/// # Errors
/// Those of reading the file.
pub(crate) fn past_time(file: &File, metadata: &ParquetMetaData) -> Result<Option<PastTime>, ParquetError> {
    let about = metadata.file_metadata();
    let descriptor = about.schema_descr();
    let leaves = (0..descriptor.num_columns())
        .filter(|leaf| descriptor.column(*leaf).physical_type() == Type::INT96)
        .collect::<Vec<_>>();
    if leaves.is_empty() {
        return Ok(None);
    }
    let roots: Vec<usize> = leaves.iter().map(|leaf| descriptor.get_column_root_idx(*leaf)).collect();
    let schema = parquet_to_arrow_schema(descriptor, about.key_value_metadata())?;
    let fields = schema.fields().iter().enumerate().map(|(root, field)| match roots.contains(&root) {
        true => in_seconds(field),
        false => Field::clone(field),
    });
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file.try_clone()?, options)?;
    let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves);
    let mut rows = 0;
    for batch in builder.with_projection(mask).build()? {
        let batch = batch?;
        for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
            if past_in(column).is_none() {
                continue;
            }
            let past = (0..column.len()).find_map(|row| Some((row, past_in(&column.slice(row, 1))?)));
            if let Some((row, what)) = past {
                let what =
                    format!("row {}: {what} is no time between the years 1677 and 2262", rows + row + 1);
                return Ok(Some(PastTime { column: field.name().clone(), what }));
            }
        }
        rows += batch.num_rows();
    }
    Ok(None)
}

/// The same field, its times in seconds.
fn in_seconds(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            DataType::Timestamp(TimeUnit::Second, zone.clone())
        }
        DataType::List(of) => DataType::List(Arc::new(in_seconds(of))),
        DataType::LargeList(of) => DataType::LargeList(Arc::new(in_seconds(of))),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| in_seconds(field)).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// The first time of an array, or of the arrays within it, that is none in nanoseconds.
fn past_in(array: &ArrayRef) -> Option<String> {
    const SECONDS: i64 = i64::MAX / 1_000_000_000;
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            let times = array.as_primitive::<TimestampSecondType>();
            let past = times.iter().flatten().find(|seconds| !(-SECONDS..SECONDS).contains(seconds))?;
            Some(timestamp_s_to_datetime(past).map_or_else(|| past.to_string(), |time| time.to_string()))
        }
        DataType::List(_) => (0..array.len()).find_map(|row| past_in(&array.as_list::<i32>().value(row))),
        DataType::LargeList(_) => {
            (0..array.len()).find_map(|row| past_in(&array.as_list::<i64>().value(row)))
        }
        DataType::Struct(_) => array.as_struct().columns().iter().find_map(past_in),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
