//! A server over a database in memory, asked over its sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod catalog;
mod disk;
mod flight;
mod http;
mod ilp;
mod imp;
mod long_texts;
mod mcp;
mod pg;
mod qwp;
mod rest;
mod slow_readers;
mod stream;
mod tls;
mod tls_clients;
mod unproven;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tickstone_query::{Database, DatabaseOptions};
use tickstone_server::Server;
use tickstone_server::settings::{Origin, Settings};

/// How long anything may take that has an end.
const PATIENCE: Duration = Duration::from_secs(20);

struct Served {
    database: Database,
    server: Option<Server>,
}

impl Served {
    fn new(settings: &[(&str, &str)]) -> Self {
        let database = Database::in_memory(DatabaseOptions::default()).expect("a database");
        Self::over(database, settings)
    }

    fn over(database: Database, settings: &[(&str, &str)]) -> Self {
        let mut all = Settings::default();
        for port in ["http_port", "influx_port", "pg_port", "flight_port", "ilp_port", "stream_port"] {
            all.set(port, "0", Origin::Flag).expect("a port");
        }
        for (name, value) in settings {
            all.set(name, value, Origin::Flag).expect("a setting");
        }
        let server = Server::start(database.clone(), all).expect("it starts");
        Self { database, server: Some(server) }
    }

    fn address(&self, port: &str) -> SocketAddr {
        let server = self.server.as_ref().expect("it runs");
        let found = server.addresses().iter().find(|(name, _)| *name == port);
        found.map(|(_, address)| *address).expect("the port is bound")
    }

    fn connect(&self, port: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// The one number that a statement gives.
    fn number(&self, sql: &str) -> Option<i64> {
        let mut session = self.database.session();
        let batches = self.database.runtime().block_on(session.query(sql)).ok()?;
        let batch = batches.first()?;
        use tickstone_query::arrow::array::AsArray;
        use tickstone_query::arrow::datatypes::Int64Type;
        batch.column(0).as_primitive_opt::<Int64Type>()?.values().first().copied()
    }

    /// Waits until a statement gives a number.
    #[track_caller]
    fn wait_for(&self, sql: &str, wanted: i64) {
        let begun = Instant::now();
        while self.number(sql) != Some(wanted) {
            assert!(begun.elapsed() < PATIENCE, "{sql} gives {:?}, not {wanted}", self.number(sql));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a request and reads the whole answer: its status, and what stands behind its head.
    fn ask(&self, port: &str, request: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect(port);
        let (first, more) = request.split_once('\n').unwrap_or((request, ""));
        let more: String = more.lines().map(|line| format!("{line}\r\n")).collect();
        let head = format!(
            "{first} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(body).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_string(),
        };
        (status, body)
    }

    fn exec(&self, sql: &str) -> (u16, String) {
        let sql: String = sql
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        self.ask("http_port", &format!("GET /exec?query={sql}"), b"")
    }

    /// Carries out a statement that must succeed.
    #[track_caller]
    fn done(&self, sql: &str) {
        let (status, answer) = self.exec(sql);
        assert_eq!(status, 200, "{sql}: {answer}");
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.ask("http_port", "GET /metrics", b"");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("tickstone_{name} ")));
        line.and_then(|value| value.parse().ok()).expect(name)
    }

    /// Waits until a metric has a value; that of open connections counts the one that asks.
    #[track_caller]
    fn wait_for_metric(&self, name: &str, wanted: u64) {
        let begun = Instant::now();
        while self.metric(name) != wanted {
            assert!(begun.elapsed() < PATIENCE, "{name} is {}, not {wanted}", self.metric(name));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The body of an answer in chunks; it must end with the empty one.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let Some((size, rest)) = body.split_once("\r\n") else { return whole + " (cut off)" };
        let size = usize::from_str_radix(size, 16).expect("a chunk");
        if size == 0 {
            return whole;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
}
