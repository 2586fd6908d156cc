//! Bit packing of 32- and 64-bit words.
//!
//! A full block (1,024 words) is packed in the FastLanes layout, which unpacks without a dependency
//! from one word to the next; a shorter one word by word, least significant bit first.

use super::simd::{self, Kernel, ROW_BYTES, SHIFTED_BITS, STEP, Simd};
use super::slots::{Plain, Slot, fill, write_all};
use super::{Damage, Decoded};
use crate::part::BLOCK_ROWS;
use fastlanes::BitPacking;
use std::fmt::Debug;
use std::marker::PhantomData;

#[cfg(target_endian = "big")]
compile_error!("parts are little-endian and read in place");

/// An unsigned word that integers are packed as; signed ones as two's complement.
pub(in crate::part) trait Lane: Plain + Eq + Debug {
    /// Bits of the word.
    const WIDTH: usize;

    fn from_u64(word: u64) -> Self;
    /// The little-endian word at the front of `bytes`; 0 where there is none.
    fn read(bytes: &[u8]) -> u64;
    fn to_u64(self) -> u64;
    /// As a signed number: what "smallest" and "largest" mean.
    fn to_i64(self) -> i64;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;

    /// See [`Simd::unpack_row_u64`]; writes the first words of `words`, one for each lane.
    fn unpack_row<S: Simd>(
        simd: S,
        packed: [&[u8; ROW_BYTES]; 2],
        shift: usize,
        mask: Self,
        words: &mut [Self],
    );
    /// Makes each word the sum of itself, those before it and `before`; returns the last.
    fn sums<S: Simd>(simd: S, before: Self, words: &mut [Self; STEP]) -> Self;

    /// Packs a full block at `width` bits.
    fn pack_block(width: usize, words: &[Self; BLOCK_ROWS], out: &mut Vec<u8>);
}

macro_rules! lane {
    ($word:ty, $sums:ident, $unpack_row:ident) => {
        impl Lane for $word {
            const WIDTH: usize = <$word>::BITS as usize;

            #[inline(always)]
            fn from_u64(word: u64) -> Self {
                word as $word
            }

            #[inline(always)]
            fn read(bytes: &[u8]) -> u64 {
                bytes.first_chunk().map_or(0, |word| u64::from(<$word>::from_le_bytes(*word)))
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self.cast_signed())
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn unpack_row<S: Simd>(
                simd: S,
                packed: [&[u8; ROW_BYTES]; 2],
                shift: usize,
                mask: Self,
                words: &mut [Self],
            ) {
                if let Some(words) = words.first_chunk_mut() {
                    simd.$unpack_row(packed, shift, mask, words);
                }
            }

            #[inline(always)]
            fn sums<S: Simd>(simd: S, before: Self, words: &mut [Self; STEP]) -> Self {
                simd.$sums(before, words)
            }

            fn pack_block(width: usize, words: &[Self; BLOCK_ROWS], out: &mut Vec<u8>) {
                assert!(width <= Self::WIDTH, "a width is counted from the words themselves");
                let mut packed = [0 as $word; BLOCK_ROWS];
                let packed = &mut packed[..width * BLOCK_ROWS / Self::WIDTH];
                // SAFETY: `words` has 1,024 words, `packed` 1,024 * width / BITS of them, width <= BITS.
                unsafe { <$word>::unchecked_pack(width, words, packed) };
                for word in packed {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
    };
}
lane!(u32, sums_u32, unpack_row_u32);
lane!(u64, sums_u64, unpack_row_u64);

/// Bytes that `count` words of `width` bits take.
pub(in crate::part) fn packed_bytes(width: usize, count: usize) -> usize {
    (width * count).div_ceil(64) * 8
}

/// Appends `words` (at most 1,024) packed at `width` bits; higher bits of a word must be 0.
pub(in crate::part) fn pack<L: Lane>(width: usize, words: &[L], out: &mut Vec<u8>) {
    if let Ok(block) = <&[L; BLOCK_ROWS]>::try_from(words) {
        return L::pack_block(width, block, out);
    }
    let (mut pending, mut used) = (0_u128, 0);
    for word in words {
        pending |= u128::from(word.to_u64()) << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&low_word(pending).to_le_bytes());
            pending >>= 64;
            used -= 64;
        }
    }
    if used > 0 {
        out.extend_from_slice(&low_word(pending).to_le_bytes());
    }
}

/// What becomes of a word once it is unpacked: a value of the column, made while the word is in a register.
pub(in crate::part) trait Finish<L>: Copy {
    type Value: Plain;
    /// Must be `#[inline(always)]`: it becomes part of a kernel's loop.
    fn finish(self, word: L) -> Self::Value;
}

/// The word itself.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct Same;

impl<L: Lane> Finish<L> for Same {
    type Value = L;

    #[inline(always)]
    fn finish(self, word: L) -> L {
        word
    }
}

/// Unpacks what [`pack`] wrote; `packed` is exactly those bytes.
pub(in crate::part) fn unpack<'s, L: Lane, F: Finish<L>>(
    width: usize,
    packed: &[u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
) -> Decoded<&'s mut [F::Value]> {
    if width > L::WIDTH || slots.len() > BLOCK_ROWS || packed.len() != packed_bytes(width, slots.len()) {
        return Err(Damage("packed values of a wrong size"));
    }
    match (width, slots.len()) {
        (0, _) => Ok(fill(slots, finish.finish(L::default()))),
        (_, BLOCK_ROWS) => simd::run(UnpackBlock { width, packed, finish, slots, lane: PhantomData }),
        (..=SHIFTED_BITS, _) => simd::run(UnpackShort { width, packed, finish, slots, lane: PhantomData }),
        _ => unpack_wide(width, packed, finish, slots),
    }
}

