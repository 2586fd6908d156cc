//! Time buckets: the one bucketing that SAMPLE BY and `time_bucket` share.
//!
//! - Buckets count from 1970-01-01T00:00; weeks from Monday 1969-12-29; months and years from
//!   1970-01, so that 7m, 3d and 2w have one meaning.
//! - Strides of a day and longer follow the calendar of the zone, where a day may have 23 or 25 hours; a local midnight
//!   that a clock change skips is the first instant after it.
//! - Shorter ones begin whenever the clocks of the zone show a multiple of the stride, or jump over one: an hour that
//!   comes twice is two buckets of an hour, and of half days one has 11 or 13 hours.
//! - An offset moves every boundary.
//! - Where they count from the first row instead, its time is the first boundary; of months and years the
//!   others are the same day and time of later months, in a shorter month its last day.
//!
//! All instants are nanoseconds since the Unix epoch, UTC; boundaries past `i64` are cut to its ends.

use super::stride::{STRIDE_HINT, Stride, Unit};
use super::zone::{offset_at, offsets_of};
use chrono::{DateTime, Datelike, NaiveDate};
use chrono_tz::Tz;
use std::fmt;

const SECOND: i64 = 1_000_000_000;
const QUARTER: i64 = 900 * SECOND;
const DAY: i64 = 86_400 * SECOND;
/// From the epoch back to Monday 1969-12-29.
const WEEK_ORIGIN: i64 = -3 * DAY;

/// How instants fall into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bucketing {
    stride: Stride,
    /// What every boundary is moved by, ns.
    offset: i64,
    /// The zone whose calendar and clocks they follow; `None` is UTC.
    zone: Option<Tz>,
    origin: Origin,
}

/// What buckets count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    /// 1970.
    Epoch,
    /// The time of the first row, which is not known before rows are read.
    FirstRow,
    /// An instant, ns.
    Instant(i64),
}

impl Bucketing {
    /// Buckets of this stride in UTC.
    pub(crate) fn new(stride: Stride) -> Self {
        Self { stride, offset: 0, zone: None, origin: Origin::Epoch }
    }

    /// The same stride, counted from the time of the first row: [`Self::with_first`] must say which that is
    /// before anything is asked of the buckets but their width.
    #[must_use]
    pub(crate) fn counted_from_first(self) -> Self {
        Self { origin: Origin::FirstRow, ..Self::new(self.stride) }
    }

    /// Whether they count from the first row, and its time is not known yet.
    pub(crate) fn awaits_first(&self) -> bool {
        self.origin == Origin::FirstRow
    }

    /// The same buckets where they await the first row and this is its time; any others as they are.
    #[must_use]
    pub(crate) fn with_first(self, first: i64) -> Self {
        if !self.awaits_first() {
            return self;
        }
        let plain = Self::new(self.stride);
        match self.stride.nanos() {
            Some(step) => plain.with_offset(
                i64::try_from(
                    (i128::from(first) - i128::from(plain.uniform_origin())).rem_euclid(step.into()),
                )
                .unwrap_or(0),
            ),
            None => Self { origin: Origin::Instant(first), ..plain },
        }
    }

    /// Moves every boundary by so many nanoseconds.
    #[must_use]
    pub(crate) fn with_offset(mut self, offset: i64) -> Self {
        self.offset = offset;
        self
    }

    /// Takes the calendar and the clocks of a zone. Buckets that divide a quarter of an hour are the same in all zones.
    #[must_use]
    pub(crate) fn with_zone(mut self, zone: Tz) -> Self {
        let divides = !self.is_calendar() && self.stride.nanos().is_some_and(|step| QUARTER % step == 0);
        self.zone = (zone != Tz::UTC && !divides).then_some(zone);
        self
    }

    /// The same buckets, those under a day uniform in UTC whatever the zone.
    #[must_use]
    pub(crate) fn with_uniform_hours(mut self) -> Self {
        self.zone = self.zone.filter(|_| self.is_calendar());
        self
    }

    /// Whether days, weeks, months or years are counted, and no time on a clock.
    fn is_calendar(&self) -> bool {
        matches!(self.stride.unit, Unit::Day | Unit::Week | Unit::Month | Unit::Year)
    }

