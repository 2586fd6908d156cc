//! Columns by any case: `SELECT price` finds a column made as `Price`.
//!
//! DataFusion folds unquoted names to lower case and then wants them exact. Where a table has columns
//! with capitals, unquoted names are spelled as the table does before planning; quoted ones stay.

use sqlparser::ast::{Expr, Ident, Statement, visit_expressions_mut, visit_relations};
use std::collections::HashMap;
use std::ops::ControlFlow;
use tickstone_engine::Snapshot;

/// Spells the unquoted column names of a statement as the tables it names do.
pub(super) fn spell_columns(statement: &mut Statement, snapshot: &Snapshot) {
    let spelled = spellings(statement, snapshot);
    if spelled.is_empty() {
        return;
    }
    let spell = |ident: &mut Ident| {
        if ident.quote_style.is_none()
            && let Some(Some(name)) = spelled.get(&ident.value.to_lowercase())
        {
            ident.value.clone_from(name);
            ident.quote_style = Some('"');
        }
    };
    let _ = visit_expressions_mut(statement, |expr| {
        match expr {
            Expr::Identifier(ident) => spell(ident),
            Expr::CompoundIdentifier(idents) => {
                if let Some(last) = idents.last_mut() {
                    spell(last);
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The spelling by lower case, of columns that need one; `None` where two tables differ, or one has
/// the column in lower case.
fn spellings(statement: &Statement, snapshot: &Snapshot) -> HashMap<String, Option<String>> {
    let mut spelled: HashMap<String, Option<String>> = HashMap::new();
    let mut plain = Vec::new();
    let _ = visit_relations(statement, |relation| {
        let name = relation.0.last().and_then(|part| part.as_ident());
        if let Some(table) = name.and_then(|name| snapshot.table(&name.value)) {
            for column in table.schema().columns() {
                let folded = column.name.to_lowercase();
                if folded == column.name {
                    plain.push(folded);
                    continue;
                }
                let spelling = spelled.entry(folded).or_insert_with(|| Some(column.name.clone()));
                if spelling.as_ref().is_some_and(|known| *known != column.name) {
                    *spelling = None;
                }
            }
        }
        ControlFlow::<()>::Continue(())
    });
    for name in plain {
        if let Some(spelling) = spelled.get_mut(&name) {
            *spelling = None;
        }
    }
    spelled
}
