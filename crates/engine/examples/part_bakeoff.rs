//! Measures parts on one table: size, scans on a core, look-ups, range reduction.
//!
//! usage: part_bakeoff TABLE.arrow DIR COLUMN SLICE_ROWS [REDUCE]
//!
//! TABLE is an Arrow IPC file in order of time with `timestamp` (ns) and `sym` (ids); DIR/lookups.csv holds
//! the look-ups of bench/bakeoff/formats.py. Prints one JSON object a line; medians of 5.

#![allow(missing_docs, clippy::disallowed_methods, reason = "a measurement, not an interface")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, TimeUnit};
use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::disk::{Disk, FileBytes, FileDisk};
use tickstone_engine::part::{Density, Part, PartOptions, PositionRange, StatValue};
use tickstone_model::{ColumnType, RowBatch, TableSchema, TimeRange};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Median time of `times` runs in seconds, and the last result.
fn median<T>(times: usize, mut run: impl FnMut() -> Outcome<T>) -> Outcome<(f64, T)> {
    let mut taken = Vec::new();
    let mut result = None;
    for _ in 0..times {
        let start = Instant::now();
        result = Some(run()?);
        taken.push(start.elapsed().as_secs_f64());
    }
    taken.sort_by(f64::total_cmp);
    Ok((taken[times / 2], result.ok_or("no run")?))
}

