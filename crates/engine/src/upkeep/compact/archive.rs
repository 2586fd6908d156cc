//! Archiving: a partition that nobody writes any more becomes one dense part, once.
//!
//! Invariants:
//! - a partition is left alone while it has recent rows, or any part of it is younger than
//!   [`EngineOptions::archive_after`](crate::EngineOptions::archive_after);
//! - when its parts were written, and how, stands in their names: it outlives the engine, and no file is opened to
//!   find out that there is nothing to do;
//! - one dense part is done with; rows that come later make it due again.

use super::{Compaction, Merge, parts_of};
use crate::Result;
use crate::engine::{Core, lock};
use crate::part::Density;
use crate::snapshot::{PartFile, PartitionSnapshot, Source, TableSnapshot};
use std::sync::Arc;
use std::time::Duration;

/// How often what is due is looked for unasked, at least.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// Most rows of a part: see `PartWriter::add`.
const ROWS_MAX: u64 = u32::MAX as u64;

impl PartFile {
    /// When it was written (s since the Unix epoch); 0, long ago, where its name does not say.
    fn written_s(&self) -> u64 {
        self.name.and_then(|name| name.written_s).unwrap_or(0)
    }
}

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

impl Compaction {
    /// How long to wait for a request before looking for what has become old; `None` for as long as it takes.
    pub(super) fn patience(archive_after: Duration) -> Option<Duration> {
        (!archive_after.is_zero()).then(|| archive_after.min(LOOK_AGAIN))
    }
}

impl Core {
    /// The merge of a partition that has become old, `None` where none has.
    pub(super) fn next_archive(&self) -> Option<Merge> {
        let writing = self.writing("archiving").ok()?;
        let after = self.options.archive_after;
        if after.is_zero() || writing.compaction.is_stopping() {
            return None;
        }
        let now_s = self.now_s();
        let broken = {
            let requests = lock(&writing.compaction.requests);
            // A look at all parts is not for every commit.
            let again = Compaction::patience(after).map_or(0, |patience| patience.as_secs());
            let too_soon = |looked_s: u64| now_s >= looked_s && now_s < looked_s.saturating_add(again);
            if self.options.background && requests.looked_s.is_some_and(too_soon) {
                return None;
            }
            requests.broken.clone()
        };
        let latest_s = now_s.checked_sub(after.as_secs())?;
        let snapshot = self.publisher.snapshot();
        for table in snapshot.tables().filter(|table| !lock(&table.dir.layout).rewriting) {
            for partition in table.partitions().worth_archiving(latest_s) {
                let is_old =
                    |part: &Arc<PartFile>| part.written_s() <= latest_s && !broken.contains(&part.path);
                if partition.runs() > 0 || !partition.part_sources().all(is_old) {
                    continue;
                }
                if let Some(parts) = due(parts_of(&partition.sources)) {
                    return self.archive_of(table, &partition, parts);
                }
            }
        }
        lock(&writing.compaction.requests).looked_s = Some(now_s);
        None
    }

    /// Makes one dense part of the parts of each partition of one table, or of all, at full speed.
    pub(crate) fn archive_fully(&self, table: Option<&str>) -> Result<()> {
        self.merge_fully(table, Self::next_full_archive)
    }

    fn next_full_archive(&self, id: u32) -> Option<Merge> {
        let snapshot = self.publisher.snapshot();
        let table = snapshot.table_by_id(id).filter(|table| !lock(&table.dir.layout).rewriting)?;
        for partition in table.partitions() {
            // Between parts may be rows that came meanwhile.
            for parts in partition.sources.split(|source| matches!(source, Source::Run(_))) {
                let wasteful = |part: &&Arc<PartFile>| !partition.superseded_of(part).is_empty();
                let parts = parts_of(parts);
                let with_superseded = || parts.iter().find(wasteful).map(|part| vec![Arc::clone(part)]);
                if let Some(parts) = due(parts.clone()).or_else(with_superseded) {
                    return self.archive_of(table, partition, parts);
                }
            }
        }
        None
    }

    fn archive_of(
        &self,
        table: &Arc<TableSnapshot>,
        partition: &PartitionSnapshot,
        parts: Vec<Arc<PartFile>>,
    ) -> Option<Merge> {
        self.merge_as(table, partition, parts, Density::Dense)
    }

    /// The time by the engine's clock (s since the Unix epoch); 0 before it.
    pub(crate) fn now_s(&self) -> u64 {
        let now_ns = self.writing("the time").map_or(0, |writing| writing.clock.now_ns());
        u64::try_from(now_ns / 1_000_000_000).unwrap_or(0)
    }
}
