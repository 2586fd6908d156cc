//! `/query`: rows of a statement in the form that `Accept` asks for.

use super::exec::Asked;
use super::exp::{Format, body_of};
use super::rows::refused;
use super::words::{Fault, Words};
use crate::shared::Shared;
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tickstone_query::Access;

/// The words of a request.
pub(super) const WORDS: &[&str] = &["query", "params", "limit"];

/// What there is, the default first.
const FORMATS: [Format; 3] = [Format::Ndjson, Format::Arrow, Format::Csv];

/// `/query`, by GET and POST.
pub(super) async fn query(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let format = match accepted(&headers) {
        Ok(format) => format,
        Err(fault) => return refused(fault),
    };
    let words = Words::of_request(query.as_deref(), &headers, body, &shared, WORDS).await;
    let asked = words.and_then(|mut words| Asked::of(&mut words, "/query?query=SELECT …"));
    let asked = match asked {
        Ok(asked) => asked,
        Err(fault) => return refused(fault),
    };
    let rows = match asked.run(&shared, &access).await {
        Ok(rows) => rows,
        Err(response) => return response,
    };
    match body_of(format, true, rows, asked.wanted.clone()).await {
        Ok(body) => (StatusCode::OK, [(CONTENT_TYPE, format.media_type())], body).into_response(),
        Err(error) => asked.failed(&error),
    }
}

/// The format that a client likes best (RFC 9110, 12.5.1), of those liked alike the first that it names.
fn accepted(headers: &HeaderMap) -> Result<Format, Fault> {
    let all = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> =
        all.flat_map(|value| value.split(',')).map(str::trim).filter(|range| !range.is_empty()).collect();
    if ranges.is_empty() {
        return Ok(FORMATS[0]);
    }
    let liked = ranges.iter().filter_map(|range| {
        let (range, weight) = weighed(range)?;
        Some((FORMATS.into_iter().find(|format| is_in(*format, range))?, weight))
    });
    // Of those alike `max_by` takes the last.
    let mut liked: Vec<_> = liked.collect();
    liked.reverse();
    let best = liked.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map(|(format, _)| format).ok_or_else(|| {
        let what = format!(
            "nothing of '{}' is written here: application/x-ndjson, application/vnd.apache.arrow.stream or text/csv",
            ranges.join(", ")
        );
        (StatusCode::NOT_ACCEPTABLE, what)
    })
}

/// A range of media types and how much it is liked; `None` where it is not at all.
fn weighed(range: &str) -> Option<(&str, f32)> {
    let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
    let weight = parameters.split(';').find_map(|word| word.trim().strip_prefix("q=")).unwrap_or("1");
    let weight = weight.parse::<f32>().ok().filter(|weight| *weight > 0.0)?;
    Some((range.trim(), weight))
}

fn is_in(format: Format, range: &str) -> bool {
    let own = format.media_type().split(';').next().unwrap_or_default();
    let kind = own.split('/').next().unwrap_or_default();
    let also = match format {
        Format::Ndjson => ["application/ndjson", "application/jsonl"].as_slice(),
        Format::Arrow => ["application/vnd.apache.arrow"].as_slice(),
        Format::Csv | Format::Parquet => [].as_slice(),
    };
    let is = |name: &str| range.eq_ignore_ascii_case(name);
    is("*/*") || is(&format!("{kind}/*")) || is(own) || also.iter().any(|name| is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_likes_best() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header"));
            accepted(&headers).map_err(|(status, _)| status)
        };
        assert_eq!(accepted(&HeaderMap::new()).ok(), Some(Format::Ndjson));
        for (accept, wanted) in [
            ("*/*", Format::Ndjson),
            ("text/csv", Format::Csv),
            ("text/*, application/x-ndjson;q=0.5", Format::Csv),
            (
                "application/json;q=1, application/vnd.apache.arrow.stream;q=0.2, text/csv;q=0.1",
                Format::Arrow,
            ),
            ("text/html, */*;q=0.1", Format::Ndjson),
            ("text/csv, application/vnd.apache.arrow.stream", Format::Csv),
            ("TEXT/CSV; q=0.3", Format::Csv),
        ] {
            assert_eq!(of(accept), Ok(wanted), "{accept}");
        }
        for accept in ["text/html", "text/csv;q=0", "image/*"] {
            assert_eq!(of(accept), Err(StatusCode::NOT_ACCEPTABLE), "{accept}");
        }
    }
}
