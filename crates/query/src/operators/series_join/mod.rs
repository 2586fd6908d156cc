//! WINDOW, HORIZON and SPLICE JOIN: what the right side was around the time of each left row.
//!
//! ```text
//! marker -> plan (outside: what the SELECT may read) -> node -> lower -> joins::exec
//! tasks (rows of both sides, series by series) | chunks (inputs in order of time)
//!       -> rows::Matched -> window: windows, aggregate, kernels | horizon, splice: rows -> Joined -> batches
//! ```
//!
//! - Both ways put the rows of both sides together by key, each key's in order of time; cursors that never
//!   move back go over them.
//! - Ways are chosen, work is cut and rows are put in order as all joins by time do it ([`super::joins`]).
//! - NULL keys and NULL times never match. `USING (k)` and `ON (k)` merge the key columns.
//! - The designated timestamp of a window and a horizon is the left side's; a splice has none.
//! - Memory holds a task's rows of both sides, or a chunk's, and what of the result is made at once; never the
//!   product of left rows and offsets.

mod aggregate;
pub(super) mod chunks;
mod kernels;
pub(crate) mod lower;
pub(crate) mod node;
mod outside;
pub(crate) mod plan;
pub(super) mod rows;
pub(super) mod tasks;
mod windows;

#[cfg(test)]
mod tests;
