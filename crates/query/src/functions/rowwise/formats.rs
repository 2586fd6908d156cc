//! Texts of times by a format: `to_char`, `to_date` and `to_timestamp` read the patterns of PostgreSQL ([`patterns`]),
//! `strftime` and `strptime` those of C. The former take formats of C, too, where these have a `%`.

use super::patterns::{self, Part};
use super::percent::Percent;
use super::times::{INSTANT, is_time, outside};
use super::{Rowwise, is_text, valid_rows};
use chrono::{DateTime, NaiveDateTime};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, StringBuilder, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Time64NanosecondType, TimeUnit, TimestampNanosecondType,
};
use datafusion::arrow::temporal_conversions::date32_to_datetime;
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use std::sync::Arc;

const TIME: DataType = DataType::Time64(TimeUnit::Nanosecond);

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "strftime",
        usage: "strftime(ts, format)",
        about: "an instant as a text of a format: strftime(ts, '%Y-%m-%d %H:%M:%S.%f')",
        takes: |types| match types {
            [of, format] if is_time(of) && is_text(format) => Some(vec![as_written(of), DataType::Utf8]),
            [format, of] if is_text(format) && is_time(of) => Some(vec![DataType::Utf8, as_written(of)]),
            _ => None,
        },
        gives: |_| DataType::Utf8,
        // Both orders are usual.
        value: |args| match args[0].data_type() {
            DataType::Utf8 => write_rows(&Format::percent_written, &args[1], &args[0]),
            _ => write_rows(&Format::percent_written, &args[0], &args[1]),
        },
    },
    Rowwise {
        name: "strptime",
        usage: "strptime(text, format)",
        about: "the instant that a text of a format names; what the format lacks is that of 1900-01-01T00:00",
        takes: two_texts,
        gives: |_| INSTANT,
        value: |args| instants(read_rows(&Format::percent_read, args)?),
    },
    Rowwise {
        name: "try_strptime",
        usage: "try_strptime(text, format)",
        about: "as strptime, NULL where the text is not of the format",
        takes: two_texts,
        gives: |_| INSTANT,
        value: |args| {
            let (texts, formats) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
            let mut known = Known::default();
            let mut one = |row: usize| {
                let format = known.of(&Format::percent_read, formats.value(row))?;
                Ok(format.read(texts.value(row)).and_then(nanos).ok())
            };
            let instants = valid_rows(args).map(|row| row.map_or(Ok(None), &mut one));
            Ok(Arc::new(instants.collect::<Result<TimestampNanosecondArray>>()?))
        },
    },
    Rowwise {
        name: "to_char",
        usage: "to_char(ts, format)",
        about: "an instant, a date or a time of day as a text of PostgreSQL's patterns: to_char(ts, 'YYYY-MM-DD HH24:MI:SS.MS')",
        takes: |types| match types {
            [of, format] if (is_time(of) || of.is_null()) && is_text(format) => {
                Some(vec![as_written(of), DataType::Utf8])
            }
            [DataType::Time64(_) | DataType::Time32(_), format] if is_text(format) => {
                Some(vec![TIME, DataType::Utf8])
            }
            _ => None,
        },
        gives: |_| DataType::Utf8,
        value: |args| write_rows(&|format| Format::of("to_char", format), &args[0], &args[1]),
    },
    Rowwise {
        name: TO_DATE_BY,
        usage: "to_date(text, format)",
        about: "the date that a text of PostgreSQL's patterns names: to_date('08.08.2024', 'DD.MM.YYYY')",
        takes: texts,
        gives: |_| DataType::Date32,
        value: |args| {
            let days = read_rows(&|format| Format::of("to_date", format), args)?
                .into_iter()
                .map(|time| time.map(|time| Date32Type::from_naive_date(time.date())));
            Ok(Arc::new(days.collect::<Date32Array>()))
        },
    },
    Rowwise {
        name: TO_TIMESTAMP_BY,
        usage: "to_timestamp(text, format)",
        about: "the instant that a text of PostgreSQL's patterns names: to_timestamp('2024-08-08 09:30', 'YYYY-MM-DD HH24:MI')",
        takes: texts,
        gives: |_| INSTANT,
        value: |args| instants(read_rows(&|format| Format::of("to_timestamp", format), args)?),
    },
];

/// `to_date` and `to_timestamp` with a format; several are tried one after the other.
pub(crate) const TO_DATE_BY: &str = "__to_date_by";
pub(crate) const TO_TIMESTAMP_BY: &str = "__to_timestamp_by";

fn texts(types: &[DataType]) -> Option<Vec<DataType>> {
    (types.len() > 1 && types.iter().all(is_text)).then(|| vec![DataType::Utf8; types.len()])
}

fn two_texts(types: &[DataType]) -> Option<Vec<DataType>> {
    texts(types).filter(|types| types.len() == 2)
}

/// The type in which a time is written: a DATE as one, since no instant may be of it.
fn as_written(of: &DataType) -> DataType {
    match of {
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        _ => INSTANT,
    }
}

