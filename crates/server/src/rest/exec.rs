//! `/exec` and `/exp`: statements with answers in QuestDB's JSON, and rows as CSV, streamed as they come.
//!
//! Memory does not grow with the rows: two batches wait at most, and a client that does not read holds its statement back.
//! One that goes cancels it.

use super::values::{Row, quoted, type_name};
use crate::Shared;
use crate::http::{bad_request, json as answer, unpacked};
use crate::statement::{self, Answer, Rows};
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tickstone_query::arrow::datatypes::{DataType, Schema};
use tickstone_query::designated::designated_field;
use tickstone_query::{ErrorKind, QueryError};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 64 << 10;

type Words = HashMap<String, String>;

/// GET `/exec?query=…`.
pub(super) async fn get(State(shared): State<Arc<Shared>>, Query(words): Query<Words>) -> Response {
    run(&shared, &words).await
}

/// POST `/exec`: the words of the path and those of a form.
pub(super) async fn post(
    State(shared): State<Arc<Shared>>,
    Query(mut words): Query<Words>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let (bytes, _held) = match unpacked(body, &headers, &shared).await {
        Ok(bytes) => bytes,
        Err((status, what)) => return answer(status, &json!({ "error": what })),
    };
    let of =
        |kind: &str| headers.get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(kind.as_bytes()));
    if of("multipart/") || of("application/json") {
        let what = "a statement is sent as a form (query=SELECT …) or as text/plain";
        return answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!({ "error": what }));
    }
    let is_form = headers
        .get(CONTENT_TYPE)
        .is_some_and(|of| of.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    match String::from_utf8(bytes) {
        Ok(text) if is_form => match serde_urlencoded::from_str::<Words>(&text) {
            // What curl sends without being told of what type it is.
            Ok(form) if !form.contains_key("query") && !words.contains_key("query") => {
                words.insert("query".into(), text);
            }
            Ok(form) => words.extend(form),
            Err(error) => return bad_request(&format!("the body is no form: {error}")),
        },
        Ok(text) if !text.is_empty() => {
            words.insert("query".into(), text);
        }
        Ok(_) => {}
        Err(_) => return bad_request("the body is not valid UTF-8"),
    }
    run(&shared, &words).await
}

