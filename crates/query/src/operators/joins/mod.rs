//! What the joins by time have in common: ASOF and LT JOIN ([`super::asof`]), WINDOW, HORIZON and SPLICE JOIN
//! ([`super::series_join`]).
//!
//! ```text
//! pushdown (conditions) -> rule: the way -> exec: merged in order of time, by what each join has for that
//!   by series: sides (what each scan selects) -> tasks (series found, paired, cut) -> Matcher, task by task
//!              -> execute -> [order] -> batches
//! ```
//!
//! Where both sides are scans and their keys are SYMBOL columns, a join goes series by series: the rows of a key lie
//! together and in order of time on either side, so that no row of another is looked at. With keys that are not of the
//! series key, or conditions, the rows of each series are found first ([`crate::scan::SeriesFinder`]).
//!
//! A task has a bounded number of rows: a series with more is cut by time, and each stretch begins with what stands at
//! its start. Workers take the next task until none is left; rows that are wanted in order of time are put back in it at
//! the end, or, where they are too many for that, both sides are merged.

pub(in crate::operators) mod exec;
mod execute;
pub(in crate::operators) mod node;
mod order;
mod overlap;
pub(in crate::operators) mod pushdown;
pub(in crate::operators) mod rule;
mod sides;
mod tasks;

pub(in crate::operators) use execute::{TASK_BATCHES, help_each_other};
pub(in crate::operators) use order::{LazyRows, Placed, TaskRows};
pub(in crate::operators) use overlap::{Overlap, stretches};
pub(in crate::operators) use sides::{Made, Side, Sides};
pub(in crate::operators) use tasks::{Matcher, Pair, Read, Task, is_searched};

#[cfg(test)]
mod tests;
