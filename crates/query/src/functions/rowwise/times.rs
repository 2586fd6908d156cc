//! Functions of instants. All are of UTC but for the argument of `to_utc`.

use super::super::date_part::{Length, lengths};
use super::super::wall_time::{Twice, instant_of};
use super::super::zone::zone_of;
use super::{Rowwise, is_text, valid_rows};
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Weekday};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, Time64NanosecondArray,
    TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
    TimestampNanosecondType,
};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

pub(super) const INSTANT: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "date_diff",
        usage: "date_diff(unit, from, to)",
        about: "how many boundaries of a unit (year, quarter, month, week, day, hour, … nanosecond) lie between two instants",
        takes: unit_and_times,
        gives: |_| DataType::Int64,
        value: |args| between(args, Unit::boundaries),
    },
    Rowwise {
        name: "date_sub",
        usage: "date_sub(unit, from, to)",
        about: "how many whole units lie between two instants",
        takes: unit_and_times,
        gives: |_| DataType::Int64,
        value: |args| between(args, Unit::whole),
    },
    Rowwise {
        name: AGE,
        usage: "age(end, start)",
        about: "the years, months, days and the time from one instant to another, as a calendar counts them",
        takes: |types| match types {
            [end, start] if [end, start].iter().all(|of| is_time(of) || is_text(of)) => {
                Some(vec![day_or_instant(end), day_or_instant(start)])
            }
            _ => None,
        },
        gives: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        value: |args| {
            let one = |row: usize| age(moment(&args[0], row), moment(&args[1], row));
            let ages = valid_rows(args).map(|row| row.map(one).transpose());
            Ok(Arc::new(ages.collect::<Result<IntervalMonthDayNanoArray>>()?))
        },
    },
    Rowwise {
        name: "make_timestamp",
        usage: "make_timestamp(year, month, day, hour, minute, second) or make_timestamp(microseconds)",
        about: "the instant of a date and a time of day, or of microseconds since 1970",
        takes: |types| match types {
            [us] if us.is_integer() || us.is_null() => Some(vec![DataType::Int64]),
            [whole @ .., second] if whole.len() == 5 && second.is_numeric() => {
                let mut takes = vec![DataType::Int64; 5];
                takes.push(DataType::Float64);
                whole.iter().all(|of| of.is_integer() || of.is_null()).then_some(takes)
            }
            _ => None,
        },
        gives: |_| INSTANT,
        value: |args| {
            let number = |at: usize, row: usize| args[at].as_primitive::<Int64Type>().value(row);
            let made = |row: usize| match args {
                [_] => number(0, row).checked_mul(1_000).ok_or_else(outside),
                _ => {
                    let fields = [0, 1, 2, 3, 4].map(|at| number(at, row));
                    of_fields(fields, args[5].as_primitive::<Float64Type>().value(row))
                }
            };
            let instants = valid_rows(args).map(|row| row.map(made).transpose());
            Ok(Arc::new(instants.collect::<Result<TimestampNanosecondArray>>()?))
        },
    },
    Rowwise {
        name: "make_time",
        usage: "make_time(hour, minute, second)",
        about: "the TIME of an hour, a minute and a second, which may have a fraction",
        takes: |types| match types {
            [hour, minute, second]
                if [hour, minute].iter().all(|of| of.is_integer() || of.is_null())
                    && (second.is_numeric() || second.is_null()) =>
            {
                Some(vec![DataType::Int64, DataType::Int64, DataType::Float64])
            }
            _ => None,
        },
        gives: |_| DataType::Time64(TimeUnit::Nanosecond),
        value: |args| {
            let made = |row: usize| {
                let [hour, minute] = [0, 1].map(|at| args[at].as_primitive::<Int64Type>().value(row));
                let second = args[2].as_primitive::<Float64Type>().value(row);
                match of_fields([1970, 1, 1, hour, minute], second)? {
                    time @ ..DAY => Ok(time),
                    _ => exec_err!("{hour:02}:{minute:02}:{second} is no time of day"),
                }
            };
            let times = valid_rows(args).map(|row| row.map(made).transpose());
            Ok(Arc::new(times.collect::<Result<Time64NanosecondArray>>()?))
        },
    },
    Rowwise {
        name: "epoch_ms",
        usage: "epoch_ms(ts), epoch_ms(interval) or epoch_ms(n)",
        about: "whole milliseconds since 1970, or of a length of time, rounded down; of a number the instant",
        takes: time_or_number,
        gives: the_other,
        value: |args| since_epoch(args, 1_000_000),
    },
    Rowwise {
        name: "epoch_us",
        usage: "epoch_us(ts), epoch_us(interval) or epoch_us(n)",
        about: "whole microseconds since 1970, or of a length of time, rounded down; of a number the instant",
        takes: time_or_number,
        gives: the_other,
        value: |args| since_epoch(args, 1_000),
    },
    Rowwise {
        name: "epoch_ns",
        usage: "epoch_ns(ts), epoch_ns(interval) or epoch_ns(n)",
        about: "nanoseconds since 1970, or of a length of time; of a number the instant",
        takes: time_or_number,
        gives: the_other,
        value: |args| since_epoch(args, 1),
    },
    Rowwise {
        name: "to_utc",
        usage: "to_utc(ts, zone)",
        about: "the instant at which the clocks of a zone showed a wall time; of two the first, in a gap as the offset before it has it",
        takes: |types| match types {
            [of, zone] if (is_time(of) || is_text(of)) && is_text(zone) => {
                Some(vec![INSTANT, DataType::Utf8])
            }
            _ => None,
        },
        gives: |_| INSTANT,
        value: |args| {
            let (times, zones) =
                (args[0].as_primitive::<TimestampNanosecondType>(), args[1].as_string::<i32>());
            let mut zone: Option<(&str, Tz)> = None;
            let mut one = |row: usize| {
                let name = zones.value(row);
                let known = match zone {
                    Some((known, of)) if known == name => of,
                    _ => zone.insert((name, zone_of(name)?)).1,
                };
                instant_of(times.value(row), &known, Twice::First)
            };
            let instants = valid_rows(args).map(|row| row.map(&mut one).transpose());
            Ok(Arc::new(instants.collect::<Result<TimestampNanosecondArray>>()?))
        },
    },
    Rowwise {
        name: TRUNC_LONG,
        usage: "date_trunc(unit, ts)",
        about: "the start of the decade, century, millennium or ISO year that an instant is in",
        takes: |types| match types {
            [unit, of] if is_text(unit) && (is_time(of) || is_text(of)) => {
                Some(vec![DataType::Utf8, INSTANT])
            }
            _ => None,
        },
        gives: |_| INSTANT,
        value: |args| {
            let (units, times) =
                (args[0].as_string::<i32>(), args[1].as_primitive::<TimestampNanosecondType>());
            let starts = valid_rows(args)
                .map(|row| row.map(|row| start_of(units.value(row), times.value(row))).transpose());
            Ok(Arc::new(starts.collect::<Result<TimestampNanosecondArray>>()?))
        },
    },
];

