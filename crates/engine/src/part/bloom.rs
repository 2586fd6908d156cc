//! Bloom filters of indexed columns: which groups of blocks may hold a value. See docs/formats/part.md.
//!
//! A group of up to 16 blocks has a split-block filter (Putze, Sanders and Singler, *Cache-, Hash- and Space-Efficient
//! Bloom Filters*, 2007): a value sets eight bits of one cell of 32 bytes. All groups of a chunk have the same number
//! of cells, and the cells of one number stand side by side, so that a look-up reads one row of cells: 2 KiB of a
//! slice of a million rows.
//!
//! Invariants:
//! - a value that is in a group is never denied: [`hashes`] is the one way from values to hashes, for those that are
//!   stored and those that are looked up, and what it gives for a value never changes;
//! - no cell is looked at before the checksum of its stripe was compared.

use super::gather::{self, Gathered};
use super::layout::{BLOOM_BYTES, BloomRecord, GROUP_BLOCKS, array_at, block_count, u32_at};
use super::order::Order;
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result, checksum};
use arrow_array::ArrayRef;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::ArrowError;
use std::ops::Range;
use tickstone_model::{ColumnType, TableSchema};
use xxhash_rust::xxh3::xxh3_64;

/// Bits that a group spends on a distinct value: about 1 % of look-ups of other values find it.
const BITS_A_VALUE: usize = 10;
/// Size of a cell in bytes.
pub(super) const CELL_BYTES: usize = 32;
/// Rows of cells share a checksum up to this size in bytes; a longer row has one of its own.
const STRIPE_BYTES: usize = 4_096;
/// What stands for NULL among hashes.
const NULL: u64 = 0;

/// Values of a column that are looked up: wanted are rows that have one of them. They only drop groups of blocks:
/// rows with other values may remain. A NULL among them matches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPoints {
    column: usize,
    hashes: Vec<u64>,
}

impl ColumnPoints {
    /// Looks up `values`, which are in the stored type of the column; SYMBOL by ids.
    ///
    /// # Errors
    /// [`EngineError::Arrow`] for values of another type, and for arrays, which cannot be looked up.
    pub fn new(column: usize, column_type: ColumnType, values: &ArrayRef) -> Result<Self> {
        if column_type.is_array() {
            let message = format!("no {column_type} can be looked up");
            return Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)));
        }
        if *values.data_type() != column_type.stored_type() {
            let message = format!("{} is no stored {column_type}", values.data_type());
            return Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)));
        }
        let mut hashes = hashes(column_type, std::slice::from_ref(values));
        hashes.retain(|hash| *hash != NULL);
        hashes.sort_unstable();
        hashes.dedup();
        Ok(Self { column, hashes })
    }

    /// The column, by its place in the table.
    pub fn column(&self) -> usize {
        self.column
    }
}

/// The columns that a part of this table has filters for: designated timestamp and series key need none.
pub(super) fn filtered(schema: &TableSchema) -> impl Iterator<Item = usize> + '_ {
    let ordered = |column: &usize| schema.timestamp() == Some(*column) || schema.series().contains(column);
    schema.indexed().iter().copied().filter(move |column| !ordered(column))
}

/// The hash of each value, [`NULL`] for none.
fn hashes(column_type: ColumnType, arrays: &[ArrayRef]) -> Vec<u64> {
    macro_rules! words {
        ($arrow:ty, $value:ident => $word:expr) => {
            each(&gather::primitive::<$arrow>(arrays), |$value| xxh3_64(&$word.to_le_bytes()))
        };
    }
    match column_type {
        ColumnType::Boolean => {
            each(&gather::booleans(arrays), |value| xxh3_64(&u64::from(*value).to_le_bytes()))
        }
        ColumnType::Int8 => words!(Int8Type, value => i64::from(*value)),
        ColumnType::Int16 => words!(Int16Type, value => i64::from(*value)),
        ColumnType::Int32 => words!(Int32Type, value => i64::from(*value)),
        ColumnType::Int64 => words!(Int64Type, value => *value),
        ColumnType::UInt8 => words!(UInt8Type, value => u64::from(*value)),
        ColumnType::UInt16 => words!(UInt16Type, value => u64::from(*value)),
        ColumnType::UInt32 | ColumnType::Symbol => words!(UInt32Type, value => u64::from(*value)),
        ColumnType::UInt64 => words!(UInt64Type, value => *value),
        ColumnType::Date => words!(Date32Type, value => i64::from(*value)),
        ColumnType::Time => words!(Time64NanosecondType, value => *value),
        ColumnType::Timestamp => words!(TimestampNanosecondType, value => *value),
        ColumnType::Decimal { .. } => words!(Decimal128Type, value => *value),
        ColumnType::Float32 => words!(Float32Type, value => one_of_equals(f64::from(*value))),
        ColumnType::Float64 => words!(Float64Type, value => one_of_equals(*value)),
        ColumnType::Uuid => each(&gather::sixteen_bytes(arrays), |value| xxh3_64(value)),
        ColumnType::Varchar | ColumnType::Binary => each(&gather::bytes(arrays), |value| xxh3_64(value)),
        ColumnType::Array(_) => unreachable!("no array is indexed or looked up: that is refused before"),
    }
}

