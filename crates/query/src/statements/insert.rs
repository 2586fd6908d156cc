//! INSERT: the rows of VALUES or a query, cast to the table's columns, in one commit.
//!
//! Few rows go through the tape; from [`BULK_ROWS_MIN`] on they go straight into parts. Either way
//! all of them become durable and visible together, or none.

use super::conflict;
use super::values::alike;
use crate::Reached;
use crate::cast::{cast_exactly, check_times, no_such_column};
use crate::dialect::digits::number;
use crate::error::{ErrorKind, QueryError, Result};
use crate::session::{OpenTransaction, Outcome, Session};
use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use sqlparser::ast;
use sqlparser::ast::Parens;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::{BulkLoad, Engine, EngineError, TableSnapshot, Transaction};
use tickstone_model::{Column, ColumnType, Rights, SyncPolicy, TableSchema};

/// Rows from which an INSERT writes parts directly instead of through the tape.
const BULK_ROWS_MIN: u64 = 1 << 18;

pub(super) async fn run(session: &mut Session, statement: ast::Statement) -> Result<Outcome> {
    let ast::Statement::Insert(insert) = statement else {
        return Err(QueryError::request("not an INSERT statement"));
    };
    let (target, returning) = (target(session, &insert)?, insert.returning);
    let mut source = insert.source.ok_or_else(|| QueryError::request("INSERT needs VALUES or a query"))?;
    match source.body.as_mut() {
        ast::SetExpr::Values(values) => {
            let rows = values.rows.iter_mut();
            rows.for_each(|row| {
                keep_digits(row.content.iter_mut().map(Some), |place| target.is_decimal(place))
            });
            keep_as_written(&mut values.rows);
        }
        ast::SetExpr::Select(select) => {
            keep_digits(select.projection.iter_mut().map(selected), |place| target.is_decimal(place));
            rename_alike(&mut select.projection);
        }
        _ => {}
    }
    let mut streams = Vec::new();
    for source in alike(*source) {
        let (_, stream) = session.start(ast::Statement::Query(Box::new(source))).await?;
        target.check_width(&stream.schema())?;
        streams.push(stream);
    }
    let rows = Box::pin(RecordBatchStreamAdapter::new(
        Arc::clone(&target.schema),
        futures::stream::iter(streams).flatten(),
    ));
    match returning {
        Some(items) => store_returning(session, &target, rows, items).await,
        None => Ok(Outcome::rows("INSERT", store(session, &target, rows).await?)),
    }
}

/// Stores rows, and gives what is asked of them. That is found first: where it fails, nothing is stored.
async fn store_returning(
    session: &mut Session,
    target: &Target,
    rows: SendableRecordBatchStream,
    items: Vec<ast::SelectItem>,
) -> Result<Outcome> {
    let begun = Instant::now();
    let (batches, held) = collected(session, target, rows, "RETURNING").await?;
    let inserted = batches.clone();
    let (schema, returned, progress) =
        session.rows_returned(items, &target.table, &target.schema, inserted).await?;
    let whole = Target { sources: (0..target.columns.len()).map(Some).collect(), ..target.clone() };
    store(session, &whole, stream_of(&target.schema, batches)).await?;
    drop(held);
    Ok(Outcome::Rows { stream: stream_of(&schema, returned), schema, planning: begun.elapsed(), progress })
}

/// Rows that are there.
pub(super) fn stream_of(schema: &SchemaRef, rows: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let rows = futures::stream::iter(rows.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows))
}

/// Rows that came, as rows of the table, and the memory that they are held in, which is claimed for `what`.
pub(super) async fn collected(
    session: &Session,
    target: &Target,
    mut stream: SendableRecordBatchStream,
    what: &str,
) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
    let held = session.held_for(what);
    let (mut batches, mut rows) = (Vec::new(), 0);
    while let Some(batch) = stream.try_next().await? {
        let batch = target.rows(&batch, rows)?;
        held.try_grow(batch.get_array_memory_size())?;
        rows += batch.num_rows() as u64;
        batches.push(batch);
    }
    Ok((batches, held))
}

