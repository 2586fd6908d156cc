//! Reading rows of a column into an Arrow array: only the blocks touched are decoded.

use super::codec::slots::{Slot, append, first, scratch};
use super::codec::{Decoded, HEADER_BYTES, kind, text, value};
use super::page::{Block, Page};
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::ColumnType;

/// An Arrow type of numbers that a part stores: every primitive type that a [`ColumnType`] is stored as.
#[allow(private_bounds, reason = "how values are decoded stays in this module")]
pub trait Fixed: ArrowPrimitiveType<Native: value::Value> {}

impl<A: ArrowPrimitiveType<Native: value::Value>> Fixed for A {}

impl Part {
    /// Rows `rows` of a column, in stored types.
    ///
    /// # Errors
    /// Those of [`Self::read_ranges`].
    pub fn read(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        self.read_ranges(column, std::slice::from_ref(&rows))
    }

    /// The rows of several ranges (ascending, apart) of a column, one after the other, in stored types.
    ///
    /// A block is decoded once, however many of the ranges lie in it.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] where a block cannot be read; [`EngineError::Arrow`] for rows or a column
    /// the part does not have, ranges that go back, or text of more than 2 GiB.
    pub fn read_ranges(&self, column: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
        let column_type = self.column_type(column, ranges)?;
        self.read_blocks(column_type, &ColumnBlocks { part: self, column, ranges })
    }

