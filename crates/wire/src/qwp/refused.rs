//! Why a message is refused, and the codes that tell a client.

use super::read::Malformed;
use crate::Fault;
use std::fmt;

/// The code of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The message was taken.
    Ok = 0x00,
    /// Rows are where no loss of the server touches them.
    DurableAck = 0x02,
    /// A value does not go into its column, or a parameter not into its place.
    SchemaMismatch = 0x03,
    /// The message, or a statement, is none.
    ParseError = 0x05,
    /// The server failed.
    InternalError = 0x06,
    /// The client may not.
    SecurityError = 0x08,
    /// The rows could not be written.
    WriteError = 0x09,
    /// A query that its client cancelled.
    Cancelled = 0x0a,
    /// A query that took more than it may.
    LimitExceeded = 0x0b,
    /// The server takes no rows now.
    NotWritable = 0x0c,
    /// New symbols begin past those that the connection has: the client sends all of them again.
    DictionaryGap = 0x0d,
    /// A query that took longer than its client gave it.
    QueryTimeout = 0x0e,
}

/// Why a message is refused. None of its rows is taken then, but the symbols that it brings are, unless they are at fault
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is no message of the protocol.
    Malformed {
        /// The table at fault, where its name was read.
        table: Option<String>,
        /// The column at fault, where its name was read.
        column: Option<String>,
        /// What is wrong, and where.
        malformed: Malformed,
    },
    /// Its new symbols begin past those that the connection has.
    Gap {
        /// The id of the first.
        start: u64,
        /// How many the connection has.
        known: usize,
    },
    /// A value that its column cannot take, or a table or column that cannot be.
    Value {
        /// The table.
        table: String,
        /// The column, where one is at fault.
        column: Option<String>,
        /// The row of the table's in this message, from 0, where one is at fault.
        row: Option<usize>,
        /// What is at fault, cut when long.
        text: String,
        /// Why.
        fault: Fault,
    },
}

impl Refused {
    /// The code of the answer.
    pub fn status(&self) -> Status {
        match self {
            Refused::Malformed { .. } => Status::ParseError,
            Refused::Gap { .. } => Status::DictionaryGap,
            Refused::Value { .. } => Status::SchemaMismatch,
        }
    }
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Refused::Malformed { table: None, column: None, malformed }
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Malformed { table, column, malformed } => {
                if let Some(table) = table {
                    write!(f, "table '{table}', ")?;
                }
                if let Some(column) = column {
                    write!(f, "column '{column}': ")?;
                }
                write!(f, "not a message of QWP: {malformed}")
            }
            Refused::Gap { start, known } => {
                write!(
                    f,
                    "symbols from id {start} on, and the connection has {known}: send all of them again"
                )
            }
            Refused::Value { table, column, row, text, fault } => {
                write!(f, "table '{table}'")?;
                if let Some(column) = column {
                    write!(f, ", column '{column}'")?;
                }
                if let Some(row) = row {
                    write!(f, ", row {row}")?;
                }
                write!(f, ": '{text}' {fault}")
            }
        }
    }
}
