//! `/chk`: whether there is a table, as QuestDB's console asks before an upload.

use super::rows::refused;
use super::words::{Fault, Words, wrong};
use crate::http::json as answer;
use axum::Extension;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tickstone_query::Access;

/// The words of a request: the form of the answer, the table; `version` changes nothing.
pub(super) const WORDS: &[&str] = &["f", "j", "version"];

/// GET `/chk?f=json&j=trades`.
pub(super) async fn chk(Extension(access): Extension<Access>, RawQuery(query): RawQuery) -> Response {
    match asked(query.as_deref()) {
        Ok((table, as_json)) => {
            let is_there = access.snapshot().is_ok_and(|snapshot| snapshot.table(&table).is_some());
            let word = if is_there { "Exists" } else { "Does not exist" };
            match as_json {
                true => answer(StatusCode::OK, &json!({ "status": word })),
                false => {
                    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{word}\r\n")).into_response()
                }
            }
        }
        Err(fault) => refused(fault),
    }
}

fn asked(query: Option<&str>) -> Result<(String, bool), Fault> {
    let mut words = Words::of_path(query, WORDS)?;
    let table = words.take("j").ok_or_else(|| wrong("there is no table: /chk?f=json&j=trades"))?;
    let as_json = match words.take("f").as_deref() {
        None => false,
        Some("json") => true,
        Some(other) => return Err(wrong(format!("f={other} is not known: json"))),
    };
    Ok((table, as_json))
}
