//! Columns that a SELECT names twice: the later one gets a name of its own, `price_1`.
//!
//! Planning refuses two columns of one name in a list, and in a sub-query also where tables tell them apart. So an
//! item without a name of its own whose name is taken becomes `item AS name_1`; names that the statement gives stay,
//! and so does everything whose columns are not known here. In a sub-query `*` over tables with columns of one name
//! is written out.
//!
//! Flow: [`super::listed`] -> here -> planning; what `*` repeats at the top is renamed by the session, which knows the
//! columns then ([`unique`] does it for both).

use super::columns::{Column, Columns, is_plain};
use super::using::Keys;
use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr};
use std::collections::HashSet;

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

/// The name, or the first `name_1`, `name_2`, … where it is taken.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(name) {
        return name.to_string();
    }
    let numbered = (1_usize..).map(|number| format!("{name}_{number}"));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
}

/// Gives the repeated columns of a SELECT names of their own; one that is a key of USING has its name from us.
pub(super) fn rename(columns: &Columns<'_>, select: &mut Select, keys: &Keys) {
    if select.projection.len() < 2 || !is_repeating(columns, select) {
        return;
    }
    spell_out(columns, select);
    let known = select.projection.iter().map(|item| columns.of_item(item, &select.from));
    let names: Vec<Vec<String>> = known
        .map(|columns| columns.unwrap_or_default().into_iter().map(|column| column.name).collect())
        .collect();
    let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for (item, names) in select.projection.iter_mut().zip(&names) {
        let is_repeated = names.iter().filter(|name| !seen.insert(name.as_str())).count() > 0;
        let expr = match &*item {
            SelectItem::UnnamedExpr(expr) => expr,
            SelectItem::ExprWithAlias { expr, alias } if keys.get(&alias.value) == Some(expr) => expr,
            _ => continue,
        };
        if is_repeated {
            let name = free_name(&names[0], |name| taken.contains(name));
            taken.insert(name.clone());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
        }
    }
}

fn is_repeating(columns: &Columns<'_>, select: &Select) -> bool {
    let mut seen = HashSet::new();
    let known = select.projection.iter().filter_map(|item| columns.of_item(item, &select.from));
    known.flatten().any(|column| !seen.insert(column.name))
}

/// Writes `t.*` and `*` out behind items of the same names, so that each column can have a name of its own.
fn spell_out(columns: &Columns<'_>, select: &mut Select) {
    let Some(all) = columns.of_from(&select.from) else { return };
    let mut seen = HashSet::new();
    let items = std::mem::take(&mut select.projection).into_iter();
    let each = items.flat_map(|item| match &item {
        of if columns.of_item(of, &select.from).is_none_or(|named| {
            named.into_iter().filter(|column| !seen.insert(column.name.clone())).count() == 0
        }) =>
        {
            vec![item]
        }
        SelectItem::Wildcard(options) if is_plain(options) => all.iter().map(as_item).collect(),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
            if is_plain(options) =>
        {
            let table = name.0.last().and_then(|part| part.as_ident()).map(|table| &table.value);
            let of_table: Vec<_> =
                all.iter().filter(|column| column.table.as_ref() == table).map(as_item).collect();
            // A name that nothing has is told by planning.
            if of_table.is_empty() { vec![item] } else { of_table }
        }
        _ => vec![item],
    });
    select.projection = each.collect();
}

/// A column as an item of a SELECT.
fn as_item(column: &Column) -> SelectItem {
    let quoted = |name: &str| Ident::with_quote('"', name);
    SelectItem::UnnamedExpr(match &column.table {
        Some(table) => Expr::CompoundIdentifier(vec![quoted(table), quoted(&column.name)]),
        None => Expr::Identifier(quoted(&column.name)),
    })
}

/// Writes `*` out in a sub-query, or in the queries of a set, over tables that have columns of one name, and gives these
/// names of their own.
pub(super) fn write_out(columns: &Columns<'_>, query: &mut Query) {
    write_out_of(columns, query.body.as_mut());
}

fn write_out_of(columns: &Columns<'_>, body: &mut SetExpr) {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, right, .. } => {
            write_out_of(columns, left);
            return write_out_of(columns, right);
        }
        SetExpr::Query(query) if query.with.is_none() => return write_out_of(columns, &mut query.body),
        _ => return,
    };
    let [SelectItem::Wildcard(options)] = select.projection.as_slice() else { return };
    let Some(known) = columns.of_from(&select.from).filter(|_| is_plain(options)) else { return };
    let names: HashSet<&str> = known.iter().map(|column| column.name.as_str()).collect();
    if names.len() == known.len() {
        return;
    }
    select.projection = known.iter().map(as_item).collect();
    rename(columns, select, &Keys::new());
}

#[cfg(test)]
mod tests;
