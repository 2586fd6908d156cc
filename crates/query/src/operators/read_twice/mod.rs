//! The rows of a query of WITH that would be others each time it runs, read in several places: they are made once, kept,
//! and read from there.
//!
//! ```text
//! WITH r AS (SELECT random() …) SELECT … FROM r a JOIN r b -> marker -> plan -> node, twice -> exec, which shares rows
//! ```

pub(super) mod exec;
pub(super) mod node;
pub(super) mod plan;
