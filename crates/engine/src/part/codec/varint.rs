//! Numbers of as many bytes as they need: seven bits a byte, least significant first, the top bit says that more
//! follow. Signed ones are stored with the sign as the lowest bit.

use super::{Damage, Decoded};

/// Appends a number.
pub(in crate::part) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
pub(in crate::part) fn put_signed(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Takes one byte off the front of `bytes`.
pub(in crate::part) fn take_byte(bytes: &mut &[u8]) -> Decoded<u8> {
    let (first, rest) = bytes.split_first().ok_or(SHORT)?;
    *bytes = rest;
    Ok(*first)
}

/// Takes `count` bytes off the front of `bytes`.
pub(in crate::part) fn take_bytes<'a>(bytes: &mut &'a [u8], count: usize) -> Decoded<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(SHORT)?;
    *bytes = rest;
    Ok(taken)
}

/// Takes a 16-bit number of two bytes.
pub(in crate::part) fn take_u16(bytes: &mut &[u8]) -> Decoded<usize> {
    let taken = take_bytes(bytes, 2)?;
    Ok(usize::from(taken[0]) | usize::from(taken[1]) << 8)
}

/// Takes a number; bits past 64 are an error.
pub(in crate::part) fn take_varint(bytes: &mut &[u8]) -> Decoded<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = take_byte(bytes)?;
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || (shift == 63 && bits > 1) {
            return Err(Damage("a number of more than 64 bits"));
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
        shift += 7;
    }
}

/// Takes a signed number.
pub(in crate::part) fn take_signed(bytes: &mut &[u8]) -> Decoded<i64> {
    let value = take_varint(bytes)?;
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

const SHORT: Damage = Damage("a block ends before its values do");
