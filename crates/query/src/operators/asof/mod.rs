//! ASOF JOIN: to each left row the newest right row of its key that is not newer; or the oldest that is not
//! older, or the nearer of both. LT JOIN is the same with strictly older ones.
//!
//! Where both sides are scans and the keys are SYMBOL columns, it is done series by series, each on
//! its own ([`by_series`]). Otherwise both sides come in time order (the operator asks for it, and a scan
//! can give it without a sort) and are merged in one pass: O(left + right), with one right row a key kept
//! ([`merge`]); looking forward or both ways, left rows wait there for the next right row of their key
//! ([`waiting`]). The operator, and what chooses, is that of all joins by time ([`super::joins`]).
//!
//! Rows of any other kind that are joined with a scan have their right rows looked up in it (`by_series::probe`). What
//! keeps other rows than the left ones (SEMI, ANTI, RIGHT, FULL) is a plan over these joins ([`kinds`]).
//!
//! - Of right rows with equal times the last to arrive stands looking back, the first looking forward.
//! - NULL keys and NULL times never match.
//! - `USING (k)` and `ON (k)` merge the key columns: the output has the left side's only.
//! - The output's designated timestamp is the left side's.

pub(super) mod by_series;
mod kinds;
pub(super) mod merge;
pub(crate) mod node;
pub(crate) mod plan;
mod side;
pub(super) mod waiting;

#[cfg(test)]
mod tests;
