//! SELECTs over the catalog, with their sub-queries as DataFusion can join them.
//!
//! - A sub-query in an expression that reads columns of the query around it, and gives one column of the one row that it
//!   finds, becomes a LEFT JOIN LATERAL: DataFusion joins any other only where it is an aggregate of rows that are found
//!   by `=`. Tables of the catalog are read by their keys, so there is one row at most.
//! - Sub-queries in a SELECT over a table that never has rows are NULL: they are never carried out.
//! - Columns of tables that are asked for in no order come in theirs, as they do from PostgreSQL.
//! - Functions in FROM whose arguments ask the catalog become queries that give their rows.

use super::super::marker::call;
use super::super::walks::{each_expr, has_expr};
use super::calls::{compare_functions, element_name, null};
use crate::dialect::walks::walk_mut;
use sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    Value, VisitorMut, WildcardAdditionalOptions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Tables of things that there are none of here.
const WITHOUT_ROWS: [&str; 8] = [
    "pg_event_trigger",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_policy",
    "pg_publication_rel",
    "pg_sequence",
    "pg_user_mappings",
];

/// Functions in FROM that are tables of the catalog.
const TABLES: [&str; 1] = ["pg_get_keywords"];

/// Has functions in FROM be tables of the catalog, or queries of their rows.
pub(super) fn place_functions(select: &mut Select) {
    for from in &mut select.from {
        of_factor(&mut from.relation);
        from.joins.iter_mut().for_each(|join| of_factor(&mut join.relation));
    }
}

pub(super) fn mend(select: &mut Select, relations: &BTreeSet<String>, joined: &mut usize) {
    select.from.iter_mut().for_each(|from| elements_beside(from, relations));
    if !reads(select, &|name| relations.contains(name)) {
        return;
    }
    number_tables(select, relations);
    each_expr(select, &mut compare_functions);
    if reads(select, &|name| WITHOUT_ROWS.contains(&name) && relations.contains(name)) {
        let mut never = Queries { arrays: true, depth: 0, change: &mut |query| Some(nothing_of(query)) };
        visit_expressions(select, &mut never);
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            empty_array(expr);
        }
    }
    if is_plain(select) && !has_wildcard(select) {
        join_lookups(select, relations, joined);
    }
}

/// Has the columns of tables in their order where none is asked for.
pub(super) fn order_columns(query: &mut Query, relations: &BTreeSet<String>) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_one = select.projection.iter().any(|item| has_expr(item, &is_aggregate));
    if query.order_by.is_some() || is_one || !is_plain(select) {
        return;
    }
    let is_columns = |name: String| name == "pg_attribute" && relations.contains(&name);
    let columns = factors(select).find(|factor| table_name(factor).is_some_and(is_columns));
    let Some(TableFactor::Table { name, alias, .. }) = columns else { return };
    let Some(table) = alias.as_ref().map(|alias| alias.name.clone()).or_else(|| last(name).cloned()) else {
        return;
    };
    let key = |column: &str| OrderByExpr {
        expr: Expr::CompoundIdentifier(vec![table.clone(), Ident::new(column)]),
        options: OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    let kind = OrderByKind::Expressions(vec![key("attrelid"), key("attnum")]);
    query.order_by = Some(OrderBy { kind, interpolate: None });
}

/// Whether it neither groups nor cuts its rows.
pub(super) fn is_plain(select: &Select) -> bool {
    let has_groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    !has_groups && select.distinct.is_none() && select.having.is_none() && select.top.is_none()
}

fn has_wildcard(select: &Select) -> bool {
    select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)))
}

/// Whether a table of such a name is in FROM.
pub(super) fn reads(select: &Select, is_so: &dyn Fn(&str) -> bool) -> bool {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    factors.filter_map(table_name).any(|name| is_so(&name))
}

pub(super) fn table_name(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, .. } => Some(last(name)?.value.to_ascii_lowercase()),
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
}

/// A function in FROM as a table of the catalog, or as a query of its rows.
fn of_factor(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: args @ Some(_), .. } = factor else { return };
    let Some(function) = last(name).map(|name| name.value.to_ascii_lowercase()) else { return };
    if TABLES.contains(&function.as_str()) {
        *args = None;
        return;
    }
    // Names of functions are in any case, as they are anywhere else.
    if let Some(ObjectNamePart::Identifier(ident)) = name.0.last_mut()
        && ident.quote_style.is_none()
    {
        ident.value.clone_from(&function);
    }
    let Some(arguments) = args.as_ref().map(|args| args.args.as_slice()) else { return };
    let (true, Some(alias)) = (arguments.iter().any(is_calculated), alias.as_ref()) else { return };
    let values: Vec<Expr> = arguments.iter().filter_map(argument).cloned().collect();
    let one = call(&function, values);
    let rows = if function == "generate_series" { call("unnest", vec![one]) } else { one };
    let item = SelectItem::ExprWithAlias { expr: rows, alias: element_name(alias) };
    let alias = TableAlias { columns: Vec::new(), ..alias.clone() };
    if let Some(query) = query_of(vec![item], Vec::new()) {
        *factor = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
    }
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Whether it asks the catalog, which only a query can.
fn is_calculated(of: &FunctionArg) -> bool {
    const ASKS: [&str; 4] = ["array_lower", "array_upper", "current_schemas", "current_setting"];
    let asks = |expr: &Expr| {
        matches!(expr, Expr::Function(Function { name, .. })
            if last(name).is_some_and(|name| ASKS.contains(&name.value.to_ascii_lowercase().as_str())))
    };
    argument(of).is_some_and(|expr| has_expr(expr, &asks))
}

