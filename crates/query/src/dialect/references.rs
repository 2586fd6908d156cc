//! Which tables a statement reads.

use super::walks::walk;
use super::{CopySource, Statement};
use sqlparser::ast::{Query, TableFactor, Visitor};
use std::ops::ControlFlow;

/// The names that a statement reads rows from, as written, each once, in order of appearance: tables in
/// FROM, in joins and in sub-queries. Names that WITH declares are among them; table functions are not.
pub fn tables_read(statement: &Statement) -> Vec<String> {
    let mut names = Names(Vec::new());
    see(statement, &mut names);
    names.0
}

/// Has a visitor see what a statement reads.
fn see(statement: &Statement, names: &mut impl Visitor<Break = ()>) {
    // The visitors here never break off.
    let _ = match statement {
        Statement::Query(node) | Statement::Insert(node) => walk(node, names),
        Statement::CreateTable(table) => match &table.query {
            Some(query) => walk(query, names),
            None => ControlFlow::Continue(()),
        },
        Statement::CreateView(view) => walk(&view.query, names),
        Statement::CopyTo { source: CopySource::Query(query), .. } => walk(query, names),
        Statement::Change(change) => walk(&change.query, names),
        Statement::Merge(merge) => walk(&merge.query, names),
        Statement::Subscribe(subscribe) => walk(&subscribe.query, names),
        Statement::Replay(replay) => walk(&replay.query, names),
        Statement::Inspect(inspect) => walk(&inspect.query, names),
        _ => ControlFlow::Continue(()),
    };
}

/// The names in FROM of a query, wherever it reads one, without schema and database.
pub(crate) fn names_read(query: &Query) -> Vec<String> {
    Met::of_query(query).names
}

/// What a statement, or the query of a view, reads: for who must miss nothing.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// The names in FROM, without schema and database; those of table functions are among them.
    pub(crate) names: Vec<String>,
    /// Whether a table function is among them, which may read a stream.
    pub(crate) calls: bool,
}

impl Met {
    pub(crate) fn of_statement(statement: &Statement) -> Self {
        let mut met = Self::default();
        see(statement, &mut met);
        met
    }

    pub(crate) fn of_query(query: &Query) -> Self {
        let mut met = Self::default();
        // The visitor never breaks off.
        let _ = walk(query, &mut met);
        met
    }
}

impl Visitor for Met {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args, .. } => {
                self.calls |= args.is_some();
                let last = name.0.last().and_then(|part| part.as_ident());
                self.names.extend(last.map(|ident| ident.value.clone()));
            }
            TableFactor::Function { .. } | TableFactor::TableFunction { .. } => self.calls = true,
            _ => {}
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
