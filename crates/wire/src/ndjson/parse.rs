//! Chunks of lines to columns.

use super::token::{Object, Text, Value, unescape};
use crate::chunk::shown;
use crate::column::ColumnBuilder;
use crate::{BadRow, Chunk, Fault, Plan};
use memchr::{memchr, memchr_iter};
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_model::ColumnType;

/// Parses chunks of whole lines by a plan. One a thread; reusable.
///
/// Invariant between lines: every column holds `rows` values.
#[derive(Debug)]
pub struct Parser {
    plan: Arc<Plan>,
    columns: Vec<ColumnBuilder>,
    /// What each key means, in the file's spelling.
    places: HashMap<Vec<u8>, Place>,
    /// What the nth key of the line before meant: the next line nearly always has the same order.
    order: Vec<(Vec<u8>, Place)>,
    /// Whether a key that no column takes is a fault.
    strict: bool,
    ignored: Vec<String>,
    key: Vec<u8>,
    text: Vec<u8>,
    path: Vec<u8>,
}

/// What a key means.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The column it fills.
    column: Option<usize>,
    /// Whether columns stand within the object that is its value.
    within: bool,
}

/// A line that could not be taken: the column at fault, the value's text, and why.
struct BadLine {
    column: Option<usize>,
    text: Option<String>,
    fault: Fault,
}

impl From<&'static str> for BadLine {
    fn from(what: &'static str) -> Self {
        BadLine { column: None, text: None, fault: Fault::Json { what } }
    }
}

