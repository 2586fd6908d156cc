//! Bit packing of 32- and 64-bit words.
//!
//! A full block (1,024 words) is packed in the FastLanes layout, which unpacks without a dependency
//! from one word to the next; a shorter one word by word, least significant bit first.

use super::{Damage, Decoded};
use crate::part::BLOCK_ROWS;
use fastlanes::{BitPacking, FoR};
use std::fmt::Debug;

#[cfg(target_endian = "big")]
compile_error!("parts are little-endian and read in place");

/// An unsigned word that integers are packed as; signed ones as two's complement.
pub(in crate::part) trait Lane: Copy + Eq + Default + Debug + Send + 'static {
    /// Bits of the word.
    const WIDTH: usize;
    /// Bytes of the word.
    const BYTES: usize = Self::WIDTH / 8;

    fn from_u64(word: u64) -> Self;
    fn to_u64(self) -> u64;
    /// As a signed number: what "smallest" and "largest" mean.
    fn to_i64(self) -> i64;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;

    /// Packs a full block at `width` bits.
    fn pack_block(width: usize, words: &[Self; BLOCK_ROWS], out: &mut Vec<u8>);
    /// Unpacks a full block and adds `base` to each word.
    fn unpack_block(width: usize, packed: &[u8], base: Self, words: &mut [Self; BLOCK_ROWS]) -> Decoded<()>;
}

macro_rules! lane {
    ($word:ty, $signed:ty) => {
        impl Lane for $word {
            const WIDTH: usize = <$word>::BITS as usize;

            fn from_u64(word: u64) -> Self {
                word as $word
            }

            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            fn to_i64(self) -> i64 {
                i64::from(self.cast_signed())
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
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

            fn unpack_block(
                width: usize,
                packed: &[u8],
                base: Self,
                words: &mut [Self; BLOCK_ROWS],
            ) -> Decoded<()> {
                if width > Self::WIDTH || packed.len() != width * BLOCK_ROWS / 8 {
                    return Err(Damage("a packed block of a wrong size"));
                }
                let mut copy = [0 as $word; BLOCK_ROWS];
                // SAFETY: every bit pattern is a valid word, and the target is little-endian (above).
                let (before, aligned, after) = unsafe { packed.align_to::<$word>() };
                let source = if before.is_empty() && after.is_empty() {
                    aligned
                } else {
                    for (word, bytes) in copy.iter_mut().zip(packed.chunks_exact(Self::BYTES)) {
                        *word = bytes.try_into().map_or(0, <$word>::from_le_bytes);
                    }
                    &copy[..packed.len() / Self::BYTES]
                };
                // SAFETY: `source` has 1,024 * width / BITS words (checked above), `words` 1,024, and
                // width <= BITS.
                unsafe { <$word>::unchecked_unfor_pack(width, source, base, words) };
                Ok(())
            }
        }
    };
}
lane!(u32, i32);
lane!(u64, i64);

/// Lends `count` words (at most 1,024), cleared: a small array for few, as clearing costs.
pub(in crate::part) fn with_words<L: Lane>(
    count: usize,
    work: impl FnOnce(&mut [L]) -> Decoded<()>,
) -> Decoded<()> {
    match count {
        ..129 => work(&mut [L::default(); 128][..count]),
        129..=BLOCK_ROWS => work(&mut [L::default(); BLOCK_ROWS][..count]),
        _ => Err(Damage("a block of too many values")),
    }
}

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

/// Unpacks what [`pack`] wrote and adds `base` to each word; `packed` is exactly those bytes.
pub(in crate::part) fn unpack<L: Lane>(width: usize, packed: &[u8], base: L, words: &mut [L]) -> Decoded<()> {
    if let Ok(block) = <&mut [L; BLOCK_ROWS]>::try_from(&mut *words) {
        return L::unpack_block(width, packed, base, block);
    }
    if width > L::WIDTH || packed.len() != packed_bytes(width, words.len()) {
        return Err(Damage("packed values of a wrong size"));
    }
    if width == 0 {
        words.fill(base);
        return Ok(());
    }
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    if width > SHIFTED_BITS {
        unpack_wide(width, packed, mask, base, words);
        return Ok(());
    }
    // Every word lies within eight bytes: loads that do not depend on each other. The last ones may reach
    // past the end and go the long way.
    let near_end = words.len().min(packed.len().saturating_sub(7) * 8 / width);
    let (near, far) = words.split_at_mut(near_end);
    for (index, word) in near.iter_mut().enumerate() {
        let at = index * width;
        let bytes = packed.get(at / 8..at / 8 + 8).and_then(|bytes| bytes.try_into().ok());
        *word = L::from_u64(bytes.map_or(0, u64::from_le_bytes) >> (at % 8) & mask).plus(base);
    }
    for (index, word) in far.iter_mut().enumerate() {
        let at = (near_end + index) * width;
        let mut bytes = [0; 8];
        let rest = packed.get(at / 8..).unwrap_or_default();
        let held = rest.len().min(8);
        bytes[..held].copy_from_slice(&rest[..held]);
        *word = L::from_u64(u64::from_le_bytes(bytes) >> (at % 8) & mask).plus(base);
    }
    Ok(())
}

/// Widest words of which each lies within eight bytes, wherever it begins.
const SHIFTED_BITS: usize = 57;

fn unpack_wide<L: Lane>(width: usize, packed: &[u8], mask: u64, base: L, words: &mut [L]) {
    let mut source = packed.chunks_exact(8).map(|c| c.try_into().map_or(0, u64::from_le_bytes));
    let (mut pending, mut left) = (0_u128, 0);
    for word in words {
        if left < width {
            pending |= u128::from(source.next().unwrap_or(0)) << left;
            left += 64;
        }
        *word = L::from_u64(low_word(pending) & mask).plus(base);
        pending >>= width;
        left -= width;
    }
}

fn low_word(value: u128) -> u64 {
    (value & u128::from(u64::MAX)) as u64
}