/// `age` of two instants.
const AGE: &str = "__age";

/// As PostgreSQL counts: field by field, a day that is lacking from the month of the earlier instant.
fn age(end: i128, start: i128) -> Result<IntervalMonthDayNano> {
    let is_back = end < start;
    let (later, earlier) = if is_back { (start, end) } else { (end, start) };
    let (later, earlier) = (clock(later)?, clock(earlier)?);
    let of_day = |time: NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * SECOND + i64::from(time.nanosecond())
    };
    let month = |time: NaiveDateTime| time.year() * 12 + time.month0() as i32;
    let (mut months, mut days) = (month(later) - month(earlier), later.day() as i32 - earlier.day() as i32);
    let mut nanos = of_day(later) - of_day(earlier);
    if nanos < 0 {
        (nanos, days) = (nanos + DAY, days - 1);
    }
    if days < 0 {
        (days, months) = (days + i32::from(earlier.date().num_days_in_month()), months - 1);
    }
    let sign = if is_back { -1 } else { 1 };
    Ok(IntervalMonthDayNano::new(months * sign, days * sign, nanos * i64::from(sign)))
}

/// `date_trunc` to units longer than a year.
pub(crate) const TRUNC_LONG: &str = "__trunc_long";

/// Whether a unit is one of those.
pub(crate) fn is_long(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    unit == "isoyear" || matches!(Unit::of(&unit), Some(Unit::Months(months)) if months > 12)
}

