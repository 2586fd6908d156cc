//! Errors as gRPC has them: a code, a text, and for our own client their parts.

use arrow_flight::error::FlightError;
use prost::Message;
use std::error::Error as _;
use tickstone_client::protocol::{FAILURE, Failure};
use tickstone_engine::EngineError;
use tickstone_query::arrow::error::ArrowError;
use tickstone_query::{ErrorKind, QueryError, SqlState};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The longest text of an error, in bytes: clients take few kilobytes of headers.
const TEXT_BYTES_MAX: usize = 1_000;

/// An error as an answer.
pub(super) fn status(error: &QueryError) -> Status {
    let failure = Failure {
        kind: match error.kind {
            ErrorKind::Retry => 1,
            ErrorKind::FixRequest => 2,
            ErrorKind::FreeSpace => 3,
            ErrorKind::Report => 4,
        },
        message: cut(&error.message),
        detail: error.detail.as_deref().map(cut),
        hint: error.hint.as_deref().map(cut),
        line: error.position.map_or(0, |position| narrow(position.line)),
        column: error.position.map_or(0, |position| narrow(position.column)),
        state: error.sql_state().code().to_string(),
        storage: is_storage(error),
    };
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(FAILURE, MetadataValue::from_bytes(&failure.encode_to_vec()));
    Status::with_metadata(code(error), cut(&error.to_string()), metadata)
}

fn narrow(place: u64) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// The answer to a request that is wrong.
pub(super) fn wrong(what: impl Into<String>) -> Status {
    status(&QueryError::request(what))
}

/// The answer to a request that names what is not there.
pub(super) fn missing(what: &str, hint: &str) -> Status {
    status(&QueryError::request(what).hint(hint).state(SqlState::UndefinedStatement))
}

/// The answer to a request for what is not done here.
pub(super) fn not_supported(what: &str) -> Status {
    status(&QueryError::not_supported(what))
}

/// Why messages of rows cannot be read.
pub(super) fn unreadable(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        FlightError::Arrow(error) => wrong(format!("the rows cannot be read: {error}")),
        FlightError::DecodeError(what) | FlightError::ProtocolError(what) => {
            wrong(format!("the rows cannot be read: {what}"))
        }
        other => wrong(format!("the rows cannot be read: {other}")),
    }
}

/// A defect in the making of an answer.
pub(super) fn defect(error: impl Into<FlightError>) -> Status {
    let what = format!("the answer cannot be written: {}", error.into());
    status(&QueryError::new(ErrorKind::Report, what))
}

/// An answer as an error of rows that come: it ends whoever stores them.
pub(super) fn in_arrow(status: Status) -> ArrowError {
    ArrowError::ExternalError(Box::new(status))
}

fn code(error: &QueryError) -> Code {
    match error.sql_state() {
        SqlState::UndefinedTable | SqlState::UndefinedStatement => Code::NotFound,
        SqlState::DuplicateTable => Code::AlreadyExists,
        SqlState::NotSupported => Code::Unimplemented,
        SqlState::Cancelled => Code::Cancelled,
        SqlState::Denied => Code::PermissionDenied,
        SqlState::Unknown | SqlState::WrongPassword => Code::Unauthenticated,
        SqlState::ReadOnlyTransaction
        | SqlState::FailedTransaction
        | SqlState::ActiveTransaction
        | SqlState::NoActiveTransaction => Code::FailedPrecondition,
        _ => match error.kind {
            ErrorKind::Retry => Code::Unavailable,
            ErrorKind::FixRequest => Code::InvalidArgument,
            ErrorKind::FreeSpace => Code::ResourceExhausted,
            ErrorKind::Report => Code::Internal,
        },
    }
}

/// Whether an error is about files and memory, not about what was asked.
fn is_storage(error: &QueryError) -> bool {
    let engine = error.source().and_then(|source| source.downcast_ref::<EngineError>());
    engine.is_some_and(|engine| {
        engine.kind() != ErrorKind::FixRequest || matches!(engine, EngineError::ReadOnly { .. })
    })
}

fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_string();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_are_cut_and_keep_their_parts() {
        let error = QueryError::request("é".repeat(5_000)).hint("write less").state(SqlState::UndefinedTable);
        let told = status(&error);
        assert_eq!(told.code(), Code::NotFound);
        assert!(told.message().len() < 1_100);
        let parts = told.metadata().get_bin(FAILURE).expect("parts").to_bytes().expect("bytes");
        let parts = Failure::decode(parts).expect("a failure");
        assert_eq!((parts.kind, parts.line, parts.state.as_str()), (2, 0, "42P01"));
        assert_eq!(parts.hint.as_deref(), Some("write less"));
        assert!(parts.message.ends_with('…'));
    }
}
