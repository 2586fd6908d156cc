//! Sums of words that are stored as differences of neighbours, without summing those up word by word: the difference of row
//! `j` is in all words from there on, so it counts `rows - j` times.

use super::ints::PLACE_BITS;
use super::lane::{Lane, STRETCH, Same, unpack, unpack_stretch};
use super::plain::{Lanes, summed};
use super::simd::{self, Kernel, ROW_BYTES, Simd};
use super::slots::{first, scratch};
use super::value::Value;
use super::words::{self, Packed};
use super::{Damage, Decoded, alp, bit, kind};
use crate::part::BLOCK_ROWS;
use crate::part::stats::Measure;
use std::marker::PhantomData;

/// Widest differences that are summed so: each times 1,024, a thousand of them, in 64 bits.
const MOST_BITS: usize = 42;
/// Sums that are kept side by side.
const SUMS: usize = 16;

/// The sum of a whole block of values that are stored as differences; `None` where they are not, or may wrap around.
pub(in crate::part) fn sum<V: Value>(body: &[u8], rows: usize) -> Decoded<Option<Measure>> {
    let Some((&code, words)) = body.split_first() else { return Ok(None) };
    Ok(match (V::PLAIN, code) {
        (Lanes::Narrow { signed: true }, kind::WORDS) => {
            sum_of::<u32>(words, rows)?.map(|sum| summed(None, sum))
        }
        (Lanes::Wide { signed: true }, kind::WORDS) => {
            sum_of::<u64>(words, rows)?.map(|sum| summed(None, sum))
        }
        (Lanes::Decimals, kind::DECIMALS) => match alp::without_exceptions(words)? {
            Some((powers, words)) => sum_of::<u64>(words, rows)?.map(|sum| summed(Some(powers), sum)),
            None => None,
        },
        _ => None,
    })
}

fn sum_of<L: Lane>(bytes: &[u8], rows: usize) -> Decoded<Option<i128>> {
    if rows != BLOCK_ROWS {
        return Ok(None);
    }
    let Some((start, found)) = words::steps::<L>(bytes, rows)? else { return Ok(None) };
    let Packed { base, scale, width, words: packed, .. } = found;
    if width > MOST_BITS {
        return Ok(None);
    }
    let count = rows as i128;
    let (far, far_sizes) = far::<L>(&found, rows)?;
    let (base, scale, start) = (i128::from(base), i128::from(scale), i128::from(start));
    // No word on the way is further from 0 than this.
    let reach = start.abs() + count * (base.abs() + (scale << width)) + far_sizes;
    if reach >= 1 << (L::WIDTH - 2) {
        return Ok(None);
    }
    let weighted = match width {
        0 => 0,
        _ => i128::from(simd::run(Weighted::<L> { packed, width, lane: PhantomData })?),
    };
    Ok(Some(count * start + base * (count * (count - 1) / 2) + scale * weighted + far))
}

/// What the exceptions add to the sum beyond the base, and the sum of their sizes.
fn far<L: Lane>(found: &Packed<'_>, rows: usize) -> Decoded<(i128, i128)> {
    let (count, wide, packed) = found.exceptions;
    if count == 0 {
        return Ok((0, 0));
    }
    let base = L::from_u64(found.base.cast_unsigned());
    let mut slots = scratch::<L, BLOCK_ROWS>();
    let distances = unpack::<L, _>(wide, packed, Same, first(&mut slots, count)?)?;
    let mut slots = scratch::<u32, BLOCK_ROWS>();
    let places = first(&mut slots, count)?;
    let places: &[u32] = if found.marked {
        let mut marked = (0..rows).filter(|&row| bit(found.places, row));
        for place in places.iter_mut() {
            place.write(marked.next().ok_or(ASTRAY)? as u32);
        }
        // SAFETY: each was written just now.
        unsafe { places.assume_init_mut() }
    } else {
        unpack::<u32, _>(PLACE_BITS, found.places, Same, places)?
    };
    let (mut sum, mut sizes) = (0, 0);
    for (place, distance) in places.iter().zip(distances.iter()) {
        let step = i128::from(distance.plus(base).to_i64());
        sum += (rows as i128 - i128::from(*place)) * (step - i128::from(found.base));
        sizes += step.abs();
    }
    Ok((sum, sizes))
}

