//! Types that a table does not have, as the texts by which QuestDB shows them.

use std::io::Write as _;

/// Appends the character of a UTF-16 code unit; `false` where it is but half of one.
pub(super) fn put_char(out: &mut Vec<u8>, unit: u16) -> bool {
    let character = char::from_u32(u32::from(unit));
    if let Some(character) = character {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    character.is_some()
}

/// Appends an IPv4 address: `10.0.0.7`.
pub(super) fn put_ipv4(out: &mut Vec<u8>, address: u32) {
    put(out, format_args!("{}", std::net::Ipv4Addr::from(address)));
}

/// Appends a 256-bit number, its lowest word first: `0x7b`.
pub(super) fn put_long256(out: &mut Vec<u8>, words: [u64; 4]) {
    let [low, second, third, high] = words.map(u128::from);
    let (low, high) = (second << 64 | low, high << 64 | third);
    match high {
        0 => put(out, format_args!("{low:#x}")),
        _ => put(out, format_args!("{high:#x}{low:032x}")),
    }
}

/// Appends a geohash of `bits` bits: its letters where they are a multiple of five, else the bits themselves.
pub(super) fn put_geohash(out: &mut Vec<u8>, hash: u64, bits: u32) {
    const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    if bits.is_multiple_of(5) {
        let shifts = (0..bits).step_by(5).rev();
        out.extend(shifts.map(|shift| LETTERS[(hash >> shift & 31) as usize]));
    } else {
        out.extend((0..bits).rev().map(|bit| b'0' + (hash >> bit & 1) as u8));
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes all that is written to it.
    let _ = out.write_fmt(text);
}
