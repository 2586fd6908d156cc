//! Clients that prove who they are by a certificate.

use crate::Served;
use crate::tls::{Client, handshake, message, opened};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tickstone_query::{Database, DatabaseOptions};

/// An authority, and its files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key.
struct Holder {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), &pem).unwrap();
        Self { folder, issuer: Issuer::new(params, key), pem }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    fn certified(&self, change: impl FnOnce(&mut CertificateParams)) -> Holder {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        params.distinguished_name = DistinguishedName::new();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Holder { certificate: certificate.der().clone(), key }
    }

    /// The certificate of a user.
    fn user(&self, name: &str, serial: u64) -> Holder {
        self.certified(|params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.serial_number = Some(SerialNumber::from(serial));
        })
    }

    /// A server that takes certificates of this authority, with the users root and ann, of whom ann may read and write a
    /// table and a stream.
    fn served(&self, more: &[(&str, &str)]) -> Served {
        let server =
            self.certified(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        fs::write(self.path("key.pem"), server.key.serialize_pem()).unwrap();
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            base64(&server.certificate)
        );
        fs::write(self.path("server.pem"), pem).unwrap();
        let database = Database::in_memory(DatabaseOptions::default()).unwrap();
        let mut session = database.session();
        for sql in [
            "CREATE TABLE t (ts TIMESTAMP, x DOUBLE) TIMESTAMP(ts)",
            "CREATE STREAM s",
            "CREATE USER root PASSWORD 'secret of root' IN ROLE admin",
            "CREATE USER ann PASSWORD 'secret of ann'",
            "CREATE USER bob PASSWORD 'secret of bob'",
            "GRANT SELECT, INSERT ON t TO ann",
            "GRANT STREAM ON STREAM s TO ann",
        ] {
            database.runtime().block_on(session.query(sql)).expect(sql);
        }
        drop(session);
        let (certificate, key, ca) = (self.text("server.pem"), self.text("key.pem"), self.text("ca.pem"));
        let own = [("tls_certificate", &*certificate), ("tls_key", &*key), ("tls_client_ca", &*ca)];
        Served::over(database, &[&own[..], more].concat())
    }

    fn config(
        &self,
        holder: Option<&Holder>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(ring).with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match holder {
            None => builder.with_no_client_auth(),
            Some(holder) => {
                let key = PrivateKeyDer::try_from(holder.key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![holder.certificate.clone()], key).unwrap()
            }
        })
    }

    fn connect(&self, served: &Served, port: &str, holder: Option<&Holder>) -> Client {
        handshake(served.connect(port), self.config(holder, &[&TLS12, &TLS13])).unwrap()
    }

    /// What `/exec` answers to `SELECT current_user`, with more headers.
    fn who(&self, served: &Served, holder: Option<&Holder>, headers: &str) -> io::Result<String> {
        let mut client = handshake(served.connect("http_port"), self.config(holder, &[&TLS12, &TLS13]))?;
        let request =
            "GET /exec?query=SELECT+current_user HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        client.write_all(format!("{request}{headers}\r\n").as_bytes())?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn base64(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > three.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// A startup message of PostgreSQL's protocol.
fn startup(user: &str) -> Vec<u8> {
    let body = [&196_608_u32.to_be_bytes()[..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], &body].concat()
}

#[test]
fn a_certificate_is_a_user_on_every_port() {
    let authority = Authority::new();
    let served = authority.served(&[("require_tls", "true")]);
    let ann = authority.user("ann", 1);
    // HTTP: with and without, beside a header, in both versions.
    let answer = authority.who(&served, Some(&ann), "").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("[[\"ann\"]]"), "{answer}");
    assert!(authority.who(&served, None, "").unwrap().starts_with("HTTP/1.1 401"));
    let bob = "Authorization: Basic Ym9iOnNlY3JldCBvZiBib2I=\r\n";
    assert!(authority.who(&served, Some(&ann), bob).unwrap().contains("[[\"bob\"]]"));
    let wrong = "Authorization: Basic Ym9iOndyb25n\r\n";
    assert!(authority.who(&served, Some(&ann), wrong).unwrap().starts_with("HTTP/1.1 401"));
    assert!(authority.who(&served, Some(&ann), &[bob, wrong].concat()).unwrap().starts_with("HTTP/1.1 400"));
    // PostgreSQL: as the user it names, in any case; another is asked for a password, bound to the connection.
    for (user, wanted) in [("ann", 0_u32), ("ANN", 0), ("bob", 10), ("root", 10)] {
        let mut client = authority.connect(&served, "pg_port", Some(&ann));
        client.write_all(&startup(user)).unwrap();
        let (kind, text) = message(&mut client);
        assert_eq!((kind, &text.as_bytes()[..4]), (b'R', &wanted.to_be_bytes()[..]), "{user}: {text}");
        assert_eq!(text.contains("SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0"), wanted == 10, "{user}: {text}");
    }
    // Line protocol and raw streams: from the first byte on.
    let mut lines = authority.connect(&served, "ilp_port", Some(&ann));
    lines.write_all(b"t x=1 1\nt x=2 2\n").unwrap();
    served.wait_for("SELECT count(*) FROM t", 2);
    let mut stream = authority.connect(&served, "stream_port", Some(&ann));
    opened(&mut stream);
    let mut stranger = authority.connect(&served, "stream_port", None);
    stranger.write_all(&[0, 0, 0, 3, 0, 1, 0, 1, b's']).unwrap();
    assert_eq!(stranger.read(&mut [0; 2]).unwrap_or(0), 0, "it is closed");
    // No right of others comes with it.
    let mut lines = authority.connect(&served, "ilp_port", Some(&authority.user("bob", 2)));
    lines.write_all(b"t x=3 3\n").unwrap();
    assert_eq!(lines.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(2));
}

