//! Calls and operators that stand for others ([`crate::functions::defined`]), as what they stand for.
//!
//! ```text
//! count_if(x)                    ->  count(CASE WHEN x THEN 1 END) AS "count_if(x)", in a list of columns
//! a ^ b, a ** b                  ->  power(CAST(a AS DOUBLE), b)
//! a // b                         ->  a / b
//! ts::TIMESTAMP(3)               ->  date_trunc('millisecond', ts::TIMESTAMP)
//! date_trunc('century', ts)      ->  __trunc_long('century', ts)
//! any_value(x ORDER BY y)        ->  first_value(x ORDER BY y) IGNORE NULLS
//! to_date('08.08.2024', format)  ->  __to_date_by('08.08.2024', format)
//! generate_series(1, 3)          ->  unnest(generate_series(1, 3)), as an item of a list of columns
//! -INTERVAL '1 day 2 hours'      ->  -(INTERVAL '1 day 2 hours')
//! ~a                             ->  -1 - a
//! j -> path, j ->> path          ->  json_extract(j, path), json_extract_string(j, path)
//! list_filter(l, x -> x > 1)     ->  the same with a lambda
//! quantile(x, [0.1, 0.9])        ->  make_array(quantile(x, 0.1), quantile(x, 0.9)), or NULL of no values
//! struct_pack(a := 1)            ->  named_struct('a', 1)
//! {'a': 1}.a                     ->  get_field({'a': 1}, 'a')
//! a[2:], a[:2]                   ->  a[2:-1], a[1:2]
//! ```
//!
//! Items of a list of columns are called as they were written, unless they have a name or are a column.

use super::calls::{CallableKind, Callables};
use super::columns::{name_of, name_of_query_in};
use super::cursor::{Result, parser_error};
use super::items::is_columns;
use super::marker::{call, place, simple_name};
use super::repeated::free_name;
use super::walks::{each_expr, has_expr, walk_mut};
use super::{Position, SqlError};
use crate::functions::{AT_TIME_ZONE, Is, TO_DATE_BY, TO_TIMESTAMP_BY, TRUNC_LONG, defined, is_long};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, Interval, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, NullTreatment, OneOrManyWithParens, Select, SelectItem, Subscript,
    TimezoneInfo, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Functions whose arguments may be lambdas.
const OF_LAMBDAS: [&str; 10] = [
    "columns",
    "array_transform",
    "list_transform",
    "array_filter",
    "list_filter",
    "array_any_match",
    "list_any_match",
    "any_match",
    "array_first",
    "list_first",
];

/// Aggregates of one part of the values, whose part may be a list.
const OF_PARTS: [&str; 7] = [
    "quantile",
    "quantile_cont",
    "quantile_disc",
    "percentile_cont",
    "percentile_disc",
    "approx_quantile",
    "approx_percentile_cont",
];

