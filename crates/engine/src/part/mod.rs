//! Parts: sealed, immutable column files of one partition.
//!
//! Contract (bodies to be written in this folder; the rest of the engine uses only this):
//! see docs/formats/part.md for the bytes.

use crate::disk::{Disk, FileBytes};

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tickstone_model::{RowBatch, SymbolId, TableSchema, TimeRange};

/// The tape positions whose rows a part holds: `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PositionRange {
    /// Position of the first frame.
    pub first: u64,
    /// Position of the last frame.
    pub last: u64,
}

/// How a part is written.
#[derive(Debug, Clone, Copy)]
pub struct PartOptions {
    /// Most rows of a slice.
    pub slice_rows: usize,
    /// Threads that sort and encode, at least 1.
    pub threads: usize,
}

/// What the manifest says of a part (all of it checked against the file when it is opened).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSummary {
    /// Rows in it.
    pub rows: u64,
    /// Smallest and largest designated timestamp, both inside (ns since the Unix epoch);
    /// `None` for a table without one.
    pub times: Option<(i64, i64)>,
    /// Size of the file in bytes.
    pub file_bytes: u64,
}

/// A value that statistics speak of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StatValue {
    /// Integers, dates, timestamps (ns), booleans as 0 and 1, decimals unscaled.
    Int(i128),
    /// FLOAT and DOUBLE.
    Float(f64),
}

/// What is known of a column's values without reading them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnStats {
    /// Rows, NULLs included.
    pub rows: u64,
    /// NULLs among them.
    pub nulls: u64,
    /// Smallest value that is neither NULL nor NaN; `None` where there is none, or the type keeps none (text, binary).
    pub min: Option<StatValue>,
    /// Largest value that is neither NULL nor NaN.
    pub max: Option<StatValue>,
    /// Whether some value is NaN; min and max pass over those.
    pub has_nan: bool,
    /// Sum of the values (integers exact, doubles summed in stored order), `None` where it overflowed or the type keeps none.
    pub sum: Option<StatValue>,
}

#[allow(missing_docs)]
#[derive(Debug)]
pub struct Part;
#[allow(missing_docs)]
pub struct Slice {
    pub rows: Range<usize>,
    pub times: Option<(i64, i64)>,
}
#[allow(missing_docs)]
pub struct SeriesIndex;
#[allow(missing_docs)]
impl SeriesIndex {
    pub fn len(&self) -> usize {
        0
    }
    pub fn find(&self, _id: SymbolId) -> Range<usize> {
        0..0
    }
    pub fn id(&self, _e: usize, _k: usize) -> SymbolId {
        0
    }
    pub fn rows(&self, _e: usize) -> Range<usize> {
        0..0
    }
}
#[allow(missing_docs, clippy::todo, clippy::missing_errors_doc)]
impl Part {
    pub fn write(
        _: &dyn Disk,
        _: &Path,
        _: &Arc<TableSchema>,
        _: PositionRange,
        _: &[RowBatch],
        _: PartOptions,
    ) -> crate::Result<PartSummary> {
        todo!()
    }
    pub fn open(_: FileBytes, _: &Path, _: &Arc<TableSchema>) -> crate::Result<Part> {
        todo!()
    }
    pub fn summary(&self) -> &PartSummary {
        todo!()
    }
    pub fn slices(&self) -> &[Slice] {
        todo!()
    }
    pub fn series(&self, _: usize) -> SeriesIndex {
        todo!()
    }
    pub fn seek(&self, _: Range<usize>, _: TimeRange) -> crate::Result<Range<usize>> {
        todo!()
    }
    pub fn read(&self, _: usize, _: Range<usize>) -> crate::Result<arrow_array::ArrayRef> {
        todo!()
    }
    pub fn column_stats(&self, _: usize) -> ColumnStats {
        todo!()
    }
    pub fn prune(&self, _: &crate::ColumnBound, _: Range<usize>) -> Vec<Range<usize>> {
        todo!()
    }
}