#[test]
fn certificates_that_prove_nothing() {
    let authority = Authority::new();
    let served = authority.served(&[]);
    // Of nobody, of a role, of no name or of two; one for servers is not one for clients.
    for name in ["carl", "reader", "ann\0", ""] {
        let answer = authority.who(&served, Some(&authority.user(name, 1)), "").unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{name}: {answer}");
    }
    let two = authority.certified(|params| {
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "root");
    });
    assert!(authority.who(&served, Some(&two), "").unwrap().starts_with("HTTP/1.1 401"));
    let refused = |holder: &Holder| match authority.who(&served, Some(holder), "") {
        Ok(answer) => answer.is_empty(),
        Err(_) => true,
    };
    assert!(!refused(&authority.user("ann", 1)));
    assert!(refused(&Authority::new().user("ann", 1)), "of another authority of the same name");
    assert!(refused(&authority.certified(|params| {
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    })));
    for (from, to) in [(2020, 2021), (2099, 2100)] {
        assert!(refused(&authority.certified(|params| {
            params.distinguished_name.push(DnType::CommonName, "ann");
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        })));
    }
    // A key that is not that of the certificate.
    let stolen = Holder { key: KeyPair::generate().unwrap(), ..authority.user("ann", 1) };
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(stolen.key.serialize_der()).unwrap();
    let builder = ClientConfig::builder_with_provider(ring).with_protocol_versions(&[&TLS13]).unwrap();
    let builder = builder.with_root_certificates(RootCertStore::empty());
    assert!(builder.with_client_auth_cert(vec![stolen.certificate.clone()], key).is_err());
}

#[test]
fn certificates_are_revoked_while_the_server_runs() {
    let authority = Authority::new();
    let served = authority.served(&[]);
    let (ann, bob) = (authority.user("ann", 7), authority.user("bob", 8));
    let config = authority.config(Some(&ann), &[&TLS13]);
    assert!(authority.who(&served, Some(&ann), "").unwrap().contains("[[\"ann\"]]"));
    let now = date_time_ymd(2026, 1, 1);
    let revoked = RevokedCertParams {
        serial_number: SerialNumber::from(7_u64),
        revocation_time: now,
        reason_code: Some(RevocationReason::KeyCompromise),
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: now,
        next_update: date_time_ymd(2100, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&authority.issuer).unwrap().pem().unwrap();
    fs::write(authority.path("ca.pem"), [authority.pem.as_str(), &list].concat()).unwrap();
    let begun = Instant::now();
    while authority.who(&served, Some(&ann), "").is_ok_and(|answer| answer.contains("ann")) {
        assert!(begun.elapsed() < crate::PATIENCE, "the list is not taken up");
        std::thread::sleep(Duration::from_millis(100));
    }
    // A session that began before is none to go on with.
    let mut again = handshake(served.connect("http_port"), config);
    let gone = again.as_mut().map_or(Ok(0), |client| client.read(&mut [0]));
    assert!(gone.map_or(true, |read| read == 0));
    assert!(authority.who(&served, Some(&bob), "").unwrap().contains("[[\"bob\"]]"));
    assert!(authority.who(&served, None, "").unwrap().starts_with("HTTP/1.1 401"));
}
