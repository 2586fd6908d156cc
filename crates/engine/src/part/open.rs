//! Opening a part: header, trailer and footer are verified, everything else when it is touched.

use super::bloom::filter_bytes;
use super::layout::{
    BLOOM_BYTES, BloomRecord, CHUNK_BYTES, ChunkRecord, FOOTER_HEAD_BYTES, FooterHead, HAS_TIMESTAMP,
    HEADER_BYTES, IS_DENSE, Layout, MAGIC, MAX_ROWS, SLICE_BYTES, SliceRecord, TOTAL_BYTES, TRAILER_BYTES,
    Trailer, VERSION, VERSION_FILTERED, group_count, header, page_bytes, u32_at,
};
use super::{Density, Part, PartSummary, PositionRange, Slice};
use crate::disk::FileBytes;
use crate::{EngineError, Result, checksum};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tickstone_model::{ColumnType, TableSchema};

/// The part of a schema that a part depends on: columns, designated timestamp, series key.
pub(super) fn schema_bytes(schema: &TableSchema) -> Vec<u8> {
    let mut out = Vec::new();
    let index = |value: usize| u32::try_from(value).expect("a table has at most 4,096 columns");
    out.extend_from_slice(&schema.timestamp().map_or(u32::MAX, index).to_le_bytes());
    out.extend_from_slice(&index(schema.series().len()).to_le_bytes());
    for &column in schema.series() {
        out.extend_from_slice(&index(column).to_le_bytes());
    }
    for column in schema.columns() {
        let (code, precision, scale) = type_code(column.column_type);
        let name = column.name.as_bytes();
        out.extend_from_slice(&[code, precision, scale, name.len() as u8]);
        out.extend_from_slice(name);
    }
    out
}

/// Flag of a type: arrays of it.
pub(super) const ARRAY: u8 = 0x80;

fn type_code(column_type: ColumnType) -> (u8, u8, u8) {
    let code = match column_type {
        ColumnType::Boolean => 1,
        ColumnType::Int8 => 2,
        ColumnType::Int16 => 3,
        ColumnType::Int32 => 4,
        ColumnType::Int64 => 5,
        ColumnType::UInt8 => 6,
        ColumnType::UInt16 => 7,
        ColumnType::UInt32 => 8,
        ColumnType::UInt64 => 9,
        ColumnType::Float32 => 10,
        ColumnType::Float64 => 11,
        ColumnType::Decimal { precision, scale } => return (12, precision, scale.cast_unsigned()),
        ColumnType::Symbol => 13,
        ColumnType::Varchar => 14,
        ColumnType::Binary => 15,
        ColumnType::Uuid => 16,
        ColumnType::Date => 17,
        ColumnType::Timestamp => 18,
        ColumnType::Time => 19,
        ColumnType::Array(element) => {
            let (code, precision, scale) = type_code(element.into());
            return (ARRAY | code, precision, scale);
        }
    };
    (code, 0, 0)
}

impl Part {
    /// Opens a part of a table of this schema; `path` is for messages.
    ///
    /// Reads the header, the trailer and the footer, whose size does not depend on the number of rows
    /// but on columns, slices and series.
    ///
    /// # Errors
    /// [`EngineError::NewerFormat`] for a version this build does not know; [`EngineError::Damaged`] where
    /// the file is cut, changed, or of another schema.
    pub fn open(bytes: FileBytes, path: &Path, schema: &Arc<TableSchema>) -> Result<Part> {
        let file: &[u8] = &bytes;
        let damaged = |offset: usize, what: &str| EngineError::damaged(path, offset as u64, what);
        check_header(file, path)?;
        let trailer_at = file
            .len()
            .checked_sub(TRAILER_BYTES)
            .filter(|at| *at >= HEADER_BYTES)
            .ok_or_else(|| damaged(file.len(), "the file is cut"))?;
        let trailer = Trailer::from_bytes(&file[trailer_at..])
            .ok_or_else(|| damaged(trailer_at, "the trailer is cut or changed"))?;
        if header(trailer.version) != file[..HEADER_BYTES] {
            return Err(damaged(trailer_at, "the trailer is of another format version than the header"));
        }
        if trailer.file_bytes != file.len() as u64 {
            return Err(damaged(trailer_at, "the file has not the length it was written with"));
        }
        let start =
            usize::try_from(trailer.footer_offset).ok().filter(|at| (HEADER_BYTES..=trailer_at).contains(at));
        let footer_offset = start
            .filter(|at| (trailer_at - at) as u64 == trailer.footer_bytes && at.is_multiple_of(8))
            .ok_or_else(|| damaged(trailer_at, "the trailer does not point at the footer"))?;
        let footer = &file[footer_offset..trailer_at];
        if !checksum::matches(footer, trailer.footer_crc) {
            return Err(damaged(footer_offset, "the checksum of the footer does not match"));
        }
        let footer = Footer { bytes: footer, offset: footer_offset, version: trailer.version };
        let parsed = footer.parse(schema).map_err(|(at, what)| damaged(footer_offset + at, what))?;
        let Parsed { head, slices, layout, bits } = parsed;
        let summary = PartSummary {
            rows: head.rows,
            times: (head.flags & HAS_TIMESTAMP != 0 && head.rows > 0)
                .then_some((head.time_min, head.time_max)),
            file_bytes: file.len() as u64,
        };
        Ok(Part {
            path: path.into(),
            schema: Arc::clone(schema),
            summary,
            positions: PositionRange { first: head.first_position, last: head.last_position },
            slices,
            layout,
            version: trailer.version,
            density: if head.flags & IS_DENSE != 0 { Density::Dense } else { Density::Fast },
            verified: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            bytes,
        })
    }
}

