//! Whether a text is what its value prints: where a type is inferred, no other text may become a value of it.
//!
//! Zeros at a fraction's end, a missing zero before the point and the case of words tell nothing apart. All else does:
//! `007`, `+1`, `1E3` and `38259E10` are codes, `0.1234567890123456789` is no double.

use super::number::parse_f64;
use std::fmt::Write as _;

/// The longest text of a number that any double prints as, with its sign and point.
const NUMBER_BYTES_MAX: usize = 400;

/// Digits that no zero is put before, and no minus before a zero alone: a whole number as it prints.
pub(crate) fn is_printed_integer(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0'] => text.len() == 1,
        digits => !digits.starts_with(b"0") && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// Whether a text is the double that it reads as, printed to as many digits, or to the fewest that tell it. An exponent
/// is one as programs print it: one digit before the point, and a point or the exponent's sign to tell it from a code.
pub(crate) fn is_printed_double(text: &[u8]) -> bool {
    let Some(value) = parse_f64(text) else { return false };
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.starts_with(b"+") || text.len() > NUMBER_BYTES_MAX {
        return false;
    }
    if !digits.iter().any(u8::is_ascii_digit) {
        return is_printed_word(digits);
    }
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&digits[..at], Some(&digits[at + 1..])),
        None => (digits, None),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.');
    let fraction = point.map_or(0, |point| mantissa.len() - point - 1);
    let mut printed = String::new();
    let written = match exponent {
        None => write!(printed, "{:.fraction$}", value.abs()),
        Some(_) => write!(printed, "{:.fraction$e}", value.abs()),
    };
    let (printed_mantissa, printed_exponent) = printed.split_once('e').unwrap_or((printed.as_str(), "0"));
    let is_exponent = |exponent: &[u8]| {
        let is_signed = exponent.starts_with(b"+") || exponent.starts_with(b"-");
        let power = std::str::from_utf8(exponent).ok().and_then(|exponent| exponent.parse::<i32>().ok());
        (is_signed || fraction > 0) && power == printed_exponent.parse().ok()
    };
    let mantissa = mantissa.strip_suffix(b".").unwrap_or(mantissa);
    let is_mantissa = match mantissa {
        [b'.', ..] => printed_mantissa.strip_prefix('0').map(str::as_bytes) == Some(mantissa),
        _ => printed_mantissa.as_bytes() == mantissa || is_shortest(value, mantissa, exponent.is_some()),
    };
    written.is_ok() && is_mantissa && exponent.is_none_or(is_exponent)
}

/// Whether digits, or those before an exponent, are the fewest that tell a double, zeros at their end aside: of a value
/// half-way between two of so many digits they may be the other one's.
fn is_shortest(value: f64, digits: &[u8], has_exponent: bool) -> bool {
    let zeros = match digits.contains(&b'.') {
        true => digits.iter().rev().take_while(|byte| **byte == b'0').count(),
        false => 0,
    };
    let digits = &digits[..digits.len() - zeros];
    let shortest = match has_exponent {
        true => format!("{:e}", value.abs()),
        false => value.abs().to_string(),
    };
    let mantissa = shortest.split_once('e').map_or(shortest.as_str(), |(mantissa, _)| mantissa);
    mantissa.as_bytes() == digits.strip_suffix(b".").unwrap_or(digits)
}

/// Not a number and infinity as programs print them; in capitals they are codes.
fn is_printed_word(word: &[u8]) -> bool {
    [&b"nan"[..], b"NaN", b"inf", b"Inf", b"infinity", b"Infinity"].contains(&word)
}

/// Whether a number has an exponent, and so few digits that a double keeps them all.
pub(crate) fn has_exact_exponent(token: &[u8]) -> bool {
    const DIGITS: usize = f64::DIGITS as usize;
    let exponent = token.iter().position(|byte| matches!(byte, b'e' | b'E'));
    exponent.is_some_and(|at| token[..at].iter().filter(|byte| byte.is_ascii_digit()).count() <= DIGITS)
        && parse_f64(token).is_some_and(f64::is_finite)
}

/// How many digits a plain decimal that prints as it is written has before and after its point; `None` for any other
/// text.
pub(crate) fn printed_decimal(text: &[u8]) -> Option<(usize, usize)> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    let is_plain = whole == b"0" || is_printed_integer(whole) && !whole.starts_with(b"-");
    let is_decimal = is_plain && fraction.iter().all(u8::is_ascii_digit);
    is_decimal.then_some((whole.len(), fraction.len()))
}

/// Whether a time has digits behind its ninth of a second that are not zeros: no timestamp keeps them.
pub(crate) fn is_past_nanoseconds(text: &[u8]) -> bool {
    let point = text.iter().position(|byte| matches!(byte, b'.' | b','));
    let fraction = point.and_then(|point| text.get(point + 1..)).unwrap_or_default();
    fraction.iter().take_while(|byte| byte.is_ascii_digit()).skip(9).any(|digit| *digit != b'0')
}

/// true and false, in any case: the words that a boolean prints as.
pub(crate) fn is_printed_bool(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false")
}

#[cfg(test)]
mod tests;