/// GET `/exp?query=…`: rows as CSV.
pub(super) async fn exported(State(shared): State<Arc<Shared>>, Query(words): Query<Words>) -> Response {
    let asked = match Asked::of(&words) {
        Ok(asked) => asked,
        Err(what) => return bad_request(&what),
    };
    match words.get("fmt").map(String::as_str) {
        None | Some("csv") => {}
        Some(other) => return bad_request(&format!("fmt={other} is not known: csv")),
    }
    match statement::run(&shared, &asked.query).await {
        Ok(Answer::Rows(rows)) => {
            let name = words
                .get("filename")
                .map_or("questdb-query", String::as_str)
                .replace(|c: char| !c.is_ascii_graphic() || "\"\\/".contains(c), "_");
            let name = if name.ends_with(".csv") { name } else { format!("{name}.csv") };
            let headers = [
                (CONTENT_TYPE, "text/csv; charset=utf-8".to_string()),
                (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
            ];
            (StatusCode::OK, headers, Body::from_stream(pieces(Csv { asked }, rows))).into_response()
        }
        Ok(Answer::Done { tag, .. }) => bad_request(&format!("{tag} gives no rows to export")),
        Err(error) => failed(&asked.query, &error),
    }
}

async fn run(shared: &Arc<Shared>, words: &Words) -> Response {
    let begun = Instant::now();
    let asked = match Asked::of(words) {
        Ok(asked) => asked,
        Err(what) => return bad_request(&what),
    };
    match statement::run(shared, &asked.query).await {
        Ok(Answer::Rows(rows)) => {
            let body = Body::from_stream(pieces(Json { asked, begun }, rows));
            (StatusCode::OK, [(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
        }
        Ok(Answer::Done { rows: Some(rows), .. }) => {
            answer(StatusCode::OK, &json!({ "dml": "OK", "updated": rows }))
        }
        Ok(Answer::Done { .. }) => answer(StatusCode::OK, &json!({ "ddl": "OK" })),
        Err(error) => failed(&asked.query, &error),
    }
}

/// An error as QuestDB tells it, with the place in the text, from 0.
fn failed(query: &str, error: &QueryError) -> Response {
    let status = match error.kind {
        ErrorKind::FixRequest => StatusCode::BAD_REQUEST,
        ErrorKind::Retry => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::FreeSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Report => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let place = error.position.as_ref().map_or(0, |position| {
        let before = usize::try_from(position.line.saturating_sub(1)).unwrap_or(0);
        let line_start: usize =
            query.split_inclusive('\n').take(before).map(|line| line.chars().count()).sum();
        line_start + usize::try_from(position.column.saturating_sub(1)).unwrap_or(0)
    });
    answer(status, &json!({ "query": query, "error": error.to_string(), "position": place }))
}

/// What a request asks for.
struct Asked {
    query: String,
    /// The rows that are wanted, from 0.
    rows: Range<u64>,
    /// Whether rows past those are counted.
    count: bool,
    /// Whether columns are told.
    columns: bool,
    timings: bool,
}

impl Asked {
    fn of(words: &Words) -> Result<Self, String> {
        let is = |name: &str| words.get(name).is_some_and(|word| word == "true");
        let query = words.get("query").filter(|query| !query.trim().is_empty());
        let query = query.ok_or("there is no statement: /exec?query=SELECT …")?.clone();
        let rows = match words.get("limit") {
            None => 0..u64::MAX,
            Some(limit) => {
                rows_of(limit).ok_or_else(|| format!("limit={limit} is no number of rows, and no from,to"))?
            }
        };
        let query = if is("explain") { format!("EXPLAIN {query}") } else { query };
        Ok(Self { query, rows, count: is("count"), columns: !is("nm"), timings: is("timings") })
    }
}

/// `10`: the first ten rows; `10,20`: from the tenth to the twentieth.
fn rows_of(limit: &str) -> Option<Range<u64>> {
    match limit.split_once(',') {
        None => Some(0..limit.trim().parse().ok()?),
        Some((from, to)) => {
            let from = if from.trim().is_empty() { 1 } else { from.trim().parse::<u64>().ok()? };
            Some(from.saturating_sub(1)..to.trim().parse().ok()?)
        }
    }
}

/// How rows become the text of an answer.
trait Form: Send + 'static {
    fn asked(&self) -> &Asked;
    fn head(&self, schema: &Schema, out: &mut String);
    fn row(&self, values: &mut Row<'_>, row: usize, is_first: bool, out: &mut String);
    fn tail(&self, rows: &Rows, written: u64, all: u64, out: &mut String);
}

struct Json {
    asked: Asked,
    begun: Instant,
}

impl Form for Json {
    fn asked(&self) -> &Asked {
        &self.asked
    }

    fn head(&self, schema: &Schema, out: &mut String) {
        out.push('{');
        if self.asked.columns {
            out.push_str("\"query\":");
            quoted(&self.asked.query, out);
            out.push_str(",\"columns\":[");
            for (place, field) in schema.fields().iter().enumerate() {
                out.push_str(if place == 0 { "{\"name\":" } else { ",{\"name\":" });
                quoted(field.name(), out);
                out.push_str(",\"type\":");
                quoted(&type_name(field.data_type()), out);
                if let DataType::List(element) = field.data_type() {
                    // Writing to a String does not fail.
                    let _ = write!(out, ",\"dim\":1,\"elemType\":\"{}\"", type_name(element.data_type()));
                }
                out.push('}');
            }
            let timestamp = designated_field(schema).map_or("-1".to_string(), |place| place.to_string());
            let _ = write!(out, "],\"timestamp\":{timestamp},");
        }
        out.push_str("\"dataset\":[");
    }

    fn row(&self, values: &mut Row<'_>, row: usize, is_first: bool, out: &mut String) {
        if !is_first {
            out.push(',');
        }
        values.json(row, out);
    }

    fn tail(&self, rows: &Rows, written: u64, all: u64, out: &mut String) {
        let count = if self.asked.count { all } else { written };
        let _ = write!(out, "],\"count\":{count}");
        if self.asked.timings {
            let (planning, all) = (rows.planning.as_nanos(), self.begun.elapsed().as_nanos());
            let _ = write!(
                out,
                ",\"timings\":{{\"authentication\":0,\"compiler\":{planning},\"execute\":{},\"count\":0}}",
                all.saturating_sub(planning)
            );
        }
        out.push('}');
    }
}

struct Csv {
    asked: Asked,
}

impl Form for Csv {
    fn asked(&self) -> &Asked {
        &self.asked
    }

    fn head(&self, schema: &Schema, out: &mut String) {
        let names: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| format!("\"{}\"", field.name().replace('"', "\"\"")))
            .collect();
        if self.asked.columns {
            out.push_str(&names.join(","));
            out.push_str("\r\n");
        }
    }

    fn row(&self, values: &mut Row<'_>, row: usize, _is_first: bool, out: &mut String) {
        values.csv(row, out);
    }

    fn tail(&self, _rows: &Rows, _written: u64, _all: u64, _out: &mut String) {}
}

struct Writing<F> {
    form: F,
    rows: Rows,
    text: String,
    written: u64,
    all: u64,
    is_over: bool,
}

/// The text of rows in pieces. An error behind the first one breaks the answer off: the client sees that it is not whole.
fn pieces<F: Form>(form: F, rows: Rows) -> impl Stream<Item = Result<Bytes, QueryError>> {
    let mut text = String::with_capacity(PIECE_BYTES);
    form.head(&rows.schema, &mut text);
    let writing = Writing { form, rows, text, written: 0, all: 0, is_over: false };
    stream::try_unfold(writing, |mut writing| async move {
        while !writing.is_over && writing.text.len() < PIECE_BYTES {
            writing.more().await?;
        }
        let text = std::mem::replace(&mut writing.text, String::with_capacity(PIECE_BYTES));
        Ok((!text.is_empty()).then_some((Bytes::from(text), writing)))
    })
}

impl<F: Form> Writing<F> {
    /// Writes the next batch, or the end.
    async fn more(&mut self) -> Result<(), QueryError> {
        let Range { start, end } = self.form.asked().rows;
        let wants_more = self.all < end || self.form.asked().count;
        let batch = if wants_more { self.rows.next().await } else { None };
        let Some(batch) = batch else {
            self.form.tail(&self.rows, self.written, self.all, &mut self.text);
            self.is_over = true;
            return Ok(());
        };
        let batch = batch?;
        let mut values = Row::of(&batch)?;
        for row in 0..batch.num_rows() {
            if (start..end).contains(&self.all) {
                self.form.row(&mut values, row, self.written == 0, &mut self.text);
                self.written += 1;
            }
            self.all += 1;
        }
        Ok(())
    }
}
