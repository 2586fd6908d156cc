//! Numbers.

/// Powers of ten a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Powers of ten below 2^64.
const TENS: [u64; 20] = {
    let (mut powers, mut at) = ([1; 20], 1);
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The most digits that cannot overflow a `u64`.
const DIGITS_MAX: usize = 19;

/// A decimal without exponent that is all of `field`.
///
/// Exact: both the digits (below 2^52) and the power of ten (at most 22) are doubles, so that one
/// division rounds once (W. Clinger, "How to read floating point numbers accurately", PLDI 1990).
#[inline]
pub(crate) fn plain_f64(field: &[u8]) -> Option<f64> {
    let negative = field.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let first = at;
    let mut digits = 0_u64;
    while let Some(digit) = digit_at(field, at) {
        digits = digits.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let mut count = at - first;
    let mut fraction = 0;
    if field.get(at) == Some(&b'.') {
        at += 1;
        let point = at;
        while let Some(digit) = digit_at(field, at) {
            digits = digits.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
        fraction = at - point;
        count += fraction;
    }
    // So few digits come back when the value is printed: doubles are as close together as numbers of them.
    if at != field.len() || count == 0 || count > DIGITS_MAX || digits > 1 << 52 || is_padded(field, first) {
        return None;
    }
    // At most 19 digits stand after the point: inside POWERS.
    let value = digits as f64 / POWERS[fraction];
    Some(if negative { -value } else { value })
}

/// An integer of up to 19 digits that is all of `field`.
#[inline]
pub(crate) fn plain_i64(field: &[u8]) -> Option<i64> {
    let negative = field.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let first = at;
    let mut digits = 0_u64;
    while let Some(digit) = digit_at(field, at) {
        digits = digits.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let count = at - first;
    let is_minus_zero = negative && digits == 0;
    if at != field.len() || count == 0 || count > DIGITS_MAX || is_padded(field, first) || is_minus_zero {
        return None;
    }
    let value = i64::try_from(digits).ok()?;
    Some(if negative { -value } else { value })
}

#[inline]
fn digit_at(field: &[u8], at: usize) -> Option<u64> {
    let digit = field.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// Whether a zero stands before further digits.
#[inline]
fn is_padded(field: &[u8], first: usize) -> bool {
    field[first] == b'0' && field.get(first + 1).is_some_and(u8::is_ascii_digit)
}

/// An integer of up to 20 digits without a sign that is all of `field`.
#[inline]
pub(crate) fn plain_u64(field: &[u8]) -> Option<u64> {
    let (digits, count) = leading_digits(field);
    match count {
        _ if count != field.len() || count > 0 && is_padded(field, 0) => None,
        1..=DIGITS_MAX => Some(digits),
        20 => {
            let (first, last) = field.split_at(DIGITS_MAX);
            let last = u64::from(last[0] - b'0');
            leading_digits(first).0.checked_mul(10)?.checked_add(last)
        }
        _ => None,
    }
}

/// The number that the digits at the start of `bytes` make, modulo 2^64, and how many they are.
///
/// Eight at a time: digits are told from other bytes, and put together to pairs, fours and eights, by arithmetic on a
/// word of them (D. Lemire, "Quickly parsing eight digits", 2018).
#[inline]
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let (mut value, mut count) = (0_u64, 0);
    loop {
        let rest = &bytes[count..];
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(word)
            }
        } ^ ZEROS;
        // The lowest marked byte is the first that is no digit: a carry goes to those above it alone.
        let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
        let found = others.trailing_zeros() as usize / 8;
        if found == 0 {
            return (value, count);
        }
        // Zeros before the digits, where fewer are.
        let digits = word << (64 - 8 * found);
        let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
        let fours = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
        let rest = (pairs >> 16 & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
        value = value.wrapping_mul(TENS[found]).wrapping_add(fours.wrapping_add(rest) >> 32);
        count += found;
        if found < 8 {
            return (value, count);
        }
    }
}

/// Any double: decimal, exponent, inf, nan; `None` of digits that say more than it holds, which are no infinity.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let value: f64 = fast_float2::parse(without_plus(text)).ok()?;
    (!value.is_infinite() || !text.iter().any(u8::is_ascii_digit)).then_some(value)
}

/// Whether a text is a number, also one that no double holds.
pub(crate) fn is_number(text: &[u8]) -> bool {
    fast_float2::parse::<f64, _>(without_plus(text)).is_ok()
}

/// Any float, rounded once; `None` of digits that say more than it holds, which are no infinity.
pub(crate) fn parse_f32(text: &[u8]) -> Option<f32> {
    let value: f32 = fast_float2::parse(without_plus(text)).ok()?;
    (!value.is_infinite() || !text.iter().any(u8::is_ascii_digit)).then_some(value)
}

/// What is wrong with an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerFault {
    /// Not digits.
    NotAnInteger,
    /// Too many of them.
    OutOfRange,
}

/// A signed integer.
pub(crate) fn parse_i64(text: &[u8]) -> Result<i64, IntegerFault> {
    let text = without_plus(text);
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let magnitude = i128::from(parse_u64(digits)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| IntegerFault::OutOfRange)
}

/// An unsigned integer.
pub(crate) fn parse_u64(text: &[u8]) -> Result<u64, IntegerFault> {
    let text = without_plus(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(IntegerFault::NotAnInteger);
    }
    let mut value = 0_u64;
    for byte in text {
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(byte - b'0')))
            .ok_or(IntegerFault::OutOfRange)?;
    }
    Ok(value)
}

/// A decimal of `precision` digits, `scale` of them after the point, as a count of its last digit.
/// Digits past the scale must be zeros.
pub(crate) fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, IntegerFault> {
    let text = without_plus(text);
    let (negative, text) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let point = text.iter().position(|&b| b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[text.len()..]),
    };
    let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !all_digits || whole.len() + fraction.len() == 0 {
        return Err(IntegerFault::NotAnInteger);
    }
    let scale = usize::try_from(scale).unwrap_or(0);
    let kept = fraction.len().min(scale);
    if fraction[kept..].iter().any(|&b| b != b'0') {
        return Err(IntegerFault::OutOfRange);
    }
    let zeros = std::iter::repeat_n(&b'0', scale - kept);
    let mut value = 0_i128;
    for byte in whole.iter().chain(&fraction[..kept]).chain(zeros) {
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(i128::from(byte - b'0')))
            .ok_or(IntegerFault::OutOfRange)?;
    }
    if value >= 10_i128.pow(u32::from(precision.min(38))) {
        return Err(IntegerFault::OutOfRange);
    }
    Ok(if negative { -value } else { value })
}

/// Cuts one leading plus off, unless another sign follows.
fn without_plus(text: &[u8]) -> &[u8] {
    match text {
        [b'+', rest @ ..] if !matches!(rest.first(), Some(b'+' | b'-')) => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests;