/// Puts what calls and operators stand for in their places.
///
/// # Errors
/// [`SqlError`] at a call with a wrong number of arguments, or with a clause that what it stands for has not.
pub(super) fn expand(node: &mut impl VisitMut, callables: &Callables<'_>) -> Result<()> {
    place_lambdas(node);
    match walk_mut(node, &mut Expand { callables, within: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Expand<'a> {
    callables: &'a Callables<'a>,
    /// Queries of EXISTS and IN that the visitor is in: nobody sees what their columns are called.
    within: i32,
}

impl VisitorMut for Expand<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let mut given: Vec<String> = Vec::new();
        for item in &mut select.projection {
            rows_of_series(item);
            if let SelectItem::UnnamedExpr(expr) = item
                && (self.within == 0 && is_named_by_text(expr)
                    || has_expr(expr, &|expr| self.stands_for_other(expr)))
                && !has_expr(expr, &is_columns)
            {
                let name = free_name(&as_written(expr), |name| given.iter().any(|other| other == name));
                given.push(name.clone());
                let alias = Ident::with_quote('"', name);
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias };
            } else if let SelectItem::UnnamedExpr(expr) = item {
                given.push(name_of(expr));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.within += i32::from(is_unseen(expr));
        sign_the_base(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.within -= i32::from(is_unseen(expr));
        match self.mend(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn is_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_)) || is_unseen(expr)
}

/// Whether an expression asks a query whose columns nobody sees.
fn is_unseen(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery { .. } | Expr::Exists { .. })
}

/// An expression as people write it: the parser prints some functions in capitals, and has read AT TIME ZONE as a call.
fn as_written(expr: &Expr) -> String {
    let mut expr = expr.clone();
    each_expr(&mut expr, &mut |expr| {
        if let Some(name) = name_of_query_in(expr) {
            *expr = Expr::Identifier(Ident::new(name));
        }
        if let Expr::Function(call) = expr
            && simple_name(&call.name) == Some(AT_TIME_ZONE)
            && let FunctionArguments::List(list) = &call.args
            && let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(zone)),
            ] = list.args.as_slice()
        {
            *expr = Expr::AtTimeZone { timestamp: Box::new(time.clone()), time_zone: Box::new(zone.clone()) };
        }
    });
    let mut text = expr.to_string();
    for (function, is_there) in [
        ("SUBSTR(", has_expr(&expr, &|of| matches!(of, Expr::Substring { .. }))),
        ("SUBSTRING(", has_expr(&expr, &|of| matches!(of, Expr::Substring { .. }))),
        ("TRIM(", has_expr(&expr, &|of| matches!(of, Expr::Trim { .. }))),
        ("CEIL(", has_expr(&expr, &|of| matches!(of, Expr::Ceil { .. }))),
        ("FLOOR(", has_expr(&expr, &|of| matches!(of, Expr::Floor { .. }))),
        ("POSITION(", has_expr(&expr, &|of| matches!(of, Expr::Position { .. }))),
    ] {
        if is_there {
            text = text.replace(function, &function.to_lowercase());
        }
    }
    text
}

/// Whether an item without a name is called as it is written: a column has its own name, a query that of its column.
fn is_named_by_text(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => false,
        Expr::Nested(inner) => is_named_by_text(inner),
        other => !is_query(other),
    }
}

