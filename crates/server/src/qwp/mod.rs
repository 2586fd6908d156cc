//! QWP, QuestDB's native protocol, over WebSocket on the REST port: rows in and results out as columns.
//!
//! ```text
//! /write/v4   messages ─► waiting ─► one store under way: read ─► one commit ─► an answer to all up to the last
//! /read/v1    queries  ─► statement ─► batches, within the client's credit ─► an end
//! ```
//!
//! The bytes of messages are `tickstone_wire::qwp`'s. Here are the connections: what waits, what is under way, how long a
//! client may keep us waiting, and how a connection ends ([`crate::socket`]). The upgrade is a request as any other:
//! hosts and origins are looked at before it.
//!
//! Enter at [`write`] and [`read`].

mod egress;
mod ingress;
mod query;
mod rows;
mod status;
mod store;

use crate::connection::Taken;
use crate::http::bad_request;
use crate::shared::Shared;
use crate::socket::End;
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use std::sync::Arc;
use tickstone_query::Access;
use tickstone_wire::qwp;

const MAX_VERSION: HeaderName = HeaderName::from_static("x-qwp-max-version");
const VERSION: HeaderName = HeaderName::from_static("x-qwp-version");
const MAX_BATCH_SIZE: HeaderName = HeaderName::from_static("x-qwp-max-batch-size");
const MAX_BATCH_ROWS: HeaderName = HeaderName::from_static("x-qwp-max-batch-rows");

/// The longest message of a client that asks: a statement and its parameters.
const REQUEST_BYTES_MAX: usize = 2 << 20;

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// `/write/v4` and `/api/v4/write`: rows.
pub(crate) async fn write(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    taken: Option<Extension<Taken>>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    let bytes_max = shared.settings.bytes("qwp_message_bytes_max");
    let (upgrade, taken, version) = match begun(upgrade, taken, &headers, bytes_max) {
        Ok(begun) => begun,
        Err(what) => return bad_request(&what),
    };
    let mut response = upgrade.on_upgrade(move |socket| ingress::serve(socket, shared, access, taken));
    response.headers_mut().insert(VERSION, HeaderValue::from(version));
    response.headers_mut().insert(MAX_BATCH_SIZE, HeaderValue::from(bytes_max));
    response
}

/// `/read/v1` and `/api/v1/read`: statements, and their results.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    taken: Option<Extension<Taken>>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    let (upgrade, taken, version) = match begun(upgrade, taken, &headers, REQUEST_BYTES_MAX) {
        Ok(begun) => begun,
        Err(what) => return bad_request(&what),
    };
    let rows_max = header(&headers, &MAX_BATCH_ROWS).and_then(|rows| rows.trim().parse::<usize>().ok());
    let rows_max = rows_max.filter(|rows| *rows > 0).unwrap_or(qwp::BATCH_ROWS_MAX).min(qwp::BATCH_ROWS_MAX);
    let mut response =
        upgrade.on_upgrade(move |socket| egress::serve(socket, shared, access, taken, rows_max));
    response.headers_mut().insert(VERSION, HeaderValue::from(version));
    response
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// An upgrade whose messages are of at most so many bytes, its connection, and the version that is spoken.
///
/// # Errors
/// Why there is none.
fn begun(
    upgrade: Upgrade,
    taken: Option<Extension<Taken>>,
    headers: &HeaderMap,
    bytes_max: usize,
) -> Result<(WebSocketUpgrade, Taken, u16), String> {
    let (Ok(upgrade), Some(Extension(taken))) = (upgrade, taken) else {
        return Err("QWP is spoken here: ask for an upgrade to a WebSocket (version 13)".to_string());
    };
    let max = headers.get(MAX_VERSION).map(|max| max.to_str().unwrap_or("no number"));
    let version = qwp::negotiate(max).ok_or_else(|| {
        format!("X-QWP-Max-Version is '{}', and the versions begin with 1", max.unwrap_or_default())
    })?;
    Ok((upgrade.max_message_size(bytes_max).max_frame_size(bytes_max), taken, version.into()))
}

/// How a connection ends whose client sends text.
fn no_text() -> End {
    End::unsupported("QWP has no messages of text")
}
