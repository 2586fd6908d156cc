//! Joins by USING and NATURAL, as joins ON: the key that they merge is written out wherever it is meant.
//!
//! DataFusion 55.2 takes the left side's key for the one of both, which in a RIGHT or FULL JOIN is NULL where only the
//! right side has a row; and it calls the key ambiguous in WHERE and in the next join by it. Where the columns of all
//! tables of a FROM are known, `a FULL JOIN b USING (k)` becomes `a FULL JOIN b ON a.k = b.k`, `k` alone becomes
//! `coalesce(a.k, b.k)` (of a RIGHT JOIN `b.k`, of others `a.k`), and `*` all columns with k once. Where they are not, a
//! join stays as it is, and a RIGHT or FULL one is refused.

use super::SqlError;
use super::columns::Columns;
use super::cursor::Result;
use super::marker::place as place_of;
use super::restructure::all_of_a_table;
use sqlparser::ast::{
    BinaryOperator, ExceptSelectItem, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select,
    SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};
use std::collections::{HashMap, HashSet};

/// What the names of merged keys mean.
pub(super) type Keys = HashMap<String, Expr>;

/// A column that `*` gives.
#[derive(Debug, Clone)]
struct Shown {
    name: String,
    expr: Expr,
}

/// What a FROM gives, and the conditions of its joins by USING and NATURAL, in the order of a walk.
#[derive(Default)]
struct Joined {
    conditions: Vec<Expr>,
    keys: HashSet<String>,
}

/// Writes the joins by USING and NATURAL of a SELECT as joins ON, and says what their keys mean where they stand alone.
///
/// # Errors
/// [`SqlError`] where a key is on one side alone, is there twice, or cannot be known.
pub(super) fn write_joins(columns: &Columns<'_>, select: &mut Select) -> Result<Keys> {
    if !joins_of(&select.from).iter().any(|join| is_merging(&join.join_operator)) {
        return Ok(Keys::new());
    }
    let mut unnamed = 0;
    select.from.iter_mut().for_each(|from| name_queries(from, &mut unnamed));
    let mut joined = Joined::default();
    let sides = select.from.iter().map(|from| joined.joins(columns, from));
    let sides: Result<Option<Vec<Vec<Shown>>>> = sides.collect();
    let Some(shown) = sides?.map(|sides| sides.concat()) else {
        let outer = joins_of(&select.from).into_iter().find(|join| is_outer(&join.join_operator));
        return outer.map_or(Ok(Keys::new()), |join| Err(unknown(join)));
    };
    let mut conditions = joined.conditions.into_iter();
    select.from.iter_mut().for_each(|from| set_conditions(from, &mut conditions));
    let of_name = |name: &String| {
        let mut found = shown.iter().filter(|column| column.name == *name);
        found.next().filter(|_| found.next().is_none()).map(|column| (name.clone(), column.expr.clone()))
    };
    let keys: Keys = joined.keys.iter().filter_map(of_name).collect();
    write_out(select, &shown);
    name_keys(select, &keys);
    Ok(keys)
}

impl Joined {
    /// What a table with its joins gives; `None` where that is not known.
    fn joins(&mut self, columns: &Columns<'_>, from: &TableWithJoins) -> Result<Option<Vec<Shown>>> {
        let Some(mut left) = self.factor(columns, &from.relation)? else { return Ok(None) };
        for join in &from.joins {
            let Some(right) = self.factor(columns, &join.relation)? else { return Ok(None) };
            let keys = match constraint(&join.join_operator) {
                Some(JoinConstraint::Using(names)) => {
                    names.iter().map(|name| key(name, &left, &right)).collect::<Result<Vec<_>>>()?
                }
                Some(JoinConstraint::Natural) => common(&left, &right, join)?,
                _ => Vec::new(),
            };
            if constraint(&join.join_operator).is_some_and(merges) {
                self.conditions.push(condition(&keys));
                self.keys.extend(keys.iter().map(|(left, _)| left.name.clone()));
            }
            let Some(shown) = shown(left, right, &keys, &join.join_operator) else { return Ok(None) };
            left = shown;
        }
        Ok(Some(left))
    }

    fn factor(&mut self, columns: &Columns<'_>, factor: &TableFactor) -> Result<Option<Vec<Shown>>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.joins(columns, table_with_joins);
        }
        let Some(columns) = columns.of_factor(factor) else { return Ok(None) };
        let quoted = |name: &String| Ident::with_quote('"', name.as_str());
        let shown = columns.into_iter().map(|column| {
            let expr = match &column.table {
                Some(table) => Expr::CompoundIdentifier(vec![quoted(table), quoted(&column.name)]),
                None => Expr::Identifier(quoted(&column.name)),
            };
            column.is_certain.then_some(Shown { name: column.name, expr })
        });
        Ok(shown.collect())
    }
}