impl Expand<'_> {
    /// Whether an expression is one that is put in other words, and would have another name then.
    fn stands_for_other(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryOp { op, .. } => matches!(
                op,
                BinaryOperator::BitwiseXor
                    | BinaryOperator::DuckIntegerDivide
                    | BinaryOperator::Arrow
                    | BinaryOperator::LongArrow
            ),
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. } => true,
            Expr::Cast { data_type, .. } => unit_of_precision(data_type).is_some(),
            Expr::CompoundFieldAccess { root, .. } => is_made(root),
            Expr::Function(function) => {
                self.definition(function).is_some()
                    || is_struct_pack(function)
                    || of_several_parts(function).is_some()
                    || long_unit(function).is_some()
                    || by_format(function).is_some()
                    || is_ordered_any(function)
            }
            _ => false,
        }
    }

    /// What a call stands for, where its name is none of the session's own functions, or its arguments are not theirs.
    fn definition(&self, function: &Function) -> Option<&'static [crate::functions::Defined]> {
        let name = simple_name(&function.name)?.to_lowercase();
        let found = defined(&name);
        if found.iter().all(|of| !of.beside) {
            return (!found.is_empty() && (self.callables)(&name).is_none()).then_some(found);
        }
        let count = count_of(function);
        let stands = found.iter().position(|of| of.beside && of.is.takes(count))?;
        Some(&found[stands..=stands])
    }

    fn mend(&self, expr: &mut Expr) -> Result<()> {
        let taken = |expr: &mut Box<Expr>| std::mem::replace(expr.as_mut(), Expr::value(Value::Null));
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
                *expr = power(taken(left), taken(right));
            }
            Expr::BinaryOp { op: op @ BinaryOperator::DuckIntegerDivide, .. } => *op = BinaryOperator::Divide,
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let minus_one = Expr::value(Value::Number("-1".to_string(), false));
                let left = Box::new(Expr::Nested(Box::new(minus_one)));
                let right = Box::new(Expr::Nested(Box::new(taken(inner))));
                *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Minus, right }));
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::Arrow | BinaryOperator::LongArrow), right } => {
                let name = match op {
                    BinaryOperator::Arrow => "json_extract",
                    _ => "json_extract_string",
                };
                *expr = call(name, vec![taken(left), taken(right)]);
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                for access in access_chain.iter_mut() {
                    if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access {
                        let number = |number: &str| Expr::value(Value::Number(number.to_string(), false));
                        lower_bound.get_or_insert_with(|| number("1"));
                        upper_bound.get_or_insert_with(|| number("-1"));
                    }
                }
                while let (true, Some(AccessExpr::Dot(Expr::Identifier(field)))) =
                    (is_made(root), access_chain.first())
                {
                    let field = Expr::value(Value::SingleQuotedString(field.value.clone()));
                    **root = call("get_field", vec![taken(root), field]);
                    access_chain.remove(0);
                }
                if access_chain.is_empty() {
                    *expr = taken(root);
                }
            }
            Expr::Like { pattern, escape_char: escape @ Some(_), .. }
            | Expr::ILike { pattern, escape_char: escape @ Some(_), .. } => {
                escaped_by_backslashes(pattern, escape.take())?;
            }
            // Arrow goes towards 1970 from one unit to another.
            Expr::Cast { data_type, .. } if unit_of_precision(data_type).is_some() => {
                let Some(unit) = unit_of_precision(data_type) else { return Ok(()) };
                *data_type = DataType::Timestamp(None, TimezoneInfo::None);
                let cast = std::mem::replace(expr, Expr::value(Value::Null));
                *expr =
                    call("date_trunc", vec![Expr::value(Value::SingleQuotedString(unit.to_string())), cast]);
            }
            // The planner would put the sign before the first of several parts alone.
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner }
                if matches!(**inner, Expr::Interval(_)) =>
            {
                **inner = Expr::Nested(Box::new(taken(inner)));
            }
            // The frame of a window knows texts alone.
            Expr::Interval(Interval {
                value,
                leading_field: unit @ Some(_),
                leading_precision: None,
                ..
            }) => {
                if let (Expr::Value(ValueWithSpan { value: Value::Number(number, _), span }), Some(of)) =
                    (value.as_ref(), unit.as_ref())
                {
                    let value_in_words = Value::SingleQuotedString(format!("{number} {of}"));
                    **value = Expr::Value(ValueWithSpan { value: value_in_words, span: *span });
                    *unit = None;
                }
            }
            Expr::Function(function) => {
                if let Some(made) = self.call(function)? {
                    *expr = made;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A call in other words.
    fn call(&self, function: &mut Function) -> Result<Option<Expr>> {
        if is_struct_pack(function) {
            return Ok(struct_pack(function));
        }
        if let Some(list) = of_several_parts(function) {
            return Ok(Some(list));
        }
        if let Some(unit) = unit_of_trunc(function)
            && let Some(one) = one_unit(unit)
        {
            *unit = one.to_string();
        }
        if long_unit(function).is_some() {
            function.name = vec![Ident { value: TRUNC_LONG.to_string(), ..ident(function) }].into();
            return Ok(None);
        }
        if is_ordered_any(function) {
            function.name = vec![Ident { value: "first_value".to_string(), ..ident(function) }].into();
            function.null_treatment = Some(NullTreatment::IgnoreNulls);
            return Ok(None);
        }
        if let Some(name) = by_format(function) {
            function.name = vec![Ident { value: name.to_string(), ..ident(function) }].into();
            return Ok(None);
        }
        let Some(found) = self.definition(function) else { return Ok(None) };
        let count = count_of(function);
        let (mut counts, mut other) = (Vec::new(), None);
        for definition in found {
            match definition.is {
                Is::Of(arguments, expression) if arguments == count => {
                    return self.body(function, expression).map(Some);
                }
                Is::Filled(arguments, name, last) if arguments == count => {
                    if let FunctionArguments::List(list) = &mut function.args {
                        let last = Expr::value(Value::SingleQuotedString(last.to_string()));
                        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(last)));
                    }
                    function.name = vec![Ident { value: name.to_string(), ..ident(function) }].into();
                    return Ok(None);
                }
                Is::Of(arguments, _) | Is::Filled(arguments, ..) => counts.push(arguments),
                Is::Named(name) => other = Some(name),
            }
        }
        if let Some(name) = other {
            function.name = vec![Ident { value: name.to_string(), ..ident(function) }].into();
            return self.call(function);
        }
        let wanted = counts.first().copied().unwrap_or_default();
        let s = if wanted == 1 { "" } else { "s" };
        let message = format!("{} takes {wanted} argument{s}, not {count}", found[0].name);
        Err(SqlError::new(message, place(&function.name)))
    }

    /// An expression of the arguments of a call.
    fn body(&self, function: &mut Function, expression: &'static str) -> Result<Expr> {
        let name = simple_name(&function.name).unwrap_or_default().to_lowercase();
        let at = place(&function.name);
        let refuse = |clause: &str| Err(SqlError::new(format!("{name} takes no {clause}"), at));
        let mut args = Vec::new();
        if let FunctionArguments::List(list) = &mut function.args {
            if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
                return refuse("DISTINCT");
            }
            if !list.clauses.is_empty() {
                return refuse("ORDER BY or IGNORE NULLS");
            }
            for arg in list.args.drain(..) {
                match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => args.push(arg),
                    other => {
                        return Err(SqlError::new(
                            format!("{name} does not take '{other}' as an argument"),
                            at,
                        ));
                    }
                }
            }
        }
        if !function.within_group.is_empty() {
            return refuse("WITHIN GROUP");
        }
        let mut made = parsed(expression)?;
        let (filter, over) = (function.filter.take(), function.over.take());
        let mut aggregates = 0;
        each_expr(&mut made, &mut |expr| match expr {
            Expr::Function(inner) => {
                let of = simple_name(&inner.name).and_then(|name| (self.callables)(name));
                if of.is_some_and(|of| of.kind != CallableKind::Scalar) {
                    aggregates += 1;
                    inner.over = over.clone();
                    inner.filter = match (inner.filter.take(), filter.clone()) {
                        (Some(own), Some(of_call)) => Some(Box::new(Expr::BinaryOp {
                            left: Box::new(Expr::Nested(own)),
                            op: BinaryOperator::And,
                            right: Box::new(Expr::Nested(of_call)),
                        })),
                        (own, of_call) => own.or(of_call),
                    };
                }
            }
            Expr::Identifier(parameter) => {
                let number =
                    parameter.value.strip_prefix("__").and_then(|number| number.parse::<usize>().ok());
                if let Some(arg) = number.and_then(|number| args.get(number - 1)) {
                    *expr = match arg {
                        // What takes a text that is written takes none in brackets.
                        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => arg.clone(),
                        other => Expr::Nested(Box::new(other.clone())),
                    };
                }
            }
            _ => {}
        });
        match aggregates {
            0 if filter.is_some() => refuse("FILTER: it is a function of one row"),
            0 if over.is_some() => refuse("OVER: it is a function of one row"),
            _ => Ok(Expr::Nested(Box::new(made))),
        }
    }
}