/// Zeros of both signs are one number to those who look for it, and so are all that are none.
fn one_of_equals(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(0x7FF8_0000_0000_0000) } else { value + 0.0 }
}

fn each<T: Clone>(column: &Gathered<'_, T>, hash: impl Fn(&T) -> u64) -> Vec<u64> {
    // A value whose hash is that of NULL has another one.
    let hash = |value: &T| hash(value).max(NULL + 1);
    match &column.valid {
        None => column.values.iter().map(hash).collect(),
        Some(valid) => {
            let values = column.values.iter().zip(valid);
            values.map(|(value, valid)| if *valid { hash(value) } else { NULL }).collect()
        }
    }
}

/// How the filter of a chunk lies in the file.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Blocks of a group; the last one may have fewer.
    group_blocks: usize,
    groups: usize,
    /// Rows of cells: cells of a group.
    rows: usize,
}

impl Shape {
    /// Of a chunk of `rows_held` rows. Groups are of one size, but for the last: their filters are.
    fn of(rows_held: usize, rows: usize) -> Self {
        let blocks = block_count(rows_held);
        let group_blocks = blocks.div_ceil(blocks.div_ceil(GROUP_BLOCKS).max(1)).max(1);
        Self { group_blocks, groups: blocks.div_ceil(group_blocks), rows }
    }

    fn row_bytes(self) -> usize {
        self.groups * CELL_BYTES
    }

    /// Rows of cells under one checksum.
    fn stripe_rows(self) -> usize {
        (STRIPE_BYTES / self.row_bytes().max(1)).max(1)
    }

    fn stripes(self) -> usize {
        self.rows.div_ceil(self.stripe_rows())
    }

    fn checksums(self) -> Option<usize> {
        self.rows.checked_mul(self.row_bytes())
    }

    fn bytes(self) -> Option<usize> {
        self.checksums()?.checked_add((self.stripes() * 4).next_multiple_of(8))
    }

    /// Bytes of the stripe that holds this row of cells.
    fn stripe(self, row: usize) -> (usize, Range<usize>) {
        let stripe = row / self.stripe_rows();
        let first = stripe * self.stripe_rows();
        let end = self.rows.min(first + self.stripe_rows());
        (stripe, first * self.row_bytes()..end * self.row_bytes())
    }
}

/// Bytes that the filter of a chunk of `rows_held` rows takes, with `rows` rows of cells.
pub(super) fn filter_bytes(rows_held: usize, rows: usize) -> Option<usize> {
    Shape::of(rows_held, rows).bytes()
}

/// The row of cells that a value falls into, of `rows`.
fn row_of(hash: u64, rows: usize) -> usize {
    ((u128::from(hash >> 32) * rows as u128) >> 32) as usize
}

/// The bits of its cell that a value sets: one of each word.
fn bits_of(hash: u64) -> [u32; 8] {
    std::array::from_fn(|word| 1 << ((hash >> (5 * word)) & 31))
}

/// The filter of one chunk: its number of rows of cells, its bytes.
pub(super) struct Filter {
    pub(super) rows: u32,
    pub(super) bytes: Vec<u8>,
}

