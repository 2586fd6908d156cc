//! Expressions of PostgreSQL as calls: casts to the types of names, `= ANY(array)`, `ARRAY(SELECT …)`.

use super::super::marker::call;
use super::selects;
use crate::texts::array_elements;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArguments,
    LambdaFunction, LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, UnaryOperator, Value,
    ValueWithSpan,
};
use sqlparser::ast::{
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, GroupByExpr, OrderByExpr,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::collections::BTreeSet;

pub(super) fn mend(expr: &mut Expr) {
    match expr {
        // By the SQL standard a FLOAT says how many bits its digits have: past 24 it has eight bytes.
        Expr::Cast { data_type: of @ DataType::Float(ExactNumberInfo::Precision(25..=53)), .. } => {
            *of = DataType::DoublePrecision;
        }
        Expr::Cast { expr: value, data_type, .. } => {
            if let Some(made) = cast(value, data_type) {
                *expr = made;
            }
        }
        Expr::AnyOp { left, compare_op, right, .. } if !is_query(right) => {
            let listed = (*compare_op == BinaryOperator::Eq).then(|| among(left, right, false)).flatten();
            if let Some(made) = listed.or_else(|| not_all(left, compare_op, right)) {
                *expr = made;
            }
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if !is_query(right) => {
            if let Some(made) = among(left, right, true) {
                *expr = made;
            }
        }
        Expr::Like { pattern, escape_char: escape @ Some(_), any: false, .. } if !is_value(pattern) => {
            if let Some(escape) = escape.take() {
                **pattern = call("like_escape", vec![pattern.as_ref().clone(), Expr::Value(escape)]);
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            if let (Expr::Nested(row), [AccessExpr::Dot(Expr::Identifier(field))]) =
                (root.as_ref(), access_chain.as_slice())
            {
                *expr = call("get_field", vec![row.as_ref().clone(), text(&field.value)]);
            }
        }
        Expr::Function(function) => {
            if let Some(made) = of_function(function) {
                *expr = made;
            }
        }
        _ => {}
    }
}

/// Whether a value is one of an array that is written out or a parameter, or `negated` none of them.
fn among(value: &Expr, array: &Expr, negated: bool) -> Option<Expr> {
    let value = value.clone();
    let list = match bare(array) {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) => {
            let element = |element: Option<String>| {
                let value = element.map_or(Value::Null, Value::SingleQuotedString);
                Expr::Value(ValueWithSpan { value, span })
            };
            array_elements(&text)?.into_iter().map(element).collect()
        }
        Expr::Array(array) => array.elem,
        array @ Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => {
            let found = call("array_has", vec![array, value]);
            return Some(match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
                false => found,
            });
        }
        _ => return None,
    };
    Some(Expr::InList { expr: Box::new(value), list, negated })
}

/// `x < ANY(array)` as `NOT x >= ALL(array)`: DataFusion 55.2 looks for NULLs in the array of ALL, and not in that of ANY.
fn not_all(value: &Expr, op: &BinaryOperator, array: &Expr) -> Option<Expr> {
    let compare_op = match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    };
    let all = Expr::AllOp { left: Box::new(value.clone()), compare_op, right: Box::new(array.clone()) };
    Some(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(all) })
}

/// The base of a type, where a sub-query walks to it.
pub(super) fn mend_walk(expr: &mut Expr, relations: &BTreeSet<String>) {
    if let Expr::Subquery(query) = expr
        && let Some(domain) = walk_of_domains(query, relations)
    {
        *expr = call("pg_get_base_type", vec![domain]);
    }
}

/// `typsend <> 0` as `typsend <> '-'`.
pub(super) fn compare_functions(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op: BinaryOperator::NotEq, right } = expr
        && is_function_column(left)
        && is_zero(right)
    {
        **right = text("-");
    }
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_string()))
}

pub(super) fn null() -> Expr {
    Expr::value(Value::Null)
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_))
}