/// Gives an item a row for each element of a series in it, as in PostgreSQL.
fn rows_of_series(item: &mut SelectItem) {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let name = if is_series(expr) { SERIES.to_string() } else { expr.to_string() };
            if unnested(expr) {
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
        }
        SelectItem::ExprWithAlias { expr, .. } => {
            unnested(expr);
        }
        _ => {}
    }
}

const SERIES: &str = "generate_series";

fn is_series(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if simple_name(&function.name).is_some_and(|name| name.eq_ignore_ascii_case(SERIES)))
}

/// Puts the elements of a series in its place, where it is calculated with at most; says whether there was one.
fn unnested(expr: &mut Expr) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    if is_series(expr) {
        let series = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = call("unnest", vec![series]);
        return true;
    }
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => unnested(inner),
        Expr::Cast { expr: inner, data_type, .. } if !matches!(data_type, DataType::Array(_)) => {
            unnested(inner)
        }
        Expr::BinaryOp { left, op: Plus | Minus | Multiply | Divide | Modulo, right } => {
            unnested(left) | unnested(right)
        }
        _ => false,
    }
}

/// Whether an expression makes a struct, and is no column.
fn is_made(expr: &Expr) -> bool {
    matches!(expr, Expr::Dictionary(_) | Expr::Function(_))
}

