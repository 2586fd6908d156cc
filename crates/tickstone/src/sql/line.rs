//! Where statements run: in a database of this process, or in a session of a server.

use super::remote::Remote;
use std::sync::Arc;
use tickstone_query::dialect::Statement;
use tickstone_query::{Database, Outcome, QueryError, Session, listed};
use tokio::runtime::Handle;

/// One line of statements, until it is dropped.
pub(super) enum Line {
    /// In a database of this process.
    Here {
        database: Database,
        /// `None` while a statement has it, and after one that was left behind.
        session: Option<Box<Session>>,
    },
    /// In a session of a server.
    There(Box<Remote>),
}

/// A statement that is on its way.
pub(super) struct Sent {
    pub(super) statement: Statement,
    /// Its own text, where it has one.
    pub(super) text: Option<Arc<str>>,
    /// The same where it stands in the text that it is of.
    pub(super) placed: String,
}

impl Line {
    pub(super) fn here(database: Database) -> Self {
        let session = Some(Box::new(database.session()));
        Line::Here { database, session }
    }

    /// What runs statements, and what waits for them.
    pub(super) fn runtime(&self) -> Handle {
        match self {
            Line::Here { database, .. } => database.runtime().handle().clone(),
            Line::There(remote) => remote.runtime(),
        }
    }

    /// A line that takes the statements of this one until [`Self::back`]. Left behind, it takes an open transaction
    /// of a database of this process with it.
    pub(super) fn lend(&mut self) -> Self {
        match self {
            Line::Here { database, session } => {
                Line::Here { database: database.clone(), session: session.take() }
            }
            Line::There(remote) => Line::There(remote.clone()),
        }
    }

    /// Another line of the same database or server; it has no session here until it runs a statement.
    pub(super) fn again(&self) -> Self {
        match self {
            Line::Here { database, .. } => Line::Here { database: database.clone(), session: None },
            Line::There(remote) => Line::There(remote.clone()),
        }
    }

    /// Ends a session of a server.
    pub(super) fn end(&self) {
        if let Line::There(remote) = self {
            remote.end();
        }
    }

    /// Takes back what was lent.
    pub(super) fn back(&mut self, lent: Self) {
        *self = lent;
    }

    /// Carries out a statement.
    ///
    /// # Errors
    /// Those of the statement.
    pub(super) async fn run(&mut self, sent: Sent) -> Result<Outcome, QueryError> {
        match self {
            Line::Here { database, session } => {
                let session = session.get_or_insert_with(|| Box::new(database.session()));
                session.run_text(sent.statement, sent.text).await
            }
            Line::There(remote) => remote.run(&sent.placed).await,
        }
    }

    /// The names of tables and of their columns.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Line::Here { database, .. } => {
                let snapshot = database.engine().snapshot();
                let of = |schema: &tickstone_model::TableSchema| {
                    let columns = schema.columns().iter().map(|column| column.name.clone());
                    columns.chain([schema.name().to_string()]).collect::<Vec<_>>()
                };
                listed(&snapshot).flat_map(|table| of(table.schema())).collect()
            }
            Line::There(remote) => remote.names(),
        }
    }
}
