//! Lines to rows.
//!
//! One pass: a line's names are compared with those of the line before at their place. Values without quotes and escapes
//! are cut out by words ([`plain_value`]), then read by the common shapes
//! ([`ColumnBuilder::push_plain`](crate::column::ColumnBuilder::push_plain)); others take the long way. Invariants:
//! nothing is allocated for a line like the one before but for the growth of columns; a line that is bad, or that the bytes
//! do not hold whole, leaves the tables as they were.

use super::precision::Precision;
use super::scan::{Token, next_line, unquoted};
use super::table::{Place, Table};
use super::value::{NoValue, Value, is_value_end, value};
use crate::chunk::shown;
use crate::rows::check_name;
use crate::value::{parse_i64, plain_i64, plain_value};
use crate::{Fault, RECORD_BYTES_MAX, TableRows};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema, folded_name};

/// Finds the table of a name.
pub type FindTable<'a> = &'a mut dyn FnMut(&str) -> Option<Arc<TableSchema>>;

/// Reads lines into the rows of tables. Reusable: [`Self::take`] leaves it empty.
#[derive(Default)]
pub struct Parser {
    precision: Precision,
    tables: Vec<Table>,
    /// By name, in each spelling that came.
    places: HashMap<String, usize>,
    /// By the name of a table that is there, else by what spellings of it have in common.
    keys: HashMap<String, usize>,
    /// The table of the line before; none where the line had none.
    latest: usize,
    rows: usize,
    scratch: Vec<u8>,
}

/// How far a call of [`Parser::parse`] came.
#[derive(Debug)]
pub struct Parsed {
    /// Bytes of the lines that were read; behind them is one that is bad, or not whole.
    pub bytes: usize,
    /// How many lines these were, comments and empty ones with them.
    pub lines: u64,
    /// The line that ended it.
    pub bad: Option<BadLine>,
}

/// A line that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its table, where it has one.
    pub table: Option<String>,
    /// The column at fault, where it is one.
    pub column: Option<String>,
    /// The text at fault, cut when long.
    pub text: String,
    /// Why.
    pub fault: Fault,
    /// Where the line stands in the bytes, with its line end.
    pub record: Range<usize>,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(table) = &self.table {
            write!(f, "table '{table}', ")?;
        }
        if let Some(column) = &self.column {
            write!(f, "column '{column}': ")?;
        }
        write!(f, "'{}' {}", self.text, self.fault)
    }
}

/// Why a line gave no row.
enum Stop {
    /// The bytes end before it does.
    Incomplete,
    /// What is at fault: its place, and the name of its column.
    Bad { text: Range<usize>, column: Option<Token>, fault: Fault },
}

fn bad(text: Range<usize>, fault: Fault) -> Stop {
    Stop::Bad { text, column: None, fault }
}

