//! Instants and ranges of them.

use std::fmt;

/// A half-open stretch of time `[from, to)`, in nanoseconds since the Unix epoch, UTC.
///
/// `TimeRange::ALL` holds every instant but `i64::MAX`, which no row may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimeRange {
    /// First instant inside.
    pub from: i64,
    /// First instant past it.
    pub to: i64,
}

impl TimeRange {
    /// Every instant a row can carry.
    pub const ALL: TimeRange = TimeRange { from: i64::MIN, to: i64::MAX };

    /// The range `[from, to)`; empty where `to <= from`.
    pub const fn new(from: i64, to: i64) -> Self {
        Self { from, to }
    }

    /// Whether no instant lies inside.
    pub const fn is_empty(&self) -> bool {
        self.to <= self.from
    }

    /// Whether `ts` lies inside.
    pub const fn contains(&self, ts: i64) -> bool {
        self.from <= ts && ts < self.to
    }

    /// Whether all of `other` lies inside.
    pub const fn covers(&self, other: &TimeRange) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// Whether some instant lies in both.
    pub const fn overlaps(&self, other: &TimeRange) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// The instants in both.
    #[must_use]
    pub fn intersect(&self, other: &TimeRange) -> TimeRange {
        TimeRange::new(self.from.max(other.from), self.to.min(other.to))
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", format_nanos(self.from), format_nanos(self.to))
    }
}

/// Days since 1970-01-01 of a civil date (proleptic Gregorian; month 1 to 12, day 1 to 31).
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y - era * 400;
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

/// The civil date (year, month, day) of a day since 1970-01-01; the inverse of `days_from_civil`.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z - era * 146_097;
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;
pub(crate) const DAY: i64 = 24 * HOUR;

/// ISO 8601 with nanoseconds and `Z` of an instant (ns since the Unix epoch), trailing zeros cut.
pub fn format_nanos(ts: i64) -> String {
    let (year, month, day) = civil_from_days(ts.div_euclid(DAY));
    let nanos = ts.rem_euclid(DAY);
    let (s, fraction) = (nanos / SECOND, nanos % SECOND);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    if fraction != 0 {
        text.push_str(format!(".{fraction:09}").trim_end_matches('0'));
    }
    text.push('Z');
    text
}
