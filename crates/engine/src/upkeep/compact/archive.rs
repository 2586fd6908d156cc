//! Archiving: a partition that nobody writes any more becomes one dense part, once.
//!
//! Invariants:
//! - a partition is left alone while it has recent rows, or any part of it is younger than
//!   [`EngineOptions::archive_after`](crate::EngineOptions::archive_after);
//! - when its parts were written, and how, stands in their names: it outlives the engine, and no file is opened to
//!   find out that there is nothing to do;
//! - one dense part is done with; rows that come later make it due again.

use super::merge::Merge;
use super::{merge_as, merge_fully, parts_of, patience};
use crate::Result;
use crate::core::Core;
use crate::lock::lock;
use crate::part::Density;
use crate::store::snapshot::{PartFile, Source};
use std::sync::Arc;

/// Most rows of a part: see `PartWriter::add`.
const ROWS_MAX: u64 = u32::MAX as u64;

/// The density of what parts merge into unasked: dense where all are.
pub(super) fn density_of(parts: &[Arc<PartFile>]) -> Density {
    let dense = parts.iter().all(|part| part.density() == Density::Dense);
    if dense { Density::Dense } else { Density::Fast }
}

/// The first of some neighbouring parts that are to become one: as many as a part can hold; none where they are one
/// that is dense already.
fn due(parts: Vec<Arc<PartFile>>) -> Option<Vec<Arc<PartFile>>> {
    let mut rest = &parts[..];
    while !rest.is_empty() {
        let mut rows = 0;
        let fits = |part: &&Arc<PartFile>| {
            rows += part.entry.rows;
            rows <= ROWS_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (together, after) = rest.split_at(count);
        if together.len() > 1 || together[0].density() != Density::Dense {
            return Some(together.to_vec());
        }
        rest = after;
    }
    None
}

/// The merge of a partition that has become old, `None` where none has.
pub(super) fn next_archive(core: &Core) -> Option<Merge> {
    let after = core.options.archive_after;
    if after.is_zero() || core.compaction.worker.is_stopping() {
        return None;
    }
    let now_s = core.now_s();
    let broken = {
        let due = lock(&core.compaction.due);
        // A look at all parts is not for every commit.
        let again = patience(after).map_or(0, |patience| patience.as_secs());
        let too_soon = |looked_s: u64| now_s >= looked_s && now_s < looked_s.saturating_add(again);
        if core.options.background && due.looked_s.is_some_and(too_soon) {
            return None;
        }
        due.broken.clone()
    };
    let latest_s = now_s.checked_sub(after.as_secs())?;
    let snapshot = core.publisher.snapshot();
    for table in snapshot.tables().filter(|table| !lock(&table.dir.layout).rewriting) {
        for partition in table.partitions().worth_archiving(latest_s) {
            let is_old = |part: &Arc<PartFile>| part.written_s() <= latest_s && !broken.contains(&part.path);
            if partition.runs() > 0 || !partition.part_sources().all(is_old) {
                continue;
            }
            if let Some(parts) = due(parts_of(&partition.sources)) {
                return Some(merge_as(core, table, &partition, parts, Density::Dense));
            }
        }
    }
    lock(&core.compaction.due).looked_s = Some(now_s);
    None
}

/// Makes one dense part of the parts of each partition of one table, or of all, at full speed.
pub(crate) fn archive_fully(core: &Core, table: Option<&str>) -> Result<()> {
    merge_fully(core, table, next_full_archive)
}

fn next_full_archive(core: &Core, id: u32) -> Option<Merge> {
    let snapshot = core.publisher.snapshot();
    let table = snapshot.table_by_id(id).filter(|table| !lock(&table.dir.layout).rewriting)?;
    for partition in table.partitions() {
        // Between parts may be rows that came meanwhile.
        for parts in partition.sources.split(|source| matches!(source, Source::Run(_))) {
            let wasteful = |part: &&Arc<PartFile>| !partition.superseded_of(part).is_empty();
            let parts = parts_of(parts);
            let with_superseded = || parts.iter().find(wasteful).map(|part| vec![Arc::clone(part)]);
            if let Some(parts) = due(parts.clone()).or_else(with_superseded) {
                return Some(merge_as(core, table, partition, parts, Density::Dense));
            }
        }
    }
    None
}
