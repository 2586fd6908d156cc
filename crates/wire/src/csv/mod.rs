//! CSV (RFC 4180): records of delimited fields.
//!
//! A field that begins with `"` is quoted: it may hold delimiters and line ends, and `""` is one
//! quote; anywhere else a quote is a character like others. A record ends with `\n` or `\r\n`; empty
//! lines are skipped. An empty field is NULL; a quoted empty one is the empty string where the column
//! is text, and no bytes where it is BINARY. Enter at [`Parser`]; [`sniff()`] finds delimiter and header of an unknown
//! file.

mod parse;
mod record;
mod sniff;

pub use parse::Parser;
pub(crate) use record::{End, empty_line, raw_field, record_length, unescape};
pub use record::{Field, Records, last_record_end, record_count};
pub use sniff::{Layout, has_header, sniff, sniff_delimiter};

/// The byte order mark some programs put at a file's start.
pub const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
