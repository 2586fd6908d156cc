//! Integers: constant, frame of reference, delta; both patched, both with an optional scale.
//!
//! `value = base + scale * packed`; what does not fit the width (or is no multiple of the scale) is an
//! exception: its place, and its distance from the base packed at a width of its own. So a few far values cost
//! themselves only, and a mixture of small and large ones costs little more than each by itself. DELTA does the
//! same to the differences of neighbours.

use super::lane::{Finish, Lane, Same, pack, packed_bytes, unpack};
use super::marks::{ASTRAY, put_marked};
use super::simd::{self, Kernel, PADDING, STEP, Simd};
use super::slots::{Slot, fill, first, padded, scratch};
use super::{Damage, Decoded, split};
use crate::part::layout::{u16_at, u64_at};
use crate::part::{BLOCK_ROWS, Density};

const CONSTANT: u8 = 0;
const REFERENCE: u8 = 1;
const DELTA: u8 = 2;
/// Flag: a scale stands after the base.
const SCALED: u8 = 1;
/// Flag: the places of exceptions are one bit a word, else numbers of [`PLACE_BITS`].
const MARKED: u8 = 2;
/// Bits of a place in a block.
pub(in crate::part) const PLACE_BITS: usize = 10;
/// Packed words decode faster than differences, which must earn their place.
pub(super) const DELTA_PERCENT: usize = 90;
/// As [`DELTA_PERCENT`] in fast parts: half as fast again without differences, at an eighth more room (quotes).
const FAST_DELTA_PERCENT: usize = 40;
/// A bit length no packed word has: marks exceptions while planning.
const NEVER_FITS: usize = 65;

/// What sampling found out about a chunk's integers.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct IntPlan {
    /// Every difference of the sample is a multiple of it; at least 1.
    pub(in crate::part) scale: u64,
    /// Differences of neighbours are packed where they take less than so many hundredths of what the words take;
    /// 0: never.
    pub(in crate::part) delta_percent: usize,
    /// Whether neighbours are related at all, so that their differences may be coded.
    pub(in crate::part) related: bool,
}

impl IntPlan {
    /// The plan for parts of a density.
    pub(super) fn suit(self, density: Density) -> Self {
        let most = if density == Density::Fast { FAST_DELTA_PERCENT } else { DELTA_PERCENT };
        Self { delta_percent: self.delta_percent.min(most), ..self }
    }
}

/// How some words are packed.
pub(super) struct Packing<L> {
    pub(super) base: L,
    pub(super) scale: L,
    pub(super) width: usize,
    exceptions: usize,
    /// Bits of an exception.
    pub(super) wide: usize,
    pub(super) bytes: usize,
}

impl<L: Lane> Packing<L> {
    /// What is packed for `word`, and the bits it needs.
    fn residual(&self, word: L) -> (u64, usize) {
        residual(word, self.base, self.scale)
    }
}

fn residual<L: Lane>(word: L, base: L, scale: L) -> (u64, usize) {
    let mut distance = word.minus(base).to_u64();
    let step = scale.to_u64();
    if step > 1 {
        if !distance.is_multiple_of(step) {
            return (0, NEVER_FITS);
        }
        distance /= step;
    }
    (distance, 64 - distance.leading_zeros() as usize)
}

/// Bytes of the exceptions of `count` words: places, then distances of `wide` bits.
fn exception_bytes(count: usize, exceptions: usize, wide: usize) -> usize {
    let places = packed_bytes(PLACE_BITS, exceptions).min(packed_bytes(1, count));
    places + packed_bytes(wide, exceptions)
}