fn report(slice_rows: usize, what: &str, values: &str) {
    println!(r#"{{"format": "part-{slice_rows}", "what": "{what}", {values}}}"#);
}

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
    let mut builder = TableSchema::builder("bakeoff");
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

struct Bench {
    disk: FileDisk,
    schema: Arc<TableSchema>,
    slice_rows: usize,
    /// The column that look-ups and reductions read.
    column: usize,
}

impl Bench {
    fn open(&self) -> Outcome<Part> {
        let path = Path::new("part");
        Ok(Part::open(self.disk.read(path)?, path, &self.schema)?)
    }

    fn write(&self, rows: &RowBatch, threads: usize) -> Outcome<()> {
        let bytes =
            rows.columns().iter().map(|c| c.to_data().buffers()[0].len().min(c.len() * 8)).sum::<usize>();
        let options = PartOptions { slice_rows: self.slice_rows, threads, density: Density::Fast };
        let positions = PositionRange { first: 1, last: 1 };
        let write = || {
            let batches = std::slice::from_ref(rows);
            Ok(Part::write(&self.disk, Path::new("part"), &self.schema, positions, batches, options)?)
        };
        let (taken, summary) = median(3, write)?;
        let values = format!(
            r#""threads": {threads}, "mb_s": {:.0}, "bytes_a_row": {:.2}, "bytes": {}"#,
            bytes as f64 / taken / 1e6,
            summary.file_bytes as f64 / summary.rows as f64,
            summary.file_bytes
        );
        report(self.slice_rows, "write", &values);
        Ok(())
    }

    fn open_time(&self) -> Outcome<()> {
        let bytes: FileBytes = self.disk.read(Path::new("part"))?;
        let open = || Ok(Part::open(bytes.clone(), Path::new("part"), &self.schema)?);
        let (taken, _) = median(101, open)?;
        report(self.slice_rows, "open", &format!(r#""us": {:.1}"#, taken * 1e6));
        let part = self.open()?;
        let rows = part.summary().rows as f64;
        let size = |(column, definition): (usize, &tickstone_model::Column)| {
            format!(r#""{}": {:.2}"#, definition.name, part.column_bytes(column) as f64 / rows)
        };
        let sizes: Vec<String> = self.schema.columns().iter().enumerate().map(size).collect();
        report(self.slice_rows, "bytes a row by column", &sizes.join(", "));
        Ok(())
    }

    /// Symbol, from, to: the rows of each slice, their values, their sum.
    fn look_up(&self, part: &Part, symbol: u32, time: TimeRange) -> Outcome<f64> {
        let mut sum = 0.0;
        for (number, slice) in part.slices().iter().enumerate() {
            if slice.times.is_some_and(|(least, most)| time.to <= least || most < time.from) {
                continue;
            }
            let index = part.series(number);
            for entry in index.find(symbol) {
                let rows = part.seek(index.entry(entry).rows(), time)?;
                let array = part.read(self.column, rows)?;
                sum += sum_of(array.as_primitive::<Float64Type>().values());
            }
        }
        Ok(sum)
    }

    fn look_ups(&self, path: &str) -> Outcome<()> {
        let mut wanted = Vec::new();
        for line in std::fs::read_to_string(path)?.lines() {
            let mut numbers = line.split(',').map(str::parse::<i64>);
            let mut next = || -> Outcome<i64> { Ok(numbers.next().ok_or("a short line")??) };
            wanted.push((next()? as u32, TimeRange::new(next()?, next()?)));
        }
        let all = |part: &Part| -> Outcome<f64> {
            wanted.iter().map(|&(symbol, time)| self.look_up(part, symbol, time)).sum()
        };
        let part = self.open()?;
        let (first, _) = median(1, || all(&part))?;
        let (warm, sum) = median(5, || all(&part))?;
        let us = |taken: f64| taken / wanted.len() as f64 * 1e6;
        let values = format!(r#""us": {:.2}, "first_touch_us": {:.2}, "sum": {sum}"#, us(warm), us(first));
        report(self.slice_rows, "look-up", &values);
        Ok(())
    }

    fn scans(&self) -> Outcome<()> {
        let part = self.open()?;
        part.check()?;
        let rows = part.summary().rows as usize;
        let doubles: Vec<usize> = (0..self.schema.columns().len())
            .filter(|&column| self.schema.columns()[column].column_type == ColumnType::Float64)
            .collect();
        let sets =
            [("1 column", vec![self.column]), ("10 columns", doubles[..10.min(doubles.len())].to_vec())];
        for (label, columns) in sets.into_iter().chain([("all doubles", doubles)]) {
            let scan = || {
                let mut sum = 0.0;
                for &column in &columns {
                    // A stretch at a time, as an operator reads.
                    for start in (0..rows).step_by(8_192) {
                        let array = part.read(column, start..rows.min(start + 8_192))?;
                        sum += sum_of(array.as_primitive::<Float64Type>().values());
                    }
                }
                Ok(black_box(sum))
            };
            let (taken, _) = median(5, scan)?;
            let speed = (rows * columns.len()) as f64 / taken / 1e6;
            let values = format!(r#""million_values_s": {speed:.0}, "ms": {:.2}"#, taken * 1e3);
            report(self.slice_rows, &format!("scan {label}"), &values);
        }
        for (column, definition) in self.schema.columns().iter().enumerate().take(6) {
            let scan = || {
                for start in (0..rows).step_by(8_192) {
                    black_box(part.read(column, start..rows.min(start + 8_192))?);
                }
                Ok(())
            };
            let (taken, ()) = median(5, scan)?;
            let values = format!(r#""million_values_s": {:.0}"#, rows as f64 / taken / 1e6);
            report(self.slice_rows, &format!("decode {}", definition.name), &values);
        }
        Ok(())
    }
}

/// A sum in eight lanes, as an operator would do it.
fn sum_of(values: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (whole, rest) = values.as_chunks::<8>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// The first row from `start` at or after `time`, galloping.
fn gallop(times: &[i64], start: usize, time: i64) -> usize {
    let mut step = 1;
    while start + step < times.len() && times[start + step] < time {
        step *= 2;
    }
    let from = start + step / 2;
    let to = times.len().min(start + step + 1);
    from + times[from..to].partition_point(|&ts| ts < time)
}

/// Sums of buckets of `width` ns over rows in order of time.
fn reduce(times: &[i64], values: &[f64], width: i64, out: &mut Vec<(i64, f64, usize)>) {
    let mut row = 0;
    while row < times.len() {
        let bucket = times[row].div_euclid(width) * width;
        let end = gallop(times, row, bucket + width);
        out.push((bucket, sum_of(&values[row..end]), end - row));
        row = end;
    }
}

/// Range reduction on the candidate layouts: sum and count of COLUMN by symbol and bucket, one symbol or all.
fn reductions(bench: &Bench, batch: &RecordBatch) -> Outcome<()> {
    let times = batch.column_by_name("timestamp").ok_or("no timestamp")?;
    let times = times.as_primitive::<TimestampNanosecondType>().values();
    let ids =
        batch.column_by_name("sym").ok_or("no sym")?.as_any().downcast_ref::<UInt32Array>().ok_or("ids")?;
    let values = batch.column(bench.column).as_primitive::<Float64Type>().values();
    let part = bench.open()?;
    part.check()?;
    let symbols: Vec<u32> = (0..=ids.values().iter().copied().max().unwrap_or(0)).collect();
    let sorted: Vec<(Vec<i64>, Vec<f64>)> = symbols
        .iter()
        .map(|&symbol| {
            let rows = (0..times.len()).filter(|&row| ids.value(row) == symbol);
            rows.map(|row| (times[row], values[row])).unzip()
        })
        .collect();
    for (label, width) in [("1 min", 60_000_000_000_i64), ("1 h", 3_600_000_000_000)] {
        for wanted in [&symbols[..1], &symbols[..]] {
            let scope = if wanted.len() == 1 { "one symbol" } else { "all symbols" };
            let decoded = median(5, || blocks_decoded(bench, &part, wanted, width))?;
            let skipped = median(5, || blocks_by_statistics(bench, &part, wanted, width))?;
            let plain = median(5, || {
                let mut out = Vec::new();
                for &symbol in wanted {
                    let (times, values) = &sorted[symbol as usize];
                    reduce(times, values, width, &mut out);
                }
                Ok(total(&out))
            })?;
            let hashed = median(5, || Ok(time_order(times, ids.values(), values, wanted, width)))?;
            for (_, (sum, count)) in [&decoded, &skipped, &hashed] {
                let (expected, rows) = plain.1;
                if *count != rows || (sum - expected).abs() > expected.abs() * 1e-9 {
                    return Err(format!("{sum} of {count} rows, expected {expected} of {rows}").into());
                }
            }
            let ms = |taken: f64| taken * 1e3;
            let values = format!(
                r#""part_ms": {:.3}, "part_statistics_ms": {:.3}, "plain_symbol_order_ms": {:.3}, "plain_time_order_hash_ms": {:.3}, "rows": {}"#,
                ms(decoded.0),
                ms(skipped.0),
                ms(plain.0),
                ms(hashed.0),
                plain.1.1
            );
            report(bench.slice_rows, &format!("reduce {label}, {scope}"), &values);
        }
    }
    Ok(())
}

fn total(buckets: &[(i64, f64, usize)]) -> (f64, usize) {
    buckets.iter().fold((0.0, 0), |(sum, count), bucket| (sum + bucket.1, count + bucket.2))
}

fn entries(part: &Part, wanted: &[u32]) -> Vec<Range<usize>> {
    let of_slice = |number: usize| {
        let index = part.series(number);
        wanted.iter().flat_map(move |&symbol| index.find(symbol)).map(move |entry| index.entry(entry).rows())
    };
    (0..part.slices().len()).flat_map(of_slice).collect()
}

/// Part: decode times and values of the symbol's rows, a stretch at a time, then gallop and sum.
fn blocks_decoded(bench: &Bench, part: &Part, wanted: &[u32], width: i64) -> Outcome<(f64, usize)> {
    let mut out = Vec::new();
    for rows in entries(part, wanted) {
        for start in rows.clone().step_by(8_192) {
            let stretch = start..rows.end.min(start + 8_192);
            let times = part.read(0, stretch.clone())?;
            let values = part.read(bench.column, stretch)?;
            let times = times.as_primitive::<TimestampNanosecondType>().values();
            reduce(times, values.as_primitive::<Float64Type>().values(), width, &mut out);
        }
    }
    Ok(total(&out))
}

/// Part: blocks whose first and last timestamp fall into one bucket give their sum from statistics.
fn blocks_by_statistics(bench: &Bench, part: &Part, wanted: &[u32], width: i64) -> Outcome<(f64, usize)> {
    let mut out = Vec::new();
    for rows in entries(part, wanted) {
        let times = part.blocks(0, rows.clone())?;
        let values = part.blocks(bench.column, rows.clone())?;
        for (times, values) in times.iter().zip(&values) {
            let inside = rows.start.max(times.rows.start)..rows.end.min(times.rows.end);
            let edges = (times.first, times.last, values.stats.sum);
            if let (Some(StatValue::Int(first)), Some(StatValue::Int(last)), Some(StatValue::Float(sum))) =
                edges
            {
                let bucket = (first as i64).div_euclid(width);
                if inside == times.rows && bucket == (last as i64).div_euclid(width) {
                    out.push((bucket * width, sum, inside.len()));
                    continue;
                }
            }
            let times = part.read(0, inside.clone())?;
            let values = part.read(bench.column, inside)?;
            let times = times.as_primitive::<TimestampNanosecondType>().values();
            reduce(times, values.as_primitive::<Float64Type>().values(), width, &mut out);
        }
    }
    Ok(total(&out))
}

/// Rows in order of time only: filter by symbol, hash by symbol and bucket.
fn time_order(times: &[i64], ids: &[u32], values: &[f64], wanted: &[u32], width: i64) -> (f64, usize) {
    let mut buckets: HashMap<(u32, i64), (f64, usize)> = HashMap::new();
    for ((&time, &id), &value) in times.iter().zip(ids).zip(values) {
        if wanted.contains(&id) {
            let bucket = buckets.entry((id, time.div_euclid(width))).or_default();
            bucket.0 += value;
            bucket.1 += 1;
        }
    }
    buckets.values().fold((0.0, 0), |(sum, count), bucket| (sum + bucket.0, count + bucket.1))
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads its arguments")]
fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, table, folder, column, slice_rows, rest @ ..] = &arguments[..] else {
        return Err("usage: part_bakeoff TABLE.arrow DIR COLUMN SLICE_ROWS [REDUCE]".into());
    };
    let batch = load(table)?;
    let schema = schema_of(&batch)?;
    let slice_rows: usize = slice_rows.parse()?;
    let column = schema.column_index(column).ok_or("no such column")?;
    let disk = FileDisk::open(format!("{folder}/part-{slice_rows}"))?;
    let bench = Bench { disk, schema: Arc::clone(&schema), slice_rows, column };
    let rows = RowBatch::new(schema, batch.columns().to_vec())?;
    for threads in [1, 2] {
        bench.write(&rows, threads)?;
    }
    drop(rows);
    bench.open_time()?;
    bench.look_ups(&format!("{folder}/lookups.csv"))?;
    bench.scans()?;
    if !rest.is_empty() {
        reductions(&bench, &batch)?;
    }
    Ok(())
}
