//! COPY: a file into a table, or a query's rows into a file.
//!
//! The files are read and written by [`crate::import`] and [`crate::export`]; this is their SQL.

use crate::dialect::{self, CopySource, Statement};
use crate::error::{ErrorKind, QueryError, Result};
use crate::export;
use crate::import::{self, BadRows, ImportError, ImportRequest};
use crate::session::{Outcome, Session};
use sqlparser::ast;
use std::sync::Arc;
use tickstone_engine::TableSnapshot;

const TAG: &str = "COPY";

/// COPY … FROM: the table, its columns in the file's order, the file and its options.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) path: String,
    pub(super) options: Vec<(String, String)>,
}

/// Imports a file into a table that is there, in one commit.
pub(super) async fn from(session: &Session, source: Source) -> Result<Outcome> {
    let table = super::table(session, &source.table)?;
    let mut request = ImportRequest::new(table.schema().name(), [source.path]);
    request.allowed = session.files();
    request.columns = source.columns;
    request.cancelled = session.running().map(|running| running.wanted().flag());
    for (name, value) in &source.options {
        request.set_option(name, value)?;
    }
    if let BadRows::Collect(path) = &mut request.on_bad_row {
        *path = request.allowed.target(&path.to_string_lossy())?;
    }
    let database = session.database().clone();
    let imported = session.database().runtime().spawn_blocking(move || {
        let report = import::import(&database, &request, &mut |_| {});
        // The handle goes here, so that the last one never does on a thread of the runtime.
        drop(database);
        report
    });
    let report = imported
        .await
        .map_err(|error| QueryError::new(ErrorKind::Report, format!("the import was cut short: {error}")))?;
    let report = report.map_err(|error| match session.running() {
        Some(running) if matches!(error, ImportError::Cancelled) => running.wanted().ended(),
        _ => error.into(),
    })?;
    Ok(Outcome::rows(TAG, report.rows()))
}

/// Writes a table, in order of time, or the rows of a query to a file or a folder of files, which is there whole or not
/// at all.
pub(super) async fn to(
    session: &mut Session,
    source: CopySource,
    path: String,
    options: Vec<(String, String)>,
) -> Result<Outcome> {
    let path = session.files().target(&path)?;
    let layout = export::Layout::of(&path, &options)?;
    let (_, stream) = session.start(query_of(session, source)?).await?;
    let written = export::write_file(stream, &path, &layout, &session.room_to_write()).await?;
    Ok(Outcome::rows(TAG, written.rows))
}

/// The query of what COPY … TO writes: a table in order of time.
pub(crate) fn query_of(session: &Session, source: CopySource) -> Result<ast::Statement> {
    let (name, columns) = match source {
        CopySource::Query(query) => return Ok(ast::Statement::Query(query)),
        CopySource::Table { name, columns } => (name, columns),
    };
    let is_view = |table: &&Arc<TableSnapshot>| {
        table.schema().view().is_some() || table.schema().materialized().is_some()
    };
    let view = session.snapshot().table(&name).filter(is_view).map(Arc::clone);
    let table = view.map_or_else(|| super::table(session, &name), Ok)?;
    let schema = table.schema();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let time = schema.timestamp().map(|index| &schema.columns()[index].name);
    let order = time.map_or_else(String::new, |name| format!(" ORDER BY {}", quoted(name)));
    let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let columns = if columns.is_empty() { "*".to_string() } else { columns.join(", ") };
    let mut read = dialect::parse(&format!("SELECT {columns} FROM {}{order}", quoted(schema.name())))?.pop();
    read.iter_mut().try_for_each(|statement| session.prepare_names(statement))?;
    match read {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(QueryError::new(ErrorKind::Report, "a table could not be read by its name")),
    }
}