/// Values that every eighth row makes, side by side.
pub(super) const STRETCH: usize = 128;

/// Where in a stretch the words of each of its rows begin, in sixteens (docs/formats/part.md).
const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// Unpacks the stretch numbered `first` of a block that has as many rows of bytes as words have bits (1 to the lane's):
/// every eighth row makes a stretch.
#[inline(always)]
pub(super) fn unpack_stretch<L: Lane, S: Simd>(
    simd: S,
    width: usize,
    packed: &[[u8; ROW_BYTES]],
    first: usize,
    words: &mut [L; STRETCH],
) {
    let mask = L::from_u64(u64::MAX >> (64 - width));
    for (eight, &place) in ORDER.iter().enumerate().take(L::WIDTH / 8) {
        let at = (eight * 8 + first) * width;
        // Where a value lies in one word both are that word, and what comes in from the right is masked.
        let (low, high) = (&packed[at / L::WIDTH], &packed[(at + width - 1) / L::WIDTH]);
        L::unpack_row(simd, [low, high], at % L::WIDTH, mask, &mut words[place * 16..]);
    }
}

/// Unpacks the words that lie side by side with that of `row`, the first of them, as many as there are lanes: zeros past
/// the packed bytes.
#[inline(always)]
pub(super) fn unpack_beside<L: Lane, S: Simd>(
    simd: S,
    width: usize,
    packed: &[[u8; ROW_BYTES]],
    row: usize,
    words: &mut [L],
) {
    let at = bit_of::<L>(width, row);
    let bytes = |bit: usize| packed.get(bit / L::WIDTH).unwrap_or(&[0; ROW_BYTES]);
    let mask = L::from_u64(u64::MAX >> (64 - width));
    L::unpack_row(simd, [bytes(at), bytes(at + width - 1)], at % L::WIDTH, mask, words);
}

/// Where in its lane the word of a row begins.
#[inline(always)]
fn bit_of<L: Lane>(width: usize, row: usize) -> usize {
    let lanes = BLOCK_ROWS / L::WIDTH;
    // The order is its own reverse: the place in its stretch says which eighth row it is in.
    let eight = ORDER[row % STRETCH / lanes * lanes / 16 % ORDER.len()];
    (eight * 8 + row / STRETCH) * width
}

