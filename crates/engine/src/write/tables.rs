//! Tables come, change their shape and go: frames of the tape, atomic as any commit.
//!
//! Invariants:
//! - the frame of a new shape enters the tape under the table's writer lock, which is held until the
//!   snapshot has it: rows in frames before it have the old columns, those after it the new ones;
//! - rows put together for the old columns are refused where these are no longer the table's.
//!
//! [`Engine`](crate::Engine) says what each does and how it fails.

use super::accounts;
use super::aside::check_is_users;
use crate::core::catalog::{TableLock, TableWriter, lock_writer};
use crate::core::{Core, RowsOf, check_rows};
use crate::disk::checked::sync_if_there;
use crate::paths::{TABLES_DIR, table_dir};
use crate::store::snapshot::{ACCOUNTS, AUDIT, Dropped, DroppedCell, Effect, Snapshot, TableSnapshot};
use crate::tape::change::{Change, encode_change};
use crate::upkeep::saving::{remove_dropped_or_later, save_manifest_or_later};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::Arc;
use tickstone_model::{AlterTable, Column, ModelError, SyncPolicy, TableSchema, TimeRange, Ttl};

pub(crate) fn create(core: &Core, schema: TableSchema) -> Result<()> {
    check_is_users(schema.name())?;
    create_marked(core, schema).map(|_| ())
}

/// Makes a table of any name, also one aside; its number.
pub(crate) fn create_marked(core: &Core, schema: TableSchema) -> Result<u32> {
    let mut catalog = core.catalog();
    // Whether there is such a table is known only as long as the tape goes on.
    core.tape.check()?;
    let snapshot = core.publisher.snapshot();
    if let Some(table) = snapshot.taken(schema.name()) {
        return Err(EngineError::TableExists { name: table.schema.name().to_string() });
    }
    if let Some(column) = schema.clashing_column() {
        return Err(ModelError::DuplicateColumn { name: column.name.clone() }.into());
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
        catalog.writers.insert(id, Arc::new(TableLock::new(TableWriter::of_new(table))));
    }
    Ok(id)
}

/// Drops the table of this number, whatever its name is by then.
pub(crate) fn drop(core: &Core, id: u32) -> Result<()> {
    core.tape.check()?;
    core.wait_for_rewrite(&*core.table_by_id(id)?)?;
    let mut catalog = core.catalog();
    core.tape.check()?;
    let table = core.table_by_id(id)?;
    let writer = catalog.writer(&table)?;
    let mut writer = lock_writer(&writer);
    check_has_no_views(core, &table)?;
    commit(core, &Change::Drop { table: id }, Effect::Drop { table: id })?;
    catalog.forget(&mut writer);
    remove_dropped_or_later(core, Arc::clone(&table.dir));
    Ok(())
}

/// The table of the number of another state of it, whatever is called as it was by now.
///
/// # Errors
/// [`EngineError::TableGone`].
pub(crate) fn this_table(core: &Core, table: &TableSnapshot) -> Result<Arc<TableSnapshot>> {
    let gone = || EngineError::TableGone { name: table.schema.name().to_string() };
    core.publisher.snapshot().table_by_id(table.id).map(Arc::clone).ok_or_else(gone)
}

pub(crate) fn truncate(core: &Core, found: &TableSnapshot) -> Result<()> {
    let table = found.id;
    leave(core, found, &Change::Truncate { table }, Effect::Truncate { table }, |_| Ok(()))
}

pub(crate) fn drop_partitions(core: &Core, found: &TableSnapshot, range: TimeRange) -> Result<Dropped> {
    let (table, dropped) = (found.id, DroppedCell::default());
    let effect = Effect::DropPartitions { table, range, dropped: Arc::clone(&dropped) };
    let check = |now: &Snapshot| now.check_taken_in(found, range);
    leave(core, found, &Change::DropPartitions { table, range }, effect, check)?;
    Ok(dropped.get().copied().unwrap_or_default())
}

