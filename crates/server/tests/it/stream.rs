//! Raw streams by CakeDB's protocol, byte for byte.

use crate::{PATIENCE, Served};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tickstone_engine::streams::StreamSettings;

fn request(command: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(command.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn open(socket: &mut TcpStream, command: u16, name: &str) -> u16 {
    let length = u16::try_from(name.len()).unwrap().to_be_bytes();
    let length: &[u8] = if command == 1 { &length } else { &[] };
    let payload = [length, name.as_bytes()].concat();
    socket.write_all(&request(command, &payload)).unwrap();
    let mut id = [0; 2];
    socket.read_exact(&mut id).unwrap();
    u16::from_be_bytes(id)
}

fn append(id: u16, document: &[u8]) -> Vec<u8> {
    request(2, &[&id.to_be_bytes(), document].concat())
}

fn ask(socket: &mut TcpStream, command: u16, id: u16, times: &[u64]) -> Vec<(u64, Vec<u8>)> {
    let times: Vec<u8> = times.iter().flat_map(|time| time.to_be_bytes()).collect();
    socket.write_all(&request(command, &[&id.to_be_bytes(), times.as_slice()].concat())).unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut body).unwrap();
    let (mut found, mut rest) = (Vec::new(), body.as_slice());
    while let Some((time, after)) = rest.split_first_chunk() {
        let (size, after) = after.split_first_chunk().unwrap();
        let (document, after) = after.split_at(u32::from_be_bytes(*size) as usize);
        found.push((u64::from_be_bytes(*time), document.to_vec()));
        rest = after;
    }
    found
}

fn ends(mut socket: TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too: bytes it has not read were on their way.
    let _ = socket.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

#[test]
fn documents_are_kept_and_asked_for() {
    let served = Served::new(&[]);
    let mut socket = served.connect("stream_port");
    let before = now_us();
    let id = open(&mut socket, 1, "raw");
    assert_eq!(open(&mut socket, 5, "raw"), id);
    let other = open(&mut socket, 5, "other");
    assert_ne!(id, other);
    socket.write_all(&request(0, &[])).unwrap();
    let large = vec![7; 3_000_000];
    let documents: Vec<&[u8]> = vec![b"{\"a\":1}", b"", b"\0\xff", &large, b"last"];
    let mut bytes = Vec::new();
    documents.iter().for_each(|document| bytes.extend(append(id, document)));
    bytes.extend(append(other, b"of the other"));
    // In pieces that end anywhere.
    for piece in bytes.chunks(1_234_567) {
        socket.write_all(piece).unwrap();
    }
    // Asked for on the same connection at once.
    let all = ask(&mut socket, 4, id, &[0]);
    assert_eq!(all.iter().map(|(_, document)| document.as_slice()).collect::<Vec<_>>(), documents);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(before <= all[0].0 && all[4].0 <= now_us() + 10);
    let times: Vec<u64> = all.iter().map(|(time, _)| *time).collect();
    assert_eq!(ask(&mut socket, 3, id, &[times[1], times[2]]), all[1..3]);
    assert_eq!(ask(&mut socket, 4, id, &[times[3]]), all[4..]);
    assert_eq!(ask(&mut socket, 4, id, &[times[4]]), []);
    assert_eq!(ask(&mut socket, 4, id, &[u64::MAX]), []);
    assert_eq!(ask(&mut socket, 6, id, &[times[4]]), all[3..4]);
    assert_eq!(ask(&mut socket, 6, id, &[times[0]]), []);
    assert_eq!(ask(&mut socket, 6, id, &[u64::MAX]), all[4..]);
    assert_eq!(ask(&mut socket, 3, other, &[0, u64::MAX])[0].1, b"of the other");
    assert_eq!(served.number("SELECT count(*) FROM stream('raw')"), Some(5));
    assert_eq!(served.metric("stream_documents_total"), 6);
}

#[test]
fn what_cannot_be_ends_the_connection() {
    let settings = [("auto_create_streams", "false")];
    let served = Served::new(&settings);
    let small = StreamSettings { document_bytes_max: 10, ..StreamSettings::default() };
    served.database.engine().streams().create("small", small).unwrap();
    let cases: [&[u8]; 10] = [
        &request(7, &[]),
        &request(0, &[1]),
        &request(2, &[0]),
        &append(9, b"no such id"),
        &append(1, b"12345678901"),
        &request(3, &[0, 1, 0]),
        &request(1, &[0, 9, b'a']),
        &request(1, &[0, 4, b'n', b'o', b'n', b'e']),
        &request(5, b"none"),
        &request(5, b""),
    ];
    for (place, case) in cases.iter().enumerate() {
        let mut socket = served.connect("stream_port");
        let id = open(&mut socket, 1, "small");
        assert_eq!(id, 1);
        socket.write_all(&append(id, b"kept")).unwrap();
        socket.write_all(case).unwrap();
        let _ = socket.write_all(&append(id, b"behind"));
        ends(socket);
        // What stood before it is there, nothing behind it.
        let began = Instant::now();
        let count = "SELECT count(*) FROM stream('small') WHERE document = 'kept'";
        served.wait_for(count, place as i64 + 1);
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(served.number("SELECT count(*) FROM stream('small')"), Some(cases.len() as i64));
    assert_eq!(served.metric("stream_connections_cut_total"), cases.len() as u64);
    // A dropped stream ends those who go on with it.
    let mut socket = served.connect("stream_port");
    let id = open(&mut socket, 1, "small");
    served.database.engine().streams().drop("small").unwrap();
    socket.write_all(&append(id, b"x")).unwrap();
    ends(socket);
    // Whoever opens it anew has the new one; the id of the old one is not given again.
    served.database.engine().streams().create("small", small).unwrap();
    let mut socket = served.connect("stream_port");
    let id = open(&mut socket, 1, "small");
    served.database.engine().streams().drop("small").unwrap();
    served.database.engine().streams().create("small", small).unwrap();
    let new = open(&mut socket, 1, "small");
    assert_ne!(new, id);
    socket.write_all(&append(new, b"new")).unwrap();
    assert_eq!(ask(&mut socket, 4, new, &[0])[0].1, b"new");
    socket.write_all(&append(id, b"old")).unwrap();
    ends(socket);
}

#[test]
fn an_id_holds_for_all_connections() {
    let served = Served::new(&[]);
    let id = open(&mut served.connect("stream_port"), 5, "raw");
    let mut socket = served.connect("stream_port");
    socket.write_all(&append(id, b"here")).unwrap();
    assert_eq!(ask(&mut socket, 4, id, &[0])[0].1, b"here");
    // The connection's own documents are waited for as if it had opened the stream.
    let mut other = served.connect("stream_port");
    for number in 0_u32..100 {
        other.write_all(&append(id, &number.to_be_bytes())).unwrap();
        assert_eq!(ask(&mut other, 6, id, &[u64::MAX])[0].1, number.to_be_bytes());
    }
    assert_eq!(open(&mut other, 1, "raw"), id);
    // One that is there, but was never opened, has no id yet.
    let hidden = served.database.engine().streams().create("hidden", StreamSettings::default()).unwrap();
    other.write_all(&append(u16::try_from(hidden.id()).unwrap(), b"x")).unwrap();
    ends(other);
    assert_eq!(served.metric("stream_connections_cut_total"), 1);
    // Of a dropped stream no id is left, also for connections that never used it.
    served.database.engine().streams().drop("raw").unwrap();
    let new = open(&mut socket, 1, "raw");
    assert_ne!(new, id);
    let mut late = served.connect("stream_port");
    late.write_all(&append(id, b"x")).unwrap();
    ends(late);
    assert_eq!(ask(&mut socket, 4, new, &[0]), []);
    assert_eq!(served.metric("stream_connections_cut_total"), 2);
}

/// What `cakedb-driver` (drivers/c of CakeDB) sends, recorded: each command opens the stream on a connection of its own.
const REGISTER: &[u8] = b"\0\0\0\x05\0\x05ticks";
const STORE: &[u8] = b"\0\0\0\x11\0\x02\0\x01{\"px\":61500.5}\n";
const QUERY: &[u8] = b"\0\0\0\n\0\x04\0\x01\0\x06\x1f(\xab\xb26\0";
const RANGE: &[u8] = b"\0\0\0\x12\0\x03\0\x01\0\x06\x1f(\xab\xb26\0\x7f\xff\xff\xff\xff\xff\xff\xff";

#[test]
fn cakedbs_drivers_are_served() {
    let served = Served::new(&[]);
    let register = || {
        let mut socket = served.connect("stream_port");
        socket.write_all(REGISTER).unwrap();
        let mut id = [0; 2];
        socket.read_exact(&mut id).unwrap();
        assert_eq!(id, [0, 1]);
    };
    register();
    served.connect("stream_port").write_all(STORE).unwrap();
    served.wait_for("SELECT count(*) FROM stream('ticks')", 1);
    for question in [QUERY, RANGE] {
        register();
        let mut socket = served.connect("stream_port");
        socket.write_all(question).unwrap();
        let mut answer = [0; 4 + 12 + 15];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!((&answer[..4], &answer[12..16]), (&[0, 0, 0, 27][..], &[0, 0, 0, 15][..]));
        assert_eq!(&answer[16..], b"{\"px\":61500.5}\n");
    }
    // The drivers for Ruby and Erlang send the same bytes, all on one connection.
    let mut socket = served.connect("stream_port");
    socket.write_all(&[REGISTER, STORE].concat()).unwrap();
    socket.read_exact(&mut [0; 2]).unwrap();
    assert_eq!(ask(&mut socket, 6, 1, &[u64::MAX])[0].1, b"{\"px\":61500.5}\n");
    assert_eq!(served.number("SELECT count(*) FROM stream('ticks')"), Some(2));
    assert_eq!(served.metric("stream_connections_cut_total"), 0);
}

#[test]
fn a_connection_that_ends_has_its_documents_kept() {
    let served = Served::new(&[]);
    for _ in 0..20 {
        let mut socket = served.connect("stream_port");
        let id = open(&mut socket, 1, "raw");
        let documents: Vec<u8> = (0..500).flat_map(|n: u32| append(id, &n.to_be_bytes())).collect();
        socket.write_all(&documents).unwrap();
    }
    served.wait_for("SELECT count(*) FROM stream('raw')", 10_000);
}
