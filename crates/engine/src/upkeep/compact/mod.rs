//! Compaction: neighbouring parts of a partition merge into one, off every other path.
//!
//! ```text
//! policy (which neighbours) ─► windows (stretches of time) ─► PartWriter ─► swap ─► manifest
//! ```
//!
//! Invariants:
//! - only neighbours in the order of positions merge, so that later rows stay later;
//! - the new part is on stable storage before a snapshot has it; the old files stay until a manifest no
//!   longer names them and no snapshot holds them: a crash leaves the old parts or the new one;
//! - memory is that of one slice's columns under way, whatever the parts' size;
//! - nothing else waits for a merge: it holds no lock but for the swap, and gives way to a rewrite.

mod archive;
mod merge;
mod policy;
mod windows;

pub(crate) use archive::archive_fully;

use super::saving::save_manifest_of;
use crate::core::Core;
use crate::lock::lock;
use crate::part::Density;
use crate::store::snapshot::{PartFile, PartitionSnapshot, Source, TableSnapshot};
use crate::{EngineError, Result};
use archive::next_archive;
use merge::{Merge, Merged};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A part of which more than one row in so many is superseded is written anew by itself.
const SUPERSEDED_SHARE: u64 = 4;

/// How often what is due to be archived is looked for unasked, at least.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// Starts the thread that merges what is due, as long as the engine lives.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn start(core: &Arc<Core>) -> Result<()> {
    let weak: Weak<Core> = Arc::downgrade(core);
    let compaction = Arc::clone(&core.compaction);
    let patience = patience(core.options.archive_after);
    core.compaction.worker.start("compaction", move || {
        while compaction.worker.next(patience) {
            // The engine is not held while parts merge, so that closing it does not wait for that.
            while let Some(job) = weak.upgrade().and_then(|core| next_due(&core)) {
                let merged = job.run(&compaction);
                let Some(core) = weak.upgrade() else { return };
                if !finish_merge(&core, &job, merged) {
                    break;
                }
            }
        }
    })
}

/// How long to wait for a request before looking for what has become old; `None` for as long as it takes.
fn patience(archive_after: Duration) -> Option<Duration> {
    (!archive_after.is_zero()).then(|| archive_after.min(LOOK_AGAIN))
}

/// Asks for compaction where it is on.
pub(crate) fn request_compaction(core: &Core) {
    if core.options.compaction_parts_min > 0 || !core.options.archive_after.is_zero() {
        core.compaction.worker.request();
    }
}

/// Merges what is due now; a failure is kept for [`Core::maintenance_stats`].
pub(crate) fn compact_inline(core: &Core) {
    while let Some(mut job) = next_due(core) {
        job.throttled = false;
        let merged = job.run(&core.compaction);
        if !finish_merge(core, &job, merged) {
            break;
        }
    }
}

/// The merge or archiving that is due, `None` where none is.
fn next_due(core: &Core) -> Option<Merge> {
    next_merge(core).or_else(|| next_archive(core))
}

/// The merge that is due, `None` where none is.
fn next_merge(core: &Core) -> Option<Merge> {
    let parts_min = core.options.compaction_parts_min;
    if parts_min == 0 || core.compaction.worker.is_stopping() {
        return None;
    }
    let (touched, broken) = {
        let mut due = lock(&core.compaction.due);
        (std::mem::take(&mut due.touched), due.broken.clone())
    };
    let mut touched = touched.into_iter();
    while let Some(id) = touched.next() {
        // What was touched before this is in the snapshot.
        let snapshot = core.publisher.snapshot();
        let Some(table) = snapshot.table_by_id(id) else { continue };
        if lock(&table.dir.layout).rewriting {
            core.compaction.touch([id]);
            continue;
        }
        let due = merge_of_table(core, table, parts_min, &broken);
        if due.is_some() {
            // There may be more to do in it.
            core.compaction.touch(std::iter::once(id).chain(touched));
            return due;
        }
    }
    None
}

/// The merge that is due in a table, `None` where none is.
fn merge_of_table(
    core: &Core,
    table: &Arc<TableSnapshot>,
    parts_min: usize,
    broken: &HashSet<PathBuf>,
) -> Option<Merge> {
    for partition in table.partitions().worth_merging(parts_min) {
        let wasteful = |part: &&Arc<PartFile>| {
            let superseded = partition.superseded_of(part).len() as u64;
            superseded * SUPERSEDED_SHARE > part.entry.rows && !broken.contains(&part.path)
        };
        if let Some(part) = partition.part_sources().find(wasteful) {
            return Some(merge_of(core, table, partition, vec![Arc::clone(part)]));
        }
        if partition.sources.len() < parts_min {
            continue;
        }
        let size = |source: &Source| match source {
            Source::Part(part) if !broken.contains(&part.path) => Some(part.entry.file_bytes),
            _ => None,
        };
        let sizes: Vec<Option<u64>> = partition.sources.iter().map(size).collect();
        if let Some(chosen) = policy::choose(&sizes, parts_min) {
            return Some(merge_of(core, table, partition, parts_of(&partition.sources[chosen])));
        }
    }
    None
}

