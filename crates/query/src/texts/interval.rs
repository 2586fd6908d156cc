//! Intervals of time as text, `ts IN '2024-08'`:
//!
//! - any beginning of an instant names the interval it leaves open: `'2024'` a year, `'2024-08-08'` a day,
//!   `'2024-08-08T09:30'` a minute, `'…:00.5'` a tenth of a second;
//! - `'2024-08-08;6h'` ends six hours later than that;
//! - `'2024-08-08T09:30;5m;1d;3'` comes three times, a day apart.

use super::parse_instant;
use crate::functions::stride::{Stride, Unit};

/// How such a text is written, for hints.
pub(crate) const INTERVAL_HINT: &str = "write '2024', '2024-08', '2024-08-08T09:30', '2024-08-08;6h' or '2024-08-08;6h;1d;3'; a list is IN ('…', '…')";

/// Most intervals that one text may name.
const INTERVALS_MAX: i64 = 1_000;

/// An interval `[from, to)` in ns since the Unix epoch; `to` is none where it is later than any timestamp.
pub(crate) type Interval = (i64, Option<i64>);

/// The intervals that a text names; `None` where it is none, or one of them begins outside the years 1677 to 2262.
pub(crate) fn parse_intervals(text: &str) -> Option<Vec<Interval>> {
    let mut parts = text.split(';').map(str::trim);
    let (from, mut to) = named(parts.next()?)?;
    if let Some(longer) = parts.next() {
        let longer = Stride::parse(longer)?;
        to = to.and_then(|to| longer.unit.add(longer.count, to));
    }
    let (apart, count) = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => (Stride::new(1, Unit::Day)?, 1),
        (Some(apart), Some(count), None) => (Stride::parse(apart)?, count.parse().ok()?),
        _ => return None,
    };
    if !(1..=INTERVALS_MAX).contains(&count) {
        return None;
    }
    let moved = |at: i64, instant: i64| apart.unit.add(apart.count.checked_mul(at)?, instant);
    (0..count).map(|at| Some((moved(at, from)?, to.and_then(|to| moved(at, to))))).collect()
}

/// The interval that the beginning of an instant names.
fn named(text: &str) -> Option<Interval> {
    let clock = text.find(['T', ' ']).map_or("", |at| &text[at + 1..]);
    let zone = clock.find(['Z', 'z', '+', '-']).map_or(0, |at| clock.len() - at);
    let local = &text[..text.len() - zone];
    let (unit, count) = match local.len() {
        4 => (Unit::Year, 1),
        7 => (Unit::Month, 1),
        10 => (Unit::Day, 1),
        13 => (Unit::Hour, 1),
        16 => (Unit::Minute, 1),
        19 => (Unit::Second, 1),
        digits @ 21..=29 => (Unit::Nanosecond, 10_i64.pow(29 - digits as u32)),
        _ => return None,
    };
    let from = match unit {
        Unit::Hour => parse_instant(&format!("{local}:00{}", &text[local.len()..]))?,
        _ => parse_instant(text)?,
    };
    Some((from, unit.add(count, from)))
}

#[cfg(test)]
mod tests {
    use super::{Interval, parse_intervals};
    use tickstone_model::format_nanos;

    fn shown(text: &str) -> Option<Vec<String>> {
        let shown = |(from, to): Interval| {
            format!("{} {}", format_nanos(from), to.map_or("end".into(), format_nanos))
        };
        parse_intervals(text).map(|intervals| intervals.into_iter().map(shown).collect())
    }

    #[test]
    fn beginnings_of_an_instant_name_what_they_leave_open() {
        for (text, expected) in [
            ("2024", "2024-01-01T00:00:00Z 2025-01-01T00:00:00Z"),
            ("2024-02", "2024-02-01T00:00:00Z 2024-03-01T00:00:00Z"),
            ("2024-12", "2024-12-01T00:00:00Z 2025-01-01T00:00:00Z"),
            ("2024-02-28", "2024-02-28T00:00:00Z 2024-02-29T00:00:00Z"),
            ("2024-02-28T23", "2024-02-28T23:00:00Z 2024-02-29T00:00:00Z"),
            ("2024-02-28 23:59", "2024-02-28T23:59:00Z 2024-02-29T00:00:00Z"),
            ("2024-02-28T23:59:59Z", "2024-02-28T23:59:59Z 2024-02-29T00:00:00Z"),
            ("2024-02-28T23:59:59.9", "2024-02-28T23:59:59.9Z 2024-02-29T00:00:00Z"),
            (
                "2024-02-28T00:00:00.000000001",
                "2024-02-28T00:00:00.000000001Z 2024-02-28T00:00:00.000000002Z",
            ),
            ("2024-02-28T09:30+01:00", "2024-02-28T08:30:00Z 2024-02-28T08:31:00Z"),
            ("2024-02-28;1d", "2024-02-28T00:00:00Z 2024-03-01T00:00:00Z"),
            ("2262", "2262-01-01T00:00:00Z end"),
            ("2262-04-11T23:47:16.8", "2262-04-11T23:47:16.8Z end"),
            ("2261;1y", "2261-01-01T00:00:00Z end"),
            ("2024;1M", "2024-01-01T00:00:00Z 2025-02-01T00:00:00Z"),
        ] {
            assert_eq!(shown(text), Some(vec![expected.to_string()]), "{text}");
        }
        assert_eq!(
            shown("2024-01-31T10;1h;1M;3"),
            Some(
                [
                    "2024-01-31T10:00:00Z 2024-01-31T12:00:00Z",
                    "2024-02-29T10:00:00Z 2024-02-29T12:00:00Z",
                    "2024-03-31T10:00:00Z 2024-03-31T12:00:00Z",
                ]
                .map(String::from)
                .to_vec()
            )
        );
    }

    #[test]
    fn other_text_is_none() {
        for text in [
            "",
            "20",
            "abc",
            "2024-13",
            "2024-08-08;",
            "2024;1x",
            "2024;1d;1y",
            "2024;1d;1y;0",
            "2024;1d;1y;1001",
            "2024;1d;1y;2;3",
            "2263",
            "9999-12-31",
            "2024-02-30",
            "2024-02-28T23:59:59.",
            "2024-02-28T00:00:00.0000000001",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
