//! CREATE TABLE, with or without a query that fills it.

use super::insert::{Target, store};
use crate::aside::Aside;
use crate::derived;
use crate::designated::Layout;
use crate::dialect::{CreateTable, TableStream, unique_names};
use crate::error::{QueryError, Result, type_name};
use crate::session::{Outcome, Session};
use datafusion::arrow::datatypes::{Field, SchemaRef};
use sqlparser::ast;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{ColumnType, StreamSource, TableSchema, Ttl, is_same_name};

const TAG: &str = "CREATE TABLE";

pub(super) async fn run(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    if create.temporary {
        return temporary(session, create).await;
    }
    let found = session.snapshot().table(&create.name).map(|found| Arc::clone(found.schema()));
    match found {
        Some(_) if !create.replaces && create.if_not_exists => return Ok(Outcome::done(TAG)),
        Some(_) if !create.replaces => return Err(is_there(&create)),
        Some(found) => check_replaces(&create, &found)?,
        None => {}
    }
    if let Some(stream) = create.stream.clone() {
        return create_from(session, create, stream).await;
    }
    if create.query.is_none() && !create.replaces {
        let schema = table_schema(&create, create.columns.clone())?.owned_by(session.owner());
        let keeps = create.if_not_exists;
        let made = move |engine: &Engine| match engine.create_table(schema) {
            // Somebody made it meanwhile.
            Err(EngineError::TableExists { .. }) if keeps => Ok(()),
            made => made,
        };
        session.blocking(made).await?;
        return Ok(Outcome::done(TAG));
    }
    let aside = Arc::new(session.engine().aside()?);
    let outcome = filled(session, create.clone(), &aside).await?;
    let (access, name) = (session.access(), create.name.clone());
    if create.replaces {
        session.blocking(move |_| Ok(access.put_in_place(&aside, &name))).await??;
        return Ok(outcome);
    }
    let place = move |_: &Engine| match aside.take_name(&name) {
        Err(EngineError::TableExists { .. }) => Ok(false),
        named => named.map(|()| true),
    };
    match session.blocking(place).await? {
        true => Ok(outcome),
        // Somebody made one meanwhile.
        false if create.if_not_exists => Ok(Outcome::done(TAG)),
        false => Err(is_there(&create)),
    }
}

/// A table of the name is there.
fn is_there(create: &CreateTable) -> QueryError {
    let error = QueryError::from(EngineError::TableExists { name: create.name.clone() });
    error
        .at(create.time_position)
        .hint("CREATE OR REPLACE TABLE takes its place, CREATE TABLE IF NOT EXISTS keeps it")
}

/// Makes a table that this session alone sees, until it ends: before any other of its name.
async fn temporary(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    if create.stream.is_some() {
        let error = QueryError::request("a table that is parsed from a stream is of all sessions");
        return Err(error.at(create.time_position).hint("leave TEMP out"));
    }
    if session.engine().snapshot().keeps(&create.name) {
        let error = QueryError::from(EngineError::TableExists { name: create.name });
        return Err(error.at(create.time_position).hint("the database keeps this name for itself"));
    }
    if session.has_temporary(&create.name) && !create.replaces {
        if create.if_not_exists {
            return Ok(Outcome::done(TAG));
        }
        let error = QueryError::from(EngineError::TableExists { name: create.name });
        return Err(error.at(create.time_position).hint("CREATE OR REPLACE TEMP TABLE takes its place"));
    }
    let (name, aside) = (create.name.clone(), Arc::new(session.engine().aside()?));
    let outcome = filled(session, create, &aside).await?;
    session.temporaries.add(name, aside);
    Ok(outcome)
}

/// Refuses to replace what is no table, and by what is none of its own.
fn check_replaces(create: &CreateTable, found: &TableSchema) -> Result<()> {
    let name = &create.name;
    if found.view().is_some() || found.materialized().is_some() {
        let error = QueryError::request(format!("'{name}' is a view")).at(create.time_position);
        let drop = if found.view().is_some() { "DROP VIEW" } else { "DROP MATERIALIZED VIEW" };
        return Err(error.hint(format!("{drop} {name} first")));
    }
    if create.stream.is_some() {
        let error = QueryError::request("a table that is parsed from a stream takes no other's place");
        return Err(error.at(create.time_position).hint(format!("DROP TABLE {name} first")));
    }
    Ok(())
}

/// Makes a table aside, and fills it with one commit where a query says with what. Errors name it as the statement does.
async fn filled(session: &mut Session, create: CreateTable, aside: &Arc<Aside>) -> Result<Outcome> {
    let name = create.name.clone();
    let filled = fill(session, create, aside).await;
    filled.map_err(|error| error.naming(aside.name(), &name))
}