    /// The buckets that texts such as SAMPLE BY's describe.
    pub(crate) fn parse(stride: &str, zone: Option<&str>, offset: Option<&str>) -> Result<Self, String> {
        let parsed =
            Stride::parse(stride).ok_or_else(|| format!("'{stride}' is no duration; {STRIDE_HINT}"))?;
        let mut bucketing = Self::new(parsed);
        if let Some(offset) = offset {
            bucketing = bucketing.with_offset(parse_offset(offset)?);
        }
        if let Some(zone) = zone {
            let tz = zone.parse::<Tz>().map_err(|_| {
                format!("there is no time zone '{zone}'; names are those of the IANA database, such as Europe/Berlin")
            })?;
            bucketing = bucketing.with_zone(tz);
        }
        Ok(bucketing)
    }

    /// As a text, which [`Self::of_spelled`] reads; `None` where they do not count from 1970.
    pub(crate) fn spelled(&self) -> Option<String> {
        let zone = self.zone.map_or("", |zone| zone.name());
        (self.origin == Origin::Epoch).then(|| format!("{}|{zone}|{}", self.stride, self.offset))
    }

    /// Reads a text that [`Self::spelled`] made.
    pub(crate) fn of_spelled(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let mut bucketing = Self::new(Stride::parse(parts.next()?)?);
        if let Some(zone) = parts.next().filter(|zone| !zone.is_empty()) {
            bucketing = bucketing.with_zone(zone.parse().ok()?);
        }
        Some(bucketing.with_offset(parts.next()?.parse().ok()?))
    }

    /// Whether each bucket consists of whole buckets of another kind.
    pub(crate) fn consists_of(&self, other: &Self) -> bool {
        let whole = |of: i64, step: i64| of.rem_euclid(step) == 0;
        let Some(step) = other.width() else {
            // Days are what longer ones of the same calendar are made of.
            let is_day = other.stride.unit == Unit::Day && other.stride.count == 1;
            return is_day
                && self.is_calendar()
                && self.width().is_none()
                && (self.zone, self.offset) == (other.zone, other.offset);
        };
        let moved = self.offset.saturating_sub(other.uniform_origin());
        match (self.width(), self.zone) {
            (Some(own), _) => {
                let moved = self.uniform_origin().saturating_sub(other.uniform_origin());
                whole(own, step) && whole(moved, step)
            }
            (None, None) => whole(DAY, step) && whole(moved, step),
            // Clocks differ from UTC by quarters of an hour, and are put forward and back at one.
            (None, Some(_)) => {
                let counts =
                    [QUARTER, self.stride.nanos().unwrap_or(DAY), self.offset, other.uniform_origin()];
                counts.into_iter().all(|of| whole(of, step))
            }
        }
    }

    /// How long a bucket is at most (ns), and where one begins (ns since 1970) if all are that long.
    pub(crate) fn longest(&self) -> (i64, Option<i64>) {
        match self.width() {
            Some(step) => (step, Some(self.uniform_origin().rem_euclid(step))),
            None => {
                let months = || self.stride.months().unwrap_or(0).saturating_mul(31 * DAY);
                // A clock may be put back by as much as a day.
                (self.stride.nanos().unwrap_or_else(months).saturating_add(DAY), None)
            }
        }
    }

    /// The bucket that holds `ts`: its start and the start of the next one.
    pub(crate) fn bucket(&self, ts: i64) -> (i64, i64) {
        let start = self.start(ts);
        (start, self.next(start))
    }

    /// How long each bucket is, ns; `None` where they follow a calendar.
    pub(crate) fn width(&self) -> Option<i64> {
        self.stride.nanos().filter(|_| self.zone.is_none())
    }

    /// Start of the bucket that holds `ts`.
    pub(crate) fn start(&self, ts: i64) -> i64 {
        match (self.zone, self.stride.nanos()) {
            (None, Some(step)) => clamped(uniform_start(ts, step, self.uniform_origin())),
            (Some(_), Some(step)) if !self.is_calendar() => self.clock_start(ts, step),
            _ => self.edge(self.index(ts)),
        }
    }

    /// Whether the bucket that holds `ts` starts before all time.
    pub(crate) fn starts_before_time(&self, ts: i64) -> bool {
        match (self.zone, self.stride.nanos()) {
            (None, Some(step)) => uniform_start(ts, step, self.uniform_origin()) < i64::MIN.into(),
            _ => self.start(ts) == i64::MIN,
        }
    }

    /// Start of the bucket after the one that starts at `start`.
    pub(crate) fn next(&self, start: i64) -> i64 {
        match (self.zone, self.stride.nanos()) {
            // The first bucket of all time starts before it: what is known of it is where it would.
            (None, Some(step)) => {
                clamped(uniform_start(start, step, self.uniform_origin()) + i128::from(step))
            }
            (Some(_), Some(step)) if !self.is_calendar() => self.clock_next(start, step),
            _ => self.edge(self.index(start).saturating_add(1)),
        }
    }

