//! Partitions: the time windows a table is cut into.

use crate::time::{DAY, HOUR, civil_from_days, days_from_civil};
use crate::{ModelError, Result, TimeRange};
use std::fmt;

/// The length of a table's partitions. Weeks start on Monday; all boundaries are UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PartitionBy {
    /// One partition for all rows (the only choice without a designated timestamp).
    None,
    /// An hour.
    Hour,
    /// A day: the default.
    #[default]
    Day,
    /// A week from Monday.
    Week,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

/// Days from the Monday 1969-12-29 to the epoch.
const WEEK_OFFSET_DAYS: i64 = 3;

impl PartitionBy {
    /// Every unit, shortest last.
    pub const ALL: [PartitionBy; 6] = [
        PartitionBy::None,
        PartitionBy::Hour,
        PartitionBy::Day,
        PartitionBy::Week,
        PartitionBy::Month,
        PartitionBy::Year,
    ];

    /// The SQL keyword.
    pub const fn name(self) -> &'static str {
        match self {
            PartitionBy::None => "NONE",
            PartitionBy::Hour => "HOUR",
            PartitionBy::Day => "DAY",
            PartitionBy::Week => "WEEK",
            PartitionBy::Month => "MONTH",
            PartitionBy::Year => "YEAR",
        }
    }

    /// The unit a SQL keyword names, in any case.
    ///
    /// # Errors
    /// [`ModelError::UnknownPartitionUnit`] for any other word.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|unit| unit.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ModelError::UnknownPartitionUnit { name: name.to_string() })
    }

    /// The partition that holds the instant `ts` (ns since the Unix epoch).
    ///
    /// Boundaries past what `i64` nanoseconds can hold are cut to its ends.
    pub fn partition_of(self, ts: i64) -> TimeRange {
        let uniform = |step: i64, offset: i64| {
            let index = (i128::from(ts) + i128::from(offset)).div_euclid(i128::from(step));
            let edge = |i: i128| clamp_nanos(i * i128::from(step) - i128::from(offset));
            TimeRange::new(edge(index), edge(index + 1))
        };
        let (year, month, _) = civil_from_days(ts.div_euclid(DAY));
        match self {
            PartitionBy::None => TimeRange::ALL,
            PartitionBy::Hour => uniform(HOUR, 0),
            PartitionBy::Day => uniform(DAY, 0),
            PartitionBy::Week => uniform(7 * DAY, WEEK_OFFSET_DAYS * DAY),
            PartitionBy::Month => {
                let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                TimeRange::new(day_start(year, month), day_start(next_year, next_month))
            }
            PartitionBy::Year => TimeRange::new(day_start(year, 1), day_start(year + 1, 1)),
        }
    }

    /// A name for the partition that starts at `from`: `2024-08-08`, `2024-08-08T13`, `2024-08`, `2024`,
    /// `all`; a week is named by its Monday. Fit for a folder, and in order of time within a table.
    pub fn label(self, from: i64) -> String {
        let (year, month, day) = civil_from_days(from.div_euclid(DAY));
        match self {
            PartitionBy::None => "all".to_string(),
            PartitionBy::Hour => {
                format!("{year:04}-{month:02}-{day:02}T{:02}", from.rem_euclid(DAY) / HOUR)
            }
            PartitionBy::Day | PartitionBy::Week => format!("{year:04}-{month:02}-{day:02}"),
            PartitionBy::Month => format!("{year:04}-{month:02}"),
            PartitionBy::Year => format!("{year:04}"),
        }
    }
}

impl fmt::Display for PartitionBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn day_start(year: i64, month: i64) -> i64 {
    clamp_nanos(i128::from(days_from_civil(year, month, 1)) * i128::from(DAY))
}

fn clamp_nanos(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
