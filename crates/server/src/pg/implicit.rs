//! The transaction of INSERTs that come together, in a text or up to a Sync, without a BEGIN.
//!
//! A statement that would not see them anyway goes into it. One that may ends it first: rows show when they are committed.

use super::connection::{Connection, Status, Stop};
use sqlparser::ast::{self, TableFactor, TableObject, Visitor};
use std::ops::ControlFlow;
use tickstone_engine::Snapshot;
use tickstone_query::dialect::{self, Statement};

impl Connection {
    /// Begins a transaction for INSERTs that come together.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) async fn begin_implicit(&mut self) -> Result<(), Stop> {
        let begin = Statement::Begin { read_only: None };
        self.conversation.run(&self.shared, "BEGIN".into(), begin, None).await?;
        self.status = Status::Implicit;
        self.inserted_into.clear();
        Ok(())
    }

    /// Commits INSERTs that came together.
    ///
    /// # Errors
    /// Where they cannot be stored; none of them is then.
    pub(super) async fn end_implicit(&mut self) -> Result<(), Stop> {
        if self.status == Status::Implicit {
            self.status = Status::Idle;
            self.conversation.run(&self.shared, "COMMIT".into(), Statement::Commit, None).await?;
        }
        Ok(())
    }

    /// Has a statement come into the transaction, or after its end.
    ///
    /// # Errors
    /// As [`Self::end_implicit`].
    pub(super) async fn join_implicit(&mut self, statement: &Statement) -> Result<(), Stop> {
        if self.status != Status::Implicit {
            return Ok(());
        }
        if let Some(table) = inserted_into(statement).filter(|_| statement.inserts_values()) {
            if !self.inserted_into.iter().any(|known| known.eq_ignore_ascii_case(table)) {
                self.inserted_into.push(table.to_string());
            }
            return Ok(());
        }
        let goes_in = match statement {
            Statement::Set { .. } | Statement::Prepare { .. } | Statement::Deallocate { .. } => true,
            Statement::Query(query) => {
                let snapshot = self.access.snapshot().unwrap_or_default();
                let mut reads = Reads { snapshot: &snapshot, inserted_into: &self.inserted_into };
                dialect::walk_statement(query, &mut reads).is_continue()
            }
            other => other.shown_setting().is_some(),
        };
        if goes_in { Ok(()) } else { self.end_implicit().await }
    }
}

/// The table of an INSERT.
fn inserted_into(statement: &Statement) -> Option<&str> {
    let Statement::Insert(insert) = statement else { return None };
    let ast::Statement::Insert(insert) = insert.as_ref() else { return None };
    let TableObject::TableName(name) = &insert.table else { return None };
    name.0.last()?.as_ident().map(|ident| ident.value.as_str())
}

/// Breaks off where a query reads what may hold rows of the transaction.
struct Reads<'a> {
    snapshot: &'a Snapshot,
    inserted_into: &'a [String],
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let is_other = match factor {
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => true,
            TableFactor::Table { name, args: None, .. } => {
                // What is no table is a name of the query itself, or missing.
                let name = name.0.last().and_then(|part| part.as_ident());
                name.is_none_or(|name| {
                    let holds_rows =
                        self.inserted_into.iter().any(|into| into.eq_ignore_ascii_case(&name.value));
                    let table = self.snapshot.table(&name.value);
                    !holds_rows && table.is_none_or(|table| table.schema().view().is_none())
                })
            }
            _ => false,
        };
        if is_other { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
