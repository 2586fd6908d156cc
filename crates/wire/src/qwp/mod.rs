//! QWP, the QuestDB Wire Protocol, version 1: rows in and results out as columns, in messages of a WebSocket.
//!
//! Owns the bytes of messages and what a connection keeps between them; never opens a socket and never runs a statement.
//!
//! ```text
//! rows      message ─► Ingress::read ─► TableRows a table ─► (stored) ─► response::put_ok │ put_refused
//! queries   message ─► egress::read_request ─► (run) ─► egress::Results::put_batch … ─► Results::put_end │ put_error
//! ```
//!
//! Rows end as those of line protocol do, in [`TableRows`](crate::TableRows), and go into a table's columns by the same
//! rules: a value of another type where nothing is lost, else the message is refused by its table, column and row. A new
//! table has the message's SYMBOLs as its series key. A row without a time gets the server's.
//!
//! NULL in a column without bits for it is the value that QuestDB keeps for it: the least INT and LONG, NaN, the IPv4
//! address 0.0.0.0, the character 0, a geohash of ones. BOOLEAN, BYTE and SHORT have none. Types that a table does not have
//! (CHAR, IPv4, LONG256, GEOHASH) are texts.
//!
//! Nothing is allocated on a message's word: counts are held against the bytes that are left and against [`Limits`].
//!
//! Sources: QuestDB's "QWP ingress (WebSocket)" and "QWP egress (WebSocket)", version 1 of the protocol, and messages of
//! its Python client 6.0.0, which differ from the latter: the header's version is always 1, the names and types of a
//! result's columns come with its first batch alone, and queries have flags.

mod column;
pub mod egress;
mod fit;
mod header;
mod ingress;
mod kind;
mod limits;
mod nulls;
mod packed;
mod read;
mod refused;
pub mod response;
mod symbols;
mod table;
mod text;
mod write;

pub use header::{HEADER_BYTES, VERSION, negotiate};
pub use ingress::{Ingress, Rows};
pub use kind::WireType;
pub use limits::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, BINDS_MAX, Limits, SQL_BYTES_MAX};
pub use read::Malformed;
pub use refused::{Refused, Status};

/// The order of bytes on the wire, which is taken as it is in memory.
const _: () = assert!(cfg!(target_endian = "little"));

#[cfg(test)]
mod tests;
