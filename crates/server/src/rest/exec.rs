//! `/exec`: a statement, answered in QuestDB's JSON.

use super::rows::{self, Counted, Form, Wanted, refused};
use super::types;
use super::words::{Fault, Words, wrong};
use crate::http::{json as answer, status_of};
use crate::json::{Values, quoted};
use crate::shared::Shared;
use crate::statement::{self, Answer, Rows};
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::designated::designated_field;
use tickstone_query::{Access, Parameters, QueryError, without_passwords};

/// The words of a request. `src` and `version`, which QuestDB's own clients send, change nothing.
pub(super) const WORDS: &[&str] =
    &["query", "params", "limit", "count", "nm", "timings", "explain", "quoteLargeNum", "src", "version"];

/// `/exec`, by GET and POST.
pub(super) async fn exec(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let begun = Instant::now();
    let words = Words::of_request(query.as_deref(), &headers, body, &shared, WORDS).await;
    let (asked, form) = match words.and_then(|words| of_words(words, begun)) {
        Ok(asked) => asked,
        Err(fault) => return refused(fault),
    };
    let rows = match asked.run(&shared, &access).await {
        Ok(rows) => rows,
        Err(response) => return response,
    };
    match rows::body(form, rows, asked.wanted.clone()).await {
        Ok(body) => {
            (StatusCode::OK, [(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
        }
        Err(error) => asked.failed(&error),
    }
}

fn of_words(mut words: Words, begun: Instant) -> Result<(Asked, Json), Fault> {
    let mut asked = Asked::of(&mut words, "/exec?query=SELECT …")?;
    asked.wanted.count = words.is_on("count")?;
    if words.is_on("explain")? {
        asked.before = "EXPLAIN ";
    }
    let form = Json {
        query: asked.query.clone(),
        columns: !words.is_on("nm")?,
        count: asked.wanted.count,
        timings: words.is_on("timings")?,
        quote_large: words.is_on("quoteLargeNum")?,
        begun,
        is_first: true,
    };
    Ok((asked, form))
}

/// A statement that a request asks for.
pub(super) struct Asked {
    pub(super) query: String,
    pub(super) parameters: Parameters,
    pub(super) wanted: Wanted,
    /// What is put before the statement.
    before: &'static str,
}

impl Asked {
    /// The statement, its values and the rows that are wanted of it.
    ///
    /// # Errors
    /// Where there is none, or one of them is wrong; `example` is what a right request looks like.
    pub(super) fn of(words: &mut Words, example: &str) -> Result<Self, Fault> {
        let query = words.take("query").filter(|query| !query.trim().is_empty());
        let query = query.ok_or_else(|| wrong(format!("there is no statement: {example}")))?;
        let wanted = Wanted { rows: words.rows()?, count: false };
        Ok(Self { query, parameters: words.parameters()?, wanted, before: "" })
    }

    /// What to answer where the statement gives no rows, before it is carried out.
    pub(super) fn refusal(&self, shared: &Shared) -> Option<Response> {
        let parsed = shared.database.parse_with_texts(&self.query);
        match parsed.and_then(statement::one) {
            Ok((_, statement)) if !statement.gives_rows() => {
                let what = format!("{} gives no rows to export", statement.kind());
                Some(self.failed(&QueryError::request(what)))
            }
            Ok(_) => None,
            Err(error) => Some(self.failed(&error)),
        }
    }

    /// Its rows.
    ///
    /// # Errors
    /// The answer where it gives none: that it was done, or what is wrong.
    pub(super) async fn run(&self, shared: &Arc<Shared>, access: &Access) -> Result<Rows, Response> {
        let text = format!("{}{}", self.before, self.query);
        match statement::run(shared, access, &text, &self.parameters).await {
            Ok(Answer::Rows(rows)) => Ok(rows),
            Ok(Answer::Done { rows: Some(rows), .. }) => {
                Err(answer(StatusCode::OK, &json!({ "dml": "OK", "updated": rows })))
            }
            Ok(Answer::Done { .. }) => Err(answer(StatusCode::OK, &json!({ "ddl": "OK" }))),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// An error as QuestDB tells it, with its place in the statement, in characters from 0.
    pub(super) fn failed(&self, error: &QueryError) -> Response {
        let mut error = error.clone();
        let mut place = 0;
        if let Some(position) = &mut error.position {
            if position.line <= 1 {
                position.column = position.column.saturating_sub(self.before.len() as u64);
            }
            let before = usize::try_from(position.line.saturating_sub(1)).unwrap_or(0);
            let lines = self.query.split_inclusive('\n').take(before);
            place = lines.map(|line| line.chars().count()).sum();
            place += usize::try_from(position.column.saturating_sub(1)).unwrap_or(0);
        }
        let query = without_passwords(&self.query);
        let body = json!({ "query": query, "error": error.to_string(), "position": place });
        answer(status_of(&error), &body)
    }
}

/// QuestDB's answer.
struct Json {
    query: String,
    /// Whether columns are told.
    columns: bool,
    /// Whether the rows are counted that are not wanted.
    count: bool,
    timings: bool,
    quote_large: bool,
    begun: Instant,
    /// Whether no row was written yet.
    is_first: bool,
}

impl Form for Json {
    fn head(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<(), QueryError> {
        out.push(b'{');
        if self.columns {
            out.extend_from_slice(b"\"query\":");
            quoted(&self.query, out);
            out.extend_from_slice(b",\"columns\":[");
            for (place, field) in schema.fields().iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                types::column(field, out);
            }
            let timestamp = designated_field(schema).map_or("-1".to_string(), |place| place.to_string());
            put(out, format_args!("],\"timestamp\":{timestamp},"));
        }
        out.extend_from_slice(b"\"dataset\":[");
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let mut values = Values::of(batch, self.quote_large)?;
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut self.is_first) {
                out.push(b',');
            }
            values.array(row, out);
        }
        Ok(())
    }

    fn tail(&mut self, rows: &Rows, counted: Counted, out: &mut Vec<u8>) -> Result<(), QueryError> {
        let count = if self.count { counted.all } else { counted.written };
        put(out, format_args!("],\"count\":{count}"));
        if self.timings {
            let (planning, all) = (rows.planning.as_nanos(), self.begun.elapsed().as_nanos());
            let execute = all.saturating_sub(planning);
            put(
                out,
                format_args!(
                    ",\"timings\":{{\"authentication\":0,\"compiler\":{planning},\"execute\":{execute},\"count\":0}}"
                ),
            );
        }
        out.push(b'}');
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}
