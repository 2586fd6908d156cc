//! Types from a sample: what each column of an unknown file holds.
//!
//! Enter at [`ColumnSample`]: show it the values of a column, then ask for the [`Inferred`] types of all ([`conclude`]).
//! No type changes a value: one is inferred only where each value prints as it is written. A name counts where the values
//! leave a choice ([`names`]): `ts` and `trade_time` of whole numbers are timestamps, `symbol` and `side` of text are
//! symbols, `price` of whole numbers is a DOUBLE, and codes and keys are text or whole numbers.

mod names;

use crate::ndjson::token::{Items, Value, unescape};
use crate::plan::PLAUSIBLE_SECONDS;
use crate::value::{
    has_exact_exponent, is_past_nanoseconds, is_printed_bool, is_printed_double, is_printed_integer,
    parse_date, parse_f64, parse_i64, parse_iso, parse_u64, parse_uuid, printed_decimal, trim,
};
use crate::{EpochUnit, TimeFormat};
use names::{is_code_name, is_price_name, is_series_name, is_symbol_name, says_timestamp};
pub use names::{is_time_name, timestamp_rank};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tickstone_model::{ColumnType, ElementType};

/// Distinct values counted at most; more is not a low cardinality.
const DISTINCT_MAX: usize = 1_000;
/// Rows of a sample from which cardinality says something.
const ROWS_MIN: usize = 20;
/// Rows there must be for each distinct value.
const ROWS_PER_SYMBOL: usize = 10;
/// Values of a sample from which a few that are no numbers are slips, and how many in a hundred must be numbers.
const NUMBERS_MIN: usize = 100;
const NUMBERS_IN_100: usize = 99;
/// Symbols are short.
const SYMBOL_BYTES_MAX: usize = 64;
/// Prices that are whole numbers from here on count parts of a unit, as those of DBN do: sums and sentinels need them
/// whole.
const SCALED_PRICE_MIN: u64 = 1_000_000_000;
/// The most digits of a DECIMAL.
const DECIMAL_DIGITS_MAX: usize = 38;

/// What a column seems to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inferred {
    /// Its type.
    pub column_type: ColumnType,
    /// How its timestamps are written.
    pub time: TimeFormat,
    /// Whether the sample had any value of it.
    pub seen: bool,
    /// Whether more than half of its values are times.
    pub mostly_time: bool,
    /// A value, where all are dates in a form that is not read, such as `08.08.2024`.
    pub unread_date: Option<String>,
}

/// The values of one column of a sample.
#[derive(Debug, Clone)]
pub struct ColumnSample {
    name: String,
    values: usize,
    shapes: Shapes,
    /// How many of its values are ISO 8601.
    iso: usize,
    /// How many are numbers that print as they are written, and whether all those are whole.
    numbers: usize,
    numbers_whole: bool,
    /// Whether there is a number of digits, not of words alone.
    has_digits: bool,
    /// Whether a whole number is as large as those that count parts of a unit.
    is_scaled: bool,
    /// The most digits before and after the point.
    digits: (usize, usize),
    /// Seconds since the epoch up to which a number can be a time.
    latest_seconds: i64,
    /// How many are dates in a form that is not read, and the first.
    unread_dates: usize,
    unread_date: Option<String>,
    /// How many are numbers that are plausible as a timestamp, by the unit they would be in.
    units: BTreeMap<EpochUnit, usize>,
    distinct: HashSet<Vec<u8>>,
    bytes_max: usize,
    /// The elements, where every value so far was a JSON array of scalars.
    elements: Option<Box<ColumnSample>>,
}

/// Which shapes every value so far had.
#[derive(Debug, Clone, Copy)]
struct Shapes {
    boolean: bool,
    signed: bool,
    unsigned: bool,
    float: bool,
    decimal: bool,
    date: bool,
    iso: bool,
    uuid: bool,
}

