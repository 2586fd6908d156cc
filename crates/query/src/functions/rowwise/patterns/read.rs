//! The time of a text, as PostgreSQL reads it: spaces before a field are passed over, a separator of the format is any
//! separator of the text or none, what the text lacks is the first of it, and what follows is not looked at.

use super::{DAYS, Field, JULIAN, MONTHS, Part, ROMAN};
use chrono::{Days, NaiveDate, NaiveDateTime, NaiveTime, Weekday};

/// What was read.
#[derive(Debug, Default)]
struct Found {
    year: Option<i32>,
    iso_year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    iso_day_of_year: Option<u32>,
    iso_week: Option<u32>,
    /// From Monday on, 0 to 6.
    weekday: Option<u32>,
    week: Option<u32>,
    week_of_month: Option<u32>,
    julian_day: Option<i64>,
    hour: Option<u32>,
    /// An hour of 12, and whether it is after noon.
    hour12: Option<u32>,
    after_noon: Option<bool>,
    minute: Option<u32>,
    second: Option<u32>,
    nanos: Option<u32>,
    second_of_day: Option<u32>,
    before_christ: bool,
    /// The minutes by which the clock is ahead of UTC.
    ahead: i64,
}

/// Reads a text by a format; what is wrong with it where it is not of that.
pub(in super::super) fn read(parts: &[Part], text: &str) -> Result<NaiveDateTime, String> {
    let (mut found, mut rest) = (Found::default(), text);
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(literal) => {
                let has_sign = matches!(
                    parts.get(at + 1),
                    Some(Part::Field { field: Field::ZoneHour | Field::Offset | Field::Zone(_), .. })
                );
                rest = after(literal, has_sign, rest);
            }
            Part::Field { field, ordinal, .. } => {
                rest = rest.trim_start();
                if rest.is_empty() {
                    break;
                }
                let next = parts.get(at + 1);
                let adjoins = matches!(next, Some(Part::Field { field, .. }) if field.is_digits());
                rest = found.read(*field, adjoins, rest)?;
                if ordinal.is_some() {
                    rest = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                }
            }
        }
    }
    found.time()
}

