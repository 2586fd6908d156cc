//! ASOF JOIN series by series: where both sides are scans and the keys are of their series keys, the rows of
//! a key lie together and in order of time on either side, so that no row of another is looked at. With keys that are
//! other SYMBOL columns, or conditions, the rows of each series are found first ([`crate::scan::SeriesFinder`]).
//!
//! ```text
//! sides (what each scan selects) ─► plan: pairs of series ─► tasks ─► join: a task's rows ─► exec
//! ```
//!
//! - `sides`: whether two inputs are such scans, and what they make of columns; - `tasks`: which series of one side is
//!   which of the other, and how the work is cut;
//! - `standing`: the right rows of one series, searched by times that ascend;
//! - `right`: which right rows may stand, and those that do; `probe`: they are looked up for left rows of any kind;
//! - `join`: one task from pieces to rows; - `order`: rows of all tasks back in order of time;
//! - `running`: what the partitions of one execution share; `execute`: their streams.
//!
//! A task has a bounded number of rows: a series with more is cut by time, and each stretch begins with the
//! right row that stands at its start. Of right rows only the blocks are decoded that hold one that stands.

mod execute;
mod join;
mod order;
mod probe;
mod right;
mod running;
mod sides;
mod standing;
mod tasks;

// Joins of other kinds are cut and put in order the same way.
pub(in crate::operators) use execute::{AHEAD_BYTES, can_hold};
pub(in crate::operators) use join::{Joined, stretches};
pub(in crate::operators) use order::Sorted;
pub(in crate::operators) use running::Running;
pub(super) use running::Work;
pub(in crate::operators) use sides::{Side, Sides, in_time_order};
pub(in crate::operators) use standing::NEAR;
pub(in crate::operators) use tasks::{SEARCH_RATIO, sample, translate};

#[cfg(test)]
mod found_tests;
#[cfg(test)]
pub(in crate::operators) mod tests;