impl ColumnSample {
    /// A column of this name, no value seen.
    pub fn new(name: impl Into<String>) -> Self {
        let shapes = Shapes {
            boolean: true,
            signed: true,
            unsigned: true,
            float: true,
            decimal: true,
            date: true,
            iso: true,
            uuid: true,
        };
        let name = name.into();
        // What is recorded is no time to come: numbers past today are ids, unless the name says more.
        let tomorrow =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() + 86_400;
        let latest_seconds = match says_timestamp(&name) {
            true => PLAUSIBLE_SECONDS.end,
            false => i64::try_from(tomorrow).unwrap_or(i64::MAX).min(PLAUSIBLE_SECONDS.end),
        };
        Self {
            name,
            latest_seconds,
            has_digits: false,
            is_scaled: false,
            digits: (0, 0),
            unread_dates: 0,
            unread_date: None,
            values: 0,
            shapes,
            iso: 0,
            numbers: 0,
            numbers_whole: true,
            units: BTreeMap::new(),
            distinct: HashSet::new(),
            bytes_max: 0,
            elements: None,
        }
    }

    /// Sees a number, or true or false, as JSON writes it: an exponent is no sign of a code there.
    pub(crate) fn see_token(&mut self, token: &[u8]) {
        self.see_value(token, has_exact_exponent(token));
    }

    /// Sees a value that is not NULL.
    pub fn see(&mut self, text: &[u8]) {
        self.see_value(text, false);
    }

    fn see_value(&mut self, text: &[u8], is_double: bool) {
        self.see_elements(trim(text));
        self.values += 1;
        self.bytes_max = self.bytes_max.max(text.len());
        if self.distinct.len() <= DISTINCT_MAX && !self.distinct.contains(text) {
            self.distinct.insert(text.to_vec());
        }
        let text = trim(text);
        let shapes = &mut self.shapes;
        let is_whole = is_printed_integer(text);
        let is_signed = is_whole && parse_i64(text).is_ok();
        let is_float = is_double || is_printed_double(text);
        let decimal = printed_decimal(text);
        shapes.boolean &= is_printed_bool(text);
        shapes.signed &= is_signed;
        shapes.unsigned &= is_whole && parse_u64(text).is_ok();
        shapes.float &= is_float;
        shapes.decimal &= decimal.is_some();
        if is_signed || is_float {
            self.numbers += 1;
            self.numbers_whole &= is_signed;
            self.has_digits |= text.iter().any(u8::is_ascii_digit);
        }
        self.is_scaled |= parse_u64(text).is_ok_and(|value| value >= SCALED_PRICE_MIN);
        if let Some((whole, fraction)) = decimal {
            self.digits = (self.digits.0.max(whole), self.digits.1.max(fraction));
        }
        if is_unread_date(text) {
            self.unread_dates += 1;
            self.unread_date.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        }
        let iso = parse_iso(text).is_some() && !is_past_nanoseconds(text);
        shapes.iso &= iso;
        self.iso += usize::from(iso);
        shapes.date &= text.len() == 10 && parse_date(text).is_some();
        shapes.uuid &= text.len() == 36 && parse_uuid(text).is_some();
        if let Some(unit) = plausible_unit(text, self.latest_seconds) {
            *self.units.entry(unit).or_default() += 1;
        }
    }

    /// Sees a value's elements, if all before were arrays and it is one.
    fn see_elements(&mut self, text: &[u8]) {
        if self.values == 0 && text.first() == Some(&b'[') {
            self.elements = Some(Box::new(ColumnSample::new(self.name.clone())));
        }
        let Some(elements) = &mut self.elements else { return };
        if !sees_items(elements, text) {
            self.elements = None;
        }
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the column another name, by which its type is concluded.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_string();
    }

    /// How the column's values are written, should it be a TIMESTAMP: the unit most of them are plausible
    /// in, of several the finest; ISO 8601 where more of them are that, or none is a time.
    pub fn time_format(&self) -> TimeFormat {
        match self.units.iter().max_by_key(|(_, count)| **count) {
            Some((unit, count)) if *count > self.iso => TimeFormat::GuessedEpoch(*unit),
            _ => TimeFormat::Iso,
        }
    }

