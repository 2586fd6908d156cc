//! What kind of error it is, as SQL numbers them: drivers act on it.

use super::{ErrorKind, QueryError};
use tickstone_engine::EngineError;
use tickstone_model::ModelError;

/// A condition of the SQL standard or of PostgreSQL ("PostgreSQL Error Codes", appendix A of its manual).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlState {
    /// No SQL.
    SyntaxError,
    /// A table that is not there.
    UndefinedTable,
    /// A column that is not there.
    UndefinedColumn,
    /// A function that is not there, or not of these types.
    UndefinedFunction,
    /// A name that two tables have.
    AmbiguousColumn,
    /// A table that is there already.
    DuplicateTable,
    /// A column that is there already.
    DuplicateColumn,
    /// A column that is neither grouped nor aggregated.
    GroupingError,
    /// Types that do not fit.
    DatatypeMismatch,
    /// A text that is no value of the type.
    InvalidText,
    /// A value that must be there.
    NotNull,
    /// A type that is not there.
    UndefinedObject,
    /// A placeholder without a value.
    UndefinedParameter,
    /// A number that the type does not hold.
    OutOfRange,
    /// A division by zero.
    DivisionByZero,
    /// Something that is not there yet.
    NotSupported,
    /// A change where only reading is allowed.
    ReadOnlyTransaction,
    /// A statement inside a transaction that has failed.
    FailedTransaction,
    /// A statement that cannot be inside a transaction.
    ActiveTransaction,
    /// No transaction is open.
    NoActiveTransaction,
    /// A prepared statement that is not there.
    UndefinedStatement,
    /// A prepared statement that is there already.
    DuplicateStatement,
    /// A user, a role or a token that is there already.
    DuplicateObject,
    /// What the user may not do.
    Denied,
    /// Somebody who may not connect, or not any longer.
    Unknown,
    /// A password or a token that is not right.
    WrongPassword,
    /// Somebody cancelled it, or it took too long.
    Cancelled,
    /// The disk is full.
    DiskFull,
    /// There is no memory left.
    OutOfMemory,
    /// A user has as many connections as they may.
    TooManyConnections,
    /// The same may succeed later.
    Retry,
    /// Anything else that is wrong with the request.
    InvalidRequest,
    /// A defect, or damage.
    Internal,
}

impl SqlState {
    /// Its five characters.
    pub fn code(self) -> &'static str {
        match self {
            SqlState::SyntaxError => "42601",
            SqlState::UndefinedTable => "42P01",
            SqlState::UndefinedColumn => "42703",
            SqlState::UndefinedFunction => "42883",
            SqlState::AmbiguousColumn => "42702",
            SqlState::DuplicateTable => "42P07",
            SqlState::DuplicateColumn => "42701",
            SqlState::GroupingError => "42803",
            SqlState::DatatypeMismatch => "42804",
            SqlState::InvalidText => "22P02",
            SqlState::NotNull => "23502",
            SqlState::UndefinedObject => "42704",
            SqlState::UndefinedParameter => "42P02",
            SqlState::OutOfRange => "22003",
            SqlState::DivisionByZero => "22012",
            SqlState::NotSupported => "0A000",
            SqlState::ReadOnlyTransaction => "25006",
            SqlState::FailedTransaction => "25P02",
            SqlState::ActiveTransaction => "25001",
            SqlState::NoActiveTransaction => "25P01",
            SqlState::UndefinedStatement => "26000",
            SqlState::DuplicateStatement => "42P05",
            SqlState::DuplicateObject => "42710",
            SqlState::Denied => "42501",
            SqlState::Unknown => "28000",
            SqlState::WrongPassword => "28P01",
            SqlState::Cancelled => "57014",
            SqlState::DiskFull => "53100",
            SqlState::OutOfMemory => "53200",
            SqlState::TooManyConnections => "53300",
            SqlState::Retry => "40001",
            SqlState::InvalidRequest => "42000",
            SqlState::Internal => "XX000",
        }
    }
}

impl QueryError {
    /// Says what kind of error it is.
    #[must_use]
    pub fn state(self, state: SqlState) -> Self {
        Self { state: Some(state), ..self }
    }

    /// What kind of error it is.
    pub fn sql_state(&self) -> SqlState {
        if let Some(state) = self.state {
            return state;
        }
        match self.kind {
            ErrorKind::Retry => SqlState::Retry,
            ErrorKind::FixRequest => SqlState::InvalidRequest,
            ErrorKind::FreeSpace => SqlState::OutOfMemory,
            ErrorKind::Report => SqlState::Internal,
        }
    }
}

/// What kind of error a text is that could not be read as a statement.
pub(super) fn of_text(message: &str) -> SqlState {
    if message.starts_with("unknown column type") {
        return SqlState::UndefinedObject;
    }
    let unsupported = ["is not supported", "are not supported", "is not supported yet"];
    match unsupported.iter().any(|words| message.ends_with(words)) {
        true => SqlState::NotSupported,
        false => SqlState::SyntaxError,
    }
}

/// What kind of error one of the engine is, where it says more than what to do.
pub(super) fn of_engine(error: &EngineError) -> Option<SqlState> {
    Some(match error {
        EngineError::NoSuchTable { .. } | EngineError::TableGone { .. } => SqlState::UndefinedTable,
        EngineError::TableExists { .. } => SqlState::DuplicateTable,
        EngineError::ReadOnly { .. } => SqlState::ReadOnlyTransaction,
        EngineError::DiskFull { .. } | EngineError::TapeStopped { .. } => SqlState::DiskFull,
        EngineError::Io { .. } if error.kind() == ErrorKind::FreeSpace => SqlState::DiskFull,
        EngineError::MemoryFull { .. } => SqlState::OutOfMemory,
        EngineError::Model(error) => return of_model(error),
        _ => return None,
    })
}

/// The same of one of the model.
pub(super) fn of_model(error: &ModelError) -> Option<SqlState> {
    Some(match error {
        ModelError::NoSuchColumn { .. } => SqlState::UndefinedColumn,
        ModelError::DuplicateColumn { .. } => SqlState::DuplicateColumn,
        ModelError::WrongColumnType { .. } | ModelError::BatchColumn { .. } => SqlState::DatatypeMismatch,
        ModelError::UnknownType { .. } => SqlState::UndefinedObject,
        ModelError::NullTimestamp { .. } => SqlState::NotNull,
        _ => return None,
    })
}
