//! Columns that a SELECT names twice: the later one gets a name of its own, `price_1`.
//!
//! Planning refuses two columns of one name in a list, and in a sub-query also where tables tell them apart. So an
//! item without a name of its own whose name is taken becomes `item AS name_1`; names that the statement gives stay,
//! and so does everything whose columns are not known here. In a sub-query `*` over tables with columns of one name
//! is written out.
//!
//! Flow: names are resolved ([`super::names`]) -> [`place`] -> planning; what `*` repeats at the top is renamed by
//! the session, which knows the columns then ([`unique`] does it for both).

use super::names::Catalog;
use sqlparser::ast::{
    Expr, Function, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Value, VisitMut,
    VisitorMut, WildcardAdditionalOptions, visit_expressions_mut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Names that differ, in the order given: a name that was there before gets the first `_1`, `_2`, … that nobody has.
pub(crate) fn unique(names: &[&str], is_folded: bool) -> Vec<String> {
    let key = |name: &str| if is_folded { name.to_lowercase() } else { name.to_string() };
    let mut given: HashSet<String> = names.iter().map(|name| key(name)).collect();
    let mut seen = HashSet::new();
    let each = names.iter().map(|name| {
        if seen.insert(key(name)) {
            return (*name).to_string();
        }
        let free = free_name(name, |other| given.contains(&key(other)));
        given.insert(key(&free));
        seen.insert(key(&free));
        free
    });
    each.collect()
}

fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1_usize..).map(|number| format!("{name}_{number}"));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
}

/// Gives the repeated columns of all SELECTs of a statement names of their own.
pub(super) fn place(node: &mut impl VisitMut, catalog: &Catalog<'_>) {
    // The visitor never breaks off.
    let _ = node.visit(&mut Repeated { catalog });
}

struct Repeated<'a> {
    catalog: &'a Catalog<'a>,
}

impl VisitorMut for Repeated<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.write_out(&mut cte.query);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            self.write_out(subquery);
        }
        ControlFlow::Continue(())
    }

    // After what stands inside, so that the columns of sub-queries have their names already.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.rename(select);
        ControlFlow::Continue(())
    }
}

