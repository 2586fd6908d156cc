//! Numbers and times as PostgreSQL writes them.

use bytes::{BufMut, BytesMut};
use serde_json::ser::{CompactFormatter, Formatter};
use std::io::Write;
use tickstone_query::arrow::datatypes::IntervalMonthDayNano;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// How timestamps look as text: with how many digits of a second at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    /// Six, as PostgreSQL's have: what drivers read.
    Micros,
    /// Nine where the value has them.
    Nanos,
}

/// The shortest digits that give the same double.
pub(super) fn put_double(value: f64, out: &mut BytesMut) {
    if put_odd(value, out) {
        return;
    }
    if is_long(value) {
        put_scientific(value, out);
        return;
    }
    let start = out.len();
    // A buffer takes all that is written.
    let _ = CompactFormatter.write_f64(&mut out.writer(), value);
    without_point(start, out);
}

/// Whether PostgreSQL writes a number with an exponent.
fn is_long(value: f64) -> bool {
    value != 0.0 && !(1e-4..1e15).contains(&value.abs())
}

/// `1e+15`, `1.5e-05`: the exponent has a sign and two digits at least.
fn put_scientific(value: impl std::fmt::LowerExp, out: &mut BytesMut) {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    let _ = write!(out.writer(), "{digits}e{sign}{exponent:0>2}");
}

/// The shortest digits that give the same float.
pub(super) fn put_float(value: f32, out: &mut BytesMut) {
    if put_odd(f64::from(value), out) {
        return;
    }
    if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        put_scientific(value, out);
        return;
    }
    let start = out.len();
    let _ = CompactFormatter.write_f32(&mut out.writer(), value);
    without_point(start, out);
}

fn put_odd(value: f64, out: &mut BytesMut) -> bool {
    if value.is_finite() {
        return false;
    }
    let name: &[u8] = match value {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    };
    out.extend_from_slice(name);
    true
}

/// `1.0` as `1`.
fn without_point(start: usize, out: &mut BytesMut) {
    if out[start..].ends_with(b".0") {
        out.truncate(out.len() - 2);
    }
}

