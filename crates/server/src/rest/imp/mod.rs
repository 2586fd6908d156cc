//! `/imp`: a file into a table, with a report of what became of its rows.
//!
//! The upload is kept in a file until it is there as a whole, then imported as `tickstone import` would: one commit.
//! With `skipCol` rows with values at fault come in a second one, those values NULL.
//!
//! ```text
//! body ─► incoming (unpacked, limited) ─► spool (a file) ─► load ─► import ─► report
//!                                                             └─► mend ─► import
//! ```

mod incoming;
mod kind;
mod load;
mod mend;
mod report;
mod spool;
mod wishes;

use super::words::{Fault, media_type, wrong};
use crate::http::json as answer;
use crate::metrics::Counter;
use crate::shared::Shared;
use axum::Extension;
use axum::body::Body;
use axum::extract::multipart::Field;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, RawQuery, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use incoming::{FirstFault, incoming};
use report::Report;
use serde_json::json;
use spool::{Spool, Upload};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickstone_query::{Access, QueryError, SqlState};
use wishes::Wishes;

pub(super) use wishes::WORDS;

/// The most bytes of the part `schema`.
const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// POST `/imp`.
pub(super) async fn imp(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // Also what is wrong with the other words is told in the form that is asked for.
    let as_json = query.as_deref().unwrap_or_default().split('&').any(|word| word == "fmt=json");
    let done = match Wishes::of(query.as_deref()) {
        Ok(wishes) => done(&shared, access, wishes, &headers, body).await,
        Err(fault) => Err(fault),
    };
    if let Ok(report) = &done {
        shared.metrics.add(Counter::UploadRows, report.rows_imported);
    }
    told(as_json, done)
}

/// A report, or what is wrong, in either form.
fn told(as_json: bool, done: Result<Report, Fault>) -> Response {
    match (done, as_json) {
        (Ok(report), true) => answer(StatusCode::OK, &report.json()),
        (Ok(report), false) => text(StatusCode::OK, report.text()),
        (Err((status, what)), true) => answer(status, &json!({ "status": what })),
        (Err((status, what)), false) => text(status, what + "\r\n"),
    }
}

fn text(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// What came in a request.
struct Received {
    upload: Upload,
    /// The name of the file, where the client said one.
    name: Option<String>,
    /// The part `schema`.
    schema: Option<String>,
}

async fn done(
    shared: &Arc<Shared>,
    access: Access,
    mut wishes: Wishes,
    headers: &HeaderMap,
    body: Body,
) -> Result<Report, Fault> {
    // What comes before its turn is not read: its client waits.
    access.turn(true).await.map_err(|error| load::of_query(&error))?;
    let received = match media_type(headers).as_str() {
        "multipart/form-data" => parts(shared, headers, body).await?,
        kind => {
            wishes.format_of_type(kind);
            let (mut bytes, faults) = incoming(body, headers, shared)?;
            let mut spool = Spool::new(shared);
            while let Some(bytes) = bytes.next().await {
                let bytes = bytes.map_err(|_| faults.or(wrong("the body ended too soon")))?;
                spool.add(&bytes).await?;
            }
            Received { upload: spool.finish().await?, name: None, schema: None }
        }
    };
    if let Some(schema) = &received.schema {
        wishes.take_schema(schema)?;
    }
    let table = wishes.table.take().or(received.name);
    let table = table.ok_or_else(|| wrong("the upload names no table: /imp?name=trades"))?;
    let cancel = Cancel(Arc::new(AtomicBool::new(false)));
    let (database, cancelled) = (shared.database.clone(), Arc::clone(&cancel.0));
    let load = move || {
        let loaded = load::load(&access, &database, &wishes, &table, &received.upload, cancelled);
        match &loaded {
            Ok(report) => {
                access.added(&report.table, report.rows_imported);
            }
            Err((status, what)) => {
                let error = QueryError::request(what.clone());
                let error =
                    if *status == StatusCode::FORBIDDEN { error.state(SqlState::Denied) } else { error };
                access.tell("INGEST", table.as_str().into(), 0, Duration::ZERO, Some(&error));
            }
        }
        loaded
    };
    let loaded = tokio::task::spawn_blocking(load).await;
    loaded.unwrap_or_else(|_| Err((StatusCode::INTERNAL_SERVER_ERROR, "the import was cut short".into())))
}

/// Ends an import when nobody waits for it any more.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The parts of a form: `data`, and maybe `schema`.
async fn parts(shared: &Arc<Shared>, headers: &HeaderMap, body: Body) -> Result<Received, Fault> {
    let (bytes, faults) = incoming(body, headers, shared)?;
    let mut request = Request::new(Body::from_stream(bytes));
    *request.headers_mut() = headers.clone();
    // `incoming` has limits of its own.
    DefaultBodyLimit::disable().apply(&mut request);
    let no_form = || wrong("the body is no multipart/form-data with a boundary");
    let mut form = Multipart::from_request(request, &()).await.map_err(|_| no_form())?;
    let (mut upload, mut name, mut schema) = (None, None, None);
    while let Some(part) = form.next_field().await.map_err(|_| faults.or(no_form()))? {
        match part.name() {
            Some("data") if upload.is_some() => return Err(wrong("the part data is there twice")),
            Some("data") => {
                name = part.file_name().map(str::to_string).filter(|name| !name.is_empty());
                upload = Some(spooled(shared, part, &faults).await?);
            }
            Some("schema") => schema = Some(text_of(part, &faults).await?),
            other => {
                let other = other.unwrap_or_default();
                return Err(wrong(format!("there is no part '{other}'; there are data and schema")));
            }
        }
    }
    let upload = upload.ok_or_else(|| wrong("there is no part data: curl -F data=@trades.csv"))?;
    Ok(Received { upload, name, schema })
}

async fn spooled(shared: &Arc<Shared>, mut part: Field<'_>, faults: &FirstFault) -> Result<Upload, Fault> {
    let mut spool = Spool::new(shared);
    while let Some(bytes) = part.chunk().await.map_err(|_| faults.or(cut_off()))? {
        spool.add(&bytes).await?;
    }
    spool.finish().await
}

async fn text_of(mut part: Field<'_>, faults: &FirstFault) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    while let Some(more) = part.chunk().await.map_err(|_| faults.or(cut_off()))? {
        bytes.extend_from_slice(&more);
        if bytes.len() > SCHEMA_BYTES_MAX {
            return Err(wrong(format!("the part schema is longer than {SCHEMA_BYTES_MAX} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong("the part schema is not valid UTF-8"))
}

fn cut_off() -> Fault {
    wrong("the body ends within a part")
}