impl Repeated<'_> {
    fn rename(&self, select: &mut Select) {
        if select.projection.len() < 2 {
            return;
        }
        let names = select.projection.iter().map(|item| self.names_of(item, &select.from));
        let names: Vec<Vec<String>> = names.map(Option::unwrap_or_default).collect();
        let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
        if taken.len() == names.iter().map(Vec::len).sum::<usize>() {
            return;
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for (item, names) in select.projection.iter_mut().zip(&names) {
            let is_repeated = names.iter().filter(|name| !seen.insert(name.as_str())).count() > 0;
            if let (true, SelectItem::UnnamedExpr(expr)) = (is_repeated, &*item) {
                let name = free_name(&names[0], |name| taken.contains(name));
                taken.insert(name.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
    }

    /// Writes `*` out in a sub-query over tables that have columns of one name.
    fn write_out(&self, query: &mut Query) {
        let SetExpr::Select(select) = query.body.as_mut() else { return };
        let [SelectItem::Wildcard(options)] = select.projection.as_slice() else { return };
        let Some(columns) = self.columns_of(&select.from).filter(|_| is_plain(options)) else { return };
        let names: HashSet<&str> = columns.iter().map(|(_, name)| name.as_str()).collect();
        if names.len() == columns.len() {
            return;
        }
        let quoted = |name: &str| Ident::with_quote('"', name);
        let item =
            |(table, name): &(String, String)| Expr::CompoundIdentifier(vec![quoted(table), quoted(name)]);
        select.projection = columns.iter().map(item).map(SelectItem::UnnamedExpr).collect();
    }

    /// The names of the columns that an item gives, `None` where they are not known here.
    fn names_of(&self, item: &SelectItem, from: &[TableWithJoins]) -> Option<Vec<String>> {
        let columns = match item {
            SelectItem::UnnamedExpr(expr) => return Some(vec![name_of(expr)]),
            SelectItem::ExprWithAlias { alias, .. } => return Some(vec![alias.value.clone()]),
            SelectItem::Wildcard(options) if is_plain(options) => self.columns_of(from)?,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
                if is_plain(options) =>
            {
                let table = &table.0.last()?.as_ident()?.value;
                let columns = self.columns_of(from)?.into_iter();
                columns.filter(|(of, _)| of == table).collect()
            }
            _ => return None,
        };
        // Columns of one name of several tables are told apart by their tables.
        let mut seen = HashSet::new();
        let names = columns.into_iter().map(|(_, name)| name);
        Some(names.filter(|name| seen.insert(name.clone())).collect())
    }

    /// All columns of a FROM, each with its table's name there; `None` where a table's are not known.
    fn columns_of(&self, from: &[TableWithJoins]) -> Option<Vec<(String, String)>> {
        let mut columns = Vec::new();
        for table in from {
            self.add_columns(&table.relation, &mut columns)?;
            for join in &table.joins {
                match &join.join_operator {
                    JoinOperator::Join(JoinConstraint::On(_))
                    | JoinOperator::Inner(JoinConstraint::On(_))
                    | JoinOperator::Left(JoinConstraint::On(_))
                    | JoinOperator::LeftOuter(JoinConstraint::On(_))
                    | JoinOperator::Right(JoinConstraint::On(_))
                    | JoinOperator::RightOuter(JoinConstraint::On(_))
                    | JoinOperator::FullOuter(JoinConstraint::On(_))
                    | JoinOperator::CrossJoin(_) => self.add_columns(&join.relation, &mut columns)?,
                    _ => return None,
                }
            }
        }
        Some(columns)
    }

    fn add_columns(&self, factor: &TableFactor, columns: &mut Vec<(String, String)>) -> Option<()> {
        let (table, names) = match factor {
            TableFactor::Table { name, alias: None, args: None, .. } => {
                (self.catalog)(&name.0.last()?.as_ident()?.value)?
            }
            TableFactor::Table { name, alias: Some(alias), args: None, .. } if alias.columns.is_empty() => {
                let (_, names) = (self.catalog)(&name.0.last()?.as_ident()?.value)?;
                (alias.name.value.clone(), names)
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.columns.is_empty() => {
                let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
                let names = select.projection.iter().map(|item| self.names_of(item, &select.from));
                (alias.name.value.clone(), names.collect::<Option<Vec<_>>>()?.concat())
            }
            _ => return None,
        };
        columns.extend(names.into_iter().map(|name| (table.clone(), name)));
        Some(())
    }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions { wildcard_token, .. } = options;
    let plain = WildcardAdditionalOptions {
        wildcard_token: wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    };
    *options == plain
}

/// What planning names an expression that has no name of its own, as far as the text says: a column by its last name,
/// anything else without its casts, a sub-query by its first column.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()).unwrap_or_default(),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => name_of(inner),
        other => {
            let mut uncast = other.clone();
            // The visitor never breaks off.
            let _ = visit_expressions_mut(&mut uncast, |part| {
                while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = part {
                    *part = std::mem::replace(inner.as_mut(), Expr::value(Value::Null));
                }
                if let Some(name) = name_of_query_in(part) {
                    *part = Expr::Identifier(Ident::new(name));
                }
                if let Expr::Function(Function { name: ObjectName(parts), .. }) = part
                    && let Some(ObjectNamePart::Identifier(name)) = parts.last_mut()
                {
                    name.value.make_ascii_lowercase();
                }
                ControlFlow::<()>::Continue(())
            });
            uncast.to_string()
        }
    }
}

/// What planning calls an expression that holds a sub-query, whatever else is in it.
fn name_of_query_in(expr: &Expr) -> Option<String> {
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

#[cfg(test)]
mod tests;
