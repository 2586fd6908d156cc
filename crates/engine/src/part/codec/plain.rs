//! Work on packed words as they lie: sums, ranges, comparisons and single words without decoding a block to memory.
//!
//! It is for what most blocks are: a constant, or a whole block of `base + scale * packed`. Where there are exceptions
//! only the sum is found so. Other blocks are not [`Plain`], and are decoded first. Each kernel gives what decoding
//! and a plain loop give.

use super::alp::{self, AlpPlan};
use super::lane::{Lane, STRETCH, Same, packed_word, unpack, unpack_beside, unpack_stretch};
use super::simd::{self, Kernel, ROW_BYTES, Simd};
use super::slots::{first, scratch};
use super::value::Value;
use super::{Damage, Decoded, kind, words};
use crate::part::BLOCK_ROWS;
use crate::part::stats::{HAS_RANGE, HAS_SUM, Measure};
use crate::search::gallop;
use std::marker::PhantomData;
use std::ops::Range;

/// Words up to so many bits: 1,024 of them add up in 64.
const MOST_BITS: usize = 53;
/// Sums that are kept side by side.
const SUMS: usize = 16;
/// Words side by side that an edge is sought in first, in groups of as many as there are lanes.
const NEAR_GROUPS: usize = 2;

/// What is true of the words of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::part) struct Folded {
    pub(in crate::part) sum: i128,
    pub(in crate::part) min: i64,
    pub(in crate::part) max: i64,
}

/// Words that are `base + scale * packed`, none of which wraps around.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct Plain<'a, L> {
    base: i64,
    /// At least 1.
    scale: i64,
    width: usize,
    rows: usize,
    packed: &'a [u8],
    /// Count, width and packed distances of the exceptions, in whose places 0 is packed.
    exceptions: (usize, usize, &'a [u8]),
    lane: PhantomData<L>,
}

impl<'a, L: Lane> Plain<'a, L> {
    /// The words of `rows` rows at the front of `bytes`; `None` where they must be decoded.
    pub(super) fn of(bytes: &'a [u8], rows: usize) -> Decoded<Option<Self>> {
        let Some(found) = words::packed::<L>(bytes, rows)? else { return Ok(None) };
        let words::Packed { base, scale, width, words: packed, exceptions, .. } = found;
        let most = i64::MAX >> (64 - L::WIDTH);
        let span = i128::from(scale) * ((1_i128 << width.min(MOST_BITS)) - 1);
        let fits = width <= MOST_BITS && scale > 0 && i128::from(base) + span <= i128::from(most);
        let whole = width == 0 || rows == BLOCK_ROWS;
        let scale = i64::try_from(scale).unwrap_or(0);
        let found = Self { base, scale, width, rows, packed, exceptions, lane: PhantomData };
        Ok((fits && whole && scale > 0).then_some(found))
    }

    /// Whether there are no exceptions: without, all can be asked of the words, else only their sum.
    fn is_whole(&self) -> bool {
        self.exceptions.0 == 0
    }

    /// What the exceptions are more than the base, all together.
    fn far(&self) -> Decoded<i128> {
        let (count, wide, packed) = self.exceptions;
        let mut slots = scratch::<L, BLOCK_ROWS>();
        let found = unpack::<L, _>(wide, packed, Same, first(&mut slots, count)?)?;
        let base = L::from_u64(self.base.cast_unsigned());
        let word = |distance: &L| i128::from(distance.plus(base).to_i64());
        Ok(found.iter().map(|distance| word(distance) - i128::from(self.base)).sum())
    }

    /// The sum of all words; with `RANGE` the least and the largest of them, else the base twice.
    pub(in crate::part) fn fold<const RANGE: bool>(&self) -> Decoded<Folded> {
        let (sum, min, max) = if self.width == 0 {
            (0, 0, 0)
        } else {
            simd::run(Fold::<L, RANGE> { packed: self.packed, width: self.width, lane: PhantomData })?
        };
        let word = |packed: u64| self.base + self.scale * packed.cast_signed();
        let far = if self.is_whole() { 0 } else { self.far()? };
        let sum = i128::from(self.base) * self.rows as i128 + i128::from(self.scale) * i128::from(sum) + far;
        let (min, max) = if RANGE { (word(min), word(max)) } else { (self.base, self.base) };
        Ok(Folded { sum, min, max })
    }