/// Whether it is a column that names a function of a type: where there is none, PostgreSQL compares it with 0.
fn is_function_column(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    ["typinput", "typoutput", "typreceive", "typsend"].contains(&name.value.to_ascii_lowercase().as_str())
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if number == "0"))
}

/// A cast in other words, where planning does not know it.
fn cast(value: &Expr, data_type: &DataType) -> Option<Expr> {
    if let Some(name) = type_of_names(data_type) {
        return Some(match value {
            // A number is shown by its name only where it is cast to the type once.
            Expr::Cast { expr, data_type: inner, .. } if type_of_names(inner) == Some(name) => {
                call(name, vec![expr.as_ref().clone()])
            }
            _ => call(name, vec![value.clone()]),
        });
    }
    match (value, data_type) {
        (Expr::Cast { expr, data_type: inner, .. }, DataType::Text | DataType::Varchar(None)) => {
            type_of_names(inner).map(|name| call(&format!("{name}_name"), vec![expr.as_ref().clone()]))
        }
        (Expr::Cast { expr, data_type: inner, .. }, DataType::Custom(name, _))
            if type_of_names(inner) == Some("regproc") && is_named(name, "oid") =>
        {
            Some(call("regprocoid", vec![expr.as_ref().clone()]))
        }
        (value, DataType::Custom(name, _)) => {
            let (kind, expr) = (CastKind::DoubleColon, Box::new(value.clone()));
            Some(Expr::Cast { kind, expr, data_type: type_in_quotes(name)?, array: false, format: None })
        }
        _ => None,
    }
}

/// A type that is a word of SQL, where its name stands in quotes: `"int8"`.
fn type_in_quotes(name: &ObjectName) -> Option<DataType> {
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_some())?;
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&name.value).ok()?;
    let data_type = parser.parse_data_type().ok()?;
    (!matches!(data_type, DataType::Custom(..))).then_some(data_type)
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value.eq_ignore_ascii_case(wanted))
}

fn is_query(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_query(inner),
        other => matches!(other, Expr::Subquery(_)),
    }
}

/// An array without the brackets of ANY.
fn bare(expr: &Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other.clone(),
    }
}

/// The type that is named by a number of the catalog and shown by its name.
fn type_of_names(data_type: &DataType) -> Option<&'static str> {
    let name = match data_type {
        DataType::Regclass => return Some("regclass"),
        DataType::Custom(name, _) => name.0.last()?.as_ident()?.value.to_ascii_lowercase(),
        _ => return None,
    };
    ["regclass", "regtype", "regproc", "regprocedure", "regoperator", "regnamespace", "regrole"]
        .into_iter()
        .find(|known| *known == name)
}

/// The type whose base a query walks to along `typbasetype`, as asyncpg asks for it: `WITH RECURSIVE typebases …`.
fn walk_of_domains(query: &Query, relations: &BTreeSet<String>) -> Option<Expr> {
    let with = query.with.as_ref().filter(|with| with.recursive)?;
    let [walk] = with.cte_tables.as_slice() else { return None };
    if walk.alias.name.value != "typebases" {
        return None;
    }
    let SetExpr::SetOperation { left, .. } = walk.query.body.as_ref() else { return None };
    let SetExpr::Select(begin) = left.as_ref() else { return None };
    if !selects::reads(begin, &|name| name == "pg_type" && relations.contains(name)) {
        return None;
    }
    match begin.selection.as_ref()? {
        Expr::BinaryOp { left: _, op: BinaryOperator::Eq, right } => Some(right.as_ref().clone()),
        _ => None,
    }
}

