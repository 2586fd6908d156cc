//! Line protocol over HTTP, at the paths of QuestDB and of all three versions of InfluxDB.
//!
//! A request is one transaction over all its tables: it is answered 204 when its rows are as safe as the strictest table
//! wants them. A bad line refuses all, with its number and what is wrong; a client of InfluxDB 3 that asks for
//! `accept_partial=true` has the good lines stored, and is told of the bad ones.

use super::{Lines, Read, now};
use crate::http::{bad_request, json, status_of, unpacked};
use crate::metrics::Counter;
use crate::shared::Shared;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_query::{Access, QueryError};
use tickstone_wire::ilp::{BadLine, Precision};

/// Whose answers a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// QuestDB, InfluxDB 1 and 2: one message.
    Message,
    /// InfluxDB 3: a list of lines.
    List,
}

type Words = Query<HashMap<String, String>>;

/// `/write` and `/api/v2/write`.
pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    Query(words): Words,
    headers: HeaderMap,
    body: Body,
) -> Response {
    stored(shared, access, &words, &headers, body, Dialect::Message).await
}

/// `/api/v3/write_lp`.
pub(crate) async fn write_lp(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    Query(words): Words,
    headers: HeaderMap,
    body: Body,
) -> Response {
    stored(shared, access, &words, &headers, body, Dialect::List).await
}

async fn stored(
    shared: Arc<Shared>,
    access: Access,
    words: &HashMap<String, String>,
    headers: &HeaderMap,
    body: Body,
    dialect: Dialect,
) -> Response {
    shared.metrics.add(Counter::IlpHttpRequests, 1);
    let refused = |response: Response| {
        shared.metrics.add(Counter::IlpHttpRefused, 1);
        response
    };
    let default = if dialect == Dialect::List { Precision::Auto } else { Precision::default() };
    let precision = match words.get("precision").map(String::as_str) {
        None | Some("") => default,
        Some(word) => match Precision::of(word) {
            Some(precision) => precision,
            None => {
                let what = format!("precision={word} is not known: ns, us, ms, s, m, h or auto");
                return refused(told(dialect, StatusCode::BAD_REQUEST, &what));
            }
        },
    };
    // What comes before its turn is not read: its client waits.
    if let Err(error) = access.turn(true).await {
        return refused(of_error(dialect, &error));
    }
    let (mut bytes, _held) = match unpacked(body, headers, &shared).await {
        Ok(bytes) => bytes,
        Err((status, what)) => return refused(told(dialect, status, &what)),
    };
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    let accept_partial =
        dialect == Dialect::List && words.get("accept_partial").is_some_and(|word| word == "true");
    let lines = Lines { bytes, precision, now: now(), accept_partial };
    let (database, making) = (shared.database.clone(), shared.making());
    let done = tokio::task::spawn_blocking(move || {
        let stored = lines.store(&access, database.engine(), making);
        stored.map(|(rows, read)| (rows, read, lines))
    });
    match done.await {
        Ok(Ok((rows, read, lines))) => {
            shared.metrics.add(Counter::IlpHttpRows, rows);
            match read.bad.first() {
                None => StatusCode::NO_CONTENT.into_response(),
                Some((line, bad)) if dialect == Dialect::Message => refused(of_line(*line, bad)),
                Some(_) => refused(of_lines(&read, &lines)),
            }
        }
        Ok(Err(error)) => refused(of_error(dialect, &error)),
        Err(error) => refused(told(dialect, StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())),
    }
}

/// A bad line as QuestDB and InfluxDB 2 tell of it.
fn of_line(line: u64, bad: &BadLine) -> Response {
    let message =
        format!("failed to parse line protocol: line {line}: {bad}; nothing of the request was stored");
    json(
        StatusCode::BAD_REQUEST,
        // InfluxDB 1 calls it "error", 2 and QuestDB "message".
        &json!({ "code": "invalid", "message": message, "error": message, "line": line, "errorId": "line" }),
    )
}

/// Bad lines as InfluxDB 3 tells of them.
fn of_lines(read: &Read, lines: &Lines) -> Response {
    let data: Vec<_> = read
        .bad
        .iter()
        .map(|(line, bad)| {
            let text = String::from_utf8_lossy(&lines.bytes[bad.record.clone()]);
            json!({ "original_line": text.trim_end(), "line_number": line, "error_message": bad.to_string() })
        })
        .collect();
    let body = match lines.accept_partial {
        true => json!({ "error": "partial write of line protocol occurred", "data": data }),
        false => json!({ "error": "parsing failed for write_lp endpoint", "data": data.first() }),
    };
    json(StatusCode::BAD_REQUEST, &body)
}

fn of_error(dialect: Dialect, error: &QueryError) -> Response {
    told(dialect, status_of(error), &error.to_string())
}

fn told(dialect: Dialect, status: StatusCode, what: &str) -> Response {
    let code = match status {
        StatusCode::BAD_REQUEST => "invalid",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INSUFFICIENT_STORAGE => "insufficient storage",
        _ => "internal error",
    };
    match dialect {
        Dialect::Message => {
            json(status, &json!({ "code": code, "message": what, "error": what, "errorId": code }))
        }
        Dialect::List => json(status, &json!({ "error": what })),
    }
}

/// What `/settings` says: which versions of line protocol there are, and how long names may be.
pub(crate) async fn settings() -> Response {
    json(
        StatusCode::OK,
        &json!({
            "config": {
                "release.type": "OSS",
                "release.version": env!("CARGO_PKG_VERSION"),
                "line.proto.support.versions": [1, 2, 3],
                "ilp.proto.transports": ["tcp", "http"],
                "cairo.max.file.name.length": 255,
                "posthog.enabled": false,
            },
            "preferences.version": 0,
            "preferences": {},
        }),
    )
}

/// What `/ping` says.
pub(crate) async fn ping() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let headers = [("X-Influxdb-Version", version), ("X-Influxdb-Build", "Tickstone")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// What reads in other languages than SQL are told.
pub(crate) async fn no_reads() -> Response {
    bad_request(
        "InfluxQL and Flux are not read here: ask in SQL, GET /exec?query=SELECT … at the REST port (9000)",
    )
}
