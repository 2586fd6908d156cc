//! `/mcp`: a message a POST, answered with JSON. There are no streams of events, so GET and DELETE are refused.
//!
//! Nothing is kept between two requests. `initialize` gives out the name of a session so that a later request can say
//! whose request it cancels; one whose client goes away is cancelled too.

use super::rpc::{Failure, Fault};
use super::{answers, calls, cancelled, no_json, rpc, version};
use crate::http::{json as answer, unpacked};
use crate::shared::Shared;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tickstone_query::Access;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The longest name of a session that is looked at.
const SESSION_BYTES_MAX: usize = 128;

/// POST `/mcp`.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Err((status, what)) = acceptable(&headers) {
        return answer(status, &json!({ "error": what }));
    }
    let (bytes, _held) = match unpacked(body, &headers, &shared).await {
        Ok(read) => read,
        Err((status, what)) => return answer(status, &json!({ "error": what })),
    };
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => return answer(StatusCode::BAD_REQUEST, &no_json(&error)),
    };
    let id = value.get("id").cloned();
    if let Err(failure) = of_version(&headers, &value) {
        let refusal = rpc::answer(&id.unwrap_or_default(), Err(failure));
        return answer(StatusCode::BAD_REQUEST, &refusal);
    }
    let begins = value.get("method").is_some_and(|method| method == "initialize");
    let is_request = id.is_some() && value.get("method").is_some();
    let is_stateless = text(&headers, VERSION) == Some(version::STATELESS);
    let session = text(&headers, SESSION).filter(|name| name.len() <= SESSION_BYTES_MAX && !is_stateless);
    // Nobody cancels the request of another user, whatever name of a session they give.
    let session = session.map(|name| format!("{}\0{name}", access.user().unwrap_or_default()));
    let said = match answers(&shared, &access, session.as_deref(), value).await {
        Some(said) => said,
        None if is_request => cancelled(&id.unwrap_or_default()),
        None => return StatusCode::ACCEPTED.into_response(),
    };
    let mut response = answer(status(&said, is_stateless), &said);
    if begins
        && said.get("result").is_some()
        && !is_stateless
        && let Ok(name) = HeaderValue::from_str(&calls::new_session())
    {
        response.headers_mut().insert(SESSION, name);
    }
    response
}

/// GET and DELETE `/mcp`: there is no stream of events, and no session that would end.
pub(crate) async fn no_stream() -> Response {
    let what = json!({ "error": "a message is sent by POST; there is no stream of events" });
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, &what);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a client sends JSON and takes it.
fn acceptable(headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let kind = |range: &str| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if text(headers, CONTENT_TYPE.as_str()).map(kind).as_deref() != Some("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is sent as application/json"));
    }
    let takes = |ranges: &str| {
        ranges.split(',').any(|range| matches!(&*kind(range), "application/json" | "application/*" | "*/*"))
    };
    match headers.get(ACCEPT).is_none_or(|ranges| ranges.to_str().is_ok_and(takes)) {
        true => Ok(()),
        false => Err((StatusCode::NOT_ACCEPTABLE, "answers are application/json")),
    }
}

/// Whether the headers of a message say what it says itself, and its version is known.
///
/// # Errors
/// Where they differ, as 2026-07-28 wants them to be alike; where the version is unknown.
fn of_version(headers: &HeaderMap, value: &Value) -> Result<(), Failure> {
    let named = text(headers, VERSION);
    let none = Map::new();
    let params = value.get("params").and_then(Value::as_object).unwrap_or(&none);
    let differ = |what: String| Err(Failure::new(Fault::HeadersDiffer, what));
    let Some(said) = version::said(params) else {
        let is_notification = value.get("id").is_none();
        return match named {
            Some(version::STATELESS) if !is_notification => Err(version::unsaid()),
            None | Some(version::STATELESS | version::OLDEST) => Ok(()),
            Some(_) if value.is_array() => {
                Err(Failure::new(Fault::NoRequest, "several messages in one are of 2025-03-26 only"))
            }
            Some(named) if version::HANDSHAKE.contains(&named) => Ok(()),
            Some(named) => Err(version::unknown(named)),
        };
    };
    if named.is_none() || named != said.as_str() {
        return differ(format!("{VERSION} is not what _meta says, {said}"));
    }
    let method = value.get("method").and_then(Value::as_str);
    if text(headers, METHOD) != method {
        return differ(format!("{METHOD} is not the method, {}", method.unwrap_or_default()));
    }
    let member = match method {
        Some("tools/call") => "name",
        Some("resources/read") => "uri",
        _ => return Ok(()),
    };
    let name = params.get(member).and_then(Value::as_str);
    match name.is_none() || text(headers, NAME).and_then(plain).as_deref() == name {
        true => Ok(()),
        false => differ(format!("{NAME} is not params.{member}")),
    }
}

/// The value of a header that may be wrapped: `=?base64?…?=`.
fn plain(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(packed) => String::from_utf8(from_base64(packed)?).ok(),
        None => Some(value.to_string()),
    }
}

/// The bytes of base64 (RFC 4648, section 4); `None` where it is none.
fn from_base64(packed: &str) -> Option<Vec<u8>> {
    let digits = packed.trim_end_matches('=');
    if !packed.len().is_multiple_of(4) || packed.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    // What is left of the last digit is nothing.
    (bits == 0 && held < 6).then_some(bytes)
}

/// The status of an answer. Clients of versions before 2026-07-28 take any but 200 for the end of the connection, so that
/// what is wrong with a message that was understood is told in the answer alone.
fn status(said: &Value, is_stateless: bool) -> StatusCode {
    let code = said.pointer("/error/code").and_then(Value::as_i64);
    let is = |fault: Fault| code == Some(fault.code());
    if is(Fault::NoRequest) || is(Fault::NoSuchVersion) {
        StatusCode::BAD_REQUEST
    } else if is_stateless && is(Fault::NoSuchMethod) {
        StatusCode::NOT_FOUND
    } else if is_stateless && is(Fault::WrongParameters) {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to_base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let of = |chunk: &[u8]| {
            let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            let digit = |i: u32| char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize]);
            (0..4).map(|i| if i as usize <= chunk.len() { digit(i) } else { '=' }).collect::<String>()
        };
        bytes.chunks(3).map(of).collect()
    }

    proptest! {
        #[test]
        fn wrapped_names(name in ".*") {
            let wrapped = format!("=?base64?{}?=", to_base64(name.as_bytes()));
            prop_assert_eq!(plain(&wrapped), Some(name));
        }

        #[test]
        fn anything_may_stand_in_a_header(value in "[ -~]*") {
            let _ = plain(&format!("=?base64?{value}?="));
        }
    }

    #[test]
    fn what_is_no_base64() {
        assert_eq!(from_base64("SGVsbG8sIOS4lueVjA==").as_deref(), Some("Hello, 世界".as_bytes()));
        for text in ["A", "AA", "AAA", "A===", "AB==", "AAB=", "A A=", "====", "AA=A", "AAAA=", "é==="] {
            assert_eq!(from_base64(text), None, "{text}");
        }
        assert_eq!(plain("query").as_deref(), Some("query"));
        assert_eq!(plain("=?base64?////?="), None);
    }
}