/// `t CROSS JOIN UNNEST(t.a) AS x` as a query over `t` with a column `x`, of a table of the catalog.
fn elements_beside(from: &mut TableWithJoins, relations: &BTreeSet<String>) {
    if !table_name(&from.relation).is_some_and(|name| relations.contains(&name)) {
        return;
    }
    let TableFactor::Table { name, alias, .. } = &from.relation else { return };
    let Some(Join {
        relation: TableFactor::UNNEST { alias: Some(elements), array_exprs, .. },
        join_operator,
        ..
    }) = from.joins.first()
    else {
        return;
    };
    let (JoinOperator::CrossJoin(_), [array]) = (join_operator, array_exprs.as_slice()) else { return };
    if !matches!(array, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
        return;
    }
    let Some(outer) = alias.clone().or_else(|| last(name).cloned().map(named)) else { return };
    let unnested = call("unnest", vec![array.clone()]);
    let items = vec![
        SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias { expr: unnested, alias: element_name(elements) },
    ];
    let inner = TableWithJoins { relation: from.relation.clone(), joins: Vec::new() };
    if let Some(query) = query_of(items, vec![inner]) {
        from.joins.remove(0);
        from.relation =
            TableFactor::Derived { lateral: false, subquery: query, alias: Some(outer), sample: None };
    }
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// `SELECT items FROM from`.
pub(super) fn query_of(items: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Option<Box<Query>> {
    let mut query = Parser::new(&GenericDialect {}).try_with_sql("SELECT 1").ok()?.parse_query().ok()?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
    }
    Some(query)
}

/// Sub-queries of the expressions of a SELECT that find one row by columns of the query around them, as joins.
fn join_lookups(select: &mut Select, relations: &BTreeSet<String>, joined: &mut usize) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Subquery(query)) = item
            && let Some(name) = name_of(query)
        {
            let expr = Expr::Subquery(query.clone());
            *item = SelectItem::ExprWithAlias { expr, alias: name };
        }
    }
    let mut joins = Vec::new();
    let mut lookups = Queries {
        arrays: false,
        depth: 0,
        change: &mut |query| {
            if !is_lookup(query, relations) {
                return None;
            }
            let is_empty = |name: &str| WITHOUT_ROWS.contains(&name);
            if matches!(query.body.as_ref(), SetExpr::Select(select) if reads(select, &is_empty)) {
                return Some(nothing_of(query));
            }
            *joined += 1;
            let (alias, column) = (Ident::new(format!("__looked_up_{joined}")), Ident::new("value"));
            let mut query = Box::new(query.clone());
            if let SetExpr::Select(select) = query.body.as_mut()
                && let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
                    select.projection.as_slice()
            {
                select.projection =
                    vec![SelectItem::ExprWithAlias { expr: expr.clone(), alias: column.clone() }];
            }
            let subquery = TableFactor::Derived {
                lateral: true,
                subquery: query,
                alias: Some(named(alias.clone())),
                sample: None,
            };
            let always = JoinConstraint::On(Expr::value(Value::Boolean(true)));
            let join_operator = JoinOperator::Left(always);
            joins.push(Join { relation: subquery, global: false, join_operator });
            Some(Expr::CompoundIdentifier(vec![alias, column]))
        },
    };
    visit_expressions(select, &mut lookups);
    if joins.is_empty() {
        return;
    }
    beside_each_other(&mut select.from);
    if let Some(from) = select.from.first_mut() {
        from.joins.extend(joins);
    }
}

/// NULL for a query that is never carried out; the values that a client gives for it are still taken.
fn nothing_of(query: &Query) -> Expr {
    let mut given: Vec<Expr> = Vec::new();
    let mut query = query.clone();
    each_expr(&mut query, &mut |expr| {
        let is_given =
            |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
        match expr {
            Expr::Cast { expr: inner, .. } if is_given(inner) => {
                given.retain(|other| other != inner.as_ref());
                given.push(expr.clone());
            }
            expr if is_given(expr) => given.push(expr.clone()),
            _ => {}
        }
    });
    if given.is_empty() { null() } else { call("pg_nothing", given) }
}

