//! The text of a time.

use super::{Case, DAYS, Field, JULIAN, MONTHS, Part, ROMAN};
use chrono::{Datelike, NaiveDateTime, Timelike};
use std::fmt::Write;

/// Writes a time in UTC by a format.
pub(in super::super) fn write(parts: &[Part], time: NaiveDateTime, text: &mut String) {
    for part in parts {
        match part {
            Part::Text(of) => text.push_str(of),
            Part::Field { field, padded, ordinal } => {
                let begins = text.len();
                one(*field, *padded, time, text);
                if let Some(case) = ordinal {
                    let suffix = suffix_of(&text[begins..]);
                    text.push_str(if *case == Case::Upper { suffix.0 } else { suffix.1 });
                }
            }
        }
    }
}

fn one(field: Field, padded: bool, time: NaiveDateTime, text: &mut String) {
    let (year, week) = (i64::from(time.year()), time.iso_week());
    let from_monday = time.weekday().num_days_from_monday();
    let last = |year: i64, count: u32| (year.rem_euclid(10_i64.pow(count.min(4))), count as usize);
    let (number, width) = match field {
        Field::Year(4) => (year, 4),
        Field::Year(count) => last(year, count),
        Field::IsoYear(4) => (week.year().into(), 4),
        Field::IsoYear(count) => last(week.year().into(), count),
        Field::Month => (time.month().into(), 2),
        Field::DayOfYear => (time.ordinal().into(), 3),
        Field::IsoDayOfYear => (i64::from(week.week0() * 7 + from_monday + 1), 3),
        Field::Day => (time.day().into(), 2),
        Field::DayOfWeek => (i64::from(time.weekday().num_days_from_sunday()) + 1, 1),
        Field::IsoDayOfWeek => (i64::from(from_monday) + 1, 1),
        Field::WeekOfMonth => (i64::from(time.day0() / 7) + 1, 1),
        Field::WeekOfYear => (i64::from(time.ordinal0() / 7) + 1, 2),
        Field::IsoWeek => (week.week().into(), 2),
        Field::Century => ((year - 1).div_euclid(100) + 1, 2),
        Field::JulianDay => (i64::from(time.num_days_from_ce()) + JULIAN, 1),
        Field::Quarter => (i64::from(time.month0() / 3) + 1, 1),
        Field::Hour12 => (time.hour12().1.into(), 2),
        Field::Hour24 => (time.hour().into(), 2),
        Field::Minute => (time.minute().into(), 2),
        Field::Second => (time.second().into(), 2),
        Field::SecondOfDay => (time.num_seconds_from_midnight().into(), 1),
        Field::Fraction(count) => {
            let fraction = i64::from(time.nanosecond()) / 10_i64.pow(9 - count.min(9));
            // All digits, also where nothing is padded.
            let _ = write!(text, "{fraction:0width$}", width = count as usize);
            return;
        }
        Field::ZoneMinute => (0, 2),
        other => return named(other, padded, time, text),
    };
    let width = if padded { width } else { 0 };
    // A String takes everything.
    let _ = write!(text, "{number:0width$}");
}

fn named(field: Field, padded: bool, time: NaiveDateTime, text: &mut String) {
    let month = MONTHS[time.month0() as usize];
    let day = DAYS[time.weekday().num_days_from_monday() as usize];
    let meridian = if time.hour() < 12 { ["AM", "A.M."] } else { ["PM", "P.M."] };
    let (name, case, width) = match field {
        Field::YearWithComma => {
            let _ = write!(text, "{},{:03}", time.year() / 1_000, time.year() % 1_000);
            return;
        }
        Field::MonthName(case) => (month, case, 9),
        Field::MonthShort(case) => (&month[..3], case, 0),
        Field::MonthRoman(case) => (ROMAN[time.month0() as usize], case, 4),
        Field::DayName(case) => (day, case, 9),
        Field::DayShort(case) => (&day[..3], case, 0),
        Field::Meridian(case, points) => (meridian[usize::from(points)], case, 0),
        Field::Era(case, points) => (["AD", "A.D."][usize::from(points)], case, 0),
        Field::Zone(case) => ("UTC", case, 0),
        _ => ("+00", Case::Title, 0),
    };
    let begins = text.len();
    match case {
        Case::Upper => text.extend(name.chars().map(|c| c.to_ascii_uppercase())),
        Case::Title => text.push_str(name),
        Case::Lower => text.extend(name.chars().map(|c| c.to_ascii_lowercase())),
    }
    while padded && text.len() < begins + width {
        text.push(' ');
    }
}

/// What follows a number: in large and in small letters.
fn suffix_of(digits: &str) -> (&'static str, &'static str) {
    let tens = digits.len() > 1 && digits.as_bytes().get(digits.len() - 2) == Some(&b'1');
    match digits.bytes().last() {
        Some(b'1') if !tens => ("ST", "st"),
        Some(b'2') if !tens => ("ND", "nd"),
        Some(b'3') if !tens => ("RD", "rd"),
        _ => ("TH", "th"),
    }
}
