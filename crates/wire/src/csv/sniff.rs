//! What an unknown CSV file looks like: delimiter and header, from a sample.

use super::record::{Field, Records};
use crate::infer::is_text;

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

/// Whether the first record names the columns: every field is text, none is empty, no two are alike
/// (a record of data nearly always holds a number or a time).
pub fn has_header(sample: &[u8], delimiter: u8) -> bool {
    let Some(first) = Records::new(sample, delimiter).next() else { return false };
    let names = |field: &Field<'_>| !field.text.trim_ascii().is_empty() && is_text(&field.text);
    let alike = |(index, field): (usize, &Field<'_>)| {
        first[..index].iter().any(|other| other.text.eq_ignore_ascii_case(&field.text))
    };
    !first.is_empty() && first.iter().all(names) && !first.iter().enumerate().any(alike)
}
