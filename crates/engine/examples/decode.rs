//! Measures how fast the columns of sealed parts are read, on one core.
//!
//! usage: decode DIR|FILE [TABLE [COLUMN]]
//!
//! DIR is a database directory, FILE one part in it; with TABLE only the parts of that table are read, with COLUMN
//! only that column. For each
//! column: bytes a value in the file; billions of values a second decoded into one reused buffer of 8,192 values
//! (`into`), and read as Arrow arrays of 8,192 rows (`read`). Nothing is written.

#![allow(missing_docs, clippy::disallowed_methods, reason = "a measurement, not an interface")]

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tickstone_engine::disk::{Disk, FileDisk};
use tickstone_engine::part::{Fixed, Part};
use tickstone_engine::{Engine, EngineOptions, TableSnapshot};
use tickstone_model::ColumnType;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rows read at a time.
const BATCH_ROWS: usize = 8_192;
/// Each measurement is the best of so many.
const ROUNDS: usize = 5;

/// The database directory that holds a path, and the path inside it.
fn database_of(path: &Path) -> Outcome<(PathBuf, Option<PathBuf>)> {
    if path.is_dir() {
        return Ok((path.into(), None));
    }
    let root = path.ancestors().find(|folder| folder.ends_with("tables")).and_then(Path::parent);
    let root = root.ok_or("the part is in no database directory")?;
    Ok((root.into(), Some(path.strip_prefix(root)?.into())))
}

fn parts(disk: &FileDisk, table: &TableSnapshot, only: Option<&Path>) -> Outcome<Vec<Part>> {
    let files = table.partitions().iter().flat_map(|partition| partition.part_files());
    let wanted = files.filter(|file| only.is_none_or(|only| only == file.as_path()));
    wanted.map(|file| Ok(Part::open(disk.read(file)?, file, table.schema())?)).collect()
}

/// The least time that one pass takes, in seconds; the first pass compares checksums and does not count.
fn best(mut pass: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    pass()?;
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        pass()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn batches(part: &Part) -> impl Iterator<Item = Range<usize>> + use<> {
    let rows = part.summary().rows as usize;
    (0..rows).step_by(BATCH_ROWS).map(move |start| start..rows.min(start + BATCH_ROWS))
}

fn read_all(parts: &[Part], column: usize) -> Outcome<()> {
    for part in parts {
        for rows in batches(part) {
            black_box(part.read(column, rows)?);
        }
    }
    Ok(())
}

fn into_all<A: Fixed>(parts: &[Part], column: usize) -> Outcome<()> {
    let mut values = Vec::new();
    for part in parts {
        for rows in batches(part) {
            part.read_into::<A>(column, std::slice::from_ref(&rows), &mut values)?;
            black_box(&values);
        }
    }
    Ok(())
}

/// Seconds of a pass into a reused buffer, and bytes of a value; `None` for types that are no numbers.
fn time_into(parts: &[Part], column: usize, column_type: ColumnType) -> Outcome<Option<(f64, usize)>> {
    fn timed<A: Fixed>(parts: &[Part], column: usize) -> Outcome<Option<(f64, usize)>> {
        Ok(Some((best(|| into_all::<A>(parts, column))?, size_of::<A::Native>())))
    }
    match column_type {
        ColumnType::Int8 => timed::<Int8Type>(parts, column),
        ColumnType::Int16 => timed::<Int16Type>(parts, column),
        ColumnType::Int32 => timed::<Int32Type>(parts, column),
        ColumnType::Int64 => timed::<Int64Type>(parts, column),
        ColumnType::UInt8 => timed::<UInt8Type>(parts, column),
        ColumnType::UInt16 => timed::<UInt16Type>(parts, column),
        ColumnType::UInt32 | ColumnType::Symbol => timed::<UInt32Type>(parts, column),
        ColumnType::UInt64 => timed::<UInt64Type>(parts, column),
        ColumnType::Float32 => timed::<Float32Type>(parts, column),
        ColumnType::Float64 => timed::<Float64Type>(parts, column),
        ColumnType::Date => timed::<Date32Type>(parts, column),
        ColumnType::Time => timed::<Time64NanosecondType>(parts, column),
        ColumnType::Timestamp => timed::<TimestampNanosecondType>(parts, column),
        ColumnType::Decimal { .. } => timed::<Decimal128Type>(parts, column),
        ColumnType::Boolean
        | ColumnType::Varchar
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Array(_) => Ok(None),
    }
}

fn measure(table: &TableSnapshot, parts: &[Part], only: Option<&str>) -> Outcome<()> {
    let rows: u64 = parts.iter().map(|part| part.summary().rows).sum();
    if rows == 0 {
        return Ok(());
    }
    println!("{}: {rows} rows in {} parts", table.schema().name(), parts.len());
    println!("{:20} {:>8} {:>10} {:>7} {:>10}", "column", "stored B", "into G/s", "GB/s", "read G/s");
    for (column, definition) in table.schema().columns().iter().enumerate() {
        if only.is_some_and(|only| only != definition.name) {
            continue;
        }
        let stored: u64 = parts.iter().map(|part| part.column_bytes(column)).sum();
        let read = rows as f64 / best(|| read_all(parts, column))? / 1e9;
        let into = time_into(parts, column, definition.column_type)?.map_or_else(
            || format!("{:>10} {:>7}", "-", "-"),
            |(taken, size)| {
                let speed = rows as f64 / taken / 1e9;
                format!("{speed:10.2} {:7.1}", speed * size as f64)
            },
        );
        println!("{:20} {:8.2} {into} {read:10.2}", definition.name, stored as f64 / rows as f64);
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: decode DIR|FILE [TABLE [COLUMN]]")?;
    let (wanted, column) = (arguments.next(), arguments.next());
    let (root, file) = database_of(Path::new(&path))?;
    let disk = FileDisk::open_read_only(&root)?;
    let engine = Engine::open_read_only(&root, EngineOptions::default())?;
    for table in engine.snapshot().tables() {
        if wanted.as_deref().is_none_or(|wanted| wanted == table.schema().name()) {
            measure(table, &parts(&disk, table, file.as_deref())?, column.as_deref())?;
        }
    }
    Ok(())
}
