//! ORDER BY whose first key is a number, a date or a time: rows are sorted by the bits of that key, digit by digit, and
//! those that are equal in it by the other keys.
//!
//! ```text
//! inputs, each in a task: batches -> one batch and (key, row) of each row
//!   -> ranges of keys, a core each: radix sort, ties -> rows taken in their order
//! ```
//!
//! - `radix`: keys as numbers, and their sort; `exec`: the operator; `once`: rows that were read already, as a plan.
//!
//! Where there is no memory for all rows DataFusion's sort takes over, which goes by way of the disk. ORDER BY … LIMIT
//! keeps only the first rows as they come, and stays DataFusion's.

mod exec;
mod once;
pub(super) mod radix;

pub(super) use exec::RADIX_SORTS;
pub(super) use once::OnceExec;

#[cfg(test)]
mod tests;
