//! Valid beginnings of connections, byte for byte: each way to log in at each port, and requests without a login.
//!
//! A beginning is built from credentials. With those of the admin the server answers as [`Beginning::shows`] says, which
//! proves that the bytes are valid. The fuzz test changes beginnings that are built from wrong credentials.

use super::{NAME, VALUE};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::rand::SystemRandom;
use ring::signature::EcdsaKeyPair;
use ring::{digest, hmac, pbkdf2};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::Write;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The credentials of a client.
#[derive(Clone)]
pub(super) struct Who {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) token: String,
    pub(super) key: Arc<EcdsaKeyPair>,
    /// For a ClientHello.
    pub(super) tls: Arc<ClientConfig>,
}

impl Who {
    pub(super) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, self.password)))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

/// One thing that a client sends.
pub(super) enum Step {
    Say(Vec<u8>),
    /// Computes what to send from all bytes that came so far; `None` until enough came.
    Answer(Box<Answer>),
}

type Answer = dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// A way to begin.
pub(super) struct Beginning {
    pub(super) name: &'static str,
    pub(super) port: &'static str,
    pub(super) steps: fn(&Who) -> Vec<Step>,
    /// Bytes that the admin gets back.
    pub(super) shows: &'static [u8],
}

const fn of(
    port: &'static str,
    name: &'static str,
    shows: &'static [u8],
    steps: fn(&Who) -> Vec<Step>,
) -> Beginning {
    Beginning { name, port, steps, shows }
}

/// The begin of a TLS record of a handshake.
const HANDSHAKE: &[u8] = &[0x16, 3];

