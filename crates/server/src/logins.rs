//! Who somebody is: by a user and a password or a token that are handed over as they are, by a signature, or by the
//! certificate of their connection.

use crate::shared::Shared;
use crate::transport::of_certificate;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tickstone_query::audit::Origin;
use tickstone_query::{Access, Database, ErrorKind, QueryError, SqlState};
use tracing::warn;

/// How long a client may take to say who it is, where it says so before anything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The longest name of a user.
const USER_BYTES_MAX: usize = 255;

/// What the tokens begin with that Flight's handshake gives for a user and a password: the two themselves follow.
const OF_HANDSHAKE: &str = "basic-";

/// Base64 with or without its padding: Arrow's client in Go leaves it out.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a client of Flight is to send with each call after a handshake with this header: what it sent, as a token.
pub(crate) fn bearer_of(header: &str) -> Option<String> {
    let (scheme, encoded) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| format!("Bearer {OF_HANDSHAKE}{}", encoded.trim()))
}

/// What a client says that it is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password {
        user: String,
        password: String,
    },
    Token(String),
    /// A user, and a message that a key of theirs signed.
    Signature {
        user: String,
        message: Vec<u8>,
        signature: Vec<u8>,
    },
    /// The user that the certificate of the connection names.
    Certificate(Arc<str>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// The user that it names; nobody's where it is a token.
    fn user(&self) -> String {
        match self {
            Credentials::Password { user, .. } | Credentials::Signature { user, .. } => user.clone(),
            Credentials::Certificate(name) => name.to_string(),
            Credentials::Token(_) => String::new(),
        }
    }

    /// Those of an `Authorization` header: `Basic` (RFC 7617), `Bearer` (RFC 6750), and `Token` as InfluxDB's clients
    /// send it, also as `user:password`.
    pub(crate) fn of_header(value: &str) -> Option<Self> {
        let (scheme, rest) = value.split_once(' ')?;
        let rest = rest.trim();
        let password = |encoded: &str| {
            let decoded = String::from_utf8(BASE64.decode(encoded).ok()?).ok()?;
            let (user, password) = decoded.split_once(':')?;
            Some(Self::Password { user: user.to_string(), password: password.to_string() })
        };
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => password(rest),
            "bearer" => match rest.strip_prefix(OF_HANDSHAKE) {
                Some(encoded) => password(encoded),
                None => Some(Self::Token(rest.to_string())),
            },
            "token" => Some(match rest.split_once(':') {
                Some((user, password)) => {
                    Self::Password { user: user.to_string(), password: password.to_string() }
                }
                None => Self::Token(rest.to_string()),
            }),
            _ => None,
        }
    }
}

/// The access of a client by what it says that it is; `connects` where it says so once for a connection. A wrong answer
/// waits for longer each time.
///
/// # Errors
/// Where it is not right.
pub(crate) async fn access_by(
    shared: &Arc<Shared>,
    credentials: Credentials,
    origin: Origin,
    connects: bool,
) -> Result<Access, QueryError> {
    access_or(shared, credentials, origin, connects, || ()).await
}

/// As [`access_by`]; `refused` is called before a wrong answer waits.
///
/// # Errors
/// As there.
pub(crate) async fn access_or(
    shared: &Arc<Shared>,
    credentials: Credentials,
    origin: Origin,
    connects: bool,
    refused: impl FnOnce(),
) -> Result<Access, QueryError> {
    let mut user = credentials.user();
    let mut credentials = Some(credentials);
    // A longer name is nobody's, and is not kept while it waits.
    if user.len() > USER_BYTES_MAX {
        credentials = None;
        user = user[..user.floor_char_boundary(USER_BYTES_MAX)].to_string();
    }
    let database = shared.database.clone();
    let prove = move || match &credentials {
        None => Err(QueryError::request("wrong user, password or token").state(SqlState::WrongPassword)),
        Some(Credentials::Password { user, password }) => database.access_by_password(user, password),
        Some(Credentials::Token(token)) => database.access_by_token(token),
        Some(Credentials::Signature { user, message, signature }) => {
            database.access_by_signature(user, message, signature)
        }
        Some(Credentials::Certificate(name)) => access_by_certificate(&database, name),
    };
    let proved = shared.database.runtime().spawn_blocking(prove).await;
    let proved =
        proved.unwrap_or_else(|_| Err(QueryError::new(ErrorKind::Report, "the login was cut short")));
    match &proved {
        Ok(_) => shared.guesses.right(&user),
        Err(_) => {
            refused();
            tokio::time::sleep(shared.guesses.wrong(&user, origin.address)).await;
        }
    }
    tell_login(shared, &user, proved.map(|access| access.from(origin)), origin, connects)
}

