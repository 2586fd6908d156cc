//! Columns that are read last: of the rows only that a query keeps.
//!
//! ```text
//! filter of windows, ORDER BY … LIMIT over a scan -> rule -> node -> exec
//! ```
//!
//! `SELECT * … QUALIFY size = max(size) OVER (PARTITION BY venue)` needs two columns to say which rows it keeps, and all
//! columns of these. The scan yields what decides and the numbers of rows; [`exec`] reads the rest by these.

pub(super) mod exec;
pub(super) mod node;
pub(super) mod rule;

#[cfg(test)]
mod tests;