/// The cheapest width for `words` above `base`.
fn plan<L: Lane>(words: &[L], base: L, scale: L) -> Packing<L> {
    let mut lengths = [0_usize; NEVER_FITS + 1];
    let mut every_bit = 0;
    if scale.to_u64() > 1 {
        for &word in words {
            every_bit |= word.minus(base).to_u64();
            lengths[residual(word, base, scale).1] += 1;
        }
    } else {
        for &word in words {
            let distance = word.minus(base).to_u64();
            every_bit |= distance;
            lengths[64 - distance.leading_zeros() as usize] += 1;
        }
    }
    let wide = 64 - every_bit.leading_zeros() as usize;
    let mut exceptions = lengths[L::WIDTH + 1..].iter().sum::<usize>();
    let mut best = (usize::MAX, 0, 0);
    let mut least = usize::MAX;
    for width in (0..=L::WIDTH).rev() {
        if width < L::WIDTH {
            exceptions += lengths[width + 1];
        }
        let bytes = packed_bytes(width, words.len()) + exception_bytes(words.len(), exceptions, wide);
        // Exceptions decode more slowly: each must save a little.
        if bytes + exceptions / 4 < least {
            least = bytes + exceptions / 4;
            best = (bytes, width, exceptions);
        }
    }
    let (bytes, width, exceptions) = best;
    Packing { base, scale, width, exceptions, wide, bytes }
}

/// The cheaper of two bases: the smallest word, and one that leaves low outliers out.
pub(super) fn best_plan<L: Lane>(words: &[L], scale: L) -> Packing<L> {
    let smallest = words.iter().copied().min_by_key(|word| word.to_i64()).unwrap_or_default();
    let full = plan(words, smallest, scale);
    if full.width < 8 || words.len() < 64 {
        return full;
    }
    let mut sample: Vec<L> = words.iter().copied().step_by(words.len() / 32).collect();
    sample.sort_unstable_by_key(|word| word.to_i64());
    let low = sample[2];
    let spread = sample[sample.len() - 3].minus(low).to_u64();
    if 64 - spread.leading_zeros() as usize + 1 >= full.width {
        return full;
    }
    // Words a little below the third smallest of the sample still fit.
    let base = low.minus(L::from_u64((spread / 2).min(low.minus(smallest).to_u64())));
    let base = if scale.to_u64() > 1 {
        base.plus(L::from_u64(low.minus(base).to_u64() % scale.to_u64()))
    } else {
        base
    };
    let trimmed = plan(words, base, scale);
    if trimmed.bytes < full.bytes { trimmed } else { full }
}

/// Differences of neighbours; the first is 0 and never an exception when written.
pub(super) fn differences<L: Lane>(words: &[L]) -> Vec<L> {
    let mut deltas = Vec::with_capacity(words.len());
    deltas.push(L::default());
    deltas.extend(words.windows(2).map(|pair| pair[1].minus(pair[0])));
    deltas
}

/// Appends the packed words, then places and distances of exceptions; returns how many those are, and whether their
/// places are one bit a word. Of differences the first is never read.
pub(super) fn write_payload<L: Lane>(
    differences: bool,
    words: &[L],
    packing: &Packing<L>,
    out: &mut Vec<u8>,
) -> (usize, bool) {
    let mut packed = Vec::with_capacity(words.len());
    let (mut places, mut distances) = (Vec::new(), Vec::new());
    // Nothing to look for in most blocks.
    let plain = packing.exceptions == 0 && packing.scale.to_u64() <= 1 && !differences;
    if plain {
        packed.extend(words.iter().map(|&word| word.minus(packing.base)));
    }
    for (place, &word) in words.iter().enumerate().filter(|_| !plain) {
        let (distance, length) = packing.residual(word);
        if length <= packing.width || (differences && place == 0) {
            let fits = if length <= packing.width { distance } else { 0 };
            packed.push(L::from_u64(fits));
        } else {
            packed.push(L::default());
            places.push(place as u32);
            distances.push(word.minus(packing.base));
        }
    }
    debug_assert!(places.len() <= packing.exceptions);
    let marked = packed_bytes(1, words.len()) < packed_bytes(PLACE_BITS, places.len());
    pack(packing.width, &packed, out);
    if marked {
        let mut marks = vec![0_u8; packed_bytes(1, words.len())];
        for &place in &places {
            marks[place as usize / 8] |= 1 << (place % 8);
        }
        out.extend_from_slice(&marks);
    } else {
        pack(PLACE_BITS, &places, out);
    }
    pack(packing.wide, &distances, out);
    (places.len(), marked)
}

