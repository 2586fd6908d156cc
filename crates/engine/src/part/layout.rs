//! The fixed-size records of a part file, and where they lie. See docs/formats/part.md.
//!
//! Invariants:
//! - every number is little-endian, every record starts at a multiple of 8 bytes;
//! - records have fixed strides, so that any of them is found by arithmetic and read in place.

use super::BLOCK_ROWS;

/// First eight bytes of a part, and last eight.
pub(super) const MAGIC: [u8; 8] = *b"TICKPART";
/// The format of a part without filters and arrays.
pub(super) const VERSION_PLAIN: u32 = 2;
/// The format of a part with filters, without arrays.
pub(super) const VERSION_FILTERED: u32 = 3;
/// The format of a part with arrays, and the newest this build reads.
pub(super) const VERSION: u32 = 4;
/// Magic, version, CRC-32C of both.
pub(super) const HEADER_BYTES: usize = 16;
/// See [`Trailer`].
pub(super) const TRAILER_BYTES: usize = 48;
/// Fixed beginning of the footer; see [`FooterHead`].
pub(super) const FOOTER_HEAD_BYTES: usize = 64;
/// See [`SliceRecord`].
pub(super) const SLICE_BYTES: usize = 48;
/// See [`ChunkRecord`].
pub(super) const CHUNK_BYTES: usize = 32;
/// See [`BloomRecord`].
pub(super) const BLOOM_BYTES: usize = 16;
/// A block's place and statistics, in format 1.
pub(super) const BLOCK_RECORD_BYTES: usize = 48;
/// Statistics of a chunk or of a column of the whole part.
pub(super) const TOTAL_BYTES: usize = 72;
/// Blocks under one checksum.
pub(super) const GROUP_BLOCKS: usize = 16;
/// Most rows of a part: row numbers are `u32` while sorting.
pub(super) const MAX_ROWS: usize = u32::MAX as usize;

/// The little-endian `u16` at `at`; 0 past the end (callers check lengths first).
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    array_at(bytes, at).map_or(0, u16::from_le_bytes)
}

/// The little-endian `u32` at `at`; 0 past the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_le_bytes)
}

/// The little-endian `u64` at `at`; 0 past the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_le_bytes)
}

/// The little-endian `i128` at `at`; 0 past the end.
pub(super) fn i128_at(bytes: &[u8], at: usize) -> i128 {
    array_at(bytes, at).map_or(0, i128::from_le_bytes)
}

pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Appends zeros up to a multiple of 8 bytes.
pub(super) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The last bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) footer_offset: u64,
    pub(super) footer_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) footer_crc: u32,
    /// As in the header.
    pub(super) version: u32,
}

impl Trailer {
    pub(super) fn to_bytes(self) -> [u8; TRAILER_BYTES] {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        out.extend_from_slice(&self.footer_offset.to_le_bytes());
        out.extend_from_slice(&self.footer_bytes.to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        out.extend_from_slice(&self.footer_crc.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&MAGIC);
        let mut bytes = [0; TRAILER_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// `None` where the magic, the padding or the checksum is wrong.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let sound = bytes.len() == TRAILER_BYTES
            && bytes[40..] == MAGIC
            && u32_at(bytes, 36) == 0
            && crate::checksum::matches(&bytes[..32], u32_at(bytes, 32))
            && (1..=VERSION).contains(&u32_at(bytes, 28));
        sound.then(|| Self {
            footer_offset: u64_at(bytes, 0),
            footer_bytes: u64_at(bytes, 8),
            file_bytes: u64_at(bytes, 16),
            footer_crc: u32_at(bytes, 24),
            version: u32_at(bytes, 28),
        })
    }
}

/// The header: magic, version, CRC-32C of the twelve bytes before it. Its shape never changes.
pub(super) fn header(version: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The footer's fixed beginning: what is needed to find everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FooterHead {
    pub(super) rows: u64,
    pub(super) first_position: u64,
    pub(super) last_position: u64,
    pub(super) time_min: i64,
    pub(super) time_max: i64,
    pub(super) columns: u32,
    pub(super) slices: u32,
    pub(super) series_columns: u32,
    pub(super) schema_bytes: u32,
    pub(super) series_entries: u32,
    /// See [`HAS_TIMESTAMP`] and [`IS_DENSE`].
    pub(super) flags: u32,
}

/// Flag of a footer: the table has a designated timestamp.
pub(super) const HAS_TIMESTAMP: u32 = 1;
/// Flag of a footer of format 2: the part may hold what decodes slowly.
pub(super) const IS_DENSE: u32 = 2;

impl FooterHead {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for word in [self.rows, self.first_position, self.last_position] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for time in [self.time_min, self.time_max] {
            out.extend_from_slice(&time.to_le_bytes());
        }
        let words = [
            self.columns,
            self.slices,
            self.series_columns,
            self.schema_bytes,
            self.series_entries,
            self.flags,
        ];
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            rows: u64_at(bytes, 0),
            first_position: u64_at(bytes, 8),
            last_position: u64_at(bytes, 16),
            time_min: u64_at(bytes, 24).cast_signed(),
            time_max: u64_at(bytes, 32).cast_signed(),
            columns: u32_at(bytes, 40),
            slices: u32_at(bytes, 44),
            series_columns: u32_at(bytes, 48),
            schema_bytes: u32_at(bytes, 52),
            series_entries: u32_at(bytes, 56),
            flags: u32_at(bytes, 60),
        }
    }
}