pub(crate) fn alter(core: &Core, name: &str, change: &AlterTable) -> Result<()> {
    if let AlterTable::RenameTable(name) = change {
        check_is_users(name)?;
    }
    core.wait_for_rewrite(&*core.table(name)?)?;
    alter_and_keep(core, || core.table(name), change)
}

/// As [`alter`], the table that has this number, whatever is called as it was by now.
pub(crate) fn alter_by_id(core: &Core, table: &TableSnapshot, change: &AlterTable) -> Result<()> {
    if let AlterTable::RenameTable(name) = change {
        check_is_users(name)?;
    }
    let find = || this_table(core, table);
    core.wait_for_rewrite(&*find()?)?;
    alter_and_keep(core, find, change)
}

fn alter_and_keep(
    core: &Core,
    find: impl Fn() -> Result<Arc<TableSnapshot>>,
    change: &AlterTable,
) -> Result<()> {
    let table = alter_found(core, find, change)?;
    if matches!(change, AlterTable::SetAccess(_)) {
        keep_rights(core, table);
    }
    Ok(())
}

fn keep_accounts(core: &Core, table: u32, text: &str) {
    keep_rights(core, table);
    accounts::save_or_remove(core.disk.as_ref(), text);
}

/// Has what somebody may do stand in a manifest and its copy by the time that it is acknowledged: where the tape is
/// damaged later, a repair that gives up frames of it brings no right back that was revoked.
fn keep_rights(core: &Core, table: u32) {
    save_manifest_or_later(core, table);
}

/// Has the database keep the text that says who may do what, in the place of the one before.
pub(crate) fn set_accounts(core: &Core, text: &str) -> Result<()> {
    if core.publisher.snapshot().accounts().is_none() {
        match create_marked(core, TableSchema::of_internal(ACCOUNTS, text)?) {
            // Another made it meanwhile.
            Err(EngineError::TableExists { .. }) if core.publisher.snapshot().accounts().is_some() => {}
            done => return done.map(|table| keep_accounts(core, table, text)),
        }
    }
    let missing = || EngineError::NoSuchTable { name: ACCOUNTS.to_string() };
    let find = || core.publisher.snapshot().internal(ACCOUNTS).map(Arc::clone).ok_or_else(missing);
    alter_found(core, find, &AlterTable::SetView(text.to_string()))
        .map(|table| keep_accounts(core, table, text))
}

/// Makes the table of the audit log, or has the one that is there keep its rows for as long and have all columns; its
/// number.
pub(crate) fn keep_audit(core: &Core, columns: &[Column], ttl: Option<Ttl>) -> Result<u32> {
    let find = || {
        let missing = || EngineError::NoSuchTable { name: AUDIT.to_string() };
        core.publisher.snapshot().audit().map(Arc::clone).ok_or_else(missing)
    };
    let Ok(found) = find() else {
        let (first, rest) = columns.split_first().ok_or(ModelError::ColumnCount { count: 0, most: 0 })?;
        let mut schema = TableSchema::builder(AUDIT).timestamp(&first.name).internal().ttl(ttl);
        schema = schema.column(&first.name, first.column_type).series::<&str>([]);
        schema = rest.iter().fold(schema, |schema, column| schema.column(&column.name, column.column_type));
        return create_marked(core, schema.build()?);
    };
    for column in columns.iter().filter(|column| found.schema.column_index(&column.name).is_none()) {
        alter_found(core, find, &AlterTable::AddColumn(column.clone()))?;
    }
    alter_found(core, find, &AlterTable::SetTtl(ttl))?;
    Ok(found.id)
}

