//! Times and lengths of time as PostgreSQL's clients write them ("Date/Time Types", "Date/Time Input").

use super::NoValue;
use tickstone_model::days_from_civil;
use tickstone_wire::parse_iso;

const INVALID: &str = "22007";
const OUT_OF_RANGE: &str = "22008";
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Most digits before the point of a number of a length: 292 years have fewer, in microseconds too.
const WHOLE_DIGITS_MAX: usize = 16;

/// The first and the last day that drivers have, which stand for the infinities.
pub(super) const FIRST_DAY: i32 = -719_162;
pub(super) const LAST_DAY: i32 = 2_932_896;

/// Nanoseconds since 1970. A type without a zone has no use for an offset, as PostgreSQL has it; one with a zone takes it
/// off, and is UTC where there is none.
pub(super) fn instant(text: &str, has_zone: bool) -> Result<i64, NoValue> {
    if infinity(text).is_some() {
        return Err(out_of_years());
    }
    let (local, offset) = split_offset(text, 10)?;
    let nanos = parse_iso(local.as_bytes()).ok_or_else(|| match in_2000(local) {
        Some(_) => out_of_years(),
        None => invalid("2024-08-08 09:30:00.5"),
    })?;
    match has_zone {
        true => nanos.checked_sub(offset).ok_or_else(out_of_years),
        false => Ok(nanos),
    }
}

/// Days since 1970; what follows the day is left out.
pub(super) fn date(text: &str) -> Result<i32, NoValue> {
    if let Some(infinity) = infinity(text) {
        return Ok(infinity);
    }
    let (local, _) = split_offset(text, 10)?;
    // The year 2000 has every day that there is.
    in_2000(local).ok_or_else(|| invalid("2024-08-08"))?;
    let number = |from: usize, to: usize| local.get(from..to).and_then(|digits| digits.parse::<i64>().ok());
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return Err(invalid("2024-08-08"));
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if year == 0 || (month, day) == (2, 29) && !is_leap {
        return Err((OUT_OF_RANGE, "no calendar has this day".to_string()));
    }
    i32::try_from(days_from_civil(year, month, day)).map_err(|_| invalid("2024-08-08"))
}

/// Nanoseconds since midnight; an offset is left out.
pub(super) fn time(text: &str) -> Result<i64, NoValue> {
    let (local, _) = split_offset(text, 0)?;
    let nanos = parse_iso(format!("1970-01-01T{local}").as_bytes());
    nanos.filter(|nanos| (0..DAY).contains(nanos)).ok_or_else(|| {
        let is_clock = local.split([':', '.']).all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        match is_clock && local.contains(':') {
            true => (OUT_OF_RANGE, "a day has the times 00:00 to 23:59:59.999999999".to_string()),
            false => invalid("09:30:00.5"),
        }
    })
}

/// Nanoseconds of a length: `1 day 02:03:04.5`, `-1 day, 23:00:00`, `90 minutes ago`, `P1DT2H`.
pub(super) fn length(text: &str) -> Result<i64, NoValue> {
    let lower = text.to_ascii_lowercase().replace(',', " ");
    let plain = lower.trim().trim_start_matches('@');
    let (plain, sign) = match plain.trim_end().strip_suffix("ago") {
        Some(rest) => (rest, -1),
        None => (plain, 1),
    };
    let nanos = match plain.trim().strip_prefix('p') {
        Some(designators) => of_designators(designators),
        None => of_words(plain),
    };
    let nanos = nanos? * sign;
    i64::try_from(nanos).map_err(|_| too_long())
}

