//! Tables come, change their shape and go: frames of the tape, atomic as any commit.
//!
//! Invariants:
//! - the frame of a new shape enters the tape under the table's writer lock, which is held until the
//!   snapshot has it: rows in frames before it have the old columns, those after it the new ones;
//! - rows put together for the old columns are refused where these are no longer the table's.
//!
//! [`Engine`](crate::Engine) says what each does and how it fails.

use crate::core::catalog::{TableWriter, lock_writer};
use crate::core::{Core, RowsOf};
use crate::disk::checked::sync_if_there;
use crate::paths::{TABLES_DIR, table_dir};
use crate::store::snapshot::{Dropped, DroppedCell, Effect, Snapshot, TableSnapshot};
use crate::tape::change::{Change, encode_change};
use crate::upkeep::saving::{remove_dropped_or_later, save_manifest_or_later};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tickstone_model::{AlterTable, SyncPolicy, TableSchema, TimeRange};

pub(crate) fn create(core: &Core, schema: TableSchema) -> Result<()> {
    let mut catalog = core.catalog();
    // Whether there is such a table is known only as long as the tape goes on.
    core.tape.check()?;
    if let Some(table) = core.publisher.snapshot().table(schema.name()) {
        return Err(EngineError::TableExists { name: table.schema.name().to_string() });
    }
    if let Some(view) = schema.materialized() {
        core.table(&view.base)?;
    }
    let id = catalog.next_table;
    // Its number may have been that of a table long gone: what a power cut could bring back, or take away, of
    // that one must be settled before.
    let dir = table_dir(id);
    core.disk.remove(&dir).map_err(EngineError::io("remove", &dir))?;
    sync_if_there(core.disk.as_ref(), Path::new(TABLES_DIR))?;
    let (kind, payload) = encode_change(&Change::Create { table: id, schema: schema.clone() });
    let effect = Effect::Create(TableSnapshot::new(id, schema, 0, &core.disk));
    let ticket = core.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
    catalog.next_table += 1;
    core.tape.wait(&ticket)?;
    if let Some(table) = core.publisher.snapshot().table_by_id(id) {
        catalog.writers.insert(id, Arc::new(Mutex::new(TableWriter::new(table))));
    }
    Ok(())
}

pub(crate) fn drop(core: &Core, name: &str) -> Result<()> {
    core.tape.check()?;
    core.wait_for_rewrite(name)?;
    let mut catalog = core.catalog();
    core.tape.check()?;
    let table = core.table(name)?;
    let writer = catalog.writer(&table)?;
    let mut writer = lock_writer(&writer);
    let id = table.id;
    check_has_no_views(core, &table)?;
    commit(core, &Change::Drop { table: id }, Effect::Drop { table: id })?;
    catalog.forget(&mut writer);
    remove_dropped_or_later(core, Arc::clone(&table.dir));
    Ok(())
}

pub(crate) fn truncate(core: &Core, name: &str) -> Result<()> {
    let found = core.table(name)?;
    let table = found.id;
    leave(core, &found, &Change::Truncate { table }, Effect::Truncate { table }, |_| Ok(()))
}

pub(crate) fn drop_partitions(core: &Core, name: &str, range: TimeRange) -> Result<Dropped> {
    let found = core.table(name)?;
    let (table, dropped) = (found.id, DroppedCell::default());
    let effect = Effect::DropPartitions { table, range, dropped: Arc::clone(&dropped) };
    let check = |now: &Snapshot| now.check_taken_in(&found, range);
    leave(core, &found, &Change::DropPartitions { table, range }, effect, check)?;
    Ok(dropped.get().copied().unwrap_or_default())
}

pub(crate) fn alter(core: &Core, name: &str, change: &AlterTable) -> Result<()> {
    core.wait_for_rewrite(name)?;
    let catalog = core.catalog();
    let found = core.table(name)?;
    let writer = catalog.writer(&found)?;
    let mut writer = lock_writer(&writer);
    // Every change of shape before this one was waited for under the same lock: unless the tape has stopped,
    // `schema` is current, and what the snapshot shows is stable.
    core.tape.check()?;
    writer.check_there()?;
    let schema = writer.table.schema.altered(change)?;
    if schema == *writer.table.schema {
        return Ok(());
    }
    if matches!(change, AlterTable::RenameTable(_)) {
        check_has_no_views(core, &found)?;
    }
    let snapshot = core.publisher.snapshot();
    if let Some(other) = snapshot.table(schema.name()).filter(|other| other.id != found.id) {
        return Err(EngineError::TableExists { name: other.schema.name().to_string() });
    }
    let change = Change::Alter { table: found.id, schema: schema.clone() };
    commit(core, &change, Effect::Alter { table: found.id, schema: Arc::new(schema) })?;
    take_shape(core, &mut writer, found.id);
    Ok(())
}

