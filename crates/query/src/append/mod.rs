//! Arrow batches into tables, without SQL: what a program hands over is cast and committed.
//!
//! Owns the matching of columns by name, exact conversion (units and zones of timestamps, encodings of
//! text, widths of numbers; a value that does not fit is an error, never a NULL) and the making of a
//! table from what comes. Never reads a file.
//!
//! ```text
//! batches ─► cast ─► fewer than 262,144 rows: one transaction through the tape
//!                └─► more: a bulk load, straight into parts        (both: one atomic, durable commit)
//! ```
//!
//! Enter at [`append`]; [`Session::append`](crate::Session::append) adds to an open transaction what
//! [`Appender`] has cast.

mod cast;
mod shape;

use crate::aside::Aside;
use crate::error::{QueryError, Result};
use crate::{Access, Reached};
use arrow_schema::ArrowError;
use cast::Columns;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{PartitionBy, Rights, SyncPolicy};

/// Rows from which an append writes parts directly instead of through the tape.
const BULK_ROWS_MIN: usize = 1 << 18;

/// What to append to, and how. Make one with [`AppendRequest::new`] and set what differs.
#[derive(Debug, Clone)]
pub struct AppendRequest {
    /// The table.
    pub table: String,
    /// The table that the name is of, where it was reached before; no other is taken for it then.
    pub reached: Option<Reached>,
    /// Makes the table from what comes where it is missing.
    pub create: bool,
    /// The designated timestamp of a new table; `None`: by type and name. Of a table that is there it
    /// must be this one.
    pub timestamp: Option<String>,
    /// The series key of a new table; `None`: by name; empty: none at all. As `timestamp` else.
    pub series: Option<Vec<String>>,
    /// Partition length of a new table. As `timestamp` else.
    pub partition_by: Option<PartitionBy>,
    /// The table aside whose name `table` is, where it is one: it is made from what comes.
    pub aside: Option<Arc<Aside>>,
    /// When the rows are on stable storage; `None`: by the table's policy. A bulk load always syncs.
    pub sync: Option<SyncPolicy>,
}

impl AppendRequest {
    /// A request to append to a table that is there.
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            reached: None,
            create: false,
            timestamp: None,
            series: None,
            partition_by: None,
            aside: None,
            sync: None,
        }
    }
}

