//! Sealing: the runs of a partition become parts.
//!
//! Invariants:
//! - rows are sealed only after the tape is synced up to what they rely on: a power cut never keeps one table's half of
//!   a commit, nor loses a row with the one that replaced it;
//! - the order: part, folder, symbol files, snapshot, manifest.

use super::saving::save_manifest_of;
use super::tape::truncate_tape;
use crate::core::{Core, Pause};
use crate::lock::lock;
use crate::part::{Density, PositionRange};
use crate::recent::Run;
use crate::store::feed::SealedPartition;
use crate::store::new_part::NewPart;
use crate::store::snapshot::{PartitionSnapshot, Snapshot, Source};
use crate::{EngineError, Result};
use std::sync::Arc;
use tickstone_model::TimeRange;

/// Seals all recent rows of one table, or of all, and lets go of the tape before them.
///
/// # Errors
/// [`EngineError::NoSuchTable`], [`EngineError::TapeStopped`], [`EngineError::Io`].
pub(crate) fn seal(core: &Core, table: Option<&str>) -> Result<()> {
    // Also where there is nothing to seal.
    core.tape.settle()?;
    let tables = core.ids_of(table)?;
    let pause = core.maintenance.pause();
    for id in tables {
        seal_table(core, id, &pause)?;
    }
    truncate_tape(core, &pause)?;
    core.compaction.worker.request();
    Ok(())
}

/// Seals every partition of a table and saves its manifest.
pub(crate) fn seal_table(core: &Core, table: u32, pause: &Pause<'_>) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    let hot = snapshot.table_by_id(table).into_iter().flat_map(|table| table.partitions().hot());
    for partition in hot {
        seal_partition(core, table, partition.range, pause)?;
    }
    save_manifest_of(core, table, pause)
}

/// Writes the runs of a partition into parts: one for each stretch of them between parts.
pub(super) fn seal_partition(core: &Core, id: u32, range: TimeRange, _pause: &Pause<'_>) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
    let Some(partition) = table.partitions().find(range.from) else { return Ok(()) };
    core.tape.sync(snapshot.position())?;
    for runs in stretches_of_runs(partition) {
        let (first, last) = (runs[0].positions().first, runs[runs.len() - 1].positions().last);
        let positions = PositionRange { first, last };
        let new = NewPart::new(table, range.from, core.new_part_name(Density::Fast), positions);
        let batches: Vec<_> = runs.iter().map(|run| run.batch().clone()).collect();
        let disk = core.disk.as_ref();
        let summary = new.write(disk, &batches, core.options.part_options(Density::Fast))?;
        new.sync_name(disk)?;
        core.counters.sealed(summary.file_bytes);
        let part = Source::Part(new.opened(&summary));
        let layout = lock(&table.dir.layout);
        table.note_sealed();
        let replaced = core.publisher.change(|next| next.replace_runs(id, range, &runs, part));
        drop(layout);
        core.compaction.touch([id]);
        if replaced {
            let sealed = SealedPartition { table: id, partition: range, rows: summary.rows };
            core.publisher.feed().note_sealed(sealed);
        } else {
            disk.remove(new.path()).map_err(EngineError::io("remove", new.path()))?;
        }
    }
    Ok(())
}

pub(super) fn fullest_partition(snapshot: &Snapshot) -> Option<(u32, TimeRange)> {
    let partitions =
        snapshot.hot_tables().flat_map(|table| table.partitions().hot().map(move |p| (table, p)));
    let (table, partition) = partitions.max_by_key(|(_, partition)| partition.recent_bytes())?;
    (partition.runs() > 0).then_some((table.id, partition.range))
}

pub(super) fn runs_of(partition: &Arc<PartitionSnapshot>) -> impl Iterator<Item = &Arc<Run>> {
    partition.sources.iter().filter_map(|source| if let Source::Run(run) = source { Some(run) } else { None })
}

/// The runs after the last part, in arrival order.
pub(super) fn trailing_runs(partition: &PartitionSnapshot) -> Vec<Arc<Run>> {
    stretches_of_runs(partition)
        .pop()
        .filter(|_| matches!(partition.sources.last(), Some(Source::Run(_))))
        .unwrap_or_default()
}

/// Neighbouring runs, in arrival order: parts stand between the stretches.
fn stretches_of_runs(partition: &PartitionSnapshot) -> Vec<Vec<Arc<Run>>> {
    let mut stretches = vec![Vec::new()];
    for source in &partition.sources {
        match (source, stretches.last_mut()) {
            (Source::Run(run), Some(stretch)) => stretch.push(Arc::clone(run)),
            _ => stretches.push(Vec::new()),
        }
    }
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}
