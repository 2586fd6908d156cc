//! Errors of the database as the codes of QWP.
//!
//! What a client does depends on the code: after a write error or an internal one it sends the same again, on another
//! connection; after any other it gives up and tells its caller.

use tickstone_query::{ErrorKind, QueryError, SqlState};
use tickstone_wire::qwp::Status;
use tickstone_wire::qwp::egress::Done;

/// The code of rows that could not be stored.
pub(super) fn of_rows(error: &QueryError) -> Status {
    match (error.sql_state(), error.kind) {
        (SqlState::Denied | SqlState::Unknown | SqlState::WrongPassword, _) => Status::SecurityError,
        (_, ErrorKind::FixRequest) => Status::SchemaMismatch,
        (_, ErrorKind::Retry | ErrorKind::FreeSpace) => Status::WriteError,
        (_, ErrorKind::Report) => Status::InternalError,
    }
}

/// The code of a statement that failed.
pub(super) fn of_statement(error: &QueryError) -> Status {
    match (error.sql_state(), error.kind) {
        (SqlState::Cancelled, _) => Status::Cancelled,
        (SqlState::OutOfMemory, _) => Status::LimitExceeded,
        (SqlState::Denied | SqlState::Unknown | SqlState::WrongPassword, _) => Status::SecurityError,
        (_, ErrorKind::FixRequest) => Status::ParseError,
        (_, ErrorKind::Retry | ErrorKind::FreeSpace | ErrorKind::Report) => Status::InternalError,
    }
}

/// What a statement without rows did; what QuestDB has no number for is told as a setting.
pub(super) fn done(tag: &str) -> Done {
    match tag {
        "INSERT" | "COPY" => Done::Insert,
        "TRUNCATE" => Done::Truncate,
        "ALTER TABLE" | "DROP PARTITION" => Done::Alter,
        "DROP TABLE" | "DROP VIEW" | "DROP MATERIALIZED VIEW" => Done::Drop,
        "CREATE TABLE" => Done::CreateTable,
        "CREATE VIEW" | "CREATE MATERIALIZED VIEW" => Done::CreateView,
        "UPDATE" | "DELETE" => Done::Update,
        "OPTIMIZE" => Done::Vacuum,
        _ => Done::Set,
    }
}