/// A whole number whose last `scale` digits stand after the point.
pub(super) fn put_numeric(value: i128, scale: i8, out: &mut BytesMut) {
    let scale = usize::from(scale.cast_unsigned());
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if value < 0 {
        out.put_u8(b'-');
    }
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.put_u8(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
}

/// `2024-08-08`; `0044-03-15 BC`.
pub(super) fn put_date(days: i32, out: &mut BytesMut) {
    let before_christ = put_day(i64::from(days), out);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// `2024-08-08 09:30:00.123456`, of nanoseconds since 1970.
pub(super) fn put_timestamp(nanos: i64, digits: Digits, out: &mut BytesMut) {
    let day = NANOS_PER_SECOND * SECONDS_PER_DAY;
    // An i64 of nanoseconds has no year before 1677.
    put_day(nanos.div_euclid(day), out);
    out.put_u8(b' ');
    put_time(nanos.rem_euclid(day), digits, out);
}

/// `09:30:00.123456`, of nanoseconds since midnight.
pub(super) fn put_time(nanos: i64, digits: Digits, out: &mut BytesMut) {
    let (seconds, fraction) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
    put_two(seconds / 3_600, out);
    out.put_u8(b':');
    put_two(seconds / 60 % 60, out);
    out.put_u8(b':');
    put_two(seconds % 60, out);
    put_fraction(fraction, digits, out);
}

/// A point and the digits of a second's fraction, without zeros at the end.
fn put_fraction(nanos: i64, digits: Digits, out: &mut BytesMut) {
    let (mut rest, mut width) = match digits {
        Digits::Nanos => (nanos, 9),
        Digits::Micros => (nanos / 1_000, 6),
    };
    if rest == 0 {
        return;
    }
    while rest % 10 == 0 {
        rest /= 10;
        width -= 1;
    }
    let _ = write!(out.writer(), ".{rest:0width$}");
}

/// Two digits, or as many as there are.
fn put_two(value: i64, out: &mut BytesMut) {
    match u8::try_from(value) {
        Ok(small @ 0..=99) => {
            out.put_u8(b'0' + small / 10);
            out.put_u8(b'0' + small % 10);
        }
        _ => {
            let _ = write!(out.writer(), "{value}");
        }
    }
}

/// The day of a number of days since 1970-01-01; whether it was before Christ.
fn put_day(days: i64, out: &mut BytesMut) -> bool {
    let (year, month, day) = civil(days);
    let (before_christ, year) = if year > 0 { (false, year) } else { (true, 1 - year) };
    match year {
        1_000..=9_999 => {
            put_two(year / 100, out);
            put_two(year % 100, out);
        }
        _ => {
            let _ = write!(out.writer(), "{year:04}");
        }
    }
    out.put_u8(b'-');
    put_two(month, out);
    out.put_u8(b'-');
    put_two(day, out);
    before_christ
}

/// Year, month and day in the proleptic Gregorian calendar of a number of days since 1970-01-01 (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `1 year 2 mons 3 days 04:05:06.7`, the style `postgres`.
pub(super) fn put_interval(value: IntervalMonthDayNano, digits: Digits, out: &mut BytesMut) {
    let nanos = match digits {
        Digits::Micros => value.nanoseconds / 1_000 * 1_000,
        Digits::Nanos => value.nanoseconds,
    };
    let (years, months) = (value.months / 12, value.months % 12);
    let start = out.len();
    let mut negative = false;
    for (count, one, many) in [(years, "year", "years"), (months, "mon", "mons"), (value.days, "day", "days")]
    {
        if count == 0 {
            continue;
        }
        let space = if out.len() > start { " " } else { "" };
        // A positive one after a negative one says so.
        let plus = if negative && count > 0 { "+" } else { "" };
        let _ = write!(out.writer(), "{space}{plus}{count} {}", if count == 1 { one } else { many });
        negative = count < 0;
    }
    if nanos != 0 || out.len() == start {
        if out.len() > start {
            out.put_u8(b' ');
        }
        match nanos < 0 {
            true => out.put_u8(b'-'),
            false if negative => out.put_u8(b'+'),
            false => {}
        }
        // The least number of nanoseconds has no opposite, and is 292 years.
        put_time(nanos.saturating_abs(), digits, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        put(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn numbers_as_postgresql_writes_them() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (61_500.5, "61500.5"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(text(|out| put_double(value, out)), wanted);
        }
        assert_eq!(text(|out| put_float(0.1, out)), "0.1");
        assert_eq!(text(|out| put_numeric(-5, 3, out)), "-0.005");
        assert_eq!(text(|out| put_numeric(12_345, 2, out)), "123.45");
        assert_eq!(text(|out| put_numeric(7, 0, out)), "7");
    }

    #[test]
    fn times_as_postgresql_writes_them() {
        let at = |nanos| text(|out| put_timestamp(nanos, Digits::Micros, out));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(at(1_723_109_400_123_456_789), "2024-08-08 09:30:00.123456");
        assert_eq!(at(i64::MAX), "2262-04-11 23:47:16.854775");
        assert_eq!(at(i64::MIN), "1677-09-21 00:12:43.145224");
        assert_eq!(text(|out| put_timestamp(1_500, Digits::Nanos, out)), "1970-01-01 00:00:00.0000015");
        assert_eq!(text(|out| put_date(19_943, out)), "2024-08-08");
        assert_eq!(text(|out| put_date(-719_163, out)), "0001-12-31 BC");
        let interval = |months, days, nanos| {
            text(|out| put_interval(IntervalMonthDayNano::new(months, days, nanos), Digits::Nanos, out))
        };
        assert_eq!(interval(14, 3, 14_706_000_000_000), "1 year 2 mons 3 days 04:05:06");
        assert_eq!(interval(0, 0, 0), "00:00:00");
        assert_eq!(interval(0, -1, 1_000_000_000), "-1 days +00:00:01");
        assert_eq!(interval(0, 0, -90_000_000_000_000), "-25:00:00");
        let cut =
            |nanos| text(|out| put_interval(IntervalMonthDayNano::new(0, 0, nanos), Digits::Micros, out));
        assert_eq!(cut(-1_254_103_432), "-00:00:01.254103");
        assert_eq!(cut(-999), "00:00:00");
    }
}
