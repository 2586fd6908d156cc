//! What a server says of itself: whether it can do its work, and what it counts.

use crate::http::json as answer;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use tickstone_query::{Access, listed};

/// What keeps rows from being stored or asked for; empty where nothing does. Where there are users its text, which may name
/// tables, is in the log alone: anybody may ask.
fn faults(shared: &Shared) -> Vec<(&'static str, String)> {
    let engine = shared.database.engine();
    let mut faults = Vec::new();
    if let Err(error) = shared.database.snapshot() {
        faults.push(("tables", error.to_string()));
    }
    if !engine.is_read_only()
        && let Err(error) = engine.check_tape()
    {
        faults.push(("tape", error.to_string()));
    }
    if let Err(error) = Access::of_owner(&shared.database).check_audit() {
        faults.push(("audit", error.to_string()));
    }
    faults.extend(engine.maintenance_stats().last_failure.map(|cause| ("maintenance", cause)));
    if shared.database.has_users().unwrap_or(true) {
        faults.iter_mut().for_each(|(_, what)| *what = "the server's log has what is wrong".to_string());
    }
    faults
}

/// What is said of a server that other machines reach, and that goes on all the same.
fn warnings(shared: &Shared) -> Vec<(&'static str, &'static str)> {
    if shared.is_loopback {
        return Vec::new();
    }
    let users = ("users", "there are no users: anybody who reaches the ports may read and write everything");
    let tls = match &shared.tls {
        Some(_) if shared.needs_tls() => None,
        Some(_) => Some(("tls", "clients may speak in the clear: require_tls = true refuses them")),
        None => {
            Some(("tls", "there is no certificate: what clients send and are sent may be read on its way"))
        }
    };
    let users = (!shared.database.has_users().unwrap_or(true)).then_some(users);
    [users, tls].into_iter().flatten().collect()
}

/// GET `/health`, as InfluxDB's.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let faults = faults(&shared);
    let (status, word) = match faults.is_empty() {
        true => (StatusCode::OK, "pass"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "fail"),
    };
    let message = faults.first().map_or("ready for queries and writes", |(_, what)| what);
    let checks = faults.iter().map(|(name, what)| json!({ "name": name, "status": "fail", "message": what }));
    let warned = warnings(&shared)
        .into_iter()
        .map(|(name, what)| json!({ "name": name, "status": "warn", "message": what }));
    let body = json!({
        "name": "tickstone", "status": word, "message": message, "checks": checks.chain(warned).collect::<Vec<Value>>(),
        "version": env!("CARGO_PKG_VERSION"), "uptime_seconds": shared.started.elapsed().as_secs(),
    });
    answer(status, &body)
}

/// GET `/ready`.
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match faults(&shared).into_iter().next() {
        None => {
            let tables = listed(&shared.database.engine().snapshot()).count();
            answer(StatusCode::OK, &json!({ "status": "ready", "tables": tables }))
        }
        Some((name, what)) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": format!("{name}: {what}") }))
        }
    }
}

/// GET `/metrics`, in the text of Prometheus.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let engine = shared.database.engine();
    let (commits, rows) = engine.commits();
    let more = [
        ("uptime_seconds", false, "seconds since the server started", shared.started.elapsed().as_secs()),
        ("commits", true, "commits since the database was opened", commits),
        ("committed_rows", true, "rows of these commits", rows),
        ("syncs", true, "syncs of the tape since the database was opened", engine.syncs()),
        ("memory_bytes", false, "bytes of rows and buffers in memory", engine.memory_bytes() as u64),
    ];
    let text = shared.metrics.text(&more);
    (StatusCode::OK, [(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
