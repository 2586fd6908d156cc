//! Which names SQL can call.

use super::{Statement, parse};
use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement as SqlStatement};

/// Whether `name(1)` is a call of a function of this name.
pub(crate) fn is_callable(name: &str) -> bool {
    let Ok(mut parsed) = parse(&format!("SELECT {name}(1)")) else { return false };
    let Some(Statement::Query(statement)) = parsed.pop().filter(|_| parsed.is_empty()) else {
        return false;
    };
    let SqlStatement::Query(query) = *statement else { return false };
    let SetExpr::Select(select) = *query.body else { return false };
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(Expr::Function(call))] => {
            let parts: Vec<_> = call.name.0.iter().filter_map(|part| part.as_ident()).collect();
            matches!(parts.as_slice(), [ident] if ident.quote_style.is_none() && ident.value == name)
        }
        _ => false,
    }
}