pub(crate) fn replace(core: &Core, name: &str, with: &str) -> Result<()> {
    core.wait_for_rewrite(name)?;
    core.wait_for_rewrite(with)?;
    let mut catalog = core.catalog();
    core.tape.check()?;
    let (old, new) = (core.table(name)?, core.table(with)?);
    if old.id == new.id {
        return Ok(());
    }
    let (old_writer, new_writer) = (catalog.writer(&old)?, catalog.writer(&new)?);
    // In the order in which commits lock them.
    let (mut old_locked, mut new_locked);
    if old.id < new.id {
        old_locked = lock_writer(&old_writer);
        new_locked = lock_writer(&new_writer);
    } else {
        new_locked = lock_writer(&new_writer);
        old_locked = lock_writer(&old_writer);
    }
    new_locked.check_there()?;
    check_has_no_views(core, &old)?;
    check_has_no_views(core, &new)?;
    let rename = AlterTable::RenameTable(old.schema.name().to_string());
    let schema = new_locked.table.schema.altered(&rename)?;
    let change = Change::Replace { table: new.id, schema: schema.clone(), replaced: old.id };
    let effect = Effect::Replace { table: new.id, schema: Some(Arc::new(schema)), replaced: Some(old.id) };
    commit(core, &change, effect)?;
    catalog.forget(&mut old_locked);
    take_shape(core, &mut new_locked, new.id);
    remove_dropped_or_later(core, Arc::clone(&old.dir));
    Ok(())
}

pub(crate) fn refresh(
    core: &Core,
    name: &str,
    as_of: u64,
    current: Vec<TimeRange>,
    stale: Vec<TimeRange>,
) -> Result<()> {
    let table = core.table_of_rows(name, RowsOf::Views)?.id;
    let change = Change::Refresh { table, as_of, current: current.clone(), stale: stale.clone() };
    commit(core, &change, Effect::Refresh { table, as_of, current, stale })
}

/// # Errors
/// [`EngineError::HasViews`].
fn check_has_no_views(core: &Core, table: &TableSnapshot) -> Result<()> {
    let (snapshot, table) = (core.publisher.snapshot(), table.schema.name());
    match snapshot.views_of(table).next() {
        Some(view) => {
            let view = view.schema.name().to_string();
            Err(EngineError::HasViews { table: table.to_string(), view })
        }
        None => Ok(()),
    }
}

/// Commits a change of tables whose writers are locked.
fn commit(core: &Core, change: &Change, effect: Effect) -> Result<()> {
    let (kind, payload) = encode_change(change);
    let ticket = core.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
    core.tape.wait(&ticket)
}

/// Commits a change by which rows leave a table; commits of others go on while it is written.
fn leave(
    core: &Core,
    table: &TableSnapshot,
    change: &Change,
    effect: Effect,
    check: impl FnOnce(&Snapshot) -> Result<()>,
) -> Result<()> {
    let writer = core.table_writer(table)?;
    let writer = lock_writer(&writer);
    writer.check_there()?;
    // Rows on their way are seen.
    core.tape.publish_all()?;
    check(&core.publisher.snapshot())?;
    let (kind, payload) = encode_change(change);
    let ticket = core.tape.append(kind, &payload, effect, SyncPolicy::Always)?;
    std::mem::drop(writer);
    core.tape.wait(&ticket)?;
    core.maintenance.touch([table.id]);
    // Parts go only once no manifest names them: after the manifest that knows of the change.
    save_manifest_or_later(core, table.id);
    Ok(())
}

/// Gives a table's writer the shape that the snapshot has.
fn take_shape(core: &Core, writer: &mut TableWriter, id: u32) {
    writer.settle_symbols(&core.tape);
    if let Some(altered) = core.publisher.snapshot().table_by_id(id) {
        writer.alter(altered);
    }
}
