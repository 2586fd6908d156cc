//! COPY: a file into a table, or a query's rows into a file.

use crate::dialect::CopySource;
use crate::error::{QueryError, Result};
use crate::session::{Outcome, Session};

/// COPY … FROM: the table, its columns in the file's order, the file and its options.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) path: String,
    pub(super) options: Vec<(String, String)>,
}

pub(super) async fn from(session: &Session, source: Source) -> Result<Outcome> {
    let Source { table, columns, path, options } = source;
    super::table(session, &table)?;
    let _ = (columns, path, options);
    Err(QueryError::not_supported("COPY FROM"))
}

pub(super) async fn to(
    _session: &Session,
    source: CopySource,
    path: String,
    options: Vec<(String, String)>,
) -> Result<Outcome> {
    let _ = (source, path, options);
    Err(QueryError::not_supported("COPY TO"))
}
