//! A Tickstone server from afar, over Arrow Flight SQL: statements, their rows as Arrow batches as they come, and
//! rows into tables.
//!
//! Owns addresses, the connection, errors in their parts, and what the server and it say to each other beyond Flight
//! SQL ([`protocol`]). Never plans a statement, and knows nothing of how rows are stored.
//!
//! ```text
//! tickstone://host ─► Client ─┬► query ─► Rows (a stream; dropped, it cancels)
//!                             ├► append ◄─ batches
//!                             └► session: settings, transactions, temporary tables
//! ```
//!
//! Raw streams have a protocol of their own ([`StreamClient`]).
//!
//! Enter at [`Client`], or at [`blocking::Client`] where nothing is async.

mod address;
mod append;
pub mod blocking;
mod client;
mod credentials;
mod error;
mod placed;
pub mod protocol;
mod rows;
pub mod sending;
mod streams;
mod tls;

pub use address::{Address, Identity, Trust};
pub use append::Append;
pub use client::Client;
pub use credentials::Credentials;
pub use error::{ClientError, Kind, Result};
pub use placed::placed;
pub use rows::{Answer, Rows};
pub use streams::{Document, STREAM_PORT, StreamClient, StreamId};
