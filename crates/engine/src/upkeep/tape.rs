//! Freeing the tape: segments go that nobody needs any more.
//!
//! Invariant: a segment of the tape goes only when every table's manifest holds what it tells, and the tape is synced up
//! to there.

use super::saving::{remove_dropped, save_manifest_of};
use super::seal::{runs_of, seal_partition};
use crate::Result;
use crate::core::{Core, Pause};
use crate::recent::Run;
use crate::store::snapshot::PartitionSnapshot;
use crate::tape::named::remove_released;
use crate::tape::segment::list_segments;
use std::sync::Arc;

pub(super) fn tape_is_long(core: &Core) -> Result<bool> {
    let segments = list_segments(core.disk.as_ref())?.len() as u64;
    Ok(segments.saturating_sub(1) * core.options.segment_bytes as u64 > core.options.tape_bytes_max)
}

/// Seals what holds the older half of the tape back, then lets go of it.
pub(super) fn free_tape(core: &Core, pause: &Pause<'_>) -> Result<()> {
    if tape_is_long(core)? {
        let segments = list_segments(core.disk.as_ref())?;
        let middle = segments.get(segments.len() / 2).copied().unwrap_or_default();
        let snapshot = core.publisher.snapshot();
        for table in snapshot.hot_tables() {
            let old = |run: &Arc<Run>| run.positions().first < middle;
            let held = |partition: &&Arc<PartitionSnapshot>| runs_of(partition).any(old);
            for partition in table.partitions().hot().filter(held) {
                seal_partition(core, table.id, partition.range, pause)?;
            }
        }
    }
    truncate_tape(core, pause)
}

/// Removes the segments whose every frame is in parts and manifests.
pub(crate) fn truncate_tape(core: &Core, pause: &Pause<'_>) -> Result<()> {
    let segments = list_segments(core.disk.as_ref())?;
    let snapshot = core.publisher.snapshot();
    let oldest_run = snapshot.oldest_run().unwrap_or(u64::MAX);
    let needed_from = oldest_run.min(snapshot.position());
    // The segment before the first one that begins later holds `needed_from`; the newest stays.
    let removable = segments.windows(2).take_while(|pair| pair[1] <= needed_from).count();
    if removable == 0 {
        return Ok(());
    }
    // Rows of these segments may be gone by a later commit alone, which must not be lost without them.
    core.tape.sync(snapshot.position())?;
    remove_dropped(core, pause)?;
    for table in snapshot.tables() {
        save_manifest_of(core, table.id, pause)?;
    }
    // Those that have no name any more are passed over, whichever of them a power cut brings back.
    core.names.release(segments[removable])?;
    // Only what cannot come back with a power cut need not be remembered.
    remove_released(core.disk.as_ref(), &segments[..removable])?;
    core.publisher.change(|next| next.forget_emptied(segments[removable]));
    Ok(())
}
