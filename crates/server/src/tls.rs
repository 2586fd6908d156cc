//! TLS for every port: the certificate, read again when its files change, and who must use it.
//!
//! rustls speaks it, over ring, versions 1.2 and 1.3. A new certificate holds for connections that begin after it was
//! found; those there are go on. Files that are none leave the one before in its place, and are logged.

use crate::certificate::{end_point, fault_of_time};
use crate::settings::{SettingError, Settings};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// How often the files are looked at, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a port speaks inside of TLS, as clients that name it do (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    /// HTTP/1.1, and WebSocket over it.
    Http,
    /// HTTP/2: Flight.
    Http2,
    /// PostgreSQL's protocol.
    Postgres,
    /// What has no name there.
    Unnamed,
}

impl Inside {
    const ALL: [Self; 4] = [Inside::Http, Inside::Http2, Inside::Postgres, Inside::Unnamed];

    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Inside::Http => vec![b"http/1.1".to_vec()],
            Inside::Http2 => vec![b"h2".to_vec()],
            Inside::Postgres => vec![b"postgresql".to_vec()],
            Inside::Unnamed => Vec::new(),
        }
    }
}

/// The files that TLS is made of.
#[derive(Debug, Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// Whose certificates prove who a client is; `None` where none does.
    client_ca: Option<PathBuf>,
}

/// The certificate of a server.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    /// Whether ports take nothing else.
    pub(crate) is_required: bool,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    offered: Offered,
    /// What the files were when they were read last, be it in vain.
    stamp: Stamp,
    looked: Instant,
}

/// What connections begin with.
#[derive(Debug)]
struct Offered {
    /// By what is spoken inside, as in [`Inside::ALL`].
    configs: [Arc<ServerConfig>; Inside::ALL.len()],
    /// [`end_point`] of the certificate.
    end_point: Option<Arc<[u8]>>,
}

/// What a handshake is made with.
pub(crate) struct Handshake {
    pub(crate) acceptor: TlsAcceptor,
    /// What a login over the connection can be bound to: [`end_point`] of the certificate that the client sees.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

/// What tells files from those before them: when they were changed, and their sizes.
type Stamp = [Option<(SystemTime, u64)>; 3];

impl Tls {
    /// The certificate that settings name; `None` where they name none.
    ///
    /// # Errors
    /// Where one file is named without the other, is none, or they do not belong together.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, SettingError> {
        let is_required = settings.switch("require_tls");
        let client_ca = Some(settings.text("tls_client_ca")).filter(|path| !path.is_empty());
        let (certificate, key) = match (settings.text("tls_certificate"), settings.text("tls_key")) {
            ("", "") if is_required => {
                return Err(SettingError::new("require_tls = true needs tls_certificate and tls_key"));
            }
            ("", "") if client_ca.is_some() => {
                return Err(SettingError::new("tls_client_ca needs tls_certificate and tls_key"));
            }
            ("", "") => return Ok(None),
            ("", _) => return Err(SettingError::new("tls_key needs tls_certificate beside it")),
            (_, "") => return Err(SettingError::new("tls_certificate needs tls_key beside it")),
            (certificate, key) => (PathBuf::from(certificate), PathBuf::from(key)),
        };
        let files = Files { certificate, key, client_ca: client_ca.map(PathBuf::from) };
        let stamp = files.stamp();
        let offered = files.read().map_err(SettingError::new)?;
        let current = Mutex::new(Current { offered, stamp, looked: Instant::now() });
        Ok(Some(Self { files, is_required, current }))
    }

    /// What a handshake is made with.
    pub(crate) fn handshake(&self, inside: Inside) -> Handshake {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_INTERVAL {
            current.looked = Instant::now();
            let found = self.files.stamp();
            if found != current.stamp {
                current.stamp = found;
                match self.files.read() {
                    Ok(offered) => {
                        current.offered = offered;
                        info!("TLS: new certificates, {}", self.files.certificate.display());
                    }
                    // Half of a pair was replaced, perhaps: the other half changes the stamp again.
                    Err(what) => warn!("TLS: {what}; the certificate before stays in use"),
                }
            }
        }
        let offered = &current.offered;
        Handshake {
            acceptor: Arc::clone(&offered.configs[inside as usize]).into(),
            end_point: offered.end_point.clone(),
        }
    }
}

impl Files {
    fn stamp(&self) -> Stamp {
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()].map(|path| {
            let about = path?.metadata().ok()?;
            Some((about.modified().ok()?, about.len()))
        })
    }

    /// Reads a certificate, with those that vouch for it behind it, its key, and the authorities of clients.
    ///
    /// # Errors
    /// What is wrong with which file.
    fn read(&self) -> Result<Offered, String> {
        let (chain_name, key_name) = (self.certificate.display(), self.key.display());
        let chain = certificates(&self.certificate)?;
        let of_key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unread(&self.key, error))?;
        let end_point = chain.first().and_then(|certificate| end_point(certificate)).map(Arc::from);
        if let Some(what) = chain.first().and_then(|certificate| fault_of_time(certificate, now_seconds())) {
            warn!("TLS: the certificate in {chain_name} {what}: clients refuse it, or will");
        }
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => builder.with_client_cert_verifier(of_clients(path)?),
        };
        let mut config = builder.with_single_cert(chain, of_key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key in {key_name} is not that of the certificate in {chain_name}")
            }
            other => format!("{chain_name} and {key_name} cannot be used: {other}"),
        })?;
        if self.client_ca.is_some() {
            // A session that goes on would carry a client's certificate past its end, or past its revocation.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let configs = Inside::ALL.map(|inside| {
            let mut config = config.clone();
            config.alpn_protocols = inside.names();
            Arc::new(config)
        });
        Ok(Offered { configs, end_point })
    }
}

/// Now, in seconds since the Unix epoch.
fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn unread(path: &Path, error: pem::Error) -> String {
    let name = path.display();
    match error {
        pem::Error::Io(error) => format!("cannot read {name}: {error}"),
        other => format!("{name} is no PEM file of what is wanted: {other}"),
    }
}

/// The certificates in a file, one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unread(path, error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| unread(path, error))?;
    match found.is_empty() {
        true => Err(format!("{} has no certificate (-----BEGIN CERTIFICATE-----)", path.display())),
        false => Ok(found),
    }
}

/// Who checks the certificates of clients, which need none: by the authorities in a file, and by the lists of what they
/// revoked (X509 CRL) that stand beside them.
fn of_clients(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let name = path.display();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| format!("{name} has a certificate of no authority: {error}"))?;
    }
    let revoked = CertificateRevocationListDer::pem_file_iter(path).map_err(|error| unread(path, error))?;
    let revoked: Vec<_> = revoked.collect::<Result<_, _>>().map_err(|error| unread(path, error))?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
        .with_crls(revoked)
        // An authority may have no list.
        .allow_unknown_revocation_status()
        .allow_unauthenticated()
        .build()
        .map_err(|error| format!("{name} cannot be used: {error}"))
}
