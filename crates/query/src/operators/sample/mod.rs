//! SAMPLE BY and GROUP BY: aggregates by key and time bucket.
//!
//! ```text
//! marker -> plan (rewrites the SELECT to GROUP BY bucket, keys; lets DataFusion plan it)
//!        -> node (takes the place of the Aggregate) [-> fill] -> exec
//! ```
//!
//! Bars of a volume, a value or a number of rows are cut by what rows add up to ([`bars`]).
//!
//! GROUP BY symbols and totals are the same without buckets ([`grouping`] puts the operator in the place of
//! DataFusion's).
//!
//! Never sorts its input: groups are found by (key id, bucket) as runs of rows, and the kernels reduce a run
//! as a slice. Over a plain scan the runs are found from the series index and by searching times, and
//! only what the aggregates need is read ([`ranges`]); over anything else rows come batch by batch, each
//! partition of the input on its own, and the states are merged in order.

pub(crate) mod bars;
mod calendar;
pub(crate) mod exec;
pub(crate) mod grouping;
pub(crate) mod groups;
pub(super) mod kernel;
pub(crate) mod node;
pub(crate) mod plan;
pub(super) mod pushdown;
pub(crate) mod ranges;
mod rewrite;
mod rows;
pub(super) mod sampler;
pub(super) mod source;

#[cfg(test)]
mod tests;
