//! Newline-delimited JSON: one object a line.
//!
//! A key fills the column whose [`source`](crate::ColumnPlan::source) it is; a source `data.p` is also the key `p` of the
//! object that is the value of `data`. A missing key and `null` are NULL; keys no column takes are ignored and named in the
//! chunk, or are faults where that is asked for. Numbers, timestamps and truth
//! values may stand in strings; an array or object inside a record is kept as its JSON text where the
//! column is VARCHAR. Enter at [`Parser`]; [`sample`] shows an unknown file's columns.

mod parse;
mod sample;
pub(crate) mod token;

pub use parse::Parser;
pub use sample::{first_fault, sample};

/// The length of the whole lines at the start of `bytes`.
pub fn last_record_end(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1)
}
