//! What all of HTTP shares: bodies, answers in JSON, and who may ask.

use crate::logins::{Credentials, access_by};
use crate::metrics::Counter;
use crate::shared::Shared;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::write::MultiGzDecoder;
use futures::StreamExt;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tickstone_query::audit::Origin;
use tickstone_query::{Access, ErrorKind, QueryError, SqlState};

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// The answer to a request that is wrong.
pub(crate) fn bad_request(what: &str) -> Response {
    json(StatusCode::BAD_REQUEST, &json!({ "error": what }))
}

/// The status of an answer that says that something failed.
pub(crate) fn status_of(error: &QueryError) -> StatusCode {
    match error.sql_state() {
        SqlState::Denied => StatusCode::FORBIDDEN,
        SqlState::Unknown | SqlState::WrongPassword => StatusCode::UNAUTHORIZED,
        _ => status_of_kind(error.kind),
    }
}

/// As [`status_of`], where no more than the kind is known.
pub(crate) fn status_of_kind(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::FixRequest => StatusCode::BAD_REQUEST,
        ErrorKind::Retry => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::FreeSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Report => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What a request is told whose words are not percent-encoded as they should be.
pub(crate) const NOT_PERCENT_ENCODED: &str = "the parameters are not percent-encoded UTF-8: after % stand two hexadecimal digits, %25 is a percent sign";

/// Whether what `%41` and the like stand for is UTF-8 (RFC 3986, 2.1). Readers that pass over what is not put other
/// characters in its place.
pub(crate) fn is_percent_encoded(text: &str) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digit = |place: usize| more.get(place).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return false };
        bytes.push((high * 16 + low) as u8);
        rest = &more[2..];
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// Whether a request says that its body is longer than `most`.
pub(crate) fn is_too_long(headers: &HeaderMap, most: usize) -> bool {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64)
}

/// A body, unpacked where it is packed (gzip), of at most `request_bytes_max`; none of its pieces may keep us waiting for
/// longer than `idle_timeout`.
///
/// # Errors
/// What to answer: where it is longer, late, packed otherwise or no gzip, and where the client is gone.
pub(crate) async fn unpacked(
    body: Body,
    headers: &HeaderMap,
    shared: &Arc<Shared>,
) -> Result<(Vec<u8>, Held), (StatusCode, String)> {
    let settings = &shared.settings;
    let (bytes_max, patience) = (settings.bytes("request_bytes_max"), settings.time("idle_timeout"));
    let too_long = || {
        let what =
            format!("the request is longer than request_bytes_max, {bytes_max} bytes; send it in pieces");
        (StatusCode::PAYLOAD_TOO_LARGE, what)
    };
    if is_too_long(headers, bytes_max) {
        return Err(too_long());
    }
    let unwritten = |error: io::Error| match error.kind() {
        io::ErrorKind::OutOfMemory => {
            let most = settings.text("requests_bytes_max");
            let what = format!("the bodies of all requests take requests_bytes_max, {most}; try again");
            (StatusCode::SERVICE_UNAVAILABLE, what)
        }
        io::ErrorKind::FileTooLarge => too_long(),
        _ => (StatusCode::BAD_REQUEST, format!("the body is no gzip: {error}")),
    };
    let mut chunks = body.into_data_stream();
    let mut next = async || {
        let chunk = chunks.next();
        let chunk = match patience {
            Some(patience) => tokio::time::timeout(patience, chunk).await.map_err(|_| {
                (
                    StatusCode::REQUEST_TIMEOUT,
                    format!("nothing of the body came for {patience:?} (idle_timeout)"),
                )
            })?,
            None => chunk.await,
        };
        chunk
            .transpose()
            .map_err(|error| (StatusCode::BAD_REQUEST, format!("the body ended too soon: {error}")))
    };
    let mut plain = Limited { bytes: Vec::new(), bytes_max, held: Held::none(shared) };
    let packed = headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    match packed.as_deref() {
        None | Some(b"identity" | b"") => {
            while let Some(chunk) = next().await? {
                plain.write_all(&chunk).map_err(unwritten)?;
            }
            Ok((plain.bytes, plain.held))
        }
        Some(b"gzip" | b"x-gzip") => {
            let mut decoder = MultiGzDecoder::new(plain);
            while let Some(chunk) = next().await? {
                decoder.write_all(&chunk).map_err(unwritten)?;
            }
            let plain = decoder.finish().map_err(unwritten)?;
            Ok((plain.bytes, plain.held))
        }
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("Content-Encoding {other} is not read: send gzip or none"),
            ))
        }
    }
}

