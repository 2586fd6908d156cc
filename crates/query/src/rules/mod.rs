//! Rules over plans and their expressions, where DataFusion's planner would answer wrongly or refuse
//! (docs/decisions/0021-faults-of-planning.md). Those that go by one expression are called in one walk ([`meanings`]).

pub(crate) mod aggregates;
pub(crate) mod approximate;
pub(crate) mod bounds;
pub(crate) mod clocks;
pub(crate) mod correlated;
pub(crate) mod correlated_keys;
pub(crate) mod dates;
pub(crate) mod decoded;
pub(crate) mod dependent;
pub(crate) mod disjoint;
pub(crate) mod floats;
pub(crate) mod laterals;
pub(crate) mod lengths;
pub(crate) mod lists;
pub(crate) mod literals;
pub(crate) mod long_lists;
pub(crate) mod meanings;
pub(crate) mod membership;
pub(crate) mod multiset;
pub(crate) mod neighbours;
pub(crate) mod no_row;
pub(crate) mod null_keys;
pub(crate) mod nulls;
pub(crate) mod one_row;
pub(crate) mod patterns;
pub(crate) mod recursion;
pub(crate) mod rows;
pub(crate) mod slices;
pub(crate) mod spread;
pub(crate) mod texts;
pub(crate) mod unsigned;
pub(crate) mod values;
pub(crate) mod volatile;
pub(crate) mod window_keys;
