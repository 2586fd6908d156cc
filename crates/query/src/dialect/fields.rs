//! `s.*` of a column that is a struct, and `(expression).*`: its fields in its place.
//!
//! Which fields there are is known once the rows are planned that the item is of. So whoever runs the statement asks for
//! the SELECTs with such items one after the other, the innermost first, each as a query of its own with a column in the
//! place of each item ([`fields_wanted`]), plans it, and hands the fields over ([`place_fields`]) before names are
//! resolved.

use super::change::template;
use super::cursor::Result;
use super::marker::call;
use super::walks::walk_mut;
use super::{Position, Statement};
use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions, With,
};
use std::ops::ControlFlow;

/// What a column is named that stands in the place of an item, before the item's number.
const COLUMN: &str = "__fields_of_";

/// The SELECT with such items that comes after `passed` others, with columns in their places; `None` where there is none.
///
/// # Errors
/// None but a defect.
pub(crate) fn fields_wanted(statement: &mut Statement, passed: usize) -> Result<Option<Box<Query>>> {
    // Most statements have none, and nothing of them is copied.
    if statement.walk_queries_mut(&mut AnyItem).is_continue() {
        return Ok(None);
    }
    let mut found = None;
    let mut look = |select: &mut Select, with: Option<With>| found = Some((select.clone(), with));
    let mut selects = Selects { passed, met: 0, with: Vec::new(), found: &mut look };
    // It breaks off where it is done.
    let _ = statement.walk_queries_mut(&mut selects);
    let Some((mut select, with)) = found else { return Ok(None) };
    replace(&mut select, |at, expr| {
        let alias = Ident::with_quote('"', format!("{COLUMN}{at}"));
        Some(vec![SelectItem::ExprWithAlias { expr: expr.clone(), alias }])
    });
    let mut query = template(Position::default())?;
    query.with = with;
    query.body = Box::new(SetExpr::Select(Box::new(select)));
    Ok(Some(query))
}

/// Puts fields in the places of the items of that SELECT: those of each, or `None` where it is no struct and stays.
pub(crate) fn place_fields(statement: &mut Statement, passed: usize, fields: &[Option<Vec<String>>]) {
    let mut place = |select: &mut Select, _: Option<With>| {
        replace(select, |at, expr| Some(of_fields(fields.get(at)?.as_ref()?, expr)));
    };
    let mut selects = Selects { passed, met: 0, with: Vec::new(), found: &mut place };
    // As above.
    let _ = statement.walk_queries_mut(&mut selects);
}

/// The number of the item in whose place a column stands.
pub(crate) fn item_of(column: &str) -> Option<usize> {
    column.strip_prefix(COLUMN)?.parse().ok()
}

fn of_fields(names: &[String], expr: &Expr) -> Vec<SelectItem> {
    let field = |name: &String| {
        let literal = Expr::value(Value::SingleQuotedString(name.clone()));
        let expr = call("get_field", vec![expr.clone(), literal]);
        SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
    };
    names.iter().map(field).collect()
}

/// Finds one SELECT with such items, and the WITH that it sees.
struct Selects<'a> {
    passed: usize,
    met: usize,
    /// Those of the queries it is in.
    with: Vec<Option<With>>,
    found: &'a mut dyn FnMut(&mut Select, Option<With>),
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.with.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !has_items(select) {
            return ControlFlow::Continue(());
        }
        self.met += 1;
        if self.met <= self.passed {
            return ControlFlow::Continue(());
        }
        let mut seen: Option<With> = None;
        for mut with in self.with.iter().flatten().cloned() {
            // What it is itself in cannot be planned yet, and it does not see what comes after that.
            let own = with.cte_tables.iter_mut().position(|cte| holds_items(&mut cte.query));
            with.cte_tables.truncate(own.unwrap_or(with.cte_tables.len()));
            match &mut seen {
                Some(seen) => seen.cte_tables.append(&mut with.cte_tables),
                None if with.cte_tables.is_empty() => {}
                None => seen = Some(with),
            }
        }
        (self.found)(select, seen);
        ControlFlow::Break(())
    }
}

/// Whether a query has such items, at any depth.
fn holds_items(query: &mut Query) -> bool {
    walk_mut(query, &mut AnyItem).is_break()
}

/// Breaks off at such an item.
struct AnyItem;

impl VisitorMut for AnyItem {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if has_items(select) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn has_items(select: &mut Select) -> bool {
    let mut any = false;
    replace(select, |_, _| {
        any = true;
        None
    });
    any
}

/// Puts others in the places of such items, by their number and expression; those for which there are none stay.
fn replace(select: &mut Select, mut others: impl FnMut(usize, &Expr) -> Option<Vec<SelectItem>>) {
    if !select.projection.iter().any(|item| matches!(item, SelectItem::QualifiedWildcard(..))) {
        return;
    }
    let mut relations = Vec::new();
    select.from.iter().for_each(|from| names_of(from, &mut relations));
    let is_relation = |ident: &Ident| relations.iter().any(|of| of.eq_ignore_ascii_case(&ident.value));
    let (mut items, mut met) = (Vec::with_capacity(select.projection.len()), 0);
    for item in std::mem::take(&mut select.projection) {
        let of = match &item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                Some(expr.clone())
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if !changes(options) =>
            {
                let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
                match parts.as_deref() {
                    Some([column]) if !is_relation(column) => Some(Expr::Identifier(column.clone())),
                    Some([relation, _]) if is_relation(relation) => parts.map(Expr::CompoundIdentifier),
                    _ => None,
                }
            }
            _ => None,
        };
        let placed = of.and_then(|expr| {
            met += 1;
            others(met - 1, &expr)
        });
        match placed {
            Some(placed) => items.extend(placed),
            None => items.push(item),
        }
    }
    select.projection = items;
}

/// Whether columns are left out or changed, which is of relations.
pub(super) fn changes(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
}

/// The names of the relations of FROM.
fn names_of(from: &TableWithJoins, names: &mut Vec<String>) {
    for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => names_of(table_with_joins, names),
            other => names.extend(name_of(other).map(|name| name.value.clone())),
        }
    }
}

/// What columns of something in FROM are qualified with: its alias, or the last part of a table's name.
pub(super) fn name_of(factor: &TableFactor) -> Option<&Ident> {
    let alias = match factor {
        TableFactor::Table { name, alias: None, .. } => return name.0.last()?.as_ident(),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::Pivot { alias, .. }
        | TableFactor::Unpivot { alias, .. } => alias,
        _ => return None,
    };
    alias.as_ref().map(|alias| &alias.name)
}