    /// How long ago the clocks of the zone showed a multiple of the step, had they not been put forward or back, ns.
    fn since_mark(&self, ts: i64, step: i64) -> i128 {
        (self.local(ts) - i128::from(self.offset)).rem_euclid(step.into())
    }

    /// The last instant up to `ts` at which the clocks of the zone showed a multiple of the step, or jumped over one.
    fn clock_start(&self, ts: i64, step: i64) -> i64 {
        let mut ts = ts;
        loop {
            let mark = clamped(i128::from(ts) - self.since_mark(ts, step));
            if self.shift(mark) == self.shift(ts) {
                return mark;
            }
            let jump = self.jump_between(mark, ts);
            if self.jumps_a_mark(jump, step) {
                return jump;
            }
            ts = jump - 1;
        }
    }

    /// The first instant after `start` at which the clocks of the zone show a multiple of the step, or jump over one.
    fn clock_next(&self, start: i64, step: i64) -> i64 {
        let mut start = start;
        loop {
            let mark = clamped(i128::from(start) + i128::from(step) - self.since_mark(start, step));
            if self.shift(mark) == self.shift(start) {
                return mark;
            }
            let jump = self.jump_between(start, mark);
            if self.since_mark(jump, step) == 0 || self.jumps_a_mark(jump, step) {
                return jump;
            }
            start = jump;
        }
    }

    /// Whether the clocks of the zone are put over a multiple of the step at an instant.
    fn jumps_a_mark(&self, jump: i64, step: i64) -> bool {
        let mark = |ts: i64| self.local(ts) - self.since_mark(ts, step);
        mark(jump - 1) != mark(jump)
    }

    /// How many buckets start in `[start, end)`, `start` being one's start; `None` if more than `most`.
    pub(crate) fn count(&self, start: i64, end: i64, most: usize) -> Option<usize> {
        let (mut at, mut count) = (start, 0_usize);
        if let (None, Some(step)) = (self.zone, self.stride.nanos()) {
            let span = (i128::from(end) - i128::from(start)).max(0);
            let steps = (span + i128::from(step) - 1) / i128::from(step);
            return usize::try_from(steps).ok().filter(|steps| *steps <= most);
        }
        while at < end {
            count += 1;
            if count > most {
                return None;
            }
            at = self.next(at).max(at.saturating_add(1));
        }
        Some(count)
    }

    fn uniform_origin(&self) -> i64 {
        let origin = if self.stride.unit == Unit::Week { WEEK_ORIGIN } else { 0 };
        origin.saturating_add(self.offset)
    }

    /// Number of the calendar bucket that holds `ts`, from 0 at the origin.
    fn index(&self, ts: i64) -> i64 {
        if let (Origin::Instant(first), Some(months)) = (self.origin, self.stride.months()) {
            let about = (month_of(ts) - month_of(first)).div_euclid(months);
            // In the month of a boundary, what comes before it is of the bucket before.
            return if self.edge(about) > ts { about - 1 } else { about };
        }
        let local = self.local(ts) - i128::from(self.offset);
        let day = clamped(local.div_euclid(i128::from(DAY)));
        let index = match (self.stride.months(), self.stride.unit) {
            (Some(months), _) => months_of(date_of(day)).div_euclid(months),
            (None, Unit::Week) => (day + 3).div_euclid(self.stride.count * 7),
            (None, _) => day.div_euclid(self.stride.count),
        };
        // Clocks that are put back over a midnight show the day before again.
        let next = if self.zone.is_some() { self.edge(index.saturating_add(1)) } else { i64::MAX };
        if next <= ts && next < i64::MAX { index + 1 } else { index }
    }

    /// Start of the calendar bucket of this number.
    fn edge(&self, index: i64) -> i64 {
        if let (Origin::Instant(first), Some(months)) = (self.origin, self.stride.months()) {
            let beyond = if index < 0 { i64::MIN } else { i64::MAX };
            return Unit::Month.add(index.saturating_mul(months), first).unwrap_or(beyond);
        }
        let day = match (self.stride.months(), self.stride.unit) {
            (Some(months), _) => first_day_of_month(index.saturating_mul(months)),
            (None, Unit::Week) => index.saturating_mul(self.stride.count * 7).saturating_sub(3),
            (None, _) => index.saturating_mul(self.stride.count),
        };
        self.instant(i128::from(day) * i128::from(DAY) + i128::from(self.offset))
    }

