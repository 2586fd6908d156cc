//! Timestamps packed as Facebook's Gorilla packs them: by how much each step differs from the one before.
//!
//! ```text
//! first (i64)  second (i64)  0              as the step before
//!                            10    7 bits   -64..=63
//!                            110   9 bits   -256..=255
//!                            1110  12 bits  -2048..=2047
//!                            1111  32 bits  any other
//! ```
//! Bits are filled from the lowest of each byte on, numbers are in two's complement.

use super::read::{Read, Reader};

/// Bits of the prefix and of the number, by how many ones the prefix begins with.
const SHAPES: [(u32, u32); 5] = [(1, 0), (2, 7), (3, 9), (4, 12), (4, 32)];

/// Reads `count` timestamps, which may not be more than eight times the bytes that are left.
pub(super) fn read_packed(reader: &mut Reader<'_>, count: usize) -> Read<Vec<i64>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count.min(2) {
        times.push(reader.i64()?);
    }
    let &[first, second] = times.as_slice() else { return Ok(times) };
    let (bits, bits_end) = (reader.rest(), reader.left() * 8);
    let (mut last, mut step, mut at) = (second, second.wrapping_sub(first), 0);
    for _ in 2..count {
        let word = word_at(bits, at);
        let (prefix, width) = SHAPES[word.trailing_ones().min(4) as usize];
        at += (prefix + width) as usize;
        if at > bits_end {
            return Err(reader.malformed("packed timestamps end before all of them came"));
        }
        if width > 0 {
            let number = (word >> prefix) << (64 - width);
            step = step.wrapping_add(number.cast_signed() >> (64 - width));
        }
        last = last.wrapping_add(step);
        times.push(last);
    }
    reader.take(at.div_ceil(8))?;
    Ok(times)
}

/// At least 57 bits from bit `at` on, zeros behind the end.
#[inline]
fn word_at(bits: &[u8], at: usize) -> u64 {
    let rest = bits.get(at / 8..).unwrap_or_default();
    let word = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        word
    });
    u64::from_le_bytes(word) >> (at % 8)
}
