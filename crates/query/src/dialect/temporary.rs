//! Tables of one session: a statement's names for them become those that the database has.
//!
//! What a statement says of such a table stays true, since the table goes by its written name in queries: as an alias.

use super::view::{Expand, Found, ReadsAs};
use super::walks::walk_mut;
use super::{AlterTable, CopySource, Partitions, Statement};
use sqlparser::ast::{self, Ident, ObjectNamePart, TableObject};
use std::cell::Cell;

/// Has a statement name tables of its session as the database does, which `temporaries` finds by their names in any case;
/// whether it reads any.
pub(crate) fn name_temporaries(
    statement: &mut Statement,
    temporaries: &dyn Fn(&str) -> Option<String>,
) -> bool {
    let (read, views_read) = (Cell::new(false), Cell::new(0));
    let find = |name: &str, _: ReadsAs| {
        let found = temporaries(name);
        read.set(read.get() || found.is_some());
        found.map(Found::Table)
    };
    let mut expand = Expand::new(&find, &views_read);
    // Only the query of a view can be wrong, and none is read here.
    let _ = match statement {
        Statement::AlterTable { change: AlterTable::DropPartitions(Partitions::Where(query)), .. } => {
            walk_mut(query.as_mut(), &mut expand)
        }
        Statement::CreateMaterializedView(view) => walk_mut(view.query.as_mut(), &mut expand),
        _ => statement.walk_queries_mut(&mut expand),
    };
    for name in tables_changed(statement) {
        if let Some(own) = temporaries(name) {
            *name = own;
        }
    }
    if let Some(ident) = inserted_into(statement)
        && let Some(own) = temporaries(&ident.value)
    {
        *ident = Ident { value: own, quote_style: Some('"'), span: ident.span };
    }
    read.get()
}

/// The names of the tables that a statement is about, beside those that its queries read.
fn tables_changed(statement: &mut Statement) -> Vec<&mut String> {
    match statement {
        Statement::DropTable { names, .. } | Statement::Truncate { names } => names.iter_mut().collect(),
        Statement::Change(change) => vec![&mut change.table],
        Statement::Merge(merge) => vec![&mut merge.table],
        Statement::Checkpoint { table } => table.iter_mut().collect(),
        Statement::AlterTable { table, .. }
        | Statement::Optimize { table, .. }
        | Statement::CopyFrom { table, .. }
        | Statement::CopyTo { source: CopySource::Table { name: table, .. }, .. }
        | Statement::ShowCreate { table }
        | Statement::ShowPartitions { table }
        | Statement::ShowColumns { table } => vec![table],
        _ => Vec::new(),
    }
}

/// What an INSERT changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InsertTarget<'a> {
    /// The table, as written; empty where it is none.
    pub(crate) name: &'a str,
    /// Whether rows that are there may change.
    pub(crate) updates: bool,
    /// Whether it gives rows.
    pub(crate) returns: bool,
}

/// What an INSERT changes.
pub(crate) fn target_of_insert(node: &ast::Statement) -> InsertTarget<'_> {
    let none = InsertTarget { name: "", updates: false, returns: false };
    let ast::Statement::Insert(insert) = node else { return none };
    let TableObject::TableName(name) = &insert.table else { return none };
    let name = name.0.last().and_then(ObjectNamePart::as_ident).map_or("", |ident| ident.value.as_str());
    InsertTarget { name, updates: insert.on.is_some(), returns: insert.returning.is_some() }
}

fn inserted_into(statement: &mut Statement) -> Option<&mut Ident> {
    let Statement::Insert(insert) = statement else { return None };
    let ast::Statement::Insert(insert) = insert.as_mut() else { return None };
    let TableObject::TableName(name) = &mut insert.table else { return None };
    match name.0.as_mut_slice() {
        [ObjectNamePart::Identifier(ident)] => Some(ident),
        _ => None,
    }
}