pub(super) fn check_header(file: &[u8], path: &Path) -> Result<()> {
    let damaged = |what: &str| EngineError::damaged(path, 0, what);
    let found = file.get(..HEADER_BYTES).ok_or_else(|| damaged("the file is cut"))?;
    if found[..8] != MAGIC {
        return Err(damaged("the file is no part: its first bytes are wrong"));
    }
    let version = u32_at(found, 8);
    if found != header(version) {
        return Err(damaged("the checksum of the header does not match"));
    }
    if version > VERSION {
        return Err(EngineError::NewerFormat { path: path.into(), found: version, known: VERSION });
    }
    if version == 0 {
        return Err(damaged("a format version that never was"));
    }
    Ok(())
}

/// Where in the footer, and what does not hold.
type Broken = (usize, &'static str);

struct Footer<'a> {
    bytes: &'a [u8],
    /// In the file.
    offset: usize,
    /// Of the file's format.
    version: u32,
}

struct Parsed {
    head: FooterHead,
    slices: Vec<Slice>,
    layout: Layout,
    /// Bits of `verified`.
    bits: usize,
}

impl Footer<'_> {
    fn parse(&self, schema: &TableSchema) -> std::result::Result<Parsed, Broken> {
        let head = FooterHead::read(self.bytes.get(..FOOTER_HEAD_BYTES).ok_or((0, "the footer is cut"))?);
        let wanted = schema_bytes(schema);
        let same = head.columns as usize == schema.columns().len()
            && head.series_columns as usize == schema.series().len()
            && head.schema_bytes as usize == wanted.len()
            && self.bytes.get(FOOTER_HEAD_BYTES..FOOTER_HEAD_BYTES + wanted.len()) == Some(&wanted[..]);
        let has_timestamp = head.flags & HAS_TIMESTAMP != 0;
        let known = if self.version > 1 { HAS_TIMESTAMP | IS_DENSE } else { HAS_TIMESTAMP };
        if !same || has_timestamp != schema.timestamp().is_some() || head.flags & !known != 0 {
            return Err((FOOTER_HEAD_BYTES, "the part's columns are not the table's"));
        }
        let (columns, slices) = (head.columns as usize, head.slices as usize);
        let stride = (head.series_columns as usize + 1) * 4;
        let mut sections =
            Sections { at: (FOOTER_HEAD_BYTES + wanted.len()).next_multiple_of(8), end: self.bytes.len() };
        let totals = sections.take(columns, TOTAL_BYTES)?;
        let slice_records = sections.take(slices, SLICE_BYTES)?;
        let chunks = sections.take(slices.saturating_mul(columns), CHUNK_BYTES)?;
        let series = sections.take(head.series_entries as usize, stride)?;
        sections.at = sections.at.next_multiple_of(8);
        let (bloom_columns, blooms) = self.bloom_columns(&mut sections, columns, slices)?;
        if bloom_columns.iter().any(|column| schema.columns()[*column].column_type.is_array()) {
            return Err((series.end, "filters of columns that cannot have any"));
        }
        if sections.at != self.bytes.len() {
            return Err((series.end, "the footer is longer than what it holds"));
        }
        let mut layout = Layout {
            columns,
            series_columns: head.series_columns as usize,
            totals: self.offset + totals.start,
            chunks: self.offset + chunks.start,
            series: self.offset + series.start,
            slice_series: Vec::with_capacity(slices),
            bloom_columns,
            blooms: self.offset + blooms.start,
            group_bits: Vec::with_capacity(slices),
        };
        let found = self.slices(&head, slice_records, &mut layout)?;
        self.check_blooms(&found, blooms, &layout)?;
        let bits = self.check_chunks(&found, chunks, &mut layout)?;
        Ok(Parsed { head, slices: found, layout, bits })
    }

    /// The columns that have filters, and where the records of these stand.
    fn bloom_columns(
        &self,
        sections: &mut Sections,
        columns: usize,
        slices: usize,
    ) -> std::result::Result<(Vec<usize>, Range<usize>), Broken> {
        if self.version < VERSION_FILTERED {
            return Ok((Vec::new(), sections.at..sections.at));
        }
        let count = sections.take(1, 4)?;
        let count = u32_at(self.bytes, count.start) as usize;
        let places = sections.take(count, 4)?;
        let found: Vec<usize> = places.clone().step_by(4).map(|at| u32_at(self.bytes, at) as usize).collect();
        if !found.is_sorted_by(|a, b| a < b) || found.last().is_some_and(|last| *last >= columns) {
            return Err((places.start, "filters of columns that are not there"));
        }
        sections.at = sections.at.next_multiple_of(8);
        let records = sections.take(slices.saturating_mul(count), BLOOM_BYTES)?;
        Ok((found, records))
    }

    /// Every filter lies between header and footer.
    fn check_blooms(
        &self,
        slices: &[Slice],
        records: Range<usize>,
        layout: &Layout,
    ) -> std::result::Result<(), Broken> {
        let held = slices.iter().flat_map(|slice| layout.bloom_columns.iter().map(|_| slice.rows.len()));
        for (at, held) in records.step_by(BLOOM_BYTES).zip(held) {
            let record = BloomRecord::read(&self.bytes[at..at + BLOOM_BYTES]);
            let bytes = filter_bytes(held, record.rows as usize).map(|bytes| bytes as u64);
            let end = bytes.and_then(|bytes| record.offset.checked_add(bytes));
            let sound = end.is_some_and(|end| end <= self.offset as u64)
                && record.offset.is_multiple_of(8)
                && u32_at(self.bytes, at + 12) == 0;
            if !sound {
                return Err((at, "a filter outside the file"));
            }
        }
        Ok(())
    }

    /// Slices follow each other without a gap, and so do their series entries.
    fn slices(
        &self,
        head: &FooterHead,
        records: Range<usize>,
        layout: &mut Layout,
    ) -> std::result::Result<Vec<Slice>, Broken> {
        let mut slices = Vec::with_capacity(head.slices as usize);
        let (mut row, mut series) = (0_u64, 0_u64);
        for at in records.clone().step_by(SLICE_BYTES) {
            let record = SliceRecord::read(&self.bytes[at..at + SLICE_BYTES]);
            let end = record.first_row.checked_add(record.rows);
            let end = end.filter(|end| *end <= head.rows && head.rows <= MAX_ROWS as u64 && record.rows > 0);
            let (true, Some(end), true) =
                (record.first_row == row, end, u64::from(record.series_first) == series)
            else {
                return Err((at, "slices that do not follow each other"));
            };
            layout.slice_series.push((record.series_first as usize, record.series_count as usize));
            slices.push(Slice {
                rows: row as usize..end as usize,
                times: (head.flags & HAS_TIMESTAMP != 0).then_some((record.time_min, record.time_max)),
            });
            row = end;
            series += u64::from(record.series_count);
        }
        if row != head.rows || series != u64::from(head.series_entries) {
            return Err((records.start, "slices that do not hold every row"));
        }
        Ok(slices)
    }

    /// Every chunk lies between header and footer, and its page has the size its rows need.
    fn check_chunks(
        &self,
        slices: &[Slice],
        records: Range<usize>,
        layout: &mut Layout,
    ) -> std::result::Result<usize, Broken> {
        let mut bits = slices.len() * layout.columns;
        let mut at = records.start;
        for slice in slices {
            let rows = slice.rows.len();
            for _ in 0..layout.columns {
                let record = ChunkRecord::read(&self.bytes[at..at + CHUNK_BYTES]);
                let end =
                    |offset: u64, bytes: u64| offset.checked_add(bytes).filter(|e| *e <= self.offset as u64);
                let sound = end(record.data_offset, record.data_bytes) == Some(record.page_offset)
                    && end(record.page_offset, u64::from(record.page_bytes)).is_some()
                    && (self.version > 1 || record.page_bytes as usize == page_bytes(rows))
                    && record.data_offset.is_multiple_of(8);
                if !sound {
                    return Err((at, "a chunk outside the file"));
                }
                at += CHUNK_BYTES;
            }
            layout.group_bits.push(bits);
            bits += group_count(rows) * layout.columns;
        }
        Ok(bits)
    }
}

/// Cuts the footer into its sections.
struct Sections {
    at: usize,
    end: usize,
}

impl Sections {
    fn take(&mut self, count: usize, stride: usize) -> std::result::Result<Range<usize>, Broken> {
        let start = self.at;
        let end = count.checked_mul(stride).and_then(|bytes| bytes.checked_add(start));
        self.at = end.filter(|end| *end <= self.end).ok_or((start, "a section of the footer is cut"))?;
        Ok(start..self.at)
    }
}