/// Makes a join in brackets with a name, `(a JOIN b USING (k)) j`, the query that it stands for: `(SELECT * FROM …) j`.
///
/// # Errors
/// None that a statement can cause.
pub(super) fn as_query(factor: &mut TableFactor) -> Result<()> {
    let mut subquery = all_of_a_table()?;
    let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = factor else { return Ok(()) };
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.from = vec![table_with_joins.as_ref().clone()];
    }
    *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
    Ok(())
}

/// Gives queries without a name one, as DuckDB does, so that their columns can be told from those of others.
fn name_queries(from: &mut TableWithJoins, unnamed: &mut usize) {
    let factors =
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation));
    for factor in factors {
        match factor {
            TableFactor::Derived { alias: alias @ None, .. } => {
                *unnamed += 1;
                let number = if *unnamed > 1 { unnamed.to_string() } else { String::new() };
                let name = Ident::with_quote('"', format!("unnamed_subquery{number}"));
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                name_queries(table_with_joins, unnamed)
            }
            _ => {}
        }
    }
}

/// All joins of a FROM, those in brackets too.
fn joins_of(from: &[TableWithJoins]) -> Vec<&Join> {
    fn add<'a>(from: &'a TableWithJoins, joins: &mut Vec<&'a Join>) {
        let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
        for factor in factors {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                add(table_with_joins, joins);
            }
        }
        joins.extend(&from.joins);
    }
    let mut joins = Vec::new();
    from.iter().for_each(|from| add(from, &mut joins));
    joins
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::CrossJoin(constraint) => Some(constraint),
        _ => None,
    }
}

fn merges(constraint: &JoinConstraint) -> bool {
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

fn is_merging(operator: &JoinOperator) -> bool {
    constraint(operator).is_some_and(merges)
}

/// Whether a join's merged key is not the left side's.
fn is_outer(operator: &JoinOperator) -> bool {
    let outer =
        matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_));
    outer && is_merging(operator)
}

fn unknown(join: &Join) -> SqlError {
    let message =
        "the columns of the tables of a RIGHT or FULL JOIN by USING or NATURAL are not all known here";
    SqlError::new(message, place_of(&join.relation))
        .hint("write ON l.k = r.k, and r.k or coalesce(l.k, r.k) for the key; or give all columns of sub-queries names")
}

/// The columns of both sides that a name of USING means.
fn key(name: &ObjectName, left: &[Shown], right: &[Shown]) -> Result<(Shown, Shown)> {
    let ident = name.0.last().and_then(|part| part.as_ident()).cloned().unwrap_or_else(|| Ident::new(""));
    let find = |side: &[Shown], which: &str| {
        let mut of_name: Vec<&Shown> = side.iter().filter(|column| column.name == ident.value).collect();
        if of_name.is_empty() && ident.quote_style.is_none() {
            of_name = side.iter().filter(|column| column.name.eq_ignore_ascii_case(&ident.value)).collect();
        }
        match of_name.as_slice() {
            [column] => Ok((*column).clone()),
            [] => Err(SqlError::new(
                format!("no column '{}' is on the {which} side of JOIN … USING", ident.value),
                place_of(name),
            )),
            several => {
                let several: Vec<String> = several.iter().map(|column| column.expr.to_string()).collect();
                let message = format!(
                    "column '{}' on the {which} side of JOIN … USING may be any of {}",
                    ident.value,
                    several.join(", ")
                );
                Err(SqlError::new(message.replace('"', ""), place_of(name))
                    .hint("write ON with the one that is meant"))
            }
        }
    };
    Ok((find(left, "left")?, find(right, "right")?))
}

/// The columns of a NATURAL JOIN.
fn common(left: &[Shown], right: &[Shown], join: &Join) -> Result<Vec<(Shown, Shown)>> {
    let names: Vec<&String> = left.iter().map(|column| &column.name).collect();
    let names = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name));
    let shared = names.map(|(_, name)| *name).filter(|name| right.iter().any(|of| of.name == **name));
    let key = |name: &String| {
        let name = ObjectName::from(vec![Ident::with_quote('"', name.as_str())]);
        key(&name, left, right)
            .map_err(|error| SqlError::new(error.message.clone(), place_of(&join.relation)))
    };
    shared.map(key).collect()
}

/// Whether the keys of both sides are equal.
fn condition(keys: &[(Shown, Shown)]) -> Expr {
    let binary = |left: Expr, op: BinaryOperator, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let equal =
        keys.iter().map(|(left, right)| binary(left.expr.clone(), BinaryOperator::Eq, right.expr.clone()));
    equal
        .reduce(|all, equal| binary(all, BinaryOperator::And, equal))
        .unwrap_or_else(|| Expr::value(Value::Boolean(true)))
}

