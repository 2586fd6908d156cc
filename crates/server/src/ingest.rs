//! Rows of any protocol into tables: what is missing is made, and one commit stores them all.
//!
//! Invariant: rows that were refused, or that came too late for the tables they were read for, leave no row behind. A
//! table or a column that was made for them may stay, empty.

use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{AlterTable, ModelError, Rights, SyncPolicy, TableSchema};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Access, ErrorKind, QueryError};
use tickstone_wire::TableRows;

/// How often rows are read anew for tables that changed under them.
pub(crate) const READS_MAX: usize = 16;

/// What may be made for rows that come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    /// Tables that are not there.
    pub(crate) tables: bool,
    /// Columns that are not there.
    pub(crate) columns: bool,
}

/// Why rows were not stored.
#[derive(Debug)]
pub(crate) enum NotStored {
    /// A table is not any more what they were read for: they are to be read anew.
    Changed,
    /// They cannot be stored.
    Refused(QueryError),
}

impl From<EngineError> for NotStored {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::SchemaChanged { .. }
            | EngineError::NoSuchTable { .. }
            | EngineError::TableGone { .. }
            | EngineError::TableExists { .. }
            | EngineError::Model(ModelError::DuplicateColumn { .. }) => NotStored::Changed,
            other => NotStored::Refused(other.into()),
        }
    }
}

/// Finds the table that rows are read for: one that the user may add rows to. Of any other nothing is told, such as what
/// type a column has that a value does not fit.
pub(crate) fn find(access: &Access, name: &str) -> Option<Arc<TableSchema>> {
    access.table(Rights::INSERT, name).ok().flatten().map(|table| table.schema)
}

/// The table of a name as it is now.
fn now(engine: &Engine, name: &str) -> Option<Arc<TableSchema>> {
    engine.snapshot().table(name).map(|table| Arc::clone(table.schema()))
}

/// Stores rows of tables in one commit and waits until they are safe by `sync`, or by the strictest policy of the
/// tables; how many. Waits for the disk: no task of a runtime may call it. The caller waited for the user's
/// turn ([`Access::turn`]).
///
/// # Errors
/// [`NotStored`]; no row was stored then.
pub(crate) fn store(
    access: &Access,
    engine: &Engine,
    rows: &[TableRows],
    making: Making,
    sync: Option<SyncPolicy>,
) -> Result<u64, NotStored> {
    let stored = stored(access, engine, rows, making, sync);
    match &stored {
        Ok(_) => rows.iter().for_each(|rows| access.added(&rows.name, rows.rows as u64)),
        Err(NotStored::Refused(error)) => rows.iter().for_each(|rows| {
            access.tell("INGEST", rows.name.as_str().into(), 0, Duration::ZERO, Some(error));
        }),
        Err(NotStored::Changed) => {}
    }
    stored
}

fn stored(
    access: &Access,
    engine: &Engine,
    rows: &[TableRows],
    making: Making,
    sync: Option<SyncPolicy>,
) -> Result<u64, NotStored> {
    access.check_audit().map_err(NotStored::Refused)?;
    rows.iter().try_for_each(|rows| check(access, engine, rows)).map_err(NotStored::Refused)?;
    let batches =
        rows.iter().map(|rows| batch(access, engine, rows, making)).collect::<Result<Vec<_>, _>>()?;
    let mut transaction = engine.begin();
    for (rows, (table, batch)) in rows.iter().zip(&batches) {
        transaction.append(&rows.name, batch).map_err(|error| match now(engine, &rows.name) {
            // What does not fit now may fit what the table has become.
            Some(now) if now.version() == table.version() && now.name() == table.name() => error.into(),
            _ => NotStored::Changed,
        })?;
    }
    Ok(transaction.commit(sync)?.rows)
}

/// Checks that the user may add rows to a table, and make what is missing for them.
///
/// # Errors
/// Where they may not.
fn check(access: &Access, engine: &Engine, rows: &TableRows) -> Result<(), QueryError> {
    match &rows.table {
        Some(table) => {
            access.may(Rights::INSERT, table.name())?;
            match rows.new_columns().next() {
                Some(_) => access.may_extend(table.name()),
                None => Ok(()),
            }
        }
        // It is made meanwhile, or is not theirs to write.
        None if now(engine, &rows.name).is_some() => access.may(Rights::INSERT, &rows.name),
        None => access.may_make(&rows.name),
    }
}

/// The rows of one table as it wants them, once it is there and has all columns.
fn batch(
    access: &Access,
    engine: &Engine,
    rows: &TableRows,
    making: Making,
) -> Result<(Arc<TableSchema>, RecordBatch), NotStored> {
    let refused = |what: String, hint: &str| {
        NotStored::Refused(QueryError::new(ErrorKind::FixRequest, what).hint(hint))
    };
    let table = match (now(engine, &rows.name), &rows.table) {
        (Some(table), Some(_)) => table,
        (None, None) if engine.snapshot().keeps(&rows.name) => {
            let what = format!("the database keeps '{}' for itself", rows.name);
            return Err(refused(what, "write to a table of another name"));
        }
        (None, None) if making.tables => {
            let made = rows.new_table().map_err(EngineError::from)?.owned_by(access.owner());
            engine.create_table(made)?;
            now(engine, &rows.name).ok_or(NotStored::Changed)?
        }
        (None, None) => {
            let what = format!("table '{}' does not exist", rows.name);
            return Err(refused(what, "create it, or allow auto_create_tables"));
        }
        _ => return Err(NotStored::Changed),
    };
    for column in rows.new_columns().filter(|_| rows.table.is_some()) {
        if !making.columns {
            let what = format!("column '{}' of '{}' does not exist", column.name, rows.name);
            return Err(refused(what, "add it, or allow auto_create_columns"));
        }
        engine.alter_table(&rows.name, &AlterTable::AddColumn(column))?;
    }
    let table = if rows.new_columns().next().is_some() {
        now(engine, &rows.name).ok_or(NotStored::Changed)?
    } else {
        table
    };
    let batch = rows.batch(&table).ok_or(NotStored::Changed)?;
    Ok((table, batch))
}
