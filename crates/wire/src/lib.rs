//! Bytes to rows, without I/O: CSV, newline-delimited JSON, line protocol and QWP, and QWP from rows.
//!
//! Owns the reading of text formats into typed Arrow columns: [`csv`] and [`ndjson`] cut bytes into
//! whole records and parse chunks of them by a [`Plan`]; [`infer`] guesses a plan from a sample. [`ilp`] reads lines
//! that name their tables and columns, into the rows of each ([`TableRows`]); [`qwp`] reads columns of them, and queries,
//! and writes results. [`stream`] has the requests of raw streams.
//! Never opens a file or a socket, never knows of a table's storage; strict: a field that is not
//! wholly a value of its column's type is a [`BadRow`], never a guess.
//!
//! ```text
//! sample ─► infer ─► Plan          bytes ─► last_record_end ─► whole records ─► Parser::parse ─► Chunk
//! ```
//!
//! Chunks are independent of each other, so any number of threads may parse them.
//! Enter at [`Plan`], then [`csv::Parser`] and [`ndjson::Parser`]; at [`ilp::Parser`]; at [`qwp::Ingress`] and
//! [`qwp::egress`]; at [`stream::read`].

mod chunk;
mod column;
pub mod csv;
mod fault;
#[doc(hidden)]
pub mod fuzz;
pub mod ilp;
pub mod infer;
pub mod ndjson;
mod plan;
pub mod qwp;
mod rows;
pub mod stream;
mod value;

pub use chunk::{BadRow, Chunk, RECORD_BYTES_MAX};
pub use fault::Fault;
pub use plan::{ColumnPlan, EpochUnit, Plan, TimeFormat};
pub use rows::{RowsColumn, TableRows};
pub use value::{parse_hex, parse_iso, parse_uuid};
