//! What is told of those who use a database: who did what, from where, and what came of it.
//!
//! Whoever keeps it ([`Auditor`]) is handed over with [`Database::set_auditor`](crate::Database::set_auditor).

use crate::error::{QueryError, Result};
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Where somebody came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The protocol they speak; empty where it is none.
    pub protocol: &'static str,
    /// Their address, where they have one.
    pub address: Option<IpAddr>,
}

/// One thing that somebody did.
#[derive(Debug)]
pub struct Deed {
    /// The user; empty where nobody had to say who they are.
    pub user: Arc<str>,
    /// Where from.
    pub origin: Origin,
    /// What it was: `SELECT`, `CREATE TABLE`, `LOGIN`.
    pub kind: &'static str,
    /// The text of the statement, without passwords.
    pub text: Arc<str>,
    /// The rows it gave or changed.
    pub rows: u64,
    /// How long it took.
    pub took: Duration,
    /// What came of it, where it failed: the SQLSTATE and the message.
    pub failure: Option<(&'static str, String)>,
}

/// Whoever keeps what is told.
pub trait Auditor: Debug + Send + Sync {
    /// Whether a statement is to be told of that only reads, or one that does not.
    fn wants(&self, only_reads: bool) -> bool;

    /// Whether what is told now can be kept.
    ///
    /// # Errors
    /// Where it cannot, and must be: nothing is to be done then.
    fn check(&self) -> Result<()>;

    /// Keeps a deed.
    fn note(&self, deed: Deed);

    /// Keeps that rows were added to a table or a stream, together with others of the same user and origin.
    fn added(&self, user: &Arc<str>, origin: Origin, to: &str, rows: u64);
}

/// The failure of an error.
pub fn failure_of(error: &QueryError) -> (&'static str, String) {
    (error.sql_state().code(), error.to_string())
}
