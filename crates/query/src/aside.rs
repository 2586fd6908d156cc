//! Tables that are not everybody's: those that are being filled, and those of one session. [`Aside`] has what they are.

use std::sync::Arc;
use tickstone_engine::{Snapshot, TableSnapshot};

pub use tickstone_engine::Aside;
pub(crate) use tickstone_engine::aside_name_in;

/// The tables and views of a snapshot that are everybody's, by name: those that lists show.
pub fn listed(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<TableSnapshot>> {
    snapshot.tables().filter(|table| !table.schema().is_aside() && !table.schema().is_internal())
}
