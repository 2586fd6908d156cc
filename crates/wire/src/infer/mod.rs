//! Types from a sample: what each column of an unknown file holds.
//!
//! Enter at [`ColumnSample`]: show it the values of a column, then ask for its [`Inferred`] type. A
//! name counts where the values leave a choice: `ts` and `trade_time` of whole numbers are timestamps,
//! `symbol` and `side` of text are symbols, `price` of whole numbers is a DOUBLE.

use crate::ndjson::token::{Items, Value, unescape};
use crate::plan::PLAUSIBLE_SECONDS;
use crate::value::{parse_bool, parse_date, parse_f64, parse_i64, parse_iso, parse_u64, parse_uuid, trim};
use crate::{EpochUnit, TimeFormat};
use std::collections::{BTreeMap, HashSet};
use tickstone_model::{ColumnType, ElementType};

/// Names of the designated timestamp, the likeliest first.
const TIMESTAMP_NAMES: [&str; 9] =
    ["ts", "timestamp", "time", "datetime", "date_time", "event_time", "t", "date", "local_timestamp"];

/// Names whose text is a symbol at any number of distinct values.
const SYMBOL_NAMES: [&str; 18] = [
    "symbol",
    "sym",
    "ticker",
    "instrument",
    "side",
    "exchange",
    "venue",
    "market",
    "currency",
    "pair",
    "product",
    "underlying",
    "base",
    "quote",
    "feed",
    "status",
    "type",
    "condition",
];

/// Names whose whole numbers are prices, so that a later decimal fits.
const PRICE_NAMES: [&str; 14] = [
    "price",
    "px",
    "bid",
    "ask",
    "open",
    "high",
    "low",
    "close",
    "vwap",
    "mid",
    "bid_price",
    "ask_price",
    "last_price",
    "strike",
];

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
}

/// The values of one column of a sample.
#[derive(Debug, Clone)]
pub struct ColumnSample {
    name: String,
    values: usize,
    shapes: Shapes,
    /// How many of its values are ISO 8601.
    iso: usize,
    /// How many are numbers, and whether all those are whole.
    numbers: usize,
    numbers_whole: bool,
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
            date: true,
            iso: true,
            uuid: true,
        };
        Self {
            name: name.into(),
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

    /// Sees a value that is not NULL.
    pub fn see(&mut self, text: &[u8]) {
        self.see_elements(trim(text));
        self.values += 1;
        self.bytes_max = self.bytes_max.max(text.len());
        if self.distinct.len() <= DISTINCT_MAX && !self.distinct.contains(text) {
            self.distinct.insert(text.to_vec());
        }
        let text = trim(text);
        let shapes = &mut self.shapes;
        let padded = is_padded(text);
        shapes.boolean &= parse_bool(text).is_some() && text.first().is_some_and(u8::is_ascii_alphabetic);
        shapes.signed &= !padded && parse_i64(text).is_ok();
        shapes.unsigned &= !padded && parse_u64(text).is_ok();
        shapes.float &= !padded && parse_f64(text).is_some() && !is_past_integers(text);
        if !padded && parse_f64(text).is_some() {
            self.numbers += 1;
            self.numbers_whole &= parse_i64(text).is_ok();
        }
        let iso = parse_iso(text).is_some();
        shapes.iso &= iso;
        self.iso += usize::from(iso);
        shapes.date &= text.len() == 10 && parse_date(text).is_some();
        shapes.uuid &= text.len() == 36 && parse_uuid(text).is_some();
        if let Some(unit) = plausible_unit(text) {
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
        Inferred { column_type, time, seen: self.values > 0, mostly_time: self.is_mostly_time() }
    }

    fn column_type(&self) -> ColumnType {
        let Shapes { boolean, signed, unsigned, float, date, iso, uuid } = self.shapes;
        if self.values == 0 {
            return if is_symbol_name(&self.name) { ColumnType::Symbol } else { ColumnType::Varchar };
        }
        if let Some(elements) = &self.elements {
            // Symbols are text in arrays, and of no elements nothing is known.
            return ColumnType::Array(
                ElementType::of(elements.column_type()).unwrap_or(ElementType::Varchar),
            );
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
        match () {
            () if boolean => ColumnType::Boolean,
            () if (signed || unsigned) && is_price_name(&self.name) => ColumnType::Float64,
            () if signed => ColumnType::Int64,
            () if unsigned => ColumnType::UInt64,
            () if float => ColumnType::Float64,
            () if date && timestamp_rank(&self.name).is_none() => ColumnType::Date,
            () if iso => ColumnType::Timestamp,
            () if uuid => ColumnType::Uuid,
            () if self.is_mostly_number() && self.numbers_whole && !is_price_name(&self.name) => {
                ColumnType::Int64
            }
            () if self.is_mostly_number() => ColumnType::Float64,
            () if self.is_low_cardinality() => ColumnType::Symbol,
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

/// Whether a text is a JSON array of scalars; `elements` sees them.
fn sees_items(elements: &mut ColumnSample, text: &[u8]) -> bool {
    let Ok(mut items) = Items::open(text) else { return false };
    let mut unescaped = Vec::new();
    loop {
        match items.item() {
            Ok(None) => return true,
            Ok(Some(Value::Null)) => {}
            Ok(Some(Value::Plain(token))) => elements.see(token),
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

/// Where a name stands among those of designated timestamps, the likeliest 0.
pub fn timestamp_rank(name: &str) -> Option<usize> {
    TIMESTAMP_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a name is a time's: `ts`, `trade_time`, `TimeStamp`, `created_at`, …
pub fn is_time_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    timestamp_rank(&name).is_some()
        || name.contains("timestamp")
        || name.ends_with("time")
        || name.starts_with("time_")
        || name.ends_with("_ts")
        || name.ends_with("_at")
        || name.starts_with("ts_")
}

fn is_symbol_name(name: &str) -> bool {
    SYMBOL_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a name is an instrument's, which some venues number.
fn is_series_name(name: &str) -> bool {
    SYMBOL_NAMES[..4].iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_price_name(name: &str) -> bool {
    PRICE_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The unit in which a number is a time between 1980 and 2100.
fn plausible_unit(text: &[u8]) -> Option<EpochUnit> {
    let whole = text.split(|&b| b == b'.').next().unwrap_or(text);
    let value = parse_i64(whole).ok()?;
    if whole.len() < text.len() && parse_f64(text).is_none() {
        return None;
    }
    let unit = EpochUnit::of_magnitude(value.unsigned_abs());
    let seconds = value / (EpochUnit::Second.nanos() / unit.nanos());
    PLAUSIBLE_SECONDS.contains(&seconds).then_some(unit)
}

/// Whether a whole number is past what any integer column holds: as a DOUBLE it would lose digits.
fn is_past_integers(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    digits.iter().all(u8::is_ascii_digit) && parse_i64(text).is_err() && parse_u64(text).is_err()
}

/// Whether whole digits begin with a zero that a number would lose, as in `007`.
fn is_padded(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

#[cfg(test)]
mod tests;