    /// One word.
    #[inline]
    pub(in crate::part) fn get(&self, row: usize) -> i64 {
        match self.width {
            0 => self.base,
            width => self.base + self.scale * packed_word::<L>(width, self.packed, row).cast_signed(),
        }
    }

    /// The first of some places, whose words ascend, that is at or past `word`; their end where there is none.
    ///
    /// Words that lie side by side are compared at once; which of those are meant is sought by the last of them.
    #[inline]
    pub(in crate::part) fn lower_bound(&self, places: Range<usize>, word: i64) -> usize {
        if word <= self.base || places.is_empty() {
            return places.start;
        }
        // In steps above the base: a word is before this one where it has fewer.
        let steps = word.wrapping_sub(self.base).cast_unsigned().div_ceil(self.scale.cast_unsigned());
        if self.width == 0 || steps > u64::MAX >> (64 - self.width) {
            return places.end;
        }
        let lanes = BLOCK_ROWS / L::WIDTH;
        let end = |group: usize| places.end.min((group + 1) * lanes);
        let groups = places.start / lanes..places.end.div_ceil(lanes);
        let is_before = |group| packed_word::<L>(self.width, self.packed, end(group) - 1) < steps;
        let group = gallop(groups.clone(), NEAR_GROUPS, is_before);
        if group == groups.end {
            return places.end;
        }
        let start = places.start.max(group * lanes);
        let wanted = u32::MAX >> (32 - (end(group) - start));
        let before = simd::run(Before::<L> {
            packed: self.packed,
            width: self.width,
            row: group * lanes,
            steps,
            lane: PhantomData,
        });
        start + (before >> (start % lanes) & wanted).count_ones() as usize
    }

    /// Sets the bits of the rows whose words are `from..=to`, least significant first; those of others are 0.
    pub(in crate::part) fn within(&self, from: i64, to: i64, bits: &mut [u8; BLOCK_ROWS / 8]) -> Decoded<()> {
        bits.fill(0);
        // In steps above the base: the first one inside, and how many after it are.
        let steps = |word: i64| i128::from(word) - i128::from(self.base);
        let scale = i128::from(self.scale);
        let first = (steps(from).max(0) + scale - 1) / scale;
        let last = steps(to).div_euclid(scale).min((1 << self.width) - 1);
        let (Ok(first), Ok(span)) = (u64::try_from(first), u64::try_from(last - first)) else {
            return Ok(());
        };
        if self.width == 0 {
            let whole = self.rows / 8;
            bits[..whole].fill(u8::MAX);
            if let Some(byte) = bits.get_mut(whole) {
                *byte = !(u8::MAX << (self.rows % 8));
            }
            return Ok(());
        }
        simd::run(Within::<L> {
            packed: self.packed,
            width: self.width,
            first,
            span,
            bits,
            lane: PhantomData,
        })
    }
}

/// What a sum of words says of the values: whole numbers, or decimals of these powers. A sum past the statistic's bits is
/// known to be missing.
pub(in crate::part) fn summed(powers: Option<AlpPlan>, sum: i128) -> Measure {
    let bits = match powers {
        None => i64::try_from(sum).ok().map(i64::cast_unsigned),
        Some(powers) => Some(powers.sum(sum).to_bits()),
    };
    Measure { flags: bits.map_or(0, |_| HAS_SUM), sum: bits.unwrap_or(0), ..Measure::default() }
}

/// Which words a type is stored as, and whether those below 0 are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::part) enum Lanes {
    /// None that are plain.
    None,
    Narrow {
        signed: bool,
    },
    Wide {
        signed: bool,
    },
    Decimals,
}

