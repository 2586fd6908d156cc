//! Memory and connections that a client can make the server hold before it logs in.

use super::beginnings::{HEADERS, agreed, call_head, data, frame, gzip, http, opened};
use super::{ALL, Guarded, Step, alone};
use crate::PATIENCE;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Connections that each test opens.
const HOLDERS: usize = 200;
/// Bytes by which resident memory may grow for all of them.
const HELD_MAX: usize = 64 << 20;

/// The resident memory of this process, in bytes; 0 on systems other than Linux.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// The same, once it stops growing.
fn settled() -> usize {
    let (mut most, mut still, begun) = (resident(), 0, Instant::now());
    while still < 10 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(30));
        let now = resident();
        still = if now > most + (64 << 10) { 0 } else { still + 1 };
        most = most.max(now);
    }
    most
}

/// Opens many connections, sends the same unfinished bytes over each, and asserts that resident memory stays bounded.
fn holds_little(guarded: &Guarded, port: &str, what: &str, bytes: &[u8]) {
    let before = settled();
    let mut kept = Vec::new();
    let mut sent = 0;
    for _ in 0..HOLDERS {
        let mut stream = guarded.served.connect(port);
        stream.set_nonblocking(true).unwrap();
        sent += push(&mut stream, bytes);
        kept.push(stream);
    }
    let grown = settled().saturating_sub(before);
    println!("{port}, {what}: {} connections, {sent} bytes sent, {grown} held", kept.len());
    guarded.lives();
    assert!(grown < HELD_MAX, "{port}, {what}: {sent} bytes sent, {grown} bytes held");
}

