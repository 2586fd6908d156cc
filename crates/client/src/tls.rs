//! TLS over a blocking socket, for raw streams and to learn why a server ends a connection.

use crate::address::{Address, Identity, Trust, authorities};
use crate::error::{ClientError, Result as ClientResult};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt::Display;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A connection over TLS.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// How TLS is spoken with servers whose certificates are of these authorities, by a client with this one.
fn config(trust: &Trust, identity: Option<&Identity>) -> ClientResult<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let refused = |error: &dyn Display| ClientError::request(format!("cannot speak TLS: {error}"));
    match trust {
        Trust::System => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Trust::File(path) => {
            for certificate in CertificateDer::pem_slice_iter(&authorities(path)?) {
                let certificate = certificate.map_err(|error| refused(&error))?;
                roots.add(certificate).map_err(|error| refused(&error))?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?;
    let config = config.with_root_certificates(roots);
    let Some(identity) = identity else { return Ok(config.with_no_client_auth()) };
    let text = identity.read()?;
    let chain = CertificateDer::pem_slice_iter(&text.certificate).collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_slice(&text.key).map_err(|error| refused(&error))?;
    config
        .with_client_auth_cert(chain.map_err(|error| refused(&error))?, key)
        .map_err(|error| refused(&error))
}

/// What an operating system, or rustls through it, says of an address.
pub(crate) fn unreached(address: &Address) -> impl Fn(io::Error) -> ClientError + '_ {
    let Address { host, port, .. } = address;
    move |error| ClientError::request(format!("cannot reach {host}:{port}: {error}"))
}

/// Connects to an address, and ends its own part of the handshake.
///
/// # Errors
/// Where authorities or a certificate cannot be read, where no server answers there, or one whose certificate is not
/// trusted.
pub(crate) fn connect(address: &Address, trust: &Trust) -> ClientResult<TlsStream> {
    let config = config(trust, address.identity.as_ref())?;
    let name = address.host_name();
    let wrong = |error: &dyn Display| ClientError::request(format!("'{name}' is no name: {error}"));
    let server = ServerName::try_from(name.to_string()).map_err(|error| wrong(&error))?;
    let mut socket = TcpStream::connect((name, address.port)).map_err(unreached(address))?;
    socket.set_nodelay(true).map_err(unreached(address))?;
    let mut connection = ClientConnection::new(Arc::new(config), server).map_err(|error| wrong(&error))?;
    // What is wrong with a certificate is told here, and not by the first answer that does not come.
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(unreached(address))?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// What a server says of a client's part of the handshake, which it judges after the client's handshake ended: why it ends
/// the connection, or `None` where it does not, or says nothing for as long as `patience`.
///
/// A request on its way would have its socket reset, and the reason may be lost with it: nothing is sent here.
///
/// # Errors
/// As [`connect`].
pub(crate) fn refusal(address: &Address, trust: &Trust, patience: Duration) -> ClientResult<Option<String>> {
    let mut stream = connect(address, trust)?;
    stream.sock.set_read_timeout(Some(patience)).map_err(unreached(address))?;
    let answered = stream.read(&mut [0]);
    Ok(answered
        .err()
        .filter(|error| error.kind() == io::ErrorKind::InvalidData)
        .map(|error| error.to_string()))
}
