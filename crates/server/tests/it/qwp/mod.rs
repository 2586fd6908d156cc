//! QWP over WebSocket, by a client that writes its frames itself.

mod connections;
mod queries;
mod rows;

use crate::Served;
use std::io::{Read, Write};
use std::net::TcpStream;

const BINARY: u8 = 2;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const OK: u8 = 0;
const SCHEMA_MISMATCH: u8 = 3;
const PARSE_ERROR: u8 = 5;
const WRITE_ERROR: u8 = 9;
const CANCELLED: u8 = 10;
const QUERY_TIMEOUT: u8 = 14;

const BATCH: u8 = 0x11;
const END: u8 = 0x12;
const ERROR: u8 = 0x13;
const DONE: u8 = 0x16;
const SERVER_INFO: u8 = 0x18;

/// A statement that takes as long as it may.
const LONG: &str =
    "SELECT count(*) FROM range(0, 100000000) a JOIN range(0, 100000000) b ON a.value + 1 < b.value";

/// A WebSocket.
pub(super) struct Socket {
    stream: TcpStream,
    head: String,
}

impl Socket {
    fn open(served: &Served, path: &str) -> Self {
        match Self::asked(served, path, "") {
            Ok(socket) => socket,
            Err(answer) => panic!("{path}: {answer}"),
        }
    }

    /// A socket, or what else was answered; `more` are lines of the request's head.
    fn asked(served: &Served, path: &str, more: &str) -> Result<Self, String> {
        let mut stream = served.connect("http_port");
        let host = if more.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let head = format!(
            "GET {path} HTTP/1.1\r\n{host}Connection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it answers");
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        match head.starts_with("http/1.1 101") {
            true => Ok(Self { stream, head }),
            false => Err(head),
        }
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        self.stream.write_all(&frame(opcode, payload)).expect("it reads");
    }

    fn rows(&mut self, message: &[u8]) {
        self.send(BINARY, message);
    }

    /// The next frame; `None` at the end.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).ok()?;
                u16::from_be_bytes(length).into()
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).ok()?;
                usize::try_from(u64::from_be_bytes(length)).expect("a length")
            }
            short => short.into(),
        };
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        Some((head[0] & 0x0f, payload))
    }

    /// The next message.
    #[track_caller]
    fn message(&mut self) -> Vec<u8> {
        match self.next() {
            Some((BINARY, message)) => message,
            other => panic!("no message but {other:?}"),
        }
    }

    /// An answer to rows: its status, the number of the message, and its text.
    #[track_caller]
    fn answer(&mut self) -> (u8, u64, String) {
        let message = self.message();
        let sequence = u64::from_le_bytes(message[1..9].try_into().expect("eight"));
        let text = if message[0] == OK { &[][..] } else { &message[11..] };
        (message[0], sequence, String::from_utf8_lossy(text).into_owned())
    }

    /// Reads acknowledgements up to that of a message.
    #[track_caller]
    fn acknowledged(&mut self, wanted: u64) {
        loop {
            let (status, sequence, text) = self.answer();
            assert!(status == OK && sequence <= wanted, "{status} to {sequence}, not {wanted}: {text}");
            if sequence == wanted {
                return;
            }
        }
    }

    /// The code that the socket is closed with.
    #[track_caller]
    fn closed(&mut self) -> u16 {
        let (opcode, payload) = self.next().expect("a Close");
        assert_eq!(opcode, CLOSE);
        assert_eq!(self.stream.write(&frame(CLOSE, &payload[..2])).ok(), Some(8));
        assert!(self.next().is_none(), "nothing follows a Close");
        u16::from_be_bytes([payload[0], payload[1]])
    }

    pub(super) fn ask(&mut self, id: i64, sql: &str) {
        self.send(BINARY, &query(id, sql, 0, None));
    }

    /// The next message of a query: its kind, its query, what follows.
    #[track_caller]
    fn result(&mut self) -> (u8, i64, Vec<u8>) {
        let message = self.message();
        assert_eq!(&message[..4], b"QWP1");
        let id = message.get(13..21).map_or(-1, |id| i64::from_le_bytes(id.try_into().expect("eight")));
        (message[12], id, message.get(21..).unwrap_or_default().to_vec())
    }

    /// The error that a query ends with; batches before it are passed over.
    #[track_caller]
    fn error(&mut self, wanted: i64) -> (u8, String) {
        loop {
            let (kind, id, rest) = self.result();
            assert_eq!(id, wanted);
            if kind == ERROR {
                return (rest[0], String::from_utf8_lossy(&rest[3..]).into_owned());
            }
            assert_eq!(kind, BATCH);
        }
    }

    /// How many rows and bytes the batches of a query have.
    #[track_caller]
    fn rows_of(&mut self, wanted: i64) -> (u64, Vec<usize>) {
        let mut batches = Vec::new();
        loop {
            let (kind, id, rest) = self.result();
            assert_eq!(id, wanted);
            match kind {
                BATCH => batches.push(rest.len() + 21),
                END => return (varint(&rest[varint_bytes(&rest)..]), batches),
                other => panic!("a message of kind {other:#x}: {}", String::from_utf8_lossy(&rest)),
            }
        }
    }
}

