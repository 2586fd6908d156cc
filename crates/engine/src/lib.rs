//! The database without SQL or sockets: rows in, durable, and out again as exact ranges.
//!
//! ```text
//! ingest (rows -> checked batches) -> transaction -> tape -> publisher -> recent (runs)
//! load   (rows -> parts)           ----------------> tape      |            | maintenance: merge, seal
//!                                                     |        v            v
//! recovery (manifests, then the tape) -------------> snapshot <---------- part
//! ```
//!
//! Owns every durable byte. Never knows SQL, sockets, async, the wall clock or global randomness: time
//! and disk come through [`Clock`] and [`disk::Disk`]. Enter at [`Engine`], then [`Snapshot`].

mod alter;
pub mod backup;
pub mod check;
mod checksum;
mod clock;
mod codec;
mod compact;
mod dedup;
mod dictionary;
pub mod disk;
mod engine;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
mod ingest;
mod load;
mod maintenance;
mod manifest;
mod memory;
mod orphans;
pub mod part;
mod part_name;
mod publisher;
mod recent;
mod recovery;
pub mod repair;
mod rewrite;
mod search;
mod snapshot;
mod switch;
mod tape;
mod transaction;

pub use clock::{Clock, SystemClock};
pub use compact::MaintenanceStats;
pub use dictionary::Dictionary;
pub use engine::{Commit, Engine, EngineOptions};
pub use error::{EngineError, ErrorKind, Result};
pub use load::BulkLoad;
pub use manifest::ImportRecord;
pub use part::{ColumnBound, ColumnPoints, PartTimes};
pub use rewrite::{Rewrite, Rewritten};
pub use search::gallop;
pub use snapshot::{Dropped, PartitionSnapshot, Partitions, Segment, Selection, Snapshot, TableSnapshot};
pub use tape::change::ImportSource;
pub use transaction::Transaction;