    /// The rows wanted of blocks of this type.
    pub(super) fn read_blocks<'a>(
        &'a self,
        column_type: ColumnType,
        blocks: &impl Blocks<'a>,
    ) -> Result<ArrayRef> {
        Ok(match column_type {
            ColumnType::Boolean => self.read_bits(blocks)?,
            ColumnType::Int8 => self.read_primitive::<Int8Type>(blocks)?,
            ColumnType::Int16 => self.read_primitive::<Int16Type>(blocks)?,
            ColumnType::Int32 => self.read_primitive::<Int32Type>(blocks)?,
            ColumnType::Int64 => self.read_primitive::<Int64Type>(blocks)?,
            ColumnType::UInt8 => self.read_primitive::<UInt8Type>(blocks)?,
            ColumnType::UInt16 => self.read_primitive::<UInt16Type>(blocks)?,
            ColumnType::UInt32 | ColumnType::Symbol => self.read_primitive::<UInt32Type>(blocks)?,
            ColumnType::UInt64 => self.read_primitive::<UInt64Type>(blocks)?,
            ColumnType::Float32 => self.read_primitive::<Float32Type>(blocks)?,
            ColumnType::Float64 => self.read_primitive::<Float64Type>(blocks)?,
            ColumnType::Date => self.read_primitive::<Date32Type>(blocks)?,
            ColumnType::Time => self.read_primitive::<Time64NanosecondType>(blocks)?,
            ColumnType::Timestamp => self.read_primitive::<TimestampNanosecondType>(blocks)?,
            ColumnType::Decimal { precision, scale } => {
                let (values, nulls) = self.read_values::<i128>(blocks)?;
                let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_precision_and_scale(precision, scale)?)
            }
            ColumnType::Uuid => self.read_sixteen_bytes(blocks)?,
            ColumnType::Varchar | ColumnType::Binary => self.read_text(column_type, blocks)?,
            ColumnType::Array(element) => self.read_arrays(element, blocks)?,
        })
    }

    /// The rows of several ranges of a column whose values are `A`, into a buffer that the caller uses again:
    /// for work that goes over values once and keeps none of them.
    ///
    /// What `values` held before is gone; the place of a NULL holds some value. Returns the validity where
    /// there are NULLs.
    ///
    /// # Errors
    /// Those of [`Self::read_ranges`]; [`EngineError::Arrow`] for a column of another type.
    pub fn read_into<A: Fixed>(
        &self,
        column: usize,
        ranges: &[Range<usize>],
        values: &mut Vec<A::Native>,
    ) -> Result<Option<NullBuffer>> {
        let stored = self.column_type(column, ranges)?.stored_type();
        let same = match &stored {
            DataType::Decimal128(_, _) => matches!(A::DATA_TYPE, DataType::Decimal128(_, _)),
            stored => *stored == A::DATA_TYPE,
        };
        if !same {
            let message = format!("column {column} of {} is {stored}", self.path.display());
            return Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)));
        }
        values.clear();
        self.append_values(column, ranges, values)
    }

    /// The type of a column, where it and the rows of `ranges` are the part's.
    pub(super) fn column_type(&self, column: usize, ranges: &[Range<usize>]) -> Result<ColumnType> {
        let known = self.schema.columns().get(column);
        let inside = ranges.iter().all(|rows| rows.start <= rows.end && rows.end as u64 <= self.summary.rows);
        let ascending = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
        known.map(|column| column.column_type).filter(|_| inside && ascending).ok_or_else(|| {
            let message = format!("no rows {ranges:?} of column {column} in {}", self.path.display());
            EngineError::Arrow(ArrowError::InvalidArgumentError(message))
        })
    }

    /// Visits the blocks that hold rows of `ranges`, each once: the page it is in, the block, and which of its rows are
    /// wanted.
    pub(super) fn each_block<'a>(
        &'a self,
        column: usize,
        ranges: &[Range<usize>],
        mut visit: impl FnMut(&Page<'a>, &Block<'a>, &[Range<usize>]) -> Result<()>,
    ) -> Result<()> {
        let mut wanted = Wanted::new(ranges);
        while let Some((slice, mut row)) = wanted.next_row().and_then(|row| Some((self.slice_of(row)?, row)))
        {
            let whole = &self.slices[slice].rows;
            let page = self.page(slice, column)?;
            while row < whole.end {
                let block = (row - whole.start) / BLOCK_ROWS;
                let start = whole.start + block * BLOCK_ROWS;
                let found = page.block(block)?;
                page.prefetch_after(&found);
                visit(&page, &found, wanted.take(start..whole.end.min(start + BLOCK_ROWS)))?;
                let Some(next) = wanted.next_row() else { return Ok(()) };
                row = next;
            }
        }
        Ok(())
    }

    fn read_primitive<'a, A: ArrowPrimitiveType>(&'a self, blocks: &impl Blocks<'a>) -> Result<ArrayRef>
    where
        A::Native: value::Value,
    {
        let (values, nulls) = self.read_values::<A::Native>(blocks)?;
        Ok(Arc::new(PrimitiveArray::<A>::new(ScalarBuffer::from(values), nulls)))
    }

    fn read_values<'a, V: value::Value>(
        &'a self,
        blocks: &impl Blocks<'a>,
    ) -> Result<(Vec<V>, Option<NullBuffer>)> {
        let mut values = Vec::new();
        let nulls = self.append_blocks(blocks, &mut values)?;
        Ok((values, nulls))
    }

    pub(super) fn append_values<V: value::Value>(
        &self,
        column: usize,
        ranges: &[Range<usize>],
        values: &mut Vec<V>,
    ) -> Result<Option<NullBuffer>> {
        self.append_blocks(&ColumnBlocks { part: self, column, ranges }, values)
    }

    fn append_blocks<'a, V: value::Value, B: Blocks<'a>>(
        &'a self,
        blocks: &B,
        values: &mut Vec<V>,
    ) -> Result<Option<NullBuffer>> {
        values.reserve_exact(blocks.rows());
        let mut validity = Validity::new(blocks.rows());
        blocks.each(|block, wanted| {
            let Some(body) = validity.body(self, block, wanted)? else {
                values.resize(values.len() + count(wanted), V::default());
                return Ok(());
            };
            if B::BESIDE_TIMES && body.first() == Some(&kind::SINCE) {
                return self.append_since(body, block, wanted, values);
            }
            let decoded = decode_wanted((body, block.tables), block.rows, wanted, values);
            decoded.map_err(|what| self.damaged(block.offset, what.0))
        })?;
        Ok(validity.finish())
    }

    /// Appends the rows wanted of a block of distances from the designated timestamps.
    fn append_since<V: value::Value>(
        &self,
        body: &[u8],
        block: &Block<'_>,
        wanted: &[Range<usize>],
        values: &mut Vec<V>,
    ) -> Result<()> {
        let before = values.len();
        let decoded = decode_wanted((&body[1..], block.tables), block.rows, wanted, values);
        decoded.map_err(|what| self.damaged(block.offset, what.0))?;
        let mut times = scratch::<i64, BLOCK_ROWS>();
        let times = self.times_beside(block, &mut times)?;
        let wanted = wanted.iter().flat_map(|rows| &times[rows.clone()]);
        values[before..].iter_mut().zip(wanted).for_each(|(value, time)| *value = value.after(*time));
        Ok(())
    }

    /// The designated timestamps of a block's rows.
    pub(super) fn times_beside<'s>(
        &self,
        block: &Block<'_>,
        times: &'s mut [Slot<i64>; BLOCK_ROWS],
    ) -> Result<&'s [i64]> {
        let (slice, number) = block.place;
        let column = self.schema.timestamp();
        let column = column
            .ok_or_else(|| self.damaged(block.offset, "distances from times that there are none of"))?;
        let beside = self.page(slice, column)?.block(number)?;
        let decoded =
            first(times, beside.rows).and_then(|slots| value::decode(beside.bytes, beside.tables, slots));
        Ok(decoded.map_err(|what| self.damaged(beside.offset, what.0))?)
    }

    fn read_sixteen_bytes<'a>(&'a self, blocks: &impl Blocks<'a>) -> Result<ArrayRef> {
        let (values, nulls) = self.read_values::<[u8; 16]>(blocks)?;
        let bytes = Buffer::from_vec(values.into_flattened());
        Ok(Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls)?))
    }

    fn read_bits<'a>(&'a self, blocks: &impl Blocks<'a>) -> Result<ArrayRef> {
        let rows = blocks.rows();
        let mut values = BooleanBufferBuilder::new(rows);
        let mut validity = Validity::new(rows);
        blocks.each(|block, wanted| {
            let Some(body) = validity.body(self, block, wanted)? else {
                values.append_n(count(wanted), false);
                return Ok(());
            };
            let bits = body.get(HEADER_BYTES..HEADER_BYTES + block.rows.div_ceil(8));
            let Some(bits) = bits.filter(|_| body[0] == kind::BITS) else {
                return Err(self.damaged(block.offset, "an encoding this type does not have"));
            };
            for rows in wanted {
                values.append_packed_range(rows.clone(), bits);
            }
            Ok(())
        })?;
        Ok(Arc::new(BooleanArray::new(values.finish(), validity.finish())))
    }

    fn read_text<'a>(&'a self, column_type: ColumnType, blocks: &impl Blocks<'a>) -> Result<ArrayRef> {
        let rows = blocks.rows();
        let mut lengths_all: Vec<usize> = Vec::with_capacity(rows);
        let mut data = Vec::new();
        let mut validity = Validity::new(rows);
        blocks.each(|block, wanted| {
            let Some(body) = validity.body(self, block, wanted)? else {
                lengths_all.resize(lengths_all.len() + count(wanted), 0);
                return Ok(());
            };
            let damaged = |damage: super::codec::Damage| self.damaged(block.offset, damage.0);
            let mut lengths = scratch::<u32, BLOCK_ROWS>();
            let rest = body.get(HEADER_BYTES..).filter(|_| kind::is_text(body[0]));
            let Some(rest) = rest else {
                return Err(self.damaged(block.offset, "an encoding this type does not have"));
            };
            let before = data.len();
            let lengths = first(&mut lengths, block.rows).map_err(damaged)?;
            let lengths = text::decode(body[0], rest, lengths, &mut data).map_err(damaged)?;
            keep_text(&mut data, before, lengths, wanted);
            for rows in wanted {
                lengths_all.extend(lengths[rows.clone()].iter().map(|&length| length as usize));
            }
            Ok(())
        })?;
        if i32::try_from(data.len()).is_err() {
            return Err(EngineError::Arrow(ArrowError::OffsetOverflowError(data.len())));
        }
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths_all);
        let nulls = validity.finish();
        Ok(match column_type {
            ColumnType::Varchar => Arc::new(StringArray::try_new(offsets, data.into(), nulls)?),
            _ => Arc::new(BinaryArray::try_new(offsets, data.into(), nulls)?),
        })
    }
}

