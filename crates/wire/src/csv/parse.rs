//! Chunks of records to columns.
//!
//! Field first, value second: a field is cut out before its bytes are read as a value, so that a delimiter never counts
//! as a part of one. Fields without quotes are cut out by words ([`plain_text`]) and read by the common shapes first
//! ([`ColumnBuilder::push_unquoted`]); quoted ones, NULLs and faults take the long way. Invariant between records: every
//! column holds `rows` values.

use super::record::{End, QuoteFault, Records, empty_line, raw_field, record_length, unescape};
use crate::chunk::shown;
use crate::column::ColumnBuilder;
use crate::value::plain_text;
use crate::{BadRow, Chunk, Fault, Plan};
use memchr::{memchr, memchr_iter};
use std::sync::Arc;

/// Parses chunks of whole records by a plan. One a thread; reusable, with no memory of the chunks before.
#[derive(Debug)]
pub struct Parser {
    plan: Arc<Plan>,
    delimiter: u8,
    columns: Vec<ColumnBuilder>,
    /// Columns no field fills.
    absent: Vec<usize>,
    unescaped: Vec<u8>,
    /// Rows of the chunk before, to reserve as many.
    rows_before: usize,
}

/// A record that could not be taken: the field at fault (from 0), its place, and why.
struct BadRecord {
    field: Option<(usize, std::ops::Range<usize>)>,
    fault: Fault,
}

impl Parser {
    /// A parser for `plan` of fields delimited by `delimiter`.
    pub fn new(plan: Arc<Plan>, delimiter: u8) -> Self {
        let columns = plan.columns.iter().map(ColumnBuilder::new).collect();
        let absent = (0..plan.columns.len()).filter(|column| !plan.fields.contains(&Some(*column))).collect();
        Self { plan, delimiter, columns, absent, unescaped: Vec::new(), rows_before: 0 }
    }

    /// Parses `bytes`: whole records, the last with or without its line end. With `stop_at_bad` the
    /// chunk ends before its first bad row, which is then the only one reported.
    pub fn parse(&mut self, bytes: &[u8], stop_at_bad: bool) -> Chunk {
        // Some more than before: one row past the room would move them all, and keep twice of it.
        let room = self.rows_before + self.rows_before / 8;
        for column in &mut self.columns {
            column.reserve(room);
        }
        // Without a field nothing would move on.
        let end = if self.plan.fields.is_empty() { 0 } else { bytes.len() };
        let (mut at, mut rows, mut lines) = (0, 0, 0_u64);
        let mut bad = Vec::new();
        while at < end {
            if let Some(length) = empty_line(&bytes[at..]) {
                at += length;
                lines += 1;
                continue;
            }
            match self.record(bytes, at) {
                Ok((next, quoted_lines)) => {
                    rows += 1;
                    lines += 1 + quoted_lines;
                    at = next;
                }
                Err(record) => {
                    for column in &mut self.columns {
                        column.truncate(rows);
                    }
                    let (row, next) = self.bad_row(bytes, at, lines, record);
                    if stop_at_bad {
                        bad.push(row);
                        break;
                    }
                    lines += 1 + memchr_iter(b'\n', &bytes[row.record.clone()]).count() as u64;
                    bad.push(row);
                    at = next;
                }
            }
        }
        self.fill_absent(rows);
        self.rows_before = rows;
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        Chunk { columns, rows, lines, bad, ignored: Vec::new() }
    }

