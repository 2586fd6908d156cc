//! What an unknown CSV file looks like: delimiter and header, from a sample.

use super::record::{Field, Records};
use crate::infer::is_text;
use std::collections::HashSet;

/// The delimiters looked for, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Records looked at.
const RECORDS: usize = 100;

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether the first record names the columns.
    pub header: bool,
}

/// The layout of the file that begins with `sample`.
pub fn sniff(sample: &[u8]) -> Layout {
    let delimiter = sniff_delimiter(sample);
    Layout { delimiter, header: has_header(sample, delimiter) }
}

/// The delimiter that cuts the most records into as many fields as the first, then into the most fields.
pub fn sniff_delimiter(sample: &[u8]) -> u8 {
    let score = |delimiter: u8| {
        let mut counts = Records::new(sample, delimiter).take(RECORDS).map(|fields| fields.len());
        let first = counts.next().unwrap_or(0);
        let agreeing = if first > 1 { 1 + counts.filter(|count| *count == first).count() } else { 0 };
        (agreeing, first)
    };
    // max_by_key takes the last of equals; the likeliest comes first.
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| score(*delimiter)).unwrap_or(b',')
}

/// Whether the first record names the columns: every field is text (a record of data nearly always holds
/// a number or a time). Where a name is missing or there twice, the record after it must tell: it has a
/// field that is no text below one that is. Where some names are whole numbers (`date,600519,300750`), all records after
/// it must: below a text they have none, and no two fields are the same.
pub fn has_header(sample: &[u8], delimiter: u8) -> bool {
    let mut records = Records::new(sample, delimiter);
    let Some(first) = records.next() else { return false };
    let is_empty = |field: &Field<'_>| field.text.trim_ascii().is_empty();
    let is_name = |field: &Field<'_>| !is_empty(field) && is_text(&field.text);
    if !first.iter().any(is_name) {
        return false;
    }
    if !first.iter().all(|field| is_empty(field) || is_text(&field.text)) {
        return names_numbers(&first, records);
    }
    let alike = |(index, field): (usize, &Field<'_>)| {
        first[..index].iter().any(|other| other.text.eq_ignore_ascii_case(&field.text))
    };
    if first.iter().all(is_name) && !first.iter().enumerate().any(alike) {
        return true;
    }
    let second = records.next().unwrap_or_default();
    first.iter().zip(&second).any(|(name, value)| is_name(name) && !is_empty(value) && !is_text(&value.text))
}

/// Whether a record with numbers in it names the columns of those that follow.
fn names_numbers(first: &[Field<'_>], records: Records<'_>) -> bool {
    let is_number = |field: &Field<'_>| !field.text.is_empty() && field.text.iter().all(u8::is_ascii_digit);
    let is_missing = |text: &[u8]| {
        [&b"na"[..], b"n/a", b"null", b"none", b"-"]
            .iter()
            .any(|word| text.trim_ascii().eq_ignore_ascii_case(word))
    };
    let is_name = |field: &Field<'_>| is_number(field) || is_text(&field.text) && !is_missing(&field.text);
    let names: HashSet<_> = first.iter().map(|field| field.text.to_ascii_lowercase()).collect();
    if names.len() != first.len() || !first.iter().all(is_name) {
        return false;
    }
    let mut below = first.iter().map(|field| !is_number(field)).collect::<Vec<_>>();
    let mut rows = 0;
    for record in records.take(RECORDS) {
        rows += 1;
        for (no_text, field) in below.iter_mut().zip(&record) {
            *no_text &= field.text.is_empty() || !is_text(&field.text);
        }
    }
    rows > 0 && below.contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_from_data() {
        let check = |sample: &str, expect: bool| {
            assert_eq!(has_header(sample.as_bytes(), b','), expect, "{sample:?}");
        };
        check("ts,price\n2024-08-08,1.5\n", true);
        check("ts,price\n", true);
        check("2024-08-08,1.5\n", false);
        check("a,b\nc,d\n", true);
        check(",ts,price\n0,2024-08-08,1.5\n", true);
        check("price,ts,price\n1,2024-08-08,1.5\n", true);
        check("buy,buy\nsell,buy\n", false);
        check("buy,\nsell,x\n", false);
        check(",\n1,2\n", false);
        check("", false);
        check("date,600519,300750\n2024-01-02,1700.5,180.1\n2024-01-03,,181\n", true);
        check("AAPL,100\nMSFT,200\n", false);
        check("date,600519\n", false);
        check("N/A,100\n1.5,200\n", false);
        check("x,1.5\n1,2.5\n", false);
        check("x,100,100\n1,2,3\n", false);
    }
}
