//! The patterns of PostgreSQL's `to_char`, `to_date` and `to_timestamp`: `YYYY-MM-DD HH24:MI:SS`.
//!
//! ```text
//! format -> parts (here) -> text of a time (write) | time of a text (read)
//! ```
//!
//! What is no pattern stands for itself, as does what is in double quotes. A pattern may follow `FM` (nothing is padded)
//! and be followed by `TH` or `th`.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// A field of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The last so many digits of the year.
    Year(u32),
    /// `2,024`.
    YearWithComma,
    /// The same of the year that the ISO week is of.
    IsoYear(u32),
    Month,
    MonthName(Case),
    MonthShort(Case),
    MonthRoman(Case),
    DayName(Case),
    DayShort(Case),
    DayOfYear,
    IsoDayOfYear,
    Day,
    /// 1 is Sunday.
    DayOfWeek,
    /// 1 is Monday.
    IsoDayOfWeek,
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    Century,
    JulianDay,
    Quarter,
    Hour12,
    Hour24,
    Minute,
    Second,
    /// So many digits after the point.
    Fraction(u32),
    SecondOfDay,
    /// AM, PM; with points `a.m.`.
    Meridian(Case, bool),
    /// AD, BC; with points `a.d.`.
    Era(Case, bool),
    /// `UTC`.
    Zone(Case),
    ZoneHour,
    ZoneMinute,
    /// `+00`, `+05:30`.
    Offset,
}

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Title,
    Lower,
}

use Case::{Lower, Title, Upper};

/// Of several that a text begins with, the longest is meant. Those of digits may be written in small letters, too.
const FIELDS: &[(&str, Field)] = &[
    ("Y,YYY", Field::YearWithComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("I", Field::IsoYear(1)),
    ("MM", Field::Month),
    ("DDD", Field::DayOfYear),
    ("IDDD", Field::IsoDayOfYear),
    ("DD", Field::Day),
    ("D", Field::DayOfWeek),
    ("ID", Field::IsoDayOfWeek),
    ("W", Field::WeekOfMonth),
    ("WW", Field::WeekOfYear),
    ("IW", Field::IsoWeek),
    ("CC", Field::Century),
    ("J", Field::JulianDay),
    ("Q", Field::Quarter),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("MI", Field::Minute),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("MS", Field::Fraction(3)),
    ("US", Field::Fraction(6)),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("FF7", Field::Fraction(7)),
    ("FF8", Field::Fraction(8)),
    ("FF9", Field::Fraction(9)),
    ("TZH", Field::ZoneHour),
    ("TZM", Field::ZoneMinute),
    ("OF", Field::Offset),
];

/// Those whose letters say how names are written.
const NAMES: &[(&str, Field)] = &[
    ("MONTH", Field::MonthName(Upper)),
    ("Month", Field::MonthName(Title)),
    ("month", Field::MonthName(Lower)),
    ("MON", Field::MonthShort(Upper)),
    ("Mon", Field::MonthShort(Title)),
    ("mon", Field::MonthShort(Lower)),
    ("RM", Field::MonthRoman(Upper)),
    ("rm", Field::MonthRoman(Lower)),
    ("DAY", Field::DayName(Upper)),
    ("Day", Field::DayName(Title)),
    ("day", Field::DayName(Lower)),
    ("DY", Field::DayShort(Upper)),
    ("Dy", Field::DayShort(Title)),
    ("dy", Field::DayShort(Lower)),
    ("AM", Field::Meridian(Upper, false)),
    ("PM", Field::Meridian(Upper, false)),
    ("am", Field::Meridian(Lower, false)),
    ("pm", Field::Meridian(Lower, false)),
    ("A.M.", Field::Meridian(Upper, true)),
    ("P.M.", Field::Meridian(Upper, true)),
    ("a.m.", Field::Meridian(Lower, true)),
    ("p.m.", Field::Meridian(Lower, true)),
    ("AD", Field::Era(Upper, false)),
    ("BC", Field::Era(Upper, false)),
    ("ad", Field::Era(Lower, false)),
    ("bc", Field::Era(Lower, false)),
    ("A.D.", Field::Era(Upper, true)),
    ("B.C.", Field::Era(Upper, true)),
    ("a.d.", Field::Era(Lower, true)),
    ("b.c.", Field::Era(Lower, true)),
    ("TZ", Field::Zone(Upper)),
    ("tz", Field::Zone(Lower)),
];

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Field {
        field: Field,
        /// Whether it is filled up to its width.
        padded: bool,
        /// TH or th after it.
        ordinal: Option<Case>,
    },
    /// What stands for itself.
    Text(String),
}

impl Field {
    fn is_digits(self) -> bool {
        !matches!(
            self,
            Field::MonthName(_)
                | Field::MonthShort(_)
                | Field::MonthRoman(_)
                | Field::DayName(_)
                | Field::DayShort(_)
                | Field::Meridian(..)
                | Field::Era(..)
                | Field::Zone(_)
                | Field::Offset
        )
    }

    /// The longest that a text begins with, and its length.
    fn first_of(format: &str) -> Option<(Self, usize)> {
        let begins = |pattern: &str| format.starts_with(pattern);
        let lower = |pattern: &str| begins(&pattern.to_lowercase());
        let digits = FIELDS.iter().filter(|(pattern, _)| begins(pattern) || lower(pattern));
        let names = NAMES.iter().filter(|(pattern, _)| begins(pattern));
        let longest = digits.chain(names).max_by_key(|(pattern, _)| pattern.len())?;
        Some((longest.1, longest.0.len()))
    }
}

/// The parts of a format.
pub(super) fn parts(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = format;
    let mut text = String::new();
    while let Some(first) = rest.chars().next() {
        let modifiers = ["FM", "fm", "TM", "tm"].into_iter().find(|modifier| rest.starts_with(modifier));
        let after = modifiers.map_or(rest, |_| &rest[2..]);
        if let Some((field, length)) = Field::first_of(after) {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            rest = &after[length..];
            let ordinals = [("TH", Upper), ("th", Lower)];
            let ordinal =
                ordinals.into_iter().find(|(suffix, _)| field.is_digits() && rest.starts_with(suffix));
            rest = ordinal.map_or(rest, |_| &rest[2..]);
            let ordinal = ordinal.map(|(_, case)| case);
            parts.push(Part::Field { field, padded: modifiers.is_none(), ordinal });
        } else if modifiers.is_some() || rest.starts_with("FX") || rest.starts_with("fx") {
            rest = &rest[2..];
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            text.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
        } else {
            // A quote after a backslash is one.
            let escaped = rest.starts_with("\\\"");
            text.push(if escaped { '"' } else { first });
            rest = &rest[if escaped { 2 } else { first.len_utf8() }..];
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

/// Whether a format has a pattern.
pub(super) fn has_field(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Field { .. }))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From Monday on.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Days from the one that Julian days count from to the day before the year 1.
const JULIAN: i64 = 1_721_425;

#[cfg(test)]
mod tests;