/// A pattern of LIKE whose escape character is the backslash, the only one that planning knows.
fn escaped_by_backslashes(pattern: &mut Expr, escape: Option<ValueWithSpan>) -> Result<()> {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(escape), span }) = escape else {
        return Ok(());
    };
    let at = Position { line: span.start.line, column: span.start.column };
    let mut letters = escape.chars();
    let (escape, None) = (letters.next(), letters.next()) else {
        return Err(SqlError::new("ESCAPE takes one character", at));
    };
    let written = match pattern {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        _ if escape == Some('\\') => return Ok(()),
        _ => {
            return Err(SqlError::new("a pattern with ESCAPE is written in the statement", at)
                .hint("a pattern of each row escapes by backslashes, without ESCAPE"));
        }
    };
    let (mut made, mut letters) = (String::with_capacity(written.len()), written.chars());
    while let Some(letter) = letters.next() {
        match letter {
            letter if Some(letter) == escape => match letters.next() {
                Some(meant) => made.extend(['\\', meant]),
                None => return Err(SqlError::new("a pattern of LIKE ends with its escape character", at)),
            },
            '\\' => made.push_str("\\\\"),
            letter => made.push(letter),
        }
    }
    *written = made;
    Ok(())
}

/// The unit that a TIMESTAMP of so many digits of a second is whole in.
fn unit_of_precision(data_type: &DataType) -> Option<&'static str> {
    let DataType::Timestamp(Some(digits), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) = data_type
    else {
        return None;
    };
    match digits {
        0 => Some("second"),
        3 => Some("millisecond"),
        6 => Some("microsecond"),
        _ => None,
    }
}

/// How many arguments a call has.
fn count_of(function: &Function) -> usize {
    match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    }
}

fn ident(function: &Function) -> Ident {
    let first = function.name.0.last().and_then(|part| part.as_ident());
    first.cloned().unwrap_or_else(|| Ident::new(""))
}

/// The tree of an expression; each is read once.
fn parsed(expression: &'static str) -> Result<Expr> {
    static READ: Mutex<Option<HashMap<&'static str, Expr>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let read = read.get_or_insert_default();
    if let Some(expr) = read.get(expression) {
        return Ok(expr.clone());
    }
    let made = Parser::new(&GenericDialect {}).try_with_sql(expression);
    let made =
        made.and_then(|mut parser| parser.parse_expr()).map_err(|e| parser_error(e, Position::default()))?;
    read.insert(expression, made.clone());
    Ok(made)
}

fn power(base: Expr, exponent: Expr) -> Expr {
    let base = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(base),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    };
    call("power", vec![base, exponent])
}

/// `-a ^ b` as `(-a) ^ b`: a sign before a power is its base's, as in PostgreSQL and DuckDB.
fn sign_the_base(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: power } = expr else { return };
    let is_power = |expr: &Expr| matches!(expr, Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. });
    if !is_power(power) {
        return;
    }
    let mut power = std::mem::replace(power.as_mut(), Expr::value(Value::Null));
    let mut base = &mut power;
    while is_power(base) {
        let Expr::BinaryOp { left, .. } = base else { return };
        base = left;
    }
    let inner = std::mem::replace(base, Expr::value(Value::Null));
    *base = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(inner) };
    *expr = power;
}

/// The unit of a `date_trunc`.
fn unit_of_trunc(function: &mut Function) -> Option<&mut String> {
    let is_trunc = ["date_trunc", "datetrunc"]
        .iter()
        .any(|name| simple_name(&function.name).is_some_and(|called| called.eq_ignore_ascii_case(name)));
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) if is_trunc => match &mut value.value
        {
            Value::SingleQuotedString(unit) => Some(unit),
            _ => None,
        },
        _ => None,
    }
}

/// The unit of a `date_trunc` that is longer than a year, which DataFusion does not know.
fn long_unit(function: &Function) -> Option<String> {
    unit_of_trunc(&mut function.clone()).filter(|unit| is_long(unit)).cloned()
}

/// Whether a call is one of `any_value` that says which: the first in an order.
fn is_ordered_any(function: &Function) -> bool {
    let ordered = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    simple_name(&function.name)
        .is_some_and(|name| ["any_value", "arbitrary"].iter().any(|any| any.eq_ignore_ascii_case(name)))
        && function.null_treatment.is_none()
        && matches!(&function.args, FunctionArguments::List(list) if list.clauses.iter().any(ordered))
}

