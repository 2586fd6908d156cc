//! ASOF JOIN series by series ([`crate::operators::joins`]): of the right rows of a series those are found that stand
//! at the times of the left ones, and only they are read.
//!
//! - `join`: one task from pieces to rows; - `standing`: the right rows of one series, searched by times that ascend;
//! - `right`: which right rows may stand, and those that do; `probe`: they are looked up for left rows of any kind.
//!
//! Of right rows only the blocks are decoded that hold one that stands.

mod join;
pub(in crate::operators) mod probe;
mod right;
mod standing;

pub(in crate::operators) use join::AsOfMatcher;
pub(in crate::operators) use standing::NEAR;

#[cfg(test)]
pub(in crate::operators) mod tests;