/// Appends batches of `schema` in one commit; how many rows. A table that is made is the user's.
///
/// # Errors
/// Where the user may not append, or make the table, before the first row is read and once the last one was, where the
/// rows do not fit the table or it is missing, where `batches` fails, and those of the engine.
/// Nothing is stored then. A table that is made for the rows is seen once they are in it; where another of its name came
/// meanwhile, they are refused.
pub fn append(
    access: &Access,
    request: &AppendRequest,
    schema: &SchemaRef,
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> Result<u64> {
    let appended = appended(access, request, schema, batches);
    match &appended {
        Ok(rows) if request.aside.is_none() => access.added(&request.table, *rows),
        // What goes aside is told of by whoever puts it in its place.
        Ok(rows) => access.charge(*rows),
        Err(error) => access.tell("INGEST", request.table.as_str().into(), 0, Duration::ZERO, Some(error)),
    }
    appended
}

fn appended(
    access: &Access,
    request: &AppendRequest,
    schema: &SchemaRef,
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> Result<u64> {
    access.check_audit()?;
    let engine = access.database().engine();
    let mut batches = batches.peekable();
    let known = match &request.reached {
        Some(reached) => Some(reached.clone()),
        None => access.table(Rights::INSERT, &request.table)?,
    };
    if let Some(table) = &known {
        shape::check_wishes(&table.schema, request)?;
        // Its client can let it wait for as long as it likes.
        let check = || access.still_may(Rights::INSERT, table);
        return store(engine, table, check, request.sync, schema, batches);
    }
    if !request.create {
        let missing = QueryError::from(EngineError::NoSuchTable { name: request.table.clone() });
        return Err(missing.hint("create it first, or append with create"));
    }
    access.may_make(&request.table)?;
    let sample = batches.peek().and_then(|first| first.as_ref().ok());
    let made = shape::table_of(request, schema, sample)?.owned_by(access.owner());
    let aside =
        request.aside.as_ref().map_or_else(|| engine.aside().map(Arc::new), |aside| Ok(Arc::clone(aside)))?;
    let beside = Arc::new(made.put_aside(aside.name())?);
    aside.create(&beside)?;
    let missing = || EngineError::NoSuchTable { name: made.name().to_string() };
    let beside = Reached { id: aside.table().ok_or_else(missing)?, schema: beside };
    let stored = store(engine, &beside, || access.may_make(&request.table), request.sync, schema, batches);
    let rows = stored.map_err(|error| error.naming(aside.name(), made.name()))?;
    if request.aside.is_none() {
        aside.take_name(made.name()).map_err(|error| {
            let is_there = matches!(error, EngineError::TableExists { .. });
            let error = QueryError::from(error);
            if is_there {
                error.hint("append once more; where it is not seen, it is another's: take another name")
            } else {
                error
            }
        })?;
    }
    Ok(rows)
}

/// Stores rows in a transaction while they are few, in a bulk load once they are many, where `check` finds nothing against
/// it once they have come.
fn store(
    engine: &Engine,
    table: &Reached,
    check: impl FnOnce() -> Result<()>,
    sync: Option<SyncPolicy>,
    schema: &SchemaRef,
    mut batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
) -> Result<u64> {
    let mut appender = Appender::new(table.clone(), schema)?;
    let (mut few, mut rows) = (Vec::new(), 0);
    for batch in &mut batches {
        let batch = batch?;
        rows += batch.num_rows();
        few.push(appender.cast(&batch)?);
        if rows >= BULK_ROWS_MIN {
            break;
        }
    }
    if rows < BULK_ROWS_MIN {
        let mut transaction = engine.begin();
        for batch in few {
            transaction.append_to(table.id, table.schema.name(), &cast::owned(&batch)?)?;
        }
        check()?;
        return Ok(transaction.commit(sync)?.rows);
    }
    let mut load = engine.load_into(table.id, table.schema.name())?;
    few.iter().try_for_each(|batch| load.append(batch))?;
    for batch in batches {
        load.append(&appender.cast(&batch?)?)?;
    }
    check()?;
    Ok(load.commit(None)?.rows)
}

/// Casts batches of one schema to the columns of one table.
#[derive(Debug)]
pub struct Appender {
    table: Reached,
    columns: Columns,
    /// Rows cast so far, for errors.
    rows: u64,
}

impl Appender {
    /// An appender for a table of the database.
    ///
    /// # Errors
    /// Where there is no such table, the user may not append to it, or as [`Self::new`].
    pub fn to_table(access: &Access, name: &str, schema: &SchemaRef) -> Result<Self> {
        let table = access.table(Rights::INSERT, name)?;
        let missing = || EngineError::NoSuchTable { name: name.to_string() };
        Self::new(table.ok_or_else(missing)?, schema)
    }

    fn new(table: Reached, schema: &SchemaRef) -> Result<Self> {
        let columns = Columns::matched(&table.schema, schema)?;
        Ok(Self { table, columns, rows: 0 })
    }

    /// The table.
    pub fn table(&self) -> &Reached {
        &self.table
    }

    /// A batch as the engine takes it. Columns that fit already are not copied.
    ///
    /// # Errors
    /// Where a value does not fit its column, with the row (from 1, over all batches) and the column.
    pub fn cast(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let cast = self.columns.cast(&self.table.schema, batch, self.rows)?;
        self.rows += batch.num_rows() as u64;
        Ok(cast)
    }

    /// As [`Self::cast`], in memory of its own: nothing refers to the batch any more.
    ///
    /// # Errors
    /// As [`Self::cast`].
    pub fn cast_owned(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        cast::owned(&self.cast(batch)?)
    }
}

#[cfg(test)]
mod tests;