    /// Reads the record at `at` into the columns: where the next one begins, and how many line ends
    /// stood inside quotes.
    #[inline]
    fn record(&mut self, bytes: &[u8], start: usize) -> Result<(usize, u64), BadRecord> {
        let delimiter = self.delimiter;
        let last = self.plan.fields.len().saturating_sub(1);
        let (mut at, mut quoted_lines) = (start, 0);
        for index in 0..=last {
            let rest = &bytes[at..];
            if let Some(column) = self.plan.fields[index].and_then(|target| self.columns.get_mut(target)) {
                let (length, is_ascii) = plain_text(rest, delimiter);
                let (field, behind) = rest.split_at(length);
                let ended = match behind {
                    [byte, ..] if *byte == delimiter => (index < last).then_some(1),
                    _ if index < last => None,
                    [] => Some(0),
                    [b'\n', ..] => Some(1),
                    [b'\r', b'\n', ..] => Some(2),
                    _ => None,
                };
                let is_plain = field.first().is_some_and(|first| *first != b'"');
                if let (Some(end), true) = (ended, is_plain)
                    && column.push_unquoted(field, is_ascii).is_some()
                {
                    at += length + end;
                    continue;
                }
            }
            let (next, end, lines) = self.odd_field(bytes, at, index)?;
            quoted_lines += lines;
            match (end, index == last) {
                (End::Delimiter, false) | (End::Record, true) => at = next,
                _ => return Err(self.field_count(bytes, start)),
            }
        }
        Ok((at, quoted_lines))
    }

    /// Reads the field at `at`, whatever its shape: where the next begins, what ended it, line ends inside.
    #[cold]
    #[inline(never)]
    fn odd_field(&mut self, bytes: &[u8], at: usize, index: usize) -> Result<(usize, End, u64), BadRecord> {
        let field = raw_field(bytes, at, self.delimiter).map_err(|fault| BadRecord {
            field: Some((index, at..field_end(bytes, at))),
            fault: match fault {
                QuoteFault::After => Fault::AfterQuote,
                QuoteFault::Unclosed => Fault::UnclosedQuote,
            },
        })?;
        let raw = &bytes[field.text.clone()];
        let lines = if field.quoted { memchr_iter(b'\n', raw).count() as u64 } else { 0 };
        if let Some((target, column)) =
            self.plan.fields[index].and_then(|target| Some((target, self.columns.get_mut(target)?)))
        {
            let text = if field.escaped {
                unescape(raw, &mut self.unescaped);
                &self.unescaped[..]
            } else {
                raw
            };
            let has_empty = self.plan.columns[target].has_empty();
            let is_null = text.is_empty() && !(field.quoted && has_empty);
            let pushed = if is_null { column.push_null() } else { column.push(text) };
            pushed.map_err(|fault| BadRecord { field: Some((index, field.text.clone())), fault })?;
        }
        Ok((field.next, field.end, lines))
    }

    /// The fault of the record at `start`, which has too few or too many fields.
    fn field_count(&self, bytes: &[u8], start: usize) -> BadRecord {
        let mut records = Records::new(&bytes[start..], self.delimiter);
        let found = records.next().map_or(0, |fields| fields.len());
        BadRecord { field: None, fault: Fault::FieldCount { expected: self.plan.fields.len(), found } }
    }

    /// The report of a bad record, and where the next one begins.
    fn bad_row(&self, bytes: &[u8], start: usize, line: u64, record: BadRecord) -> (BadRow, usize) {
        let next =
            record_length(&bytes[start..], self.delimiter).map_or(bytes.len(), |length| start + length);
        let whole = bytes[start..next].strip_suffix(b"\n").unwrap_or(&bytes[start..next]);
        let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
        let text = record.field.as_ref().map_or(whole, |(_, text)| &bytes[text.clone()]);
        let field = record.field.as_ref().map(|(index, _)| {
            let source = self.plan.fields[*index].and_then(|target| self.plan.columns.get(target));
            (index + 1, source.map_or_else(String::new, |column| column.source.clone()))
        });
        let end = start + whole.len();
        (BadRow { line, field, text: shown(text), fault: record.fault, record: start..end }, next)
    }

    fn fill_absent(&mut self, rows: usize) {
        for &column in &self.absent {
            for _ in 0..rows {
                // A required column has a field: whoever makes a plan checks that.
                let _ = self.columns[column].push_null();
            }
        }
    }
}

/// Where the line of a field with faulty quotes ends, for showing it.
fn field_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length)
}

#[cfg(test)]
mod tests;
