//! SAMPLE BY VOLUME(x), VALUE(x), TICKS: bars that are full, not over.
//!
//! ```text
//! marker -> sample::plan -> node (takes the place of the Aggregate) -> exec
//! exec: rows of one series after the other (series), or all in order of time -> cut -> kernels
//! ```
//!
//! - Each key has its own bars. A bar begins with the first row after the one that filled the last, ends with
//!   the row that makes it full, and has the time of its first row; the last one may not be full.
//! - NULL and NaN add nothing; a negative size is an error, as no bar could be said to end.
//! - Sizes are added as doubles, in the order of the rows, from 0 in each bar: the bars of a key are the same
//!   however its rows are stored.
//!
//! Where the keys tell series apart rows are read series by series, each by one core, and nothing is sorted.

mod cut;
pub(crate) mod exec;
pub(crate) mod node;
mod series;

#[cfg(test)]
mod tests;
