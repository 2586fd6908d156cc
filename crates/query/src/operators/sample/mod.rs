//! SAMPLE BY: aggregates by key and time bucket.
//!
//! ```text
//! marker -> plan (rewrites the SELECT to GROUP BY bucket, keys; lets DataFusion plan it)
//!        -> node (takes the place of the Aggregate) [-> fill] -> exec
//! ```
//!
//! Never sorts its input: groups are found by (key id, bucket), and rows that come in runs of one key
//! and bucket, as the scan yields them, cost no look-up at all.

pub(crate) mod exec;
pub(crate) mod groups;
pub(crate) mod node;
pub(crate) mod plan;
mod rewrite;

#[cfg(test)]
mod tests;
