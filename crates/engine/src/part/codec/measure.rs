//! Sum, least and largest of decoded values, by the processor's vectors: for answers, not for the file, so that doubles
//! are added up side by side.

use super::simd::{Kernel, Simd};
use super::slots::Plain;
use crate::part::stats::{HAS_RANGE, HAS_SUM, Measure, Measured};

/// Values that are taken at once.
const LANES: usize = 32;

/// An integer of at most 64 bits.
pub(super) trait Whole: Plain + Ord + Measured {
    const LEAST: Self;
    const MOST: Self;
    /// The bits past the low 32, and those: sums of a block of either fit in 64 bits.
    fn halves(self) -> (i64, u64);
    /// A sum that fits the statistic of the type.
    fn sum_bits(sum: i128) -> Option<u64>;
}

macro_rules! whole {
    ($wide:ty: $($native:ty),*) => {$(
        impl Whole for $native {
            const LEAST: Self = <$native>::MIN;
            const MOST: Self = <$native>::MAX;

            #[inline(always)]
            fn halves(self) -> (i64, u64) {
                let wide = <$wide>::from(self);
                ((wide >> 32) as i64, wide as u64 & 0xffff_ffff)
            }

            fn sum_bits(sum: i128) -> Option<u64> {
                <$wide>::try_from(sum).ok().map(|sum| sum as u64)
            }
        }
    )*};
}
whole!(i64: i8, i16, i32, i64);
whole!(u64: u8, u16, u32, u64);

/// Measures integers (up to 2^31 of them); with `RANGE` their least and largest, too.
pub(super) struct Wholes<'a, V, const RANGE: bool>(pub(super) &'a [V]);

impl<V: Whole, const RANGE: bool> Kernel for Wholes<'_, V, RANGE> {
    type Output = Measure;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Measure {
        let (mut highs, mut lows) = ([0_i64; LANES], [0_u64; LANES]);
        let (mut least, mut most) = ([V::MOST; LANES], [V::LEAST; LANES]);
        let (many, rest) = self.0.as_chunks::<LANES>();
        for some in many {
            for (lane, value) in some.iter().enumerate() {
                let (high, low) = value.halves();
                highs[lane] = highs[lane].wrapping_add(high);
                lows[lane] = lows[lane].wrapping_add(low);
                if RANGE {
                    least[lane] = least[lane].min(*value);
                    most[lane] = most[lane].max(*value);
                }
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            let (high, low) = value.halves();
            highs[lane] = highs[lane].wrapping_add(high);
            lows[lane] = lows[lane].wrapping_add(low);
            least[lane] = least[lane].min(*value);
            most[lane] = most[lane].max(*value);
        }
        let high: i128 = highs.into_iter().map(i128::from).sum();
        let low: i128 = lows.into_iter().map(i128::from).sum();
        let sum = V::sum_bits((high << 32) + low);
        let mut measure = Measure { sum: sum.unwrap_or(0), ..Measure::default() };
        measure.flags |= if sum.is_some() { HAS_SUM } else { 0 };
        if RANGE && !self.0.is_empty() {
            measure.flags |= HAS_RANGE;
            measure.min = least.into_iter().min().map_or(0, V::stat_bits);
            measure.max = most.into_iter().max().map_or(0, V::stat_bits);
        }
        measure
    }
}

/// Measures reals.
pub(super) struct Reals<'a, V, const RANGE: bool>(pub(super) &'a [V]);

impl<V: Measured + Into<f64>, const RANGE: bool> Kernel for Reals<'_, V, RANGE> {
    type Output = Measure;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Measure {
        if RANGE {
            return V::measure_all(self.0);
        }
        let mut sums = [0.0_f64; LANES];
        let (many, rest) = self.0.as_chunks::<LANES>();
        for some in many {
            for (sum, value) in sums.iter_mut().zip(some) {
                *sum += (*value).into();
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += (*value).into();
        }
        let sum: f64 = sums.into_iter().sum();
        Measure { flags: HAS_SUM, sum: (0.0 + sum).to_bits(), ..Measure::default() }
    }
}