fn alter_found(
    core: &Core,
    find: impl Fn() -> Result<Arc<TableSnapshot>>,
    change: &AlterTable,
) -> Result<u32> {
    let catalog = core.catalog();
    let found = find()?;
    let writer = catalog.writer(&found)?;
    let mut writer = lock_writer(&writer);
    // Every change of shape before this one was waited for under the same lock: unless the tape has stopped,
    // `schema` is current, and what the snapshot shows is stable.
    core.tape.check()?;
    writer.check_there()?;
    let schema = writer.table.schema.altered(change)?;
    if schema == *writer.table.schema {
        return Ok(found.id);
    }
    if matches!(change, AlterTable::RenameTable(_)) {
        check_has_no_views(core, &found)?;
    }
    let snapshot = core.publisher.snapshot();
    if let Some(other) = snapshot.taken(schema.name()).filter(|other| other.id != found.id) {
        return Err(EngineError::TableExists { name: other.schema.name().to_string() });
    }
    let change = Change::Alter { table: found.id, schema: schema.clone() };
    commit(core, &change, Effect::Alter { table: found.id, schema: Arc::new(schema) })?;
    take_shape(core, &mut writer, found.id);
    Ok(found.id)
}

pub(crate) fn replace(core: &Core, name: &str, with: &str) -> Result<()> {
    core.table(name)?;
    put_in_place(core, core.table(with)?.id, name, None)
}

/// Has the table of number `new` take a name, and with it the place of the table that has it now: of any one, or of `of`,
/// which may be none.
pub(crate) fn put_in_place(core: &Core, new: u32, name: &str, of: Option<Option<u32>>) -> Result<()> {
    check_is_users(name)?;
    core.tape.check()?;
    core.wait_for_rewrite(&*core.table_by_id(new)?)?;
    if let Ok(old) = core.table(name) {
        core.wait_for_rewrite(&old)?;
    }
    let mut catalog = core.catalog();
    core.tape.check()?;
    let new = core.table_by_id(new)?;
    let old = core.publisher.snapshot().taken(name).filter(|old| old.id != new.id).map(Arc::clone);
    if let Some(old) = &old {
        if of.is_some_and(|of| of != Some(old.id)) || old.schema.is_internal() {
            return Err(EngineError::TableExists { name: old.schema.name().to_string() });
        }
        if old.schema.view().is_some() || old.schema.materialized().is_some() {
            return Err(old.schema.wrong_kind().into());
        }
        check_has_no_views(core, old)?;
    }
    check_has_no_views(core, &new)?;
    let old_writer = old.as_ref().map(|old| catalog.writer(old)).transpose()?;
    let new_writer = catalog.writer(&new)?;
    // In the order in which commits lock them.
    let is_first = old.as_ref().is_some_and(|old| old.id < new.id);
    let mut old_locked = old_writer.as_deref().filter(|_| is_first).map(lock_writer);
    let mut new_locked = lock_writer(&new_writer);
    old_locked = old_locked.or_else(|| old_writer.as_deref().map(lock_writer));
    new_locked.check_there()?;
    let name = old.as_ref().map_or(name, |old| old.schema.name());
    let schema = new_locked.table.schema.put_in_place(name, old.as_ref().map(|old| &*old.schema))?;
    let (change, effect) = match &old {
        Some(old) => (
            Change::Replace { table: new.id, schema: schema.clone(), replaced: old.id },
            Effect::Replace { table: new.id, schema: Some(Arc::new(schema)), replaced: Some(old.id) },
        ),
        None => (
            Change::Alter { table: new.id, schema: schema.clone() },
            Effect::Alter { table: new.id, schema: Arc::new(schema) },
        ),
    };
    commit(core, &change, effect)?;
    if let (Some(old), Some(locked)) = (&old, &mut old_locked) {
        catalog.forget(locked);
        remove_dropped_or_later(core, Arc::clone(&old.dir));
    }
    take_shape(core, &mut new_locked, new.id);
    Ok(())
}

pub(crate) fn refresh(
    core: &Core,
    table: u32,
    as_of: u64,
    current: Vec<TimeRange>,
    stale: Vec<TimeRange>,
) -> Result<()> {
    check_rows(&*core.table_by_id(table)?, RowsOf::Views)?;
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
