//! Numbers whose digits a double would lose: what is cast to a DECIMAL, and what has more digits than a double and is
//! compared, calculated with, or one of several values (`CASE`, coalesce, greatest).
//!
//! The planner reads a number with a point as a double. Cast to a DECIMAL it becomes text here, which is cast digit by
//! digit: `CAST('0.1' AS DECIMAL(30, 20))`. One of many digits becomes such a cast; beside what is no DECIMAL
//! `crate::rules::literals` makes it the nearest double after all.
//!
//! A cast in VALUES is written twice: the planner casts the values to the type of their column, and the rule that undoes
//! this (`crate::rules::values`) leaves the cast that the text has. So is one in the second part of a recursive query,
//! whose rows the planner casts to the types of the first (`crate::rules::recursion`).
//!
//! A number of rows in quotes, `LIMIT '10'`, is one without: clients of the simple protocol write all parameters so.

use super::marker::simple_name;
use crate::texts::without_exponent;
use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, LimitClause, Query, SelectItem, SetExpr, UnaryOperator, Value,
    ValueWithSpan, VisitorMut,
};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Every number of so many digits is told from its neighbours by a double.
const DOUBLE_DIGITS: usize = 15;
/// Digits after the point of a DECIMAL of no size.
const PLACES: i64 = 10;
/// Functions that give one of their arguments.
const ONE_OF: [&str; 5] = ["coalesce", "nvl", "ifnull", "greatest", "least"];
/// Most digits of a DECIMAL.
pub(super) const DECIMAL_DIGITS: usize = 38;

/// See the file's header.
pub(super) struct KeepDigits;

impl VisitorMut for KeepDigits {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        cast_twice(query.body.as_mut());
        for cte in query.with.iter_mut().filter(|with| with.recursive).flat_map(|with| &mut with.cte_tables) {
            if let SetExpr::SetOperation { right, .. } = cte.query.body.as_mut() {
                list_twice(right);
            }
        }
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)).for_each(unquoted);
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                [offset, limit].into_iter().for_each(unquoted)
            }
            None => {}
        }
        query.fetch.iter_mut().filter_map(|fetch| fetch.quantity.as_mut()).for_each(unquoted);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        use BinaryOperator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
        match expr {
            Expr::Cast { expr: of, data_type, .. } if is_decimal(data_type) => {
                if let Some(digits) = number(of) {
                    **of = Expr::value(Value::SingleQuotedString(digits));
                }
                // The cast knows no exponents.
                if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = of.as_mut()
                    && let Some(Cow::Owned(plain)) = without_exponent(text.trim())
                {
                    *text = plain;
                }
                if let Some(size) = unsized_of(data_type) {
                    *size = size_for(of);
                }
            }
            Expr::TypedString(typed) => {
                if let (Some(size), Value::SingleQuotedString(text)) =
                    (unsized_of(&mut typed.data_type), &typed.value.value)
                {
                    *size = size_of(text);
                }
            }
            Expr::BinaryOp { left, op: Eq | Gt | GtEq | Lt | LtEq | NotEq, right } => {
                [left, right].into_iter().for_each(|side| keep(side));
            }
            Expr::BinaryOp { left, op: Plus | Minus | Multiply | Divide | Modulo, right } => {
                keep_beside_others(&mut [left, right]);
            }
            Expr::Case { conditions, else_result, .. } => {
                let results = conditions.iter_mut().map(|when| &mut when.result);
                let mut results: Vec<&mut Expr> = results.collect();
                results.extend(else_result.as_deref_mut());
                keep_beside_others(&mut results);
            }
            Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
                if simple_name(name)
                    .is_some_and(|name| ONE_OF.iter().any(|of| name.eq_ignore_ascii_case(of))) =>
            {
                let arguments = list.args.iter_mut().filter_map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                    _ => None,
                });
                keep_beside_others(&mut arguments.collect::<Vec<_>>());
            }
            Expr::Between { low, high, .. } => [low, high].into_iter().for_each(|side| keep(side)),
            Expr::InList { list, .. } => list.iter_mut().for_each(keep),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                [left, right].into_iter().for_each(|side| keep(side));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Writes casts that are values of VALUES twice.
fn cast_twice(body: &mut SetExpr) {
    let mut bodies = vec![body];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
            SetExpr::Values(values) => {
                values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(twice);
            }
            _ => {}
        }
    }
}

/// Writes casts that are items of a list twice.
fn list_twice(body: &mut SetExpr) {
    match body {
        SetExpr::Query(query) => list_twice(&mut query.body),
        SetExpr::Select(select) => select.projection.iter_mut().for_each(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => twice(expr),
            _ => {}
        }),
        _ => {}
    }
}

fn twice(value: &mut Expr) {
    if let Expr::Nested(inner) = value {
        return twice(inner);
    }
    let Expr::Cast { kind, expr: of, data_type, array, format } = &*value else { return };
    let is_twice = matches!(of.as_ref(), Expr::Cast { data_type: inner, .. } if inner == data_type);
    if !is_twice && matches!(kind, CastKind::Cast | CastKind::DoubleColon) {
        *value = Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(value.clone()),
            data_type: data_type.clone(),
            array: *array,
            format: format.clone(),
        };
    }
}