fn whole<T>(found: Option<T>) -> Result<T, Stop> {
    found.ok_or(Stop::Incomplete)
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Parser {
    /// A parser of lines whose times have this unit.
    pub fn new(precision: Precision) -> Self {
        Self { precision, ..Self::default() }
    }

    /// Rows read and not taken.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows read, by table in order of their coming; the parser has none after, and knows no table.
    pub fn take(&mut self) -> Vec<TableRows> {
        self.places.clear();
        self.keys.clear();
        (self.latest, self.rows) = (0, 0);
        self.tables.drain(..).filter_map(Table::finish).collect()
    }

    /// Reads the lines that `bytes` begin with, up to the first that is bad or not whole. A line ends with a line feed; so
    /// must the last. `now` is the time of lines without one, in nanoseconds since the Unix epoch; `find` is asked once for
    /// each table.
    pub fn parse(&mut self, bytes: &[u8], now: i64, find: FindTable<'_>) -> Parsed {
        let mut parsed = Parsed { bytes: 0, lines: 0, bad: None };
        while parsed.bytes < bytes.len() {
            let start = parsed.bytes;
            let stop = match self.line(bytes, start, now, find) {
                Ok(next) => {
                    parsed.bytes = next;
                    parsed.lines += 1;
                    continue;
                }
                Err(stop) => stop,
            };
            parsed.bad = match stop {
                Stop::Incomplete if bytes.len() - start <= RECORD_BYTES_MAX => None,
                Stop::Incomplete => {
                    let what = "it is longer than 16 MB";
                    Some(self.bad_line(bytes, start, start..bytes.len(), None, Fault::Line { what }))
                }
                Stop::Bad { text, column, fault } => Some(self.bad_line(bytes, start, text, column, fault)),
            };
            break;
        }
        parsed
    }

    #[cold]
    fn bad_line(
        &mut self,
        bytes: &[u8],
        start: usize,
        text: Range<usize>,
        column: Option<Token>,
        fault: Fault,
    ) -> BadLine {
        let table = self.tables.get(self.latest).map(|table| table.name.clone());
        let column = column.map(|column| shown(column.text(bytes, &mut self.scratch)));
        let end = next_line(bytes, text.end.max(start)).unwrap_or(bytes.len());
        let text = shown(bytes.get(text).unwrap_or_default());
        BadLine { table, column, text, fault, record: start..end }
    }

    /// Reads the line at `start`: where the next one begins.
    #[inline]
    fn line(&mut self, bytes: &[u8], start: usize, now: i64, find: FindTable<'_>) -> Result<usize, Stop> {
        let mut at = start;
        while bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        match whole(bytes.get(at))? {
            b'\n' => return Ok(at + 1),
            b'#' => return whole(next_line(bytes, at)),
            b'\r' => return end_of_line(bytes, at),
            _ => {}
        }
        at = self.table(bytes, at, find)?;
        let table = &mut self.tables[self.latest];
        let columns = table.columns.len();
        let mut row = Row {
            table,
            scratch: &mut self.scratch,
            next: 0,
            filled: 0,
            has_fields: false,
            time: None,
            time_name: None,
        };
        let ended = row.columns(bytes, at, self.precision).and_then(|end| {
            if row.filled == 0 && !row.has_fields {
                let what = "it has neither a tag nor a field";
                return Err(bad(start..end - 1, Fault::Line { what }));
            }
            row.table.end_row(row.filled, row.time, now).map_err(|fault| bad(start..end, fault))?;
            Ok(end)
        });
        match ended {
            Ok(_) => self.rows += 1,
            Err(_) => row.table.undo(columns),
        }
        ended
    }

    /// Finds the table whose name is at `at`; where the name ends.
    #[inline]
    fn table(&mut self, bytes: &[u8], at: usize, find: FindTable<'_>) -> Result<usize, Stop> {
        if let Some(table) = self.tables.get(self.latest) {
            let end = at + table.raw.len();
            let is_same = bytes[at..].starts_with(&table.raw);
            if is_same && matches!(bytes.get(end), Some(b',' | b' ')) {
                return Ok(end);
            }
        }
        self.other_table(bytes, at, find)
    }

    #[inline(never)]
    fn other_table(&mut self, bytes: &[u8], at: usize, find: FindTable<'_>) -> Result<usize, Stop> {
        self.latest = usize::MAX;
        let token = whole(unquoted(bytes, at, is_value_end))?;
        let text = token.start..token.end;
        let refused = |fault| bad(text.clone(), fault);
        let name = std::str::from_utf8(token.text(bytes, &mut self.scratch));
        let name = name.map_err(|_| refused(Fault::NotUtf8))?.to_string();
        check_name(&name).map_err(refused)?;
        let raw = token.raw(bytes);
        let place = match self.places.get(&name) {
            Some(&place) => place,
            None => self.new_place(name, raw, find),
        };
        self.tables[place].raw = raw.to_vec();
        self.tables[place].check().map_err(refused)?;
        self.latest = place;
        Ok(token.end)
    }

    /// The place of the table that a name means which no line had before, in this spelling.
    fn new_place(&mut self, name: String, raw: &[u8], find: FindTable<'_>) -> usize {
        let schema = find(&name);
        let key = schema.as_ref().map_or_else(|| folded_name(&name), |schema| schema.name().to_string());
        let place = *self.keys.entry(key).or_insert(self.tables.len());
        if place == self.tables.len() {
            self.tables.push(Table::new(name.clone(), raw.to_vec(), schema));
        }
        self.places.insert(name, place);
        place
    }
}

/// The row of a line while it is read.
struct Row<'a> {
    table: &'a mut Table,
    scratch: &'a mut Vec<u8>,
    /// The column that comes next if the line is like the one before.
    next: usize,
    /// Columns with a value.
    filled: usize,
    has_fields: bool,
    time: Option<i64>,
    /// The name of the field that gave it.
    time_name: Option<Token>,
}