    /// Whether most values are times and the others cannot be: one that does not parse makes the column no
    /// less a timestamp, it makes a bad row.
    fn is_mostly_time(&self) -> bool {
        let times = self.iso.max(self.units.values().copied().max().unwrap_or(0));
        2 * times > self.values
    }

    /// Whether nearly all values are numbers: one that is not makes the column no text, it makes a bad row.
    fn is_mostly_number(&self) -> bool {
        self.numbers < self.values
            && self.numbers >= NUMBERS_MIN
            && self.numbers * 100 >= self.values * NUMBERS_IN_100
    }

    /// The type of the values seen.
    pub fn conclude(&self) -> Inferred {
        let column_type = self.column_type();
        let time = match column_type {
            ColumnType::Timestamp => self.time_format(),
            ColumnType::Array(ElementType::Timestamp) => {
                self.elements.as_ref().map_or(TimeFormat::Iso, |elements| elements.time_format())
            }
            _ => TimeFormat::Iso,
        };
        let unread_date = self.unread_date.clone().filter(|_| self.unread_dates == self.values);
        Inferred { column_type, time, seen: self.values > 0, mostly_time: self.is_mostly_time(), unread_date }
    }

    /// Whether it is DOUBLE by its name alone, and whether its values speak against that.
    fn whole_price(&self) -> (bool, bool) {
        let is_whole = self.shapes.signed && self.values > 0 && is_price_name(&self.name);
        (is_whole, is_whole && (self.is_scaled || !self.shapes.float))
    }

    fn column_type(&self) -> ColumnType {
        let Shapes { boolean, signed, unsigned, float, decimal, date, iso, uuid } = self.shapes;
        if self.values == 0 {
            return if is_symbol_name(&self.name) { ColumnType::Symbol } else { ColumnType::Varchar };
        }
        if let Some(elements) = &self.elements {
            // Symbols are text in arrays, and of no elements nothing is known.
            return ColumnType::Array(
                ElementType::of(elements.column_type()).unwrap_or(ElementType::Varchar),
            );
        }
        if is_code_name(&self.name) {
            return self.code_type();
        }
        let one_unit = self.units.len() == 1 && self.units.values().sum::<usize>() == self.values;
        if (signed || float) && one_unit && is_time_name(&self.name) {
            return ColumnType::Timestamp;
        }
        if timestamp_rank(&self.name).is_some() && self.is_mostly_time() {
            return ColumnType::Timestamp;
        }
        if is_symbol_name(&self.name) && !iso && (!float || (signed && is_series_name(&self.name))) {
            return ColumnType::Symbol;
        }
        let (whole, fraction) = self.digits;
        match () {
            () if boolean => ColumnType::Boolean,
            () if matches!(self.whole_price(), (true, false)) => ColumnType::Float64,
            () if signed => ColumnType::Int64,
            () if unsigned => ColumnType::UInt64,
            // Words alone are no numbers.
            () if float && self.has_digits => ColumnType::Float64,
            () if decimal && fraction > 0 && whole + fraction <= DECIMAL_DIGITS_MAX => {
                ColumnType::Decimal { precision: DECIMAL_DIGITS_MAX as u8, scale: fraction as i8 }
            }
            () if date && timestamp_rank(&self.name).is_none() => ColumnType::Date,
            () if iso => ColumnType::Timestamp,
            () if uuid => ColumnType::Uuid,
            () if self.is_mostly_number() && self.numbers_whole && !is_price_name(&self.name) => {
                ColumnType::Int64
            }
            () if self.is_mostly_number() && self.has_digits => ColumnType::Float64,
            // A date in a form that is not read is no name of anything.
            () if self.unread_dates == self.values => ColumnType::Varchar,
            () if self.is_low_cardinality() => ColumnType::Symbol,
            () => ColumnType::Varchar,
        }
    }