/// Makes the filters of a column, whose rows in arrival order are those of `arrays`: one a slice.
pub(super) fn filters_of(column_type: ColumnType, arrays: &[ArrayRef], order: &Order) -> Vec<Filter> {
    let by_arrival = hashes(column_type, arrays);
    let hash = |row: usize| match &order.permutation {
        None => by_arrival[row],
        Some(order) => by_arrival[order[row] as usize],
    };
    order.slices.iter().map(|sorted| filter_of(sorted.slice.rows.clone(), hash)).collect()
}

fn filter_of(held: Range<usize>, hash: impl Fn(usize) -> u64) -> Filter {
    let group_rows = Shape::of(held.len(), 0).group_blocks * BLOCK_ROWS;
    let mut groups = Vec::new();
    for start in held.clone().step_by(group_rows) {
        let mut group: Vec<u64> = (start..held.end.min(start + group_rows)).map(&hash).collect();
        group.sort_unstable();
        group.dedup();
        group.retain(|hash| *hash != NULL);
        groups.push(group);
    }
    let distinct = groups.iter().map(Vec::len).max().unwrap_or(0);
    let shape = Shape::of(held.len(), (distinct * BITS_A_VALUE).div_ceil(CELL_BYTES * 8));
    let mut cells = vec![[0_u32; 8]; shape.rows * shape.groups];
    for (number, group) in groups.iter().enumerate() {
        for &hash in group {
            let cell = &mut cells[row_of(hash, shape.rows) * shape.groups + number];
            cell.iter_mut().zip(bits_of(hash)).for_each(|(word, bit)| *word |= bit);
        }
    }
    let mut bytes: Vec<u8> = cells.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    for stripe in 0..shape.stripes() {
        let (_, extent) = shape.stripe(stripe * shape.stripe_rows());
        let crc = crc32c::crc32c(&bytes[extent]);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    super::layout::pad(&mut bytes);
    Filter { rows: u32::try_from(shape.rows).expect("a group has 16,384 values at most"), bytes }
}

/// The filter of a chunk, in place.
struct InPlace<'a> {
    part: &'a Part,
    /// In the file.
    offset: usize,
    shape: Shape,
    bytes: &'a [u8],
}

impl InPlace<'_> {
    /// The row of cells that a value falls into, its checksum compared; `None` where the chunk has no values.
    fn row(&self, hash: u64) -> Result<Option<&[u8]>> {
        if self.shape.rows == 0 {
            return Ok(None);
        }
        let row = row_of(hash, self.shape.rows);
        self.check_stripe(row)?;
        let at = row * self.shape.row_bytes();
        Ok(self.bytes.get(at..at + self.shape.row_bytes()))
    }

    fn check_stripe(&self, row: usize) -> Result<()> {
        let (stripe, extent) = self.shape.stripe(row);
        let at = self.bytes.len() - (self.shape.stripes() * 4).next_multiple_of(8) + stripe * 4;
        let said = u32_at(self.bytes, at);
        let start = self.offset + extent.start;
        let stored = self.bytes.get(extent).filter(|bytes| checksum::matches(bytes, said));
        stored.map(|_| ()).ok_or_else(|| self.part.damaged(start, "the checksum of a filter does not match"))
    }

    /// Compares every checksum.
    fn check(&self) -> Result<()> {
        for row in (0..self.shape.rows).step_by(self.shape.stripe_rows()) {
            self.check_stripe(row)?;
        }
        let used = self.shape.checksums().unwrap_or_default() + self.shape.stripes() * 4;
        match self.bytes.get(used..).unwrap_or_default().iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.part.damaged(self.offset + used, "the padding of a filter is not zeros")),
        }
    }
}

/// Whether a cell (of 32 bytes) has all these bits.
fn has(cell: &[u8], bits: [u32; 8]) -> bool {
    let words = array_at::<CELL_BYTES>(cell, 0).unwrap_or_default();
    let missing = bits.iter().enumerate().map(|(word, bit)| !u32_at(&words, word * 4) & bit);
    missing.fold(0, |all, bits| all | bits) == 0
}

impl Part {
    /// The columns that have filters, by their places in the part.
    pub(super) fn bloom_columns(&self) -> &[usize] {
        &self.layout.bloom_columns
    }