/// What a body takes of that which all may take, until it goes.
#[derive(Debug)]
pub(crate) struct Held {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Held {
    pub(crate) fn none(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), bytes: 0 }
    }

    /// Takes more, where there is room.
    ///
    /// # Errors
    /// Where there is none; what was asked counts all the same.
    pub(crate) fn grow(&mut self, bytes: usize) -> io::Result<()> {
        let all = self.shared.body_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes += bytes;
        match all > self.shared.settings.bytes("requests_bytes_max") {
            true => Err(io::ErrorKind::OutOfMemory.into()),
            false => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes up to a limit of their own, and to that of all.
struct Limited {
    bytes: Vec<u8>,
    bytes_max: usize,
    held: Held,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.held.grow(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses what another web page asks: on loopback a name that is none of this machine's, which a page can have point here,
/// and everywhere an Origin that is not the host asked, or what a browser says comes of another site (an image, a link, a
/// form have no Origin; see "Fetch Metadata Request Headers", W3C).
pub(crate) async fn guarded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    shared.metrics.add(Counter::HttpRequests, 1);
    if let Some(what) = malformed(&request) {
        return bad_request(what);
    }
    match fault(&request, shared.is_loopback) {
        None => admitted(&shared, request, next).await,
        Some(what) => {
            shared.metrics.add(Counter::HttpForbidden, 1);
            json(StatusCode::FORBIDDEN, &json!({ "error": what }))
        }
    }
}

/// Serves a request as the user that it says it is of ([`credentials`]); anybody's where there are no users, and where it
/// asks no more than whether the server lives.
async fn admitted(shared: &Arc<Shared>, mut request: Request, next: Next) -> Response {
    let told = |error: &QueryError| {
        let status = status_of(error);
        let mut answer = json(status, &json!({ "error": error.to_string() }));
        if status == StatusCode::UNAUTHORIZED {
            let asks = HeaderValue::from_static("Basic realm=\"tickstone\", charset=\"UTF-8\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, asks);
        }
        answer
    };
    let peer = request.extensions().get::<Peer>().cloned();
    let (address, certified) = peer.map(|peer| (peer.address, peer.certified)).unzip();
    let origin = Origin { protocol: protocol_of(request.uri().path()), address };
    let access = match shared.database.has_users() {
        Ok(false) => Ok(Access::of_nobody(&shared.database).from(origin)),
        Ok(true) if matches!(request.uri().path(), "/ping" | "/health" | "/ready" | "/settings") => {
            return next.run(request).await;
        }
        Ok(true) => match credentials(&request, certified.flatten()) {
            Some(credentials) => {
                // A request is a connection as long as it is answered.
                let connects = matches!(origin.protocol, "websocket" | "qwp");
                let access = access_by(shared, credentials, origin, connects).await;
                if connects { access } else { access.and_then(Access::seated) }
            }
            None => {
                let what = "this server wants to know who asks: send a user and a password, or a token";
                Err(QueryError::request(what).state(SqlState::Unknown))
            }
        },
        Err(error) => Err(error),
    };
    match access {
        Ok(access) => {
            request.extensions_mut().insert(access.clone());
            let mut answer = next.run(request).await;
            answer.extensions_mut().insert(access);
            answer
        }
        Err(error) => {
            shared.metrics.add(Counter::LoginsRefused, 1);
            told(&error)
        }
    }
}

/// The protocol of a path, as the audit log has it.
fn protocol_of(path: &str) -> &'static str {
    match path {
        "/mcp" => "mcp",
        "/subscribe" => "websocket",
        "/write/v4" | "/api/v4/write" | "/read/v1" | "/api/v1/read" => "qwp",
        _ => "http",
    }
}

/// The client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// As [`crate::transport::Transport::certified`].
    pub(crate) certified: Option<Arc<str>>,
}

/// What a request says who it is by: `Authorization: Basic`, `Bearer` or, of InfluxDB's clients, `Token`; the parameters
/// `u` and `p` of InfluxDB's version 1; where it says nothing, the certificate of its connection.
fn credentials(request: &Request, certified: Option<Arc<str>>) -> Option<Credentials> {
    if let Some(value) = request.headers().get(AUTHORIZATION) {
        return Credentials::of_header(value.to_str().ok()?);
    }
    let words = || -> Option<Credentials> {
        let words: Vec<(String, String)> = serde_urlencoded::from_str(request.uri().query()?).ok()?;
        let named = |name: &str| words.iter().find(|(word, _)| word == name).map(|(_, value)| value.clone());
        Some(Credentials::Password { user: named("u")?, password: named("p")? })
    };
    words().or_else(|| certified.map(Credentials::Certificate))
}

/// What is wrong with the head of a request: its host (RFC 9112, 3.2), who asks, or its parameters.
fn malformed(request: &Request) -> Option<&'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => {
            return Some("the request names no host (Host)");
        }
        (_, Some(_)) => return Some("the request names two hosts (Host)"),
        (Some(host), None) if host.to_str().is_err() => return Some("the host is not ASCII (Host)"),
        _ => {}
    }
    if request.headers().get_all(AUTHORIZATION).iter().nth(1).is_some() {
        return Some("the request says twice who asks (Authorization)");
    }
    let words = request.uri().query().unwrap_or_default();
    (!is_percent_encoded(words)).then_some(NOT_PERCENT_ENCODED)
}