/// Every beginning.
pub(super) const ALL: &[Beginning] = &[
    of("pg_port", "SCRAM", VALUE.as_bytes(), |who| scram(who, "SCRAM-SHA-256", "n", startup(who, 0, &[]))),
    of("pg_port", "SCRAM after GSSENCRequest", NAME.as_bytes(), |who| {
        let first = [special(80_877_104), startup(who, 0, &[])].concat();
        scram(who, "SCRAM-SHA-256", "y", first)
    }),
    of("pg_port", "SCRAM bound to a channel", b"08P01", |who| {
        scram(who, "SCRAM-SHA-256-PLUS", "p=tls-server-end-point", startup(who, 0, &[]))
    }),
    of("pg_port", "protocol 3.2, options", b"_pq_.more", |who| {
        let more = [
            ("options", "-c statement_timeout=1s --search_path=a\\ b -c DateStyle=ISO,DMY"),
            ("client_encoding", "UTF8"),
            ("TimeZone", "Europe/Vienna"),
            ("replication", "off"),
            ("_pq_.more", "1"),
        ];
        scram(who, "SCRAM-SHA-256", "n", startup(who, 2, &more))
    }),
    of("pg_port", "all at once", b"SCRAM-SHA-256", |who| {
        let all = [startup(who, 0, &[]), sasl_first("SCRAM-SHA-256", "n"), sasl_last(), asked_of_postgres()];
        vec![Step::Say(all.concat())]
    }),
    of("pg_port", "a password in the clear", b"R", |who| {
        let password = message(b'p', &[who.password.as_bytes(), b"\0"].concat());
        vec![Step::Say(startup(who, 0, &[])), Step::Say([password, asked_of_postgres()].concat())]
    }),
    of("pg_port", "statements at once", b"R", |who| {
        vec![Step::Say([startup(who, 0, &[]), asked_of_postgres()].concat())]
    }),
    of("pg_port", "CancelRequest", b"", |_| {
        let numbers = [80_877_102_u32, 1, 2].map(u32::to_be_bytes).concat();
        vec![Step::Say([&16_u32.to_be_bytes()[..], &numbers].concat())]
    }),
    of("pg_port", "SSLRequest", HANDSHAKE, |who| {
        let hello = hello(who);
        let answer = move |came: &[u8]| (came == b"S").then(|| hello.clone());
        vec![Step::Say(special(80_877_103)), Step::Answer(Box::new(answer))]
    }),
    of("pg_port", "TLS", HANDSHAKE, |who| vec![Step::Say(hello(who))]),
    of("http_port", "GET /exec, Basic", VALUE.as_bytes(), |who| {
        said(http(&format!("GET /exec?query={ROWS}"), &[&auth(&who.basic())], b""))
    }),
    of("http_port", "GET /exp, Bearer", NAME.as_bytes(), |who| {
        said(http("GET /exp?query=SHOW%20TABLES&fmt=csv", &[&auth(&who.bearer())], b""))
    }),
    of("http_port", "POST /query, Token", VALUE.as_bytes(), |who| {
        let token = auth(&format!("Token {}:{}", who.user, who.password));
        let kind = "Content-Type: application/x-www-form-urlencoded";
        said(http("POST /query", &[&token, kind], format!("query={ROWS}").as_bytes()))
    }),
    of("http_port", "GET /metrics, u and p", b"tickstone_connections_open", |who| {
        said(http(&format!("GET /metrics?u={}&p={}", who.user, who.password), &[], b""))
    }),
    of("http_port", "Authorization twice", b"400 Bad Request", |who| {
        let (basic, bearer) = (auth(&who.basic()), auth(&who.bearer()));
        said(http(&format!("GET /exec?query={ROWS}"), &[&basic, &bearer], b""))
    }),
    of("http_port", "POST /write, gzip", b"204 No Content", |who| {
        let body = gzip(&b"made,a=b x=1,y=\"z\" 1\nmade x=2i 2\n".repeat(20));
        said(http("POST /write?precision=ns", &[&auth(&who.basic()), "Content-Encoding: gzip"], &body))
    }),
    of("http_port", "POST /api/v3/write_lp, chunked", b"204 No Content", |who| {
        let chunks = b"5;more=\"x\"\r\nmade \r\n8\r\nx=1i 1\nm\r\nA\r\nade x=2i 2\r\n0\r\nMore: y\r\n\r\n";
        let head = ["Host: localhost", &auth(&who.bearer()), "Transfer-Encoding: chunked", "TE: trailers"];
        said([head_of("POST /api/v3/write_lp?accept_partial=true", &head).as_bytes(), chunks].concat())
    }),
    of("http_port", "Content-Length twice", b"400 Bad Request", |who| {
        let head = ["Host: localhost", &auth(&who.basic()), "Content-Length: 9", "Content-Length: 90"];
        said([head_of("POST /write", &head).as_bytes(), b"made x=1\n"].concat())
    }),
    of("http_port", "Content-Length beside chunks", b"HTTP/1.1 ", |who| {
        // Request smuggling: by the chunks the body ends before `hidden`, by Content-Length within it.
        let hidden = http(&format!("GET /exec?query={ROWS}"), &[], b"");
        let head =
            ["Host: localhost", &auth(&who.basic()), "Content-Length: 5", "Transfer-Encoding: chunked"];
        said([head_of("POST /write", &head).as_bytes(), b"0\r\n\r\n", &hidden].concat())
    }),
    of("http_port", "POST /imp, multipart", b"imported", |who| {
        let body = "--edge\r\nContent-Disposition: form-data; name=\"data\"; filename=\"x.csv\"\r\n\r\n\
                    ts,x\n2024-01-01T00:00:00Z,1\n\r\n--edge--\r\n";
        let kind = "Content-Type: multipart/form-data; boundary=edge";
        said(http("POST /imp?name=imported", &[&auth(&who.basic()), kind], body.as_bytes()))
    }),
    of("http_port", "POST /mcp", b"jsonrpc", |who| {
        let body = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}";
        let more = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
        said(http("POST /mcp", &[&auth(&who.bearer()), more[0], more[1]], body))
    }),
    of("http_port", "/subscribe", b"101 Switching", |who| {
        let ask = format!("{{\"op\":\"subscribe\",\"id\":\"1\",\"query\":\"{}\"}}", plain(ROWS));
        socket("/subscribe", who, 0x81, ask.as_bytes())
    }),
    of("http_port", "/write/v4", b"101 Switching", |who| socket("/write/v4", who, 0x82, &[7; 30])),
    of("http_port", "/read/v1", b"101 Switching", |who| socket("/read/v1", who, 0x82, &[1; 30])),
    of("http_port", "100-continue", VALUE.as_bytes(), |who| {
        let body = format!("query={ROWS}");
        let length = format!("Content-Length: {}", body.len());
        let form = "Content-Type: application/x-www-form-urlencoded";
        let head = ["Host: localhost", &auth(&who.basic()), form, &length, "Expect: 100-continue"];
        let answer = move |came: &[u8]| (!came.is_empty()).then(|| body.clone().into_bytes());
        vec![Step::Say(head_of("POST /exec", &head).into_bytes()), Step::Answer(Box::new(answer))]
    }),
    of("http_port", "requests behind one that is served to all", b"HTTP/1.1 204", |_| {
        let asks = [format!("GET /exec?query={ROWS}"), "POST /write".into(), "GET /metrics".into()];
        let asks = asks.map(|ask| http(&ask, &["Origin: http://localhost"], b"made x=1 1\n"));
        said([http("GET /ping?verbose=true", &[], b""), asks.concat()].concat())
    }),
    of("http_port", "what is served to all", b"tickstone", |_| {
        let paths = ["GET /health", "HEAD /ping", "GET /ready?x=%41", "POST /settings", "GET /%2e%2e/exec"];
        said(paths.map(|path| http(path, &[], b"")).concat())
    }),
    of("http_port", "the whole address, HTTP/1.0", VALUE.as_bytes(), |who| {
        let first = format!("GET http://localhost/exec?query={ROWS} HTTP/1.0\r\n");
        said(format!("{first}{}\r\n\r\n", auth(&who.basic())).into_bytes())
    }),
    of("http_port", "HTTP/2", b"", |_| said(PREFACE.repeat(2))),
    of("http_port", "TLS", HANDSHAKE, |who| said(hello(who))),
    of("influx_port", "POST /write, u and p", b"204 No Content", |who| {
        let path = format!("POST /write?db=x&precision=s&u={}&p={}", who.user, who.password);
        said(http(&path, &["Content-Type: text/plain"], b"made,a=b x=1 1\n"))
    }),
    of("influx_port", "POST /api/v2/write, Token", b"204 No Content", |who| {
        let token = auth(&format!("Token {}", who.token));
        let body = gzip(b"made,a=b x=1 1\n");
        said(http("POST /api/v2/write?bucket=x&org=y", &[&token, "Content-Encoding: gzip"], &body))
    }),
    of("influx_port", "GET /query", b"HTTP/1.1 ", |who| {
        said(http("GET /query?q=SHOW%20DATABASES&db=x", &[&auth(&who.basic())], b""))
    }),
    of("influx_port", "TLS", HANDSHAKE, |who| said(hello(who))),
    of("ilp_port", "a signature", b"", |who| {
        let key = Arc::clone(&who.key);
        let answer = move |came: &[u8]| {
            let challenge = came.strip_suffix(b"\n")?;
            let signature = key.sign(&SystemRandom::new(), challenge).ok()?;
            Some([STANDARD.encode(signature).as_bytes(), b"\nmade,a=b x=1,y=\"z\" 1\nmade x=2 2\n"].concat())
        };
        vec![Step::Say(format!("{}\n", who.user).into_bytes()), Step::Answer(Box::new(answer))]
    }),
    of("ilp_port", "all at once", b"\n", |who| {
        let signature = STANDARD.encode([7; 64]);
        said(format!("{}\n{signature}\nmade,a=b x=1 1\n", who.user).into_bytes())
    }),
    of("ilp_port", "lines alone", b"\n", |_| said(b"made,a=b x=1,y=\"z\" 1\nmade x=2i 2\n".repeat(3))),
    of("ilp_port", "a long name", b"", |_| said(vec![b'x'; 600])),
    of("ilp_port", "TLS", HANDSHAKE, |who| said(hello(who))),
    of("stream_port", "a token", b"a document", |who| {
        let first = [request(7, who.bearer().as_bytes()), request(1, b"\0\x04made")].concat();
        stream(first, |id| [append(id, b"a document"), request(4, &[&id[..], &[0; 8]].concat())].concat())
    }),
    of("stream_port", "a password", VALUE.as_bytes(), |who| {
        let first = [request(0, b""), request(7, who.basic().as_bytes()), request(5, b"s")].concat();
        stream(first, |id| {
            let all = [&id[..], &[0; 8], &[255; 8]].concat();
            [append(id, b""), request(3, &all), request(6, &[&id[..], &[255; 8]].concat())].concat()
        })
    }),
    of("stream_port", "nothing", b"", |_| stream(request(5, b"s"), |id| append(id, b"a document"))),
    of("stream_port", "documents at once", b"", |_| said(append(&[0, 1], b"a document").repeat(5))),
    of("stream_port", "questions at once", b"", |_| {
        let all = [&[0, 1][..], &[0; 8], &[255; 8]].concat();
        said([request(3, &all), request(4, &all[..10]), request(6, &all[..10])].concat())
    }),
    of("stream_port", "TLS", HANDSHAKE, |who| said(hello(who))),
    of("flight_port", "DoGet, Basic", VALUE.as_bytes(), |who| {
        flight("DoGet", Some(&who.basic()), &ticket(&plain(ROWS)))
    }),
    of("flight_port", "Handshake", b"Bearer tickstone", |who| {
        flight("Handshake", Some(&who.basic()), &[0, 0, 0, 0, 0])
    }),
    of("flight_port", "DoGet, a password of a handshake", VALUE.as_bytes(), |who| {
        let token = who.basic().replacen("Basic ", "Bearer basic-", 1);
        flight("DoGet", Some(&token), &ticket(&plain(ROWS)))
    }),
    of("flight_port", "ListFlights, Bearer", NAME.as_bytes(), |who| {
        flight("ListFlights", Some(&who.bearer()), &[0, 0, 0, 0, 0])
    }),
    of("flight_port", "DoGet, nobody", &[0, 0], |_| flight("DoGet", None, &ticket(&plain(ROWS)))),
    of("flight_port", "DoPut, nobody", &[0, 0], |_| {
        flight("DoPut", None, &[0, 0, 0, 0, 8, 0x0a, 6, 0x1a, 4, b'm', b'a', b'd', b'e'])
    }),
    of("flight_port", "no gRPC", &[0, 0], |who| {
        let block = headers(&[("content-type", "text/html"), ("authorization", &who.basic())]);
        said([opened(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)].concat())
    }),
    of("flight_port", "HPACK bomb", &[0, 0], |_| {
        // A long header goes into the dynamic table, then each byte refers to it.
        let long = [&[0x40, 1, b'x'][..], &[0x7f, 0x81, 0x1e], &[b'y'; 4_000]].concat();
        let block = [headers(&[]), long, vec![0x80 | 62; 12_000]].concat();
        said([opened(), frame(HEADERS, END_HEADERS, 1, &block)].concat())
    }),
    of("flight_port", "CONTINUATION without an end", &[0, 0], |_| {
        let more = frame(CONTINUATION, 0, 1, &headers(&[("x", "y")])[3..]);
        said([opened(), frame(HEADERS, 0, 1, &headers(&[])), more.repeat(500)].concat())
    }),
    of("flight_port", "many settings", &[0, 0], |_| {
        let most = [1_u16, 3, 4, 5, 6].map(|setting| {
            let value = [u32::MAX, 1, i32::MAX as u32, 1 << 23, 0][usize::from(setting) % 5];
            [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat()
        });
        let large = frame(SETTINGS, 0, 0, &most[0].repeat(2_000));
        said([opened(), large, frame(SETTINGS, 0, 0, &most.concat()).repeat(100)].concat())
    }),
    of("flight_port", "requests that are taken back", &[0, 0], |_| {
        let one = |stream: u32| {
            let head = frame(HEADERS, END_HEADERS, stream, &grpc("DoGet", None));
            [head, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        said([opened(), (0..300).flat_map(|number| one(2 * number + 1)).collect()].concat())
    }),
    of("flight_port", "frames that mean little", &[0, 0], |_| {
        let nothing = [
            frame(PING, 0, 0, &[7; 8]).repeat(100),
            frame(WINDOW_UPDATE, 0, 0, &i32::MAX.to_be_bytes()),
            frame(PRIORITY, 0, 3, &[0, 0, 0, 3, 9]),
            frame(0xbe, 0xff, 9, b"unknown"),
            frame(DATA, 0x08, 1, &[9, 0]),
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
            frame(GOAWAY, 0, 0, &[0; 8]),
        ];
        said([opened(), nothing.concat()].concat())
    }),
    of("flight_port", "HTTP/1.1", b"", |who| said(http("GET /exec", &[&auth(&who.basic())], b""))),
    of("flight_port", "TLS", HANDSHAKE, |who| said(hello(who))),
];

/// A query, percent-encoded, whose rows have the canary value.
const ROWS: &str = "SELECT%20*%20FROM%20t";

fn plain(sql: &str) -> String {
    sql.replace("%20", " ")
}

fn said(bytes: Vec<u8>) -> Vec<Step> {
    vec![Step::Say(bytes)]
}

/// A ClientHello.
fn hello(who: &Who) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(&who.tls), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

// PostgreSQL

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
}

fn startup(who: &Who, minor: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = ((3 << 16) | minor).to_be_bytes().to_vec();
    let own = [("user", who.user.as_str()), ("database", "qdb"), ("application_name", "x")];
    for (name, value) in own.iter().chain(more) {
        body.extend(format!("{name}\0{value}\0").into_bytes());
    }
    body.push(0);
    message(0, &body)[1..].to_vec()
}

/// A startup message that is a request code alone.
fn special(code: u32) -> Vec<u8> {
    [8, code].map(u32::to_be_bytes).concat()
}

fn asked_of_postgres() -> Vec<u8> {
    message(b'Q', b"SELECT * FROM t; SHOW TABLES\0")
}

fn sasl_first(mechanism: &str, binding: &str) -> Vec<u8> {
    let first = format!("{binding},,{FIRST}");
    let length = u32::try_from(first.len()).unwrap().to_be_bytes();
    message(b'p', &[mechanism.as_bytes(), b"\0", &length, first.as_bytes()].concat())
}

/// A client-final message with a wrong proof.
fn sasl_last() -> Vec<u8> {
    message(b'p', format!("c=biws,r=rOprNGfwEbeRWgbNEkqO,p={}", STANDARD.encode([7; 32])).as_bytes())
}

/// The client-first message of SCRAM without its GS2 header.
const FIRST: &str = "n=,r=rOprNGfwEbeRWgbNEkqO";

/// The body of the newest message `AuthenticationSASL…` of a kind.
fn told_to_go_on(came: &[u8], step: u32) -> Option<&[u8]> {
    let place = memchr::memmem::rfind(came, &step.to_be_bytes())?;
    let head = came.get(place.checked_sub(5)?..place)?;
    let length = u32::from_be_bytes(head[1..].try_into().ok()?) as usize;
    came.get(place + 4..place.checked_add(length)?.checked_sub(4)?).filter(|_| head[0] == b'R')
}

fn scram(who: &Who, mechanism: &'static str, binding: &'static str, first: Vec<u8>) -> Vec<Step> {
    let password = who.password.clone();
    let begin = move |came: &[u8]| {
        told_to_go_on(came, 10)?;
        Some(sasl_first(mechanism, binding))
    };
    let finish = move |came: &[u8]| {
        let challenge = std::str::from_utf8(told_to_go_on(came, 11)?).ok()?;
        let last = proof(&password, binding, challenge).unwrap_or_default();
        Some([message(b'p', last.as_bytes()), asked_of_postgres()].concat())
    };
    vec![Step::Say(first), Step::Answer(Box::new(begin)), Step::Answer(Box::new(finish))]
}

/// The client-final message of SCRAM (RFC 5802, section 3).
fn proof(password: &str, binding: &str, challenge: &str) -> Option<String> {
    let mut words = challenge.split(',');
    let nonce = words.next()?;
    let salt = STANDARD.decode(words.next()?.strip_prefix("s=")?).ok()?;
    let iterations = words.next()?.strip_prefix("i=")?.parse::<NonZeroU32>().ok()?;
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let client = sign(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let without = format!("c={},{nonce}", STANDARD.encode(format!("{binding},,")));
    let signature = sign(stored.as_ref(), format!("{FIRST},{challenge},{without}").as_bytes());
    let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    Some(format!("{without},p={}", STANDARD.encode(proof)))
}

// HTTP

fn auth(value: &str) -> String {
    format!("Authorization: {value}")
}

fn head_of(first: &str, headers: &[&str]) -> String {
    format!("{first} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"))
}

/// A request with Content-Length.
pub(super) fn http(first: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    let head = [&["Host: localhost", &length][..], headers].concat();
    [head_of(first, &head).as_bytes(), body].concat()
}

/// A request to upgrade to WebSocket, and a first message.
fn socket(path: &str, who: &Who, kind: u8, payload: &[u8]) -> Vec<Step> {
    let head = [
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        &auth(&who.basic()),
    ];
    // The mask is four zeros.
    let length = 0x80 | u8::try_from(payload.len()).unwrap();
    let first = [&[kind, length, 0, 0, 0, 0][..], payload].concat();
    vec![Step::Say([head_of(&format!("GET {path}"), &head).as_bytes(), &first].concat())]
}

// Raw streams

fn request(command: u16, payload: &[u8]) -> Vec<u8> {
    [&u32::try_from(payload.len()).unwrap().to_be_bytes()[..], &command.to_be_bytes(), payload].concat()
}

fn append(id: &[u8; 2], document: &[u8]) -> Vec<u8> {
    request(2, &[id, document].concat())
}

/// Requests that end with one to open a stream, and those that follow once its id came.
fn stream(first: Vec<u8>, then: fn(&[u8; 2]) -> Vec<u8>) -> Vec<Step> {
    let answer = move |came: &[u8]| came.first_chunk().map(then);
    vec![Step::Say(first), Step::Answer(Box::new(answer))]
}

// Flight: HTTP/2 (RFC 9113) and HPACK (RFC 7541)

const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The acknowledgement of the server's settings, which hold from then on.
pub(super) fn agreed() -> Vec<u8> {
    frame(SETTINGS, 1, 0, &[])
}

/// The connection preface.
pub(super) fn opened() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A literal header field without indexing or Huffman code.
fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

/// A string literal of HPACK: its length with a prefix of seven bits, and its bytes.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match text.len().checked_sub(127) {
        None => bytes.push(text.len() as u8),
        Some(mut more) => {
            bytes.push(127);
            while more >= 128 {
                bytes.push((more % 128) as u8 | 128);
                more /= 128;
            }
            bytes.push(more as u8);
        }
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// The header block of a POST.
fn headers(more: &[(&str, &str)]) -> Vec<u8> {
    // Of the static table: ":method: POST", ":scheme: http".
    let mut block = vec![0x83, 0x86];
    let path = "/arrow.flight.protocol.FlightService/DoGet";
    let own = [(":path", path), (":authority", "localhost")];
    let has_path = more.iter().any(|(name, _)| *name == ":path");
    let own = own.iter().filter(|(name, _)| !(has_path && *name == ":path"));
    let (pseudo, plain): (Vec<_>, Vec<_>) = own.chain(more).partition(|(name, _)| name.starts_with(':'));
    pseudo.iter().chain(&plain).for_each(|(name, value)| block.extend(literal(name, value)));
    block
}

/// The header block of a call of gRPC.
pub(super) fn grpc(call: &str, authorization: Option<&str>) -> Vec<u8> {
    let path = format!("/arrow.flight.protocol.FlightService/{call}");
    let mut all = vec![(":path", path.as_str()), ("content-type", "application/grpc"), ("te", "trailers")];
    all.extend(authorization.map(|value| ("authorization", value)));
    headers(&all)
}

/// A connection with one call and its message.
pub(super) fn flight(call: &str, authorization: Option<&str>, message: &[u8]) -> Vec<Step> {
    let head = frame(HEADERS, END_HEADERS, 1, &grpc(call, authorization));
    said([opened(), head, frame(DATA, END_STREAM, 1, message)].concat())
}

pub(super) fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, bytes)
}

pub(super) fn call_head(stream: u32, call: &str, authorization: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &grpc(call, Some(authorization)))
}

/// A `Ticket` with a query, as a message of gRPC.
pub(super) fn ticket(sql: &str) -> Vec<u8> {
    let length = u8::try_from(sql.len()).unwrap();
    [&[0, 0, 0, 0, length + 2, 0x0a, length][..], sql.as_bytes()].concat()
}
