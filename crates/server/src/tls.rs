//! TLS for every port: the certificate, read again when its files change, and who must use it.
//!
//! rustls speaks it, over ring, versions 1.2 and 1.3. A new certificate holds for connections that begin after it was
//! found; those there are go on. Files that are none leave the one before in its place, and are logged.

use crate::settings::{SettingError, Settings};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
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

/// The certificate of a server.
#[derive(Debug)]
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// Whether ports take nothing else.
    pub(crate) is_required: bool,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// By what is spoken inside, as in [`Inside::ALL`].
    configs: [Arc<ServerConfig>; Inside::ALL.len()],
    /// What the files were when they were read last, be it in vain.
    stamp: Stamp,
    looked: Instant,
}

/// What tells files from those before them: when they were changed, and their sizes.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// The certificate that settings name; `None` where they name none.
    ///
    /// # Errors
    /// Where one file is named without the other, is none, or they do not belong together.
    pub(crate) fn of(settings: &Settings) -> Result<Option<Self>, SettingError> {
        let is_required = settings.switch("require_tls");
        let (certificate, key) = match (settings.text("tls_certificate"), settings.text("tls_key")) {
            ("", "") if is_required => {
                return Err(SettingError::new("require_tls = true needs tls_certificate and tls_key"));
            }
            ("", "") => return Ok(None),
            ("", _) => return Err(SettingError::new("tls_key needs tls_certificate beside it")),
            (_, "") => return Err(SettingError::new("tls_certificate needs tls_key beside it")),
            (certificate, key) => (PathBuf::from(certificate), PathBuf::from(key)),
        };
        let stamp = stamp(&certificate, &key);
        let configs = read(&certificate, &key).map_err(SettingError::new)?;
        let current = Mutex::new(Current { configs, stamp, looked: Instant::now() });
        Ok(Some(Self { certificate, key, is_required, current }))
    }

    /// What a handshake is made with.
    pub(crate) fn acceptor(&self, inside: Inside) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_INTERVAL {
            current.looked = Instant::now();
            let found = stamp(&self.certificate, &self.key);
            if found != current.stamp {
                current.stamp = found;
                match read(&self.certificate, &self.key) {
                    Ok(configs) => {
                        current.configs = configs;
                        info!("TLS: a new certificate, {}", self.certificate.display());
                    }
                    // Half of a pair was replaced, perhaps: the other half changes the stamp again.
                    Err(what) => warn!("TLS: {what}; the certificate before stays in use"),
                }
            }
        }
        Arc::clone(&current.configs[inside as usize]).into()
    }
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    [certificate, key].map(|path| {
        let about = path.metadata().ok()?;
        Some((about.modified().ok()?, about.len()))
    })
}

/// Reads a certificate, with those that vouch for it behind it, and its key.
///
/// # Errors
/// What is wrong with which file.
fn read(certificate: &Path, key: &Path) -> Result<[Arc<ServerConfig>; Inside::ALL.len()], String> {
    let (chain_name, key_name) = (certificate.display(), key.display());
    let unread = |name: &std::path::Display<'_>, error: rustls::pki_types::pem::Error| match error {
        rustls::pki_types::pem::Error::Io(error) => format!("cannot read {name}: {error}"),
        other => format!("{name} is no PEM file of what is wanted: {other}"),
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| unread(&chain_name, error))?;
    let chain: Vec<CertificateDer<'_>> =
        chain.collect::<Result<_, _>>().map_err(|error| unread(&chain_name, error))?;
    if chain.is_empty() {
        return Err(format!("{chain_name} has no certificate (-----BEGIN CERTIFICATE-----)"));
    }
    let of_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(&key_name, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, of_key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key in {key_name} is not that of the certificate in {chain_name}")
            }
            other => format!("{chain_name} and {key_name} cannot be used: {other}"),
        })?;
    Ok(Inside::ALL.map(|inside| {
        let mut config = config.clone();
        config.alpn_protocols = inside.names();
        Arc::new(config)
    }))
}
