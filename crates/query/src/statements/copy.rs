//! COPY: a file into a table, or a query's rows into a file.

use crate::dialect::{CopySource, Statement};
use crate::error::{ErrorKind, QueryError, Result};
use crate::export;
use crate::import::{self, ImportRequest};
use crate::session::{Outcome, Session};
use sqlparser::ast;
use std::path::Path;

/// COPY … FROM: the table, its columns in the file's order, the file and its options.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) path: String,
    pub(super) options: Vec<(String, String)>,
}

/// Imports a file as `tickstone import` does, into a table that exists.
pub(super) async fn from(session: &Session, source: Source) -> Result<Outcome> {
    let Source { table, columns, path, options } = source;
    super::table(session, &table)?;
    let mut request = ImportRequest::new(table, [path]);
    request.columns = columns;
    for (name, value) in &options {
        request.set_option(name, value)?;
    }
    let database = session.database.clone();
    let work = move || import::import(&database, &request, &mut |_| {});
    let report = session.database.runtime().spawn_blocking(work).await.map_err(|error| {
        QueryError::new(ErrorKind::Report, format!("a statement was cut short: {error}"))
    })??;
    Ok(Outcome::rows("COPY", report.rows()))
}

/// Writes rows to a file, which is there whole or not at all.
pub(super) async fn to(
    session: &mut Session,
    source: CopySource,
    path: String,
    options: Vec<(String, String)>,
) -> Result<Outcome> {
    let query = match source {
        CopySource::Query(query) => ast::Statement::Query(query),
        CopySource::Table(name) => all_rows(session, &name)?,
    };
    let mut given = None;
    for (name, value) in &options {
        let format = export::Format::parse(value).filter(|_| name == "format");
        let wrong = || {
            QueryError::request(format!("option '{name}' cannot be '{value}'"))
                .hint(format!("COPY … TO takes format: {}", export::Format::NAMES))
        };
        given = Some(format.ok_or_else(wrong)?);
    }
    let path = Path::new(&path);
    let (format, compression) = export::detect(path, given)?;
    let Outcome::Rows { stream, .. } = session.run_query(query).await? else {
        return Err(QueryError::request("COPY … TO needs a query that gives rows"));
    };
    let written = export::write_file(stream, path, format, compression).await?;
    Ok(Outcome::rows("COPY", written.rows))
}

/// The query for all rows of a table, in order of time where it has one.
fn all_rows(session: &Session, name: &str) -> Result<ast::Statement> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let table = super::table(session, name)?;
    let schema = table.schema();
    let time = schema.timestamp().map(|index| &schema.columns()[index].name);
    let order = time.map_or(String::new(), |name| format!(" ORDER BY {}", quoted(name)));
    let text = format!("SELECT * FROM {}{order}", quoted(schema.name()));
    match session.parse(&text)?.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(QueryError::new(ErrorKind::Report, format!("cannot read back {text}"))),
    }
}
