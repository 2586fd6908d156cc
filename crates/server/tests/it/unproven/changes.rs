//! Random changes of bytes, mostly to lengths, numbers and separators.

/// A generator of pseudo-random numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..1 + self.below(most)).map(|_| self.next() as u8).collect()
    }

    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Numbers in digits that parsers get wrong.
const NUMBERS: [&[u8]; 8] = [
    b"0",
    b"-1",
    b"+7",
    b"2147483647",
    b"4294967295",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999",
    b"0x10",
];

/// Separators and headers of the protocols.
const WORDS: [&[u8]; 14] = [
    b"\0",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b",",
    b"=",
    b":",
    b" ",
    b"%00",
    b"\xff",
    b"\xc3\x28",
    b"\x16\x03\x01",
    b"Transfer-Encoding: chunked\r\n",
    b"Authorization: Basic Og==\r\n",
];

/// Changes bytes one to three times.
pub(super) fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        change_once(bytes, random);
    }
}

fn change_once(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let bits = random.below(8);
    let length = random.below(1 << bits).min(bytes.len() - at);
    match random.below(11) {
        0 => (0..1 + random.below(4)).for_each(|_| {
            let at = random.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }),
        1 => bytes.truncate(at),
        2 => {
            let piece = bytes[at..at + length].to_vec();
            bytes.splice(at..at, piece.repeat(1 + random.below(3)));
        }
        3 | 4 => {
            // Overwrite with a length of 1, 2, 4 or 8 bytes, mostly big-endian.
            let width = *random.one_of(&[1, 2, 4, 4, 8]);
            let value =
                *random.one_of(&[0, 1, u64::MAX, i32::MAX as u64, u64::from(u32::MAX), 1 << 31, 4, 8]);
            let value = if random.one_in(3) { value.wrapping_add(random.below(9) as u64) } else { value };
            let value = if random.one_in(5) { value.swap_bytes() } else { value << (64 - 8 * width) };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_be_bytes()[..end - at]);
        }
        5 => {
            // Replace the next number in digits.
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let from = bytes[at..].iter().position(is_digit).map_or(at, |place| at + place);
            let to = bytes[from..].iter().position(|byte| !is_digit(byte)).map_or(bytes.len(), |n| from + n);
            bytes.splice(from..to, random.one_of(&NUMBERS).iter().copied());
        }
        6 => {
            let word = random.one_of(&WORDS).repeat(1 + random.below(4));
            bytes.splice(at..at, word);
        }
        7 => {
            let noise = random.bytes(40);
            bytes.splice(at..at + length, noise);
        }
        8 => drop(bytes.drain(at..at + length)),
        9 => {
            let to = random.below(bytes.len() - length + 1);
            bytes.copy_within(at..at + length, to);
        }
        _ if random.one_in(4) => *bytes = random.bytes(300),
        _ => {
            let byte = *random.one_of(b"\0\xff\x7f\x80 aA0\n");
            bytes[at..at + length].fill(byte);
        }
    }
}
