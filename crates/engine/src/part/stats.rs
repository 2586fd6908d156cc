//! Statistics of blocks, chunks and columns: gathered while writing, read in place.
//!
//! Invariants:
//! - `min` and `max` pass over NULL and NaN, and order -0.0 before 0.0;
//! - a statistic that cannot be exact is absent, never approximate.

use super::layout::{BLOCK_RECORD_BYTES, TOTAL_BYTES, i128_at, u16_at, u32_at, u64_at};
use super::{ColumnStats, StatValue};
use tickstone_model::ColumnType;

/// `min` and `max` are there.
pub(super) const HAS_RANGE: u16 = 1;
/// `sum` is there.
pub(super) const HAS_SUM: u16 = 2;
/// Some value is NaN.
pub(super) const HAS_NAN: u16 = 4;
/// The first row is NULL.
pub(super) const FIRST_NULL: u16 = 8;
/// The last row is NULL.
pub(super) const LAST_NULL: u16 = 16;
/// There are values whose range is not kept (wide decimals, text).
pub(super) const NO_RANGE: u16 = 32;

/// How the 64 bits of a statistic are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatKind {
    Signed,
    Unsigned,
    Float,
    /// The type keeps no range, sum, first or last.
    Nothing,
}

impl StatKind {
    pub(super) fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean
            | ColumnType::UInt8
            | ColumnType::UInt16
            | ColumnType::UInt32
            | ColumnType::UInt64
            | ColumnType::Symbol => StatKind::Unsigned,
            ColumnType::Float32 | ColumnType::Float64 => StatKind::Float,
            ColumnType::Varchar | ColumnType::Binary | ColumnType::Uuid | ColumnType::Array(_) => {
                StatKind::Nothing
            }
            _ => StatKind::Signed,
        }
    }

    /// The value that `bits` stand for.
    pub(super) fn value(self, bits: u64) -> Option<StatValue> {
        match self {
            StatKind::Signed => Some(StatValue::Int(i128::from(bits.cast_signed()))),
            StatKind::Unsigned => Some(StatValue::Int(i128::from(bits))),
            StatKind::Float => Some(StatValue::Float(f64::from_bits(bits))),
            StatKind::Nothing => None,
        }
    }

    /// Whether the value of bits `a` comes before that of `b`.
    fn before(self, a: u64, b: u64) -> bool {
        match self {
            StatKind::Signed => a.cast_signed() < b.cast_signed(),
            StatKind::Float => f64::from_bits(a).total_cmp(&f64::from_bits(b)).is_lt(),
            StatKind::Unsigned | StatKind::Nothing => a < b,
        }
    }
}

