//! Sums, ranges and selections of a column's values without making them into arrays: most blocks are worked on as they
//! are packed, others are decoded into a buffer that is used again.

use super::codec::plain::{Bounds, PlainBlock};
use super::codec::slots::{first, scratch};
use super::codec::value::{self, Value};
use super::codec::{Damage, kind, runs, steps};
use super::page::Block;
use super::stats::{BlockStats, HAS_NAN, HAS_RANGE, NO_RANGE, StatKind, TotalStats};
use super::{BLOCK_ROWS, ColumnBound, ColumnStats, Part, StatValue};
use crate::{EngineError, Result};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::ArrowError;
use std::ops::Range;
use tickstone_model::ColumnType;

/// Calls a generic function with the native type of a column, `$other` where it has no order.
macro_rules! with_native {
    ($column_type:expr, $self:ident.$call:ident::<_ $(, $more:tt)*>($($argument:expr),*), $other:expr) => {
        match $column_type {
            ColumnType::Int8 => $self.$call::<i8 $(, $more)*>($($argument),*),
            ColumnType::Int16 => $self.$call::<i16 $(, $more)*>($($argument),*),
            ColumnType::Int32 | ColumnType::Date => $self.$call::<i32 $(, $more)*>($($argument),*),
            ColumnType::Int64 | ColumnType::Time | ColumnType::Timestamp => $self.$call::<i64 $(, $more)*>($($argument),*),
            ColumnType::UInt8 => $self.$call::<u8 $(, $more)*>($($argument),*),
            ColumnType::UInt16 => $self.$call::<u16 $(, $more)*>($($argument),*),
            ColumnType::UInt32 | ColumnType::Symbol => $self.$call::<u32 $(, $more)*>($($argument),*),
            ColumnType::UInt64 => $self.$call::<u64 $(, $more)*>($($argument),*),
            ColumnType::Float32 => $self.$call::<f32 $(, $more)*>($($argument),*),
            ColumnType::Float64 => $self.$call::<f64 $(, $more)*>($($argument),*),
            ColumnType::Decimal { .. } => $self.$call::<i128 $(, $more)*>($($argument),*),
            ColumnType::Boolean
            | ColumnType::Uuid
            | ColumnType::Varchar
            | ColumnType::Binary
            | ColumnType::Array(_) => $other,
        }
    };
}

impl Part {
    /// Count, sum, least and largest of the values of several ranges of rows (ascending, apart), which are read:
    /// statistics of blocks are not used.
    ///
    /// Sums of integers are exact, or absent past 64 bits of a block. Those of doubles are added up in any order, the
    /// integers of decimals exactly.
    ///
    /// # Errors
    /// Those of [`Self::read_ranges`]; [`EngineError::Arrow`] for a column of a type that has no range.
    pub fn reduce(&self, column: usize, ranges: &[Range<usize>]) -> Result<ColumnStats> {
        let column_type = self.column_type(column, ranges)?;
        with_native!(column_type, self.fold_column::<_, true>(column, ranges), self.no_range(column))
    }