fn varint_bytes(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end") + 1
}

fn varint(bytes: &[u8]) -> u64 {
    bytes[..varint_bytes(bytes)].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A frame of a client, masked.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match payload.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        middle @ 126..65_536 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    let mask = [7, 11, 13, 17];
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// A column: its name, its type, its values.
type Column<'a> = (&'a str, u8, Vec<u8>);

const LONG_TYPE: u8 = 0x05;
const VARCHAR: u8 = 0x0f;
const TIMESTAMP_NANOS: u8 = 0x10;

fn longs<'a>(name: &'a str, values: &[i64]) -> Column<'a> {
    (name, LONG_TYPE, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn times(values: &[i64]) -> Column<'static> {
    ("", TIMESTAMP_NANOS, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn texts<'a>(name: &'a str, values: &[&str]) -> Column<'a> {
    let mut out = 0_u32.to_le_bytes().to_vec();
    let mut end = 0;
    for value in values {
        end += value.len() as u32;
        out.extend_from_slice(&end.to_le_bytes());
    }
    out.extend(values.iter().flat_map(|value| value.bytes()));
    (name, VARCHAR, out)
}

/// A message of rows.
fn message(defers: bool, tables: &[(&str, u64, Vec<Column<'_>>)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (table, rows, columns) in tables {
        put_text(&mut payload, table);
        put_varint(&mut payload, *rows);
        put_varint(&mut payload, columns.len() as u64);
        for (name, of, _) in columns {
            put_text(&mut payload, name);
            payload.push(*of);
        }
        for (_, _, values) in columns {
            payload.push(0);
            payload.extend_from_slice(values);
        }
    }
    let mut out = b"QWP1\x01".to_vec();
    out.push(u8::from(defers));
    out.extend_from_slice(&(tables.len() as u16).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&payload);
    out
}

/// A row of `table` with one number, at that nanosecond.
fn row(table: &str, value: i64) -> Vec<u8> {
    message(false, &[(table, 1, vec![longs("n", &[value]), times(&[value])])])
}

fn deferred(table: &str, value: i64) -> Vec<u8> {
    message(true, &[(table, 1, vec![longs("n", &[value]), times(&[value])])])
}

fn query(id: i64, sql: &str, credit: u64, timeout_ms: Option<u64>) -> Vec<u8> {
    let mut out = vec![0x10];
    out.extend_from_slice(&id.to_le_bytes());
    put_text(&mut out, sql);
    put_varint(&mut out, credit);
    put_varint(&mut out, 0);
    if let Some(timeout) = timeout_ms {
        out.push(2);
        put_varint(&mut out, timeout);
    }
    out
}

fn cancel(id: i64) -> Vec<u8> {
    [&[0x14][..], &id.to_le_bytes()].concat()
}

fn credit(id: i64, bytes: u64) -> Vec<u8> {
    let mut out = [&[0x15][..], &id.to_le_bytes()].concat();
    put_varint(&mut out, bytes);
    out
}

/// A connection that asks, past its greeting.
pub(super) fn reader(served: &Served, more: &str) -> Socket {
    let mut socket = Socket::asked(served, "/read/v1", more).expect("a socket");
    assert_eq!(socket.message()[12], SERVER_INFO);
    socket
}
