//! What can go wrong in the engine, and what the caller can do about it.

use std::io;
use std::path::PathBuf;
use tickstone_model::TimeRange;

/// The result of the engine's fallible functions.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Whether there was no room for what was to be written: on the disk, or within the user's share of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What the operating system said, and what to do where the disk is full.
fn said(error: &io::Error) -> String {
    match is_full(error) {
        true => format!("the disk is full ({error}); free space, then try again"),
        false => error.to_string(),
    }
}

/// Whether files were removed behind the engine's back.
fn is_removed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The same request may succeed later.
    Retry,
    /// The request itself is wrong; it will fail again.
    FixRequest,
    /// The disk or the memory budget is full.
    FreeSpace,
    /// Files are damaged or the engine is at fault: `tickstone check`, or a report.
    Report,
}

/// An error of the engine. State after it: unless a variant says otherwise, nothing of the request
/// was stored and the engine goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file operation failed.
    #[error("cannot {action} {path}: {}", said(source), path = path.display())]
    Io {
        /// What was tried: "read", "create", "sync", …
        action: &'static str,
        /// The file, relative to the database directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Bytes on disk are not what was written.
    #[error(
        "{path} is damaged at byte {offset}: {what}; `tickstone check` shows the extent",
        path = path.display()
    )]
    Damaged {
        /// The file, relative to the database directory.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What does not hold.
        what: String,
    },
    /// A file of a newer format.
    #[error(
        "{path} has format version {found}, this build reads up to {known}: open it with a newer tickstone",
        path = path.display()
    )]
    NewerFormat {
        /// The file, relative to the database directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this build knows.
        known: u32,
    },
    /// Another process writes this database.
    #[error(
        "{path} is open for writing in another process; open it read-only, or stop that process",
        path = path.display()
    )]
    Locked {
        /// The database directory.
        path: PathBuf,
    },
    /// A part that a state of a database opened read-only names is no longer there.
    #[error(
        "{path} is gone: its writer merged or removed it since this state was read; read the newest one",
        path = path.display()
    )]
    PartGone {
        /// The table's number.
        table: u32,
        /// The file, relative to the database directory.
        path: PathBuf,
    },
    /// The files of a database opened read-only changed during every reading.
    #[error("the writer changed the database during each of {tries} readings ({cause}); try again")]
    Unsettled {
        /// How often it was read.
        tries: usize,
        /// What the last reading met.
        cause: String,
    },
    /// The database was opened read-only.
    #[error("the database is open read-only; {action} needs the writer")]
    ReadOnly {
        /// What was tried.
        action: &'static str,
    },
    /// An earlier sync failed: what the disk holds is unknown, so nothing more is acknowledged.
    #[error("the tape stopped after a failed write or sync ({cause}); reopen the database to go on")]
    TapeStopped {
        /// The failure that stopped it.
        cause: String,
    },
    /// The disk has no room for the commit: nothing of it was stored, and the next one is tried again.
    #[error("the disk is full and nothing was stored ({cause}); free space, then try again")]
    DiskFull {
        /// What was tried, and what the operating system said.
        cause: String,
    },
    /// No table of this name.
    #[error("table '{name}' does not exist")]
    NoSuchTable {
        /// The name asked for.
        name: String,
    },
    /// A table that was found is none any more; another may have its name.
    #[error("table '{name}' was dropped, or replaced by another")]
    TableGone {
        /// What it was called.
        name: String,
    },
    /// A table of this name is there already.
    #[error("table '{name}' already exists")]
    TableExists {
        /// The name asked for.
        name: String,
    },
    /// A materialized view reads the table.
    #[error("materialized view '{view}' reads '{table}': drop the view first")]
    HasViews {
        /// The table.
        table: String,
        /// The view.
        view: String,
    },
    /// Rows that are late for what a materialized view keeps of rows that were dropped.
    #[error(
        "rows of '{table}' are late for materialized view '{view}': rows of {range} were dropped, and its buckets there \
         are frozen; nothing was stored: leave the late rows out, or drop the view"
    )]
    Frozen {
        /// The table.
        table: String,
        /// The view.
        view: String,
        /// The frozen stretch.
        range: TimeRange,
    },
    /// Partitions of which a materialized view would lack rows.
    #[error("partitions of '{table}' cannot be dropped yet: materialized view '{view}' {why}")]
    NotTakenIn {
        /// The table.
        table: String,
        /// The view.
        view: String,
        /// "has not taken in their rows", …
        why: &'static str,
    },
    /// Columns of a table were added or dropped after rows for it were put together.
    #[error("the columns of '{table}' were changed meanwhile; nothing was stored: try again")]
    SchemaChanged {
        /// The table.
        table: String,
    },
    /// A file was imported into the table before.
    #[error("'{source_name}' was already imported into '{table}' ({rows} rows)")]
    AlreadyImported {
        /// The table.
        table: String,
        /// The name the file had then.
        source_name: String,
        /// Rows it brought.
        rows: u64,
    },
    /// A symbol dictionary cannot grow further.
    #[error("column '{column}' of '{table}' would have more than {most} symbols; use VARCHAR")]
    TooManySymbols {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The limit.
        most: u32,
    },
    /// A commit larger than a frame may be.
    #[error(
        "a commit of {bytes} bytes exceeds the limit of {most} bytes; commit in smaller batches or import a file"
    )]
    CommitTooLarge {
        /// Bytes of the encoded commit.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// UPDATE of a column by which rows are stored.
    #[error(
        "column '{column}' of '{table}' cannot be updated: {role}, by which rows are stored; delete the rows and \
         insert them again"
    )]
    KeyColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// "it is the designated timestamp", …
        role: &'static str,
    },
    /// Rows that are not those of the state a rewrite works on.
    #[error("a rewrite of '{table}' was given rows of another state of it: {what}")]
    OtherRows {
        /// The table.
        table: String,
        /// What does not fit.
        what: &'static str,
    },
    /// Changes whose rows cannot all be remembered, in an order that needs it.
    #[error(
        "DELETE or UPDATE of '{table}' came back to a part when the marks of its rows were gone: those of changed rows \
         may take a quarter of memory_budget, {most} bytes; raise it, or change fewer rows at once"
    )]
    RewriteTooLarge {
        /// The table.
        table: String,
        /// The limit.
        most: usize,
    },
    /// What comes after a place in the tape is not held any more.
    #[error(
        "what came after position {position} is not held any more: the oldest position to go on from is {oldest}; begin \
         anew, and raise tape_keep_bytes or tape_keep_age to have more held"
    )]
    PositionGone {
        /// The place asked for.
        position: u64,
        /// The oldest that can be.
        oldest: u64,
    },
    /// A place in the tape that is not there yet.
    #[error("position {position} is past the newest, {newest}: it is one of another database")]
    PositionAhead {
        /// The place asked for.
        position: u64,
        /// The newest.
        newest: u64,
    },
    /// Recent rows fill the memory budget and cannot be sealed.
    #[error("recent rows exceed the memory budget of {budget_bytes} bytes and sealing fails: {cause}")]
    MemoryFull {
        /// The budget.
        budget_bytes: usize,
        /// Why sealing failed.
        cause: String,
    },
    /// A backup would overwrite something else.
    #[error("the target holds {found} and is no backup; give an empty directory, or one made by a backup")]
    NotABackup {
        /// What it holds.
        found: String,
    },
    /// A restore would mix with something else.
    #[error("the target holds {found}; a restore needs an empty directory")]
    NotEmpty {
        /// What it holds.
        found: String,
    },
    /// No stream of this name.
    #[error("stream '{name}' does not exist")]
    NoSuchStream {
        /// The name asked for.
        name: String,
    },
    /// A stream of this name is there already.
    #[error("stream '{name}' already exists")]
    StreamExists {
        /// The name asked for.
        name: String,
    },
    /// A stream's name or settings that cannot be.
    #[error("stream '{name}': {what}")]
    BadStream {
        /// The name asked for.
        name: String,
        /// What cannot be.
        what: String,
    },
    /// A document larger than the stream takes.
    #[error("a document of {bytes} bytes exceeds the limit of stream '{name}', document_bytes_max = {most}")]
    DocumentTooLarge {
        /// The stream.
        name: String,
        /// Bytes of the document.
        bytes: usize,
        /// The limit.
        most: u32,
    },
    /// A failed write or sync of a stream: what the disk holds is unknown, so nothing more is taken.
    #[error("stream '{name}' stopped after a failed write or sync ({cause}); reopen the database to go on")]
    StreamStopped {
        /// The stream.
        name: String,
        /// The failure that stopped it.
        cause: String,
    },
    /// There is nothing to restore.
    #[error("{found}, and no backup or database")]
    NoBackup {
        /// What is there, as a sentence's beginning.
        found: String,
    },
    /// A restore into this directory was cut short: what is there is not all of it.
    #[error("a restore into this directory was not finished; begin it again")]
    RestoreUnfinished,
    /// A second hold.
    #[error("a state of the database is held already, in its folder hold; CHECKPOINT RELEASE lets go of it")]
    AlreadyHeld,
    /// Nothing to be released.
    #[error("no state of the database is held; CHECKPOINT HOLD holds the present one")]
    NotHeld,
    /// A schema or batch breaks a rule.
    #[error(transparent)]
    Model(#[from] tickstone_model::ModelError),
    /// An Arrow kernel refused its input.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

impl EngineError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Io { source, .. } if is_full(source) => ErrorKind::FreeSpace,
            EngineError::Io { source, .. } if is_removed(source) => ErrorKind::FixRequest,
            EngineError::DiskFull { .. }
            | EngineError::MemoryFull { .. }
            | EngineError::RewriteTooLarge { .. } => ErrorKind::FreeSpace,
            EngineError::Locked { .. }
            | EngineError::PartGone { .. }
            | EngineError::Unsettled { .. }
            | EngineError::TapeStopped { .. }
            | EngineError::StreamStopped { .. }
            | EngineError::SchemaChanged { .. } => ErrorKind::Retry,
            EngineError::NotTakenIn { .. } => ErrorKind::Retry,
            EngineError::Io { .. }
            | EngineError::Damaged { .. }
            | EngineError::NewerFormat { .. }
            | EngineError::Arrow(_) => ErrorKind::Report,
            _ => ErrorKind::FixRequest,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> EngineError {
        let path = path.into();
        move |source| EngineError::Io { action, path, source }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> EngineError {
        EngineError::Damaged { path: path.into(), offset, what: what.into() }
    }
}