/// A slice in the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SliceRecord {
    pub(super) first_row: u64,
    pub(super) rows: u64,
    pub(super) time_min: i64,
    pub(super) time_max: i64,
    pub(super) series_first: u32,
    pub(super) series_count: u32,
}

impl SliceRecord {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for word in [self.first_row, self.rows, self.time_min.cast_unsigned(), self.time_max.cast_unsigned()]
        {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.series_first.to_le_bytes());
        out.extend_from_slice(&self.series_count.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            first_row: u64_at(bytes, 0),
            rows: u64_at(bytes, 8),
            time_min: u64_at(bytes, 16).cast_signed(),
            time_max: u64_at(bytes, 24).cast_signed(),
            series_first: u32_at(bytes, 32),
            series_count: u32_at(bytes, 36),
        }
    }
}

/// Where a chunk (one column of one slice) lies: its blocks, then its page (their index).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkRecord {
    pub(super) data_offset: u64,
    pub(super) data_bytes: u64,
    pub(super) page_offset: u64,
    pub(super) page_bytes: u32,
    pub(super) page_crc: u32,
}

impl ChunkRecord {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for word in [self.data_offset, self.data_bytes, self.page_offset] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.page_bytes.to_le_bytes());
        out.extend_from_slice(&self.page_crc.to_le_bytes());
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self {
            data_offset: u64_at(bytes, 0),
            data_bytes: u64_at(bytes, 8),
            page_offset: u64_at(bytes, 16),
            page_bytes: u32_at(bytes, 24),
            page_crc: u32_at(bytes, 28),
        }
    }
}

/// Where the filter of a chunk lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BloomRecord {
    pub(super) offset: u64,
    /// Rows of cells; its size follows from them and from the rows of the slice.
    pub(super) rows: u32,
}

impl BloomRecord {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self { offset: u64_at(bytes, 0), rows: u32_at(bytes, 8) }
    }
}

/// Blocks of a chunk of `rows` rows.
pub(super) fn block_count(rows: usize) -> usize {
    rows.div_ceil(BLOCK_ROWS)
}

/// Checksum groups of a chunk of `rows` rows.
pub(super) fn group_count(rows: usize) -> usize {
    block_count(rows).div_ceil(GROUP_BLOCKS)
}

/// Size of the page of a chunk of `rows` rows in format 1: totals, block records, group checksums, padding.
pub(super) fn page_bytes(rows: usize) -> usize {
    TOTAL_BYTES + block_count(rows) * BLOCK_RECORD_BYTES + (group_count(rows) * 4).next_multiple_of(8)
}

/// Byte offsets within the file of the footer's sections, all checked to lie inside the footer.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) columns: usize,
    pub(super) series_columns: usize,
    /// Column totals, [`TOTAL_BYTES`] each.
    pub(super) totals: usize,
    /// Chunk records, slice by slice, column by column.
    pub(super) chunks: usize,
    /// Series entries: `series_columns` ids and the row in the slice where it starts, `u32` each.
    pub(super) series: usize,
    /// First series entry and count, by slice.
    pub(super) slice_series: Vec<(usize, usize)>,
    /// Columns that have filters, ascending.
    pub(super) bloom_columns: Vec<usize>,
    /// Filter records, slice by slice, in each those columns in order.
    pub(super) blooms: usize,
    /// First bit of the checksum groups in `verified`, by slice.
    pub(super) group_bits: Vec<usize>,
}
