//! Calls and keys of groups that differ in their sub-queries only: `sum(CASE WHEN x IN (SELECT a …) THEN 1 END), sum(CASE
//! WHEN x IN (SELECT b …) THEN 1 END)`.
//!
//! DataFusion calls both by one name, in which no sub-query is written out, and refuses that. All sub-queries of such but
//! one get a `coalesce` around them, the next two of them, which changes the name and nothing else.

use super::cursor::Result;
use super::marker::call;
use super::restructure::all_of_a_table;
use super::walks::{each_expr, walk_mut};
use super::{SqlError, walks};
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, SelectItem, SetExpr, UnaryOperator, VisitMut, Visitor, VisitorMut,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// See the file's header.
///
/// # Errors
/// None that a statement can cause.
pub(super) fn tell_apart(node: &mut impl VisitMut) -> Result<()> {
    match walk_mut(node, &mut TellApart) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct TellApart;

impl VisitorMut for TellApart {
    type Break = SqlError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        told_apart(query).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

fn told_apart(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let (mut found, mut asks) = (Vec::new(), false);
    let mut look = |expr: &Expr| {
        asks |= is_asked(expr);
        if matches!(expr, Expr::Function(_)) {
            found.push(expr.clone());
        }
    };
    let mut calls = Outside { look: &mut look, depth: 0 };
    // It never breaks off.
    let _ = walks::walk(&select.projection, &mut calls);
    let _ = walks::walk(&select.having, &mut calls);
    let _ = walks::walk(&select.qualify, &mut calls);
    let _ = walks::walk(&query.order_by, &mut calls);
    let _ = walks::walk(&select.group_by, &mut calls);
    if !asks {
        return Ok(());
    }
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.as_slice(),
        GroupByExpr::All(_) => &[],
    };
    found.extend(keys.iter().cloned());
    if !keys.is_empty() || matches!(select.group_by, GroupByExpr::All(_)) {
        // Keys by their places and names.
        found.extend(select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        }));
    }
    // Of each text without sub-queries, the texts with them and their sub-queries.
    let mut alike: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for found in found {
        let texts = asked(&found);
        if !texts.is_empty() {
            alike.entry(masked(&found)?).or_default().insert(found.to_string(), texts);
        }
    }
    // How many calls go around a sub-query.
    let mut around: BTreeMap<String, usize> = BTreeMap::new();
    for texts in alike.into_values().filter(|texts| texts.len() > 1) {
        for text in texts.into_values().flatten() {
            let next = around.len();
            around.entry(text).or_insert(next);
        }
    }
    if around.is_empty() {
        return Ok(());
    }
    let mut wrap = |expr: &mut Expr| {
        if is_asked(expr)
            && let Some(times) = around.get(&expr.to_string())
        {
            let bare = std::mem::replace(expr, Expr::value(sqlparser::ast::Value::Null));
            *expr = (0..*times).fold(bare, |expr, _| call("coalesce", vec![expr]));
        }
    };
    each_expr(&mut query.order_by, &mut wrap);
    if let SetExpr::Select(select) = query.body.as_mut() {
        each_expr(&mut select.projection, &mut wrap);
        each_expr(&mut select.having, &mut wrap);
        each_expr(&mut select.qualify, &mut wrap);
        each_expr(&mut select.group_by, &mut wrap);
    }
    Ok(())
}

/// Whether an expression asks a sub-query.
fn is_asked(expr: &Expr) -> bool {
    match expr {
        Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => true,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => matches!(right.as_ref(), Expr::Subquery(_)),
        _ => false,
    }
}

/// Looks at each expression outside of sub-queries.
struct Outside<'a> {
    look: &'a mut dyn FnMut(&Expr),
    /// How many sub-queries the walk is in.
    depth: usize,
}

impl Visitor for Outside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.look)(expr);
        }
        ControlFlow::Continue(())
    }
}

/// The sub-queries that an expression asks, without those inside them, as texts.
fn asked(expr: &Expr) -> Vec<String> {
    let (mut texts, mut compared) = (Vec::new(), BTreeSet::new());
    let mut look = |expr: &Expr| {
        if is_asked(expr) {
            texts.push(expr.to_string());
        }
        // What stands right after ANY and ALL is none of its own.
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr {
            compared.insert(right.to_string());
        }
    };
    // It never breaks off.
    let _ = walks::walk(expr, &mut Outside { look: &mut look, depth: 0 });
    texts.retain(|text| !compared.contains(text));
    texts
}

/// The text of an expression without what names leave out: brackets, sub-queries and what IN looks for, and the conditions
/// of sub-queries of one value.
fn masked(expr: &Expr) -> Result<String> {
    let none = all_of_a_table()?;
    let named = |name: &str, negated: bool| {
        let asked = Expr::Identifier(Ident::new(name));
        match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(asked) },
            false => asked,
        }
    };
    let mut expr = expr.clone();
    each_expr(&mut expr, &mut |expr| match expr {
        Expr::Nested(inner) => *expr = inner.as_ref().clone(),
        Expr::Exists { negated, .. } => *expr = named("EXISTS", *negated),
        Expr::InSubquery { negated, .. } => *expr = named("IN", *negated),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Expr::Subquery(query) = right.as_mut() {
                *query = none.clone();
            }
        }
        Expr::Subquery(query) => {
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.selection = None;
            }
        }
        _ => {}
    });
    Ok(expr.to_string())
}
