//! Window functions over the series of a table.
//!
//! ```text
//! WindowAggExec | BoundedWindowAggExec over a scan -> rule -> exec (ExecutionPlan)
//! exec: rows of a task (scan::SeriesReader) -> steps: layer | slices -> kernel a function -> frame, fold
//! ```
//!
//! `PARTITION BY` columns of the series key `ORDER BY` the designated timestamp is the order in which rows
//! are stored, so that nothing is sorted or dealt out: each core takes some series at a time, and a function
//! runs over the slice of one series ([`kernel`]). Where partitions are finer than series, or the order says more than
//! the time, the rows of each series are dealt out and sorted ([`slices`]). Other windows over
//! whole partitions group rows as they come ([`whole`]), and windows over any other input, sorted by partition and order,
//! have the same kernels ([`sorted`]). What is left to DataFusion are functions that have none.

pub(super) mod alike;
pub(super) mod exec;
pub(super) mod fold;
mod frame;
mod kernel;
mod picks;
pub(super) mod rule;
mod slices;
pub(super) mod sorted;
pub(super) mod whole;

#[cfg(test)]
pub(super) mod tests;
