//! `tickstone check`: reads everything of a database and names whatever is not as it was written.
//!
//! ```text
//! manifests, symbol files (tables) -> tape, frame by frame (tape) -> every value of every part (parts)
//!        -> files that nothing names (files) -> Report
//! ```
//!
//! Changes nothing. Never stops at damage: what can still be read is. Memory is that of one block, one
//! frame and the dictionaries, whatever the files hold. What a repair would do stands with each finding;
//! `repair` acts on the same survey.
//!
//! Enter at [`check`].

mod files;
mod names;
mod parts;
mod rebuild;
mod report;
mod streams;
pub(crate) mod survey;
mod tables;
mod tape;

pub use report::{BringsBack, Finding, Progress, Remedy, Report, Severity};

use crate::Result;
use crate::disk::Disk;
use std::sync::Arc;
use survey::Survey;

/// How thorough a check is.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Whether every value of every part is decoded and compared with its statistics; else checksums,
    /// manifests, symbols, the tape and names are. Default true.
    pub values: bool,
    /// Most findings kept; the rest are only counted. Default 10,000.
    pub findings_max: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { values: true, findings_max: 10_000 }
    }
}

/// Reads all of a database that nobody writes, and says what is wrong with it.
///
/// `disk` may be read-only. `progress` is called with every file, and with every stretch of a large one.
///
/// # Errors
/// [`crate::EngineError::NewerFormat`] where a newer build wrote it; [`crate::EngineError::Io`] where
/// folders cannot be listed. A file that cannot be read is a finding.
pub fn check(
    disk: &Arc<dyn Disk>,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    Ok(Survey::take(disk, options, progress)?.report)
}