/// Blocks of values of one type, with the rows wanted of each.
pub(super) trait Blocks<'a> {
    /// Whether they are those of a column, so that rows of theirs are rows of the part, which have times.
    const BESIDE_TIMES: bool;

    /// Rows wanted in all.
    fn rows(&self) -> usize;
    /// Visits each once, in order.
    fn each(&self, visit: impl FnMut(&Block<'a>, &[Range<usize>]) -> Result<()>) -> Result<()>;
}

/// The blocks of a column that hold rows of `ranges`.
struct ColumnBlocks<'a, 'r> {
    part: &'a Part,
    column: usize,
    ranges: &'r [Range<usize>],
}

impl<'a> Blocks<'a> for ColumnBlocks<'a, '_> {
    const BESIDE_TIMES: bool = true;

    fn rows(&self) -> usize {
        count(self.ranges)
    }

    fn each(&self, mut visit: impl FnMut(&Block<'a>, &[Range<usize>]) -> Result<()>) -> Result<()> {
        self.part.each_block(self.column, self.ranges, |_, block, wanted| visit(block, wanted))
    }
}

/// Rows in `ranges`.
pub(super) fn count(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// Appends the rows wanted of a block: straight to their place where that is all of them.
fn decode_wanted<V: value::Value>(
    (body, tables): (&[u8], &[u8]),
    rows: usize,
    wanted: &[Range<usize>],
    values: &mut Vec<V>,
) -> Decoded<()> {
    if count(wanted) == rows {
        return append(values, rows, |slots| value::decode(body, tables, slots));
    }
    let mut decoded = scratch::<V, BLOCK_ROWS>();
    let decoded = value::decode(body, tables, first(&mut decoded, rows)?)?;
    for rows in wanted {
        values.extend_from_slice(&decoded[rows.clone()]);
    }
    Ok(())
}

/// Of a block's text, which begins at `start` of `data`, keeps that of the rows wanted.
fn keep_text(data: &mut Vec<u8>, start: usize, lengths: &[u32], wanted: &[Range<usize>]) {
    let bytes = |rows: Range<usize>| lengths[rows].iter().map(|&length| length as usize).sum::<usize>();
    let (mut row, mut at, mut kept) = (0, start, start);
    for rows in wanted {
        at += bytes(row..rows.start);
        let size = bytes(rows.clone());
        if at > kept {
            data.copy_within(at..at + size, kept);
        }
        (row, at, kept) = (rows.end, at + size, kept + size);
    }
    data.truncate(kept);
}

/// Hands out ranges of rows block by block.
pub(super) struct Wanted<'a> {
    /// What is left: the first one may have been handed out in part.
    ranges: &'a [Range<usize>],
    /// The stretches of the block at hand, counted from its first row.
    inside: Vec<Range<usize>>,
    /// The row after the last one handed out.
    row: usize,
}

impl<'a> Wanted<'a> {
    /// Of ranges that are ascending and apart.
    pub(super) fn new(ranges: &'a [Range<usize>]) -> Self {
        Self { ranges, inside: Vec::new(), row: 0 }
    }

    /// The first row not handed out yet.
    pub(super) fn next_row(&mut self) -> Option<usize> {
        while let [first, rest @ ..] = self.ranges {
            let row = first.start.max(self.row);
            if row < first.end {
                return Some(row);
            }
            self.ranges = rest;
        }
        None
    }

    /// What is wanted of a block of these rows.
    pub(super) fn take(&mut self, block: Range<usize>) -> &[Range<usize>] {
        self.inside.clear();
        while let Some(row) = self.next_row().filter(|row| *row < block.end) {
            // There is a first range, as it has a next row.
            let end = self.ranges.first().map_or(row, |first| first.end.min(block.end));
            self.inside.push(row - block.start..end - block.start);
            self.row = end;
        }
        &self.inside
    }
}

/// Collects validity; holds nothing until the first NULL.
pub(super) struct Validity {
    rows: usize,
    seen: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Validity {
    pub(super) fn new(rows: usize) -> Self {
        Self { rows, seen: 0, bits: None }
    }

    /// Notes the validity of `wanted` rows of a block and gives the block's body, `None` where every value
    /// is NULL.
    pub(super) fn body<'a>(
        &mut self,
        part: &Part,
        block: &Block<'a>,
        wanted: &[Range<usize>],
    ) -> Result<Option<&'a [u8]>> {
        let nulls = usize::from(block.nulls);
        let (seen, taken) = (self.seen, count(wanted));
        self.seen += taken;
        if nulls == 0 {
            if let Some(bits) = &mut self.bits {
                bits.append_n(taken, true);
            }
            if block.bytes.is_empty() {
                return Err(part.damaged(block.offset, "a block ends before its values do"));
            }
            return Ok(Some(block.bytes));
        }
        let rows = self.rows;
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(seen, true);
            bits
        });
        if nulls >= block.rows {
            bits.append_n(taken, false);
            return Ok(None);
        }
        let at = block.rows.div_ceil(64) * 8;
        let split = block.bytes.split_at_checked(at).filter(|(_, body)| !body.is_empty());
        let (valid, body) =
            split.ok_or_else(|| part.damaged(block.offset, "a block ends before its values do"))?;
        for rows in wanted {
            bits.append_packed_range(rows.clone(), valid);
        }
        Ok(Some(body))
    }

    pub(super) fn finish(self) -> Option<NullBuffer> {
        let nulls = NullBuffer::new(self.bits?.finish());
        (nulls.null_count() > 0).then_some(nulls)
    }
}