/// The start of a unit that an instant is in: centuries from the years 1800, 1900, …, as in DuckDB.
fn start_of(unit: &str, ns: i64) -> Result<i64> {
    let date = DateTime::from_timestamp_nanos(ns).date_naive();
    let start = match Unit::of(unit) {
        Some(Unit::Months(months)) => {
            let years = i32::try_from(months / 12).unwrap_or(1);
            NaiveDate::from_ymd_opt(date.year().div_euclid(years) * years, 1, 1)
        }
        _ => NaiveDate::from_isoywd_opt(date.iso_week().year(), 1, Weekday::Mon),
    };
    let start = start.and_then(|start| start.and_time(NaiveTime::MIN).and_utc().timestamp_nanos_opt());
    start.ok_or_else(outside)
}

pub(super) fn outside() -> DataFusionError {
    exec_datafusion_err!("the instant lies outside the years 1677 to 2262")
}

pub(super) fn is_time(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

fn unit_and_times(types: &[DataType]) -> Option<Vec<DataType>> {
    let is_instant = |of: &DataType| is_time(of) || is_text(of);
    match types {
        [unit, from, to] if is_text(unit) && is_instant(from) && is_instant(to) => {
            Some(vec![DataType::Utf8, day_or_instant(from), day_or_instant(to)])
        }
        _ => None,
    }
}

/// A DATE stays one: it may lie where there are no instants, as the last day of what is valid for good, 9999-12-31.
fn day_or_instant(of: &DataType) -> DataType {
    if *of == DataType::Date32 { DataType::Date32 } else { INSTANT }
}

/// Nanoseconds from 1970 to an instant, or to the beginning of a day.
fn moment(times: &ArrayRef, row: usize) -> i128 {
    match times.as_primitive_opt::<Date32Type>() {
        Some(days) => i128::from(days.value(row)) * i128::from(DAY),
        None => times.as_primitive::<TimestampNanosecondType>().value(row).into(),
    }
}

/// What a calendar and a clock show then.
fn clock(ns: i128) -> Result<NaiveDateTime> {
    let second = i128::from(SECOND);
    let time = i64::try_from(ns.div_euclid(second))
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, ns.rem_euclid(second) as u32));
    let no_year =
        || exec_datafusion_err!("the day lies outside the years that are counted with, 262142 BC to 262142");
    time.map(|time| time.naive_utc()).ok_or_else(no_year)
}

fn time_or_number(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [of] if is_time(of) => Some(vec![INSTANT]),
        [of] if is_length(of) => Some(vec![of.clone()]),
        [of] if of.is_integer() || of.is_null() => Some(vec![DataType::Int64]),
        _ => None,
    }
}

fn the_other(types: &[DataType]) -> DataType {
    match types {
        [of] if is_time(of) || is_length(of) => DataType::Int64,
        _ => INSTANT,
    }
}

fn is_length(of: &DataType) -> bool {
    matches!(of, DataType::Duration(_) | DataType::Interval(_))
}

fn since_epoch(args: &[ArrayRef], unit_ns: i64) -> Result<ArrayRef> {
    if is_length(args[0].data_type()) {
        let units = |length: Length| {
            let units = length.total().div_euclid(unit_ns.into());
            i64::try_from(units).map_err(|_| exec_datafusion_err!("a length of time is past 64 bits"))
        };
        let units = lengths(&args[0])?.map(|length| length.map(units).transpose());
        return Ok(Arc::new(units.collect::<Result<Int64Array>>()?));
    }
    if let Some(times) = args[0].as_primitive_opt::<TimestampNanosecondType>() {
        let since = times.iter().map(|ns| ns.map(|ns| ns.div_euclid(unit_ns)));
        return Ok(Arc::new(since.collect::<Int64Array>()));
    }
    let numbers = args[0].as_primitive::<Int64Type>().iter();
    let instants = numbers.map(|n| n.map(|n| n.checked_mul(unit_ns).ok_or_else(outside)).transpose());
    Ok(Arc::new(instants.collect::<Result<TimestampNanosecondArray>>()?))
}

