//! Answers to messages of rows.
//!
//! Messages are counted from 0 on a connection. An answer to one answers all before it; there is none to a message that is
//! not to be stored yet.

use super::refused::{Refused, Status};
use super::write::put_short_text;

/// Appends the answer that all messages up to `sequence` are taken, with the last transaction of each table that they
/// brought rows to.
pub fn put_ok<'a>(out: &mut Vec<u8>, sequence: u64, tables: impl ExactSizeIterator<Item = (&'a str, i64)>) {
    out.push(Status::Ok as u8);
    out.extend_from_slice(&sequence.to_le_bytes());
    put_transactions(out, tables);
}

/// Appends the answer that rows up to these transactions of their tables are where no loss of the server touches them. It
/// is for clients that asked for it.
pub fn put_durable<'a>(out: &mut Vec<u8>, tables: impl ExactSizeIterator<Item = (&'a str, i64)>) {
    out.push(Status::DurableAck as u8);
    put_transactions(out, tables);
}

/// Appends the answer that message `sequence` is refused.
pub fn put_error(out: &mut Vec<u8>, sequence: u64, status: Status, text: &str) {
    out.push(status as u8);
    out.extend_from_slice(&sequence.to_le_bytes());
    put_short_text(out, text);
}

/// Appends the answer that message `sequence` is refused, and why.
pub fn put_refused(out: &mut Vec<u8>, sequence: u64, refused: &Refused) {
    put_error(out, sequence, refused.status(), &refused.to_string());
}

/// At most as many tables as 16 bits count; a client needs none of them.
fn put_transactions<'a>(out: &mut Vec<u8>, tables: impl ExactSizeIterator<Item = (&'a str, i64)>) {
    let count = tables.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(count as u16).to_le_bytes());
    for (table, transaction) in tables.take(count) {
        put_short_text(out, table);
        out.extend_from_slice(&transaction.to_le_bytes());
    }
}