/// A block whose words are plain.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) enum PlainBlock<'a> {
    Narrow(Plain<'a, u32>),
    Wide(Plain<'a, u64>),
    Decimals(AlpPlan, Plain<'a, u64>),
}

impl<'a> PlainBlock<'a> {
    /// The block of `rows` values whose body is `body`; `None` where it must be decoded.
    pub(in crate::part) fn of<V: Value>(body: &'a [u8], rows: usize) -> Decoded<Option<Self>> {
        let Some((&code, words)) = body.split_first() else { return Ok(None) };
        Ok(match (V::PLAIN, code) {
            (Lanes::Narrow { signed }, kind::WORDS) => {
                let plain = Plain::of(words, rows)?;
                plain
                    .filter(|plain: &Plain<'_, u32>| signed || (plain.base >= 0 && plain.is_whole()))
                    .map(Self::Narrow)
            }
            (Lanes::Wide { signed }, kind::WORDS) => {
                let plain = Plain::of(words, rows)?;
                plain
                    .filter(|plain: &Plain<'_, u64>| signed || (plain.base >= 0 && plain.is_whole()))
                    .map(Self::Wide)
            }
            (Lanes::Decimals, kind::DECIMALS) => match alp::without_exceptions(words)? {
                Some((powers, words)) => Plain::of(words, rows)?.map(|plain| Self::Decimals(powers, plain)),
                None => None,
            },
            _ => None,
        })
    }

    /// The words of 64 bits that are its values, where more than the sum can be asked of them.
    pub(in crate::part) fn wide(self) -> Option<Plain<'a, u64>> {
        match self {
            Self::Wide(plain) => Some(plain).filter(Plain::is_whole),
            _ => None,
        }
    }

    /// Whether more than the sum can be asked of it.
    pub(in crate::part) fn is_whole(&self) -> bool {
        match self {
            Self::Narrow(plain) => plain.is_whole(),
            Self::Wide(plain) | Self::Decimals(_, plain) => plain.is_whole(),
        }
    }

    /// Sum of the values, and with `RANGE` the least and the largest, as statistics have them.
    pub(in crate::part) fn measure<const RANGE: bool>(&self) -> Decoded<Measure> {
        let (folded, powers) = match self {
            Self::Narrow(plain) => (plain.fold::<RANGE>()?, None),
            Self::Wide(plain) => (plain.fold::<RANGE>()?, None),
            Self::Decimals(powers, plain) => (plain.fold::<RANGE>()?, Some(powers)),
        };
        let bits = |word: i64| match powers {
            None => word.cast_unsigned(),
            Some(powers) => powers.decimal(word as f64).to_bits(),
        };
        let mut measure = summed(powers.copied(), folded.sum);
        if RANGE {
            (measure.min, measure.max) = (bits(folded.min), bits(folded.max));
            measure.flags |= HAS_RANGE;
        }
        Ok(measure)
    }

    /// One value.
    #[inline]
    pub(in crate::part) fn get<V: Value>(&self, row: usize) -> V {
        match self {
            Self::Narrow(plain) => V::of_plain(plain.get(row), None),
            Self::Wide(plain) => V::of_plain(plain.get(row), None),
            Self::Decimals(powers, plain) => V::of_plain(plain.get(row), Some(*powers)),
        }
    }

    /// Sets the bits of the rows whose values are within bounds, both inclusive; those of others are 0.
    pub(in crate::part) fn within(&self, bounds: &Bounds, bits: &mut [u8; BLOCK_ROWS / 8]) -> Decoded<()> {
        let whole = |word: i128| word.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        match (self, bounds) {
            (Self::Narrow(plain), Bounds::Integers(from, to)) if from <= to => {
                plain.within(whole(*from), whole(*to), bits)
            }
            (Self::Wide(plain), Bounds::Integers(from, to)) if from <= to => {
                plain.within(whole(*from), whole(*to), bits)
            }
            (Self::Decimals(powers, plain), Bounds::Reals(from, to)) if !from.is_some_and(f64::is_nan) => {
                let least = from.map_or(i64::MIN, |from| powers.least_from(from));
                // No NaN is plain, so one as the upper bound lets all pass.
                let to = to.filter(|to| !to.is_nan() && *to < f64::INFINITY);
                let most = to.map_or(i64::MAX, |to| powers.least_from(to.next_up()) - 1);
                plain.within(least, most, bits)
            }
            _ => {
                bits.fill(0);
                Ok(())
            }
        }
    }
}

/// Bounds on values, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::part) enum Bounds {
    Integers(i128, i128),
    /// `None` for no bound. NaN is above every number.
    Reals(Option<f64>, Option<f64>),
}

fn rows_of(packed: &[u8], width: usize) -> Decoded<&[[u8; ROW_BYTES]]> {
    let (rows, rest) = packed.as_chunks::<ROW_BYTES>();
    let sound = rows.len() == width && rest.is_empty();
    sound.then_some(rows).ok_or(Damage("packed values of a wrong size"))
}

/// Sum, least and largest of the packed words of a block.
struct Fold<'a, L, const RANGE: bool> {
    packed: &'a [u8],
    width: usize,
    lane: PhantomData<L>,
}

impl<L: Lane, const RANGE: bool> Kernel for Fold<'_, L, RANGE> {
    type Output = Decoded<(u64, u64, u64)>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let packed = rows_of(self.packed, self.width)?;
        let mut sums = [0_u64; SUMS];
        let (mut least, mut most) = ([u64::MAX; SUMS], [0_u64; SUMS]);
        let mut words = [L::default(); STRETCH];
        for first in 0..BLOCK_ROWS / STRETCH {
            unpack_stretch(simd, self.width, packed, first, &mut words);
            for some in words.as_chunks::<SUMS>().0 {
                for (sum, word) in sums.iter_mut().zip(some) {
                    *sum = sum.wrapping_add(word.to_u64());
                }
                if RANGE {
                    for ((least, most), word) in least.iter_mut().zip(&mut most).zip(some) {
                        *least = (*least).min(word.to_u64());
                        *most = (*most).max(word.to_u64());
                    }
                }
            }
        }
        let least = least.into_iter().min().unwrap_or(0);
        let most = most.into_iter().max().unwrap_or(0);
        Ok((sums.into_iter().fold(0, u64::wrapping_add), least, most))
    }
}

