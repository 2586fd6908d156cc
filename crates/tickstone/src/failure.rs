//! What ends a command early.

use crate::r#gen::GenError;
use std::io;
use std::path::PathBuf;
use tickstone_client::{ClientError, Kind};
use tickstone_engine::EngineError;
use tickstone_query::dialect::Position;
use tickstone_query::import::ImportError;
use tickstone_query::{ErrorKind, QueryError};

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A statement failed; the message shows where in its text.
    #[error("{0}")]
    Sql(String),
    /// The database refused.
    #[error("error: {0}")]
    Query(#[from] QueryError),
    /// A file cannot be imported.
    #[error("error: {error}{}", hint_line(error.hint()))]
    Import {
        /// Why.
        error: ImportError,
    },
    /// The engine refused.
    #[error("error: {0}")]
    Engine(#[from] EngineError),
    /// A check found damage; the findings were printed.
    #[error("error: {} is damaged{hint}", data.display())]
    Damaged {
        /// The database.
        data: PathBuf,
        /// What can be done, on a line of its own; empty where nothing can.
        hint: &'static str,
    },
    /// Documents of a stream are lacking; the others were given.
    #[error(
        "error: {bytes} bytes of stream '{stream}' are damaged or missing: the documents in them are not here\n\
         hint: tickstone check --data {} names the files",
        data.display()
    )]
    Lacking {
        /// The stream.
        stream: String,
        /// Bytes of its files.
        bytes: u64,
        /// The database.
        data: PathBuf,
    },
    /// What reads a database finds none.
    #[error("error: there is no database in {}\nhint: import, serve and statements that write make one", path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// Market data cannot be made.
    #[error("error: {0}")]
    Gen(#[from] GenError),
    /// A file cannot be read or written.
    #[error("error: cannot {action} {}: {source}", path.display())]
    Io {
        /// "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A server cannot start.
    #[error("error: {0}")]
    Serve(#[from] tickstone_server::StartError),
    /// The terminal fails.
    #[error("error: {0}")]
    Terminal(String),
    /// Arguments that do not go together.
    #[error("error: {0}\n\nFor more information, try '--help'.")]
    Usage(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Interrupted => 130,
            _ => 1,
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Cancelled => Failure::Interrupted,
            error => Failure::Import { error },
        }
    }
}

fn hint_line(hint: Option<String>) -> String {
    hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default()
}

/// An error of the server as the same error of a database of this process.
pub(crate) fn of_client(error: ClientError) -> QueryError {
    let kind = match error.kind {
        Kind::Retry => ErrorKind::Retry,
        Kind::FixRequest => ErrorKind::FixRequest,
        Kind::FreeSpace => ErrorKind::FreeSpace,
        Kind::Report => ErrorKind::Report,
    };
    let mut made = QueryError::new(kind, "");
    made.message = error.message;
    made.detail = error.detail;
    made.hint = error.hint;
    made.position =
        error.position.map(|(line, column)| Position { line: line.into(), column: column.into() });
    made
}
