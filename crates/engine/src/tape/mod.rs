//! The tape: every accepted change is in it before it is acknowledged or visible.
//!
//! ```text
//! change -> encode (change, rows) -> open buffer -> one of those who wait: one write, one sync (writer)
//!                                                        -> segment of frames (segment, frame)
//! ```
//!
//! Which segments there must be stands outside the tape, in its manifest (named).
//!
//! Owns the tape's files, positions and epochs, group commit and the reading of segments at recovery.
//! Never knows what a table holds beyond column types. Enter at [`writer::Tape`]; docs/formats/tape.md
//! has the bytes.

pub(crate) mod change;
pub(crate) mod fate;
pub(crate) mod frame;
pub(crate) mod named;
mod rows;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod writer;
