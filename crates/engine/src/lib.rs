//! The database without SQL or sockets: rows in, durable, and out again as exact ranges.
//!
//! ```text
//! write: rows -> checked batches -> commit -> tape -> publisher -> recent (runs)
//!        load   (rows -> parts)  -> commit -> tape      |            | upkeep: merge, seal
//!                                              |        v            v
//! recovery (manifests, then the tape) ------> snapshot <---------- part
//! ```
//!
//! Owns every durable byte. Never knows SQL, sockets, async, the wall clock or global randomness: time
//! and disk come through [`Clock`] and [`disk::Disk`]. Enter at [`Engine`], then [`Snapshot`].

mod care;
mod checksum;
mod clock;
mod codec;
mod core;
pub mod disk;
mod engine;
mod error;
mod follow;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
mod lock;
pub mod part;
mod paths;
mod recent;
mod recovery;
mod search;
mod store;
pub mod streams;
mod tape;
mod upkeep;
mod worker;
mod write;

pub use crate::core::EngineOptions;
pub use crate::core::counters::MaintenanceStats;
pub use care::{backup, check, repair};
pub use clock::{Clock, SystemClock};
pub use engine::{Engine, Files};
pub use error::{EngineError, ErrorKind, Result};
pub use follow::{Difference, FollowFrom, Follower, News, UpdatedRows, difference};
pub use part::{ColumnBound, ColumnPoints, PartTimes};
pub use search::gallop;
pub use store::dictionary::Dictionary;
pub use store::feed::{Happened, Heard, HeardRewrite, HeardRows, SealedPartition, TableChange};
pub use store::manifest::ImportRecord;
pub use store::snapshot::{
    Dropped, PartitionSnapshot, Partitions, Segment, Selection, Sight, Snapshot, TableSnapshot,
};
pub use store::staleness::{StaleStretch, Staleness};
pub use tape::change::{ImportSource, LoadedFile};
pub use write::aside::{Aside, aside_name_in};
pub use write::commit::Commit;
pub use write::load::BulkLoad;
pub use write::rewrite::{Rewrite, Rewritten};
pub use write::transaction::Transaction;
