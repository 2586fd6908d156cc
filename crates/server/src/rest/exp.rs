//! `/exp`: rows of a statement as a file.

use super::exec::Asked;
use super::parquet;
use super::rows::{self, Arrow, Csv, Ndjson, Wanted, refused};
use super::words::{Fault, Words, wrong};
use crate::shared::Shared;
use crate::statement::Rows;
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tickstone_query::{Access, QueryError};

/// The words of a request; `src` and `version` as for `/exec`.
pub(super) const WORDS: &[&str] = &["query", "params", "limit", "nm", "fmt", "filename", "src", "version"];

/// What a file's rows are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Ndjson,
    Arrow,
    Parquet,
}

impl Format {
    fn of(word: Option<&str>) -> Result<Self, Fault> {
        Ok(match word {
            None | Some("csv") => Format::Csv,
            Some("ndjson") => Format::Ndjson,
            Some("arrow") => Format::Arrow,
            Some("parquet") => Format::Parquet,
            Some(other) => {
                return Err(wrong(format!("fmt={other} is not known: csv, ndjson, arrow or parquet")));
            }
        })
    }

    /// The type of such a body.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::Csv => "text/csv; charset=utf-8",
            Format::Ndjson => "application/x-ndjson",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// How names of such files end.
    fn ending(self) -> &'static str {
        match self {
            Format::Csv => ".csv",
            Format::Ndjson => ".ndjson",
            Format::Arrow => ".arrows",
            Format::Parquet => ".parquet",
        }
    }
}

/// `/exp`, by GET and POST.
pub(super) async fn exp(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let words = Words::of_request(query.as_deref(), &headers, body, &shared, WORDS).await;
    let (asked, file) = match words.and_then(of_words) {
        Ok(asked) => asked,
        Err(fault) => return refused(fault),
    };
    if let Some(response) = asked.refusal(&shared) {
        return response;
    }
    let body = match file.format {
        Format::Parquet => parquet::body(&shared, &access, &asked).await,
        format => match asked.run(&shared, &access).await {
            Ok(rows) => {
                let body = body_of(format, file.names, rows, asked.wanted.clone()).await;
                body.map_err(|error| asked.failed(&error))
            }
            Err(response) => Err(response),
        },
    };
    match body {
        Ok(body) => {
            let name = format!("attachment; filename=\"{}\"", file.name);
            let headers = [(CONTENT_TYPE, file.format.media_type()), (CONTENT_DISPOSITION, name.as_str())];
            (headers, body).into_response()
        }
        Err(response) => response,
    }
}

/// Rows in one of the formats that are written as they come.
///
/// # Errors
/// As [`rows::body`].
pub(super) async fn body_of(
    format: Format,
    names: bool,
    rows: Rows,
    wanted: Wanted,
) -> Result<Body, QueryError> {
    match format {
        Format::Ndjson => rows::body(Ndjson::default(), rows, wanted).await,
        Format::Arrow => rows::body(Arrow::default(), rows, wanted).await,
        Format::Csv | Format::Parquet => rows::body(Csv { names }, rows, wanted).await,
    }
}

struct File {
    format: Format,
    name: String,
    /// Whether the names of the columns come first.
    names: bool,
}

fn of_words(mut words: Words) -> Result<(Asked, File), Fault> {
    let asked = Asked::of(&mut words, "/exp?query=SELECT …")?;
    let format = Format::of(words.take("fmt").as_deref())?;
    let names = words.switch("nm")?;
    if names.is_some() && format != Format::Csv {
        return Err(wrong("nm leaves the names of columns out of CSV; the other formats have them always"));
    }
    if format == Format::Parquet && asked.wanted.rows != (0..u64::MAX) {
        return Err(wrong("fmt=parquet takes no limit: write LIMIT in the statement"));
    }
    let name = words.take("filename").unwrap_or_else(|| "questdb-query".to_string());
    let name = name.replace(|c: char| !(c.is_ascii_graphic() || c == ' ') || "\"\\/".contains(c), "_");
    let name = if name.ends_with(format.ending()) { name } else { name + format.ending() };
    Ok((asked, File { format, name, names: !names.unwrap_or(false) }))
}