async fn fill(session: &mut Session, create: CreateTable, aside: &Arc<Aside>) -> Result<Outcome> {
    let rows = match create.query.clone() {
        Some(query) => Some(session.start(ast::Statement::Query(Box::new(*query))).await?),
        None => None,
    };
    let (create, columns) = match &rows {
        Some((plan, _)) => {
            let columns = query_columns(&plan.schema())?;
            (laid_out(create, &Layout::of(&plan.schema()), &columns), columns)
        }
        None => {
            let columns = create.columns.clone();
            (create, columns)
        }
    };
    let schema = table_schema(&create, columns)?.owned_by(session.owner()).put_aside(aside.name())?;
    let target = Target::all_columns(&schema);
    let made = Arc::clone(aside);
    session.blocking(move |_| made.create(&schema)).await?;
    match rows {
        Some((_, stream)) => {
            // The table is there at once, within a transaction too, and so are its rows.
            let open = session.transaction.take();
            let stored = store(session, &target, stream).await;
            session.transaction = open;
            Ok(Outcome::rows(TAG, stored?))
        }
        None => Ok(Outcome::done(TAG)),
    }
}

/// Makes a table whose rows are parsed from a stream, which is to be there.
async fn create_from(session: &Session, create: CreateTable, stream: TableStream) -> Result<Outcome> {
    session.engine().streams().get(&stream.name)?;
    derived::check_free(session.engine(), &create.name)?;
    derived::check_own(session.engine(), &create.name, session.owner())?;
    for (at, (key, column)) in stream.renames.iter().enumerate() {
        let (of, before) = (&create.columns, &stream.renames[..at]);
        let wrong = if !of.iter().any(|(name, _)| is_same_name(name, column)) {
            format!("RENAME names column '{column}', which the table does not have")
        } else if before.iter().any(|(other, name)| other == key || is_same_name(name, column)) {
            format!("RENAME names key '{key}' or column '{column}' twice")
        } else {
            continue;
        };
        return Err(QueryError::request(wrong).at(stream.renames_position));
    }
    // Of this process's moment: no other table's progress has it.
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let source = StreamSource {
        stream: stream.name,
        format: stream.format,
        epoch: stream.epoch.unwrap_or_default(),
        key: format!("{}-{moment:x}", create.name.to_lowercase()),
        renames: stream.renames,
    };
    let schema = schema_of(&create, create.columns.clone(), Some(source))?.owned_by(session.owner());
    if schema.timestamp().is_none() {
        let error = QueryError::request("a table that is parsed from a stream has a designated timestamp");
        return Err(error.at(create.time_position).hint("name it at the end: TIMESTAMP(ts)"));
    }
    let database = session.database().clone();
    let made = move |engine: &Engine| {
        derived::prepare(engine, &schema)?;
        engine.create_table(schema)
    };
    session.blocking(made).await?;
    database.host().parse_streams()?;
    Ok(Outcome::done(TAG))
}

/// The request, as its source is laid out where it says nothing itself.
fn laid_out(create: CreateTable, source: &Layout, columns: &[(String, ColumnType)]) -> CreateTable {
    let name = |index: usize| columns[index].0.clone();
    let Some(timestamp) = source.timestamp.map(name) else { return create };
    // Another time, other partitions.
    if create.timestamp.as_ref().is_some_and(|given| !given.eq_ignore_ascii_case(&timestamp)) {
        return create;
    }
    let are_symbols = |key: &&Vec<usize>| key.iter().all(|&index| columns[index].1 == ColumnType::Symbol);
    let series = source.series.as_ref().filter(are_symbols);
    CreateTable {
        timestamp: Some(timestamp),
        series: create.series.or_else(|| Some(series?.iter().map(|&index| name(index)).collect())),
        partition_by: create.partition_by.or(source.partition_by),
        ..create
    }
}

/// Names and types of a query's columns; a name that a table would have twice is told apart.
pub(super) fn query_columns(schema: &SchemaRef) -> Result<Vec<(String, ColumnType)>> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let column = |(field, name): (&Arc<Field>, String)| {
        let column_type = ColumnType::from_arrow(field.data_type()).ok_or_else(|| {
            let (name, found) = (field.name(), type_name(field.data_type()));
            QueryError::request(format!("column '{name}' is {found}, which a table cannot hold"))
                .hint("cast it to a type of a table, or leave it out")
        })?;
        Ok((name, column_type))
    };
    schema.fields().iter().zip(unique_names(&names, true)).map(column).collect()
}

fn table_schema(create: &CreateTable, columns: Vec<(String, ColumnType)>) -> Result<TableSchema> {
    schema_of(create, columns, None)
}

fn schema_of(
    create: &CreateTable,
    columns: Vec<(String, ColumnType)>,
    source: Option<StreamSource>,
) -> Result<TableSchema> {
    let mut builder = TableSchema::builder(&create.name).source(source);
    for (name, column_type) in columns {
        builder = builder.column(name, column_type);
    }
    if let Some(timestamp) = &create.timestamp {
        builder = builder.timestamp(timestamp);
    }
    if let Some(series) = &create.series {
        builder = builder.series(series);
    }
    if let Some(unit) = create.partition_by {
        builder = builder.partition_by(unit);
    }
    if let Some(ttl) = &create.ttl {
        let ttl = Ttl::parse(ttl).map_err(|error| QueryError::from(error).at(create.time_position))?;
        builder = builder.ttl(Some(ttl));
    }
    if let Some(keys) = &create.dedup {
        builder = builder.dedup(keys.clone());
    }
    if let Some(columns) = &create.indexed {
        builder = builder.indexed(columns.clone());
    }
    if let Some(sync) = create.sync {
        builder = builder.sync(sync);
    }
    builder.build().map_err(|error| QueryError::from(error).at(create.time_position))
}
