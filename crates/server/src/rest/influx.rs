//! `/query` of InfluxDB: refused, but for CREATE DATABASE, which clients that write begin with.

use super::words::{Fault, check_form, wrong};
use crate::http::{json as answer, unpacked};
use crate::ilp::http::no_reads;
use crate::shared::Shared;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The words of a request that mean something; others are left alone.
pub(super) const WORDS: &[&str] = &["q"];

/// `/query`, by GET and POST. There is one database, so that one more is there as soon as it is asked for.
pub(super) async fn query(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match statement(query.as_deref(), &headers, body, &shared).await {
        Ok(Some(text)) if makes_databases(&text) => {
            let count = text.split(';').filter(|one| !one.trim().is_empty()).count();
            let results: Vec<_> = (0..count).map(|number| json!({ "statement_id": number })).collect();
            answer(StatusCode::OK, &json!({ "results": results }))
        }
        Ok(_) => no_reads().await,
        Err((status, what)) => answer(status, &json!({ "error": what })),
    }
}

/// `q` of the path, or of a form.
async fn statement(
    query: Option<&str>,
    headers: &HeaderMap,
    body: Body,
    shared: &Arc<Shared>,
) -> Result<Option<String>, Fault> {
    let words = |text: &str| {
        let words = serde_urlencoded::from_str::<HashMap<String, String>>(text);
        words.map_err(|_| wrong("the parameters are no name=value&name=value"))
    };
    if let Some(text) = words(query.unwrap_or_default())?.remove("q") {
        return Ok(Some(text));
    }
    let (bytes, _held) = unpacked(body, headers, shared).await?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("the body is not valid UTF-8"))?;
    check_form(&text)?;
    Ok(words(&text)?.remove("q"))
}

fn makes_databases(text: &str) -> bool {
    let makes = |one: &str| {
        let mut words = one.split_whitespace();
        let mut is = |wanted: &str| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        is("CREATE") && is("DATABASE")
    };
    let mut all = text.split(';').filter(|one| !one.trim().is_empty()).peekable();
    all.peek().is_some() && all.all(makes)
}

#[cfg(test)]
mod tests {
    use super::makes_databases;

    #[test]
    fn only_databases_are_made() {
        for text in [
            "CREATE DATABASE \"telegraf\"",
            " create  database x with duration 1d;",
            "CREATE DATABASE a; CREATE DATABASE b",
        ] {
            assert!(makes_databases(text), "{text}");
        }
        for text in ["", ";", "SHOW DATABASES", "CREATE DATABASES", "CREATE DATABASE a; DROP DATABASE b"] {
            assert!(!makes_databases(text), "{text}");
        }
    }
}
