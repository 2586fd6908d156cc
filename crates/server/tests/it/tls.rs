//! TLS on every port, beside clients that do not speak it.

use crate::{PATIENCE, Served};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tickstone_query::{Database, DatabaseOptions};
use tickstone_server::Server;
use tickstone_server::settings::{Origin, Settings};

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// A certificate that vouches for itself, in files.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.renew();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    /// Puts another certificate in the place of the one there.
    fn renew(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_string(), "127.0.0.1".to_string()]).unwrap();
        fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
        fs::write(self.path("server.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    }

    fn served(&self, more: &[(&str, &str)]) -> Served {
        let (certificate, key) = (self.text("server.pem"), self.text("key.pem"));
        let own = [("tls_certificate", certificate.as_str()), ("tls_key", key.as_str())];
        Served::new(&[&own[..], more].concat())
    }

    /// What trusts the certificate that is there now.
    fn config(&self, alpn: &[&str], versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("server.pem")).unwrap()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(ring).with_protocol_versions(versions).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Speaks TLS on a connection.
    fn over(&self, stream: TcpStream, alpn: &[&str]) -> io::Result<Client> {
        handshake(stream, self.config(alpn, &[&TLS12, &TLS13]))
    }
}

pub(crate) fn handshake(mut stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Client> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

fn get(stream: &mut (impl Read + Write), path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the end is told");
    answer
}

fn startup() -> Vec<u8> {
    let body = [&196_608_u32.to_be_bytes()[..], b"user\0me\0\0"].concat();
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], &body].concat()
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The kind and the text of the first message.
pub(crate) fn message(stream: &mut impl Read) -> (u8, String) {
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    (head[0], String::from_utf8_lossy(&body).into_owned())
}

fn is_closed(stream: &mut impl Read) -> bool {
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    rest.is_empty() && ended.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |_| true)
}

/// A stream opened: its id.
pub(crate) fn opened(stream: &mut (impl Read + Write)) -> u16 {
    stream.write_all(&[0, 0, 0, 3, 0, 1, 0, 1, b's']).unwrap();
    let mut id = [0; 2];
    stream.read_exact(&mut id).unwrap();
    u16::from_be_bytes(id)
}

#[test]
fn every_port_speaks_tls_beside_what_is_in_the_clear() {
    let files = Files::new();
    let served = files.served(&[]);
    for port in ["http_port", "influx_port"] {
        let mut client = files.over(served.connect(port), &["h2", "http/1.1"]).unwrap();
        assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert!(get(&mut client, "/ping").starts_with("HTTP/1.1 204"));
        assert!(get(&mut served.connect(port), "/ping").starts_with("HTTP/1.1 204"));
    }
    let mut lines = files.over(served.connect("ilp_port"), &[]).unwrap();
    lines.write_all(b"t x=1 1\nt x=2 2\n").unwrap();
    served.wait_for("SELECT count(*) FROM t", 2);
    served.connect("ilp_port").write_all(b"t x=3 3\n").unwrap();
    served.wait_for("SELECT count(*) FROM t", 3);
    let mut stream = files.over(served.connect("stream_port"), &[]).unwrap();
    assert_eq!(opened(&mut stream), opened(&mut served.connect("stream_port")));
    let mut flight = files.over(served.connect("flight_port"), &["h2"]).unwrap();
    flight.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame = [0; 9];
    flight.read_exact(&mut frame).unwrap();
    assert_eq!((flight.conn.alpn_protocol(), frame[3]), (Some(&b"h2"[..]), 4), "its settings come first");
    let (status, metrics) = served.ask("http_port", "GET /metrics", b"");
    assert!(status == 200 && metrics.contains("tickstone_tls_connections_total 5"), "{metrics}");
}

#[test]
fn postgresql_asks_for_tls_or_begins_with_it() {
    let files = Files::new();
    let served = files.served(&[]);
    let mut asking = served.connect("pg_port");
    asking.write_all(&SSL_REQUEST).unwrap();
    let mut answer = [0];
    asking.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let mut client = files.over(asking, &["postgresql"]).unwrap();
    client.write_all(&startup()).unwrap();
    assert_eq!(message(&mut client).0, b'R');
    // Without the question (PostgreSQL 17).
    let mut client = files.over(served.connect("pg_port"), &["postgresql"]).unwrap();
    client.write_all(&startup()).unwrap();
    assert_eq!(message(&mut client).0, b'R');
    let mut plain = served.connect("pg_port");
    plain.write_all(&startup()).unwrap();
    assert_eq!(message(&mut plain).0, b'R');
    // What stands between the question and the handshake is not of the client (CVE-2021-23222).
    let mut injected = served.connect("pg_port");
    injected.write_all(&[&SSL_REQUEST[..], &startup()].concat()).unwrap();
    injected.read_exact(&mut answer).unwrap();
    assert!(&answer == b"S" && is_closed(&mut injected));
    // Nor is TLS spoken within TLS.
    let mut client = files.over(served.connect("pg_port"), &["postgresql"]).unwrap();
    client.write_all(&SSL_REQUEST).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    // One that cancels is told the end.
    let mut client = files.over(served.connect("pg_port"), &["postgresql"]).unwrap();
    client.write_all(&[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 1]).unwrap();
    assert_eq!(client.read(&mut answer).unwrap(), 0);
}

