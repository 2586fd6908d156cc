//! Addresses of servers: `tickstone://host[:port]`, and over TLS `tickstone+tls://host[:port][?ca=FILE]`.

use crate::error::{ClientError, Result};
use crate::protocol::PORT;
use std::path::{Path, PathBuf};

/// The scheme of addresses.
const SCHEME: &str = "tickstone://";
/// The scheme of connections over TLS.
const TLS_SCHEME: &str = "tickstone+tls://";
/// What names the authority of a server's certificate.
const AUTHORITY: &str = "ca=";

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Its name, or its IP address; one of version 6 in brackets.
    pub host: String,
    /// The port of Flight SQL.
    pub port: u16,
    /// Whose certificates are trusted; `None` where TLS is not spoken.
    pub trust: Option<Trust>,
}

/// Whose certificates are trusted. The server's must be of the name that the address has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that the system trusts.
    System,
    /// Those of the authorities in a PEM file.
    File(PathBuf),
}

/// The text of a PEM file of authorities.
///
/// # Errors
/// Where it cannot be read, and where there is no certificate in it.
pub(crate) fn authorities(path: &Path) -> Result<Vec<u8>> {
    /// What a certificate begins with.
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let text = std::fs::read(path).map_err(|error| {
        ClientError::request(format!("cannot read the authorities in {}: {error}", path.display()))
    })?;
    if !text.windows(BEGIN.len()).any(|part| part == BEGIN) {
        let what = format!("{} has no certificate of an authority", path.display());
        return Err(ClientError::request(what).hint("name a PEM file, such as ca.pem of `tickstone cert`"));
    }
    Ok(text)
}

impl Address {
    /// Whether a text is meant as an address, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME) || text.starts_with(TLS_SCHEME)
    }

    /// Reads `tickstone://host[:port]` or `tickstone+tls://host[:port][?ca=FILE]`.
    ///
    /// # Errors
    /// Where it is none, or of a user, which there are not yet.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_or(text, PORT)
    }

    /// The same, where another port is meant if none is said.
    pub(crate) fn parse_or(text: &str, default: u16) -> Result<Self> {
        let wrong = |what: &str| {
            let error = ClientError::request(format!("'{text}' {what}"));
            Err(error.hint(format!("write tickstone://host or tickstone://host:{default}")))
        };
        let (rest, trust) = match (text.strip_prefix(SCHEME), text.strip_prefix(TLS_SCHEME)) {
            (Some(rest), _) => (rest, None),
            (None, Some(rest)) => match rest.split_once('?') {
                None => (rest, Some(Trust::System)),
                Some((rest, asked)) => match asked.strip_prefix(AUTHORITY) {
                    Some(file) if !file.is_empty() => (rest, Some(Trust::File(file.into()))),
                    _ => return wrong("has more behind its ? than ca=FILE"),
                },
            },
            (None, None) => return wrong("is no address of a server"),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('@') {
            return wrong("names a user, and there are no users yet");
        }
        if rest.contains(['/', '?', '#']) || rest.contains(char::is_whitespace) {
            return wrong("has more than a host and a port");
        }
        let (host, port) = match rest.rsplit_once(':') {
            // Colons inside brackets are those of an address of version 6.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = match port.map(str::parse::<u16>) {
            None => default,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return wrong("has no number from 1 to 65535 as its port"),
        };
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) {
            return wrong("has no host; an IPv6 address stands in brackets");
        }
        Ok(Self { host: host.to_string(), port, trust })
    }

    /// As HTTP wants it.
    pub(crate) fn uri(&self) -> String {
        let scheme = if self.trust.is_some() { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let of = |text| Address::parse(text).map(|address| (address.host, address.port));
        assert_eq!(of("tickstone://localhost"), Ok(("localhost".into(), 8815)));
        assert_eq!(of("tickstone://10.0.0.1:9/"), Ok(("10.0.0.1".into(), 9)));
        assert_eq!(of("tickstone://[::1]:7"), Ok(("[::1]".into(), 7)));
        assert_eq!(of("tickstone://[::1]"), Ok(("[::1]".into(), 8815)));
    }

    #[test]
    fn whom_to_trust() {
        let of = |text| Address::parse(text).map(|address| (address.uri(), address.trust));
        assert_eq!(of("tickstone+tls://h:9"), Ok(("https://h:9".into(), Some(Trust::System))));
        let file = Some(Trust::File("a dir/ca?.pem".into()));
        assert_eq!(of("tickstone+tls://[::1]/?ca=a dir/ca?.pem"), Ok(("https://[::1]:8815".into(), file)));
        assert_eq!(of("tickstone://h"), Ok(("http://h:8815".into(), None)));
    }

    #[test]
    fn what_is_no_address() {
        for text in [
            "localhost",
            "http://localhost",
            "tickstone://",
            "tickstone://:9",
            "tickstone://h:0",
            "tickstone://h:x",
            "tickstone://h:70000",
            "tickstone://h/db",
            "tickstone://me@h",
            "tickstone://::1",
            "tickstone://a b",
            "tickstone+tls://",
            "tickstone+tls://h?",
            "tickstone+tls://h?ca=",
            "tickstone+tls://h?insecure=true",
            "tickstone://h?ca=ca.pem",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(error.hint.is_some(), "{text}");
        }
    }
}