/// One word of a block in the FastLanes layout, of `width` (1 to the lane's) bits; 0 past the packed bytes.
#[inline]
pub(super) fn packed_word<L: Lane>(width: usize, packed: &[u8], row: usize) -> u64 {
    let lanes = BLOCK_ROWS / L::WIDTH;
    let bit = bit_of::<L>(width, row);
    let shift = bit % L::WIDTH;
    let word = |number: usize| {
        let at = (number * lanes + row % lanes) * (L::WIDTH / 8);
        packed.get(at..).map_or(0, L::read)
    };
    let low = word(bit / L::WIDTH) >> shift;
    let high = if shift + width > L::WIDTH { word(bit / L::WIDTH + 1) << (L::WIDTH - shift) } else { 0 };
    (low | high) & (u64::MAX >> (64 - width))
}

/// Unpacks a block in the FastLanes layout: all lanes of a row have the same shift and lie side by side.
struct UnpackBlock<'a, 's, L, F: Finish<L>> {
    width: usize,
    packed: &'a [u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
    lane: PhantomData<L>,
}

impl<'s, L: Lane, F: Finish<L>> Kernel for UnpackBlock<'_, 's, L, F> {
    type Output = Decoded<&'s mut [F::Value]>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { width, packed, finish, slots, .. } = self;
        let (packed, _) = packed.as_chunks::<ROW_BYTES>();
        if packed.len() != width || slots.len() != BLOCK_ROWS || width == 0 || width > L::WIDTH {
            return Err(Damage("packed values of a wrong size"));
        }
        // Through memory, so that finishing is a loop of its own.
        let mut words = [L::default(); STRETCH];
        for (first, target) in slots.as_chunks_mut::<STRETCH>().0.iter_mut().enumerate() {
            unpack_stretch(simd, width, packed, first, &mut words);
            for (slot, &word) in target.iter_mut().zip(&words) {
                slot.write(finish.finish(word));
            }
        }
        // SAFETY: the stretches are the whole block, of 1,024 values (above).
        Ok(unsafe { slots.assume_init_mut() })
    }
}

/// Unpacks words that stand one after the other.
struct UnpackShort<'a, 's, L, F: Finish<L>> {
    width: usize,
    packed: &'a [u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
    lane: PhantomData<L>,
}

impl<'s, L: Lane, F: Finish<L>> Kernel for UnpackShort<'_, 's, L, F> {
    type Output = Decoded<&'s mut [F::Value]>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { width, packed, finish, slots, .. } = self;
        let mask = u64::MAX >> (64 - width);
        let mut words = [0; STEP];
        for (step, target) in slots.chunks_mut(STEP).enumerate() {
            let rest = packed.get(step * STEP / 8 * width..).unwrap_or_default();
            simd.unpack_step(width, rest, target.len(), &mut words);
            for (slot, &word) in target.iter_mut().zip(&words) {
                slot.write(finish.finish(L::from_u64(word & mask)));
            }
        }
        // SAFETY: the chunks are all of the slots, and a chunk is no longer than `words`.
        Ok(unsafe { slots.assume_init_mut() })
    }
}

/// Unpacks words of more than [`SHIFTED_BITS`] bits: mostly few exceptions, which are far from all else.
fn unpack_wide<'s, L: Lane, F: Finish<L>>(
    width: usize,
    packed: &[u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
) -> Decoded<&'s mut [F::Value]> {
    let (packed, _) = packed.as_chunks::<8>();
    let mask = u64::MAX >> (64 - width);
    let word = |index: usize| packed.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let values = (0..slots.len()).map(|index| {
        let at = index * width;
        let (right, left) = ((at % 64) as u32, (64 - at % 64) as u32);
        // As in a block: where a value lies in one word, what comes in from the right is masked.
        let value = word(at / 64) >> right | word((at + width - 1) / 64).wrapping_shl(left);
        finish.finish(L::from_u64(value & mask))
    });
    write_all(slots, values)
}

fn low_word(value: u128) -> u64 {
    (value & u128::from(u64::MAX)) as u64
}
