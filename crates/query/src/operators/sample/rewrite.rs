//! From a SELECT with SAMPLE BY to one with GROUP BY, still as AST.
//!
//! - the designated timestamp outside aggregates becomes its bucket, `time_bucket('1m', ts)`;
//! - selected expressions without aggregates are keys, but for constants and what only depends on the
//!   bucket;
//! - a selected timestamp keeps its name.

use crate::dialect::marker::place;
use crate::dialect::walk_mut;
use crate::error::SqlError;
use datafusion::logical_expr::planner::ContextProvider;
use sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitorMut,
};
use std::ops::ControlFlow;

/// The designated timestamp as the SELECT may write it, and the call that is its bucket.
#[derive(Debug, Clone)]
pub(super) struct TimeColumn {
    pub(super) qualifier: Option<String>,
    pub(super) name: String,
    pub(super) bucket: Expr,
}

/// What the rewriting found out about each selected item, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A key, the bucket or a constant.
    Plain,
    /// An expression over aggregates: FILL concerns it.
    Aggregate,
}

/// Rewrites the SELECT of `query` in place.
///
/// # Errors
/// [`SqlError`] for `*`, which does not say what is a key.
pub(super) fn group_by_bucket(
    query: &mut Query,
    time: &TimeColumn,
    context: &dyn ContextProvider,
) -> Result<Vec<Item>, SqlError> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(Vec::new()) };
    let mut pass =
        Pass { time, context, inside: 0, aggregates: 0, windows: 0, buckets: 0, columns: Vec::new() };
    let mut keys = vec![time.bucket.clone()];
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &mut select.projection {
        items.push(pass.item(item, &mut keys)?);
    }
    let aliases = aliases(select);
    for expr in select.having.iter_mut().chain(select.qualify.iter_mut()) {
        pass.substitute(expr);
    }
    if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_mut().map(|o| &mut o.kind) {
        for expr in exprs {
            let names_output =
                matches!(&expr.expr, Expr::Identifier(ident) if aliases.contains(&ident.value));
            if !names_output {
                pass.substitute(&mut expr.expr);
            }
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(items) };
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    Ok(items)
}

fn aliases(select: &Select) -> Vec<String> {
    let alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    };
    select.projection.iter().filter_map(alias).collect()
}

/// Replaces the timestamp outside aggregates, and counts what it meets.
struct Pass<'a> {
    time: &'a TimeColumn,
    context: &'a dyn ContextProvider,
    /// How many aggregates and sub-queries surround the place.
    inside: usize,
    aggregates: usize,
    windows: usize,
    buckets: usize,
    /// Columns other than the timestamp, outside aggregates.
    columns: Vec<Expr>,
}

impl Pass<'_> {
    fn item(&mut self, item: &mut SelectItem, keys: &mut Vec<Expr>) -> Result<Item, SqlError> {
        let at = place(item);
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
            _ => {
                return Err(SqlError::new("SAMPLE BY needs its columns by name, not *", at)
                    .hint("name the keys and the aggregates, such as SELECT ts, symbol, avg(price)"));
            }
        };
        let was_time = self.is_time(expr);
        self.substitute(expr);
        let found = if self.aggregates > 0 { Item::Aggregate } else { Item::Plain };
        if self.aggregates == 0 && self.windows == 0 {
            if self.buckets == 0 && !self.columns.is_empty() {
                push_new(keys, expr.clone());
            } else {
                self.columns.drain(..).for_each(|column| push_new(keys, column));
            }
        }
        if was_time && let SelectItem::UnnamedExpr(expr) = item {
            let alias = Ident::with_quote('"', self.time.name.clone());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        Ok(found)
    }

    fn substitute(&mut self, expr: &mut Expr) {
        (self.inside, self.aggregates, self.windows, self.buckets) = (0, 0, 0, 0);
        self.columns.clear();
        // The visitor never breaks off.
        let _ = walk_mut(expr, self);
    }

    fn is_time(&self, expr: &Expr) -> bool {
        let same = |ident: &Ident, name: &str| match ident.quote_style {
            Some(_) => ident.value == name,
            None => ident.value.eq_ignore_ascii_case(name),
        };
        match expr {
            Expr::Identifier(ident) => same(ident, &self.time.name),
            Expr::CompoundIdentifier(parts) => match (parts.as_slice(), &self.time.qualifier) {
                ([.., table, column], Some(qualifier)) => {
                    same(column, &self.time.name) && same(table, qualifier)
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn is_aggregate(&self, function: &Function) -> bool {
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(|i| i.value.to_lowercase());
        function.over.is_none() && name.is_some_and(|n| self.context.get_aggregate_meta(&n).is_some())
    }
}

impl VisitorMut for Pass<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            if function.over.is_some() && self.inside == 0 {
                self.windows += 1;
            }
            if self.is_aggregate(function) {
                if self.inside == 0 {
                    self.aggregates += 1;
                }
                self.inside += 1;
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.is_aggregate(function) => self.inside -= 1,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.inside == 0 => {
                if self.is_time(expr) {
                    self.buckets += 1;
                    *expr = self.time.bucket.clone();
                } else {
                    push_new(&mut self.columns, expr.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn push_new(exprs: &mut Vec<Expr>, expr: Expr) {
    if !exprs.contains(&expr) {
        exprs.push(expr);
    }
}
