//! The decoders of durable bytes as functions of any bytes, for `fuzz/` and for the property tests beside it.
//!
//! None of them may panic, hang, or allocate past what the bytes can stand for. Checksums are passed over:
//! they are no protection against bytes that were made to fit.

use crate::checksum;
use crate::clock::{Clock, SystemClock};
use crate::disk::{Disk, FileBytes, MemoryDisk};
use crate::part::{ColumnBound, ColumnPoints, Part, StatValue};
use crate::store::dictionary::Dictionary;
use crate::store::manifest::{Manifest, unpack};
use crate::streams::{StreamSettings, Streams};
use crate::tape::change::decode_change;
use crate::tape::frame::{classify_tail, read_frame};
use crate::tape::named::{TAPE_MANIFEST, TapeManifest};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema, TimeRange};

/// Bytes of a tape segment, past its header: frames, one after the other, to the first broken one.
pub fn frames(bytes: &[u8]) {
    for pass_over in [false, true] {
        let walk = || {
            let mut at = 0;
            while at < bytes.len() {
                match read_frame(bytes, at) {
                    Ok(frame) => at += frame.size(),
                    Err(broken) => {
                        classify_tail(bytes, at, &broken);
                        break;
                    }
                }
            }
        };
        if pass_over { checksum::passed_over(walk) } else { walk() }
    }
}

/// A kind of frame (one byte) and a payload.
pub fn change(bytes: &[u8]) {
    let Some((kind, payload)) = bytes.split_first() else { return };
    let types = |table: u32| {
        let of = |schema: Arc<TableSchema>| schema.columns().iter().map(|c| c.column_type).collect();
        match table {
            9 => None,
            // As in the golden database of arrays.
            2 => Some(of(books())),
            _ => Some(of(every_type())),
        }
    };
    // What it says does not matter, only that it is said.
    let _ = decode_change(u16::from(*kind), payload, types);
}

/// A manifest file.
pub fn manifest(bytes: &[u8]) {
    // A manifest of whatever table; what it has packed is unpacked.
    let table = bytes.get(12..16).map_or(1, |id| u32::from_le_bytes(id.try_into().expect("four bytes")));
    let path = Manifest::path(table);
    if let Ok(Some(manifest)) = checksum::passed_over(|| Manifest::load(&holding(&path, bytes), table)) {
        unpack(&manifest.parts).for_each(drop);
    }
}

/// A tape manifest.
pub fn tape_manifest(bytes: &[u8]) {
    let _ = checksum::passed_over(|| TapeManifest::load(&holding(Path::new(TAPE_MANIFEST), bytes)));
}

/// A file of a stream, which the first byte names: its log, an index beside a log, or its name and settings. It is
/// opened for writing, read and appended to.
pub fn stream(bytes: &[u8]) {
    let Some((which, contents)) = bytes.split_first() else { return };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    for (place, (path, golden)) in some_stream().into_iter().enumerate() {
        if let Ok(mut file) = disk.create(&path) {
            // A disk in memory takes everything.
            let _ = file.append(if place == usize::from(*which) { contents } else { &golden });
        }
    }
    checksum::passed_over(|| {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let Ok(streams) = Streams::open(&disk, &clock, 1 << 20, false) else { return };
        for stream in streams.all().unwrap_or_default() {
            for (from, to, most) in [(0, u64::MAX, u64::MAX), (5, 1 << 60, 100)] {
                let _ = stream.range(from, to, most).map(|found| found.entries().count());
                let _ = stream.after(from, most).map(|found| found.last());
                let _ = stream.last_before(to).map(|found| found.bytes());
            }
            let _ = stream.stats();
            let _ = stream.push([&b"next"[..]]);
            let _ = stream.flush();
        }
    });
}

/// The files of a small stream: a log, its index, and its name and settings.
pub fn some_stream() -> Vec<(PathBuf, Vec<u8>)> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let Ok(streams) = Streams::open(&disk, &clock, 1 << 20, false) else { return Vec::new() };
    let settings = StreamSettings { index_documents: 2, ..StreamSettings::default() };
    if let Ok(stream) = streams.create("raw", settings) {
        for number in 0..20_u8 {
            // It is there: nothing fails on a disk in memory.
            let _ = stream.push([[number; 30].as_slice(), b"", b"text"]);
            let _ = stream.flush();
        }
    }
    streams.close();
    let paths = ["streams/1/0000000000000001.log", "streams/1/0000000000000001.index", "streams/1/stream"];
    let read = |path: &str| Some((PathBuf::from(path), disk.read(Path::new(path)).ok()?.to_vec()));
    paths.into_iter().filter_map(read).collect()
}

/// A symbol file.
pub fn symbols(bytes: &[u8]) {
    let path = Path::new("symbols");
    let _ = checksum::passed_over(|| Dictionary::load(&holding(path, bytes), path, 0));
}

