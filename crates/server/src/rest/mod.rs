//! REST: statements by GET and POST, what a server says of itself, and the paths of line protocol beside them.

mod exec;
mod values;

use crate::Shared;
use crate::http::json;
use crate::ilp::http as lines;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde_json::json;
use std::sync::Arc;

/// The paths of the REST port.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    // A HEAD would run the statement for its length.
    lines_in()
        .route("/exec", get(exec::get).post(exec::post).head(no_head))
        .route("/exp", get(exec::exported).head(no_head))
        .fallback(no_such_path)
}

/// The paths of InfluxDB's port.
pub(crate) fn influx_routes() -> Router<Arc<Shared>> {
    lines_in().route("/query", any(lines::no_reads)).fallback(no_such_path)
}

/// What both ports have.
fn lines_in() -> Router<Arc<Shared>> {
    Router::new()
        .route("/write", post(lines::write))
        .route("/api/v2/write", post(lines::write))
        .route("/api/v3/write_lp", post(lines::write_lp))
        .route("/api/v2/query", any(lines::no_reads))
        .route("/api/v3/query_influxql", any(lines::no_reads))
        .route("/settings", get(lines::settings))
        .route("/ping", any(lines::ping))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .layer(axum::extract::DefaultBodyLimit::disable())
}

async fn no_head() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

async fn no_such_path() -> Response {
    let what = "there is no such path; there are /write, /api/v2/write, /api/v3/write_lp, /settings, /ping, /health, \
                /ready, /metrics, and at the REST port /exec and /exp";
    json(StatusCode::NOT_FOUND, &json!({ "error": what }))
}

/// Whether the process answers.
async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let up = shared.started.elapsed().as_secs();
    let body = json!({
        "name": "tickstone", "status": "pass", "message": "ready for queries and writes", "checks": [],
        "version": env!("CARGO_PKG_VERSION"), "uptime_seconds": up,
    });
    json(StatusCode::OK, &body)
}

/// Whether rows can be stored and asked for.
async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match shared.database.snapshot() {
        Ok(snapshot) => {
            json(StatusCode::OK, &json!({ "status": "ready", "tables": snapshot.tables().count() }))
        }
        Err(error) => json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": error.to_string() })),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let engine = shared.database.engine();
    let (commits, rows) = engine.commits();
    let more = [
        ("uptime_seconds", "seconds since the server started", shared.started.elapsed().as_secs()),
        ("commits", "commits since the database was opened", commits),
        ("committed_rows", "rows of these commits", rows),
        ("syncs", "syncs of the tape since the database was opened", engine.syncs()),
        ("memory_bytes", "bytes of rows and buffers in memory", engine.memory_bytes() as u64),
    ];
    let text = shared.metrics.text(&more);
    (StatusCode::OK, [(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