/// Bytes of what [`write_payload`] appends.
pub(super) fn payload_bytes(
    count: usize,
    width: usize,
    exceptions: usize,
    wide: usize,
    marked: bool,
) -> usize {
    let places = if marked { packed_bytes(1, count) } else { packed_bytes(PLACE_BITS, exceptions) };
    packed_bytes(width, count) + places + packed_bytes(wide, exceptions)
}

/// A word from what was packed for it, then what becomes of it.
#[derive(Debug, Clone, Copy)]
struct Above<L, F> {
    base: L,
    finish: F,
}

impl<L: Lane, F: Finish<L>> Finish<L> for Above<L, F> {
    type Value = F::Value;

    #[inline(always)]
    fn finish(self, word: L) -> F::Value {
        self.finish.finish(word.plus(self.base))
    }
}

/// As [`Above`], where what was packed is scaled.
#[derive(Debug, Clone, Copy)]
struct Scaled<L, F> {
    base: L,
    scale: L,
    finish: F,
}

impl<L: Lane, F: Finish<L>> Finish<L> for Scaled<L, F> {
    type Value = F::Value;

    #[inline(always)]
    fn finish(self, word: L) -> F::Value {
        self.finish.finish(word.times(self.scale).plus(self.base))
    }
}

/// A body's header, and what follows it.
pub(super) struct Body<'a, L> {
    pub(super) base: L,
    pub(super) scale: L,
    pub(super) width: usize,
    pub(super) exceptions: usize,
    /// Bits of an exception.
    pub(super) wide: usize,
    pub(super) marked: bool,
    /// The packed words, and all that comes after them.
    pub(super) rest: &'a [u8],
}

/// Decodes exactly `slots.len()` words from what [`encode`] wrote; bytes past it are padding.
pub(in crate::part) fn decode<'s, L: Lane, F: Finish<L>>(
    bytes: &[u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
) -> Decoded<&'s mut [F::Value]> {
    let (header, rest) = split(bytes, 8)?;
    let (code, width, exceptions) = (header[0], usize::from(header[1]), usize::from(u16_at(header, 2)));
    let (base, rest) = split(rest, 8)?;
    let base = L::from_u64(u64_at(base, 0));
    if code == CONSTANT {
        return Ok(fill(slots, finish.finish(base)));
    }
    if code > DELTA || exceptions > slots.len() || slots.len() > BLOCK_ROWS || header[4] > SCALED | MARKED {
        return Err(Damage("an unknown integer encoding"));
    }
    let (scale, rest) = if header[4] & SCALED != 0 {
        let (scale, rest) = split(rest, 8)?;
        (L::from_u64(u64_at(scale, 0)), rest)
    } else {
        (L::from_u64(1), rest)
    };
    let (wide, marked) = (usize::from(header[5]), header[4] & MARKED != 0);
    let body = Body { base, scale, width, exceptions, wide, marked, rest };
    if code == REFERENCE {
        return body.decode(finish, slots);
    }
    let (start, rest) = split(rest, 8)?;
    let mut steps = scratch::<L, BLOCK_ROWS>();
    let steps = Body { rest, ..body }.decode(Same, first(&mut steps, slots.len())?)?;
    simd::run(Accumulate { start: L::from_u64(u64_at(start, 0)), steps, finish, slots })
}