fn merge_of(
    core: &Core,
    table: &Arc<TableSnapshot>,
    partition: &PartitionSnapshot,
    parts: Vec<Arc<PartFile>>,
) -> Merge {
    let density = archive::density_of(&parts);
    merge_as(core, table, partition, parts, density)
}

fn merge_as(
    core: &Core,
    table: &Arc<TableSnapshot>,
    partition: &PartitionSnapshot,
    parts: Vec<Arc<PartFile>>,
    density: Density,
) -> Merge {
    let with_superseded =
        |part: Arc<PartFile>| (Arc::clone(&part), Arc::from(partition.superseded_of(&part)));
    // Without its rows: a merge must not keep in memory what is sealed meanwhile.
    Merge {
        table: table.without_rows(),
        partition: partition.range,
        parts: parts.into_iter().map(with_superseded).collect(),
        disk: Arc::clone(&core.disk),
        clock: Arc::clone(&core.clock),
        options: core.options.clone(),
        file: core.new_part_name(density),
        density,
        memory: Arc::clone(&core.memory),
        throttled: true,
    }
}

/// Swaps the parts and saves the manifest; whether to go on merging.
fn finish_merge(core: &Core, job: &Merge, merged: Result<Merged>) -> bool {
    let outcome = merged.and_then(|merged| swap(core, job, merged));
    if let Err(EngineError::Damaged { .. } | EngineError::NewerFormat { .. }) = &outcome {
        let broken = job.parts.iter().map(|(part, _)| part.path.clone());
        lock(&core.compaction.due).broken.extend(broken);
    }
    let swapped = matches!(outcome, Ok(true));
    core.compaction.worker.finish(outcome.map(drop));
    swapped
}

/// Puts a merged part in the place of the others; `false` where it was given up.
fn swap(core: &Core, job: &Merge, merged: Merged) -> Result<bool> {
    let Merged::Part(part) = merged else { return Ok(false) };
    let pause = core.maintenance.pause();
    let swapped = {
        let layout = lock(&job.table.dir.layout);
        let version = job.table.schema().version();
        // A part of an earlier schema than those before it might be one that history has forgotten.
        let same_schema = |table: &Arc<TableSnapshot>| table.schema().version() == version;
        !layout.rewriting
            && core.publisher.change(|next| {
                next.table_by_id(job.table.id).is_some_and(same_schema)
                    && next.replace_parts(job.table.id, job.partition, &job.parts, part.clone())
            })
    };
    if !swapped {
        if let Some(part) = part {
            core.disk.remove(&part.path).map_err(EngineError::io("remove", &part.path))?;
        }
        return Ok(false);
    }
    core.counters.compacted(job.parts.len(), part.map_or(0, |part| part.entry.file_bytes));
    save_manifest_of(core, job.table.id, &pause)?;
    Ok(true)
}

/// Merges all neighbouring parts of one table, or of all.
pub(crate) fn compact_fully(core: &Core, table: Option<&str>) -> Result<()> {
    merge_fully(core, table, next_full_merge)
}

/// Does the merges that `next` names, table by table, at full speed.
fn merge_fully(core: &Core, table: Option<&str>, next: impl Fn(&Core, u32) -> Option<Merge>) -> Result<()> {
    let compaction = Arc::clone(&core.compaction);
    for id in core.ids_of(table)? {
        while let Some(mut job) = next(core, id) {
            job.throttled = false;
            let merged = job.run(&compaction)?;
            // Where the parts changed meanwhile, what is there now is looked at again.
            swap(core, &job, merged)?;
        }
    }
    Ok(())
}

fn next_full_merge(core: &Core, id: u32) -> Option<Merge> {
    let snapshot = core.publisher.snapshot();
    let table = snapshot.table_by_id(id).filter(|table| !lock(&table.dir.layout).rewriting)?;
    for partition in table.partitions().worth_merging(2) {
        let is_part = |source: &Source| matches!(source, Source::Part(_));
        let stretches = partition.sources.split(|source| !is_part(source));
        let longest = stretches.max_by_key(|stretch| stretch.len()).map(parts_of).unwrap_or_default();
        if longest.len() > 1 {
            return Some(merge_of(core, table, partition, longest));
        }
        let has_superseded = |part: &&Arc<PartFile>| !partition.superseded_of(part).is_empty();
        if let Some(part) = partition.part_sources().find(has_superseded) {
            return Some(merge_of(core, table, partition, vec![Arc::clone(part)]));
        }
    }
    None
}

fn parts_of(sources: &[Source]) -> Vec<Arc<PartFile>> {
    let part = |source: &Source| match source {
        Source::Part(part) => Some(Arc::clone(part)),
        Source::Run(_) => None,
    };
    sources.iter().filter_map(part).collect()
}