    /// Local wall-clock time of an instant, as nanoseconds: in a zone it may lie past the ends of time.
    fn local(&self, ts: i64) -> i128 {
        i128::from(ts) + i128::from(self.shift(ts)) * i128::from(SECOND)
    }

    /// The seconds by which local clocks are ahead of UTC.
    fn shift(&self, ts: i64) -> i64 {
        self.zone.map_or(0, |zone| offset_at(&zone, DateTime::from_timestamp_nanos(ts).naive_utc()))
    }

    /// The first instant at or after a local wall-clock time.
    fn instant(&self, local: i128) -> i64 {
        let Some(zone) = self.zone else { return clamped(local) };
        let seconds = i64::try_from(local.div_euclid(SECOND.into())).ok();
        let naive = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0)).map(|at| at.naive_utc());
        let Some(naive) = naive else { return clamped(local) };
        if let Some(offset) = offsets_of(&zone, naive).earliest() {
            return clamped(local - i128::from(offset) * i128::from(SECOND));
        }
        // The clock jumps over this time: with the offset from before the jump it names an instant
        // after it; the jump itself lies where the offsets meet.
        let offset = offset_at(&zone, naive - chrono::TimeDelta::days(1));
        let after = clamped(local - i128::from(offset) * i128::from(SECOND));
        self.jump_between(after.saturating_sub(DAY), after)
    }

    /// The instant, to the second, at which local clocks are put from how they go at `low` to how they go at `high`.
    fn jump_between(&self, low: i64, high: i64) -> i64 {
        let (mut low, mut high) = (low, high);
        let after = self.shift(high);
        while high - low > SECOND {
            let middle = low + (high - low) / 2;
            if self.shift(middle) == after {
                high = middle;
            } else {
                low = middle;
            }
        }
        high.div_euclid(SECOND) * SECOND
    }
}

impl fmt::Display for Bucketing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stride)?;
        if let Some(zone) = self.zone {
            write!(f, " zone={zone}")?;
        }
        if self.offset != 0 {
            write!(f, " offset={}ns", self.offset)?;
        }
        if self.awaits_first() {
            f.write_str(" from the first row")?;
        }
        Ok(())
    }
}

/// Start of a bucket of one width, also where it lies before all time.
fn uniform_start(ts: i64, step: i64, origin: i64) -> i128 {
    match ts.checked_sub(origin) {
        Some(since) => i128::from(ts) - i128::from(since.rem_euclid(step)),
        None => {
            let since = i128::from(ts) - i128::from(origin);
            i128::from(ts) - since.rem_euclid(i128::from(step))
        }
    }
}

/// The instant, cut to the ends of time.
fn clamped(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

fn date_of(day: i64) -> NaiveDate {
    i32::try_from(day).ok().and_then(NaiveDate::from_epoch_days).unwrap_or_default()
}

/// Months since 1970-01.
fn months_of(date: NaiveDate) -> i64 {
    i64::from(date.year() - 1970) * 12 + i64::from(date.month0())
}

fn month_of(ts: i64) -> i64 {
    months_of(date_of(ts.div_euclid(DAY)))
}

fn first_day_of_month(month: i64) -> i64 {
    let year = i32::try_from(1970 + month.div_euclid(12)).unwrap_or(i32::MAX);
    let month0 = u32::try_from(month.rem_euclid(12)).unwrap_or(0);
    let beyond = if month < 0 { i64::MIN / DAY - 1 } else { i64::MAX / DAY + 1 };
    NaiveDate::from_ymd_opt(year, month0 + 1, 1).map_or(beyond, |date| i64::from(date.to_epoch_days()))
}

/// Reads `+hh:mm`, `-hh:mm`, `hh:mm[:ss]` or a fixed stride such as `30m`, `-2h` as nanoseconds.
pub(crate) fn parse_offset(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is no offset; write '+hh:mm', '-hh:mm' or a duration such as '30m'");
    let trimmed = text.trim();
    let (sign, rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    if !rest.contains(':') {
        return Stride::parse(rest).and_then(Stride::nanos).map(|ns| sign * ns).ok_or_else(wrong);
    }
    let mut seconds = 0_i64;
    let parts: Vec<&str> = rest.split(':').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    for (part, (unit, most)) in parts.iter().zip([(3_600, 99), (60, 59), (1, 59)]) {
        let value: i64 = part.parse().ok().filter(|v| (0..=most).contains(v)).ok_or_else(wrong)?;
        seconds += value * unit;
    }
    Ok(sign * seconds * 1_000_000_000)
}

#[cfg(test)]
mod tests;
