//! Dates and timestamps.
//!
//! A timestamp is ISO 8601: a date; a `T` or a space; hours and minutes; seconds; a fraction of any
//! length, of which nine digits count; and a zone (`Z`, `UTC`, `+01`, `+0100`, `+01:00`; none is UTC).
//! All but the date may be missing, from the right. Second 60, a leap second, is the next minute's 0.

use crate::EpochUnit;
use tickstone_model::days_from_civil;

const SECOND: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// The last date seen: in a file sorted by time the next row has the same.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DateCache {
    text: [u8; 10],
    days: i64,
}

/// The timestamp that is all of `field`, in nanoseconds since the epoch.
#[inline]
pub(crate) fn plain_iso(field: &[u8], cache: &mut DateCache) -> Option<i64> {
    let date: &[u8; 10] = field.first_chunk()?;
    let days = if *date == cache.text { cache.days } else { date_days(date)? };
    *cache = DateCache { text: *date, days };
    match field.get(10) {
        None => return nanos(days, 0, 0),
        Some(b'T' | b't' | b' ') => {}
        Some(_) => return None,
    }
    let mut at = 16;
    let clock: &[u8; 5] = field.get(11..)?.first_chunk()?;
    let (hour, minute) = (two(clock[0], clock[1])?, two(clock[3], clock[4])?);
    let (mut second, mut fraction) = (0, 0);
    if clock[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    if let Some([b':', tens, ones]) = field.get(at..at + 3) {
        second = two(*tens, *ones)?;
        at += 3;
        if second > 60 {
            return None;
        }
        if let Some(b'.' | b',') = field.get(at) {
            let (value, length) = fraction_nanos(&field[at + 1..]);
            if length == 0 {
                return None;
            }
            fraction = value;
            at += 1 + length;
        }
    }
    let (offset_seconds, length) = zone(&field[at..])?;
    if at + length != field.len() {
        return None;
    }
    nanos(days, hour * 3600 + minute * 60 + second - offset_seconds, fraction)
}

/// ISO 8601 to nanoseconds since the Unix epoch, UTC; `None` where `text` as a whole is no time that 64 bits
/// hold (1677 to 2262). A date alone is its midnight; without a zone the time is UTC.
pub fn parse_iso(text: &[u8]) -> Option<i64> {
    plain_iso(text, &mut DateCache::default())
}

/// Days since 1970-01-01 of `YYYY-MM-DD`, or of a timestamp at midnight.
pub(crate) fn parse_date(text: &[u8]) -> Option<i32> {
    let days = match text.first_chunk::<10>() {
        Some(date) if text.len() == 10 => date_days(date)?,
        _ => {
            let day_nanos = DAY_SECONDS * SECOND;
            let value = parse_iso(text)?;
            if value.rem_euclid(day_nanos) != 0 {
                return None;
            }
            value.div_euclid(day_nanos)
        }
    };
    i32::try_from(days).ok()
}

/// Nanoseconds since midnight of `HH:MM`, `HH:MM:SS` or `HH:MM:SS.fffffffff`.
pub(crate) fn parse_time(text: &[u8]) -> Option<i64> {
    let ([h1, h2, b':', m1, m2], rest) = text.split_first_chunk()? else { return None };
    let (hour, minute) = (two(*h1, *h2)?, two(*m1, *m2)?);
    let (second, fraction) = match rest {
        [] => (0, 0),
        [b':', tens, ones] => (two(*tens, *ones)?, 0),
        [b':', tens, ones, b'.', digits @ ..] => match fraction_nanos(digits) {
            (fraction, length) if length > 0 && length == digits.len() => (two(*tens, *ones)?, fraction),
            _ => return None,
        },
        _ => return None,
    };
    let is_one = hour < 24 && minute < 60 && second < 60;
    is_one.then(|| (hour * 3600 + minute * 60 + second) * SECOND + fraction)
}

/// A count of `unit` since the epoch, with or without a fraction, in nanoseconds. Digits finer than
/// a nanosecond are cut.
pub(crate) fn parse_epoch(text: &[u8], unit: EpochUnit) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, fraction) = match text.iter().position(|&b| b == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[text.len()..]),
    };
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    // Below zero, where there is one more.
    let mut value = 0_i64;
    for byte in whole {
        value = value.checked_mul(10)?.checked_sub(i64::from(byte - b'0'))?;
    }
    let (mut nanos, mut step) = (0_i64, unit.nanos());
    for byte in fraction {
        step /= 10;
        nanos += i64::from(byte - b'0') * step;
    }
    let value = value.checked_mul(unit.nanos())?.checked_sub(nanos)?;
    if negative { Some(value) } else { value.checked_neg() }
}

/// Days since 1970-01-01 of `YYYY-MM-DD`, `None` for a day no calendar has.
fn date_days(date: &[u8; 10]) -> Option<i64> {
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let year = two(date[0], date[1])? * 100 + two(date[2], date[3])?;
    let (month, day) = (two(date[5], date[6])?, two(date[8], date[9])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=length).contains(&day).then(|| days_from_civil(year, month, day))
}

/// The fraction's nanoseconds and how many digits it has (any number; nine count).
#[inline]
fn fraction_nanos(bytes: &[u8]) -> (i64, usize) {
    let mut value = 0;
    let mut step = SECOND;
    let mut count = 0;
    for digit in bytes.iter().map(|b| b.wrapping_sub(b'0')).take_while(|d| *d < 10) {
        step /= 10;
        value += i64::from(digit) * step;
        count += 1;
    }
    (value, count)
}

/// Seconds east of UTC of the zone at the start of `bytes` and its length, 0 where there is none.
/// `None` for a zone cut short or out of range.
#[inline]
fn zone(bytes: &[u8]) -> Option<(i64, usize)> {
    let sign = match bytes {
        [b'Z' | b'z', ..] => return Some((0, 1)),
        [b' ', b'U' | b'u', b'T' | b't', b'C' | b'c', ..] => return Some((0, 4)),
        [b' ', b'Z' | b'z', ..] => return Some((0, 2)),
        [b'+', ..] | [b' ', b'+', ..] => 1,
        [b'-', ..] | [b' ', b'-', ..] => -1,
        _ => return Some((0, 0)),
    };
    let space = usize::from(bytes[0] == b' ');
    let digits = &bytes[space + 1..];
    let (hours, minutes, length) = match digits {
        [a, b, b':', c, d, ..] => (two(*a, *b)?, two(*c, *d)?, 5),
        [a, b, c, d, ..] if c.is_ascii_digit() => (two(*a, *b)?, two(*c, *d)?, 4),
        [a, b, ..] => (two(*a, *b)?, 0, 2),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some((sign * (hours * 3600 + minutes * 60), space + 1 + length))
}

/// Nanoseconds since the epoch; `None` where 64 bits do not hold them (before 1677, after 2262).
#[inline]
fn nanos(days: i64, seconds: i64, fraction: i64) -> Option<i64> {
    let seconds = days * DAY_SECONDS + seconds;
    // Of the first second of all the 64 bits hold the end alone.
    let (seconds, fraction) =
        if seconds < 0 { (seconds + 1, fraction - SECOND) } else { (seconds, fraction) };
    seconds.checked_mul(SECOND)?.checked_add(fraction)
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens) * 10 + i64::from(ones))
}

#[cfg(test)]
mod tests;
