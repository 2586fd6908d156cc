//! SAMPLE BY: aggregates by key and time bucket.
//!
//! ```text
//! marker -> plan (rewrites the SELECT to GROUP BY bucket, keys; lets DataFusion plan it)
//!        -> node (takes the place of the Aggregate) [-> fill] -> exec
//! ```
//!
//! Never sorts its input: groups are found by (key id, bucket) as runs of rows, whose ends are searched
//! where times are in order, as the scan yields them; the kernels reduce a run as a slice. Each partition
//! of the input is reduced on its own, and the states are merged in order.

pub(crate) mod exec;
pub(crate) mod groups;
mod kernel;
pub(crate) mod node;
pub(crate) mod plan;
mod rewrite;

#[cfg(test)]
mod tests;