/// The instant of `[year, month, day, hour, minute]` and seconds.
fn of_fields([year, month, day, hour, minute]: [i64; 5], second: f64) -> Result<i64> {
    let no_date = || exec_datafusion_err!("{year:04}-{month:02}-{day:02} is no date");
    let no_time = || exec_datafusion_err!("{hour:02}:{minute:02}:{second} is no time of day");
    let unsigned = |n: i64| u32::try_from(n).ok();
    let date = i32::try_from(year)
        .ok()
        .zip(unsigned(month).zip(unsigned(day)))
        .and_then(|(year, (month, day))| NaiveDate::from_ymd_opt(year, month, day))
        .ok_or_else(no_date)?;
    if !(0.0..60.0).contains(&second) {
        return Err(no_time());
    }
    let time = unsigned(hour)
        .zip(unsigned(minute))
        .and_then(|(hour, minute)| NaiveTime::from_hms_opt(hour, minute, 0))
        .ok_or_else(no_time)?;
    let start = date.and_time(time).and_utc().timestamp_nanos_opt().ok_or_else(outside)?;
    start.checked_add((second * SECOND as f64).round() as i64).ok_or_else(outside)
}

/// A unit of time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// So many nanoseconds; the first begins so many before 1970.
    Fixed(i64, i64),
    Months(i64),
}

impl Unit {
    /// The unit of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        const HOUR: i64 = 3_600 * SECOND;
        let name = name.to_lowercase();
        Some(match name.as_str() {
            "nanosecond" | "nanoseconds" | "ns" => Unit::Fixed(1, 0),
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Unit::Fixed(1_000, 0),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Unit::Fixed(1_000_000, 0),
            "second" | "seconds" | "sec" | "secs" | "s" => Unit::Fixed(SECOND, 0),
            "minute" | "minutes" | "min" | "mins" | "m" => Unit::Fixed(60 * SECOND, 0),
            "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Fixed(HOUR, 0),
            "day" | "days" | "d" | "dayofmonth" => Unit::Fixed(DAY, 0),
            // 1970 began on a Thursday.
            "week" | "weeks" | "w" | "weekofyear" => Unit::Fixed(7 * DAY, 3 * DAY),
            "month" | "months" | "mon" | "mons" => Unit::Months(1),
            "quarter" | "quarters" => Unit::Months(3),
            "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12),
            "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
            "century" | "centuries" | "cent" | "c" => Unit::Months(1_200),
            "millennium" | "millennia" | "mil" | "mils" => Unit::Months(12_000),
            _ => return None,
        })
    }

    /// Boundaries after `from`, up to `to`; `None` where they are more than a BIGINT counts.
    fn boundaries(self, from: i128, to: i128) -> Result<Option<i64>> {
        let place = |ns: i128| -> Result<i128> {
            Ok(match self {
                Unit::Fixed(length, before) => (ns + i128::from(before)).div_euclid(length.into()),
                Unit::Months(months) => months_of(clock(ns)?).div_euclid(months).into(),
            })
        };
        Ok(i64::try_from(place(to)? - place(from)?).ok())
    }

    /// Whole units from one to the other; `None` where they are more than a BIGINT counts.
    fn whole(self, from: i128, to: i128) -> Result<Option<i64>> {
        Ok(match self {
            Unit::Fixed(length, _) => i64::try_from((to - from) / i128::from(length)).ok(),
            Unit::Months(_) if from > to => self.whole(to, from)?.map(|whole| -whole),
            Unit::Months(months) => {
                let (start, end) = (clock(from)?, clock(to)?);
                let between = months_of(end) - months_of(start);
                let reached =
                    u32::try_from(between).ok().and_then(|n| start.checked_add_months(Months::new(n)));
                let whole = match reached {
                    Some(reached) if reached <= end => between,
                    _ => between - 1,
                };
                Some(whole / months)
            }
        })
    }
}

/// Months since the year 0.
fn months_of(time: NaiveDateTime) -> i64 {
    i64::from(time.year()) * 12 + i64::from(time.month0())
}

fn between(args: &[ArrayRef], count: fn(Unit, i128, i128) -> Result<Option<i64>>) -> Result<ArrayRef> {
    let units = args[0].as_string::<i32>();
    let one = |row: usize| match Unit::of(units.value(row)) {
        Some(unit) => match count(unit, moment(&args[1], row), moment(&args[2], row))? {
            Some(count) => Ok(count),
            None => exec_err!(
                "more than a BIGINT counts lie between two instants, in units of {}",
                units.value(row)
            ),
        },
        None => exec_err!(
            "there is no unit '{}': units are year, quarter, month, week, day, hour, minute, second, millisecond, microsecond and nanosecond",
            units.value(row)
        ),
    };
    let counts = valid_rows(args).map(|row| row.map(one).transpose());
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}