/// A bit for each of the words side by side from `row` on: whether it is less than `steps`.
struct Before<'a, L> {
    packed: &'a [u8],
    width: usize,
    row: usize,
    steps: u64,
    lane: PhantomData<L>,
}

impl<L: Lane> Kernel for Before<'_, L> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u32 {
        let (packed, _) = self.packed.as_chunks::<ROW_BYTES>();
        let mut words = [L::default(); ROW_BYTES / 4];
        unpack_beside(simd, self.width, packed, self.row, &mut words);
        let before = |bits, (lane, word): (usize, &L)| bits | u32::from(word.to_u64() < self.steps) << lane;
        words.iter().take(BLOCK_ROWS / L::WIDTH).enumerate().fold(0, before)
    }
}

/// Which packed words of a block are at most `span` above `first`.
struct Within<'a, L> {
    packed: &'a [u8],
    width: usize,
    first: u64,
    span: u64,
    bits: &'a mut [u8; BLOCK_ROWS / 8],
    lane: PhantomData<L>,
}

impl<L: Lane> Kernel for Within<'_, L> {
    type Output = Decoded<()>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let packed = rows_of(self.packed, self.width)?;
        // Steps are no more than the width says, so they fit the lane.
        let (offset, span) = (L::from_u64(self.first), L::from_u64(self.span));
        let mut words = [L::default(); STRETCH];
        for (first, bytes) in self.bits.as_chunks_mut::<{ STRETCH / 8 }>().0.iter_mut().enumerate() {
            unpack_stretch(simd, self.width, packed, first, &mut words);
            for (byte, eight) in bytes.iter_mut().zip(words.as_chunks::<8>().0) {
                for (bit, word) in eight.iter().enumerate() {
                    *byte |= u8::from(word.minus(offset).to_u64() <= span.to_u64()) << bit;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
