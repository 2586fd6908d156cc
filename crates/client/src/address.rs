//! Addresses of servers: `tickstone://[user[:password]@]host[:port]`, and over TLS
//! `tickstone+tls://…[?ca=FILE&cert=FILE&key=FILE]`.

use crate::credentials::Credentials;
use crate::error::{ClientError, Result};
use crate::protocol::PORT;
use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};

/// The scheme of addresses.
const SCHEME: &str = "tickstone://";
/// The scheme of connections over TLS.
const TLS_SCHEME: &str = "tickstone+tls://";
/// What names the authority of a server's certificate, and a certificate of one's own with its key.
const FILES: [&str; 3] = ["ca=", "cert=", "key="];

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Its name, or its IP address; one of version 6 in brackets.
    pub host: String,
    /// The port of Flight SQL.
    pub port: u16,
    /// Whose certificates are trusted; `None` where TLS is not spoken.
    pub trust: Option<Trust>,
    /// The certificate by which the client proves who it is; `None` where it has none.
    pub identity: Option<Identity>,
    /// Who connects; `None` where the server has no users.
    pub credentials: Option<Credentials>,
}

/// Whose certificates are trusted. The server's must be of the name that the address has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that the system trusts.
    System,
    /// Those of the authorities in a PEM file.
    File(PathBuf),
}

/// The files of a client's certificate, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those that vouch for it behind it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The texts of an [`Identity`].
pub(crate) struct IdentityText {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Identity {
    /// # Errors
    /// Where a file cannot be read, and where what is wanted is not in it.
    pub(crate) fn read(&self) -> Result<IdentityText> {
        let certificate = pem(&self.certificate, "certificate", "CERTIFICATE-----", "ann.pem")?;
        let key = pem(&self.key, "key", "PRIVATE KEY-----", "ann-key.pem")?;
        Ok(IdentityText { certificate, key })
    }
}

/// The text of a PEM file of authorities.
///
/// # Errors
/// Where it cannot be read, and where there is no certificate in it.
pub(crate) fn authorities(path: &Path) -> Result<Vec<u8>> {
    pem(path, "certificate of an authority", "CERTIFICATE-----", "ca.pem")
}

/// The text of a PEM file, in which something like `wanted` stands.
fn pem(path: &Path, what: &str, wanted: &str, example: &str) -> Result<Vec<u8>> {
    let unread = |error: std::io::Error| {
        ClientError::request(format!("cannot read the {what} in {}: {error}", path.display()))
    };
    let text = std::fs::read(path).map_err(unread)?;
    if !text.windows(wanted.len()).any(|part| part == wanted.as_bytes()) {
        let missing = ClientError::request(format!("{} has no {what}", path.display()));
        return Err(missing.hint(format!("name a PEM file, such as {example} of `tickstone cert`")));
    }
    Ok(text)
}

/// The files that stand behind the `?` of an address, in the order of [`FILES`]. A path may have any character; the next
/// file begins at `&` and its name.
fn files(mut asked: &str) -> std::result::Result<[Option<PathBuf>; FILES.len()], &'static str> {
    const WANTED: &str = "has more behind its ? than ca=FILE, cert=FILE and key=FILE";
    let mut found = [const { None }; FILES.len()];
    loop {
        let Some(which) = FILES.iter().position(|name| asked.starts_with(name)) else { return Err(WANTED) };
        asked = &asked[FILES[which].len()..];
        let next = FILES.iter().filter_map(|name| asked.find(&format!("&{name}"))).min();
        let (path, rest) = asked.split_at(next.unwrap_or(asked.len()));
        if path.is_empty() || found[which].replace(PathBuf::from(path)).is_some() {
            return Err(WANTED);
        }
        match rest.strip_prefix('&') {
            Some(rest) => asked = rest,
            None => return Ok(found),
        }
    }
}

