//! FILL: a row for every bucket and key between two bounds.
//!
//! Reads the rows of SAMPLE BY in order of bucket, then key, and yields the whole grid in the same
//! order. Never makes more than [`exec::MAX_FILLED_ROWS`] rows.

pub(crate) mod exec;
mod grid;
pub(crate) mod node;
pub(crate) mod plan;
