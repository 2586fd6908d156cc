//! Integers: constant, frame of reference, delta; both patched, both with an optional scale.
//!
//! `value = base + scale * packed`; what does not fit the width (or is no multiple of the scale) is an
//! exception, stored whole with its place. DELTA does the same to the differences of neighbours.

use super::lane::{Lane, pack, packed_bytes, unpack};
use super::{Damage, Decoded, split};
use crate::part::BLOCK_ROWS;
use crate::part::layout::{pad, u16_at, u64_at};

const CONSTANT: u8 = 0;
const REFERENCE: u8 = 1;
const DELTA: u8 = 2;
/// Flag: a scale stands after the base.
const SCALED: u8 = 1;
/// A bit length no packed word has: marks exceptions while planning.
const NEVER_FITS: usize = 65;

/// What sampling found out about a chunk's integers.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct IntPlan {
    /// Every difference of the sample is a multiple of it; at least 1.
    pub(in crate::part) scale: u64,
    /// Whether differences of neighbours are worth trying.
    pub(in crate::part) delta: bool,
}

/// How some words are packed.
struct Packing<L> {
    base: L,
    scale: L,
    width: usize,
    exceptions: usize,
    bytes: usize,
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

/// The cheapest width for `words` above `base`.
fn plan<L: Lane>(words: &[L], base: L, scale: L) -> Packing<L> {
    let mut lengths = [0_usize; NEVER_FITS + 1];
    for &word in words {
        lengths[residual(word, base, scale).1] += 1;
    }
    let exception_bytes = 2 + L::BYTES;
    let (mut exceptions, mut best) = (0, (usize::MAX, 0, 0));
    for width in (0..=L::WIDTH).rev() {
        if width < L::WIDTH {
            exceptions += lengths[width + 1];
        } else {
            exceptions += lengths[width + 1..].iter().sum::<usize>();
        }
        let bytes = packed_bytes(width, words.len()) + exceptions * exception_bytes;
        if bytes < best.0 {
            best = (bytes, width, exceptions);
        }
    }
    let (bytes, width, exceptions) = best;
    Packing { base, scale, width, exceptions, bytes }
}

/// The cheaper of two bases: the smallest word, and one that leaves low outliers out.
fn best_plan<L: Lane>(words: &[L], scale: L) -> Packing<L> {
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

/// Appends `words` (1 to 1,024).
pub(in crate::part) fn encode<L: Lane>(words: &[L], hint: IntPlan, out: &mut Vec<u8>) {
    let first = words.first().copied().unwrap_or_default();
    if words.iter().all(|&word| word == first) {
        out.extend_from_slice(&[CONSTANT, 0, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&first.to_u64().to_le_bytes());
        return;
    }
    let scale = L::from_u64(hint.scale.max(1));
    let reference = best_plan(words, scale);
    if hint.delta {
        let deltas = differences(words);
        let delta = best_plan(&deltas[1..], scale);
        // A reference decodes faster: differences must earn their place.
        if delta.bytes + 8 < reference.bytes * 9 / 10 {
            write(DELTA, Some(first), &deltas, &delta, out);
            return;
        }
    }
    write(REFERENCE, None, words, &reference, out);
}

/// Differences of neighbours; the first is 0 and never an exception when written.
fn differences<L: Lane>(words: &[L]) -> Vec<L> {
    let mut deltas = Vec::with_capacity(words.len());
    deltas.push(L::default());
    deltas.extend(words.windows(2).map(|pair| pair[1].minus(pair[0])));
    deltas
}

fn write<L: Lane>(code: u8, first: Option<L>, words: &[L], packing: &Packing<L>, out: &mut Vec<u8>) {
    let mut packed = Vec::with_capacity(words.len());
    let (mut places, mut whole) = (Vec::new(), Vec::new());
    for (place, &word) in words.iter().enumerate() {
        let (distance, length) = packing.residual(word);
        // The place of the first difference is never read.
        if length <= packing.width || (first.is_some() && place == 0) {
            let fits = if length <= packing.width { distance } else { 0 };
            packed.push(L::from_u64(fits));
        } else {
            packed.push(L::default());
            places.extend_from_slice(&(place as u16).to_le_bytes());
            whole.extend_from_slice(&word.to_u64().to_le_bytes()[..L::BYTES]);
        }
    }
    let exceptions = u16::try_from(places.len() / 2).expect("a block has at most 1,024 values");
    debug_assert!(usize::from(exceptions) <= packing.exceptions);
    let scaled = packing.scale.to_u64() > 1;
    let [low, high] = exceptions.to_le_bytes();
    out.extend_from_slice(&[code, packing.width as u8, low, high, if scaled { SCALED } else { 0 }, 0, 0, 0]);
    out.extend_from_slice(&packing.base.to_u64().to_le_bytes());
    if scaled {
        out.extend_from_slice(&packing.scale.to_u64().to_le_bytes());
    }
    if let Some(first) = first {
        out.extend_from_slice(&first.to_u64().to_le_bytes());
    }
    pack(packing.width, &packed, out);
    out.extend_from_slice(&places);
    pad(out);
    out.extend_from_slice(&whole);
    pad(out);
}

/// Decodes exactly `words.len()` words from what [`encode`] wrote; bytes past it are padding.
pub(in crate::part) fn decode<L: Lane>(bytes: &[u8], words: &mut [L]) -> Decoded<()> {
    let (header, rest) = split(bytes, 8)?;
    let (code, width, exceptions) = (header[0], usize::from(header[1]), usize::from(u16_at(header, 2)));
    let (base, rest) = split(rest, 8)?;
    let base = L::from_u64(u64_at(base, 0));
    if code == CONSTANT {
        words.fill(base);
        return Ok(());
    }
    if code > DELTA || width > L::WIDTH || exceptions > BLOCK_ROWS || header[4] > SCALED {
        return Err(Damage("an unknown integer encoding"));
    }
    let (scale, rest) = if header[4] == SCALED {
        let (scale, rest) = split(rest, 8)?;
        (L::from_u64(u64_at(scale, 0)), rest)
    } else {
        (L::from_u64(1), rest)
    };
    let (first, rest) = if code == DELTA { split(rest, 8)? } else { (&[][..], rest) };
    let (packed, rest) = split(rest, packed_bytes(width, words.len()))?;
    if scale.to_u64() == 1 {
        unpack(width, packed, base, words)?;
    } else {
        unpack(width, packed, L::default(), words)?;
        for word in words.iter_mut() {
            *word = word.times(scale).plus(base);
        }
    }
    if exceptions > 0 {
        patch(rest, exceptions, words)?;
    }
    if code == DELTA {
        accumulate(L::from_u64(u64_at(first, 0)), words);
    }
    Ok(())
}

fn patch<L: Lane>(bytes: &[u8], exceptions: usize, words: &mut [L]) -> Decoded<()> {
    let (places, rest) = split(bytes, (exceptions * 2).next_multiple_of(8))?;
    let (whole, _) = split(rest, exceptions * L::BYTES)?;
    for (place, word) in places.chunks_exact(2).zip(whole.chunks_exact(L::BYTES)) {
        let slot =
            words.get_mut(usize::from(u16_at(place, 0))).ok_or(Damage("an exception past its block"))?;
        let mut wide = [0; 8];
        wide[..L::BYTES].copy_from_slice(word);
        *slot = L::from_u64(u64::from_le_bytes(wide));
    }
    Ok(())
}

fn accumulate<L: Lane>(first: L, words: &mut [L]) {
    let mut value = first;
    let mut rest = words.iter_mut();
    if let Some(word) = rest.next() {
        *word = first;
    }
    for word in rest {
        value = value.plus(*word);
        *word = value;
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
    IntPlan { scale, delta }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