impl<L: Lane> Body<'_, L> {
    pub(super) fn decode<F: Finish<L>>(
        self,
        finish: F,
        slots: &mut [Slot<F::Value>],
    ) -> Decoded<&mut [F::Value]> {
        let Self { base, scale, width, .. } = self;
        let (packed, rest) = split(self.rest, packed_bytes(width, slots.len()))?;
        let above = Above { base, finish };
        let values = if scale.to_u64() == 1 {
            unpack(width, packed, above, slots)?
        } else {
            unpack(width, packed, Scaled { base, scale, finish }, slots)?
        };
        if self.exceptions > 0 {
            self.patch(rest, above, values)?;
        }
        Ok(values)
    }

    /// Puts the exceptions in their places.
    fn patch<F: Finish<L>>(&self, bytes: &[u8], above: F, values: &mut [F::Value]) -> Decoded<()> {
        let count = self.exceptions;
        let place_bytes =
            if self.marked { packed_bytes(1, values.len()) } else { packed_bytes(PLACE_BITS, count) };
        let (places, rest) = split(bytes, place_bytes)?;
        let (distances, _) = split(rest, packed_bytes(self.wide, count))?;
        let mut found = scratch::<F::Value, { BLOCK_ROWS + PADDING }>();
        let found = padded(first(&mut found, count + PADDING)?, PADDING, |slots| {
            unpack(self.wide, distances, above, slots)
        })?;
        if self.marked {
            return put_marked(places, count, found, values);
        }
        let mut numbers = scratch::<u32, BLOCK_ROWS>();
        let numbers = unpack::<u32, _>(PLACE_BITS, places, Same, first(&mut numbers, count)?)?;
        for (&place, &value) in numbers.iter().zip(found.iter()) {
            *values.get_mut(place as usize).ok_or(ASTRAY)? = value;
        }
        Ok(())
    }
}

/// Sums up steps from the second on, onto `start`.
pub(super) struct Accumulate<'a, 's, L, F: Finish<L>> {
    pub(super) start: L,
    pub(super) steps: &'a mut [L],
    pub(super) finish: F,
    pub(super) slots: &'s mut [Slot<F::Value>],
}

impl<'s, L: Lane, F: Finish<L>> Kernel for Accumulate<'_, 's, L, F> {
    type Output = Decoded<&'s mut [F::Value]>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { start, steps, finish, slots } = self;
        if let Some(step) = steps.first_mut() {
            *step = start;
        }
        let mut sum = L::default();
        let (full, last) = steps.as_chunks_mut::<STEP>();
        let (targets, rest) = slots.as_chunks_mut::<STEP>();
        for (words, target) in full.iter_mut().zip(targets) {
            sum = L::sums(simd, sum, words);
            for (slot, &word) in target.iter_mut().zip(words.iter()) {
                slot.write(finish.finish(word));
            }
        }
        let mut words = [L::default(); STEP];
        words[..last.len()].copy_from_slice(last);
        L::sums(simd, sum, &mut words);
        for (slot, &word) in rest.iter_mut().zip(&words) {
            slot.write(finish.finish(word));
        }
        if steps.len() != slots.len() {
            return Err(Damage("differences that are not as many as values"));
        }
        // SAFETY: there are as many steps as slots, so the full chunks pair up, and the rest is a chunk at most.
        Ok(unsafe { slots.assume_init_mut() })
    }
}

/// What a sample (stretches of neighbours) says about a chunk.
pub(in crate::part) fn sample<L: Lane>(stretches: &[Vec<L>]) -> IntPlan {
    let mut scale = 0;
    for stretch in stretches {
        for pair in stretch.windows(2) {
            scale = gcd(scale, pair[1].to_i64().abs_diff(pair[0].to_i64()));
            if scale == 1 {
                break;
            }
        }
    }
    if scale > 1 {
        // Stretches must agree with each other, too.
        let firsts: Vec<i64> = stretches.iter().filter_map(|s| s.first()).map(|w| w.to_i64()).collect();
        for pair in firsts.windows(2) {
            scale = gcd(scale, pair[1].abs_diff(pair[0]));
        }
    }
    let fits = u64::MAX >> (64 - L::WIDTH);
    let scale = if scale == 0 || scale > fits { 1 } else { scale };
    let plain = L::from_u64(scale);
    let delta = stretches.iter().any(|stretch| {
        stretch.len() > 2
            && best_plan(&differences(stretch)[1..], plain).bytes + 8 < best_plan(stretch, plain).bytes
    });
    IntPlan { scale, delta_percent: if delta { DELTA_PERCENT } else { 0 }, related: true }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