/// What `to_date` and `to_timestamp` with a format stand for.
fn by_format(function: &Function) -> Option<&'static str> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match simple_name(&function.name)?.to_lowercase().as_str() {
        _ if list.args.len() < 2 => None,
        "to_date" => Some(TO_DATE_BY),
        "to_timestamp" => Some(TO_TIMESTAMP_BY),
        _ => None,
    }
}

/// The one name that DataFusion has for a unit.
fn one_unit(unit: &str) -> Option<&'static str> {
    let unit = unit.to_lowercase();
    let singular = unit.strip_suffix('s').unwrap_or(&unit);
    let known =
        ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    known.into_iter().find(|known| *known == singular)
}

/// A quantile of several parts as the list of those of each: `quantile_cont(x, [0.25, 0.75])`, also of PostgreSQL's
/// `percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY x)`.
fn of_several_parts(function: &Function) -> Option<Expr> {
    let name = simple_name(&function.name)?;
    if !OF_PARTS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let parts = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(parts))) if !parts.elem.is_empty() => {
            Some(parts.elem.clone())
        }
        _ => None,
    };
    let (at, parts) = list.args.iter().enumerate().find_map(|(at, argument)| Some((at, parts(argument)?)))?;
    let one = |part: Expr| {
        let mut one = function.clone();
        if let FunctionArguments::List(list) = &mut one.args
            && let Some(argument) = list.args.get_mut(at)
        {
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(part));
        }
        Expr::Function(one)
    };
    let each: Vec<Expr> = parts.into_iter().map(one).collect();
    // Of no values it is NULL, as the quantile of one part is.
    let condition = Expr::IsNotNull(Box::new(each.first()?.clone()));
    let list = CaseWhen { condition, result: call("make_array", each) };
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![list],
        else_result: None,
    };
    Some(Expr::Nested(Box::new(case)))
}

fn is_struct_pack(function: &Function) -> bool {
    simple_name(&function.name).is_some_and(|name| name.eq_ignore_ascii_case("struct_pack"))
}

/// `struct_pack(a := 1, b := 2)`.
fn struct_pack(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut args = Vec::new();
    for arg in &list.args {
        let (name, value) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value.clone(), value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (name.value.clone(), value),
            _ => return None,
        };
        args.extend([Expr::value(Value::SingleQuotedString(name)), value.clone()]);
    }
    Some(call("named_struct", args))
}

/// Makes lambdas of the arguments that are written so. The arrow is read as the operator of JSON first, which binds
/// its right side more tightly: `x -> x > 1` comes as `(x -> x) > 1`, and is all that follows the arrow.
fn place_lambdas(node: &mut impl VisitMut) {
    each_expr(node, &mut |expr| {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return };
        let is_one = |name: &str| OF_LAMBDAS.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !simple_name(name).is_some_and(is_one) {
            return;
        }
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(body)) = arg
                && let Some(params) = take_parameters(body)
            {
                let body = Box::new(std::mem::replace(body, Expr::value(Value::Null)));
                let lambda = LambdaFunction { params, body, syntax: LambdaSyntax::Arrow };
                *arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda)));
            }
        }
    });
}

/// Takes what stands before an arrow at the very beginning of an expression out of it, where it is a name or several
/// in brackets.
fn take_parameters(expr: &mut Expr) -> Option<OneOrManyWithParens<LambdaFunctionParameter>> {
    let parameter = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(LambdaFunctionParameter { name: name.clone(), data_type: None }),
        _ => None,
    };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
            let params = match left.as_ref() {
                Expr::Tuple(names) => {
                    OneOrManyWithParens::Many(names.iter().map(parameter).collect::<Option<_>>()?)
                }
                Expr::Nested(name) => OneOrManyWithParens::One(parameter(name)?),
                name => OneOrManyWithParens::One(parameter(name)?),
            };
            let body = std::mem::replace(right.as_mut(), Expr::value(Value::Null));
            *expr = body;
            Some(params)
        }
        Expr::BinaryOp { left: first, .. }
        | Expr::Like { expr: first, .. }
        | Expr::ILike { expr: first, .. }
        | Expr::Between { expr: first, .. }
        | Expr::InList { expr: first, .. }
        | Expr::IsNull(first)
        | Expr::IsNotNull(first)
        | Expr::Cast { kind: CastKind::DoubleColon, expr: first, .. } => take_parameters(first),
        _ => None,
    }
}
