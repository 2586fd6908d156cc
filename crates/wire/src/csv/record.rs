//! Where records and fields begin and end.

use memchr::{memchr, memchr2, memrchr};
use std::borrow::Cow;
use std::ops::Range;

/// The length of the whole records at the start of `bytes`, which begins where a record does; 0 where
/// not even the first ends. A record without a line end at the end of a file is not counted.
pub fn last_record_end(bytes: &[u8], delimiter: u8) -> usize {
    if memchr(b'"', bytes).is_none() {
        return memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    }
    let mut end = 0;
    while let Some(length) = record_length(&bytes[end..], delimiter) {
        end += length;
    }
    end
}

/// How many whole records `bytes` begins with, counted up to `most`.
pub fn record_count(bytes: &[u8], delimiter: u8, most: usize) -> usize {
    let (mut count, mut at) = (0, 0);
    while count < most
        && let Some(length) = bytes.get(at..).and_then(|rest| record_length(rest, delimiter))
    {
        count += usize::from(empty_line(&bytes[at..]).is_none());
        at += length;
    }
    count
}

/// The length of the first record with its line end, `None` where it does not end.
pub(crate) fn record_length(bytes: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr2(b'"', b'\n', bytes.get(at..)?)?;
        if bytes[found] == b'\n' {
            return Some(found + 1);
        }
        let begins = found == 0 || bytes[found - 1] == delimiter || bytes[found - 1] == b'\n';
        at = if begins { found + 1 + closing_quote(&bytes[found + 1..])? + 1 } else { found + 1 };
    }
}

/// Where the quote stands that closes the quoted text at the start of `bytes` (behind its opening one).
fn closing_quote(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr(b'"', bytes.get(at..)?)?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// What ended a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Delimiter,
    Record,
}

/// What is wrong with a field's quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteFault {
    After,
    Unclosed,
}

/// A field as it stands in the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawField {
    /// Its text, inside the quotes where it has them.
    pub(crate) text: Range<usize>,
    pub(crate) quoted: bool,
    /// Whether the text holds doubled quotes.
    pub(crate) escaped: bool,
    pub(crate) end: End,
    /// Where the next field or record begins.
    pub(crate) next: usize,
}

/// The field that begins at `at`.
pub(crate) fn raw_field(bytes: &[u8], at: usize, delimiter: u8) -> Result<RawField, QuoteFault> {
    if bytes.get(at) == Some(&b'"') {
        return quoted_field(bytes, at + 1, delimiter);
    }
    let found = memchr2(delimiter, b'\n', &bytes[at..]).map(|length| at + length);
    let (mut stop, end, next) = match found {
        Some(stop) if bytes[stop] == delimiter => (stop, End::Delimiter, stop + 1),
        Some(stop) => (stop, End::Record, stop + 1),
        None => (bytes.len(), End::Record, bytes.len()),
    };
    if end == End::Record && found.is_some() && stop > at && bytes[stop - 1] == b'\r' {
        stop -= 1;
    }
    Ok(RawField { text: at..stop, quoted: false, escaped: false, end, next })
}

fn quoted_field(bytes: &[u8], start: usize, delimiter: u8) -> Result<RawField, QuoteFault> {
    let stop = start + closing_quote(&bytes[start..]).ok_or(QuoteFault::Unclosed)?;
    let escaped = memchr(b'"', &bytes[start..stop]).is_some();
    let (end, next) = match &bytes[stop + 1..] {
        [] => (End::Record, stop + 1),
        [b'\n', ..] => (End::Record, stop + 2),
        [b'\r', b'\n', ..] => (End::Record, stop + 3),
        [byte, ..] if *byte == delimiter => (End::Delimiter, stop + 2),
        _ => return Err(QuoteFault::After),
    };
    Ok(RawField { text: start..stop, quoted: true, escaped, end, next })
}

/// A quoted field's text with its doubled quotes made single, put into `out`.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = text;
    while let Some(at) = memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=at]);
        // Inside a quoted field quotes come in pairs.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// A field of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its text, without quotes.
    pub text: Cow<'a, [u8]>,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

/// Reads records field by field, for headers and samples; faults of quotes end a record early.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    delimiter: u8,
    at: usize,
}

impl<'a> Records<'a> {
    /// The records of `bytes`, which begins where a record does.
    pub fn new(bytes: &'a [u8], delimiter: u8) -> Self {
        Self { bytes, delimiter, at: 0 }
    }

    /// Where the next record begins.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Vec<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(length) = empty_line(&self.bytes[self.at..]) {
            self.at += length;
        }
        if self.at >= self.bytes.len() {
            return None;
        }
        let start = self.at;
        let mut fields = Vec::new();
        loop {
            let Ok(field) = raw_field(self.bytes, self.at, self.delimiter) else {
                let length = record_length(&self.bytes[start..], self.delimiter);
                self.at = length.map_or(self.bytes.len(), |length| start + length);
                return Some(fields);
            };
            let raw = &self.bytes[field.text.clone()];
            let text = if field.escaped {
                let mut plain = Vec::new();
                unescape(raw, &mut plain);
                Cow::Owned(plain)
            } else {
                Cow::Borrowed(raw)
            };
            fields.push(Field { text, quoted: field.quoted });
            self.at = field.next;
            if field.end == End::Record {
                return Some(fields);
            }
        }
    }
}

/// The length of the empty line at the start of `bytes`, `None` where there is none.
pub(crate) fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}
