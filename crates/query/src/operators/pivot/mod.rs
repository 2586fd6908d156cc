//! PIVOT and UNPIVOT: values of a column become columns, and columns become values.
//!
//! Owns their plans, made of what is there already: a PIVOT is a GROUP BY with one filtered aggregate a column, an
//! UNPIVOT an unnested list. Never executes anything itself.
//!
//! Enter at [`plan::plan_pivot`] and [`plan::plan_unpivot`].

pub(super) mod plan;
