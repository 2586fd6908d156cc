//! Which tables a statement reads.

use super::walks::walk;
use super::{CopySource, Statement};
use sqlparser::ast::{Query, TableFactor, Visitor};
use std::ops::ControlFlow;

/// The names that a statement reads rows from, as written, each once, in order of appearance: tables in
/// FROM, in joins and in sub-queries. Names that WITH declares are among them; table functions are not.
pub fn tables_read(statement: &Statement) -> Vec<String> {
    let mut names = Names(Vec::new());
    // The visitor never breaks off.
    let _ = match statement {
        Statement::Query(node) | Statement::Insert(node) => walk(node, &mut names),
        Statement::CreateTable(table) => match &table.query {
            Some(query) => walk(query, &mut names),
            None => ControlFlow::Continue(()),
        },
        Statement::CreateView(view) => walk(&view.query, &mut names),
        Statement::CopyTo { source: CopySource::Query(query), .. } => walk(query, &mut names),
        Statement::Change(change) => walk(&change.query, &mut names),
        Statement::Merge(merge) => walk(&merge.query, &mut names),
        Statement::Subscribe(subscribe) => walk(&subscribe.query, &mut names),
        Statement::Replay(replay) => walk(&replay.query, &mut names),
        Statement::Inspect(inspect) => walk(&inspect.query, &mut names),
        _ => ControlFlow::Continue(()),
    };
    names.0
}

/// The names in FROM of a query, wherever it reads one, without schema and database.
pub(crate) fn names_read(query: &Query) -> Vec<String> {
    let mut names = LastNames(Vec::new());
    // The visitor never breaks off.
    let _ = walk(query, &mut names);
    names.0
}

struct LastNames(Vec<String>);

impl Visitor for LastNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = factor
            && let Some(ident) = name.0.last().and_then(|part| part.as_ident())
        {
            self.0.push(ident.value.clone());
        }
        ControlFlow::Continue(())
    }
}

struct Names(Vec<String>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
            && !self.0.contains(&ident.value)
        {
            self.0.push(ident.value.clone());
        }
        ControlFlow::Continue(())
    }
}
