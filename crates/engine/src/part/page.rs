//! Chunk pages and blocks in place: found by arithmetic, verified when first touched.

use super::codec::simd;
use super::index::PackedIndex;
use super::layout::{
    BLOCK_RECORD_BYTES, CHUNK_BYTES, ChunkRecord, GROUP_BLOCKS, TOTAL_BYTES, block_count, group_count, u32_at,
};
use super::stats::{BlockStats, TotalStats};
use super::{BLOCK_ROWS, ColumnStats, Part};
use crate::{EngineError, Result, checksum};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The index of one chunk, verified.
#[derive(Debug)]
pub(super) struct Page<'a> {
    part: &'a Part,
    slice: usize,
    column: usize,
    /// Rows of the slice.
    rows: usize,
    bytes: &'a [u8],
    data: &'a [u8],
    /// Of `data` in the file.
    data_offset: usize,
    /// `None` in format 1, where records stand one after the other.
    index: Option<PackedIndex>,
}

/// One block, verified.
pub(super) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    /// The tables that it may name.
    pub(super) tables: &'a [u8],
    /// In the file.
    pub(super) offset: usize,
    pub(super) rows: usize,
    pub(super) nulls: u16,
    /// Where in the part: the slice, and the block of its chunks.
    pub(super) place: (usize, usize),
}

impl Part {
    /// Whether the bit of a checksum is set already.
    fn is_verified(&self, bit: usize) -> bool {
        // Relaxed: the bit guards bytes that never change, nothing another thread wrote.
        self.verified.get(bit / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (bit % 64) & 1 == 1)
    }

    fn set_verified(&self, bit: usize) {
        if let Some(word) = self.verified.get(bit / 64) {
            word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }

    pub(super) fn damaged(&self, offset: usize, what: &str) -> EngineError {
        EngineError::damaged(&self.path, offset as u64, what)
    }

    /// The slice that holds `row`, `None` past the end.
    pub(super) fn slice_of(&self, row: usize) -> Option<usize> {
        let slice = self.slices.partition_point(|slice| slice.rows.end <= row);
        (slice < self.slices.len()).then_some(slice)
    }

    /// The page of one column of one slice (both inside the part).
    pub(super) fn page(&self, slice: usize, column: usize) -> Result<Page<'_>> {
        let rows = self.slices.get(slice).map_or(0, |slice| slice.rows.len());
        let chunk = slice * self.layout.columns + column;
        let at = self.layout.chunks + chunk * CHUNK_BYTES;
        let file: &[u8] = &self.bytes;
        let missing = || self.damaged(at, "a chunk outside the file");
        let record = ChunkRecord::read(file.get(at..at + CHUNK_BYTES).ok_or_else(missing)?);
        // Opening checked these bounds; `get` keeps a fault here an error.
        let page_at = record.page_offset as usize;
        let data_offset = record.data_offset as usize;
        let bytes = file.get(page_at..page_at + record.page_bytes as usize).ok_or_else(missing)?;
        let data = file.get(data_offset..page_at).ok_or_else(missing)?;
        if !self.is_verified(chunk) {
            if !checksum::matches(bytes, record.page_crc) {
                return Err(self.damaged(page_at, "the checksum of a chunk's index does not match"));
            }
            self.set_verified(chunk);
        }
        let index = match self.version {
            1 => None,
            _ => {
                let broken = || self.damaged(page_at, "a chunk's index that is not as long as it says");
                Some(PackedIndex::read(bytes, rows).ok_or_else(broken)?)
            }
        };
        Ok(Page { part: self, slice, column, rows, bytes, data, data_offset, index })
    }

    /// What is known of a column of the whole part.
    ///
    /// A column the table does not have gives the statistics of no rows.
    pub fn column_stats(&self, column: usize) -> ColumnStats {
        let at = self.layout.totals + column * TOTAL_BYTES;
        let record = self.schema.columns().get(column).zip(self.bytes.get(at..at + TOTAL_BYTES));
        let Some((column, record)) = record else {
            return ColumnStats { rows: 0, nulls: 0, min: None, max: None, has_nan: false, sum: None };
        };
        let total = TotalStats::read(record).unwrap_or_else(TotalStats::empty);
        total.to_column_stats(column.column_type)
    }

    /// Bytes of the file that a column takes, its index and its filters included; 0 for a column the table does not have.
    pub fn column_bytes(&self, column: usize) -> u64 {
        let slices = if column < self.layout.columns { self.slices.len() } else { 0 };
        (0..slices).map(|slice| self.chunk_bytes(slice, column)).sum()
    }

    /// Bytes of one column of one slice (both inside the part), their index and their filter included.
    pub(super) fn chunk_bytes(&self, slice: usize, column: usize) -> u64 {
        let chunk = self.chunk(slice, column);
        chunk.map_or(0, |record| record.data_bytes + u64::from(record.page_bytes))
            + self.chunk_bloom_bytes(slice, column)
    }

    /// Bytes of the file that the index of a column takes: statistics, offsets and checksums of its blocks.
    pub fn index_bytes(&self, column: usize) -> u64 {
        let slices = if column < self.layout.columns { self.slices.len() } else { 0 };
        let chunks = (0..slices).filter_map(|slice| self.chunk(slice, column));
        chunks.map(|record| u64::from(record.page_bytes)).sum()
    }

    fn chunk(&self, slice: usize, column: usize) -> Option<ChunkRecord> {
        let at = self.layout.chunks + (slice * self.layout.columns + column) * CHUNK_BYTES;
        self.bytes.get(at..at + CHUNK_BYTES).map(ChunkRecord::read)
    }

