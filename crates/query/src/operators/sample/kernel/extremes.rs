//! min and max of numbers, dates and times, each in its own type.

use super::sums::{held, seen};
use super::{Batch, Blocks, Kernel, alike, fold, of_type, unfit, values};
use datafusion::arrow::array::{ArrayRef, PrimitiveArray};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::Result;
use std::sync::Arc;
use tickstone_engine::part::{BlockSummary, StatValue};

/// max(x) where `largest`, else min(x), of values of this type; `None` where these are looked at row by row.
pub(super) fn kernel(of: &DataType, largest: bool) -> Option<Box<dyn Kernel>> {
    of_type!(of, Extremes::new(of, largest))
}

/// min(x) or max(x): NaN is the largest number.
struct Extremes<A: ArrowPrimitiveType> {
    extremes: Vec<A::Native>,
    counts: Vec<i64>,
    largest: bool,
    of: DataType,
}

impl<A: ArrowPrimitiveType<Native: Ranked>> Extremes<A> {
    fn new(of: &DataType, largest: bool) -> Self {
        Self { extremes: Vec::new(), counts: Vec::new(), largest, of: of.clone() }
    }

    #[inline]
    fn add(&mut self, group: usize, rows: usize, found: A::Native) {
        self.counts[group] += rows as i64;
        let held = &mut self.extremes[group];
        *held = if self.largest { held.larger(found) } else { held.smaller(found) };
    }

    /// What the statistics of a block say; `None` where they do not say enough.
    fn of_block(&self, block: &BlockSummary) -> Option<A::Native> {
        // Statistics pass over NaN, which is the largest value, and the least only where all are.
        let kept = if self.largest { block.stats.max } else { block.stats.min };
        let is_nan = block.stats.has_nan && (self.largest || kept.is_none());
        A::Native::of_stat(if is_nan { StatValue::Float(f64::NAN) } else { kept? })
    }
}

impl<A: ArrowPrimitiveType<Native: Ranked>> Kernel for Extremes<A> {
    fn grow(&mut self, total: usize) {
        self.extremes.resize(total, if self.largest { A::Native::LEAST } else { A::Native::LARGEST });
        self.counts.resize(total, 0);
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [column] = batch.arguments()?;
        let (values, rows, counted) = (values::<A>(column)?, batch.rows, batch.counted());
        let counted = counted.as_ref();
        if rows.each(counted, |group, row| self.add(group, 1, values[row])) {
            return Ok(());
        }
        // Told apart outside the loop over runs, so that each has its own fold.
        if self.largest {
            rows.runs(counted, |group, rows| {
                let found =
                    fold::lanes(&values[rows.clone()], A::Native::LEAST, Ranked::larger, Ranked::larger);
                self.add(group, rows.len(), found);
            });
        } else {
            rows.runs(counted, |group, rows| {
                let values = &values[rows.clone()];
                let found = fold::lanes(values, A::Native::LARGEST, Ranked::smaller, Ranked::smaller);
                self.add(group, rows.len(), found);
            });
        }
        Ok(())
    }

    fn takes_blocks(&self) -> bool {
        true
    }

    fn wants_range(&self) -> Option<bool> {
        Some(true)
    }

    fn block_suffices(&self, blocks: &Blocks<'_>) -> bool {
        matches!(blocks, [Some(block), None] if held(block) == 0 || self.of_block(block).is_some())
    }

    fn update_block(&mut self, group: usize, blocks: &Blocks<'_>) -> Result<()> {
        let [Some(block), _] = blocks else { return unfit(self, "no block") };
        if held(block) > 0 {
            let Some(found) = self.of_block(block) else { return unfit(self, "a block without extremes") };
            self.add(group, held(block), found);
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let theirs = alike::<Self>(other)?;
        for ((value, count), &group) in theirs.extremes.iter().zip(&theirs.counts).zip(groups) {
            if *count > 0 {
                self.add(group, usize::try_from(*count).unwrap_or(0), *value);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let values = std::mem::take(&mut self.extremes);
        let values = PrimitiveArray::<A>::new(values.into(), seen(&self.counts));
        Ok(Arc::new(values.with_data_type(self.of.clone())))
    }

    fn size(&self) -> usize {
        self.extremes.capacity() * size_of::<A::Native>() + self.counts.capacity() * size_of::<i64>()
    }
}

/// Values that have an order.
trait Ranked: Copy {
    /// No value is smaller.
    const LEAST: Self;
    /// No value is larger.
    const LARGEST: Self;

    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn of_stat(value: StatValue) -> Option<Self>;
}

macro_rules! ranked_integers {
    ($($native:ty),*) => {$(
        impl Ranked for $native {
            const LEAST: Self = <$native>::MIN;
            const LARGEST: Self = <$native>::MAX;

            #[inline]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }

            fn of_stat(value: StatValue) -> Option<Self> {
                match value {
                    StatValue::Int(value) => Self::try_from(value).ok(),
                    StatValue::Float(_) => None,
                }
            }
        }
    )*};
}

macro_rules! ranked_floats {
    ($($native:ty),*) => {$(
        impl Ranked for $native {
            const LEAST: Self = <$native>::NEG_INFINITY;
            const LARGEST: Self = <$native>::NAN;

            #[inline]
            fn larger(self, other: Self) -> Self {
                if other > self || other.is_nan() { other } else { self }
            }

            #[inline]
            fn smaller(self, other: Self) -> Self {
                if other < self || self.is_nan() { other } else { self }
            }

            fn of_stat(value: StatValue) -> Option<Self> {
                match value {
                    // Statistics of FLOATs are FLOATs.
                    StatValue::Float(value) => Some(value as $native),
                    StatValue::Int(_) => None,
                }
            }
        }
    )*};
}

ranked_integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
ranked_floats!(f32, f64);