impl Address {
    /// The host as names and IP addresses are written, without the brackets around one of IPv6.
    pub(crate) fn host_name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether a text is meant as an address, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME) || text.starts_with(TLS_SCHEME)
    }

    /// Reads `tickstone://host[:port]` or `tickstone+tls://host[:port][?ca=FILE&cert=FILE&key=FILE]`. A user and a
    /// password may stand before the host, `user:password@host`, their special characters as `%40` and the like.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_or(text, PORT)
    }

    /// The same, where another port is meant if none is said.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_or(text: &str, default: u16) -> Result<Self> {
        let wrong = |what: &str| {
            // What stands before an @ may be a password.
            let shown = match (text.split_once("://"), text.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
                _ => text.to_string(),
            };
            let error = ClientError::request(format!("'{shown}' {what}"));
            Err(error.hint(format!("write tickstone://host or tickstone://host:{default}")))
        };
        let (rest, trust, identity) = match (text.strip_prefix(SCHEME), text.strip_prefix(TLS_SCHEME)) {
            (Some(rest), _) => (rest, None, None),
            (None, Some(rest)) => {
                let (rest, asked) =
                    rest.split_once('?').map_or((rest, None), |(rest, asked)| (rest, Some(asked)));
                let (authority, identity) = match asked.map(files).transpose() {
                    Err(what) => return wrong(what),
                    Ok(None) => (None, None),
                    Ok(Some([authority, None, None])) => (authority, None),
                    Ok(Some([authority, Some(certificate), Some(key)])) => {
                        (authority, Some(Identity { certificate, key }))
                    }
                    Ok(Some(_)) => return wrong("has one of cert=FILE and key=FILE without the other"),
                };
                (rest, Some(authority.map_or(Trust::System, Trust::File)), identity)
            }
            (None, None) => return wrong("is no address of a server"),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((user, rest)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let text = |text| percent_decode_str(text).decode_utf8().map(String::from);
                let (Ok(user), Ok(password)) = (text(user), text(password)) else {
                    return wrong("has a user or a password that is no text");
                };
                if user.is_empty() {
                    return wrong("has no user before its @");
                }
                (Some(Credentials::Password { user, password }), rest)
            }
        };
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
        Ok(Self { host: host.to_string(), port, trust, identity, credentials })
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
    fn certificates_of_ones_own() {
        let of = |text| Address::parse(text).map(|address| (address.trust, address.identity));
        let identity = Some(Identity { certificate: "a&b=c.pem".into(), key: "k?.pem".into() });
        let trust = Some(Trust::File("ca.pem".into()));
        assert_eq!(
            of("tickstone+tls://h?ca=ca.pem&cert=a&b=c.pem&key=k?.pem"),
            Ok((trust, identity.clone()))
        );
        let system = Some(Trust::System);
        assert_eq!(of("tickstone+tls://h?key=k?.pem&cert=a&b=c.pem"), Ok((system, identity)));
    }

    #[test]
    fn who_connects() {
        let of = |text| Address::parse(text).map(|address| (address.host, address.credentials));
        let password = |user: &str, password: &str| {
            Some(Credentials::Password { user: user.into(), password: password.into() })
        };
        assert_eq!(of("tickstone://ann@h"), Ok(("h".into(), password("ann", ""))));
        assert_eq!(of("tickstone://a%3an:s:e@c%40t@h:9"), Ok(("h".into(), password("a:n", "s:e@c@t"))));
        let wrong = Address::parse("tickstone://ann:secret@h:x").expect_err("no port");
        assert!(!format!("{wrong:?}").contains("secret"), "{wrong:?}");
        let address = Address::parse("tickstone+tls://ann:secret@h?ca=x").expect("an address");
        assert!(!format!("{address:?}").contains("secret"), "{address:?}");
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
            "tickstone://@h",
            "tickstone://%ff@h",
            "tickstone://me@",
            "tickstone://::1",
            "tickstone://a b",
            "tickstone+tls://",
            "tickstone+tls://h?",
            "tickstone+tls://h?ca=",
            "tickstone+tls://h?insecure=true",
            "tickstone+tls://h?cert=a.pem",
            "tickstone+tls://h?cert=a.pem&key=",
            "tickstone+tls://h?ca=a&ca=b",
            "tickstone://h?ca=ca.pem",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!(error.hint.is_some(), "{text}");
        }
    }
}