/// What is known of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockStats {
    pub(super) nulls: u16,
    pub(super) flags: u16,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) sum: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl BlockStats {
    /// Reads a record of format 1; `None` where `record` is too short.
    pub(super) fn read(record: &[u8]) -> Option<(usize, Self)> {
        if record.len() < BLOCK_RECORD_BYTES {
            return None;
        }
        let stats = Self {
            nulls: u16_at(record, 4),
            flags: u16_at(record, 6),
            min: u64_at(record, 8),
            max: u64_at(record, 16),
            sum: u64_at(record, 24),
            first: u64_at(record, 32),
            last: u64_at(record, 40),
        };
        Some((u32_at(record, 0) as usize * 8, stats))
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// What is known of a chunk, or of a column of the whole part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TotalStats {
    pub(super) rows: u64,
    pub(super) nulls: u64,
    pub(super) flags: u16,
    pub(super) min: u64,
    pub(super) max: u64,
    /// An integer, or the bits of a double in the low half.
    pub(super) sum: i128,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl TotalStats {
    /// Of no rows.
    pub(super) fn empty() -> Self {
        Self { rows: 0, nulls: 0, flags: HAS_SUM, min: 0, max: 0, sum: 0, first: 0, last: 0 }
    }

    /// Of one block of `rows` rows.
    pub(super) fn of_block(kind: StatKind, rows: usize, block: &BlockStats) -> Self {
        let sum = match kind {
            StatKind::Signed => i128::from(block.sum.cast_signed()),
            _ => i128::from(block.sum),
        };
        Self {
            rows: rows as u64,
            nulls: u64::from(block.nulls),
            flags: block.flags,
            min: block.min,
            max: block.max,
            sum,
            first: block.first,
            last: block.last,
        }
    }

    /// Adds the rows that follow.
    pub(super) fn add(&mut self, kind: StatKind, next: &TotalStats) {
        if next.rows == 0 {
            return;
        }
        if self.rows == 0 {
            self.first = next.first;
            self.flags |= next.flags & FIRST_NULL;
        }
        self.flags = (self.flags & !LAST_NULL) | (next.flags & (LAST_NULL | HAS_NAN | NO_RANGE));
        self.last = next.last;
        self.rows += next.rows;
        self.nulls += next.nulls;
        if next.flags & HAS_RANGE != 0 {
            let fresh = self.flags & HAS_RANGE == 0;
            if fresh || kind.before(next.min, self.min) {
                self.min = next.min;
            }
            if fresh || kind.before(self.max, next.max) {
                self.max = next.max;
            }
            self.flags |= HAS_RANGE;
        }
        self.add_sum(kind, next);
    }

    fn add_sum(&mut self, kind: StatKind, next: &TotalStats) {
        let both = self.flags & next.flags & HAS_SUM != 0;
        let sum = match kind {
            StatKind::Float => {
                let total = float_sum(self.sum) + float_sum(next.sum);
                Some(i128::from(total.to_bits()))
            }
            _ => self.sum.checked_add(next.sum),
        };
        match sum {
            Some(sum) if both => self.sum = sum,
            _ => {
                self.flags &= !HAS_SUM;
                self.sum = 0;
            }
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.nulls.to_le_bytes());
        out.extend_from_slice(&u64::from(self.flags).to_le_bytes());
        out.extend_from_slice(&self.min.to_le_bytes());
        out.extend_from_slice(&self.max.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
    }

    /// Reads a record; `None` where `record` is too short.
    pub(super) fn read(record: &[u8]) -> Option<Self> {
        if record.len() < TOTAL_BYTES {
            return None;
        }
        Some(Self {
            rows: u64_at(record, 0),
            nulls: u64_at(record, 8),
            flags: u16_at(record, 16),
            min: u64_at(record, 24),
            max: u64_at(record, 32),
            sum: i128_at(record, 40),
            first: u64_at(record, 56),
            last: u64_at(record, 64),
        })
    }

    /// The public form. SYMBOL ids are no values of the column, so they give no range.
    pub(super) fn to_column_stats(self, column_type: ColumnType) -> ColumnStats {
        let kind = StatKind::of(column_type);
        let ranged =
            self.flags & HAS_RANGE != 0 && self.flags & NO_RANGE == 0 && column_type != ColumnType::Symbol;
        let summed = self.flags & HAS_SUM != 0 && !matches!(column_type, ColumnType::Symbol);
        let sum = match kind {
            StatKind::Float => Some(StatValue::Float(float_sum(self.sum))),
            StatKind::Nothing => None,
            _ => Some(StatValue::Int(self.sum)),
        };
        ColumnStats {
            rows: self.rows,
            nulls: self.nulls,
            min: ranged.then(|| kind.value(self.min)).flatten(),
            max: ranged.then(|| kind.value(self.max)).flatten(),
            has_nan: self.flags & HAS_NAN != 0,
            sum: summed.then_some(sum).flatten(),
        }
    }
}

fn float_sum(bits: i128) -> f64 {
    f64::from_bits(u64::from_le_bytes(low_half(bits)))
}

fn low_half(value: i128) -> [u8; 8] {
    let bytes = value.to_le_bytes();
    let mut half = [0; 8];
    half.copy_from_slice(&bytes[..8]);
    half
}

/// A value that statistics are gathered over.
pub(super) trait Measured: Copy {
    /// Range, sum and NaN of `values`, none of which is NULL. `values` may be empty.
    fn measure(values: impl Iterator<Item = Self>) -> Measure;
    /// As [`Self::measure`], for answers and not for the file: doubles may be added up in any order.
    fn measure_all(values: &[Self]) -> Measure {
        Self::measure(values.iter().copied())
    }
    /// The bits kept for `first` and `last`, 0 where the type keeps none.
    fn stat_bits(self) -> u64;
}

/// Range, sum and flags of some values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measure {
    pub(super) flags: u16,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) sum: u64,
}

macro_rules! measured_integer {
    ($wide:ty: $($native:ty),*) => {$(
        impl Measured for $native {
            fn measure(values: impl Iterator<Item = Self>) -> Measure {
                let (mut min, mut max) = (<$native>::MAX, <$native>::MIN);
                // 1,024 values of 64 bits cannot overflow 128.
                let (mut sum, mut any) = (0_i128, false);
                for value in values {
                    min = min.min(value);
                    max = max.max(value);
                    sum += i128::from(value);
                    any = true;
                }
                let (kept, sum_flag) = <$wide>::try_from(sum).map_or((0, 0), |sum| (sum, HAS_SUM));
                let range = if any { HAS_RANGE } else { 0 };
                let (min, max) = if any { (min.stat_bits(), max.stat_bits()) } else { (0, 0) };
                Measure { flags: range | sum_flag, min, max, sum: kept as u64 }
            }

            fn stat_bits(self) -> u64 {
                <$wide>::from(self) as u64
            }
        }
    )*};
}
measured_integer!(i64: i8, i16, i32, i64);
measured_integer!(u64: u8, u16, u32, u64);

macro_rules! measured_float {
    ($($native:ty),*) => {$(
        impl Measured for $native {
            fn measure(values: impl Iterator<Item = Self>) -> Measure {
                let (mut min, mut max) = (i64::MAX, i64::MIN);
                let (mut sum, mut nan) = (0.0, false);
                for value in values {
                    let value = f64::from(value);
                    // 0.0 + -0.0 is 0.0, as everywhere a sum starts from zero.
                    sum += value;
                    if value.is_nan() {
                        nan = true;
                    } else {
                        let key = total_order(value);
                        min = min.min(key);
                        max = max.max(key);
                    }
                }
                let mut flags = HAS_SUM;
                if nan {
                    flags |= HAS_NAN;
                }
                let mut measure = Measure { flags, min: 0, max: 0, sum: sum.to_bits() };
                if min <= max {
                    measure.flags |= HAS_RANGE;
                    measure.min = from_total_order(min);
                    measure.max = from_total_order(max);
                }
                measure
            }

            #[inline(always)]
            fn measure_all(values: &[Self]) -> Measure {
                // Side by side, so that no addition waits for the one before it.
                const LANES: usize = 8;
                let (mut sums, mut any_nan) = ([0.0; LANES], false);
                let (mut least, mut most) = ([i64::MAX; LANES], [i64::MIN; LANES]);
                let (eights, rest) = values.as_chunks::<LANES>();
                for eight in eights {
                    for (lane, value) in eight.iter().enumerate() {
                        let value = f64::from(*value);
                        sums[lane] += value;
                        any_nan |= value.is_nan();
                        let key = total_order(value);
                        least[lane] = least[lane].min(if value.is_nan() { i64::MAX } else { key });
                        most[lane] = most[lane].max(if value.is_nan() { i64::MIN } else { key });
                    }
                }
                let mut last = Self::measure(rest.iter().copied());
                last.sum = (f64::from_bits(last.sum) + sums.into_iter().sum::<f64>()).to_bits();
                let (mut min, mut max) = (i64::MAX, i64::MIN);
                if last.flags & HAS_RANGE != 0 {
                    (min, max) = (total_order(f64::from_bits(last.min)), total_order(f64::from_bits(last.max)));
                }
                min = least.into_iter().fold(min, i64::min);
                max = most.into_iter().fold(max, i64::max);
                if min <= max {
                    last.flags |= HAS_RANGE;
                    (last.min, last.max) = (from_total_order(min), from_total_order(max));
                }
                last.flags |= if any_nan { HAS_NAN } else { 0 };
                last
            }

            fn stat_bits(self) -> u64 {
                f64::from(self).to_bits()
            }
        }
    )*};
}
measured_float!(f32, f64);

/// An integer that orders as the double does, -0.0 before 0.0.
fn total_order(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

fn from_total_order(key: i64) -> u64 {
    (key ^ ((key >> 63).cast_unsigned() >> 1).cast_signed()).cast_unsigned()
}

impl Measured for i128 {
    /// Decimals: kept where every value (and the sum) fits in 64 bits.
    fn measure(values: impl Iterator<Item = Self>) -> Measure {
        let (mut min, mut max, mut sum, mut any) = (i128::MAX, i128::MIN, Some(0_i128), false);
        for value in values {
            min = min.min(value);
            max = max.max(value);
            sum = sum.and_then(|sum| sum.checked_add(value));
            any = true;
        }
        let mut measure = Measure::default();
        if let Some(Ok(sum)) = sum.map(i64::try_from) {
            measure.sum = sum.cast_unsigned();
            measure.flags |= HAS_SUM;
        }
        match (i64::try_from(min), i64::try_from(max)) {
            _ if !any => {}
            (Ok(min), Ok(max)) => {
                measure.min = min.cast_unsigned();
                measure.max = max.cast_unsigned();
                measure.flags |= HAS_RANGE;
            }
            _ => measure.flags |= NO_RANGE,
        }
        measure
    }

    fn stat_bits(self) -> u64 {
        i64::try_from(self).map_or(0, i64::cast_unsigned)
    }
}

impl Measured for [u8; 16] {
    fn measure(_: impl Iterator<Item = Self>) -> Measure {
        Measure { flags: NO_RANGE, ..Measure::default() }
    }

    fn stat_bits(self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
