//! What a parser returns for a chunk of records.

use crate::Fault;
use arrow_array::ArrayRef;
use std::ops::Range;

/// The longest record a parser is given, in bytes; a longer one is taken for an unclosed quote.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// How much of a bad field's text is kept, in bytes.
const SHOWN_BYTES_MAX: usize = 80;

/// The rows of a chunk of records, and those that could not be taken.
#[derive(Debug)]
pub struct Chunk {
    /// One array a column of the plan, in edge types, each of `rows` values.
    pub columns: Vec<ArrayRef>,
    /// Good rows.
    pub rows: usize,
    /// Lines the chunk's bytes hold, so that the next chunk's can be numbered.
    pub lines: u64,
    /// The bad rows in order; they are not in `columns`.
    pub bad: Vec<BadRow>,
    /// JSON keys no column takes, each once.
    pub ignored: Vec<String>,
}

/// A record that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// The line it begins on, from 0 at the chunk's start.
    pub line: u64,
    /// The field at fault, from 1, with its name; `None` where the record as a whole is.
    pub field: Option<(usize, String)>,
    /// The field's text as it stands in the file (the record's, where `field` is `None`), cut when long.
    pub text: String,
    /// Why.
    pub fault: Fault,
    /// Where the record stands in the chunk's bytes, without its line end.
    pub record: Range<usize>,
}

/// Text for a message: lossy, on one line, cut when long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = bytes.len() > SHOWN_BYTES_MAX;
    let head = if cut { &bytes[..SHOWN_BYTES_MAX] } else { bytes };
    let mut text: String =
        String::from_utf8_lossy(head).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut {
        text.push('…');
    }
    text
}
