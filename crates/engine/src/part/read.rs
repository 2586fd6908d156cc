//! Reading rows of a column into an Arrow array: only the blocks touched are decoded.

use super::codec::{HEADER_BYTES, bit, kind, text, value};
use super::page::Block;
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::ColumnType;

impl Part {
    /// Rows `rows` of a column, in stored types.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] where a block cannot be read; [`EngineError::Arrow`] for rows or a column
    /// the part does not have, or text of more than 2 GiB.
    pub fn read(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let known = self.schema.columns().get(column);
        let inside = rows.start <= rows.end && rows.end as u64 <= self.summary.rows;
        let Some(column_type) = known.map(|column| column.column_type).filter(|_| inside) else {
            let message = format!("no rows {rows:?} of column {column} in {}", self.path.display());
            return Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)));
        };
        Ok(match column_type {
            ColumnType::Boolean => self.read_bits(column, rows)?,
            ColumnType::Int8 => self.read_primitive::<Int8Type>(column, rows)?,
            ColumnType::Int16 => self.read_primitive::<Int16Type>(column, rows)?,
            ColumnType::Int32 => self.read_primitive::<Int32Type>(column, rows)?,
            ColumnType::Int64 => self.read_primitive::<Int64Type>(column, rows)?,
            ColumnType::UInt8 => self.read_primitive::<UInt8Type>(column, rows)?,
            ColumnType::UInt16 => self.read_primitive::<UInt16Type>(column, rows)?,
            ColumnType::UInt32 | ColumnType::Symbol => self.read_primitive::<UInt32Type>(column, rows)?,
            ColumnType::UInt64 => self.read_primitive::<UInt64Type>(column, rows)?,
            ColumnType::Float32 => self.read_primitive::<Float32Type>(column, rows)?,
            ColumnType::Float64 => self.read_primitive::<Float64Type>(column, rows)?,
            ColumnType::Date => self.read_primitive::<Date32Type>(column, rows)?,
            ColumnType::Timestamp => self.read_primitive::<TimestampNanosecondType>(column, rows)?,
            ColumnType::Decimal { precision, scale } => {
                let (values, nulls) = self.read_values::<i128>(column, rows)?;
                let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_precision_and_scale(precision, scale)?)
            }
            ColumnType::Uuid => self.read_sixteen_bytes(column, rows)?,
            ColumnType::Varchar | ColumnType::Binary => self.read_text(column, column_type, rows)?,
        })
    }

    /// Visits the blocks that hold `rows`: the block, and the rows of it that are wanted.
    fn each_block(
        &self,
        column: usize,
        rows: Range<usize>,
        mut visit: impl FnMut(&Block<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut row = rows.start;
        while let Some(slice) = self.slice_of(row).filter(|_| row < rows.end) {
            let whole = &self.slices[slice].rows;
            let page = self.page(slice, column)?;
            while row < rows.end.min(whole.end) {
                let block = (row - whole.start) / BLOCK_ROWS;
                let start = whole.start + block * BLOCK_ROWS;
                let end = rows.end.min(start + BLOCK_ROWS).min(whole.end);
                visit(&page.block(block)?, row - start..end - start)?;
                row = end;
            }
        }
        Ok(())
    }

    fn read_primitive<A: ArrowPrimitiveType>(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef>
    where
        A::Native: value::Value,
    {
        let (values, nulls) = self.read_values::<A::Native>(column, rows)?;
        Ok(Arc::new(PrimitiveArray::<A>::new(ScalarBuffer::from(values), nulls)))
    }

    fn read_values<V: value::Value>(
        &self,
        column: usize,
        rows: Range<usize>,
    ) -> Result<(Vec<V>, Option<NullBuffer>)> {
        let mut values: Vec<V> = Vec::with_capacity(rows.len());
        let mut validity = Validity::new(rows.len());
        // Decoded where the cache is warm, then copied: cheaper than clearing the target first.
        let mut decoded = [V::default(); BLOCK_ROWS];
        self.each_block(column, rows, |block, wanted| {
            let Some(body) = validity.body(self, block, &wanted)? else {
                values.resize(values.len() + wanted.len(), V::default());
                return Ok(());
            };
            let decoded = &mut decoded[..block.rows];
            value::decode(body, decoded).map_err(|damage| self.damaged(block.offset, damage.0))?;
            values.extend_from_slice(&decoded[wanted]);
            Ok(())
        })?;
        Ok((values, validity.finish()))
    }

    fn read_sixteen_bytes(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let (values, nulls) = self.read_values::<[u8; 16]>(column, rows)?;
        let bytes = Buffer::from_vec(values.into_flattened());
        Ok(Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls)?))
    }

    fn read_bits(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let mut values = BooleanBufferBuilder::new(rows.len());
        let mut validity = Validity::new(rows.len());
        self.each_block(column, rows, |block, wanted| {
            let Some(body) = validity.body(self, block, &wanted)? else {
                values.append_n(wanted.len(), false);
                return Ok(());
            };
            let bits = body.get(HEADER_BYTES..HEADER_BYTES + block.rows.div_ceil(8));
            let Some(bits) = bits.filter(|_| body[0] == kind::BITS) else {
                return Err(self.damaged(block.offset, "an encoding this type does not have"));
            };
            values.append_packed_range(wanted, bits);
            Ok(())
        })?;
        Ok(Arc::new(BooleanArray::new(values.finish(), validity.finish())))
    }

    fn read_text(&self, column: usize, column_type: ColumnType, rows: Range<usize>) -> Result<ArrayRef> {
        let mut lengths_all: Vec<usize> = Vec::with_capacity(rows.len());
        let mut data = Vec::new();
        let mut validity = Validity::new(rows.len());
        self.each_block(column, rows, |block, wanted| {
            let Some(body) = validity.body(self, block, &wanted)? else {
                lengths_all.resize(lengths_all.len() + wanted.len(), 0);
                return Ok(());
            };
            let damaged = |damage: super::codec::Damage| self.damaged(block.offset, damage.0);
            let mut lengths = [0_u32; BLOCK_ROWS];
            let lengths = &mut lengths[..block.rows];
            let rest = body.get(HEADER_BYTES..).filter(|_| matches!(body[0], kind::TEXT | kind::TEXT_ZSTD));
            let Some(rest) = rest else {
                return Err(self.damaged(block.offset, "an encoding this type does not have"));
            };
            let before = data.len();
            text::decode(body[0], rest, lengths, &mut data).map_err(damaged)?;
            let bytes =
                |range: Range<usize>| lengths[range].iter().map(|&length| length as usize).sum::<usize>();
            let (skipped, kept) = (bytes(0..wanted.start), bytes(wanted.clone()));
            data.drain(before..before + skipped);
            data.truncate(before + kept);
            lengths_all.extend(lengths[wanted].iter().map(|&length| length as usize));
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

/// Collects validity; holds nothing until the first NULL.
struct Validity {
    rows: usize,
    seen: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Validity {
    fn new(rows: usize) -> Self {
        Self { rows, seen: 0, bits: None }
    }

    /// Notes the validity of `wanted` rows of a block and gives the block's body, `None` where every value
    /// is NULL.
    fn body<'a>(
        &mut self,
        part: &Part,
        block: &Block<'a>,
        wanted: &Range<usize>,
    ) -> Result<Option<&'a [u8]>> {
        let nulls = usize::from(block.stats.nulls);
        let seen = self.seen;
        self.seen += wanted.len();
        if nulls == 0 {
            if let Some(bits) = &mut self.bits {
                bits.append_n(wanted.len(), true);
            }
            if block.bytes.len() < HEADER_BYTES {
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
            bits.append_n(wanted.len(), false);
            return Ok(None);
        }
        let at = block.rows.div_ceil(64) * 8;
        let split = block.bytes.split_at_checked(at).filter(|(_, body)| body.len() >= HEADER_BYTES);
        let (valid, body) =
            split.ok_or_else(|| part.damaged(block.offset, "a block ends before its values do"))?;
        for row in wanted.clone() {
            bits.append(bit(valid, row));
        }
        Ok(Some(body))
    }

    fn finish(self) -> Option<NullBuffer> {
        let nulls = NullBuffer::new(self.bits?.finish());
        (nulls.null_count() > 0).then_some(nulls)
    }
}
