//! Names in expressions of ORDER BY: as in PostgreSQL and DuckDB a column comes before an alias of the same name there,
//! while a name alone is the alias. `SELECT date_trunc('day', ts) AS ts FROM t ORDER BY ts` orders by days,
//! `… ORDER BY extract(hour FROM ts)` by hours of the column. Planning takes the alias both times, and knows no column
//! beside one of its name, so that the column is there under another name, too:
//! `FROM (SELECT *, ts AS "__ts" FROM t) AS t ORDER BY extract(hour FROM t."__ts")`.

use super::columns::{Column, Columns};
use super::walks::walk_mut;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByExpr, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// What a sub-query without a name is called.
const UNNAMED: &str = "__from";

/// Gives columns that an alias shadows in an expression of ORDER BY another name.
pub(super) fn mean_columns(columns: &Columns<'_>, select: &mut Select, order: &mut [OrderByExpr]) {
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if !is_itself(expr, alias) => {
            Some(alias.value.to_lowercase())
        }
        _ => None,
    });
    let aliases: Vec<String> = aliases.collect();
    let mut computed: Vec<&mut Expr> = order.iter_mut().map(|key| &mut key.expr).collect();
    computed.retain(|key| !matches!(key, Expr::Identifier(_) | Expr::Value(_)));
    let is_named =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if aliases.is_empty()
        || computed.is_empty()
        || select.distinct.is_some()
        || !select.projection.iter().all(is_named)
    {
        return;
    }
    let Some(mut known) = columns.of_from(&select.from) else { return };
    known.retain(|column| {
        aliases.contains(&column.name.to_lowercase()) && factor_of(&mut select.from, column).is_some()
    });
    match &select.group_by {
        GroupByExpr::Expressions(keys, _) if keys.is_empty() => {}
        // Of others there is no one value.
        GroupByExpr::Expressions(keys, _) => {
            known.retain(|column| keys.iter().any(|key| is_column(key, column)));
        }
        GroupByExpr::All(_) => return,
    }
    let mut meaning = Meaning { known, depth: 0, meant: Vec::new() };
    for key in computed {
        // It never breaks off.
        let _ = walk_mut(key, &mut meaning);
    }
    for column in meaning.meant {
        let another = another_name(&column);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by
            && !keys.is_empty()
        {
            keys.push(another);
        }
        add(select, &column);
    }
}

/// Names the place of what DISTINCT gives, where ORDER BY writes it again: planning finds a column by its name alone.
pub(super) fn name_places(select: &Select, order: &mut [OrderByExpr]) {
    let items: Option<Vec<&Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        })
        .collect();
    let Some(items) = items else { return };
    for key in order {
        if matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
            continue;
        }
        if let Some(place) = items.iter().position(|item| **item == key.expr) {
            key.expr = Expr::value(Value::Number((place + 1).to_string(), false));
        }
    }
}

/// Whether an item is a column under its own name.
fn is_itself(expr: &Expr, alias: &Ident) -> bool {
    last_name(expr).is_some_and(|name| name.value.eq_ignore_ascii_case(&alias.value))
}

fn is_column(expr: &Expr, column: &Column) -> bool {
    last_name(expr).is_some_and(|name| is_of(name, &column.name))
}

fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

fn is_of(ident: &Ident, name: &str) -> bool {
    if ident.quote_style.is_some() { ident.value == name } else { ident.value.eq_ignore_ascii_case(name) }
}

/// The other name of a column, with its table.
fn another_name(column: &Column) -> Expr {
    let table = column.table.as_deref().unwrap_or(UNNAMED);
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), other(&column.name)])
}

fn other(name: &str) -> Ident {
    Ident::with_quote('"', format!("__{name}"))
}

/// Has the table of a column give it under its other name, too.
fn add(select: &mut Select, column: &Column) {
    let empty = Select {
        projection: Vec::new(),
        from: Vec::new(),
        selection: None,
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        qualify: None,
        named_window: Vec::new(),
        ..select.clone()
    };
    let Some(factor) = factor_of(&mut select.from, column) else { return };
    let again = SelectItem::ExprWithAlias {
        expr: Expr::Identifier(Ident::with_quote('"', column.name.clone())),
        alias: other(&column.name),
    };
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let name = Ident::with_quote('"', column.table.as_deref().unwrap_or(UNNAMED));
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    let none = TableFactor::Derived { lateral: false, subquery: query(empty.clone()), alias, sample: None };
    let relation = std::mem::replace(factor, none);
    if let TableFactor::Derived { subquery, .. } = factor {
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        *subquery = query(Select { projection: vec![all, again], from, ..empty });
    }
}

/// The table, or sub-query, that a column is of.
fn factor_of<'a>(from: &'a mut [TableWithJoins], column: &Column) -> Option<&'a mut TableFactor> {
    let table = column.table.as_deref().unwrap_or(UNNAMED);
    let mut factors = from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
    });
    factors.find(|factor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { lateral: false, alias: Some(alias), .. } => alias.name.value == table,
        TableFactor::Table { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == table)
        }
        TableFactor::Derived { lateral: false, alias: None, .. } => table == UNNAMED,
        _ => false,
    })
}

fn query(select: Select) -> Box<Query> {
    Box::new(Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    })
}

struct Meaning {
    known: Vec<Column>,
    /// Of queries: names inside are theirs.
    depth: usize,
    /// The columns that were found, each once.
    meant: Vec<Column>,
}

impl VisitorMut for Meaning {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (table, name) = match &*expr {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [.., table, name] => (Some(table), name),
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if self.depth == 0 {
            let is_meant = |column: &&Column| {
                let of_table = |table: &Ident| column.table.as_ref().is_some_and(|of| is_of(table, of));
                is_of(name, &column.name) && table.is_none_or(of_table)
            };
            let mut found = self.known.iter().filter(is_meant);
            if let (Some(column), None) = (found.next(), found.next()) {
                *expr = another_name(column);
                if !self.meant.iter().any(|other| other.name == column.name && other.table == column.table) {
                    self.meant.push(column.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }
}
