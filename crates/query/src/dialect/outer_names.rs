//! `b.k` in a sub-query, where `b` is a table of the query around it and a column of one inside as well:
//! `SELECT price FROM symbol WHERE EXISTS (SELECT 1 FROM p WHERE p.symbol = symbol.symbol)`.
//!
//! The planner looks for a field `k` of the column `b` before it looks at tables outside, where PostgreSQL and DuckDB take
//! the table. With the schema before it the name is that of a table alone.
//!
//! A column of a table outside in the list of a sub-query (`LATERAL (SELECT t.price)`) has its own name there; the planner
//! gives it one of its own (`outer_ref(t.price)`).

use super::fields::name_of;
use super::names::{Catalog, SCHEMAS};
use super::walks::walk_mut;
use sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;
use tickstone_model::is_same_name;

/// See the file's header.
pub(super) fn qualify(node: &mut impl VisitMut, catalog: &Catalog<'_>) {
    // It never breaks off.
    let _ = walk_mut(node, &mut Qualify { catalog, scopes: Vec::new(), queries: Vec::new() });
}

struct Qualify<'a> {
    catalog: &'a Catalog<'a>,
    /// The SELECTs around, outermost first.
    scopes: Vec<Scope>,
    /// Names of WITH, which come before tables of the catalog.
    queries: Vec<String>,
}

/// What the names of a SELECT may be.
#[derive(Default)]
struct Scope {
    tables: Vec<Table>,
    /// How many sub-queries of its FROM the walk is in, which cannot read it.
    hidden: usize,
}

struct Table {
    name: String,
    /// `None` where they are not known here.
    columns: Option<Vec<String>>,
    /// Whether a schema is part of its name, and none of [`SCHEMAS`]' first.
    is_elsewhere: bool,
}

impl Scope {
    fn table(&self, name: &Ident) -> Option<&Table> {
        self.tables.iter().find(|table| is_same_name(&table.name, &name.value))
    }

    fn may_have_column(&self, name: &Ident) -> bool {
        self.tables.iter().any(|table| {
            table
                .columns
                .as_ref()
                .is_none_or(|columns| columns.iter().any(|column| is_same_name(column, &name.value)))
        })
    }
}

impl Qualify<'_> {
    fn add(&self, from: &TableWithJoins, scope: &mut Scope) {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
                self.add(table_with_joins, scope);
                continue;
            }
            let name = name_of(factor).map(|name| name.value.clone()).unwrap_or_default();
            let (columns, is_elsewhere) = match factor {
                TableFactor::Table { name: table, alias, args: None, .. } => {
                    (self.columns_of(table), alias.is_none() && is_elsewhere(table))
                }
                _ => (None, false),
            };
            scope.tables.push(Table { name, columns, is_elsewhere });
        }
    }

    /// The columns of a table; `None` of a query of WITH, which comes before a table of its name.
    fn columns_of(&self, table: &ObjectName) -> Option<Vec<String>> {
        let name = &table.0.last()?.as_ident()?.value;
        let is_query = self.queries.iter().any(|query| is_same_name(query, name));
        if is_query { None } else { (self.catalog)(name).map(|(_, columns)| columns) }
    }

    /// Whether a name is that of a table around the SELECT at hand, and may be a column's of one nearer.
    fn is_outer(&self, name: &Ident) -> bool {
        let mut may_be_column = false;
        for scope in self.scopes.iter().rev().filter(|scope| scope.hidden == 0) {
            match scope.table(name) {
                Some(table) => return may_be_column && !table.is_elsewhere,
                None => may_be_column |= scope.may_have_column(name),
            }
        }
        false
    }
}

impl Qualify<'_> {
    /// The name of a column that is one of a table around the SELECT at hand.
    fn outer_column<'e>(&self, expr: &'e Expr) -> Option<&'e Ident> {
        let (own, around) = self.scopes.split_last()?;
        match expr {
            Expr::Identifier(column) => (own.tables.is_empty() && !around.is_empty()).then_some(column),
            Expr::CompoundIdentifier(parts) => {
                let [table, column] = parts.as_slice() else { return None };
                let is_own = own.table(table).is_some() || own.may_have_column(table);
                let is_around = around.iter().any(|scope| scope.hidden == 0 && scope.table(table).is_some());
                (!is_own && is_around).then_some(column)
            }
            _ => None,
        }
    }
}

/// Whether a table is named with a schema, and not that of the database's own tables.
fn is_elsewhere(table: &ObjectName) -> bool {
    let schema = table.0.first().and_then(|part| part.as_ident());
    table.0.len() > 1 && schema.is_some_and(|schema| !is_same_name(&schema.value, SCHEMAS[0]))
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let names =
            query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| cte.alias.name.value.clone());
        self.queries.extend(names);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut scope = Scope::default();
        select.from.iter().for_each(|from| self.add(from, &mut scope));
        self.scopes.push(scope);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = self.outer_column(expr).cloned()
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let (TableFactor::Derived { lateral: false, .. }, Some(scope)) = (factor, self.scopes.last_mut()) {
            scope.hidden += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let (TableFactor::Derived { lateral: false, .. }, Some(scope)) = (factor, self.scopes.last_mut()) {
            scope.hidden -= 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [name, _] = parts.as_slice()
            && self.is_outer(name)
        {
            parts.insert(0, Ident::new(SCHEMAS[0]));
        }
        ControlFlow::Continue(())
    }
}
