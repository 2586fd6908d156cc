//! What a SELECT over a WINDOW JOIN may read: left columns anywhere, right ones inside aggregates.

use super::node::SeriesJoin;
use crate::dialect::marker::place;
use crate::dialect::walk;
use crate::error::SqlError;
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::planner::ContextProvider;
use sqlparser::ast::{
    Expr, Function, Ident, OrderByKind, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Visitor,
};
use std::ops::ControlFlow;

const SELECT_HINT: &str = "WINDOW JOIN has one row for each left row: write an aggregate such as avg(…) or last(…), or an ASOF JOIN for single rows";
const WHERE_HINT: &str = "filter the right side in a sub-query, WINDOW JOIN (SELECT … WHERE …) r, or in an aggregate, avg(…) FILTER (WHERE …)";

/// Refuses right columns outside aggregates, and in WHERE.
///
/// # Errors
/// [`SqlError`] at the first of them.
pub(super) fn refuse_right_columns(
    query: &Query,
    join: &SeriesJoin,
    context: &dyn ContextProvider,
) -> Result<(), SqlError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let mut pass = Outside { join, context, inside: 0, aliases: Vec::new() };
    let check = |pass: &mut Outside<'_>, expr: &Expr, of: &str, hint: &str| match walk(expr, pass) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break((name, at)) => {
            Err(SqlError::new(format!("{name} is of the right side{of}"), at).hint(hint))
        }
    };
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                check(&mut pass, expr, ", and outside an aggregate", SELECT_HINT)?;
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                check(&mut pass, expr, ", and outside an aggregate", SELECT_HINT)?;
                pass.aliases.push(alias.value.clone());
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if !pass.is_left_table(&name.to_string()) =>
            {
                let message = format!("{name}.* is of the right side, and outside an aggregate");
                return Err(SqlError::new(message, place(item)).hint(SELECT_HINT));
            }
            SelectItem::Wildcard(_) => {
                return Err(SqlError::new("* holds the columns of both sides", place(item))
                    .hint("write l.* for those of the left side, and aggregates of those of the right"));
            }
            _ => {}
        }
    }
    if let Some(condition) = &select.selection {
        let aliases = std::mem::take(&mut pass.aliases);
        check(&mut pass, condition, ", and WHERE filters the left one", WHERE_HINT)?;
        pass.aliases = aliases;
    }
    for expr in select.having.iter().chain(select.qualify.iter()) {
        check(&mut pass, expr, ", and outside an aggregate", SELECT_HINT)?;
    }
    if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_ref().map(|order| &order.kind) {
        for order in exprs {
            check(&mut pass, &order.expr, ", and outside an aggregate", SELECT_HINT)?;
        }
    }
    Ok(())
}

struct Outside<'a> {
    join: &'a SeriesJoin,
    context: &'a dyn ContextProvider,
    /// How many aggregates and sub-queries surround the place.
    inside: usize,
    /// Names of the SELECT's own.
    aliases: Vec<String>,
}

impl Outside<'_> {
    fn is_aggregate(&self, function: &Function) -> bool {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(|i| i.value.to_lowercase());
        function.over.is_none() && name.is_some_and(|n| self.context.get_aggregate_meta(&n).is_some())
    }

    fn is_left_table(&self, name: &str) -> bool {
        self.join
            .pairing
            .left
            .schema()
            .iter()
            .any(|(table, _)| table.is_some_and(|table| table.table() == name))
    }

    fn is_right(&self, parts: &[Ident]) -> bool {
        let (left, right) = (self.join.pairing.left.schema(), self.join.pairing.right.schema());
        match parts {
            [column] => {
                let has = |schema: &DFSchema| schema.has_column_with_unqualified_name(&column.value);
                has(right) && !has(left) && !self.aliases.contains(&column.value)
            }
            [.., table, column] => {
                let table = TableReference::bare(table.value.as_str());
                let has = |schema: &DFSchema| schema.has_column_with_qualified_name(&table, &column.value);
                has(right) && !has(left)
            }
            [] => false,
        }
    }
}

impl Visitor for Outside<'_> {
    type Break = (String, crate::error::Position);

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        let parts = match expr {
            Expr::Function(function) if self.is_aggregate(function) => {
                self.inside += 1;
                return ControlFlow::Continue(());
            }
            Expr::Identifier(ident) => std::slice::from_ref(ident),
            Expr::CompoundIdentifier(parts) => parts.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        if self.inside == 0 && self.is_right(parts) {
            return ControlFlow::Break((expr.to_string(), place(expr)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(function) = expr
            && self.is_aggregate(function)
        {
            self.inside -= 1;
        }
        ControlFlow::Continue(())
    }
}