/// Why a request is not served. The host in its first line, where there is one, comes before the header.
fn fault(request: &Request, is_loopback: bool) -> Option<String> {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = request.uri().authority().map(|authority| authority.as_str()).or_else(|| text(HOST));
    match (host, text(ORIGIN)) {
        (Some(host), _) if is_loopback && !is_own(host) => {
            Some(format!("the host '{host}' is not served here: ask localhost or its address"))
        }
        (host, Some(origin)) if !is_same(origin, host) => {
            Some(format!("web pages of '{origin}' may not ask this server"))
        }
        _ if matches!(text(HeaderName::from_static("sec-fetch-site")), Some("cross-site" | "same-site")) => {
            Some("web pages of other hosts may not ask this server".to_string())
        }
        _ => None,
    }
}

/// The name or address in `host:port`.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_own(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a page comes from the host that it asks.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let page = origin.split_once("://").map(|(_, page)| page);
    page.is_some() && page == host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding() {
        for text in ["", "query=SELECT+1", "a=%C3%A9&b=%25", "%e2%82%ac", "é", "a%00b"] {
            assert!(is_percent_encoded(text), "{text}");
        }
        for text in ["%FF", "a=%", "a=%2", "a=%ZZ", "a=%C3&b=%A9", "%C3+%A9", "%ED%A0%80", "%C0%80", "%+1"] {
            assert!(!is_percent_encoded(text), "{text}");
        }
    }

    #[test]
    fn hosts_and_origins() {
        for own in ["localhost", "localhost:9000", "127.0.0.1:9000", "[::1]:9000", "LOCALHOST:1", "127.8.9.1"]
        {
            assert!(is_own(own), "{own}");
        }
        for other in ["evil.example", "evil.example:9000", "10.0.0.1:9000", "localhost.evil.example", ""] {
            assert!(!is_own(other), "{other}");
        }
        assert!(is_same("http://localhost:9000", Some("localhost:9000")));
        assert!(!is_same("http://evil.example", Some("localhost:9000")));
        assert!(!is_same("null", Some("localhost:9000")));
        assert!(!is_same("http://localhost:9000", None));
    }
}