/// What a literal of VALUES is, where rows that differ in it would be given one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Whole,
    Fraction,
}

/// The kind of a literal and, of a number, its digits.
fn literal(expr: &ast::Expr) -> Option<(Kind, String)> {
    match expr {
        ast::Expr::Value(of) => match &of.value {
            ast::Value::SingleQuotedString(_) => Some((Kind::Text, String::new())),
            ast::Value::Number(digits, _) => {
                let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
                Some((if whole { Kind::Whole } else { Kind::Fraction }, digits.clone()))
            }
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match literal(expr)? {
            (Kind::Text, _) => None,
            (kind, digits) => Some((kind, format!("-{digits}"))),
        },
        _ => None,
    }
}

/// Makes numbers that a DECIMAL gets texts, as they were written: as doubles they would lose digits.
pub(super) fn keep_digits<'a>(
    values: impl Iterator<Item = Option<&'a mut ast::Expr>>,
    is_decimal: impl Fn(usize) -> bool,
) {
    for (place, value) in values.enumerate() {
        let Some(value) = value.filter(|_| is_decimal(place)) else { continue };
        if let Some(digits) = number(value) {
            *value = ast::Expr::value(ast::Value::SingleQuotedString(digits));
        }
    }
}

/// The expression of an item of SELECT.
pub(super) fn selected(item: &mut ast::SelectItem) -> Option<&mut ast::Expr> {
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Makes numbers of VALUES texts, as they were written, where other rows have texts or other numbers in their place:
/// a common type of theirs would change texts that look like numbers, and digits.
fn keep_as_written(rows: &mut [Parens<Vec<ast::Expr>>]) {
    let width = rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for place in 0..width {
        let mut kinds = rows.iter().filter_map(|row| literal(row.content.get(place)?)).map(|(kind, _)| kind);
        let first = kinds.next();
        if kinds.all(|kind| Some(kind) == first) {
            continue;
        }
        for value in rows.iter_mut().filter_map(|row| row.content.get_mut(place)) {
            if let Some((Kind::Whole | Kind::Fraction, digits)) = literal(value) {
                *value = ast::Expr::value(ast::Value::SingleQuotedString(without_zeros(digits)));
            }
        }
    }
}

/// A number as an integer where it is one, so that `1.0` and `1e3` are integers beside others.
fn without_zeros(digits: String) -> String {
    /// Past it not every integer is a double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if digits.contains(['e', 'E']) {
        return match digits.parse::<f64>() {
            Ok(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => format!("{value:.0}"),
            _ => digits,
        };
    }
    match digits.split_once('.') {
        Some((whole, zeros)) if !whole.is_empty() && zeros.bytes().all(|byte| byte == b'0') => {
            whole.to_string()
        }
        _ => digits,
    }
}

/// Gives columns of a query that read alike names of their own: what is inserted goes by its place.
fn rename_alike(items: &mut [ast::SelectItem]) {
    let mut known = HashSet::new();
    for (place, item) in items.iter_mut().enumerate() {
        if let ast::SelectItem::UnnamedExpr(expr) = item
            && !known.insert(expr.to_string())
        {
            let alias = ast::Ident::with_quote('"', format!("column {}", place + 1));
            *item = ast::SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// A table and where each of its columns comes from.
#[derive(Debug, Clone)]
pub(super) struct Target {
    table: String,
    /// The table, where it was there before: rows that are read for it never go into another of its name.
    reached: Option<Reached>,
    /// What its user may have to do with it.
    rights: Rights,
    /// Version of the table's columns.
    version: u32,
    schema: SchemaRef,
    columns: Vec<Column>,
    timestamp: Option<usize>,
    /// By column of the table: its place in the rows that come, `None` for NULL.
    sources: Vec<Option<usize>>,
    /// Columns of the rows that come.
    width: usize,
}

impl Target {
    /// All columns of a table, in its order.
    pub(super) fn all_columns(table: &TableSchema) -> Self {
        let width = table.columns().len();
        Self::new(table, (0..width).map(Some).collect(), width)
    }

    fn new(table: &TableSchema, sources: Vec<Option<usize>>, width: usize) -> Self {
        Self {
            table: table.name().to_string(),
            reached: None,
            rights: Rights::INSERT,
            version: table.version(),
            schema: Arc::clone(table.edge()),
            columns: table.columns().to_vec(),
            timestamp: table.timestamp(),
            sources,
            width,
        }
    }

    /// The same of a table that is there.
    pub(super) fn of(self, table: &TableSnapshot) -> Self {
        let reached = Reached { id: table.id(), schema: Arc::clone(table.schema()) };
        Self { reached: Some(reached), ..self }
    }

    /// Why rows were refused: where the table's columns were changed since, that alone.
    fn refused(&self, engine: &Engine, error: QueryError) -> QueryError {
        let snapshot = engine.snapshot();
        let table = match &self.reached {
            Some(reached) => snapshot.table_by_id(reached.id),
            None => snapshot.table(&self.table),
        };
        let now = table.map(|table| table.schema().version());
        match error.kind == ErrorKind::FixRequest && now.is_some_and(|now| now != self.version) {
            true => EngineError::SchemaChanged { table: self.table.clone() }.into(),
            false => error,
        }
    }

    fn append(&self, transaction: &mut Transaction, rows: &RecordBatch) -> tickstone_engine::Result<()> {
        match &self.reached {
            Some(reached) => transaction.append_to(reached.id, &self.table, rows),
            None => transaction.append(&self.table, rows),
        }
    }

    /// Whether what comes in a place is for a DECIMAL.
    fn is_decimal(&self, place: usize) -> bool {
        let column = self.sources.iter().position(|source| *source == Some(place));
        column.is_some_and(|column| matches!(self.columns[column].column_type, ColumnType::Decimal { .. }))
    }

    fn check_width(&self, schema: &SchemaRef) -> Result<()> {
        let found = schema.fields().len();
        if found == self.width {
            return Ok(());
        }
        let message = format!("INSERT names {} columns and brings {found} values a row", self.width);
        Err(QueryError::request(message).detail(format!("table '{}'", self.table)))
    }

    /// Rows that came, as rows of the table; `before` counts those that came earlier.
    pub(super) fn rows(&self, batch: &RecordBatch, before: u64) -> Result<RecordBatch> {
        let columns = self.columns.iter().zip(&self.sources).map(|(column, source)| match source {
            Some(source) => cast(batch.column(*source), column, before),
            None => Ok(new_null_array(&column.column_type.edge_type(), batch.num_rows())),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if let Some(timestamp) = self.timestamp {
            check_times(&columns[timestamp], &self.columns[timestamp].name, before)?;
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

fn target(session: &Session, insert: &ast::Insert) -> Result<Target> {
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(QueryError::not_supported("INSERT into a table function"));
    };
    let name = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
    let name = name.ok_or_else(|| QueryError::request("INSERT needs the name of a table"))?;
    let table = super::table(session, &name)?;
    let schema = table.schema();
    conflict::check(insert, schema)?;
    let rights = Rights::INSERT | if insert.on.is_some() { Rights::UPDATE } else { Rights::NONE };
    if insert.columns.is_empty() {
        return Ok(Target { rights, ..Target::all_columns(schema).of(&table) });
    }
    let mut sources = vec![None; schema.columns().len()];
    for (place, column) in insert.columns.iter().enumerate() {
        let name = column.0.last().and_then(|part| part.as_ident()).map_or("", |ident| ident.value.as_str());
        let index = schema.column_index(name).ok_or_else(|| no_such_column(schema, name))?;
        if sources[index].replace(place).is_some() {
            return Err(QueryError::request(format!("column '{name}' is named twice")));
        }
    }
    Ok(Target { rights, ..Target::new(schema, sources, insert.columns.len()).of(&table) })
}

/// One column of the rows that came, as the table holds it.
pub(super) fn cast(array: &ArrayRef, column: &Column, before: u64) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), column.column_type.edge_type());
    if *from == to {
        return Ok(Arc::clone(array));
    }
    if column.column_type == ColumnType::Timestamp && from.is_numeric() {
        return Err(QueryError::request(format!(
            "column '{}' is a TIMESTAMP and the value a number",
            column.name
        ))
        .hint("write it as text ('2024-08-08T12:00:00'), or state its unit: to_timestamp_millis(…)"));
    }
    cast_exactly(array, &to, column, before)
}

/// Stores a stream of rows, whose columns are those of the target, in one commit, or in the session's open transaction;
/// how many rows.
pub(super) async fn store(
    session: &mut Session,
    target: &Target,
    stream: SendableRecordBatchStream,
) -> Result<u64> {
    let stored = store_all(session, target, stream).await;
    stored.map_err(|error| target.refused(session.engine(), error))
}

async fn store_all(
    session: &mut Session,
    target: &Target,
    mut stream: SendableRecordBatchStream,
) -> Result<u64> {
    let (mut rows, mut few, mut bulk) = (0, Vec::new(), None);
    while let Some(batch) = stream.try_next().await? {
        let batch = target.rows(&batch, rows)?;
        rows += batch.num_rows() as u64;
        session.hold_for_transaction(&batch)?;
        few.push(batch);
        if !session.in_transaction() && rows >= BULK_ROWS_MIN {
            let (into, batches) = (target.clone(), std::mem::take(&mut few));
            bulk = Some(session.blocking(move |engine| load(engine, &into, bulk, &batches)).await?);
        }
    }
    let (into, sync) = (target.clone(), session.sync);
    let is_own = session.temporaries.name_of(&target.table).is_some();
    if let Some(mut open) = session.transaction.take() {
        if let Some(reached) = target.reached.as_ref().filter(|_| !is_own) {
            open.goes_into(reached, target.rights, 0);
        }
        let (open, appended) = session.blocking(move |_| Ok(append_all(open, &into, &few))).await?;
        session.transaction = Some(open);
        appended?;
    } else if let Some(bulk) = bulk {
        session.blocking(move |_| bulk.commit(None)).await?;
    } else if rows > 0 {
        session.blocking(move |engine| commit(engine, &into, &few, sync)).await?;
    }
    Ok(rows)
}

fn load(
    engine: &Engine,
    into: &Target,
    bulk: Option<BulkLoad>,
    batches: &[RecordBatch],
) -> tickstone_engine::Result<BulkLoad> {
    let mut bulk = match bulk {
        Some(bulk) => bulk,
        None => match &into.reached {
            Some(reached) => engine.load_into(reached.id, &into.table)?,
            None => engine.load(&into.table)?,
        },
    };
    batches.iter().try_for_each(|batch| bulk.append(batch))?;
    Ok(bulk)
}

/// Appends to an open transaction, which is handed back also where that fails.
fn append_all(
    mut open: OpenTransaction,
    into: &Target,
    batches: &[RecordBatch],
) -> (OpenTransaction, tickstone_engine::Result<()>) {
    let appended = batches.iter().try_for_each(|batch| into.append(&mut open.waiting, batch));
    (open, appended)
}

fn commit(
    engine: &Engine,
    into: &Target,
    batches: &[RecordBatch],
    sync: Option<SyncPolicy>,
) -> tickstone_engine::Result<()> {
    let mut transaction = engine.begin();
    batches.iter().try_for_each(|batch| into.append(&mut transaction, batch))?;
    transaction.commit(sync).map(|_| ())
}

#[cfg(test)]
mod tests;