/// A call in other words: of ARRAY over a query, and of functions that give several rows.
fn of_function(function: &mut Function) -> Option<Expr> {
    if let FunctionArguments::Subquery(query) = &function.args {
        return if is_named(&function.name, "array") { array_of(query) } else { None };
    }
    let several = [("_pg_expandarray", "array_places"), ("generate_subscripts", "array_subscripts")];
    if let Some((_, name)) = several.into_iter().find(|(name, _)| is_named(&function.name, name)) {
        let FunctionArguments::List(FunctionArgumentList { args, .. }) = &function.args else { return None };
        let mut inner = function.clone();
        inner.args = FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.clone(),
            clauses: Vec::new(),
        });
        inner.name = vec![sqlparser::ast::Ident::new(name)].into();
        return Some(call("unnest", vec![Expr::Function(inner)]));
    }
    stride_of_seconds(function);
    None
}

/// `time_bucket('300.000s', ts)`, as Grafana writes its intervals, in whole milliseconds.
fn stride_of_seconds(function: &mut Function) {
    let is_bucket = is_named(&function.name, "time_bucket");
    let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = args.first_mut() else {
        return;
    };
    let Value::SingleQuotedString(stride) = &mut value.value else { return };
    let millis =
        stride.strip_suffix('s').and_then(|seconds| seconds.split_once('.')).and_then(|(whole, part)| {
            let is_millis = is_bucket && part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            whole
                .parse::<u64>()
                .ok()?
                .checked_mul(1_000)?
                .checked_add(part.parse().ok().filter(|_| is_millis)?)
        });
    match millis {
        Some(millis) if millis % 1_000 == 0 => *stride = format!("{}s", millis / 1_000),
        Some(millis) => *stride = format!("{millis}T"),
        None => {}
    }
}

/// `ARRAY(SELECT x FROM t …)` as an aggregate; over the elements of an array, as a call on that.
fn array_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    if let Some(made) = array_of_elements(select) {
        return Some(made);
    }
    if query.with.is_some() || query.limit_clause.is_some() || !selects::is_plain(select) {
        return None;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let mut gathered = call("array_agg", vec![item.clone()]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut gathered
        && let Some(order) = ordered(query.order_by.as_ref(), item)
    {
        list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
    }
    let mut query = query.clone();
    query.order_by = None;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(gathered)];
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    }
    Some(call("coalesce", vec![Expr::Subquery(Box::new(query)), call("make_array", Vec::new())]))
}

/// ORDER BY, with the item for `1`.
fn ordered(order: Option<&OrderBy>, item: &Expr) -> Option<Vec<OrderByExpr>> {
    let OrderByKind::Expressions(keys) = &order?.kind else { return None };
    let mut keys = keys.clone();
    for key in &mut keys {
        if matches!(&key.expr, Expr::Value(value) if matches!(value.value, Value::Number(..))) {
            key.expr = item.clone();
        }
    }
    Some(keys)
}

/// `ARRAY(SELECT f(x) FROM unnest(a) x)` as what is made of each element of `a`.
fn array_of_elements(select: &Select) -> Option<Expr> {
    let [from] = select.from.as_slice() else { return None };
    let (TableFactor::UNNEST { alias: Some(alias), array_exprs, .. }, [], None) =
        (&from.relation, from.joins.as_slice(), &select.selection)
    else {
        return None;
    };
    let ([array], [SelectItem::UnnamedExpr(item)]) = (array_exprs.as_slice(), select.projection.as_slice())
    else {
        return None;
    };
    let name = element_name(alias);
    if matches!(item, Expr::Identifier(only) if only.value == name.value) {
        return Some(array.clone());
    }
    let parameter = LambdaFunctionParameter { name: name.clone(), data_type: None };
    let lambda = Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::One(parameter),
        body: Box::new(item.clone()),
        syntax: LambdaSyntax::Arrow,
    });
    Some(call("array_transform", vec![array.clone(), lambda]))
}

/// What an element is called: the column of the alias, or the alias itself.
pub(super) fn element_name(alias: &TableAlias) -> sqlparser::ast::Ident {
    alias.columns.first().map_or(&alias.name, |column| &column.name).clone()
}
