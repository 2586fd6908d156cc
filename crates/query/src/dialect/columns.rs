//! The columns that tables, queries and joins give, as far as the text of a statement and the catalog say.
//!
//! A visitor that asks tells of each query it enters and leaves, so that a name means what WITH declares before it means
//! a table.

use super::marker::queried;
use super::names::Catalog;
use super::walks::each_expr;
use sqlparser::ast::{
    Expr, Function, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, UnaryOperator, Value,
    WildcardAdditionalOptions,
};
use std::collections::{HashMap, HashSet};

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// What its table is called.
    pub(super) table: Option<String>,
    pub(super) name: String,
    /// Whether planning gives it this name without doubt: that of an expression without one is a guess.
    pub(super) is_certain: bool,
}

/// What is known at a place of a statement.
pub(super) struct Columns<'a> {
    catalog: &'a Catalog<'a>,
    /// The queries that the visitor is in.
    frames: Vec<Frame>,
}

/// A query that the visitor is in.
#[derive(Default)]
struct Frame {
    /// The queries of its WITH, by their addresses.
    declares: HashMap<*const Query, TableAlias>,
    /// What they give, in lower case; `None` before they have been visited, and where it is not known.
    declared: HashMap<String, Option<Vec<Column>>>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(catalog: &'a Catalog<'a>) -> Self {
        Self { catalog, frames: vec![Frame::default()] }
    }

    pub(super) fn enter(&mut self, query: &Query) {
        let tables = || query.with.iter().flat_map(|with| &with.cte_tables);
        let declares = tables().map(|cte| (std::ptr::from_ref(cte.query.as_ref()), cte.alias.clone()));
        let declared = tables().map(|cte| (cte.alias.name.value.to_lowercase(), None));
        self.frames.push(Frame { declares: declares.collect(), declared: declared.collect() });
    }

    pub(super) fn leave(&mut self, query: &Query) {
        let columns = self.is_declared(query).then(|| self.of_query(query)).flatten();
        self.frames.pop();
        let Some(outer) = self.frames.last_mut() else { return };
        if let Some(alias) = outer.declares.remove(&std::ptr::from_ref(query)) {
            let columns = columns.and_then(|columns| renamed(columns, &alias));
            outer.declared.insert(alias.name.value.to_lowercase(), columns);
        }
    }

    /// Whether this is a query of the WITH of the one around it.
    pub(super) fn is_declared(&self, query: &Query) -> bool {
        let outer = self.frames.len().checked_sub(2).and_then(|outer| self.frames.get(outer));
        outer.is_some_and(|outer| outer.declares.contains_key(&std::ptr::from_ref(query)))
    }

    /// Those of a query, without a table.
    pub(super) fn of_query(&self, query: &Query) -> Option<Vec<Column>> {
        if query.pipe_operators.is_empty() { self.of_body(&query.body) } else { None }
    }

    fn of_body(&self, body: &SetExpr) -> Option<Vec<Column>> {
        match body {
            SetExpr::Select(select) => {
                let items = select.projection.iter().map(|item| self.of_item(item, &select.from));
                let columns = items.collect::<Option<Vec<_>>>()?.concat().into_iter();
                Some(columns.map(|column| Column { table: None, ..column }).collect())
            }
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Values(values) => {
                let column = |at| Column { table: None, name: format!("column{at}"), is_certain: true };
                Some((1..=values.rows.first()?.content.len()).map(column).collect())
            }
            _ => None,
        }
    }

    /// Those of an item of a SELECT; of several of one name, which their tables tell apart, the first.
    pub(super) fn of_item(&self, item: &SelectItem, from: &[TableWithJoins]) -> Option<Vec<Column>> {
        let one = |name, is_certain| Some(vec![Column { table: None, name, is_certain }]);
        let columns = match item {
            SelectItem::UnnamedExpr(expr) => return one(name_of(expr), is_column(expr)),
            SelectItem::ExprWithAlias { alias, .. } => return one(alias.value.clone(), true),
            SelectItem::Wildcard(options) if is_plain(options) => self.of_from(from)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
                if is_plain(options) =>
            {
                let table = &table.0.last()?.as_ident()?.value;
                let columns = self.of_from(from)?.into_iter();
                columns.filter(|column| column.table.as_ref() == Some(table)).collect()
            }
            _ => return None,
        };
        let mut seen = HashSet::new();
        Some(columns.into_iter().filter(|column| seen.insert(column.name.clone())).collect())
    }

    /// All columns of a FROM, those of each side of a join of their own; `None` where a table's are not known.
    pub(super) fn of_from(&self, from: &[TableWithJoins]) -> Option<Vec<Column>> {
        let each = from.iter().map(|from| self.of_joins(from));
        Some(each.collect::<Option<Vec<_>>>()?.concat())
    }