/// How a format is read.
type Reading<'a> = &'a dyn Fn(&str) -> Result<Format>;

/// The texts of instants, dates or times of day.
fn write_rows(reading: Reading<'_>, times: &ArrayRef, formats: &ArrayRef) -> Result<ArrayRef> {
    let of_nanos = |ns: i64| DateTime::from_timestamp_nanos(ns).naive_utc();
    let time = |row: usize| match times.data_type() {
        DataType::Date32 => {
            let days = times.as_primitive::<Date32Type>().value(row);
            date32_to_datetime(days).ok_or_else(|| exec_datafusion_err!("a DATE of {days} days is none"))
        }
        DataType::Time64(_) => Ok(of_nanos(times.as_primitive::<Time64NanosecondType>().value(row))),
        _ => Ok(of_nanos(times.as_primitive::<TimestampNanosecondType>().value(row))),
    };
    let texts = formats.as_string::<i32>();
    let mut made = StringBuilder::with_capacity(texts.len(), texts.len() * 20);
    let (mut known, mut text) = (Known::default(), String::new());
    for row in valid_rows(&[Arc::clone(times), Arc::clone(formats)]) {
        let Some(row) = row else {
            made.append_null();
            continue;
        };
        text.clear();
        known.of(reading, texts.value(row))?.write(time(row)?, &mut text)?;
        made.append_value(&text);
    }
    Ok(Arc::new(made.finish()))
}

/// The times that texts name by the first of their formats that they are of.
fn read_rows(reading: Reading<'_>, args: &[ArrayRef]) -> Result<Vec<Option<NaiveDateTime>>> {
    let [texts, formats @ ..] = args else { return Ok(Vec::new()) };
    let mut known: Vec<Known> = formats.iter().map(|_| Known::default()).collect();
    let mut one = |row: usize| {
        let text = texts.as_string::<i32>().value(row);
        let mut last = Err(outside());
        for (format, known) in formats.iter().zip(&mut known) {
            last = known.of(reading, format.as_string::<i32>().value(row))?.read(text);
            if last.is_ok() {
                break;
            }
        }
        last
    };
    valid_rows(args).map(|row| row.map(&mut one).transpose()).collect()
}

fn instants(times: Vec<Option<NaiveDateTime>>) -> Result<ArrayRef> {
    let instants = times.into_iter().map(|time| time.map(nanos).transpose());
    Ok(Arc::new(instants.collect::<Result<TimestampNanosecondArray>>()?))
}

/// # Errors
/// Where a time is outside the years 1677 to 2262.
fn nanos(time: NaiveDateTime) -> Result<i64> {
    time.and_utc().timestamp_nanos_opt().ok_or_else(outside)
}

/// A format that has been read.
#[derive(Debug)]
enum Format {
    /// Of PostgreSQL.
    Patterns(String, Vec<Part>),
    /// Of C.
    Percent(Percent),
}

impl Format {
    /// One of PostgreSQL, or of C where it has a `%`.
    fn of(function: &str, format: &str) -> Result<Self> {
        let is_percent = |pair: &[u8]| pair[0] == b'%' && pair[1].is_ascii_alphabetic();
        if format.as_bytes().windows(2).any(is_percent) {
            return Percent::of(function, format, function != "to_char").map(Self::Percent);
        }
        let parts = patterns::parts(format);
        if !format.is_empty() && !patterns::has_field(&parts) {
            return exec_err!("'{format}' has no pattern of {function}, such as YYYY-MM-DD HH24:MI:SS");
        }
        Ok(Self::Patterns(format.to_string(), parts))
    }

    fn percent_written(format: &str) -> Result<Self> {
        Percent::of("strftime", format, false).map(Self::Percent)
    }

    fn percent_read(format: &str) -> Result<Self> {
        Percent::of("strptime", format, true).map(Self::Percent)
    }

    fn text(&self) -> &str {
        match self {
            Self::Patterns(text, _) => text,
            Self::Percent(of) => of.text(),
        }
    }

    fn write(&self, time: NaiveDateTime, text: &mut String) -> Result<()> {
        match self {
            Self::Patterns(_, parts) => {
                patterns::write(parts, time, text);
                Ok(())
            }
            Self::Percent(of) => of.write(time, text),
        }
    }

    fn read(&self, text: &str) -> Result<NaiveDateTime> {
        match self {
            Self::Patterns(format, parts) => patterns::read(parts, text)
                .map_err(|what| exec_datafusion_err!("'{text}' is not of the format '{format}': {what}")),
            Self::Percent(of) => of.read(text),
        }
    }
}

/// The format of the row before, which most rows have.
#[derive(Debug, Default)]
struct Known(Option<Format>);

impl Known {
    fn of(&mut self, reading: Reading<'_>, format: &str) -> Result<&Format> {
        let known = self.0.take().filter(|known| known.text() == format);
        let known = known.map_or_else(|| reading(format), Ok)?;
        Ok(self.0.insert(known))
    }
}
