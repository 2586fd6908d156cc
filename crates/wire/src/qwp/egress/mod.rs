//! Queries and their results.
//!
//! A client's messages have no header and begin with their kind ([`read_request`]); a server's have one. After
//! [`put_server_info`], the first of a connection, each query is answered by [`Results::start`], batches
//! ([`Results::put_batch`]) within its [`Credit`], and one end: [`Results::put_end`], [`Results::put_done`] or
//! [`Results::put_error`].
//!
//! Never sent are packed timestamps and compressed batches, which a client understands but does not need.

mod column;
mod credit;
mod frames;
mod request;
mod results;
mod size;
mod symbols;
mod texts;

pub use column::wire_type;
pub use credit::Credit;
pub use frames::{Done, ServerInfo, put_error, put_server_info};
pub use request::{Query, RefusedRequest, Request, read_request};
pub use results::{Results, Unsendable, pieces};

use super::kind::WireType;

/// Kinds of messages.
mod kind {
    pub(super) const QUERY: u8 = 0x10;
    pub(super) const BATCH: u8 = 0x11;
    pub(super) const END: u8 = 0x12;
    pub(super) const ERROR: u8 = 0x13;
    pub(super) const CANCEL: u8 = 0x14;
    pub(super) const CREDIT: u8 = 0x15;
    pub(super) const DONE: u8 = 0x16;
    pub(super) const RESET: u8 = 0x17;
    pub(super) const SERVER_INFO: u8 = 0x18;
}
