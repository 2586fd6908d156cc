//! Lengths of time as SQL writes them: `5m`, `1d`, `3M`.

use chrono::{DateTime, Months};
use datafusion::common::ScalarValue;
use std::fmt;

/// A unit of time; case-sensitive in SQL (`m` is a minute, `M` a month).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// n
    Nanosecond,
    /// U (also u)
    Microsecond,
    /// T (also ms)
    Millisecond,
    /// s
    Second,
    /// m
    Minute,
    /// h
    Hour,
    /// d
    Day,
    /// w: seven days from Monday
    Week,
    /// M
    Month,
    /// y
    Year,
}

/// What a duration may look like, for hints.
pub(crate) const STRIDE_HINT: &str = "write a whole number and a unit, such as 5m or 5 minutes: n, U (µs), T (ms), s, m, h, d, w, M (month), y";

impl Unit {
    /// The unit a word names: a letter, or its name in any case, as PostgreSQL and TimescaleDB write them.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let named = word.to_ascii_lowercase();
        let named = named.strip_suffix('s').filter(|one| one.len() > 2).unwrap_or(&named);
        let named = match named {
            "nanosecond" => Some(Unit::Nanosecond),
            "microsecond" | "usec" => Some(Unit::Microsecond),
            "millisecond" | "msec" => Some(Unit::Millisecond),
            "second" | "sec" => Some(Unit::Second),
            "minute" | "min" => Some(Unit::Minute),
            "hour" => Some(Unit::Hour),
            "day" => Some(Unit::Day),
            "week" => Some(Unit::Week),
            "month" | "mon" => Some(Unit::Month),
            "year" => Some(Unit::Year),
            _ => None,
        };
        if named.is_some() {
            return named;
        }
        Some(match word {
            "n" | "ns" => Unit::Nanosecond,
            "U" | "u" | "us" | "µs" => Unit::Microsecond,
            "T" | "ms" => Unit::Millisecond,
            "s" => Unit::Second,
            "m" => Unit::Minute,
            "h" => Unit::Hour,
            "d" => Unit::Day,
            "w" => Unit::Week,
            "M" => Unit::Month,
            "y" => Unit::Year,
            _ => return None,
        })
    }

    /// Its fixed length in nanoseconds (a day is 24 hours), `None` for months and years.
    pub(crate) fn nanos(self) -> Option<i64> {
        Some(match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
            Unit::Hour => 3_600_000_000_000,
            Unit::Day => 86_400_000_000_000,
            Unit::Week => 604_800_000_000_000,
            Unit::Month | Unit::Year => return None,
        })
    }

    /// An instant (ns since the Unix epoch) moved by so many of it; months and years go by the calendar, to the last
    /// day of a shorter month. `None` outside the years 1677 to 2262.
    pub(crate) fn add(self, count: i64, instant: i64) -> Option<i64> {
        if let Some(nanos) = self.nanos() {
            return count.checked_mul(nanos).and_then(|by| instant.checked_add(by));
        }
        let months = count.checked_mul(if self == Unit::Year { 12 } else { 1 })?;
        let months = i32::try_from(months).ok()?;
        let (from, by) = (DateTime::from_timestamp_nanos(instant), Months::new(months.unsigned_abs()));
        let to = if months < 0 { from.checked_sub_months(by) } else { from.checked_add_months(by) };
        to?.timestamp_nanos_opt()
    }

    fn letter(self) -> char {
        match self {
            Unit::Nanosecond => 'n',
            Unit::Microsecond => 'U',
            Unit::Millisecond => 'T',
            Unit::Second => 's',
            Unit::Minute => 'm',
            Unit::Hour => 'h',
            Unit::Day => 'd',
            Unit::Week => 'w',
            Unit::Month => 'M',
            Unit::Year => 'y',
        }
    }
}

/// A positive whole number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stride {
    /// How many, at least 1.
    pub(crate) count: i64,
    /// Of what.
    pub(crate) unit: Unit,
}

impl Stride {
    /// A stride whose length in nanoseconds fits an `i64` (at most 292 years).
    pub(crate) fn new(count: i64, unit: Unit) -> Option<Self> {
        let day = 86_400_000_000_000;
        let size = unit.nanos().unwrap_or(if unit == Unit::Month { 30 * day } else { 365 * day });
        (count > 0 && count.checked_mul(size).is_some()).then_some(Self { count, unit })
    }

    /// Reads `5m`, `1 d`, `100T`, `0.5s`; a unit alone means one of it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((whole, rest)) = text.split_once('.') {
            return Self::of_fraction(whole, rest);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let count = if number.is_empty() { 1 } else { number.parse().ok()? };
        Self::new(count, Unit::parse(unit.trim())?)
    }

    /// A fraction of a unit, whole in a smaller one: `300.000s`, as dashboards write them.
    fn of_fraction(whole: &str, rest: &str) -> Option<Self> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        let (digits, unit) = rest.split_at(end);
        let unit = Unit::parse(unit.trim())?.nanos()?;
        let scale = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        let number: i128 = format!("{whole}{digits}").parse().ok()?;
        let nanos = number.checked_mul(i128::from(unit))?;
        let nanos = (nanos % scale == 0).then(|| i64::try_from(nanos / scale).ok())??;
        let units = [
            Unit::Day,
            Unit::Hour,
            Unit::Minute,
            Unit::Second,
            Unit::Millisecond,
            Unit::Microsecond,
            Unit::Nanosecond,
        ];
        let unit = units.into_iter().find(|unit| unit.nanos().is_some_and(|length| nanos % length == 0))?;
        Self::new(nanos / unit.nanos()?, unit)
    }

    /// Its length in nanoseconds, `None` for months and years.
    pub(crate) fn nanos(self) -> Option<i64> {
        self.unit.nanos().map(|unit| unit * self.count)
    }

    /// Its length in calendar months, `None` for shorter units.
    pub(crate) fn months(self) -> Option<i64> {
        match self.unit {
            Unit::Month => Some(self.count),
            Unit::Year => Some(self.count * 12),
            _ => None,
        }
    }
}

impl fmt::Display for Stride {
    /// The spelling [`Stride::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit.letter())
    }
}

/// The length of an interval without months.
pub(crate) fn interval_nanos(value: &ScalarValue) -> Option<i64> {
    const DAY: i64 = 86_400_000_000_000;
    match value {
        ScalarValue::IntervalMonthDayNano(Some(v)) if v.months == 0 => {
            i64::from(v.days).checked_mul(DAY)?.checked_add(v.nanoseconds)
        }
        ScalarValue::IntervalDayTime(Some(v)) => {
            i64::from(v.days).checked_mul(DAY)?.checked_add(i64::from(v.milliseconds) * 1_000_000)
        }
        ScalarValue::DurationNanosecond(Some(v)) => Some(*v),
        ScalarValue::DurationMicrosecond(Some(v)) => v.checked_mul(1_000),
        ScalarValue::DurationMillisecond(Some(v)) => v.checked_mul(1_000_000),
        ScalarValue::DurationSecond(Some(v)) => v.checked_mul(1_000_000_000),
        _ => None,
    }
}