    fn of_joins(&self, from: &TableWithJoins) -> Option<Vec<Column>> {
        let mut columns = self.of_factor(&from.relation)?;
        for join in &from.joins {
            match &join.join_operator {
                JoinOperator::Join(JoinConstraint::On(_))
                | JoinOperator::Inner(JoinConstraint::On(_))
                | JoinOperator::Left(JoinConstraint::On(_))
                | JoinOperator::LeftOuter(JoinConstraint::On(_))
                | JoinOperator::Right(JoinConstraint::On(_))
                | JoinOperator::RightOuter(JoinConstraint::On(_))
                | JoinOperator::FullOuter(JoinConstraint::On(_))
                | JoinOperator::CrossJoin(_) => columns.extend(self.of_factor(&join.relation)?),
                _ => return None,
            }
        }
        Some(columns)
    }

    /// Those of what stands in FROM.
    pub(super) fn of_factor(&self, factor: &TableFactor) -> Option<Vec<Column>> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = self.of_table(&name.0.last()?.as_ident()?.value)?;
                alias.as_ref().map_or(Some(columns.clone()), |alias| renamed(columns, alias))
            }
            // It gives as many columns as its alias names, or planning refuses it.
            TableFactor::Table { args: Some(_), alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
                if !alias.columns.is_empty() =>
            {
                let column = |_| Column { table: None, name: String::new(), is_certain: true };
                renamed(alias.columns.iter().map(column).collect(), alias)
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                renamed(self.of_query(subquery)?, alias)
            }
            TableFactor::Derived { subquery, alias: None, .. } => self.of_query(subquery),
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.of_joins(table_with_joins),
            marker => self.of_query(queried(marker)?),
        }
    }

    fn of_table(&self, name: &str) -> Option<Vec<Column>> {
        let folded = name.to_lowercase();
        if let Some(columns) = self.frames.iter().rev().find_map(|frame| frame.declared.get(&folded)) {
            let of_this = |column: &Column| Column { table: Some(name.to_string()), ..column.clone() };
            return Some(columns.as_ref()?.iter().map(of_this).collect());
        }
        let (table, names) = (self.catalog)(name)?;
        let column = |name| Column { table: Some(table.clone()), name, is_certain: true };
        Some(names.into_iter().map(column).collect())
    }
}

/// Columns under an alias and the names it gives the first of them.
fn renamed(columns: Vec<Column>, alias: &TableAlias) -> Option<Vec<Column>> {
    let TableAlias { name: table, columns: names, .. } = alias;
    if names.len() > columns.len() {
        return None;
    }
    let mut columns = columns;
    columns.iter_mut().for_each(|column| column.table = Some(table.value.clone()));
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(&name.name.value);
        column.is_certain = true;
    }
    Some(columns)
}

/// Whether `*` stands alone.
pub(super) fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions { wildcard_token, .. } = options;
    let plain = WildcardAdditionalOptions {
        wildcard_token: wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    };
    *options == plain
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// What planning names an expression that has no name of its own, as far as the text says: a column by its last name,
/// anything else without its casts, a sub-query by its first column.
pub(super) fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()).unwrap_or_default(),
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => name_of(inner),
        other => {
            let mut uncast = other.clone();
            each_expr(&mut uncast, &mut |part| {
                while let Expr::Cast { expr: inner, .. }
                | Expr::Nested(inner)
                | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } = part
                {
                    *part = std::mem::replace(inner.as_mut(), Expr::value(Value::Null));
                }
                if let Some(name) = name_of_query_in(part) {
                    *part = Expr::Identifier(Ident::new(name));
                }
                // Planning has no quotes in its names.
                match part {
                    Expr::Identifier(ident) => ident.quote_style = None,
                    Expr::CompoundIdentifier(parts) => {
                        parts.iter_mut().for_each(|part| part.quote_style = None)
                    }
                    _ => {}
                }
                if let Expr::Function(Function { name: ObjectName(parts), .. }) = part
                    && let Some(ObjectNamePart::Identifier(name)) = parts.last_mut()
                {
                    name.value.make_ascii_lowercase();
                }
            });
            uncast.to_string()
        }
    }
}

/// What planning calls an expression that holds a sub-query, whatever else is in it.
pub(super) fn name_of_query_in(expr: &Expr) -> Option<String> {
    let negated = |negated: bool, name: &str| format!("{}{name}", if negated { "NOT " } else { "" });
    match expr {
        Expr::Subquery(query) => name_of_first(&query.body),
        Expr::Exists { negated: not, .. } => Some(negated(*not, "EXISTS")),
        Expr::InSubquery { negated: not, .. } => Some(negated(*not, "IN")),
        _ => None,
    }
}

/// The name of the first column of a query, where the text says it.
fn name_of_first(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        },
        SetExpr::Query(query) => name_of_first(&query.body),
        SetExpr::SetOperation { left, .. } => name_of_first(left),
        _ => None,
    }
}