/// The access of the user that a certificate names.
///
/// # Errors
/// Where there is no such user.
pub(crate) fn access_by_certificate(database: &Database, name: &str) -> Result<Access, QueryError> {
    database.access_of(name).map_err(|_| {
        let what = format!("the certificate of the connection is of '{name}', and there is no such user");
        QueryError::request(what).state(SqlState::Unknown)
    })
}

/// Whether a name is that of a user.
pub(crate) fn is_user(name: &str, user: &str) -> bool {
    tickstone_model::folded_name(name) == tickstone_model::folded_name(user)
}

/// Tells of a login: one that failed, and one of a connection.
///
/// # Errors
/// That of the login.
pub(crate) fn tell_login(
    shared: &Shared,
    user: &str,
    proved: Result<Access, QueryError>,
    origin: Origin,
    connects: bool,
) -> Result<Access, QueryError> {
    let proved = proved.and_then(|access| if connects { access.seated() } else { Ok(access) });
    match &proved {
        Ok(access) if connects => {
            access.check_audit()?;
            access.tell("LOGIN", "".into(), 0, Duration::ZERO, None);
        }
        Ok(_) => {}
        Err(error) => {
            let (protocol, address) = (origin.protocol, origin.address.map(tracing::field::display));
            warn!(user, protocol, address, why = %error.message, "a login is refused");
            let nobody = Access::of_nobody(&shared.database).from(origin);
            nobody.tell("LOGIN", user.into(), 0, Duration::ZERO, Some(error));
        }
    }
    proved
}

/// Tells of a handshake that failed, where it was for a certificate of the client's: after the wait of a wrong answer.
pub(crate) async fn tell_certificate(shared: &Shared, failed: &io::Error, origin: Origin) {
    let Some(why) = of_certificate(failed) else { return };
    tokio::time::sleep(shared.guesses.wrong("", origin.address)).await;
    let error =
        QueryError::request(format!("the client's certificate is refused: {why}")).state(SqlState::Unknown);
    let _ = tell_login(shared, "", Err(error), origin, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_say_who_it_is() {
        let password = |user: &str, password: &str| {
            Some(Credentials::Password { user: user.into(), password: password.into() })
        };
        let token = |token: &str| Some(Credentials::Token(token.into()));
        for (header, wanted) in [
            ("Basic YW5uOmE6Yg==", password("ann", "a:b")),
            ("basic YW5uOg==", password("ann", "")),
            ("Basic YW5uOg", password("ann", "")),
            ("Bearer tick_x", token("tick_x")),
            (&bearer_of("Basic YW5uOmE6Yg==").expect("basic"), password("ann", "a:b")),
            ("Token tick_x", token("tick_x")),
            ("Token ann:secret", password("ann", "secret")),
            ("Basic !", None),
            ("Basic YW5u", None),
            ("Digest x", None),
            ("", None),
        ] {
            assert!(Credentials::of_header(header) == wanted, "{header}");
        }
    }

    proptest! {
        /// Any text is one of the three, or none of them; what a client encodes comes back.
        #[test]
        fn any_header_is_read(scheme in "(?i:basic|bearer|token|bearer basic-|.{0,6})", rest in ".*", bytes: Vec<u8>) {
            let encoded = BASE64.encode(&bytes);
            for header in [format!("{scheme} {rest}"), format!("{scheme} {encoded}"), rest.clone(), scheme.clone()] {
                let found = Credentials::of_header(&header);
                let asks = bearer_of(&header).and_then(|token| Credentials::of_header(&token));
                prop_assert!(asks.is_none() || asks == found, "{header}");
            }
            let (user, password) = (rest.replace(':', ""), encoded);
            let header = format!("Basic {}", BASE64.encode(format!("{user}:{password}")));
            prop_assert!(Credentials::of_header(&header) == Some(Credentials::Password { user, password }), "{header}");
        }
    }
}