impl Row<'_> {
    /// Reads what stands behind the table's name; where the line ends.
    #[inline]
    fn columns(&mut self, bytes: &[u8], mut at: usize, precision: Precision) -> Result<usize, Stop> {
        while whole(bytes.get(at))? == &b',' {
            at = self.tag(bytes, at + 1)?;
        }
        loop {
            at = spaces(bytes, at);
            match *whole(bytes.get(at))? {
                b'\n' | b'\r' => return end_of_line(bytes, at),
                b'0'..=b'9' | b'-' if self.has_fields => return self.time(bytes, at, precision),
                _ if self.has_fields => {
                    let what = "a time is expected behind the fields";
                    return Err(bad(at..at + 1, Fault::Line { what }));
                }
                _ => {}
            }
            // A line of tags alone may have a time too.
            if !self.starts_next(bytes, at) {
                let token = whole(unquoted(bytes, at, |byte| byte == b'=' || is_value_end(byte)))?;
                if bytes[token.end] != b'=' {
                    return self.time(bytes, at, precision);
                }
            }
            at = self.field(bytes, at)?;
            while whole(bytes.get(at))? == &b',' {
                at = self.field(bytes, at + 1)?;
            }
            self.has_fields = true;
        }
    }

    /// Whether the column that comes next if the line is like the one before does.
    #[inline]
    fn starts_next(&self, bytes: &[u8], at: usize) -> bool {
        self.table.columns.get(self.next).is_some_and(|column| {
            bytes[at..].starts_with(&column.raw) && bytes.get(at + column.raw.len()) == Some(&b'=')
        })
    }

    /// The name at `at`, up to its equals sign.
    fn name(&self, bytes: &[u8], at: usize) -> Result<Token, Stop> {
        let token = whole(unquoted(bytes, at, |byte| byte == b'=' || is_value_end(byte)))?;
        if bytes[token.end] == b'=' && token.end > token.start {
            return Ok(token);
        }
        let what = "name=value is expected";
        Err(bad(token.start..token.end.max(token.start + 1).min(bytes.len()), Fault::Line { what }))
    }

    /// Reads a tag; where it ends.
    #[inline]
    fn tag(&mut self, bytes: &[u8], at: usize) -> Result<usize, Stop> {
        let rows = self.table.rows;
        if self.starts_next(bytes, at) && self.table.columns[self.next].builder.len() == rows {
            let column = &mut self.table.columns[self.next];
            let start = at + column.raw.len() + 1;
            let end = match (column.builder.column_type(), plain_value(&bytes[start..])) {
                (ColumnType::Symbol, Some(length)) => {
                    let end = start + length;
                    column.builder.push_plain(&bytes[start..end]).map(|()| end)
                }
                _ => None,
            };
            let end = match end {
                Some(end) => end,
                None => self.tag_value(
                    bytes,
                    start,
                    self.next,
                    Token { start: at, end: start - 1, is_escaped: true },
                )?,
            };
            self.next += 1;
            self.filled += 1;
            return Ok(end);
        }
        self.odd_tag(bytes, at)
    }

    /// Reads the value of a tag into a column that has none in this row; where it ends.
    fn tag_value(&mut self, bytes: &[u8], at: usize, column: usize, name: Token) -> Result<usize, Stop> {
        let value = whole(unquoted(bytes, at, is_value_end))?;
        let pushed = self.table.columns[column].push_tag(value.text(bytes, self.scratch));
        pushed.map_err(|fault| Stop::Bad { text: value.start..value.end, column: Some(name), fault })?;
        Ok(value.end)
    }

    #[inline(never)]
    fn odd_tag(&mut self, bytes: &[u8], at: usize) -> Result<usize, Stop> {
        let name = self.name(bytes, at)?;
        let value = whole(unquoted(bytes, name.end + 1, is_value_end))?;
        let refused = |fault| Stop::Bad { text: value.start..value.end, column: Some(name), fault };
        let place = match self.table.place(name.raw(bytes)) {
            Some(place) => place,
            None => {
                let text = name.text(bytes, self.scratch);
                self.table.new_place(name.raw(bytes), text, ColumnType::Symbol, true).map_err(refused)?
            }
        };
        match place {
            Place::Time => Err(refused(Fault::Conflict { sent: "a tag", wanted: ColumnType::Timestamp })),
            Place::Column(place) => {
                let column = &mut self.table.columns[place];
                if column.fills(name.raw(bytes), self.table.rows).map_err(refused)? {
                    self.tag_value(bytes, value.start, place, name)?;
                    self.filled += 1;
                }
                self.next = place + 1;
                Ok(value.end)
            }
        }
    }

    /// Reads a field; where it ends.
    #[inline]
    fn field(&mut self, bytes: &[u8], at: usize) -> Result<usize, Stop> {
        if self.starts_next(bytes, at) {
            let rows = self.table.rows;
            let column = &mut self.table.columns[self.next];
            let rest = &bytes[at + column.raw.len() + 1..];
            let value = match plain_value(rest) {
                Some(length) if column.builder.len() == rows => &rest[..length],
                _ => &[],
            };
            let pushed = match column.builder.column_type() {
                ColumnType::Float64 => column.builder.push_plain(value),
                ColumnType::Int64 => {
                    value.strip_suffix(b"i").and_then(|digits| column.builder.push_plain(digits))
                }
                _ => None,
            };
            if pushed.is_some() {
                self.next += 1;
                self.filled += 1;
                return Ok(at + column.raw.len() + 1 + value.len());
            }
        }
        self.odd_field(bytes, at)
    }

    #[inline(never)]
    fn odd_field(&mut self, bytes: &[u8], at: usize) -> Result<usize, Stop> {
        let name = self.name(bytes, at)?;
        let start = name.end + 1;
        let place = self.table.place(name.raw(bytes));
        // A name with escapes is read before the value, which may need the room.
        let fresh = match place {
            None => Some(name.text(bytes, self.scratch).to_vec()),
            Some(_) => None,
        };
        let (value, end) = match value(bytes, start, self.scratch) {
            Ok(found) => found,
            Err(NoValue::Incomplete) => return Err(Stop::Incomplete),
            Err(NoValue::Bad(end, fault)) => {
                return Err(Stop::Bad { text: start..end, column: Some(name), fault });
            }
        };
        let refused = |fault| Stop::Bad { text: start..end, column: Some(name), fault };
        if !is_value_end(*whole(bytes.get(end))?) {
            return Err(refused(Fault::Field { what: "goes on after its end" }));
        }
        let place = match (place, fresh) {
            (Some(place), _) => place,
            (None, fresh) => {
                let fresh = fresh.unwrap_or_default();
                let new = self.table.new_place(name.raw(bytes), &fresh, value.column_type(), false);
                new.map_err(refused)?
            }
        };
        match (place, &value) {
            (Place::Time, Value::Time(time)) => match self.time_name {
                Some(before) if before.raw(bytes) != name.raw(bytes) => {
                    let other = String::from_utf8_lossy(before.raw(bytes)).into_owned();
                    return Err(refused(Fault::Alike { other }));
                }
                Some(_) => {}
                None => (self.time, self.time_name) = (Some(*time), Some(name)),
            },
            (Place::Time, other) => {
                let (sent, wanted) = (other.kind(), ColumnType::Timestamp);
                return Err(refused(Fault::Conflict { sent, wanted }));
            }
            (Place::Column(place), value) => {
                let column = &mut self.table.columns[place];
                if column.fills(name.raw(bytes), self.table.rows).map_err(refused)? {
                    column.push(value).map_err(refused)?;
                    self.filled += 1;
                }
                self.next = place + 1;
            }
        }
        Ok(end)
    }

    /// Reads the time at `at`, the last thing of a line; where the line ends. One that a field gave stays.
    #[inline]
    fn time(&mut self, bytes: &[u8], at: usize, precision: Precision) -> Result<usize, Stop> {
        let end = plain_value(&bytes[at..]).map(|length| at + length);
        let plain = end.and_then(|end| Some((plain_i64(&bytes[at..end])?, end)));
        let (time, end) = match plain {
            Some((time, end)) => (precision.nanos(time), end),
            None => odd_time(bytes, at, precision)?,
        };
        if !self.table.has_times() {
            return Err(bad(at..end, Fault::NoTime));
        }
        let time = time.ok_or_else(|| bad(at..end, Fault::PastTime))?;
        self.time = self.time.or(Some(time));
        end_of_line(bytes, spaces(bytes, end))
    }
}

