//! Parts: sealed, immutable column files of one partition.
//!
//! Owns the format of docs/formats/part.md: rows sorted by (time slice, series key, timestamp), each
//! column cut into blocks of 1,024 values that decode alone, statistics beside every block, checksums
//! over every byte. Never names files, never decides what to seal, never knows of snapshots or SQL.
//!
//! ```text
//! RowSource ─► order (slices, series) ─► gather ─► codec, stats ─► write ─► file
//! file ─► open (header, footer) ─► page (chunk index) ─► block ─► codec ─► Arrow array
//! ```
//!
//! Enter at [`Part::write`] (or [`PartWriter`], stretch by stretch) and [`Part::open`]; then [`Part::series`] and
//! [`Part::seek`] give exact row ranges, [`Part::prune`] and [`Part::point_rows`] drop blocks, [`Part::read_ranges`]
//! decodes.

mod arrays;
mod block;
mod bloom;
mod codec;
mod gather;
mod index;
mod inspect;
mod layout;
mod name;
mod open;
mod order;
mod own;
mod page;
mod prune;
mod read;
mod reduce;
mod seek;
mod series;
mod stats;
mod take;
mod write;

pub use bloom::ColumnPoints;
pub(crate) use inspect::Inspection;
pub(crate) use name::PartName;
pub use prune::{BlockSummary, ColumnBound};
pub use read::Fixed;
pub use seek::PartTimes;
pub use series::{SeriesEntry, SeriesIndex};
pub use write::PartWriter;

use crate::Result;
use crate::disk::FileBytes;

use arrow_array::ArrayRef;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tickstone_model::{RowBatch, TableSchema};

/// Values of one column in a block.
pub const BLOCK_ROWS: usize = 1_024;

/// The tape positions whose rows a part holds: `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PositionRange {
    /// Position of the first frame.
    pub first: u64,
    /// Position of the last frame.
    pub last: u64,
}

/// How dense a part is: what its columns may be stored as (docs/decisions/0006-density.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Density {
    /// Only what is decoded at more than a billion values a second: for what is written and read often.
    #[default]
    Fast,
    /// Also codes by frequency and distances from the designated timestamp, which take less and are read more
    /// slowly: for what is written once.
    Dense,
}

/// Most rows of a slice, unless an engine is told another number.
///
/// The longer a slice, the fewer blocks an instrument's day is in; the shorter, the fewer blocks hold a moment of all
/// instruments (decision 0001).
pub const SLICE_ROWS: usize = 1 << 22;

/// How a part is written.
#[derive(Debug, Clone, Copy)]
pub struct PartOptions {
    /// Most rows of a slice.
    pub slice_rows: usize,
    /// Threads that sort and encode, at least 1.
    pub threads: usize,
    /// What columns may be stored as.
    pub density: Density,
}

/// Rows on their way into a part, in arrival order, read column by column.
pub trait RowSource: Sync {
    /// How many.
    fn rows(&self) -> usize;

    /// All rows of a column in stored type, in as many arrays as they come in.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn column(&self, column: usize) -> Result<Vec<ArrayRef>>;
}

impl RowSource for [RowBatch] {
    fn rows(&self) -> usize {
        self.iter().map(RowBatch::rows).sum()
    }

    fn column(&self, column: usize) -> Result<Vec<ArrayRef>> {
        Ok(self.iter().map(|batch| Arc::clone(&batch.columns()[column])).collect())
    }
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

impl StatValue {
    /// Whether this value is smaller than another of the same column.
    pub fn is_below(&self, other: &StatValue) -> bool {
        match (self, other) {
            (StatValue::Int(x), StatValue::Int(y)) => x < y,
            (StatValue::Float(x), StatValue::Float(y)) => x < y,
            (StatValue::Int(x), StatValue::Float(y)) => (*x as f64) < *y,
            (StatValue::Float(x), StatValue::Int(y)) => *x < (*y as f64),
        }
    }
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
    /// Sum of the values (integers exact, doubles summed in stored order), `None` where it overflowed or the type keeps
    /// none.
    pub sum: Option<StatValue>,
}

/// A stretch of time of a part; inside it rows are sorted by (series key, timestamp).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its rows in the part.
    pub rows: Range<usize>,
    /// Smallest and largest designated timestamp (ns since the Unix epoch), `None` for a table without one.
    pub times: Option<(i64, i64)>,
}

/// One open part: cheap to open, every block verified when first touched.
///
/// Invariants: the header, the trailer and the footer are verified; nothing else of the file is
/// trusted before its checksum was compared, and no offset is used unchecked even then.
pub struct Part {
    bytes: FileBytes,
    path: PathBuf,
    schema: Arc<TableSchema>,
    summary: PartSummary,
    positions: PositionRange,
    slices: Vec<Slice>,
    layout: layout::Layout,
    /// Of the file's format.
    version: u32,
    density: Density,
    /// One bit a chunk page, then one a group of blocks: set once its checksum has been compared.
    verified: Vec<AtomicU64>,
}

impl Part {
    /// The bytes of the file.
    pub(crate) fn file(&self) -> &FileBytes {
        &self.bytes
    }

    /// Rows, times and size.
    pub fn summary(&self) -> &PartSummary {
        &self.summary
    }

    /// The tape positions whose rows it holds.
    pub fn positions(&self) -> PositionRange {
        self.positions
    }

    /// How it was written; parts of format 1 are fast.
    pub fn density(&self) -> Density {
        self.density
    }

    /// Its slices in order of time.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("path", &self.path)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
