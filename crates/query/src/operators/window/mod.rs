//! Window functions over the series of a table.
//!
//! ```text
//! WindowAggExec | BoundedWindowAggExec over a scan -> rule -> exec (ExecutionPlan)
//! exec: rows of a task (scan::SeriesReader) -> kernel a function -> frame, fold
//! ```
//!
//! `PARTITION BY` columns of the series key `ORDER BY` the designated timestamp is the order in which rows
//! are stored, so that nothing is sorted or dealt out: each core takes some series at a time, and a function
//! runs over the slice of one series ([`kernel`]). What [`rule`] does not recognise stays DataFusion's.

pub(super) mod alike;
pub(super) mod exec;
pub(super) mod fold;
mod frame;
mod kernel;
pub(super) mod rule;

#[cfg(test)]
mod tests;
