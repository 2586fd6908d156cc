//! Booleans, bytes, UUIDs and texts.

/// true, t, yes, y, 1 and false, f, no, n, 0, in any case.
pub(crate) fn parse_bool(text: &[u8]) -> Option<bool> {
    let is = |words: [&[u8]; 5]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is([b"true", b"t", b"yes", b"y", b"1"]) {
        Some(true)
    } else if is([b"false", b"f", b"no", b"n", b"0"]) {
        Some(false)
    } else {
        None
    }
}

/// Bytes as pairs of hexadecimal digits, with or without a leading `\x` or `0x`, put behind `out`;
/// `false`, and `out` as it was, where the text is something else.
pub fn parse_hex(text: &[u8], out: &mut Vec<u8>) -> bool {
    let digits = match text {
        [b'\\' | b'0', b'x', rest @ ..] => rest,
        _ => text,
    };
    let before = out.len();
    let (pairs, rest) = digits.as_chunks::<2>();
    for [high, low] in pairs {
        match (hex_digit(*high), hex_digit(*low)) {
            (Some(high), Some(low)) => out.push(high << 4 | low),
            _ => break,
        }
    }
    let whole = rest.is_empty() && out.len() - before == pairs.len();
    if !whole {
        out.truncate(before);
    }
    whole
}

/// A UUID of 32 hexadecimal digits, with its four dashes or without any, in braces or not.
pub fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text = text.strip_prefix(b"{").and_then(|t| t.strip_suffix(b"}")).unwrap_or(text);
    let dashed = match text.len() {
        36 => true,
        32 => false,
        _ => return None,
    };
    let mut value = [0_u8; 16];
    let mut digits = 0;
    for (index, &byte) in text.iter().enumerate() {
        if dashed && matches!(index, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        let slot = value.get_mut(digits / 2)?;
        *slot = *slot << 4 | hex_digit(byte)?;
        digits += 1;
    }
    (digits == 32).then_some(value)
}

/// How far a field without quotes goes, to a delimiter or the end of a line; and whether it is known to be ASCII.
#[inline]
pub(crate) fn plain_text(bytes: &[u8], delimiter: u8) -> (usize, bool) {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut seen = 0;
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        seen |= word;
        let ends = zeros(word ^ splat(delimiter)) | zeros(word ^ splat(b'\n')) | zeros(word ^ splat(b'\r'));
        if ends != 0 {
            return (at * 8 + ends.trailing_zeros() as usize / 8, seen & HIGH == 0);
        }
    }
    let is_end = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r');
    let rest = tail.iter().position(is_end).unwrap_or(tail.len());
    (words.len() * 8 + rest, seen & HIGH == 0 && tail.is_ascii())
}

/// How far a value of line protocol goes that has neither quotes nor escapes; `None` for any other, and where the bytes
/// end first.
#[inline]
pub(crate) fn plain_value(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    let stops = |byte: &u8| *byte <= b',' || *byte == b'\\';
    let length = words.iter().enumerate().find_map(|(at, word)| {
        let word = u64::from_le_bytes(*word);
        let stops = below(word, b',' + 1) | zeros(word ^ splat(b'\\'));
        (stops != 0).then(|| at * 8 + stops.trailing_zeros() as usize / 8)
    });
    let length = length.or_else(|| Some(words.len() * 8 + tail.iter().position(stops)?))?;
    matches!(bytes[length], b',' | b' ' | b'\n' | b'\r').then_some(length)
}

/// A one in each byte of a word.
const LOW: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte of a word.
const HIGH: u64 = LOW << 7;

fn splat(byte: u8) -> u64 {
    LOW * u64::from(byte)
}

/// The highest bit of bytes that are zero; the lowest that is set is one's of them, those above it may be others'.
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

/// The same of bytes below one of at most 128.
fn below(word: u64, byte: u8) -> u64 {
    word.wrapping_sub(splat(byte)) & !word & HIGH
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Whether a number is NaN or an infinity, in words.
pub(crate) fn is_no_decimal(text: &[u8]) -> bool {
    let word = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    [&b"nan"[..], b"inf", b"infinity"].iter().any(|other| word.eq_ignore_ascii_case(other))
}
