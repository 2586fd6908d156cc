//! min and max of numbers, dates and times, each in its own type.

use super::fold;
use super::sums::held;
use crate::operators::sample::rows::Rows;
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use std::any::Any;
use std::sync::Arc;
use tickstone_engine::part::{BlockSummary, StatValue};

/// min(x) or max(x): NaN is the largest number.
pub(in super::super) struct Extremes(Box<dyn OfType>);

impl Extremes {
    /// max(x) where `largest`, else min(x), of values of this type; `None` where these are looked at row by row.
    pub(super) fn new(largest: bool, of: &DataType) -> Option<Self> {
        macro_rules! of_type {
            ($($pattern:pat => $type:ty),* $(,)?) => {
                match of {
                    $($pattern => Box::new(Held::<$type>::new(largest, of)) as Box<dyn OfType>,)*
                    _ => return None,
                }
            };
        }
        Some(Self(of_type!(
            DataType::Int8 => Int8Type,
            DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type,
            DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type,
            DataType::UInt64 => UInt64Type,
            DataType::Float32 => Float32Type,
            DataType::Float64 => Float64Type,
            DataType::Date32 => Date32Type,
            DataType::Decimal128(..) => Decimal128Type,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        )))
    }

    pub(super) fn grow(&mut self, total: usize) {
        self.0.grow(total);
    }

    pub(super) fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        self.0.update(values, rows, counted);
    }

    /// Whether the statistics of a block say what its extremes are.
    pub(super) fn knows(&self, block: &BlockSummary) -> bool {
        held(block) == 0 || self.0.of_block(block).is_some()
    }

    pub(super) fn add_block(&mut self, group: usize, block: &BlockSummary) {
        if held(block) > 0 {
            self.0.add_block(group, block);
        }
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) -> Result<()> {
        self.0.merge(theirs.0.as_ref(), groups)
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }

    pub(super) fn size(&self) -> usize {
        self.0.size()
    }
}

/// Extremes of one type of values.
trait OfType: Any + Send {
    fn grow(&mut self, total: usize);
    fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>);
    /// What the statistics of a block say; `None` where they do not say enough.
    fn of_block(&self, block: &BlockSummary) -> Option<StatValue>;
    fn add_block(&mut self, group: usize, block: &BlockSummary);
    fn merge(&mut self, theirs: &dyn OfType, groups: &[usize]) -> Result<()>;
    fn finish(&mut self) -> ArrayRef;
    fn size(&self) -> usize;
}

struct Held<A: ArrowPrimitiveType> {
    extremes: Vec<A::Native>,
    counts: Vec<i64>,
    largest: bool,
    of: DataType,
}

impl<A: ArrowPrimitiveType<Native: Ranked>> Held<A> {
    fn new(largest: bool, of: &DataType) -> Self {
        Self { extremes: Vec::new(), counts: Vec::new(), largest, of: of.clone() }
    }

    #[inline]
    fn add(&mut self, group: usize, rows: usize, found: A::Native) {
        self.counts[group] += rows as i64;
        let held = &mut self.extremes[group];
        *held = if self.largest { held.larger(found) } else { held.smaller(found) };
    }
}

impl<A: ArrowPrimitiveType<Native: Ranked>> OfType for Held<A> {
    fn grow(&mut self, total: usize) {
        self.extremes.resize(total, if self.largest { A::Native::LEAST } else { A::Native::LARGEST });
        self.counts.resize(total, 0);
    }

    fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        let values = values.as_primitive::<A>().values();
        if rows.each(counted, |group, row| self.add(group, 1, values[row])) {
            return;
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
    }

    fn of_block(&self, block: &BlockSummary) -> Option<StatValue> {
        // Statistics pass over NaN, which is the largest value, and the least only where all are.
        let kept = if self.largest { block.stats.max } else { block.stats.min };
        match kept {
            _ if block.stats.has_nan && (self.largest || kept.is_none()) => Some(StatValue::Float(f64::NAN)),
            kept => kept.filter(|value| A::Native::of_stat(*value).is_some()),
        }
    }

    fn add_block(&mut self, group: usize, block: &BlockSummary) {
        if let Some(found) = self.of_block(block).and_then(A::Native::of_stat) {
            self.add(group, held(block), found);
        }
    }

    fn merge(&mut self, theirs: &dyn OfType, groups: &[usize]) -> Result<()> {
        let theirs: &dyn Any = theirs;
        let Some(theirs) = theirs.downcast_ref::<Self>() else {
            return internal_err!("extremes of {} and others do not go together", self.of);
        };
        for ((value, count), &group) in theirs.extremes.iter().zip(&theirs.counts).zip(groups) {
            if *count > 0 {
                self.add(group, usize::try_from(*count).unwrap_or(0), *value);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let values = std::mem::take(&mut self.extremes);
        let values = PrimitiveArray::<A>::new(values.into(), super::sums::seen(&self.counts));
        Arc::new(values.with_data_type(self.of.clone()))
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