/// A part file of a table of this schema: everything a query can ask of it.
pub fn part(schema: &Arc<TableSchema>, bytes: &[u8]) {
    checksum::passed_over(|| {
        let bytes = FileBytes::new(bytes.to_vec());
        let Ok(part) = Part::open(bytes, Path::new("part"), schema) else { return };
        let rows = usize::try_from(part.summary().rows).unwrap_or(usize::MAX);
        for column in 0..schema.columns().len() {
            let _ = part.column_stats(column);
            let _ = part.read(column, 0..rows);
            let _ = part.read_ranges(column, &[0..rows.min(3), rows / 2..rows]);
            let _ =
                part.take(column, &[rows.saturating_sub(1), 0].map(|row| row.min(rows.saturating_sub(1))));
            let _ = part.blocks(column, 0..rows);
            let _ = part.reduce(column, &[0..rows / 3, rows / 2..rows]);
            let _ = part.sum(column, std::slice::from_ref(&(0..rows)));
            let column_type = schema.columns()[column].column_type;
            if let Ok(points) =
                part.read(column, 0..rows.min(2)).and_then(|few| ColumnPoints::new(column, column_type, &few))
            {
                let _ =
                    (0..part.slices().len()).try_for_each(|s| part.point_rows(s, column, &points).map(drop));
            }
            for (min, max) in [
                (StatValue::Int(0), StatValue::Int(1 << 40)),
                (StatValue::Float(-1.0), StatValue::Float(1e6)),
            ] {
                let bound = ColumnBound { column, min: Some(min), max: Some(max) };
                part.prune(&bound, 0..rows);
                let _ = part.filter(&bound, rows / 5..rows);
            }
        }
        for slice in 0..part.slices().len() {
            for entry in part.series(slice).iter() {
                let _ = part.seek(entry.rows(), TimeRange::new(0, i64::MAX / 2));
            }
        }
        let _ = part.check();
        part.inspect(&|_| Some(1_000), &mut |_| {});
    });
}

/// A schema with a column of each type.
pub fn every_type() -> Arc<TableSchema> {
    let types = [
        ColumnType::Timestamp,
        ColumnType::Symbol,
        ColumnType::Boolean,
        ColumnType::Int8,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::UInt8,
        ColumnType::UInt16,
        ColumnType::UInt32,
        ColumnType::UInt64,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Decimal { precision: 20, scale: 2 },
        ColumnType::Varchar,
        ColumnType::Binary,
        ColumnType::Uuid,
        ColumnType::Date,
    ];
    let builder =
        types.iter().enumerate().fold(TableSchema::builder("types"), |builder, (index, column_type)| {
            builder.column(format!("c{index}"), *column_type)
        });
    Arc::new(builder.timestamp("c0").series(["c1"]).build().expect("the names differ and c0 is a timestamp"))
}

/// The schema of the golden table `books`.
pub fn books() -> Arc<TableSchema> {
    let text = "ts TIMESTAMP,symbol SYMBOL,bids DOUBLE[],sizes BIGINT[],venues VARCHAR[],firm BOOLEAN[]";
    parsed("books", text, &[])
}

/// The schema of the golden table `shapes`.
pub fn shapes() -> Arc<TableSchema> {
    let text = "ts TIMESTAMP,symbol SYMBOL,constant BIGINT,sequence BIGINT,small BIGINT,outliers BIGINT,scaled BIGINT,\
                any BIGINT,price DOUBLE,noise DOUBLE,held DOUBLE,few DOUBLE,nothing INT,flag BOOLEAN,\
                short VARCHAR,long VARCHAR";
    parsed("shapes", text, &[])
}

/// The schema of the golden table `orders`, whose parts have filters.
pub fn orders() -> Arc<TableSchema> {
    parsed("orders", "ts TIMESTAMP,symbol SYMBOL,n BIGINT,px DOUBLE,id VARCHAR", &["n", "px", "id"])
}

/// A schema of names and types, with the designated timestamp `ts`.
fn parsed(name: &str, columns: &str, indexed: &[&str]) -> Arc<TableSchema> {
    let builder = columns.split(',').fold(TableSchema::builder(name), |builder, column| {
        let (name, column_type) = column.split_once(' ').expect("a name and a type");
        builder.column(name, ColumnType::parse(column_type).expect("a known type"))
    });
    let builder = builder.timestamp("ts").indexed(indexed.iter().copied());
    Arc::new(builder.build().expect("the names differ and ts is a timestamp"))
}

fn holding(path: &Path, bytes: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::new();
    if let Ok(mut file) = disk.create(path) {
        // A disk in memory takes everything.
        let _ = file.append(bytes);
    }
    disk
}

#[cfg(test)]
mod tests;
