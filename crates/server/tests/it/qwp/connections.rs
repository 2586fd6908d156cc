//! Who may connect, and how connections end.

use super::*;
use crate::Served;
use std::time::{Duration, Instant};

#[test]
fn what_is_no_message_ends_the_connection() {
    let served = Served::new(&[]);
    let mut rest = vec![0; 40];
    for (opcode, payload, code) in [(TEXT, &b"hello"[..], 1003), (5, b"", 1002)] {
        for path in ["/write/v4", "/read/v1"] {
            let mut socket = Socket::open(&served, path);
            if path == "/read/v1" {
                socket.message();
            }
            socket.send(opcode, payload);
            let (_, close) = socket.next().expect("a Close");
            assert_eq!(u16::from_be_bytes([close[0], close[1]]), code, "{path} {opcode}");
        }
    }
    let mut socket = Socket::open(&served, "/write/v4");
    socket.rows(b"no message");
    let (status, sequence, text) = socket.answer();
    assert_eq!((status, sequence), (PARSE_ERROR, 0));
    assert!(text.contains("not a message of QWP"), "{text}");
    // Frames of a client are masked.
    let mut socket = Socket::open(&served, "/write/v4");
    socket.stream.write_all(&[0x82, 1, 0]).expect("it reads");
    assert_eq!(socket.next().map(|(_, close)| [close[0], close[1]]), Some(1002_u16.to_be_bytes()));
    // A message cut off, and what follows a half one.
    let mut socket = Socket::open(&served, "/write/v4");
    let whole = frame(BINARY, &row("t", 1));
    socket.stream.write_all(&whole[..whole.len() - 1]).expect("it reads");
    drop(socket);
    let mut socket = reader(&served, "");
    socket.send(BINARY, b"QWP1");
    let (kind, id, text) = socket.result();
    assert!(kind == ERROR && id == -1, "{kind} {id} {text:?}");
    assert_eq!(socket.closed(), 1002);
    served.wait_for_metric("connections_open", 1);
    assert_eq!(served.number("SELECT count(*) FROM t"), None);
    let mut plain = served.connect("http_port");
    plain.write_all(b"GET /write/v4 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    plain.read_exact(&mut rest).expect("it answers");
    assert!(rest.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&rest));
}

#[test]
fn pages_and_other_versions_are_refused() {
    let served = Served::new(&[]);
    for path in ["/write/v4", "/api/v4/write", "/read/v1", "/api/v1/read"] {
        let status = |more: &str| match Socket::asked(&served, path, more) {
            Ok(_) => 101,
            Err(head) => head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0),
        };
        assert_eq!(status("Origin: http://evil.example\r\n"), 403);
        assert_eq!(status("Origin: null\r\n"), 403);
        assert_eq!(status("Sec-Fetch-Site: cross-site\r\n"), 403);
        assert_eq!(status("Host: rebound.example\r\n"), 403);
        assert_eq!(status("Origin: http://localhost\r\n"), 101);
        assert_eq!(status("X-QWP-Max-Version: 0\r\n"), 400);
        assert_eq!(status("X-QWP-Max-Version: new\r\n"), 400);
        assert_eq!(status("X-QWP-Max-Version: 7\r\n"), 101);
    }
}

#[test]
fn pings_are_answered_and_silent_clients_are_asked() {
    let served = Served::new(&[("idle_timeout", "100ms"), ("send_timeout", "500ms")]);
    for path in ["/write/v4", "/read/v1"] {
        let mut socket = Socket::open(&served, path);
        if path == "/read/v1" {
            socket.message();
        }
        socket.send(PING, b"there?");
        assert_eq!(socket.next(), Some((PONG, b"there?".to_vec())));
        // One that answers stays.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            assert_eq!(socket.next(), Some((PING, Vec::new())), "{path}");
            socket.send(PONG, b"");
        }
        // One that does not is gone.
        let begun = Instant::now();
        while let Some((opcode, _)) = socket.next() {
            assert!(matches!(opcode, PING | CLOSE), "{opcode}");
        }
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(350) && took < Duration::from_secs(5), "{took:?}");
    }
    served.wait_for_metric("connections_open", 1);
}

#[test]
fn it_stops_with_every_message_that_came() {
    const MESSAGES: u64 = 500;
    let mut served = Served::new(&[]);
    let mut idle = reader(&served, "");
    let mut asking = reader(&served, "");
    asking.ask(1, "SELECT count(*) FROM range(0, 300) a JOIN range(0, 30000) b ON a.value < b.value");
    let mut socket = Socket::open(&served, "/write/v4");
    let all: Vec<u8> = (0..MESSAGES as i64).flat_map(|value| frame(BINARY, &row("t", value))).collect();
    socket.stream.write_all(&all).expect("it reads");
    // It has come when it is on the server's side of the loopback.
    std::thread::sleep(Duration::from_millis(50));
    let server = served.server.take().expect("it runs");
    let stopping = std::thread::spawn(move || server.stop());
    socket.acknowledged(MESSAGES - 1);
    assert_eq!(socket.closed(), 1001);
    assert_eq!(idle.closed(), 1001);
    assert_eq!(asking.rows_of(1).0, 1, "a query under way is answered");
    assert_eq!(asking.closed(), 1001);
    assert!(stopping.join().expect("it ends"), "all connections had ended");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(MESSAGES as i64));
}
#[test]
fn clients_that_dribble_hold_nobody_up() {
    let served = Served::new(&[]);
    let dribbling: Vec<_> = (0..50)
        .map(|number| {
            let mut socket = Socket::open(&served, "/write/v4");
            let frame = frame(BINARY, &row("t", number));
            socket.stream.write_all(&frame[..number as usize % frame.len()]).expect("it reads");
            (socket, frame)
        })
        .collect();
    let mut socket = Socket::open(&served, "/write/v4");
    let begun = Instant::now();
    socket.rows(&row("t", 1_000));
    socket.acknowledged(0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    for (number, (mut socket, frame)) in dribbling.into_iter().enumerate() {
        for byte in &frame[number % frame.len()..] {
            socket.stream.write_all(&[*byte]).expect("it reads");
        }
        socket.acknowledged(0);
    }
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(51));
}

#[test]
fn mutated_messages_hurt_nobody() {
    let seed = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64 | 1;
    println!("seed {seed}");
    let mut state = seed;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let served = Served::new(&[]);
    for path in ["/write/v4", "/read/v1"] {
        for _ in 0..300 {
            let mut sent = match path {
                "/read/v1" => query(1, "SELECT value FROM range(0, 10)", 0, Some(50)),
                _ => message(
                    false,
                    &[("t", 2, vec![longs("n", &[1, 2]), texts("s", &["a", "b"]), times(&[1, 2])])],
                ),
            };
            for _ in 0..=random(3) {
                match random(3) {
                    0 => sent.truncate(random(sent.len() + 1)),
                    1 => sent.insert(random(sent.len() + 1), random(256) as u8),
                    _ if sent.is_empty() => {}
                    _ => {
                        let at = random(sent.len());
                        sent[at] ^= 1 << random(8);
                    }
                }
            }
            let mut socket = Socket::open(&served, path);
            socket.rows(&sent);
            socket.send(CLOSE, &1000_u16.to_be_bytes());
            // Whatever is answered, the connection ends.
            while socket.next().is_some() {}
        }
    }
    let mut socket = Socket::open(&served, "/write/v4");
    socket.rows(&row("whole", 1));
    socket.acknowledged(0);
    served.wait_for_metric("connections_open", 2);
}
