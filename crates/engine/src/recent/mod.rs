//! Recent: rows not yet sealed, as immutable runs sorted by time, per partition.
//!
//! Owns what a run is, how a commit is cut into runs and how neighbours merge. Never touches the disk.
//! Enter at [`Run`] and [`split_by_partition`].

mod run;
mod stats;

pub(crate) use run::{Run, fit_together, merge_runs, runs_to_merge, split_by_partition, take_rows};
pub(crate) use stats::empty_stats;
