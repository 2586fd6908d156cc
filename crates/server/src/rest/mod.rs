//! REST: statements, uploads and downloads over HTTP, what a server says of itself, and the paths of line protocol
//! beside them.
//!
//! ```text
//! words ─► exec, exp, query ─► statement ─► rows ─► json, csv, Arrow
//!      └─► imp ─► a file ─► import
//! ```
//!
//! Enter at [`ROUTES`], which the description at `/openapi.json` is checked against.

mod chk;
mod csv;
mod exec;
mod exp;
mod health;
mod imp;
mod influx;
#[cfg(test)]
mod openapi;
mod parquet;
mod query;
mod rows;
mod types;
mod words;
mod written;

use crate::http::json as answer;
use crate::ilp::http as lines;
use crate::mcp::http as mcp;
use crate::qwp;
use crate::shared::Shared;
use crate::subscribe;
use axum::Router;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use serde_json::json;
use std::sync::Arc;

/// What all paths of both ports take and give, in OpenAPI 3.1.
const DESCRIPTION: &str = include_str!("openapi.json");

/// The ports that have a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Both,
    Rest,
    Influx,
}

/// One path.
struct Route {
    path: &'static str,
    at: At,
    /// The methods that are described; HEAD goes with GET where that changes nothing.
    #[cfg_attr(not(test), expect(dead_code, reason = "the description is checked against it"))]
    methods: &'static [&'static str],
    /// The parameters of the path that mean something.
    #[cfg_attr(not(test), expect(dead_code, reason = "the description is checked against it"))]
    words: &'static [&'static str],
    served: fn() -> MethodRouter<Arc<Shared>>,
}

/// The parameters of line protocol.
const LINES: &[&str] = &["precision"];

const ROUTES: &[Route] = &[
    Route {
        path: "/exec",
        at: At::Rest,
        methods: &["get", "post"],
        words: exec::WORDS,
        served: || get(exec::exec).post(exec::exec).head(no_head),
    },
    Route {
        path: "/exp",
        at: At::Rest,
        methods: &["get", "post"],
        words: exp::WORDS,
        served: || get(exp::exp).post(exp::exp).head(no_head),
    },
    Route {
        path: "/query",
        at: At::Rest,
        methods: &["get", "post"],
        words: query::WORDS,
        served: || get(query::query).post(query::query).head(no_head),
    },
    Route { path: "/imp", at: At::Rest, methods: &["post"], words: imp::WORDS, served: || post(imp::imp) },
    Route { path: "/chk", at: At::Rest, methods: &["get"], words: chk::WORDS, served: || get(chk::chk) },
    Route {
        path: "/query",
        at: At::Influx,
        methods: &["get", "post"],
        words: influx::WORDS,
        served: || get(influx::query).post(influx::query).head(no_head),
    },
    Route { path: "/write", at: At::Both, methods: &["post"], words: LINES, served: || post(lines::write) },
    Route {
        path: "/api/v2/write",
        at: At::Both,
        methods: &["post"],
        words: LINES,
        served: || post(lines::write),
    },
    Route {
        path: "/api/v3/write_lp",
        at: At::Both,
        methods: &["post"],
        words: &["precision", "accept_partial"],
        served: || post(lines::write_lp),
    },
    Route {
        path: "/api/v2/query",
        at: At::Both,
        methods: &["get", "post"],
        words: &[],
        served: || any(lines::no_reads),
    },
    Route {
        path: "/api/v3/query_influxql",
        at: At::Both,
        methods: &["get", "post"],
        words: &[],
        served: || any(lines::no_reads),
    },
    Route { path: "/write/v4", at: At::Rest, methods: &["get"], words: &[], served: || get(qwp::write) },
    Route { path: "/api/v4/write", at: At::Rest, methods: &["get"], words: &[], served: || get(qwp::write) },
    Route { path: "/read/v1", at: At::Rest, methods: &["get"], words: &[], served: || get(qwp::read) },
    Route { path: "/api/v1/read", at: At::Rest, methods: &["get"], words: &[], served: || get(qwp::read) },
    Route {
        path: "/subscribe",
        at: At::Rest,
        methods: &["get"],
        words: subscribe::WORDS,
        served: || get(subscribe::subscribe),
    },
    Route {
        path: "/mcp",
        at: At::Rest,
        methods: &["get", "post", "delete"],
        words: &[],
        served: || post(mcp::post).get(mcp::no_stream).delete(mcp::no_stream).head(mcp::no_stream),
    },
    Route { path: "/settings", at: At::Both, methods: &["get"], words: &[], served: || get(lines::settings) },
    Route { path: "/ping", at: At::Both, methods: &["get", "head"], words: &[], served: || any(lines::ping) },
    Route { path: "/health", at: At::Both, methods: &["get"], words: &[], served: || get(health::health) },
    Route { path: "/ready", at: At::Both, methods: &["get"], words: &[], served: || get(health::ready) },
    Route { path: "/metrics", at: At::Both, methods: &["get"], words: &[], served: || get(health::metrics) },
    Route { path: "/openapi.json", at: At::Both, methods: &["get"], words: &[], served: || get(description) },
];

/// The paths of the REST port.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    routes_at(At::Rest)
}

/// The paths of InfluxDB's port.
pub(crate) fn influx_routes() -> Router<Arc<Shared>> {
    routes_at(At::Influx)
}

fn routes_at(port: At) -> Router<Arc<Shared>> {
    let routes = ROUTES.iter().filter(|route| route.at == At::Both || route.at == port);
    let paths: Vec<&str> = routes.clone().map(|route| route.path).collect();
    let no_such_path = format!("there is no such path; there are {}", paths.join(", "));
    let router = routes.fold(Router::new(), |router, route| router.route(route.path, (route.served)()));
    let no_such_path = move || {
        let what = no_such_path.clone();
        async move { answer(StatusCode::NOT_FOUND, &json!({ "error": what })) }
    };
    router.fallback(no_such_path).method_not_allowed_fallback(no_such_method)
}

async fn no_such_method(method: Method) -> Response {
    let what = format!("{method} is not done at this path");
    answer(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": what }))
}

/// The answer to a HEAD that would run a statement for its length.
async fn no_head() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,POST")]).into_response()
}

/// GET `/openapi.json`.
async fn description() -> Response {
    (StatusCode::OK, [(CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}
