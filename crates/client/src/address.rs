//! Addresses of servers: `tickstone://host[:port]`.

use crate::error::{ClientError, Result};
use crate::protocol::PORT;

/// The scheme of addresses.
const SCHEME: &str = "tickstone://";
/// The scheme of encrypted connections.
const TLS_SCHEME: &str = "tickstone+tls://";

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Its name, or its IP address; one of version 6 in brackets.
    pub host: String,
    /// The port of Flight SQL.
    pub port: u16,
}

impl Address {
    /// Whether a text is meant as an address, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME) || text.starts_with(TLS_SCHEME)
    }

    /// Reads `tickstone://host[:port]`.
    ///
    /// # Errors
    /// Where it is none, or one for TLS or of a user, which there are not yet.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            let error = ClientError::request(format!("'{text}' {what}"));
            Err(error.hint(format!("write tickstone://host or tickstone://host:{PORT}")))
        };
        if text.starts_with(TLS_SCHEME) {
            let error = ClientError::request("TLS is not supported yet");
            return Err(error.hint("use tickstone:// inside a network you trust, or through an SSH tunnel"));
        }
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return wrong("is no address of a server");
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
            None => PORT,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return wrong("has no number from 1 to 65535 as its port"),
        };
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) {
            return wrong("has no host; an IPv6 address stands in brackets");
        }
        Ok(Self { host: host.to_string(), port })
    }

    /// As HTTP wants it.
    pub(crate) fn uri(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
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
            "tickstone+tls://h",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(error.hint.is_some(), "{text}");
        }
    }
}