/// A whole number without its quotes.
fn unquoted(rows: &mut Expr) {
    if let Expr::Value(ValueWithSpan { value, .. }) = rows
        && let Value::SingleQuotedString(text) = value
        && text.trim().parse::<u64>().is_ok()
    {
        *value = Value::Number(text.trim().to_string(), false);
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
}

/// The digits of a number as it was written, with its sign.
pub(crate) fn number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some(digits.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{}", number(expr)?)),
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}

/// Gives a DECIMAL without a size the one that these values need, all of which are cast to it; one of a list's values
/// where it is a list.
pub(crate) fn size_to(data_type: &mut DataType, digits: &[&str]) {
    let data_type = match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _) | ArrayElemTypeDef::AngleBracket(of)) => {
            of.as_mut()
        }
        other => other,
    };
    if let Some(size) = unsized_of(data_type) {
        let plain: Vec<_> = digits.iter().filter_map(|digits| without_exponent(digits.trim())).collect();
        let parts = || plain.iter().map(|digits| digits.split_once('.').unwrap_or((digits, "")));
        let whole = parts().map(|(whole, _)| whole.trim_start_matches(['-', '+']).len()).max();
        let fraction = parts().map(|(_, fraction)| fraction.len()).max();
        let (whole, fraction) = ("9".repeat(whole.unwrap_or(0)), "9".repeat(fraction.unwrap_or(0)));
        *size = size_of(&format!("{whole}.{fraction}"));
    }
}

/// The size of a DECIMAL, where it has none yet.
fn unsized_of(data_type: &mut DataType) -> Option<&mut ExactNumberInfo> {
    if let DataType::Dec(size) = data_type {
        // The planner knows none of a size.
        *data_type = DataType::Decimal(*size);
    }
    match data_type {
        DataType::Decimal(size) | DataType::Numeric(size) => {
            Some(size).filter(|size| **size == ExactNumberInfo::None)
        }
        _ => None,
    }
}

/// The size that a DECIMAL of none needs for what is cast: a text, or a DECIMAL of a size.
fn size_for(of: &Expr) -> ExactNumberInfo {
    match of {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => size_of(text),
        Expr::Nested(inner) => size_for(inner),
        Expr::Cast {
            data_type: DataType::Decimal(size) | DataType::Numeric(size) | DataType::Dec(size),
            ..
        } => match size {
            ExactNumberInfo::PrecisionAndScale(_, places) if *places > PLACES => *size,
            _ => ExactNumberInfo::None,
        },
        _ => ExactNumberInfo::None,
    }
}

/// The size that a DECIMAL of none needs for these digits, where DataFusion's own, 10 after the point, would round them.
fn size_of(digits: &str) -> ExactNumberInfo {
    let plain = without_exponent(digits.trim());
    let (whole, fraction) = plain.as_deref().and_then(|digits| digits.split_once('.')).unwrap_or(("", ""));
    let whole = whole.trim_start_matches(['-', '+', '0']).len();
    match fraction.len() {
        places if places as i64 <= PLACES || whole + places > DECIMAL_DIGITS => ExactNumberInfo::None,
        places => ExactNumberInfo::PrecisionAndScale(DECIMAL_DIGITS as u64, places as i64),
    }
}

/// Keeps the digits of numbers beside anything but literals: what is made of these alone is a double, and a placeholder
/// takes the type of what stands beside it.
fn keep_beside_others(values: &mut [&mut Expr]) {
    let is_placeholder = |value: &Value| matches!(value, Value::Placeholder(_));
    let has_others = values.iter().any(|value| literal(value).is_none());
    if has_others && !values.iter().any(|value| literal(value).is_some_and(is_placeholder)) {
        values.iter_mut().for_each(|value| keep(value));
    }
}

fn literal(expr: &Expr) -> Option<&Value> {
    match expr {
        Expr::Value(value) => Some(&value.value),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => literal(expr),
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// A number of many digits as a DECIMAL of just these, as far as there is one.
fn keep(expr: &mut Expr) {
    let Some(text) = number(expr) else { return };
    let Some((precision, scale)) = kept_as(&text) else { return };
    let size = ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into());
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(format!("{text}{MARK}")))),
        data_type: DataType::Decimal(size),
        array: false,
        format: None,
    };
}

/// What stands behind the digits of a number, and of no text that is cast: a cast passes over it.
const MARK: &str = " ";

/// The digits of a number, where the text of a cast to a DECIMAL is one that the statement has as such.
pub(crate) fn number_kept(text: &str, precision: u8, scale: i8) -> Option<&str> {
    text.strip_suffix(MARK).filter(|digits| kept_as(digits) == Some((precision, scale)))
}

/// Precision and scale of the DECIMAL that a number is kept as, where a double would lose some of its digits.
pub(crate) fn kept_as(text: &str) -> Option<(u8, i8)> {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches(['0', '.']).bytes().filter(u8::is_ascii_digit).count();
    // A whole number of 64 bits is one as it is.
    let is_whole = fraction.is_empty() && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok());
    let whole = whole.trim_start_matches('0').len();
    let (precision, scale) = match whole + fraction.len() > DECIMAL_DIGITS {
        // A type that all numbers may stand beside; `crate::rules::literals` reads the digits themselves.
        true => (
            whole.min(DECIMAL_DIGITS) + fraction.len().min(DECIMAL_DIGITS),
            fraction.len().min(DECIMAL_DIGITS),
        ),
        false => ((whole + fraction.len()).max(1), fraction.len()),
    };
    (is_plain && !is_whole && significant > DOUBLE_DIGITS).then_some((precision as u8, scale as i8))
}