/// The text after what stands for itself in the format; `has_sign`: before a field that may begin with one.
fn after<'t>(literal: &str, has_sign: bool, text: &'t str) -> &'t str {
    let mut rest = text;
    for wanted in literal.chars() {
        let Some(c) = rest.chars().next() else { break };
        let separates = |c: char| !c.is_alphanumeric();
        if separates(wanted) {
            if separates(c) && !(has_sign && "+-".contains(c)) {
                rest = &rest[c.len_utf8()..];
            }
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    rest
}

/// The digits that a text begins with, at most so many.
fn digits(text: &str, most: usize) -> (&str, &str) {
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// The place of the name, or of its first letters, that a text begins with, in any case; of several the longest.
fn name<'t>(names: &[&str], letters: Option<usize>, text: &'t str) -> Option<(u32, &'t str)> {
    let begins = |name: &&str| text.get(..name.len()).is_some_and(|of| of.eq_ignore_ascii_case(name));
    let places = (0..).zip(names).map(|(place, name)| (place, letters.map_or(*name, |count| &name[..count])));
    let longest = places.filter(|(_, name)| begins(name)).max_by_key(|(_, name)| name.len())?;
    Some((longest.0, &text[longest.1.len()..]))
}

impl Found {
    fn read<'t>(&mut self, field: Field, adjoins: bool, text: &'t str) -> Result<&'t str, String> {
        let wrong = |what: &str| format!("'{text}' does not begin with {what}");
        let (written, rest) = match field {
            Field::Year(4) | Field::IsoYear(4) if !adjoins => digits(text, 9),
            Field::Year(count) | Field::IsoYear(count) => digits(text, count as usize),
            Field::JulianDay => digits(text, 9),
            Field::DayOfYear | Field::IsoDayOfYear => digits(text, 3),
            Field::SecondOfDay => digits(text, 5),
            Field::Fraction(count) => {
                let (read, rest) = digits(text, count as usize);
                // More digits than are asked for.
                (read, rest.trim_start_matches(|c: char| c.is_ascii_digit() && !adjoins))
            }
            Field::DayOfWeek | Field::IsoDayOfWeek | Field::WeekOfMonth | Field::Quarter => digits(text, 1),
            field if field.is_digits() && !matches!(field, Field::YearWithComma | Field::ZoneHour) => {
                digits(text, 2)
            }
            field => return self.named(field, text).ok_or_else(|| wrong("what the format has there")),
        };
        let number: u32 = written.parse().map_err(|_| wrong("a number"))?;
        let within = |low: u32, high: u32| match (low..=high).contains(&number) {
            true => Ok(Some(number)),
            false => Err(format!("{number} is not between {low} and {high}")),
        };
        match field {
            Field::Year(_) => self.year = Some(year_of(number, written.len())),
            Field::IsoYear(_) => self.iso_year = Some(year_of(number, written.len())),
            Field::Month => self.month = within(1, 12)?,
            Field::Day => self.day = within(1, 31)?,
            Field::DayOfYear => self.day_of_year = within(1, 366)?,
            Field::IsoDayOfYear => self.iso_day_of_year = within(1, 371)?,
            Field::IsoWeek => self.iso_week = within(1, 53)?,
            Field::DayOfWeek => self.weekday = within(1, 7)?.map(|day| (day + 5) % 7),
            Field::IsoDayOfWeek => self.weekday = within(1, 7)?.map(|day| day - 1),
            Field::WeekOfYear => self.week = within(1, 53)?,
            Field::WeekOfMonth => self.week_of_month = within(1, 5)?,
            Field::JulianDay => self.julian_day = Some(number.into()),
            Field::Hour12 => self.hour12 = within(1, 12)?,
            Field::Hour24 => self.hour = within(0, 24)?,
            Field::Minute => self.minute = within(0, 59)?,
            Field::Second => self.second = within(0, 59)?,
            Field::SecondOfDay => self.second_of_day = within(0, 86_399)?,
            Field::Fraction(_) => {
                self.nanos = Some(number * 10_u32.pow(u32::try_from(9 - written.len()).unwrap_or(0)));
            }
            Field::ZoneMinute => self.ahead += i64::from(number) * if self.ahead < 0 { -1 } else { 1 },
            // The month says the quarter, the year the century.
            _ => {}
        }
        Ok(rest)
    }

    /// A field that is no plain number.
    fn named<'t>(&mut self, field: Field, text: &'t str) -> Option<&'t str> {
        match field {
            Field::YearWithComma => {
                let (thousands, rest) = digits(text, 9);
                let (others, rest) = digits(rest.strip_prefix(',')?, 3);
                self.year = Some(thousands.parse::<i32>().ok()? * 1_000 + others.parse::<i32>().ok()?);
                Some(rest)
            }
            Field::MonthName(_) | Field::MonthShort(_) => {
                let letters = matches!(field, Field::MonthShort(_)).then_some(3);
                let (month, rest) = name(&MONTHS, letters, text)?;
                self.month = Some(month + 1);
                Some(rest)
            }
            Field::MonthRoman(_) => {
                let (month, rest) = name(&ROMAN, None, text)?;
                self.month = Some(month + 1);
                Some(rest)
            }
            Field::DayName(_) | Field::DayShort(_) => {
                let letters = matches!(field, Field::DayShort(_)).then_some(3);
                let (day, rest) = name(&DAYS, letters, text)?;
                self.weekday = Some(day);
                Some(rest)
            }
            Field::Meridian(..) => {
                let (which, rest) = name(&["AM", "PM", "A.M.", "P.M."], None, text)?;
                self.after_noon = Some(which % 2 == 1);
                Some(rest)
            }
            Field::Era(..) => {
                let (which, rest) = name(&["AD", "BC", "A.D.", "B.C."], None, text)?;
                self.before_christ = which % 2 == 1;
                Some(rest)
            }
            // TZ, TZH, OF.
            _ => {
                if let Some((_, rest)) = name(&["UTC", "GMT", "Z"], None, text) {
                    return Some(rest);
                }
                let (sign, rest) = match text.strip_prefix('-') {
                    Some(rest) => (-1, rest),
                    None => (1, text.strip_prefix('+').unwrap_or(text)),
                };
                let (hours, rest) = digits(rest, 2);
                let mut minutes = hours.parse::<i64>().ok().filter(|hours| *hours <= 15)? * 60;
                let mut rest = rest;
                if field != Field::ZoneHour {
                    let (read, after) = digits(rest.strip_prefix(':').unwrap_or(rest), 2);
                    if !read.is_empty() {
                        minutes += read.parse::<i64>().ok().filter(|minutes| *minutes < 60)?;
                        rest = after;
                    }
                }
                self.ahead = sign * minutes;
                Some(rest)
            }
        }
    }

    fn time(self) -> Result<NaiveDateTime, String> {
        let date = self.date()?.ok_or("there is no such date")?;
        let hour = match (self.hour, self.hour12, self.after_noon) {
            (Some(hour), None, None | Some(false)) => hour,
            (Some(hour), None, Some(true)) => {
                if hour < 12 {
                    hour + 12
                } else {
                    hour
                }
            }
            (None, Some(hour), None) => hour,
            (None, Some(hour), Some(after_noon)) => hour % 12 + if after_noon { 12 } else { 0 },
            (None, None, _) => 0,
            (Some(_), Some(_), _) => return Err("the hour is there twice".to_string()),
        };
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        let seconds = self.second_of_day.unwrap_or(hour * 3_600 + minute * 60 + second);
        // 24:00:00 is the next midnight.
        let next = (seconds == 86_400).then(|| date.checked_add_days(Days::new(1))).flatten();
        let (date, seconds) = next.map_or((date, seconds), |next| (next, 0));
        let time = NaiveTime::from_num_seconds_from_midnight_opt(seconds, self.nanos.unwrap_or(0));
        let time = time.ok_or("there is no such time of day")?;
        let ahead = chrono::TimeDelta::minutes(self.ahead);
        date.and_time(time).checked_sub_signed(ahead).ok_or_else(|| "there is no such date".to_string())
    }

    fn date(&self) -> Result<Option<NaiveDate>, String> {
        if let Some(julian) = self.julian_day {
            let from_ce = i32::try_from(julian - JULIAN).ok();
            return Ok(from_ce.and_then(NaiveDate::from_num_days_from_ce_opt));
        }
        if let Some(year) = self.iso_year {
            let (week, weekday) = match self.iso_day_of_year {
                Some(day) => ((day - 1) / 7 + 1, (day - 1) % 7),
                None => (self.iso_week.unwrap_or(1), self.weekday.unwrap_or(0)),
            };
            let weekday = Weekday::try_from(u8::try_from(weekday).unwrap_or(0)).unwrap_or(Weekday::Mon);
            return Ok(NaiveDate::from_isoywd_opt(year, week, weekday));
        }
        let year = self.year.ok_or("it names no year")?;
        let year = if self.before_christ { 1 - year } else { year };
        if let Some(day) = self.day_of_year {
            return Ok(NaiveDate::from_yo_opt(year, day));
        }
        if let (Some(week), None) = (self.week, self.month) {
            return Ok(NaiveDate::from_yo_opt(year, (week - 1) * 7 + 1));
        }
        let day = self.day.or_else(|| self.week_of_month.map(|week| (week - 1) * 7 + 1));
        Ok(NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), day.unwrap_or(1)))
    }
}

/// The year that some digits mean: fewer than four are of the year nearest to 2020.
fn year_of(number: u32, digits: usize) -> i32 {
    let year = i32::try_from(number).unwrap_or(i32::MAX);
    match year {
        _ if digits >= 4 => year,
        0..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}