impl Parser {
    /// A parser for `plan`.
    pub fn new(plan: Arc<Plan>) -> Self {
        let columns = plan.columns.iter().map(ColumnBuilder::new).collect();
        let mut places: HashMap<Vec<u8>, Place> = HashMap::new();
        for (index, column) in plan.columns.iter().enumerate() {
            let source = column.source.as_bytes();
            places.entry(source.to_vec()).or_default().column = Some(index);
            for point in memchr_iter(b'.', source) {
                places.entry(source[..point].to_vec()).or_default().within = true;
            }
        }
        Self {
            plan,
            columns,
            places,
            order: Vec::new(),
            strict: false,
            ignored: Vec::new(),
            key: Vec::new(),
            text: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The same parser, but that a key which no column takes makes its line a bad row.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Parses `bytes`: whole lines, the last with or without its line end. With `stop_at_bad` the
    /// chunk ends before its first bad row, which is then the only one reported.
    pub fn parse(&mut self, bytes: &[u8], stop_at_bad: bool) -> Chunk {
        let (mut at, mut rows, mut lines) = (0, 0, 0);
        let mut bad = Vec::new();
        while at < bytes.len() {
            let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
            let line = &bytes[at..end];
            if !line.trim_ascii().is_empty() {
                match self.line(line, rows) {
                    Ok(()) => rows += 1,
                    Err(fault) => {
                        self.columns.iter_mut().for_each(|column| column.truncate(rows));
                        bad.push(self.bad_row(fault, line, lines, at));
                        if stop_at_bad {
                            break;
                        }
                    }
                }
            }
            lines += 1;
            at = end + 1;
        }
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        Chunk { columns, rows, lines, bad, ignored: std::mem::take(&mut self.ignored) }
    }

    fn line(&mut self, line: &[u8], rows: usize) -> Result<(), BadLine> {
        let mut object = Object::open(line)?;
        let mut position = 0;
        while let Some((key, value)) = object.pair()? {
            let place = self.place(position, key)?;
            position += 1;
            self.fill(place, value, rows)?;
            if let (true, Value::Nested(json)) = (place.within, value) {
                let mut path = std::mem::take(&mut self.path);
                path.clear();
                let filled = match unescape(key.raw, &mut path) {
                    true => self.within(&mut path, json, rows),
                    false => Ok(()),
                };
                self.path = path;
                filled?;
            }
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            if column.len() == rows {
                column.push_null().map_err(|fault| BadLine { column: Some(index), text: None, fault })?;
            }
        }
        Ok(())
    }

    /// Fills the column of a key.
    fn fill(&mut self, place: Place, value: Value<'_>, rows: usize) -> Result<(), BadLine> {
        let Some(column) = place.column else { return Ok(()) };
        if self.columns[column].len() > rows {
            return Err(BadLine { column: Some(column), ..BadLine::from("a key comes twice") });
        }
        self.push(column, value)
    }

    /// Fills the columns that stand within the object at `path`; within an array none does. It goes as deep as the columns'
    /// paths are long.
    fn within(&mut self, path: &mut Vec<u8>, json: &[u8], rows: usize) -> Result<(), BadLine> {
        let Ok(mut object) = Object::open(json) else { return Ok(()) };
        let above = path.len();
        while let Some((key, value)) = object.pair()? {
            if !unescape(key.raw, &mut self.key) {
                return Err(BadLine::from("a key has an escape that is none"));
            }
            path.truncate(above);
            path.push(b'.');
            path.extend_from_slice(&self.key);
            let Some(&place) = self.places.get(path.as_slice()) else { continue };
            self.fill(place, value, rows)?;
            if let (true, Value::Nested(json)) = (place.within, value) {
                self.within(path, json, rows)?;
            }
        }
        Ok(())
    }

    /// What a key means, remembered by its position in the line.
    fn place(&mut self, position: usize, key: Text<'_>) -> Result<Place, BadLine> {
        if let Some((known, place)) = self.order.get(position)
            && !key.escaped
            && known == key.raw
        {
            return Ok(*place);
        }
        if !unescape(key.raw, &mut self.key) {
            return Err(BadLine::from("a key has an escape that is none"));
        }
        let place = match self.places.get(&self.key) {
            Some(place) => *place,
            None => {
                let name = String::from_utf8_lossy(&self.key).into_owned();
                if self.strict {
                    return Err(BadLine { column: None, text: None, fault: Fault::UnknownKey { key: name } });
                }
                self.ignored.push(name);
                self.places.insert(self.key.clone(), Place::default());
                Place::default()
            }
        };
        self.order.truncate(position);
        if self.order.len() == position {
            self.order.push((self.key.clone(), place));
        }
        Ok(place)
    }

    fn push(&mut self, index: usize, value: Value<'_>) -> Result<(), BadLine> {
        let column_type = self.plan.columns[index].column_type;
        let has_empty = self.plan.columns[index].has_empty();
        let column = &mut self.columns[index];
        let (pushed, text) = match value {
            Value::Null => (column.push_null(), &[][..]),
            Value::Plain(token) => match column.push_plain(token) {
                Some(()) => return Ok(()),
                None => (column.push_token(token), token),
            },
            Value::Nested(json) if column_type == ColumnType::Varchar || column_type.is_array() => {
                (column.push(json), json)
            }
            Value::Nested(json) => {
                (Err(Fault::NotA { wanted: column_type, fits: ColumnType::Varchar }), json)
            }
            Value::Text(text) if text.raw.is_empty() && !has_empty => (column.push_null(), text.raw),
            Value::Text(text) if !text.escaped => match column.push_plain(text.raw) {
                Some(()) => return Ok(()),
                None => (column.push(text.raw), text.raw),
            },
            Value::Text(text) => {
                if !unescape(text.raw, &mut self.text) {
                    let fault = Fault::Json { what: "a string has an escape that is none" };
                    return Err(BadLine { column: Some(index), text: Some(shown(text.raw)), fault });
                }
                (column.push(&self.text), text.raw)
            }
        };
        pushed.map_err(|fault| BadLine { column: Some(index), text: Some(shown(text)), fault })
    }

    fn bad_row(&self, bad: BadLine, line: &[u8], number: u64, at: usize) -> BadRow {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let field = bad.column.map(|index| (index + 1, self.plan.columns[index].source.clone()));
        let text = bad.text.unwrap_or_else(|| if field.is_some() { String::new() } else { shown(line) });
        BadRow { line: number, field, text, fault: bad.fault, record: at..at + line.len() }
    }
}

#[cfg(test)]
mod tests;