    /// Where the filter of a chunk is, `None` where the column has none.
    fn bloom_record(&self, slice: usize, column: usize) -> Option<BloomRecord> {
        let place = self.layout.bloom_columns.iter().position(|other| *other == column)?;
        let at = self.layout.blooms + (slice * self.layout.bloom_columns.len() + place) * BLOOM_BYTES;
        self.bytes.get(at..at + BLOOM_BYTES).map(BloomRecord::read)
    }

    fn bloom(&self, slice: usize, column: usize) -> Result<Option<InPlace<'_>>> {
        let Some(record) = self.bloom_record(slice, column) else { return Ok(None) };
        let held = self.slices.get(slice).map_or(0, |slice| slice.rows.len());
        let shape = Shape::of(held, record.rows as usize);
        let offset = record.offset as usize;
        // Opening checked these bounds; `get` keeps a fault here an error.
        let bytes = shape.bytes().and_then(|bytes| self.bytes.get(offset..offset.checked_add(bytes)?));
        let bytes = bytes.ok_or_else(|| self.damaged(offset, "a filter outside the file"))?;
        Ok(Some(InPlace { part: self, offset, shape, bytes }))
    }

    /// Bytes of the file that the filters of a column take, 0 where it has none.
    pub fn bloom_bytes(&self, column: usize) -> u64 {
        (0..self.slices.len()).map(|slice| self.chunk_bloom_bytes(slice, column)).sum()
    }

    pub(super) fn chunk_bloom_bytes(&self, slice: usize, column: usize) -> u64 {
        let held = self.slices.get(slice).map_or(0, |slice| slice.rows.len());
        let record = self.bloom_record(slice, column);
        record.and_then(|record| filter_bytes(held, record.rows as usize)).unwrap_or(0) as u64
    }

    /// The rows of a slice in groups of blocks of which `column` may hold one of the values, as ranges of rows of the
    /// part: ascending, apart. `None` where the column has no filter. `column` is the part's, whatever the points say.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where the filter cannot be read.
    pub fn point_rows(
        &self,
        slice: usize,
        column: usize,
        points: &ColumnPoints,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let Some(filter) = self.bloom(slice, column)? else { return Ok(None) };
        let mut found = vec![false; filter.shape.groups];
        for &hash in &points.hashes {
            let bits = bits_of(hash);
            let cells = filter.row(hash)?.unwrap_or_default().chunks_exact(CELL_BYTES);
            found.iter_mut().zip(cells).for_each(|(found, cell)| *found |= has(cell, bits));
        }
        let held = self.slices.get(slice).map_or(0..0, |slice| slice.rows.clone());
        let group_rows = filter.shape.group_blocks * BLOCK_ROWS;
        let mut kept: Vec<Range<usize>> = Vec::new();
        for (number, _) in found.iter().enumerate().filter(|(_, found)| **found) {
            let start = held.start + number * group_rows;
            let end = held.end.min(start + group_rows);
            match kept.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => kept.push(start..end),
            }
        }
        Ok(Some(kept))
    }

    /// Compares the checksums of the filters of one slice.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] with the place of the first damage.
    pub(super) fn check_blooms(&self, slice: usize) -> Result<()> {
        for &column in self.bloom_columns() {
            self.check_bloom(slice, column)?;
        }
        Ok(())
    }

    pub(super) fn check_bloom(&self, slice: usize, column: usize) -> Result<()> {
        self.bloom(slice, column)?.map_or(Ok(()), |filter| filter.check())
    }

    /// Checks that the filter of a chunk, if there is one, denies none of the values of a block.
    ///
    /// # Errors
    /// [`crate::EngineError::Damaged`] where it does, or cannot be read.
    pub(super) fn check_bloom_values(
        &self,
        (slice, block): (usize, usize),
        column: usize,
        values: &ArrayRef,
    ) -> Result<()> {
        let Some(filter) = self.bloom(slice, column)? else { return Ok(()) };
        let column_type = self.schema.columns()[column].column_type;
        let group = block / filter.shape.group_blocks * CELL_BYTES;
        let denied = || self.damaged(filter.offset, "a filter denies a value that is there");
        for hash in hashes(column_type, std::slice::from_ref(values)) {
            if hash != NULL {
                let cell = filter.row(hash)?.and_then(|row| row.get(group..group + CELL_BYTES));
                cell.filter(|cell| has(cell, bits_of(hash))).ok_or_else(denied)?;
            }
        }
        Ok(())
    }
}