/// Sends bytes until the server takes no more for 40 ms; how many it took.
fn push(stream: &mut TcpStream, mut bytes: &[u8]) -> usize {
    let (mut sent, mut still) = (0, 0);
    while !bytes.is_empty() && still < 20 {
        match stream.write(bytes) {
            Ok(count) => {
                (sent, still) = (sent + count, 0);
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                still += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn beginnings_that_never_end_hold_little() {
    alone("unproven::held::beginnings_that_never_end_hold_little", || {
        let guarded = Guarded::new(&[]);
        // PostgreSQL's port takes messages of up to 10 000 bytes before a login.
        let first = [&9_999_u32.to_be_bytes()[..], &[0, 3, 0, 0], &[b'x'; 9_900]].concat();
        holds_little(&guarded, "pg_port", "a startup message", &first);
        let user = [&22_u32.to_be_bytes()[..], &[0, 3, 0, 0], b"user\0nobody\0\0\0"].concat();
        let last = [&user[..], b"p", &9_999_u32.to_be_bytes(), &[b'x'; 9_900]].concat();
        holds_little(&guarded, "pg_port", "a message of SASL", &last);
        // A TLS record has up to 16 KiB, a ClientHello up to 64 KiB.
        let record = [&[0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xf0][..], &[7; 16_300]].concat();
        for port in ["pg_port", "http_port", "flight_port", "ilp_port", "stream_port"] {
            holds_little(&guarded, port, "a TLS record", &record);
        }
        holds_little(&guarded, "ilp_port", "the name of a user", &[b'x'; 500]);
    });
}

#[test]
fn heads_of_http_that_never_end_hold_little() {
    alone("unproven::held::heads_of_http_that_never_end_hold_little", || {
        let guarded = Guarded::new(&[]);
        // A head has up to 400 KiB.
        let head = [&b"GET /exec HTTP/1.1\r\nHost: localhost\r\nX: "[..], &[b'x'; 200 << 10]].concat();
        holds_little(&guarded, "http_port", "half of a head", &head);
    });
}

#[test]
fn bodies_of_http_are_not_read_before_a_login() {
    alone("unproven::held::bodies_of_http_are_not_read_before_a_login", || {
        let guarded = Guarded::new(&[]);
        let body = vec![b'x'; 2 << 20];
        holds_little(&guarded, "http_port", "the body of nobody", &http("POST /write", &[], &body));
        // A wrong password is answered late; the client sends its body meanwhile.
        let wrong = "Authorization: Basic YTpi";
        holds_little(
            &guarded,
            "http_port",
            "the body of one who guesses",
            &http("POST /write", &[wrong], &body),
        );
    });
}

#[test]
fn headers_of_flight_that_never_end_hold_little() {
    alone("unproven::held::headers_of_flight_that_never_end_hold_little", || {
        let guarded = Guarded::new(&[]);
        // A frame has up to 256 KiB.
        let block = [&[0x40, 1, b'x', 0x7f, 0x81, 0xf6, 0x0f][..], &[b'y'; 250 << 10]].concat();
        let half = &frame(HEADERS, 0, 1, &block)[..128 << 10];
        holds_little(&guarded, "flight_port", "half of a frame", &[&opened(), half].concat());
    });
}

#[test]
fn messages_of_flight_are_not_read_before_a_login() {
    alone("unproven::held::messages_of_flight_are_not_read_before_a_login", || {
        let guarded = Guarded::new(&[]);
        // A wrong password is answered late; the client fills the windows of four requests meanwhile.
        let mut bytes = agreed();
        for stream in [1, 3, 5, 7] {
            bytes.extend(call_head(stream, "DoPut", "Basic YTpi"));
        }
        for _ in 0..200 {
            [1, 3, 5, 7].iter().for_each(|stream| bytes.extend(data(*stream, &[7; 16 << 10])));
        }
        let before = settled();
        let mut kept = Vec::new();
        let mut sent = 0;
        for _ in 0..HOLDERS / 10 {
            let mut stream = guarded.served.connect("flight_port");
            stream.write_all(&opened()).unwrap();
            // The server's settings.
            stream.read_exact(&mut [0; 9]).unwrap();
            stream.set_nonblocking(true).unwrap();
            sent += push(&mut stream, &bytes);
            kept.push(stream);
        }
        let grown = settled().saturating_sub(before);
        println!("flight_port: {} connections, {sent} bytes sent, {grown} held", kept.len());
        guarded.lives();
        assert!(grown < HELD_MAX, "{sent} bytes sent, {grown} bytes held");
    });
}

#[test]
fn commands_of_streams_that_never_end_hold_little() {
    alone("unproven::held::commands_of_streams_that_never_end_hold_little", || {
        let guarded = Guarded::new(&[]);
        holds_little(&guarded, "stream_port", "a header", &[0, 0, 1, 0, 0, 7]);
        let prove = [&60_000_u32.to_be_bytes()[..], &[0, 7], &[b'x'; 59_000]].concat();
        holds_little(&guarded, "stream_port", "command 7", &prove);
        let opens = [&60_000_u32.to_be_bytes()[..], &[0, 5], &[b'x'; 59_000]].concat();
        holds_little(&guarded, "stream_port", "command 5", &opens);
    });
}

#[test]
fn documents_of_nobody_are_not_held() {
    alone("unproven::held::documents_of_nobody_are_not_held", || {
        let guarded = Guarded::new(&[]);
        // A document of an unknown stream may have 512 MB.
        let document = [&(500_u32 << 20).to_be_bytes()[..], &[0, 2, 0, 9], &vec![7; 2 << 20]].concat();
        holds_little(&guarded, "stream_port", "a document", &document);
    });
}

#[test]
fn names_that_were_guessed_are_not_held() {
    alone("unproven::held::names_that_were_guessed_are_not_held", || {
        let guarded = Guarded::new(&[]);
        let mut held = Vec::new();
        for round in 0..5 {
            let mut kept = Vec::new();
            for number in 0..400 {
                let name = format!("{round}{number:06}{}", "x".repeat(250 << 10));
                let request = http("GET /exec", &[&format!("Authorization: Token {name}:x")], b"");
                let mut stream = guarded.served.connect("http_port");
                stream.write_all(&request).unwrap();
                kept.push(stream);
            }
            settled();
            // Reset the connections, so that the server ends these requests.
            kept.iter().for_each(|stream| SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap());
            drop(kept);
            guarded.all_end();
            held.push(settled());
        }
        println!("http_port: {held:?} held after each 400 names");
        guarded.lives();
        // Memory of the first names is used again for later ones. Those of three rounds have 300 MB; the allocator keeps
        // some of what was freed.
        assert!(held[4] < held[1] + 2 * HELD_MAX, "{held:?} bytes are held after each 400 names");
    });
}

/// The connections that stay open after nothing, a byte, and half of a first message.
fn kept(ports: &[&'static str], patience: Duration) -> Vec<String> {
    let guarded = Guarded::new(&[("idle_timeout", "1s")]);
    let mut kept = Vec::new();
    for port in ports {
        let first = ALL.iter().find(|beginning| beginning.port == *port).unwrap();
        let Some(Step::Say(bytes)) = (first.steps)(&guarded.stranger).into_iter().next() else { continue };
        for (what, count) in [("nothing", 0), ("a byte", 1), ("half", bytes.len() / 2)] {
            let mut stream = guarded.served.connect(port);
            stream.write_all(&bytes[..count]).unwrap();
            kept.push((port, what, stream));
        }
    }
    let end = Instant::now() + patience;
    let mut open = Vec::new();
    for (port, what, stream) in &mut kept {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        stream.set_read_timeout(Some(left)).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        if ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)) {
            open.push(format!("{port} after {what}"));
        }
    }
    open
}

#[test]
fn nobody_keeps_a_connection_without_saying_who_it_is() {
    alone("unproven::held::nobody_keeps_a_connection_without_saying_who_it_is", || {
        let ports = ["pg_port", "http_port", "influx_port", "flight_port"];
        assert_eq!(kept(&ports, Duration::from_secs(5)), [""; 0]);
    });
}

#[test]
fn nobody_keeps_a_feed_without_saying_who_it_is() {
    alone("unproven::held::nobody_keeps_a_feed_without_saying_who_it_is", || {
        // The line protocol waits for ten seconds for each of its two lines.
        assert_eq!(kept(&["ilp_port", "stream_port"], Duration::from_secs(12)), [""; 0]);
    });
}

/// The status of the answer to a request, which may come before all of it is sent.
fn status_of(stream: &mut TcpStream, mut request: &[u8]) -> Option<String> {
    stream.set_nonblocking(true).unwrap();
    let (mut came, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < PATIENCE {
        let mut bytes = [0; 4 << 10];
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => came.extend(&bytes[..count]),
            Err(error) if error.kind() != ErrorKind::WouldBlock => break,
            Err(_) => match stream.write(&request[..request.len().min(64 << 10)]) {
                Ok(count) if count > 0 => request = &request[count..],
                _ => std::thread::sleep(Duration::from_millis(1)),
            },
        }
        if came.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&came);
    text.split(' ').nth(1).map(str::to_string)
}

/// 10 GiB of zeros as 10 MB of gzip, in many members.
fn bomb() -> Vec<u8> {
    gzip(&vec![0; 16 << 20]).repeat(640)
}

#[test]
fn gzip_bombs_are_refused() {
    alone("unproven::held::gzip_bombs_are_refused", || {
        let guarded = Guarded::new(&[("request_bytes_max", "16MB"), ("requests_bytes_max", "64MB")]);
        let (bomb, basic) = (bomb(), format!("Authorization: {}", guarded.admin.basic()));
        assert!(bomb.len() < 15 << 20, "{} bytes", bomb.len());
        let before = settled();
        let paths = [
            "/write",
            "/api/v2/write",
            "/api/v3/write_lp",
            "/exec",
            "/exp",
            "/query",
            "/imp?name=made",
            "/mcp",
        ];
        for path in paths {
            let kind = match path {
                "/mcp" => "Content-Type: application/json",
                _ => "Content-Type: application/x-www-form-urlencoded",
            };
            for (headers, wanted) in [
                (&["Content-Encoding: gzip", kind][..], "401"),
                (&["Content-Encoding: gzip", kind, &basic], "413"),
            ] {
                let request = http(&format!("POST {path}"), headers, &bomb);
                let status = status_of(&mut guarded.served.connect("http_port"), &request);
                let grown = resident().saturating_sub(before);
                println!("{path}: {status:?}, {grown} held");
                assert_eq!(status.as_deref(), Some(wanted), "{path}");
            }
        }
        let grown = settled().saturating_sub(before);
        // The allocator may keep the memory of earlier requests.
        assert!(grown < 2 * HELD_MAX, "{grown} bytes are held");
        guarded.lives();
    });
}