/// What a sub-query alone in a list is called.
fn name_of(query: &Query) -> Option<Ident> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => Some(alias.clone()),
        [SelectItem::UnnamedExpr(Expr::Identifier(name))] => Some(name.clone()),
        [SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts))] => parts.last().cloned(),
        [SelectItem::UnnamedExpr(Expr::Function(Function { name, .. }))] => last(name).cloned(),
        [SelectItem::UnnamedExpr(Expr::Case { .. })] => Some(Ident::new("case")),
        [SelectItem::UnnamedExpr(_)] => Some(Ident::with_quote('"', "?column?")),
        _ => None,
    }
}

/// Whether it finds a row of the catalog by columns of the query around it.
fn is_lookup(query: &Query, relations: &BTreeSet<String>) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let is_one = matches!(
        select.projection.as_slice(),
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] if !is_aggregate(item)
    );
    let tables: Vec<&TableFactor> = factors(select).collect();
    let is_of_catalog = !tables.is_empty()
        && tables.iter().all(|of| table_name(of).is_some_and(|name| relations.contains(&name)));
    let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.order_by.is_none();
    is_one && is_of_catalog && is_whole && is_plain(select) && reads_outer(select)
}

fn factors(select: &Select) -> impl Iterator<Item = &TableFactor> {
    let of = |from| {
        let from: &TableWithJoins = from;
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    };
    select.from.iter().flat_map(of)
}

fn is_aggregate(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 9] =
        ["array_agg", "avg", "bool_and", "bool_or", "count", "max", "min", "string_agg", "sum"];
    matches!(expr, Expr::Function(Function { name, args: FunctionArguments::List(_), .. })
        if last(name).is_some_and(|name| AGGREGATES.contains(&name.value.to_ascii_lowercase().as_str())))
}

/// Whether a condition names a table that is not in FROM.
fn reads_outer(select: &Select) -> bool {
    let own: Vec<String> = factors(select)
        .filter_map(|factor| match factor {
            TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.value.to_ascii_lowercase()),
            other => table_name(other),
        })
        .collect();
    select.selection.as_ref().is_some_and(|condition| {
        has_expr(condition, &|expr| match expr {
            Expr::CompoundIdentifier(parts) => parts
                .len()
                .checked_sub(2)
                .is_some_and(|table| !own.contains(&parts[table].value.to_ascii_lowercase())),
            _ => false,
        })
    })
}

/// `coalesce(names, '{}')`, with an empty array for its text.
fn empty_array(expr: &mut Expr) {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return };
    if !last(name).is_some_and(|name| name.value.eq_ignore_ascii_case("coalesce")) {
        return;
    }
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument
            && matches!(expr, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text == "{}"))
        {
            *expr = call("make_array", Vec::new());
        }
    }
}

/// `t.tableoid` as the number of the table.
fn number_tables(select: &mut Select, relations: &BTreeSet<String>) {
    let tables: Vec<(String, String)> = factors(select)
        .filter_map(|factor| match factor {
            TableFactor::Table { alias: Some(alias), .. } => {
                Some((alias.name.value.clone(), table_name(factor)?))
            }
            other => table_name(other).map(|name| (name.clone(), name)),
        })
        .filter(|(_, name)| relations.contains(name))
        .collect();
    each_expr(select, &mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_slice()
            && column.value.eq_ignore_ascii_case("tableoid")
            && let Some((_, name)) = tables.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(&table.value))
        {
            *expr = call("regclass", vec![Expr::value(Value::SingleQuotedString(name.clone()))]);
        }
    });
}

/// The tables of FROM as one that the others are joined to.
fn beside_each_other(from: &mut Vec<TableWithJoins>) {
    let rest = from.split_off(from.len().min(1));
    let Some(first) = from.first_mut() else { return };
    for next in rest {
        let relation = match next.joins.is_empty() {
            true => next.relation,
            false => TableFactor::NestedJoin { table_with_joins: Box::new(next), alias: None },
        };
        let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
        first.joins.push(Join { relation, global: false, join_operator });
    }
}

/// Changes the outermost sub-queries of expressions.
struct Queries<'a> {
    /// Those of ARRAY too.
    arrays: bool,
    /// How many queries the walk is in.
    depth: usize,
    change: &'a mut dyn FnMut(&Query) -> Option<Expr>,
}

impl VisitorMut for Queries<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let made = match expr {
            _ if self.depth > 0 => None,
            Expr::Subquery(query) => (self.change)(query),
            Expr::Function(Function { args: FunctionArguments::Subquery(query), .. }) if self.arrays => {
                (self.change)(query).map(as_texts)
            }
            _ => None,
        };
        if let Some(made) = made {
            *expr = made;
        }
        ControlFlow::Continue(())
    }
}

/// NULL as an array.
fn as_texts(expr: Expr) -> Expr {
    let data_type = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None));
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Goes over the list and the condition of a SELECT.
fn visit_expressions(select: &mut Select, queries: &mut Queries<'_>) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = walk_mut(expr, queries);
        }
    }
    if let Some(condition) = &mut select.selection {
        let _ = walk_mut(condition, queries);
    }
}
