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
use tickstone_model::{ColumnType, StreamSource, TableSchema, Ttl};

const TAG: &str = "CREATE TABLE";

pub(super) async fn run(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    super::check_name(&create.name)?;
    if create.temporary {
        return temporary(session, create).await;
    }
    if session.snapshot().table(&create.name).is_some() {
        if create.replaces {
            return replace(session, create).await;
        }
        if create.if_not_exists {
            return Ok(Outcome::done(TAG));
        }
        let error = QueryError::from(EngineError::TableExists { name: create.name });
        return Err(error
            .at(create.time_position)
            .hint("CREATE OR REPLACE TABLE takes its place, CREATE TABLE IF NOT EXISTS keeps it"));
    }
    made(session, create).await
}

/// Makes a table that this session alone sees, until it ends: before any other of its name.
async fn temporary(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    if create.stream.is_some() {
        let error = QueryError::request("a table that is parsed from a stream is of all sessions");
        return Err(error.at(create.time_position).hint("leave TEMP out"));
    }
    if session.has_temporary(&create.name) && !create.replaces {
        if create.if_not_exists {
            return Ok(Outcome::done(TAG));
        }
        let error = QueryError::from(EngineError::TableExists { name: create.name });
        return Err(error.at(create.time_position).hint("CREATE OR REPLACE TEMP TABLE takes its place"));
    }
    let (name, aside) = (create.name.clone(), Aside::new(session.engine()));
    // What is wrong with the name is so whatever the table is stored as.
    TableSchema::builder(&name).column("x", ColumnType::Int64).build()?;
    let stored = CreateTable { name: aside.name().to_string(), ..create };
    let outcome = made(session, stored).await?;
    session.temporaries.add(name, aside);
    Ok(outcome)
}

/// Makes the table beside the one of its name, and puts it in its place once it is whole.
async fn replace(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    let name = create.name.clone();
    let (is_view, is_materialized) = match session.snapshot().table(&name) {
        Some(found) => (found.schema().view().is_some(), found.schema().materialized().is_some()),
        None => (false, false),
    };
    if is_view || is_materialized {
        let error = QueryError::request(format!("'{name}' is a view")).at(create.time_position);
        let drop = if is_view { "DROP VIEW" } else { "DROP MATERIALIZED VIEW" };
        return Err(error.hint(format!("{drop} {name} first")));
    }
    if create.stream.is_some() {
        let error = QueryError::request("a table that is parsed from a stream takes no other's place");
        return Err(error.at(create.time_position).hint(format!("DROP TABLE {name} first")));
    }
    let aside = Aside::new(session.engine());
    let beside = CreateTable { name: aside.name().to_string(), replaces: false, ..create };
    let outcome = made(session, beside).await?;
    session.blocking(move |_| aside.take_place(&name)).await?;
    Ok(outcome)
}

async fn made(session: &mut Session, create: CreateTable) -> Result<Outcome> {
    if let Some(stream) = create.stream.clone() {
        return create_from(session, create, stream).await;
    }
    match create.query.clone() {
        Some(query) => create_as(session, create, *query).await,
        None => {
            let schema = table_schema(&create, create.columns.clone())?;
            session.blocking(move |engine| engine.create_table(schema)).await?;
            Ok(Outcome::done(TAG))
        }
    }
}

/// Makes a table whose rows are parsed from a stream, which is to be there.
async fn create_from(session: &Session, create: CreateTable, stream: TableStream) -> Result<Outcome> {
    session.engine().streams().get(&stream.name)?;
    // Of this process's moment: no other table's progress has it.
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let source = StreamSource {
        stream: stream.name,
        format: stream.format,
        epoch: stream.epoch.unwrap_or_default(),
        key: format!("{}-{moment:x}", create.name.to_lowercase()),
    };
    let schema = schema_of(&create, create.columns.clone(), Some(source))?;
    if schema.timestamp().is_none() {
        let error = QueryError::request("a table that is parsed from a stream has a designated timestamp");
        return Err(error.at(create.time_position).hint("name it at the end: TIMESTAMP(ts)"));
    }
    let database = session.database().clone();
    let made = move |engine: &Engine| {
        derived::prepare(engine, schema.name())?;
        engine.create_table(schema)
    };
    session.blocking(made).await?;
    database.derived().start(database.engine())?;
    Ok(Outcome::done(TAG))
}

/// Makes the table, fills it with one commit, and takes it away again where that fails.
async fn create_as(session: &mut Session, create: CreateTable, query: ast::Query) -> Result<Outcome> {
    let (plan, stream) = session.start(ast::Statement::Query(Box::new(query))).await?;
    let columns = query_columns(&plan.schema())?;
    let create = laid_out(create, &Layout::of(&plan.schema()), &columns);
    let schema = table_schema(&create, columns)?;
    let target = Target::all_columns(&schema);
    session.blocking(move |engine| engine.create_table(schema)).await?;
    match store(session, &target, stream).await {
        Ok(rows) => Ok(Outcome::rows(TAG, rows)),
        Err(error) => {
            let name = create.name;
            session.blocking(move |engine| engine.drop_table(&name)).await?;
            Err(error)
        }
    }
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
