//! Single rows of a column, picked from the blocks that hold them: nothing else is decoded or copied.

use super::codec::plain::PlainBlock;
use super::codec::slots::{first, scratch};
use super::codec::{bit, kind, value};
use super::page::{Block, Page};
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, UInt64Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::ColumnType;

/// Up to so many rows of a block are picked one by one from the packed words.
const FEW_ROWS: usize = 32;

impl Part {
    /// The rows `rows` of a column in that order, in stored types.
    ///
    /// Rows may come in any order and more than once; neighbours that share a block are decoded together.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] where a block cannot be read; [`EngineError::Arrow`] for rows or a column
    /// the part does not have, or text of more than 2 GiB.
    pub fn take(&self, column: usize, rows: &[usize]) -> Result<ArrayRef> {
        if rows.is_empty() {
            return self.read(column, 0..0);
        }
        let known = self.schema.columns().get(column);
        let inside = rows.iter().all(|row| (*row as u64) < self.summary.rows);
        let Some(column_type) = known.map(|column| column.column_type).filter(|_| inside) else {
            let message = format!("no such rows of column {column} in {}", self.path.display());
            return Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)));
        };
        Ok(match column_type {
            ColumnType::Int8 => self.take_primitive::<Int8Type>(column, rows)?,
            ColumnType::Int16 => self.take_primitive::<Int16Type>(column, rows)?,
            ColumnType::Int32 => self.take_primitive::<Int32Type>(column, rows)?,
            ColumnType::Int64 => self.take_primitive::<Int64Type>(column, rows)?,
            ColumnType::UInt8 => self.take_primitive::<UInt8Type>(column, rows)?,
            ColumnType::UInt16 => self.take_primitive::<UInt16Type>(column, rows)?,
            ColumnType::UInt32 | ColumnType::Symbol => self.take_primitive::<UInt32Type>(column, rows)?,
            ColumnType::UInt64 => self.take_primitive::<UInt64Type>(column, rows)?,
            ColumnType::Float32 => self.take_primitive::<Float32Type>(column, rows)?,
            ColumnType::Float64 => self.take_primitive::<Float64Type>(column, rows)?,
            ColumnType::Date => self.take_primitive::<Date32Type>(column, rows)?,
            ColumnType::Time => self.take_primitive::<Time64NanosecondType>(column, rows)?,
            ColumnType::Timestamp => self.take_primitive::<TimestampNanosecondType>(column, rows)?,
            ColumnType::Decimal { precision, scale } => {
                let (values, nulls) = self.take_values::<i128>(column, rows)?;
                let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_precision_and_scale(precision, scale)?)
            }
            ColumnType::Boolean
            | ColumnType::Uuid
            | ColumnType::Varchar
            | ColumnType::Binary
            | ColumnType::Array(_) => self.take_read(column, rows)?,
        })
    }

    fn take_primitive<A: ArrowPrimitiveType>(&self, column: usize, rows: &[usize]) -> Result<ArrayRef>
    where
        A::Native: value::Value,
    {
        let (values, nulls) = self.take_values::<A::Native>(column, rows)?;
        Ok(Arc::new(PrimitiveArray::<A>::new(ScalarBuffer::from(values), nulls)))
    }

    fn take_values<V: value::Value>(
        &self,
        column: usize,
        rows: &[usize],
    ) -> Result<(Vec<V>, Option<NullBuffer>)> {
        let mut values: Vec<V> = Vec::with_capacity(rows.len());
        let mut valid: Option<BooleanBufferBuilder> = None;
        let mut slots = scratch::<V, BLOCK_ROWS>();
        let mut page: Option<(usize, Page<'_>)> = None;
        let mut rest = rows;
        while let Some(&row) = rest.first() {
            let (slice, number, held) = self.block_of(row)?;
            if page.as_ref().is_none_or(|(of, _)| *of != slice) {
                page = Some((slice, self.page(slice, column)?));
            }
            let Some((_, page)) = &page else { break };
            let together = rest.iter().take_while(|row| held.contains(row)).count();
            let (here, after) = rest.split_at(together);
            rest = after;
            let block = page.block(number)?;
            if valid.is_none()
                && here.len() <= FEW_ROWS
                && let Some(plain) = self.plain::<V>(&block)?.filter(PlainBlock::is_whole)
            {
                values.extend(here.iter().map(|row| plain.get::<V>(row - held.start)));
                continue;
            }
            let body = self.body(&block)?;
            if body.bits.is_some() || valid.is_some() {
                let valid = valid.get_or_insert_with(|| {
                    let mut bits = BooleanBufferBuilder::new(rows.len());
                    bits.append_n(values.len(), true);
                    bits
                });
                here.iter().for_each(|row| valid.append(body.is_valid(row - held.start)));
            }
            let Some(bytes) = body.bytes else {
                values.resize(values.len() + here.len(), V::default());
                continue;
            };
            let is_since = bytes.first() == Some(&kind::SINCE);
            let bytes = &bytes[usize::from(is_since)..];
            let decoded =
                first(&mut slots, block.rows).and_then(|slots| value::decode(bytes, block.tables, slots));
            let decoded = decoded.map_err(|damage| self.damaged(block.offset, damage.0))?;
            if is_since {
                let mut times = scratch::<i64, BLOCK_ROWS>();
                let times = self.times_beside(&block, &mut times)?;
                decoded.iter_mut().zip(times).for_each(|(value, time)| *value = value.after(*time));
            }
            values.extend(here.iter().map(|row| decoded[row - held.start]));
        }
        let nulls = valid.map(|mut valid| NullBuffer::new(valid.finish()));
        Ok((values, nulls.filter(|nulls| nulls.null_count() > 0)))
    }

    /// Where a row lies: its slice, its block there, and the rows of that block.
    fn block_of(&self, row: usize) -> Result<(usize, usize, Range<usize>)> {
        let slice = self.slice_of(row).ok_or_else(|| self.damaged(0, "a row in no slice"))?;
        let whole = &self.slices[slice].rows;
        let block = (row - whole.start) / BLOCK_ROWS;
        let start = whole.start + block * BLOCK_ROWS;
        Ok((slice, block, start..whole.end.min(start + BLOCK_ROWS)))
    }

    /// A block's validity and values.
    fn body<'a>(&self, block: &Block<'a>) -> Result<Body<'a>> {
        let short = || self.damaged(block.offset, "a block ends before its values do");
        let nulls = usize::from(block.nulls);
        if nulls >= block.rows {
            return Ok(Body { bits: Some(&[]), bytes: None });
        }
        let at = if nulls == 0 { 0 } else { block.rows.div_ceil(64) * 8 };
        let split = block.bytes.split_at_checked(at).filter(|(_, body)| !body.is_empty());
        let (bits, bytes) = split.ok_or_else(short)?;
        Ok(Body { bits: (nulls > 0).then_some(bits), bytes: Some(bytes) })
    }

    /// [`Self::take`] of values that have no fixed size: the stretch of each block that holds the rows is read.
    fn take_read(&self, column: usize, rows: &[usize]) -> Result<ArrayRef> {
        let mut taken = Vec::new();
        let mut rest = rows;
        while let Some(&row) = rest.first() {
            let (_, _, held) = self.block_of(row)?;
            let together = rest.iter().take_while(|row| held.contains(row)).count();
            let (here, after) = rest.split_at(together);
            rest = after;
            let bounds = here.iter().fold((row, row), |(least, most), row| (least.min(*row), most.max(*row)));
            let values = self.read(column, bounds.0..bounds.1 + 1)?;
            let places = UInt64Array::from_iter_values(here.iter().map(|row| (row - bounds.0) as u64));
            taken.push(arrow_select::take::take(&values, &places, None)?);
        }
        let taken: Vec<&dyn Array> = taken.iter().map(AsRef::as_ref).collect();
        Ok(arrow_select::concat::concat(&taken)?)
    }
}

/// The parts of a block.
struct Body<'a> {
    /// One bit a row, where some are NULL.
    bits: Option<&'a [u8]>,
    /// Header and values; `None` where every row is NULL.
    bytes: Option<&'a [u8]>,
}

impl Body<'_> {
    fn is_valid(&self, row: usize) -> bool {
        self.bits.is_none_or(|bits| bit(bits, row))
    }
}
