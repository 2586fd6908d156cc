//! What has another value each time it is asked: `random()`, `uuid()`, a sample.
//!
//! - A query of WITH that has some and is read more than once becomes a marker, so that its rows are made once
//!   ([`crate::operators`]): planning has its query at each place that reads it.
//! - Of two equal aggregates or windows in a list, the second is told apart by a call: planning makes one of them.

use super::SqlError;
use super::calls::{CallableKind, Callables};
use super::cursor::Result;
use super::marker::{common_factor, function, place, simple_name};
use super::restructure::{all_of_a_table, set_from};
use super::walks::{each_expr, walk, walk_mut};
use crate::lists::APART;
use sqlparser::ast::{
    Cte, Expr, Function, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, Select, SelectItem,
    TableFactor, TableSampleKind, Value, Visit, VisitMut, Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// See the file's header.
///
/// # Errors
/// [`SqlError`] at a recursive query that would have to be made once.
pub(super) fn settle(node: &mut impl VisitMut, callables: &Callables<'_>) -> Result<()> {
    let mut settle = Settle { callables, varying: HashSet::new() };
    match walk_mut(node, &mut settle) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Settle<'a> {
    callables: &'a Callables<'a>,
    /// Names of queries of WITH so far whose rows may be others each time.
    varying: HashSet<String>,
}

impl VisitorMut for Settle<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut often = Vec::new();
        for cte in ctes {
            if !self.varies(&cte.query) {
                continue;
            }
            let name = &cte.alias.name;
            self.varying.insert(name.value.clone());
            let (all, own) = (reads(query, &name.value), reads(&cte.query, &name.value));
            if all - own < 2 {
                continue;
            }
            if own > 0 {
                let what = format!(
                    "{} is recursive, has other rows each time it is read, and is read twice",
                    name.value
                );
                let error = SqlError::new(what, place(&*cte.query));
                return ControlFlow::Break(
                    error.hint("keep its rows first: CREATE TEMP TABLE … AS WITH RECURSIVE …"),
                );
            }
            often.push(name.value.clone());
        }
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if often.contains(&cte.alias.name.value)
                && let Err(error) = make_common(cte)
            {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut seen: Vec<Function> = Vec::new();
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                continue;
            };
            if !self.varies(expr) {
                continue;
            }
            let written = expr.to_string();
            let mut changed = false;
            each_expr(expr, &mut |expr| {
                let Expr::Function(call) = expr else { return };
                if !self.is_of_rows(call) || !self.varies(call) {
                    return;
                }
                if !seen.contains(call) {
                    return seen.push(call.clone());
                }
                changed = true;
                self.tell_apart(call, seen.len());
                seen.push(call.clone());
            });
            if changed && let SelectItem::UnnamedExpr(expr) = item {
                *item =
                    SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', written) };
            }
        }
        ControlFlow::Continue(())
    }
}

impl Settle<'_> {
    /// Whether something in a node has another value each time.
    fn varies(&self, node: &impl Visit) -> bool {
        walk(node, &mut Varies(self)).is_break()
    }

    fn is_volatile(&self, call: &Function) -> bool {
        let name = simple_name(&call.name).map(str::to_lowercase);
        name.and_then(|name| (self.callables)(&name)).is_some_and(|callable| callable.volatile)
    }

    /// Whether a call is of an aggregate or of a window.
    fn is_of_rows(&self, call: &Function) -> bool {
        let name = simple_name(&call.name).map(str::to_lowercase);
        let kind = name.and_then(|name| (self.callables)(&name)).map(|callable| callable.kind);
        call.over.is_some() || kind == Some(CallableKind::Aggregate)
    }

    fn tell_apart(&self, call: &mut Function, number: usize) {
        each_expr(call, &mut |expr| {
            if !matches!(expr, Expr::Function(inner) if self.is_volatile(inner) && simple_name(&inner.name) != Some(APART))
            {
                return;
            }
            let value = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
            let number = Expr::value(Value::Number(number.to_string(), false));
            *expr = function(vec![Ident::new(APART)].into(), vec![value(expr.clone()), value(number)]);
        });
    }
}

/// Looks for what has another value each time, and breaks off there.
struct Varies<'a, 'b>(&'b Settle<'a>);

impl Visitor for Varies<'_, '_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) if self.0.is_volatile(call) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = factor else {
            return ControlFlow::Continue(());
        };
        match sample {
            Some(TableSampleKind::BeforeTableAlias(of) | TableSampleKind::AfterTableAlias(of))
                if of.seed.is_none() =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        match simple_name(name).is_some_and(|name| self.0.varying.contains(name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// How often a query reads the table of a name.
pub(super) fn reads(query: &Query, name: &str) -> usize {
    struct Reads<'a>(&'a str, usize);
    impl Visitor for Reads<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            self.1 += usize::from(simple_name(name) == Some(self.0));
            ControlFlow::Continue(())
        }
    }
    let mut reads = Reads(name, 0);
    // It never breaks off.
    let _ = walk(query, &mut reads);
    reads.1
}

/// Has the rows of a query of WITH made once.
fn make_common(cte: &mut Cte) -> Result<()> {
    let query = std::mem::replace(&mut cte.query, all_of_a_table()?);
    let position = place(&*query);
    set_from(&mut cte.query, common_factor(query, position));
    Ok(())
}