    /// As [`Self::reduce`], without the least and the largest, which takes less time.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn sum(&self, column: usize, ranges: &[Range<usize>]) -> Result<ColumnStats> {
        let column_type = self.column_type(column, ranges)?;
        with_native!(column_type, self.fold_column::<_, false>(column, ranges), self.no_range(column))
    }

    /// One bit for each of `rows`, set where the value of the bound's column is within it. A NULL is not; a NaN is
    /// above every number. SYMBOL columns compare ids.
    ///
    /// # Errors
    /// Those of [`Self::read_ranges`]; [`EngineError::Arrow`] for a column of a type that has no range, and for
    /// bounds of another type.
    pub fn filter(&self, bound: &ColumnBound, rows: Range<usize>) -> Result<BooleanBuffer> {
        let column_type = self.column_type(bound.column, std::slice::from_ref(&rows))?;
        let bounds = bounds_of(column_type, bound);
        let Some(bounds) = bounds else { return self.no_range(bound.column) };
        with_native!(
            column_type,
            self.filter_column::<_>(bound.column, &bounds, rows),
            self.no_range(bound.column)
        )
    }

    fn no_range<T>(&self, column: usize) -> Result<T> {
        let message = format!("column {column} of {} has no such range", self.path.display());
        Err(EngineError::Arrow(ArrowError::InvalidArgumentError(message)))
    }

    fn fold_column<V: Value, const RANGE: bool>(
        &self,
        column: usize,
        ranges: &[Range<usize>],
    ) -> Result<ColumnStats> {
        let column_type = self.column_type(column, ranges)?;
        let kind = StatKind::of(column_type);
        let mut total = TotalStats::empty();
        let mut values: Vec<V> = Vec::new();
        let mut decoded = Vec::new();
        let mut slots = scratch::<V, BLOCK_ROWS>();
        let usable = |plain: &PlainBlock<'_>| !RANGE || plain.is_whole();
        self.each_block(column, ranges, |_, block, wanted| {
            let rows: usize = wanted.iter().map(ExactSizeIterator::len).sum();
            let damaged = |what: Damage| self.damaged(block.offset, what.0);
            let is_whole = rows == block.rows;
            // Distances from times are read together with these, and validity beside the values.
            let alone = block.nulls == 0 && block.bytes.first() != Some(&kind::SINCE);
            let mut stats = BlockStats::default();
            let measure = match self.plain::<V>(block)?.filter(|plain| is_whole && usable(plain)) {
                Some(plain) => plain.measure::<RANGE>().map_err(damaged)?,
                None if is_whole && alone => 'measure: {
                    let packed = || match steps::sum::<V>(block.bytes, block.rows)? {
                        None => runs::sum::<V>(block.bytes, block.tables, block.rows),
                        found => Ok(found),
                    };
                    if let Some(measure) = if RANGE { None } else { packed().map_err(damaged)? } {
                        break 'measure measure;
                    }
                    let slots = first(&mut slots, block.rows).map_err(damaged)?;
                    let values = value::decode::<V>(block.bytes, block.tables, slots).map_err(damaged)?;
                    V::measure_slice::<RANGE>(values)
                }
                None => {
                    decoded.clear();
                    let start = self.first_row(block);
                    decoded.extend(wanted.iter().map(|rows| start + rows.start..start + rows.end));
                    values.clear();
                    let nulls = self.append_values(column, &decoded, &mut values)?;
                    match nulls.filter(|nulls| nulls.null_count() > 0) {
                        None => V::measure_slice::<RANGE>(&values),
                        Some(nulls) => {
                            stats.nulls = u16::try_from(nulls.null_count()).unwrap_or(u16::MAX);
                            V::measure(nulls.valid_indices().map(|row| values[row]))
                        }
                    }
                }
            };
            stats.flags = if RANGE { measure.flags } else { measure.flags & !(HAS_RANGE | HAS_NAN) };
            (stats.min, stats.max, stats.sum) = (measure.min, measure.max, measure.sum);
            total.add(kind, &TotalStats::of_block(kind, rows, &stats));
            Ok(())
        })?;
        Ok(total.to_column_stats(column_type))
    }

    fn filter_column<V: Value>(
        &self,
        column: usize,
        bounds: &Bounds,
        rows: Range<usize>,
    ) -> Result<BooleanBuffer> {
        let mut found = BooleanBufferBuilder::new(rows.len());
        let mut values: Vec<V> = Vec::new();
        self.each_block(column, std::slice::from_ref(&rows), |page, block, wanted| {
            let Some(wanted) = wanted.first() else { return Ok(()) };
            if let Some(all) = verdict::<V>(&page.stats(block.place.1)?, bounds) {
                found.append_n(wanted.len(), all);
                return Ok(());
            }
            if let Some(plain) = self.plain::<V>(block)?.filter(PlainBlock::is_whole) {
                let mut bits = [0; BLOCK_ROWS / 8];
                plain.within(bounds, &mut bits).map_err(|what| self.damaged(block.offset, what.0))?;
                found.append_packed_range(wanted.clone(), &bits);
                return Ok(());
            }
            if usize::from(block.nulls) >= block.rows {
                found.append_n(wanted.len(), false);
                return Ok(());
            }
            if block.nulls > 0 {
                // Some value stands at the place of each NULL.
                let (valid, body) = self.validity(block)?;
                let plain = PlainBlock::of::<V>(body, block.rows);
                let plain = plain.map_err(|what| self.damaged(block.offset, what.0))?;
                if let Some(plain) = plain.filter(PlainBlock::is_whole) {
                    let mut bits = [0; BLOCK_ROWS / 8];
                    plain.within(bounds, &mut bits).map_err(|what| self.damaged(block.offset, what.0))?;
                    bits.iter_mut().zip(valid).for_each(|(bits, valid)| *bits &= valid);
                    found.append_packed_range(wanted.clone(), &bits);
                    return Ok(());
                }
            }
            values.clear();
            let start = self.first_row(block);
            let here = start + wanted.start..start + wanted.end;
            let nulls = self.append_values(column, std::slice::from_ref(&here), &mut values)?;
            let held = BooleanBuffer::new(V::within(&values, bounds).into(), 0, values.len());
            match nulls.filter(|nulls| nulls.null_count() > 0) {
                None => found.append_buffer(&held),
                Some(nulls) => found.append_buffer(&(&held & nulls.inner())),
            }
            Ok(())
        })?;
        Ok(found.finish())
    }

    /// The validity of a block of which some rows are NULL, a bit a row, and its values.
    fn validity<'a>(&self, block: &Block<'a>) -> Result<(&'a [u8], &'a [u8])> {
        let split = block.bytes.split_at_checked(block.rows.div_ceil(64) * 8);
        split
            .filter(|(_, body)| !body.is_empty())
            .ok_or_else(|| self.damaged(block.offset, "a block ends before its values do"))
    }

    /// The block as plain words, where it is without NULLs and has them.
    pub(super) fn plain<'a, V: Value>(&self, block: &Block<'a>) -> Result<Option<PlainBlock<'a>>> {
        if block.nulls > 0 {
            return Ok(None);
        }
        PlainBlock::of::<V>(block.bytes, block.rows).map_err(|what| self.damaged(block.offset, what.0))
    }

    /// The first row of a block in the part.
    fn first_row(&self, block: &Block<'_>) -> usize {
        let (slice, number) = block.place;
        self.slices.get(slice).map_or(0, |slice| slice.rows.start) + number * BLOCK_ROWS
    }
}

