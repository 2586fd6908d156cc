//! What happens off the commit path: runs merge, partitions are sealed, the tape lets go.
//!
//! Invariant: one maintenance step at a time (the pause guard is its lock); steps never take a writer's lock.

use super::compact;
use super::saving::{remove_dropped, save_manifest_of, save_where_parts_left};
use super::seal::{fullest_partition, seal_partition, trailing_runs};
use super::tape::{free_tape, hold_found, tape_is_long};
use crate::core::Core;
use crate::lock::lock;
use crate::recent::{fit_together, merge_runs, runs_to_merge};
use crate::store::snapshot::Source;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// Share of what recent rows may take that they take before partitions are sealed.
const SEAL_SHARE: usize = 2;

/// Most rows of a run made by merging: one slice's worth keeps sealing and merging in proportion.
const MERGED_ROWS_MAX: usize = 1 << 20;

/// The same for tables whose rows replace each other.
const DEDUP_MERGED_ROWS_MAX: usize = 1 << 16;

/// Starts the thread that does what is requested, as long as the engine lives.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn start(core: &Arc<Core>) -> Result<()> {
    let weak: Weak<Core> = Arc::downgrade(core);
    let maintenance = Arc::clone(&core.maintenance);
    core.maintenance.worker.start("maintenance", move || {
        while maintenance.worker.next(None) {
            let Some(core) = weak.upgrade() else { return };
            maintenance.worker.finish(maintain_step(&core));
            compact::request_compaction(&core);
        }
    })
}

/// Waits until recent rows are within the memory budget.
///
/// # Errors
/// [`EngineError::MemoryFull`] where sealing them fails.
pub(crate) fn wait_for_memory(core: &Core) -> Result<()> {
    let budget_bytes = core.options.memory_budget_bytes;
    while core.publisher.snapshot().recent_bytes() > core.memory.recent_bytes_max() {
        let worker = &core.maintenance.worker;
        let failure = if core.options.background {
            worker.request_and_wait().err()
        } else {
            maintain(core);
            worker.failure()
        };
        if let Some(cause) = failure {
            return Err(EngineError::MemoryFull { budget_bytes, cause });
        }
    }
    Ok(())
}

/// Does what is due now; a failure is kept for the writer that has to wait for memory.
pub(crate) fn maintain(core: &Core) {
    core.maintenance.worker.finish(maintain_step(core));
    compact::compact_inline(core);
}

pub(crate) fn maintain_step(core: &Core) -> Result<()> {
    let maintenance = &core.maintenance;
    let pause = maintenance.pause();
    let touched = std::mem::take(&mut *lock(&maintenance.touched));
    let looked_at = merge_runs_of(core, &touched)
        .and_then(|()| remove_dropped(core, &pause))
        .and_then(|()| save_where_parts_left(core, &touched, &pause));
    if looked_at.is_err() {
        // What could not be done is due again.
        maintenance.touch(touched);
    }
    looked_at?;
    core.publisher.feed().trim(core.clock.now_ns());
    let mut sealed = false;
    while core.publisher.snapshot().recent_bytes() > core.memory.recent_bytes_max() / SEAL_SHARE {
        let snapshot = core.publisher.snapshot();
        let Some((table, partition)) = fullest_partition(&snapshot) else { break };
        seal_partition(core, table, partition, &pause)?;
        save_manifest_of(core, table, &pause)?;
        sealed = true;
    }
    if sealed || tape_is_long(core)? {
        free_tape(core, &pause)?;
    } else if core.names.held_to() == 0 {
        hold_found(core, &pause)?;
    }
    Ok(())
}

fn merge_runs_of(core: &Core, tables: &BTreeSet<u32>) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    for table in tables.iter().filter_map(|id| snapshot.table_by_id(*id)) {
        for partition in table.partitions().hot() {
            let trailing = trailing_runs(partition);
            let rows: Vec<usize> = trailing.iter().map(|run| run.rows()).collect();
            // Each replaced row of a run costs a copy of it.
            let dedup = !table.schema.dedup().is_empty();
            let rows_max = if dedup { DEDUP_MERGED_ROWS_MAX } else { MERGED_ROWS_MAX };
            let count = runs_to_merge(&rows, rows_max);
            let runs = &trailing[trailing.len() - count..];
            if count > 0 && fit_together(runs) {
                let merged = Source::Run(Arc::new(merge_runs(runs)?));
                let _layout = lock(&table.dir.layout);
                core.publisher.change(|next| next.replace_runs(table.id, partition.range, runs, merged));
            }
        }
    }
    Ok(())
}
