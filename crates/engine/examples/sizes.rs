//! Measures how much room the columns of a part take, and how fast each is decoded on one core.
//!
//! usage: sizes TABLE.arrow DIR SLICE_ROWS fast|dense
//!
//! TABLE is an Arrow IPC file in order of time with `timestamp` (ns) and `sym` (ids). The part is written to
//! DIR/part. Prints one JSON object; speeds are values a second, by the time that the thread ran, in batches of 8,192
//! values: decoded into one reused buffer, summed up, with least and largest, and compared with a constant.

#![allow(missing_docs, clippy::disallowed_methods, reason = "a measurement, not an interface")]

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_schema::{DataType, TimeUnit};
use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tickstone_engine::disk::{Disk, FileDisk};
use tickstone_engine::part::{ColumnBound, Density, Fixed, Part, PartOptions, PositionRange, StatValue};
use tickstone_model::{ColumnType, RowBatch, TableSchema};

type Outcome<T> = Result<T, Box<dyn Error>>;

const BATCH_ROWS: usize = 8_192;
/// How long a column is read over and over.
const SECONDS: f64 = 0.1;

fn load(path: &str) -> Outcome<RecordBatch> {
    let file = std::io::BufReader::new(std::fs::File::open(path)?);
    let mut batches = arrow_ipc::reader::FileReader::try_new(file, None)?;
    let batch = batches.next().ok_or("an empty file")??;
    if batches.next().is_some() {
        return Err("the table is in more than one batch".into());
    }
    Ok(batch)
}

fn schema_of(batch: &RecordBatch) -> Outcome<Arc<TableSchema>> {
    let mut builder = TableSchema::builder("sizes");
    for field in batch.schema().fields() {
        let column_type = match field.data_type() {
            DataType::UInt32 => ColumnType::Symbol,
            DataType::Float64 => ColumnType::Float64,
            DataType::Int64 => ColumnType::Int64,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => ColumnType::Timestamp,
            other => return Err(format!("no column of type {other} expected").into()),
        };
        builder = builder.column(field.name(), column_type);
    }
    Ok(Arc::new(builder.timestamp("timestamp").series(["sym"]).build()?))
}

/// Time that this thread has run, in seconds: other work on the machine does not count.
fn thread_time() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9)
}

/// Values a second of `read`, which goes over a batch of rows.
fn speed(part: &Part, mut read: impl FnMut(Range<usize>) -> Outcome<()>) -> Outcome<f64> {
    let rows = part.summary().rows as usize;
    // The first pass compares checksums; as many follow as take long enough to be measured by the thread's clock.
    let (mut passes, mut start, mut taken) = (0, 0.0, 0.0);
    while taken < SECONDS {
        if passes == 1 {
            start = thread_time()?;
        }
        for first in (0..rows).step_by(BATCH_ROWS) {
            read(first..rows.min(first + BATCH_ROWS))?;
        }
        passes += 1;
        taken = if passes > 1 { thread_time()? - start } else { 0.0 };
    }
    Ok(rows as f64 * f64::from(passes - 1) / taken)
}

/// Values a second decoded into one reused buffer.
fn decoded<A: Fixed>(part: &Part, column: usize) -> Outcome<f64> {
    let mut values = Vec::new();
    speed(part, |batch| {
        part.read_into::<A>(column, std::slice::from_ref(&batch), &mut values)?;
        black_box(&values);
        Ok(())
    })
}

/// Values a second summed up without being made into an array.
fn summed(part: &Part, column: usize) -> Outcome<f64> {
    speed(part, |batch| {
        black_box(part.sum(column, std::slice::from_ref(&batch))?);
        Ok(())
    })
}

/// Values a second of which sum, least and largest are found.
fn reduced(part: &Part, column: usize) -> Outcome<f64> {
    speed(part, |batch| {
        black_box(part.reduce(column, std::slice::from_ref(&batch))?);
        Ok(())
    })
}

/// Values a second compared with the middle of the first batch's range.
fn filtered(part: &Part, column: usize) -> Outcome<f64> {
    let first = 0..BATCH_ROWS.min(part.summary().rows as usize);
    let stats = part.reduce(column, std::slice::from_ref(&first))?;
    let middle = match (stats.min, stats.max) {
        (Some(StatValue::Int(min)), Some(StatValue::Int(max))) => {
            Some(StatValue::Int(i128::midpoint(min, max)))
        }
        (Some(StatValue::Float(min)), Some(StatValue::Float(max))) => {
            Some(StatValue::Float(f64::midpoint(min, max)))
        }
        _ => None,
    };
    let bound = ColumnBound { column, min: middle, max: None };
    speed(part, |batch| {
        black_box(part.filter(&bound, batch)?);
        Ok(())
    })
}

fn column_line(part: &Part, column: usize) -> Outcome<String> {
    let definition = &part.schema().columns()[column];
    let values_s = match definition.column_type {
        ColumnType::Symbol => decoded::<UInt32Type>(part, column)?,
        ColumnType::Float64 => decoded::<Float64Type>(part, column)?,
        ColumnType::Int64 => decoded::<Int64Type>(part, column)?,
        _ => decoded::<TimestampNanosecondType>(part, column)?,
    };
    Ok(format!(
        r#"{{"name": "{}", "bytes": {}, "page_bytes": {}, "values_s": {values_s:.0}, "sum_s": {:.0}, "reduce_s": {:.0}, "filter_s": {:.0}}}"#,
        definition.name,
        part.column_bytes(column),
        part.index_bytes(column),
        summed(part, column)?,
        reduced(part, column)?,
        filtered(part, column)?,
    ))
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, folder, slice_rows, density] = arguments.as_slice() else {
        return Err("usage: sizes TABLE.arrow DIR SLICE_ROWS fast|dense".into());
    };
    let density = match density.as_str() {
        "fast" => Density::Fast,
        "dense" => Density::Dense,
        other => return Err(format!("no density is called {other}").into()),
    };
    let batch = load(source)?;
    let schema = schema_of(&batch)?;
    let rows = RowBatch::new(Arc::clone(&schema), batch.columns().to_vec())?;
    let disk = FileDisk::open(Path::new(folder))?;
    let path = Path::new("part");
    let options = PartOptions { slice_rows: slice_rows.parse()?, threads: 1, density };
    let positions = PositionRange { first: 1, last: 1 };
    let start = thread_time()?;
    let summary = Part::write(&disk, path, &schema, positions, &[rows], options)?;
    let taken = thread_time()? - start;
    let widths = batch.columns().iter().map(|column| column.data_type().primitive_width().unwrap_or(0));
    let memory = widths.sum::<usize>() * batch.num_rows();
    drop(batch);
    let part = Part::open(disk.read(path)?, path, &schema)?;
    part.check()?;
    let columns = 0..schema.columns().len();
    let lines: Vec<String> =
        columns.clone().map(|column| column_line(&part, column)).collect::<Outcome<_>>()?;
    let stored: u64 = columns.clone().map(|column| part.column_bytes(column)).sum();
    let index: u64 = columns.map(|column| part.index_bytes(column)).sum();
    println!(
        r#"{{"bytes": {}, "page_bytes": {index}, "footer_bytes": {}, "write_mb_s": {:.0}, "columns": [{}]}}"#,
        summary.file_bytes,
        summary.file_bytes - stored,
        memory as f64 / taken / 1e6,
        lines.join(", "),
    );
    Ok(())
}
