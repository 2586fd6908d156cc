//! Freeing the tape: segments go that nobody needs any more, but for some that are kept for those who follow.
//!
//! Invariants:
//! - a segment of the tape goes only when every table's manifest holds what it tells, and the tape is synced up to there;
//! - parts that only its frames name go with it at the latest ([`crate::store::feed`]);
//! - nothing is kept for those who follow where the disk is full.

use super::saving::{remove_dropped, save_manifest_of};
use super::seal::{runs_of, seal_partition};
use crate::Result;
use crate::core::{Core, Pause};
use crate::disk::Spare;
use crate::recent::Run;
use crate::store::publisher::Publisher;
use crate::store::snapshot::{PartitionSnapshot, Snapshot};
use crate::tape::named::{Names, remove_released};
use crate::tape::segment::list_segments;
use std::sync::Arc;

pub(super) fn tape_is_long(core: &Core) -> Result<bool> {
    let segments = list_segments(core.disk.as_ref())?;
    let needless = needless(&segments, &core.publisher.snapshot());
    let kept = needless - needless.min(past_keeping(core, &segments));
    let others = (segments.len() - kept) as u64;
    Ok(others.saturating_sub(1) * core.options.segment_bytes as u64 > core.options.tape_bytes_max)
}

/// How many of the first segments nobody needs to recover the tables, once their manifests are saved.
fn needless(segments: &[u64], snapshot: &Snapshot) -> usize {
    let oldest_run = snapshot.oldest_run().unwrap_or(u64::MAX);
    let needed_from = oldest_run.min(snapshot.position());
    // The segment before the first one that begins later holds `needed_from`; the newest stays.
    segments.windows(2).take_while(|pair| pair[1] <= needed_from).count()
}

/// How many of the first segments are more than what is kept for those who follow, who may need the parts that frames
/// name, too: by bytes, and by age.
fn past_keeping(core: &Core, segments: &[u64]) -> usize {
    let (keep_bytes, keep_age_ns) = core.publisher.feed().kept();
    let oldest_ns = core.clock.now_ns().saturating_sub(i64::try_from(keep_age_ns).unwrap_or(i64::MAX));
    let pinned = core.publisher.feed().pinned_bytes();
    let bytes_of = |first: u64, next: u64| {
        let parts = pinned.iter().filter(|(position, _)| (first..next).contains(position));
        core.names.segment(first).map_or(0, |named| named.bytes) + parts.map(|(_, bytes)| bytes).sum::<u64>()
    };
    let mut kept_bytes = 0;
    let closed = segments.windows(2).enumerate().rev();
    let past = |(_, pair): &(usize, &[u64])| {
        kept_bytes += bytes_of(pair[0], pair[1]);
        kept_bytes > keep_bytes || core.names.segment(pair[0]).is_none_or(|named| named.ended_ns < oldest_ns)
    };
    closed.into_iter().find(past).map_or(0, |(place, _)| place + 1)
}

/// Seals what holds the older half of the tape back, then lets go of it.
pub(super) fn free_tape(core: &Core, pause: &Pause<'_>) -> Result<()> {
    if tape_is_long(core)? {
        let mut segments = list_segments(core.disk.as_ref())?;
        segments.drain(..needless(&segments, &core.publisher.snapshot()));
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

/// Has manifests hold what the tape tells that is sealed, and removes the segments that nobody needs.
pub(crate) fn truncate_tape(core: &Core, pause: &Pause<'_>) -> Result<()> {
    let segments = list_segments(core.disk.as_ref())?;
    let needless = needless(&segments, &core.publisher.snapshot());
    let removable = needless.min(past_keeping(core, &segments));
    // Once is enough for those that are kept.
    if needless == 0 || removable == 0 && core.names.held_to() >= segments[needless] {
        return Ok(());
    }
    hold(core, segments[needless], pause)?;
    if removable == 0 {
        return Ok(());
    }
    // Those that have no name any more are passed over, whichever of them a power cut brings back.
    core.names.release(segments[removable])?;
    // Only what cannot come back with a power cut need not be remembered.
    remove_released(core.disk.as_ref(), &segments[..removable])?;
    core.publisher.feed().unpin(segments[removable] - 1);
    core.publisher.change(|next| next.forget_emptied(segments[removable]));
    Ok(())
}

/// Has manifests hold what the tape that an opening found tells, so that it can go where the disk is full.
pub(super) fn hold_found(core: &Core, pause: &Pause<'_>) -> Result<()> {
    let segments = list_segments(core.disk.as_ref())?;
    match needless(&segments, &core.publisher.snapshot()) {
        0 => Ok(()),
        needless => hold(core, segments[needless], pause),
    }
}

/// Has manifests hold what the tape tells before the position `to`.
fn hold(core: &Core, to: u64, pause: &Pause<'_>) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    // Rows of these segments may be gone by a later commit alone, which must not be lost without them.
    core.tape.sync(snapshot.position())?;
    remove_dropped(core, pause)?;
    for table in snapshot.tables() {
        save_manifest_of(core, table.id, pause)?;
    }
    core.names.note_held(to);
    Ok(())
}

/// What is kept of the tape for those who follow, which goes first where the disk is full.
#[derive(Debug)]
pub(crate) struct KeptTape {
    pub(crate) names: Arc<Names>,
    pub(crate) publisher: Arc<Publisher>,
}

impl Spare for KeptTape {
    fn give(&self) -> bool {
        let feed = self.publisher.feed();
        let parts: u64 = feed.pinned_bytes().iter().map(|(_, bytes)| bytes).sum();
        feed.unpin(self.publisher.snapshot().position());
        // Segments that could not be removed have no name any more: the next opening removes them.
        let released = self.names.release_held().is_ok_and(|released| released);
        released || parts > 0
    }
}