#[test]
fn tls_can_be_required() {
    let files = Files::new();
    let served = files.served(&[("require_tls", "true")]);
    for port in ["http_port", "influx_port"] {
        let told = get(&mut served.connect(port), "/ping");
        assert!(told.starts_with("HTTP/1.1 400") && told.contains("https://"), "{told}");
        let mut client = files.over(served.connect(port), &[]).unwrap();
        assert!(get(&mut client, "/ping").starts_with("HTTP/1.1 204"));
    }
    let mut plain = served.connect("pg_port");
    plain.write_all(&startup()).unwrap();
    let (kind, text) = message(&mut plain);
    assert!(kind == b'E' && text.contains("28000") && text.contains("sslmode=require"), "{text}");
    let mut lines = served.connect("ilp_port");
    lines.write_all(b"t x=1 1\n").unwrap();
    assert!(is_closed(&mut lines));
    let mut stream = served.connect("stream_port");
    stream.write_all(&[0, 0, 0, 3, 0, 1, 0, 1, b's']).unwrap();
    assert!(is_closed(&mut stream));
    let mut flight = served.connect("flight_port");
    flight.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert!(is_closed(&mut flight));
    assert_eq!(served.number("SELECT count(*) FROM t"), None, "no row came");
    let mut lines = files.over(served.connect("ilp_port"), &[]).unwrap();
    lines.write_all(b"t x=1 1\n").unwrap();
    served.wait_for("SELECT count(*) FROM t", 1);
}

#[test]
fn a_certificate_is_replaced_under_connections() {
    let files = Files::new();
    let served = files.served(&[]);
    let mut before = files.over(served.connect("http_port"), &[]).unwrap();
    let old = files.config(&[], &[&TLS13]);
    files.renew();
    let begun = Instant::now();
    while handshake(served.connect("http_port"), files.config(&[], &[&TLS13])).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the new certificate is not taken up");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(handshake(served.connect("http_port"), old).is_err());
    assert!(get(&mut before, "/ping").starts_with("HTTP/1.1 204"), "it goes on");
    // Files that are none, and half of a pair, leave it as it is.
    let now = files.config(&[], &[&TLS12]);
    fs::write(files.path("key.pem"), "no key").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    handshake(served.connect("http_port"), Arc::clone(&now)).unwrap();
    fs::write(files.path("key.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    handshake(served.connect("http_port"), now).unwrap();
}

#[test]
fn what_is_no_handshake_ends() {
    let files = Files::new();
    let served = files.served(&[("idle_timeout", "300ms")]);
    let hello = {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(files.config(&[], &[&TLS13]), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    };
    for port in ["http_port", "pg_port", "flight_port", "ilp_port", "stream_port"] {
        // Cut off, followed by noise, sent twice, of a version that is gone (TLS 1.1).
        let mut old = hello.clone();
        old[1..3].copy_from_slice(&[3, 9]);
        let twice = [&hello[..], &hello].concat();
        for bytes in [&[22_u8, 3, 1, 255, 255, 0][..], &[&hello[..9], &[7; 400]].concat(), &old, &twice] {
            let mut client = served.connect(port);
            client.write_all(bytes).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            // An alert may come, then the end.
            let _ = client.read_to_end(&mut rest);
        }
        if port != "ilp_port" && port != "stream_port" {
            assert!(is_closed(&mut served.connect(port)), "{port}: nothing comes");
        }
    }
    let mut client = files.over(served.connect("http_port"), &[]).unwrap();
    let metrics = get(&mut client, "/metrics");
    // Three ports nothing came on, and four beginnings on five, of which the last may be taken for a whole one at first.
    let refused = metrics.lines().find_map(|line| line.strip_prefix("tickstone_tls_refused_total "));
    let refused: u32 = refused.and_then(|count| count.parse().ok()).expect("it is counted");
    assert!((18..=23).contains(&refused), "{refused} of 23");
    // A protocol that is not this port's.
    assert!(files.over(served.connect("http_port"), &["postgresql"]).is_err());
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let files = Files::new();
    let other = Files::new();
    let start = |settings: &[(&str, &str)]| {
        let mut all = Settings::default();
        for (name, value) in settings {
            all.set(name, value, Origin::Flag).unwrap();
        }
        let database = Database::in_memory(DatabaseOptions::default()).unwrap();
        Server::start(database, all).expect_err("it does not start").to_string()
    };
    let (certificate, key) = (files.text("server.pem"), files.text("key.pem"));
    let missing = files.text("missing.pem");
    let cases = [
        (vec![("require_tls", "true")], "require_tls = true needs tls_certificate"),
        (vec![("tls_certificate", certificate.as_str())], "tls_certificate needs tls_key"),
        (vec![("tls_key", key.as_str())], "tls_key needs tls_certificate"),
        (vec![("tls_certificate", missing.as_str()), ("tls_key", &key)], "cannot read"),
        (vec![("tls_certificate", key.as_str()), ("tls_key", &key)], "has no certificate"),
        (vec![("tls_certificate", certificate.as_str()), ("tls_key", &certificate)], "no PEM file"),
        (vec![("tls_client_ca", certificate.as_str())], "tls_client_ca needs tls_certificate"),
        (
            vec![("tls_certificate", certificate.as_str()), ("tls_key", &key), ("tls_client_ca", &missing)],
            "cannot read",
        ),
        (
            vec![("tls_certificate", certificate.as_str()), ("tls_key", &key), ("tls_client_ca", &key)],
            "has no certificate",
        ),
    ];
    for (settings, wanted) in cases {
        let said = start(&settings);
        assert!(said.contains(wanted), "{said}");
    }
    let said = start(&[("tls_certificate", &certificate), ("tls_key", &other.text("key.pem"))]);
    assert!(said.contains("is not that of the certificate"), "{said}");
}