/// Bounds in the type of a column; `None` where they are of another.
fn bounds_of(column_type: ColumnType, bound: &ColumnBound) -> Option<Bounds> {
    match StatKind::of(column_type) {
        StatKind::Nothing => None,
        StatKind::Float => {
            let real = |edge: Option<StatValue>| match edge {
                None => Some(None),
                Some(StatValue::Float(value)) => Some(Some(value)),
                Some(StatValue::Int(_)) => None,
            };
            Some(Bounds::Reals(real(bound.min)?, real(bound.max)?))
        }
        StatKind::Signed | StatKind::Unsigned => {
            let whole = |edge: Option<StatValue>, open: i128| match edge {
                None => Some(open),
                Some(StatValue::Int(value)) => Some(value),
                Some(StatValue::Float(_)) => None,
            };
            Some(Bounds::Integers(whole(bound.min, i128::MIN)?, whole(bound.max, i128::MAX)?))
        }
    }
}

/// Whether all rows of a block are within bounds, or none is, as far as its statistics tell.
fn verdict<V: Value>(stats: &BlockStats, bounds: &Bounds) -> Option<bool> {
    if stats.nulls > 0 || !stats.has(HAS_RANGE) || stats.has(HAS_NAN | NO_RANGE) {
        return None;
    }
    match bounds {
        Bounds::Integers(from, to) => {
            let signed = V::default().integer().is_some() && !is_unsigned::<V>();
            let word = |bits: u64| if signed { i128::from(bits.cast_signed()) } else { i128::from(bits) };
            let (min, max) = (word(stats.min), word(stats.max));
            match (*from <= min && max <= *to, max < *from || *to < min) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            }
        }
        Bounds::Reals(from, to) => {
            let (min, max) = (f64::from_bits(stats.min), f64::from_bits(stats.max));
            if from.is_some_and(f64::is_nan) {
                return Some(false);
            }
            let to = to.filter(|to| !to.is_nan());
            let all = from.is_none_or(|from| min >= from) && to.is_none_or(|to| max <= to);
            let none = from.is_some_and(|from| max < from) || to.is_some_and(|to| min > to);
            if all { Some(true) } else { none.then_some(false) }
        }
    }
}

fn is_unsigned<V: Value>() -> bool {
    use super::codec::plain::Lanes;
    matches!(V::PLAIN, Lanes::Narrow { signed: false } | Lanes::Wide { signed: false })
}