/// What a join gives: the left side's columns with the merged keys, and the right side's others.
fn shown(
    left: Vec<Shown>,
    right: Vec<Shown>,
    keys: &[(Shown, Shown)],
    operator: &JoinOperator,
) -> Option<Vec<Shown>> {
    let merged = |left: &Shown, right: &Shown| match operator {
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right.expr.clone(),
        JoinOperator::FullOuter(_) => coalesce(left.expr.clone(), right.expr.clone()),
        _ => left.expr.clone(),
    };
    match operator {
        JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => return Some(left),
        JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => return Some(right),
        _ => constraint(operator)?,
    };
    let others = right.into_iter().filter(|column| keys.iter().all(|(_, key)| key.name != column.name));
    let left = left.into_iter().map(|column| match keys.iter().find(|(key, _)| key.name == column.name) {
        Some((of_left, of_right)) => Shown { expr: merged(of_left, of_right), name: column.name },
        None => column,
    });
    Some(left.chain(others.collect::<Vec<_>>()).collect())
}

fn coalesce(left: Expr, right: Expr) -> Expr {
    let args = [left, right].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let args = FunctionArgumentList { duplicate_treatment: None, args: args.to_vec(), clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Puts the conditions where USING and NATURAL stand.
fn set_conditions(from: &mut TableWithJoins, conditions: &mut impl Iterator<Item = Expr>) {
    fn nested(factor: &mut TableFactor, conditions: &mut dyn Iterator<Item = Expr>) {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            set(table_with_joins, conditions);
        }
    }
    fn set(from: &mut TableWithJoins, conditions: &mut dyn Iterator<Item = Expr>) {
        nested(&mut from.relation, conditions);
        for join in &mut from.joins {
            nested(&mut join.relation, conditions);
            if let Some(constraint) =
                constraint_mut(&mut join.join_operator).filter(|constraint| merges(constraint))
                && let Some(condition) = conditions.next()
            {
                *constraint = JoinConstraint::On(condition);
            }
        }
    }
    set(from, conditions);
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// A column as an item of a SELECT, under its own name.
fn item(column: &Shown) -> SelectItem {
    let expr = column.expr.clone();
    let is_named = match &expr {
        Expr::Identifier(ident) => ident.value == column.name,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|part| part.value == column.name),
        _ => false,
    };
    if is_named {
        return SelectItem::UnnamedExpr(expr);
    }
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', column.name.as_str()) }
}

/// Writes `*` out, without what it excludes and with what it replaces.
fn write_out(select: &mut Select, shown: &[Shown]) {
    let items = std::mem::take(&mut select.projection).into_iter();
    let each = items.flat_map(|of| match of {
        SelectItem::Wildcard(options) => {
            shown.iter().filter_map(|column| of_star(column, &options)).collect()
        }
        other => vec![other],
    });
    select.projection = each.collect();
}

fn of_star(column: &Shown, options: &WildcardAdditionalOptions) -> Option<SelectItem> {
    let WildcardAdditionalOptions { opt_exclude, opt_except, opt_replace, .. } = options;
    let is = |ident: &Ident| {
        ident.value == column.name
            || ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(&column.name)
    };
    let is_last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).is_some_and(is);
    let excluded = match opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => is_last(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().any(is_last),
        None => false,
    };
    let excepted =
        opt_except.as_ref().is_some_and(|ExceptSelectItem { first_element, additional_elements }| {
            is(first_element) || additional_elements.iter().any(is)
        });
    if excluded || excepted {
        return None;
    }
    let replaced = opt_replace.iter().flat_map(|replace| &replace.items).find(|item| is(&item.column_name));
    Some(match replaced {
        Some(replaced) => {
            let alias = Ident::with_quote('"', column.name.as_str());
            SelectItem::ExprWithAlias { expr: replaced.expr.clone(), alias }
        }
        None => item(column),
    })
}

/// Gives items that are a key alone its name.
fn name_keys(select: &mut Select, keys: &Keys) {
    for of in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = &*of
            && let Some(expr) = keys.get(&ident.value)
        {
            *of = item(&Shown { name: ident.value.clone(), expr: expr.clone() });
        }
    }
}

/// The keys as ORDER BY means them: a column of the SELECT with the name of a key comes before it.
pub(super) fn ordered_by(select: &Select, mut keys: Keys) -> Keys {
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                keys.remove(&alias.value);
            }
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => {
                keys.remove(&ident.value);
            }
            SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(parts)) => {
                // The column of the SELECT, which planning would call ambiguous.
                if let Some(key) = parts.last().and_then(|part| keys.get_mut(&part.value)) {
                    key.clone_from(expr);
                }
            }
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests;
