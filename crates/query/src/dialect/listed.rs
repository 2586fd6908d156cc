//! What the lists of SELECTs give, and where they are meant: one visitor for all that goes by the columns of FROM.
//!
//! For each SELECT, after those inside: joins by USING and NATURAL ([`super::using`]), items that stand for others
//! ([`super::items`]), then columns of one name ([`super::repeated`]); for each query then what its ORDER BY means.

use super::columns::Columns;
use super::cursor::Result;
use super::from_first::BY_NAME;
use super::marker::{place as place_of, queried, simple_name};
use super::names::Catalog;
use super::using::Keys;
use super::walks::has_expr;
use super::walks::walk_mut;
use super::{SqlError, items, ordered, repeated, using};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Resolves what a statement's lists and joins mean by the columns of its tables.
///
/// # Errors
/// Those of [`using::write_joins`].
pub(super) fn place(node: &mut impl VisitMut, catalog: &Catalog<'_>) -> Result<()> {
    let mut listed =
        Listed { columns: Columns::new(catalog), keys: Vec::new(), meant: None, sampled: HashSet::new() };
    match walk_mut(node, &mut listed) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Listed<'a> {
    columns: Columns<'a>,
    /// The keys of the SELECT of each query that the visitor is in.
    keys: Vec<Keys>,
    /// While it puts what keys mean in the place of their names.
    meant: Option<Meant>,
    /// The queries of SAMPLE BY, by their addresses: what they order by is a bucket, a key or an aggregate.
    sampled: HashSet<*const Query>,
}

struct Meant {
    keys: Keys,
    /// Of queries: names inside mean columns of theirs.
    depth: usize,
}

impl Listed<'_> {
    fn mean(&mut self, node: &mut impl VisitMut, keys: &Keys) {
        if !keys.is_empty() {
            self.meant = Some(Meant { keys: keys.clone(), depth: 0 });
            // It never breaks off then.
            let _ = walk_mut(node, self);
            self.meant = None;
        }
    }

    /// ORDER BY ALL as the places of all columns, where it is known how many there are.
    fn order_all(&self, query: &mut Query) {
        let all = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::All(options)) => *options,
            _ => return,
        };
        let Some(columns) = self.columns.of_query(query) else { return };
        let place = |place: usize| OrderByExpr {
            expr: Expr::value(Value::Number(place.to_string(), false)),
            options: all,
            with_fill: None,
        };
        if let Some(order) = &mut query.order_by {
            order.kind = OrderByKind::Expressions((1..=columns.len()).map(place).collect());
        }
    }

    fn order(&mut self, query: &mut Query, keys: Keys) {
        let is_sampled = self.sampled.contains(&std::ptr::from_ref(query));
        let SetExpr::Select(select) = query.body.as_mut() else { return };
        let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind)
        else {
            return;
        };
        if matches!(select.distinct, Some(Distinct::Distinct)) {
            ordered::name_places(select, order);
        }
        let keys = using::ordered_by(select, keys);
        self.mean(order, &keys);
        order.iter_mut().for_each(|key| name_window(select, &mut key.expr));
        if !is_sampled {
            ordered::mean_columns(&self.columns, select, order);
        }
    }
}

/// That a number with a fraction is no place of a list.
fn no_place(order: &OrderBy) -> Option<SqlError> {
    let OrderByKind::Expressions(keys) = &order.kind else { return None };
    keys.iter().find_map(|key| match &key.expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. })
            if !digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let error =
                SqlError::new(format!("ORDER BY {digits} is no place of a column"), place_of(&key.expr));
            Some(error.hint("write ORDER BY 1 for the first column, or its name"))
        }
        _ => None,
    })
}

/// Gives the window that an ORDER BY means by its place a name, beside GROUP BY: planning looks for it among the keys and
/// aggregates there.
fn name_window(select: &mut Select, key: &mut Expr) {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let Expr::Value(value) = &*key else { return };
    let Value::Number(place, _) = &value.value else { return };
    let place = place.to_string().parse::<usize>().ok().and_then(|place| place.checked_sub(1));
    let Some(item) = place.filter(|_| is_grouped).and_then(|place| select.projection.get_mut(place)) else {
        return;
    };
    let name = match item {
        SelectItem::UnnamedExpr(expr) if has_window(expr) => {
            let name = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name.clone() };
            name
        }
        _ => return,
    };
    *key = Expr::Identifier(name);
}

fn has_window(expr: &Expr) -> bool {
    has_expr(expr, &|expr| matches!(expr, Expr::Function(function) if function.over.is_some()))
}

impl VisitorMut for Listed<'_> {
    type Break = SqlError;

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<SqlError> {
        if let Statement::Insert(insert) = statement
            && matches!(insert.columns.as_slice(), [name] if simple_name(name) == Some(BY_NAME))
        {
            let known = insert.source.as_ref().and_then(|query| self.columns.of_query(query));
            let Some(known) = known else {
                let error = SqlError::new(
                    "BY NAME: the columns of this query are not known before it is planned",
                    place_of(&insert.table),
                );
                return ControlFlow::Break(error.hint("name them: INSERT INTO t (a, b) SELECT …"));
            };
            let names = known.into_iter().map(|column| vec![Ident::with_quote('"', column.name)].into());
            insert.columns = names.collect();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match &mut self.meant {
            Some(meant) => meant.depth += 1,
            None => {
                self.columns.enter(query);
                self.keys.push(Keys::new());
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let Some(meant) = &mut self.meant {
            meant.depth -= 1;
            return ControlFlow::Continue(());
        }
        let keys = self.keys.pop().unwrap_or_default();
        if let Some(error) = query.order_by.as_ref().and_then(no_place) {
            return ControlFlow::Break(error);
        }
        self.order_all(query);
        self.order(query, keys);
        let is_set = matches!(query.body.as_ref(), SetExpr::SetOperation { .. });
        if is_set || self.columns.is_declared(query) {
            repeated::write_out(&self.columns, query);
        }
        self.columns.leave(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if self.meant.is_some() {
            return ControlFlow::Continue(());
        }
        let keys = match using::write_joins(&self.columns, select) {
            Ok(keys) => keys,
            Err(error) => return ControlFlow::Break(error),
        };
        self.mean(select, &keys);
        if let Err(error) = items::write_out(&self.columns, select) {
            return ControlFlow::Break(error);
        }
        repeated::rename(&self.columns, select, &keys);
        if let Some(of_query) = self.keys.last_mut() {
            *of_query = keys;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.sampled.extend(queried(factor).map(std::ptr::from_ref));
        if self.meant.is_none()
            && matches!(factor, TableFactor::NestedJoin { alias: Some(_), .. })
            && let Err(error) = using::as_query(factor)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let (None, TableFactor::Derived { subquery, .. }) = (&self.meant, factor) {
            repeated::write_out(&self.columns, subquery);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let (Some(Meant { keys, depth: 0 }), Expr::Identifier(ident)) = (&self.meant, &*expr)
            && let Some(meant) = keys.get(&ident.value)
        {
            *expr = meant.clone();
        }
        ControlFlow::Continue(())
    }
}
