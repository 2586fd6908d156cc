//! [`ClientError`]: why something failed, as the server says it.

use crate::protocol::{FAILURE, Failure};
use arrow_flight::error::FlightError;
use arrow_schema::ArrowError;
use prost::Message;
use std::error::Error as _;
use std::fmt;
use tonic::{Code, Status};

/// The result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, ClientError>;

/// What the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The same may succeed later.
    Retry,
    /// The request is wrong, and will fail again.
    FixRequest,
    /// The server's disk or memory is full.
    FreeSpace,
    /// Files are damaged, or the server is at fault.
    Report,
}

/// Something that failed. Unless it says otherwise, nothing of it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    /// What the caller can do.
    pub kind: Kind,
    /// What went wrong, in one sentence.
    pub message: String,
    /// More about it, where there is more.
    pub detail: Option<String>,
    /// What to do or write instead, where that is known.
    pub hint: Option<String>,
    /// Line and column in the statement's text, in characters from 1, where they are known.
    pub position: Option<(u32, u32)>,
    /// The five characters of its SQLSTATE; empty where the server did not say.
    pub state: String,
    /// Whether it is about files and memory of the server, not about what was asked.
    pub is_storage: bool,
}

impl ClientError {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            state: String::new(),
            is_storage: false,
        }
    }

    /// A request that is wrong and will fail again.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(Kind::FixRequest, message)
    }

    /// Adds what to do or write instead.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn of_failure(failure: Failure) -> Self {
        let kind = match failure.kind {
            1 => Kind::Retry,
            2 => Kind::FixRequest,
            3 => Kind::FreeSpace,
            _ => Kind::Report,
        };
        Self {
            kind,
            message: failure.message,
            detail: failure.detail,
            hint: failure.hint,
            position: (failure.line > 0).then_some((failure.line, failure.column)),
            state: failure.state,
            is_storage: failure.storage,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some((line, column)) = self.position {
            write!(f, " at line {line}, column {column}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "\n{detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ClientError {}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let told = status.metadata().get_bin(FAILURE).and_then(|value| value.to_bytes().ok());
        if let Some(failure) = told.and_then(|bytes| Failure::decode(bytes).ok()) {
            return Self::of_failure(failure);
        }
        let is_cut_off = is_cut_off(&status);
        let kind = match status.code() {
            _ if is_cut_off => Kind::Retry,
            Code::Aborted | Code::DeadlineExceeded => Kind::Retry,
            Code::ResourceExhausted => Kind::FreeSpace,
            Code::Internal | Code::Unknown | Code::DataLoss => Kind::Report,
            _ => Kind::FixRequest,
        };
        let mut error = Self::new(kind, status.message());
        if is_cut_off {
            error = error.hint("is the server still there?");
        }
        if error.message.is_empty() {
            error.message = format!("the server answered {:?}", status.code());
        }
        error
    }
}

/// Whether no server said it: what a server says has no cause here, what is said instead of a server has.
pub(crate) fn is_cut_off(status: &Status) -> bool {
    status.code() == Code::Unavailable || status.source().is_some()
}

impl From<FlightError> for ClientError {
    fn from(error: FlightError) -> Self {
        match error {
            FlightError::Tonic(status) => (*status).into(),
            FlightError::ExternalError(inner) => match inner.downcast::<ClientError>() {
                Ok(inner) => *inner,
                Err(inner) => Self::new(Kind::Report, inner.to_string()),
            },
            FlightError::Arrow(error) => error.into(),
            other => Self::new(Kind::Report, format!("the server's answer cannot be read: {other}")),
        }
    }
}

impl From<ArrowError> for ClientError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::ExternalError(inner) => match inner.downcast::<ClientError>() {
                Ok(inner) => *inner,
                Err(inner) => Self::request(inner.to_string()),
            },
            other => Self::request(other.to_string()),
        }
    }
}