    /// The type of keys and codes: text or whole numbers.
    fn code_type(&self) -> ColumnType {
        let Shapes { signed, unsigned, uuid, .. } = self.shapes;
        match () {
            () if is_series_name(&self.name) => ColumnType::Symbol,
            () if signed => ColumnType::Int64,
            () if unsigned => ColumnType::UInt64,
            () if uuid => ColumnType::Uuid,
            () if is_symbol_name(&self.name) || self.is_low_cardinality() => ColumnType::Symbol,
            () => ColumnType::Varchar,
        }
    }

    fn is_low_cardinality(&self) -> bool {
        self.values >= ROWS_MIN
            && self.distinct.len() <= DISTINCT_MAX
            && self.distinct.len() * ROWS_PER_SYMBOL <= self.values
            && self.bytes_max <= SYMBOL_BYTES_MAX
    }
}

/// The types of the columns of one file. Where a price is a whole number that counts parts of a unit, all of them are.
pub fn conclude(samples: &[ColumnSample]) -> Vec<Inferred> {
    let is_scaled = samples.iter().any(|sample| sample.whole_price().1);
    let concluded = samples.iter().map(|sample| {
        let inferred = sample.conclude();
        match is_scaled && sample.whole_price().0 {
            true => Inferred { column_type: ColumnType::Int64, ..inferred },
            false => inferred,
        }
    });
    concluded.collect()
}

/// Whether a text is a JSON array of scalars; `elements` sees them.
fn sees_items(elements: &mut ColumnSample, text: &[u8]) -> bool {
    let Ok(mut items) = Items::open(text) else { return false };
    let mut unescaped = Vec::new();
    loop {
        match items.item() {
            Ok(None) => return true,
            Ok(Some(Value::Null)) => {}
            Ok(Some(Value::Plain(token))) => elements.see_token(token),
            Ok(Some(Value::Text(text))) if unescape(text.raw, &mut unescaped) => elements.see(&unescaped),
            Ok(Some(Value::Text(_) | Value::Nested(_))) | Err(_) => return false,
        }
    }
}

/// Whether a field is text: no number, no time, no truth value.
pub fn is_text(text: &[u8]) -> bool {
    let text = trim(text);
    let is_word = text.eq_ignore_ascii_case(b"nan") || text.to_ascii_lowercase().starts_with(b"inf");
    (parse_f64(text).is_none() || is_word)
        && parse_iso(text).is_none()
        && !text.eq_ignore_ascii_case(b"true")
        && !text.eq_ignore_ascii_case(b"false")
}

/// The unit in which a number is a time between 1980 and so many seconds since the epoch.
fn plausible_unit(text: &[u8], latest_seconds: i64) -> Option<EpochUnit> {
    let whole = text.split(|&b| b == b'.').next().unwrap_or(text);
    let value = parse_i64(whole).ok()?;
    if whole.len() < text.len() && parse_f64(text).is_none() {
        return None;
    }
    let unit = EpochUnit::of_magnitude(value.unsigned_abs());
    let seconds = value / (EpochUnit::Second.nanos() / unit.nanos());
    (PLAUSIBLE_SECONDS.start..latest_seconds).contains(&seconds).then_some(unit)
}

/// Whether a text begins with a date of numbers between points, slashes or dashes that is not ISO 8601.
fn is_unread_date(text: &[u8]) -> bool {
    let date = text.split(|byte| matches!(byte, b' ' | b'T' | b'D')).next().unwrap_or(text);
    let Some(separator) = date.iter().find(|byte| !byte.is_ascii_digit()) else { return false };
    let parts: Vec<&[u8]> = date.split(|byte| byte == separator).collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_date = matches!(lengths[..], [1..=2, 1..=2, 4] | [4, 1..=2, 1..=2]);
    b"./-".contains(separator)
        && is_date
        && parts.concat().iter().all(u8::is_ascii_digit)
        && parse_iso(text).is_none()
}

#[cfg(test)]
mod tests;
