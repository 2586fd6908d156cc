//! Lengths of time as PostgreSQL, drivers and ISO 8601 write them, which DataFusion does not read: with a clock
//! (`1 mon 2 days 03:04:05.678`, `-08:00:00`), or as `P1Y2M3DT4H5M6.5S`.

use datafusion::arrow::datatypes::IntervalMonthDayNano;

const SECOND: i64 = 1_000_000_000;

/// The length that a text names; `None` where it is of neither form.
pub(super) fn parse_span(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    let (text, sign) = match text.strip_suffix(" ago") {
        Some(rest) => (rest, -1),
        None => (text, 1),
    };
    let (months, days, nanos) = match text.strip_prefix(['P', 'p']) {
        Some(iso) => iso_8601(iso)?,
        None => with_clock(text)?,
    };
    let months = i32::try_from(months.checked_mul(sign)?).ok()?;
    let days = i32::try_from(days.checked_mul(sign)?).ok()?;
    Some(IntervalMonthDayNano::new(months, days, nanos.checked_mul(sign)?))
}

/// Months, days and nanoseconds.
type Parts = (i64, i64, i64);

/// Numbers with their units, and a clock at the end.
fn with_clock(text: &str) -> Option<Parts> {
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let (mut months, mut days) = (0_i64, 0_i64);
    loop {
        let word = words.next()?;
        if word.contains(':') {
            return words.next().is_none().then_some((months, days, clock(word)?));
        }
        let number: i64 = word.parse().ok()?;
        let unit = words.next()?.to_ascii_lowercase();
        let (of, factor) = match unit.trim_end_matches('s') {
            "year" | "yr" => (&mut months, 12),
            "month" | "mon" => (&mut months, 1),
            "week" => (&mut days, 7),
            "day" => (&mut days, 1),
            _ => return None,
        };
        *of = of.checked_add(number.checked_mul(factor)?)?;
    }
}

/// Nanoseconds of `[-]hh:mm[:ss[.fraction]]`.
fn clock(text: &str) -> Option<i64> {
    let (digits, sign) = match text.strip_prefix('-') {
        Some(digits) => (digits, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let mut parts = digits.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    let below_60 = |number: i64| (0..60).contains(&number).then_some(number);
    let minutes = below_60(whole(minutes)?)?;
    let seconds = seconds_of(seconds).filter(|nanos| *nanos < 60 * SECOND)?;
    let nanos = whole(hours)?.checked_mul(3_600)?.checked_add(minutes * 60)?.checked_mul(SECOND)?;
    parts.next().is_none().then_some(nanos.checked_add(seconds)?.checked_mul(sign)?)
}

/// What follows the P.
fn iso_8601(text: &str) -> Option<Parts> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (text, ""),
    };
    let (mut months, mut days, mut nanos) = (0_i64, 0_i64, 0_i64);
    for (number, unit) in numbers(date)? {
        let (of, factor) = match unit {
            'Y' => (&mut months, 12),
            'M' => (&mut months, 1),
            'W' => (&mut days, 7),
            'D' => (&mut days, 1),
            _ => return None,
        };
        *of = of.checked_add(number.parse::<i64>().ok()?.checked_mul(factor)?)?;
    }
    for (number, unit) in numbers(time)? {
        let part = match unit {
            'H' => number.parse::<i64>().ok()?.checked_mul(3_600 * SECOND)?,
            'M' => number.parse::<i64>().ok()?.checked_mul(60 * SECOND)?,
            'S' => match number.strip_prefix('-') {
                Some(seconds) => -seconds_of(seconds)?,
                None => seconds_of(number)?,
            },
            _ => return None,
        };
        nanos = nanos.checked_add(part)?;
    }
    (!text.is_empty()).then_some((months, days, nanos))
}

/// Numbers and the letter behind each.
fn numbers(mut text: &str) -> Option<Vec<(&str, char)>> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_alphabetic())?;
        let unit = text[end..].chars().next()?.to_ascii_uppercase();
        found.push((&text[..end], unit));
        text = &text[end + 1..];
    }
    Some(found)
}

fn whole(digits: &str) -> Option<i64> {
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Nanoseconds of a number of seconds, with up to nine digits after its point.
fn seconds_of(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let places = u32::try_from(fraction.len()).ok().filter(|places| (1..=9).contains(places))?;
    let fraction = whole(fraction)? * 10_i64.pow(9 - places);
    whole(seconds)?.checked_mul(SECOND)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::{SECOND, parse_span};

    #[test]
    fn lengths_as_others_write_them() {
        let span = |text: &str| parse_span(text).map(|span| (span.months, span.days, span.nanoseconds));
        for (text, wanted) in [
            ("08:00:00", (0, 0, 8 * 3_600 * SECOND)),
            ("-00:00:01.5", (0, 0, -SECOND - SECOND / 2)),
            ("1 day, 2:03:04.000005", (0, 1, 7_384 * SECOND + 5_000)),
            ("-1 day, 23:00:00", (0, -1, 23 * 3_600 * SECOND)),
            ("1 mon 2 days 03:04:05.678", (1, 2, 11_045 * SECOND + 678_000_000)),
            ("1 year 2 mons -3 days +00:01", (14, -3, 60 * SECOND)),
            ("3 days 00:00:01 ago", (0, -3, -SECOND)),
            ("P1DT2H", (0, 1, 7_200 * SECOND)),
            ("P1Y2M3W4DT5H6M7.5S", (14, 25, 18_367 * SECOND + SECOND / 2)),
            ("PT-0.000000001S", (0, 0, -1)),
        ] {
            assert_eq!(span(text), Some(wanted), "{text}");
        }
        for text in [
            "",
            "1 day",
            "P",
            "P1D2",
            "PT",
            "1:60",
            "1:00:60",
            "1 fortnight 1:00",
            "x:00",
            "1:00 day",
            "1:2:3:4",
        ] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
