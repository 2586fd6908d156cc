//! What proves to a server who connects.

use crate::error::{ClientError, Result};
use arrow_flight::flight_service_client::FlightServiceClient;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// What proves who connects.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user and their password.
    Password {
        /// The user's name, which has no colon.
        user: String,
        /// The password.
        password: String,
    },
    /// A token of `CREATE TOKEN`.
    Token(String),
}

/// Secrets are not shown.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Password { user, .. } => write!(f, "Password of {user}"),
            Credentials::Token(_) => f.write_str("Token"),
        }
    }
}

impl Credentials {
    /// The header of HTTP that says so (RFC 7617, RFC 6750).
    ///
    /// # Errors
    /// Where they cannot stand in one.
    pub(crate) fn header(&self) -> Result<AsciiMetadataValue> {
        let text = match self {
            Credentials::Password { user, .. } if user.contains(':') => {
                return Err(ClientError::request(format!("'{user}' is no name of a user: it has a colon")));
            }
            Credentials::Password { user, password } => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
            Credentials::Token(token) => format!("Bearer {token}"),
        };
        let mut value = AsciiMetadataValue::try_from(text)
            .map_err(|_| ClientError::request("the token has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// The calls of Flight, each with who calls.
pub(crate) type Service = FlightServiceClient<InterceptedService<Channel, Authorization>>;

/// Says with each request who sends it.
#[derive(Debug, Clone)]
pub(crate) struct Authorization(Option<AsciiMetadataValue>);

impl Authorization {
    /// # Errors
    /// Where they cannot be said.
    pub(crate) fn of(credentials: Option<&Credentials>) -> Result<Self> {
        credentials.map(Credentials::header).transpose().map(Self)
    }
}

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}