/// A time with the letter of its unit, or with too many digits.
#[cold]
fn odd_time(bytes: &[u8], at: usize, precision: Precision) -> Result<(Option<i64>, usize), Stop> {
    let token = whole(unquoted(bytes, at, is_value_end))?;
    let text = token.raw(bytes);
    let (digits, precision) = match text.split_last() {
        Some((b't', digits)) => (digits, Precision::Nanoseconds(1_000)),
        Some((b'n', digits)) => (digits, Precision::Nanoseconds(1)),
        _ => (text, precision),
    };
    match parse_i64(digits) {
        Ok(time) => Ok((precision.nanos(time), token.end)),
        Err(_) => {
            let what = "a time, a whole number, is expected at its end";
            Err(bad(token.start..token.end.max(token.start + 1), Fault::Line { what }))
        }
    }
}

#[inline]
fn spaces(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// Where the line that ends at `at` has its end.
#[inline]
fn end_of_line(bytes: &[u8], at: usize) -> Result<usize, Stop> {
    let line_feed = at + usize::from(whole(bytes.get(at))? == &b'\r');
    match whole(bytes.get(line_feed))? {
        b'\n' => Ok(line_feed + 1),
        _ => Err(bad(at..at + 1, Fault::Line { what: "it goes on after its time" })),
    }
}
