//! Saving: what a table is goes into its manifest, so that the tape need not tell it any more.
//!
//! Invariants:
//! - a manifest is saved only after the tape is synced up to what it relies on;
//! - the symbols that it relies on are saved before it; the files of parts that left go after it.

use crate::core::{Core, Pause};
use crate::lock::lock;
use crate::paths::{TAPE_DIR, copy_path, symbols_path};
use crate::store::snapshot::{TableDir, TableSnapshot};
use crate::tape::segment::list_segments;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Saves a table's manifest, with the symbols it relies on first.
pub(crate) fn save_manifest(core: &Core, table: u32) -> Result<()> {
    let pause = core.maintenance.pause();
    save_manifest_of(core, table, &pause)
}

/// Saves a table's manifest after a change that is done already; what fails is tried again by maintenance,
/// and said by it.
pub(crate) fn save_manifest_or_later(core: &Core, table: u32) {
    let outcome = save_manifest(core, table);
    finish_or_later(core, outcome);
}

pub(crate) fn save_manifest_of(core: &Core, id: u32, _pause: &Pause<'_>) -> Result<()> {
    save_views_of(core, id).and_then(|()| try_save_manifest(core, id)).inspect_err(|_| {
        // Parts may be there that the manifest does not name, too.
        core.maintenance.unsure.store(true, Ordering::Relaxed);
        core.maintenance.touch([id]);
    })
}

/// Saves the manifests of the materialized views over a table before its own: each knows of what that one holds, so that
/// no change which the table need not be told again is one that they were not told.
fn save_views_of(core: &Core, id: u32) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
    for view in snapshot.views_of(table.schema.name()) {
        save_views_of(core, view.id)?;
        try_save_manifest(core, view.id)?;
    }
    Ok(())
}

/// Saves the manifests of tables that parts left: their files go after that.
pub(super) fn save_where_parts_left(core: &Core, tables: &BTreeSet<u32>, pause: &Pause<'_>) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    let tables = tables.iter().filter_map(|id| snapshot.table_by_id(*id));
    let left = tables.filter(|table| !table.retired.is_empty());
    left.map(|table| table.id).try_for_each(|id| save_manifest_of(core, id, pause))
}

fn try_save_manifest(core: &Core, id: u32) -> Result<()> {
    forget_history(core, id)?;
    let snapshot = core.publisher.snapshot();
    let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
    if !table.needs_saving() {
        return Ok(());
    }
    core.tape.sync(snapshot.position())?;
    let manifest = table.to_manifest(snapshot.position());
    save_symbols(core, table, &manifest.symbol_counts)?;
    let copied = manifest.save(core.disk.as_ref())?;
    note_copied(core, copied);
    table.note_saved();
    for column_id in &table.retired_columns {
        let path = symbols_path(id, *column_id);
        for path in [copy_path(&path), path] {
            core.disk.remove(&path).map_err(EngineError::io("remove", &path))?;
        }
    }
    core.publisher.change(|next| next.forget_retired(table));
    core.publisher.feed().trim(core.clock.now_ns());
    Ok(())
}

fn save_symbols(core: &Core, table: &TableSnapshot, counts: &[u32]) -> Result<()> {
    for (column, count) in table.schema.symbol_columns().zip(counts) {
        let Some(dictionary) = table.dictionary(column) else { continue };
        let column_id = table.schema.column_id(column);
        if table.dir.saved_symbols(column_id) < *count {
            let path = symbols_path(table.id, column_id);
            let copied = dictionary.save(core.disk.as_ref(), &path, *count as usize)?;
            note_copied(core, copied);
            table.dir.note_saved_symbols(column_id, *count);
        }
    }
    Ok(())
}

/// Notes whether a copy was written: the next opening writes what was not.
fn note_copied(core: &Core, copied: bool) {
    if !copied {
        core.maintenance.unsure.store(true, Ordering::Relaxed);
    }
}

/// Forgets what neither the tape nor a part needs to know of a table's past.
pub(crate) fn forget_history(core: &Core, id: u32) -> Result<()> {
    let snapshot = core.publisher.snapshot();
    let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
    let used_from = table.partitions().oldest_version();
    // Without looking at the tape: is there anything that could be forgotten at all?
    if table.history.pruned(u64::MAX, used_from).is_none() {
        return Ok(());
    }
    let tape_from = stable_tape_start(core)?;
    let Some(pruned) = table.history.pruned(tape_from, used_from) else { return Ok(()) };
    core.publisher.change(|next| next.set_history(id, &table.history, pruned));
    Ok(())
}

/// Where the tape begins; what was before is gone for good.
pub(crate) fn stable_tape_start(core: &Core) -> Result<u64> {
    let first = list_segments(core.disk.as_ref())?.first().copied();
    core.disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR))?;
    Ok(first.unwrap_or(0))
}

/// Removes the manifests of dropped tables.
pub(crate) fn remove_dropped(core: &Core, _pause: &Pause<'_>) -> Result<()> {
    let mut dropped = lock(&core.maintenance.dropped);
    while let Some(dir) = dropped.last() {
        dir.doom()?;
        dropped.pop();
    }
    Ok(())
}

/// Removes the manifest of a table after its DROP, which is done already; what fails is tried again by
/// maintenance, and said by it.
pub(crate) fn remove_dropped_or_later(core: &Core, dir: Arc<TableDir>) {
    let pause = core.maintenance.pause();
    lock(&core.maintenance.dropped).push(dir);
    let outcome = remove_dropped(core, &pause);
    drop(pause);
    finish_or_later(core, outcome);
}

/// Leaves to maintenance what could not be done.
fn finish_or_later(core: &Core, outcome: Result<()>) {
    if outcome.is_err() {
        core.maintenance.worker.finish(outcome);
        core.maintenance.worker.request();
    }
}
