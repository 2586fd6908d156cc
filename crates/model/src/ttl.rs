//! How long a table keeps its rows.

use crate::time::{DAY, HOUR, SECOND, civil_from_days, days_from_civil};
use crate::{ModelError, Result};
use std::fmt;

/// What a time to live is counted in. Months and years are those of the calendar, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TtlUnit {
    /// Nanoseconds.
    Nanosecond,
    /// Seconds.
    Second,
    /// Minutes.
    Minute,
    /// Hours.
    Hour,
    /// Days of 24 hours.
    Day,
    /// Seven days.
    Week,
    /// Calendar months.
    Month,
    /// Calendar years.
    Year,
}

impl TtlUnit {
    /// All units, with the letter they are written by (that of SAMPLE BY) and the word.
    const ALL: [(TtlUnit, &'static str, &'static str); 8] = [
        (TtlUnit::Nanosecond, "n", "nanosecond"),
        (TtlUnit::Second, "s", "second"),
        (TtlUnit::Minute, "m", "minute"),
        (TtlUnit::Hour, "h", "hour"),
        (TtlUnit::Day, "d", "day"),
        (TtlUnit::Week, "w", "week"),
        (TtlUnit::Month, "M", "month"),
        (TtlUnit::Year, "y", "year"),
    ];

    fn parse(text: &str) -> Option<Self> {
        let word = text.to_ascii_lowercase();
        let singular = word.strip_suffix('s').unwrap_or(&word);
        let found = Self::ALL.into_iter().find(|(_, letter, name)| *letter == text || *name == singular);
        found.map(|(unit, _, _)| unit)
    }

    fn letter(self) -> &'static str {
        Self::ALL.into_iter().find(|(unit, _, _)| *unit == self).map_or("", |(_, letter, _)| letter)
    }

    /// Nanoseconds of a unit of fixed length, `None` for those of the calendar.
    fn fixed_ns(self) -> Option<i64> {
        Some(match self {
            TtlUnit::Nanosecond => 1,
            TtlUnit::Second => SECOND,
            TtlUnit::Minute => 60 * SECOND,
            TtlUnit::Hour => HOUR,
            TtlUnit::Day => DAY,
            TtlUnit::Week => 7 * DAY,
            TtlUnit::Month | TtlUnit::Year => return None,
        })
    }
}

/// A table's time to live: a partition that ends this long, or longer, before the newest row is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ttl {
    count: u32,
    unit: TtlUnit,
}

impl Ttl {
    /// A time to live of `count` units.
    ///
    /// # Errors
    /// [`ModelError::UnknownTtl`] for a count of 0.
    pub fn new(count: u32, unit: TtlUnit) -> Result<Self> {
        let ttl = Self { count, unit };
        if count == 0 { Err(ModelError::UnknownTtl { text: ttl.to_string() }) } else { Ok(ttl) }
    }

    /// Reads `30d`, `12 hours`, `6M`, `1 year`: a count from 1, then a unit as SAMPLE BY has it (`m` is a
    /// minute, `M` a month) or its name.
    ///
    /// # Errors
    /// [`ModelError::UnknownTtl`].
    pub fn parse(text: &str) -> Result<Self> {
        let unknown = || ModelError::UnknownTtl { text: text.to_string() };
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(unknown)?;
        let (count, unit) = trimmed.split_at(digits);
        let unit = TtlUnit::parse(unit.trim()).ok_or_else(unknown)?;
        count.parse().ok().and_then(|count| Self::new(count, unit).ok()).ok_or_else(unknown)
    }

    /// The instant (ns since the Unix epoch) this long before `ts`, cut to what `i64` holds. A month
    /// before the 31st is the last day of a shorter month.
    pub fn before(self, ts: i64) -> i64 {
        let count = i64::from(self.count);
        let nanos = match self.unit.fixed_ns() {
            Some(unit_ns) => i128::from(ts) - i128::from(count) * i128::from(unit_ns),
            None => {
                let months = if self.unit == TtlUnit::Year { 12 * count } else { count };
                let (year, month, day) = civil_from_days(ts.div_euclid(DAY));
                let total = year * 12 + (month - 1) - months;
                let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
                let first = days_from_civil(year, month, 1);
                let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                let length = days_from_civil(next.0, next.1, 1) - first;
                let days = first + day.min(length) - 1;
                i128::from(days) * i128::from(DAY) + i128::from(ts.rem_euclid(DAY))
            }
        };
        i64::try_from(nanos).unwrap_or(i64::MIN)
    }
}

impl fmt::Display for Ttl {
    /// The short form; [`Ttl::parse`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit.letter())
    }
}

#[cfg(test)]
mod tests;