    /// Compares every checksum of the file.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] with the place of the first damage.
    pub fn check(&self) -> Result<()> {
        let columns = self.schema.columns().len();
        for slice in 0..self.slices.len() {
            for column in 0..columns {
                let page = self.page(slice, column)?;
                for block in 0..block_count(page.rows) {
                    page.block(block)?;
                }
            }
            self.check_blooms(slice)?;
        }
        Ok(())
    }
}

impl<'a> Page<'a> {
    pub(super) fn part(&self) -> &'a Part {
        self.part
    }

    /// Statistics of the whole chunk.
    pub(super) fn total(&self) -> TotalStats {
        TotalStats::read(self.bytes).unwrap_or_else(TotalStats::empty)
    }

    /// Where it stands in the file: the blocks it tells of end there.
    pub(super) fn file_offset(&self) -> usize {
        self.data_offset + self.data.len()
    }

    /// Where in the chunk a block begins.
    fn offset(&self, block: usize) -> Option<usize> {
        match &self.index {
            Some(index) => Some(index.offset(self.bytes, block)),
            None => self.record(block).map(|(offset, _)| offset),
        }
    }

    /// Where in the chunk a block begins, and its statistics, in format 1.
    fn record(&self, block: usize) -> Option<(usize, BlockStats)> {
        let at = TOTAL_BYTES + block * BLOCK_RECORD_BYTES;
        BlockStats::read(self.bytes.get(at..at + BLOCK_RECORD_BYTES)?)
    }

    /// Statistics of a block of this chunk.
    pub(super) fn stats(&self, block: usize) -> Result<BlockStats> {
        let missing = || self.part.damaged(self.data_offset, "a block past its chunk");
        match &self.index {
            Some(index) if block < block_count(self.rows) => Ok(index.stats(self.bytes, block)),
            Some(_) => Err(missing()),
            None => self.record(block).map(|(_, stats)| stats).ok_or_else(missing),
        }
    }

    /// How many NULLs a block has.
    fn nulls(&self, block: usize) -> Result<u16> {
        match &self.index {
            Some(index) if block < block_count(self.rows) => Ok(index.nulls(self.bytes, block)),
            _ => Ok(self.stats(block)?.nulls),
        }
    }

    /// The bits of the first value of a block, as in its statistics.
    pub(super) fn first(&self, block: usize) -> Result<u64> {
        match &self.index {
            Some(index) if block < block_count(self.rows) => Ok(index.first(self.bytes, block)),
            _ => Ok(self.stats(block)?.first),
        }
    }

    /// The bits of the last value of a block, as in its statistics, where all its values are there.
    pub(super) fn last(&self, block: usize) -> Result<u64> {
        match &self.index {
            Some(index) if block < block_count(self.rows) => Ok(index.last(self.bytes, block)),
            _ => Ok(self.stats(block)?.last),
        }
    }

    /// The bytes of blocks `blocks` within the chunk.
    fn extent(&self, blocks: Range<usize>) -> Option<Range<usize>> {
        let start = self.offset(blocks.start)?;
        let end =
            if blocks.end < block_count(self.rows) { self.offset(blocks.end)? } else { self.data.len() };
        (start <= end && end <= self.data.len()).then_some(start..end)
    }

    /// The checksum of a group of blocks.
    fn group_checksum(&self, group: usize) -> u32 {
        // They are the last of the page.
        let size = (group_count(self.rows) * 4).next_multiple_of(8);
        u32_at(self.bytes, self.bytes.len().saturating_sub(size) + group * 4)
    }

    /// Asks for the bytes after a block, as many as it has: most likely the next one is wanted, too, and its words are
    /// not read in the order they lie in, which the processor would foresee.
    #[inline]
    pub(super) fn prefetch_after(&self, block: &Block<'_>) {
        let end = block.offset - self.data_offset + block.bytes.len();
        let after = self.data.get(end..).unwrap_or_default();
        simd::prefetch(&after[..after.len().min(block.bytes.len())]);
    }

    /// A block of this chunk, its checksum compared if nobody has yet.
    pub(super) fn block(&self, block: usize) -> Result<Block<'a>> {
        let missing = || self.part.damaged(self.data_offset, "blocks outside their chunk");
        let group = block / GROUP_BLOCKS;
        let groups = group_count(self.rows);
        let bit =
            self.part.layout.group_bits.get(self.slice).ok_or_else(missing)? + self.column * groups + group;
        if !self.part.is_verified(bit) {
            let first = group * GROUP_BLOCKS;
            let last = block_count(self.rows).min(first + GROUP_BLOCKS);
            let extent = self.extent(first..last).ok_or_else(missing)?;
            if !checksum::matches(&self.data[extent.clone()], self.group_checksum(group)) {
                let offset = self.data_offset + extent.start;
                return Err(self.part.damaged(offset, "the checksum of a group of blocks does not match"));
            }
            self.part.set_verified(bit);
        }
        let extent = self.extent(block..block + 1).ok_or_else(missing)?;
        let nulls = self.nulls(block)?;
        let tables = self.index.as_ref().and_then(|index| self.bytes.get(index.tables())).unwrap_or_default();
        let rows = BLOCK_ROWS.min(self.rows - block * BLOCK_ROWS);
        let offset = self.data_offset + extent.start;
        Ok(Block { bytes: &self.data[extent], tables, offset, rows, nulls, place: (self.slice, block) })
    }
}
