//! Damage: a flipped byte or a cut file is an error or changes nothing, never data and never a panic.

use super::bloom::indexed;
use super::round_trip::cell;
use super::table::{Random, Shape, batches, schema, with_later};
use super::*;
use crate::EngineError;
use tickstone_model::{Column, ColumnType, TimeRange};

type Cells = Vec<Vec<Option<Vec<u8>>>>;

/// Everything a reader can learn of a part.
pub(super) fn everything(bytes: Vec<u8>, schema: &Arc<TableSchema>) -> Result<(Cells, Vec<String>)> {
    let part = open(bytes, schema)?;
    let rows = part.summary().rows as usize;
    let mut cells = Vec::new();
    let mut known = vec![format!("{:?} {:?} {:?}", part.summary(), part.positions(), part.slices())];
    for column in 0..schema.columns().len() {
        let array = part.read(column, 0..rows)?;
        cells.push((0..rows).map(|row| cell(&array, row)).collect());
        known.push(format!("{:?}", part.column_stats(column)));
    }
    for slice in 0..part.slices().len() {
        for entry in part.series(slice).iter() {
            let (least, most) = part.summary().times.unwrap_or_default();
            let middle = part.seek(entry.rows(), TimeRange::new(least + 1, most))?;
            known.push(format!("{:?} {:?} {middle:?}", entry.ids().collect::<Vec<_>>(), entry.rows()));
        }
    }
    for (column, Column { column_type, .. }) in schema.columns().iter().enumerate() {
        if column_type.is_array() {
            continue;
        }
        let points = ColumnPoints::new(column, *column_type, &part.read(column, 0..rows.min(9))?)?;
        for slice in 0..part.slices().len() {
            known.extend(part.point_rows(slice, column, &points)?.map(|rows| format!("{rows:?}")));
        }
    }
    part.check()?;
    Ok((cells, known))
}

const SMALL: Shape = Shape {
    seed: 3,
    rows: 60,
    batches: 2,
    symbols: 3,
    timestamp: true,
    shuffled: true,
    series: 1,
    nulls: true,
};

fn small_part() -> (Arc<TableSchema>, Vec<u8>) {
    let schema = schema(&SMALL);
    let bytes = write(&schema, &batches(&SMALL, &schema), 40, 1);
    (schema, bytes)
}

/// The same with filters.
fn small_indexed_part() -> (Arc<TableSchema>, Vec<u8>) {
    let schema = indexed(&schema(&SMALL));
    let bytes = write(&schema, &batches(&SMALL, &schema), 40, 1);
    (schema, bytes)
}

/// A part with arrays.
fn small_part_of_arrays() -> (Arc<TableSchema>, Vec<u8>) {
    let builder = TableSchema::builder("t").column("ts", ColumnType::Timestamp);
    let builder = builder.column("s0", ColumnType::Symbol).column("s1", ColumnType::Symbol).timestamp("ts");
    let schema = with_later(&builder.series(["s0"]).build().unwrap());
    let shape = Shape { rows: 24, ..SMALL };
    let bytes = write(&schema, &batches(&shape, &schema), 16, 1);
    (schema, bytes)
}

#[test]
fn every_flipped_byte_is_an_error_or_harmless() {
    check_flips(small_part());
    check_flips(small_indexed_part());
    check_flips(small_part_of_arrays());
}

fn check_flips((schema, bytes): (Arc<TableSchema>, Vec<u8>)) {
    let whole = everything(bytes.clone(), &schema).unwrap();
    let mut harmless = 0;
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            match everything(changed, &schema) {
                Err(EngineError::Damaged { offset, .. }) => assert!(offset <= bytes.len() as u64),
                Err(other) => panic!("byte {at}: {other}"),
                Ok(read) => {
                    assert_eq!(read, whole, "byte {at}");
                    harmless += 1;
                }
            }
        }
    }
    assert_eq!(harmless, 0, "every byte is under a checksum");
}

#[test]
fn every_shortened_or_lengthened_file_is_an_error() {
    let (schema, bytes) = small_part();
    for length in 0..bytes.len() {
        let error = open(bytes[..length].to_vec(), &schema).unwrap_err();
        assert!(matches!(error, EngineError::Damaged { .. }), "{length}: {error}");
    }
    let mut longer = bytes;
    longer.extend_from_slice(&[0; 8]);
    assert!(open(longer, &schema).is_err());
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let (schema, mut bytes) = small_part();
    bytes[..16].copy_from_slice(&layout::header(5));
    let error = open(bytes, &schema).unwrap_err();
    assert!(matches!(error, EngineError::NewerFormat { found: 5, known: 4, .. }), "{error}");
}

#[test]
fn another_schema_is_refused() {
    let (_, bytes) = small_part();
    let shape = Shape {
        seed: 3,
        rows: 0,
        batches: 1,
        symbols: 3,
        timestamp: true,
        shuffled: true,
        series: 2,
        nulls: true,
    };
    assert!(open(bytes, &schema(&shape)).is_err());
}

/// Makes every checksum of changed bytes right again: what a hostile file would do.
fn reseal(bytes: &mut [u8], columns: usize) {
    let trailer_at = bytes.len() - layout::TRAILER_BYTES;
    let trailer = layout::Trailer::from_bytes(&bytes[trailer_at..]).unwrap();
    let (start, end) = (trailer.footer_offset as usize, trailer_at);
    let head = layout::FooterHead::read(&bytes[start..]);
    if head.columns as usize != columns {
        return;
    }
    let totals = start + (layout::FOOTER_HEAD_BYTES + head.schema_bytes as usize).next_multiple_of(8);
    let slices = totals + columns * layout::TOTAL_BYTES;
    let chunks = slices + head.slices as usize * layout::SLICE_BYTES;
    for chunk in 0..head.slices as usize * columns {
        let at = chunks + chunk * layout::CHUNK_BYTES;
        let Some(record) = bytes.get(at..at + layout::CHUNK_BYTES).map(layout::ChunkRecord::read) else {
            return;
        };
        let (data, page) = (record.data_offset as usize, record.page_offset as usize);
        let page_end = page.saturating_add(record.page_bytes as usize);
        if data > page || page_end > start || record.page_bytes < 8 {
            continue;
        }
        // One group: these parts have few rows.
        let crc = crc32c::crc32c(&bytes[data..page]);
        bytes[page_end - 8..page_end - 4].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[page..page_end]);
        bytes[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
    }
    let sealed = layout::Trailer { footer_crc: crc32c::crc32c(&bytes[start..end]), ..trailer };
    bytes[trailer_at..].copy_from_slice(&sealed.to_bytes());
}

#[test]
fn changed_bytes_under_right_checksums_never_panic() {
    check_hostile(small_part());
    check_hostile(small_indexed_part());
    check_hostile(small_part_of_arrays());
}

fn check_hostile((schema, bytes): (Arc<TableSchema>, Vec<u8>)) {
    let columns = schema.columns().len();
    let mut untouched = bytes.clone();
    reseal(&mut untouched, columns);
    assert_eq!(untouched, bytes, "resealing an unchanged part changes nothing");
    let mut random = Random(9);
    let last = (bytes.len() - layout::TRAILER_BYTES) as u64;
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        for _ in 0..1 + random.below(3) {
            let at = 16 + random.below(last - 16) as usize;
            changed[at] = [0, 0xff, random.next() as u8, changed[at] ^ 1][random.below(4) as usize];
        }
        reseal(&mut changed, columns);
        let _ = everything(changed, &schema);
    }
}
