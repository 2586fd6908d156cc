//! Formats of `strftime` and `strptime`: those of C, with DuckDB's `%f` (6 digits of the second), `%g` (3) and `%n` (9).

use super::super::wall_time::{Twice, instant_of};
use super::super::zone::zone_of;
use super::times::outside;
use chrono::format::{Item, ParseResult, Parsed, StrftimeItems, parse, parse_and_remainder};
use chrono::{DateTime, NaiveDateTime};
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use std::fmt::Write;

/// A format that has been read.
#[derive(Debug)]
pub(super) struct Percent {
    format: String,
    /// In the words of chrono; for reading divided where the name of a zone stands, which chrono does not look at.
    pieces: Vec<String>,
}

impl Percent {
    /// # Errors
    /// Where it is no format, or has nothing of a time.
    pub(super) fn of(function: &str, format: &str, reading: bool) -> Result<Self> {
        let mut pieces = vec![String::with_capacity(format.len())];
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            let Some(made) = pieces.last_mut() else { break };
            if c != '%' {
                made.push(c);
                continue;
            }
            match rest.next() {
                // Digits after a point, however many there are.
                Some('f' | 'g' | 'n') if reading && made.ends_with('.') => {
                    made.pop();
                    made.push_str("%.f");
                }
                Some('f') => made.push_str("%6f"),
                Some('g') => made.push_str("%3f"),
                Some('n') => made.push_str("%9f"),
                Some('c') => made.push_str("%Y-%m-%d %H:%M:%S"),
                Some('x') => made.push_str("%Y-%m-%d"),
                Some('X') => made.push_str("%H:%M:%S"),
                Some('Z') if reading => pieces.push(String::new()),
                Some(other) => made.extend(['%', other]),
                None => made.push('%'),
            }
        }
        let items = || pieces.iter().flat_map(|piece| StrftimeItems::new(piece));
        let is_text = |item| matches!(item, Item::Literal(_) | Item::Space(_));
        let says_nothing = !format.is_empty() && pieces.len() == 1 && items().all(is_text);
        if says_nothing || items().any(|item| item == Item::Error) {
            let hint = if says_nothing { "; to_char and to_timestamp take YYYY-MM-DD" } else { "" };
            return exec_err!("'{format}' is no format of {function}, such as '%Y-%m-%d %H:%M:%S.%f'{hint}");
        }
        Ok(Self { format: format.to_string(), pieces })
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.format
    }

    /// Writes a time.
    ///
    /// # Errors
    /// Where the format asks for what an instant has not.
    pub(super) fn write(&self, time: NaiveDateTime, text: &mut String) -> Result<()> {
        let items = self.pieces.iter().flat_map(|piece| StrftimeItems::new(piece));
        write!(text, "{}", time.and_utc().format_with_items(items))
            .map_err(|_| exec_datafusion_err!("'{}' asks for what an instant does not have", self.format))
    }

    /// The time that a text names, in UTC.
    ///
    /// # Errors
    /// Where the text is not of the format, and one with a zone outside the years 1677 to 2262.
    pub(super) fn read(&self, text: &str) -> Result<NaiveDateTime> {
        let refused = |what: &dyn std::fmt::Display| {
            exec_datafusion_err!("'{text}' is not of the format '{}': {what}", self.format)
        };
        let (mut found, mut rest, mut zone) = (Parsed::new(), text, None);
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                let name = rest.split(char::is_whitespace).next().unwrap_or_default();
                zone = Some(named(name).map_err(|error| refused(&error.message()))?);
                rest = &rest[name.len()..];
            }
            let items = StrftimeItems::new(piece);
            if at + 1 < self.pieces.len() {
                rest = parse_and_remainder(&mut found, rest, items).map_err(|error| refused(&error))?;
            } else {
                parse(&mut found, rest, items).map_err(|error| refused(&error))?;
            }
        }
        complete(&mut found).map_err(|error| refused(&error))?;
        let offset = found.offset().unwrap_or(0);
        let time = found.to_naive_datetime_with_offset(offset).map_err(|error| refused(&error))?;
        let utc = time - chrono::TimeDelta::seconds(i64::from(offset));
        match zone {
            // The offset of the text, or its seconds since 1970, say more than the name.
            Some(zone) if found.offset().is_none() && found.timestamp().is_none() => {
                let ns = utc.and_utc().timestamp_nanos_opt().ok_or_else(outside)?;
                Ok(DateTime::from_timestamp_nanos(instant_of(ns, &zone, Twice::First)?).naive_utc())
            }
            _ => Ok(utc),
        }
    }
}

/// The zone of a name, abbreviations of UTC among them.
fn named(name: &str) -> Result<Tz> {
    let utc = ["UTC", "GMT", "Z"].iter().any(|utc| name.eq_ignore_ascii_case(utc));
    zone_of(if utc { "UTC" } else { name })
}

/// What a text lacks is that of 1900-01-01T00:00.
fn complete(found: &mut Parsed) -> ParseResult<()> {
    if found.timestamp().is_some() {
        return Ok(());
    }
    let named = found.ordinal().is_some()
        || found.isoyear().is_some()
        || found.isoweek().is_some()
        || found.week_from_mon().is_some()
        || found.week_from_sun().is_some();
    if !named {
        if found.year().is_none() && found.year_mod_100().is_none() {
            found.set_year(1900)?;
        }
        if found.month().is_none() {
            found.set_month(1)?;
        }
        if found.day().is_none() && found.weekday().is_none() {
            found.set_day(1)?;
        }
    }
    match (found.hour_div_12(), found.hour_mod_12()) {
        (None, None) => {
            found.set_hour(0)?;
        }
        (None, Some(_)) => {
            found.set_ampm(false)?;
        }
        _ => {}
    }
    if found.minute().is_none() {
        found.set_minute(0)?;
    }
    Ok(())
}