/// `1 day 02:03:04`, units behind their numbers; a number alone counts seconds.
fn of_words(text: &str) -> Result<i128, NoValue> {
    let mut words = text.split_whitespace().peekable();
    let (mut sum, mut any) = (0_i128, false);
    while let Some(word) = words.next() {
        any = true;
        if word.contains(':') {
            sum += clock(word)?;
            continue;
        }
        // `5min` is one word.
        let digits = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(digits);
        let unit = match unit {
            "" => words.next_if(|next| next.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or("s"),
            unit => unit,
        };
        sum += times(number, unit_of(unit)?)?;
    }
    if any { Ok(sum) } else { Err(no_length()) }
}

/// What follows the P of ISO 8601: `1dt2h30m`.
fn of_designators(text: &str) -> Result<i128, NoValue> {
    let (mut sum, mut rest, mut in_day, mut any) = (0_i128, text, false, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('t') {
            (rest, in_day) = (after, true);
            continue;
        }
        let at = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(no_length)?;
        let unit = match (&rest[at..=at], in_day) {
            ("w", false) => Some(7 * DAY),
            ("d", false) => Some(DAY),
            ("y" | "m", false) => None,
            ("h", true) => Some(HOUR),
            ("m", true) => Some(MINUTE),
            ("s", true) => Some(SECOND),
            _ => return Err(no_length()),
        };
        sum += times(&rest[..at], unit)?;
        (rest, any) = (&rest[at + 1..], true);
    }
    if any { Ok(sum) } else { Err(no_length()) }
}

/// `[-]02:03[:04[.5]]`, hours without end.
fn clock(text: &str) -> Result<i128, NoValue> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let mut sum = 0;
    for (unit, limit) in [(HOUR, None), (MINUTE, Some(HOUR)), (SECOND, Some(MINUTE))] {
        let Some(part) = parts.next() else { break };
        let value = Some(part).filter(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        let value = times(value.ok_or_else(no_length)?, Some(unit))?;
        if limit.is_some_and(|limit| value >= i128::from(limit)) {
            return Err((OUT_OF_RANGE, "minutes and seconds are less than 60".to_string()));
        }
        sum += value;
    }
    if parts.next().is_some() { Err(no_length()) } else { Ok(sum * sign) }
}

/// Nanoseconds of a unit; `None` for months and what is made of them.
fn unit_of(word: &str) -> Result<Option<i64>, NoValue> {
    Ok(Some(match word {
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" => 1_000,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR,
        "d" | "day" | "days" => DAY,
        "w" | "week" | "weeks" => 7 * DAY,
        "mon" | "mons" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years" | "decade"
        | "decades" | "century" | "centuries" => return Ok(None),
        _ => return Err(no_length()),
    }))
}

/// A number of a unit. No months are no time; others have no length.
fn times(number: &str, unit: Option<i64>) -> Result<i128, NoValue> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err(no_length());
    }
    if whole.len() > WHOLE_DIGITS_MAX {
        return Err(too_long());
    }
    // What is finer than a nanosecond of a week does not count.
    let fraction = &fraction[..fraction.len().min(18)];
    let value: i128 = format!("{whole}{fraction}").parse().map_err(|_| no_length())?;
    match unit {
        None if value != 0 => Err(("0A000", "months have no length: say days".to_string())),
        None => Ok(0),
        Some(unit) => {
            let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or_default());
            let nanos = value.checked_mul(i128::from(unit)).ok_or_else(too_long)?;
            Ok(sign * nanos / scale)
        }
    }
}

/// The day that an infinity stands for.
fn infinity(text: &str) -> Option<i32> {
    match text.to_ascii_lowercase().as_str() {
        "infinity" | "+infinity" => Some(LAST_DAY),
        "-infinity" => Some(FIRST_DAY),
        _ => None,
    }
}

/// The same instant of the year 2000, where the text is one.
fn in_2000(text: &str) -> Option<i64> {
    let year = text.get(..4).filter(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
    parse_iso(format!("2000{}", &text[year?.len()..]).as_bytes())
}

/// A time and the nanoseconds east of UTC that it says behind `from`: `+02`, `-04:30`, `+00:53:28`, `Z`.
fn split_offset(text: &str, from: usize) -> Result<(&str, i64), NoValue> {
    let behind = text.get(from..).unwrap_or_default();
    let lower = text.to_ascii_lowercase();
    for zone in ["z", "utc", "gmt"] {
        if behind.len() >= zone.len() && lower.ends_with(zone) {
            return Ok((text[..text.len() - zone.len()].trim_end(), 0));
        }
    }
    let Some(at) = behind.find(['+', '-']) else { return Ok((text, 0)) };
    let (local, offset) = text.split_at(from + at);
    let wrong = || (INVALID, format!("'{offset}' is no offset from UTC, as +02:00 is"));
    let digits = offset[1..].replace(':', "");
    if !matches!(digits.len(), 2 | 4 | 6) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let part = |place: usize| digits.get(place..place + 2).map_or(Ok(0), str::parse::<i64>);
    let (Ok(hours), Ok(minutes), Ok(seconds)) = (part(0), part(2), part(4)) else { return Err(wrong()) };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(wrong());
    }
    let nanos = hours * HOUR + minutes * MINUTE + seconds * SECOND;
    Ok((local.trim_end(), if offset.starts_with('-') { -nanos } else { nanos }))
}

pub(super) fn out_of_years() -> NoValue {
    (OUT_OF_RANGE, "it is not between the years 1677 and 2262".to_string())
}

pub(super) fn too_long() -> NoValue {
    (OUT_OF_RANGE, "it is longer than 292 years".to_string())
}

fn invalid(example: &str) -> NoValue {
    (INVALID, format!("it is not written as {example} is"))
}

fn no_length() -> NoValue {
    (INVALID, "it is not written as '1 day 02:03:04' is".to_string())
}

#[cfg(test)]
mod tests;
