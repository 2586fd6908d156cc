//! Messages of a server that bring no rows.

use super::kind;
use crate::qwp::refused::Status;
use crate::qwp::write::{put_message, put_short_text, put_varint};
use std::convert::Infallible;

/// What a server tells of itself.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfo<'a> {
    /// Nanoseconds since the Unix epoch by its clock.
    pub now: i64,
    /// What it calls the cluster it belongs to.
    pub cluster: &'a str,
    /// What it calls itself.
    pub node: &'a str,
}

/// The role of a server without replicas.
const STANDALONE: u8 = 0;

/// What the server understands: queries with flags, and with a timeout.
const CAPABILITIES: u32 = 0x02 | 0x08;

/// Appends the first message of a connection.
pub fn put_server_info(out: &mut Vec<u8>, info: &ServerInfo<'_>) {
    put(out, |out| {
        out.extend_from_slice(&[kind::SERVER_INFO, STANDALONE]);
        // The epoch of the role, which never changes.
        out.extend_from_slice(&0_u64.to_le_bytes());
        out.extend_from_slice(&CAPABILITIES.to_le_bytes());
        out.extend_from_slice(&info.now.to_le_bytes());
        put_short_text(out, info.cluster);
        put_short_text(out, info.node);
    });
}

/// Appends the end of a query with rows: the number of its last batch, 0 where there was none, and how many rows it had.
pub(super) fn put_end(out: &mut Vec<u8>, id: i64, last_batch: u64, rows: u64) {
    put(out, |out| {
        put_kind(out, kind::END, id);
        put_varint(out, last_batch);
        put_varint(out, rows);
    });
}

/// What a statement without rows did, by QuestDB's numbers.
#[allow(missing_docs, reason = "each is the statement of its name")]
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Insert = 2,
    Truncate = 3,
    Alter = 4,
    Set = 6,
    Drop = 7,
    CreateTable = 9,
    InsertAsSelect = 10,
    Update = 14,
    Vacuum = 17,
    Begin = 18,
    Commit = 19,
    Rollback = 20,
    CreateTableAsSelect = 21,
    CreateView = 34,
}

/// Appends the end of a statement without rows, and how many it touched.
pub(super) fn put_done(out: &mut Vec<u8>, id: i64, done: Done, rows: u64) {
    put(out, |out| {
        put_kind(out, kind::DONE, id);
        out.push(done as u8);
        put_varint(out, rows);
    });
}

/// Appends the end of a query that failed; `id` is -1 where it is none's.
pub fn put_error(out: &mut Vec<u8>, id: i64, status: Status, text: &str) {
    put(out, |out| {
        put_kind(out, kind::ERROR, id);
        out.push(status as u8);
        put_short_text(out, text);
    });
}

/// Appends that the connection's symbols are forgotten.
pub(super) fn put_reset(out: &mut Vec<u8>) {
    const SYMBOLS: u8 = 0x01;
    put(out, |out| out.extend_from_slice(&[kind::RESET, SYMBOLS]));
}

pub(super) fn put_kind(out: &mut Vec<u8>, kind: u8, id: i64) {
    out.push(kind);
    out.extend_from_slice(&id.to_le_bytes());
}

fn put(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let written = put_message(out, 0, 0, |out| {
        write(out);
        Ok::<(), Infallible>(())
    });
    match written {
        Ok(()) => {}
        Err(never) => match never {},
    }
}