const ASTRAY: Damage = Damage("fewer exceptions are marked than there are");

/// The sum of packed differences, each as often as it counts; that of the first row, which stands for nothing, not.
struct Weighted<'a, L> {
    packed: &'a [u8],
    width: usize,
    lane: PhantomData<L>,
}

impl<L: Lane> Kernel for Weighted<'_, L> {
    type Output = Decoded<u64>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let (packed, _) = self.packed.as_chunks::<ROW_BYTES>();
        if packed.len() != self.width {
            return Err(Damage("packed values of a wrong size"));
        }
        let mut sums = [0_u64; SUMS];
        let mut words = [L::default(); STRETCH];
        for number in 0..BLOCK_ROWS / STRETCH {
            unpack_stretch(simd, self.width, packed, number, &mut words);
            if number == 0 {
                words[0] = L::default();
            }
            for (sixteen, some) in words.as_chunks::<SUMS>().0.iter().enumerate() {
                let left = (BLOCK_ROWS - number * STRETCH - sixteen * SUMS) as u64;
                for (lane, (sum, word)) in sums.iter_mut().zip(some).enumerate() {
                    *sum = sum.wrapping_add(word.to_u64().wrapping_mul(left - lane as u64));
                }
            }
        }
        Ok(sums.into_iter().fold(0, u64::wrapping_add))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ints::{DELTA_PERCENT, IntPlan};
    use super::super::tests::{few, widths};
    use super::*;
    use proptest::prelude::*;

    fn check(start: i64, steps: &[i64], scale: u64) -> bool {
        let mut word = start;
        let written: Vec<u64> = std::iter::once(start)
            .chain(steps.iter().map(|step| {
                word = word.wrapping_add(*step);
                word
            }))
            .map(i64::cast_unsigned)
            .collect();
        let mut bytes = Vec::new();
        words::encode(
            &written,
            IntPlan { scale, delta_percent: DELTA_PERCENT, related: true },
            None,
            &mut bytes,
        );
        let sum: i128 = written.iter().map(|word| i128::from(word.cast_signed())).sum();
        let mut found = None;
        simd::with_each_level(|level| {
            found = sum_of::<u64>(&bytes, written.len()).unwrap();
            assert!(found.is_none_or(|found| found == sum), "{level:?}: {found:?} for {sum}");
        });
        found.is_some()
    }

    #[test]
    fn differences_of_every_width_and_far_ones() {
        for width in widths(43).filter(|width| *width > 0) {
            let step = |row: u64| {
                let random = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width);
                random.cast_signed() - (1 << (width - 1))
            };
            let steps: Vec<i64> = (1..BLOCK_ROWS as u64).map(step).collect();
            check(-7, &steps, 1);
            for far in few([1 << 44, -(1 << 44), 1 << 20]) {
                let mut jumping = steps.clone();
                (0..1_023).step_by(97).for_each(|row| jumping[row] = far);
                check(1 << 40, &jumping, 1);
            }
        }
        let wave: Vec<i64> = (1..BLOCK_ROWS as i64).map(|row| row % 7 + 90).collect();
        assert!(check(1_000_000, &wave, 1), "small differences are summed so");
        let mut jump = wave.clone();
        jump[500] = 900_000;
        assert!(check(1_000_000, &jump, 1), "with a far one, too");
        let hundreds: Vec<i64> = wave.iter().map(|step| step * 100).collect();
        assert!(check(1_000_000, &hundreds, 100));
        assert!(!check(i64::MAX - 100, &wave, 1), "near the end words might wrap");
    }

    proptest! {
        #[test]
        fn any_differences(start: i64, steps in prop::collection::vec(-300_i64..300, 1_023), wide: i64) {
            check(start, &steps, 1);
            let mut far = steps;
            far[17] = wide;
            check(start / 4, &far, 1);
        }
    }
}
