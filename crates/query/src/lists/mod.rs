//! What `x IN (…)` becomes in a plan where the planner's own form is too large or read wrongly: a set for a long list
//! ([`one_of`]), and a value that is told from all others ([`apart`]).

mod apart;
mod long;

pub(crate) use apart::{APART, Apart, apart, same};
pub(crate) use long::{Values, bits, one_of, tested};

/// The function that a long list is called with in what the planner reads, until its meaning is known.
pub(crate) const LONG_LIST: &str = "__long_list";
