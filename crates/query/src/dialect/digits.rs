//! Numbers whose digits a double would lose: what is cast to a DECIMAL, and what is compared and has more digits than
//! a double.
//!
//! The planner reads a number with a point as a double. Cast to a DECIMAL it becomes text here, which is cast digit by
//! digit: `CAST('0.1' AS DECIMAL(30, 20))`. One of many digits in a comparison becomes such a cast; beside a double
//! `crate::rules::literals` makes it the nearest double after all.
//!
//! A cast in VALUES is written twice: the planner casts the values to the type of their column, and the rule that undoes
//! this (`crate::rules::values`) leaves the cast that the text has. So is one in the second part of a recursive query,
//! whose rows the planner casts to the types of the first (`crate::rules::recursion`).
//!
//! A number of rows in quotes, `LIMIT '10'`, is one without: clients of the simple protocol write all parameters so.

use crate::texts::without_exponent;
use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, LimitClause, Query,
    SelectItem, SetExpr, UnaryOperator, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

/// Every number of so many digits is told from its neighbours by a double.
const DOUBLE_DIGITS: usize = 15;
/// Digits after the point of a DECIMAL of no size.
const PLACES: i64 = 10;
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
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        match expr {
            Expr::Cast { expr: of, data_type, .. } if is_decimal(data_type) => {
                if let Some(digits) = number(of) {
                    **of = Expr::value(Value::SingleQuotedString(digits));
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

/// A number of many digits as a DECIMAL of just these.
fn keep(expr: &mut Expr) {
    let Some(text) = number(expr) else { return };
    let Some((precision, scale)) = kept_as(&text) else { return };
    let size = ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into());
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
        data_type: DataType::Decimal(size),
        array: false,
        format: None,
    };
}

/// Precision and scale of the DECIMAL that a number is kept as, where a double would lose some of its digits.
pub(crate) fn kept_as(text: &str) -> Option<(u8, i8)> {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches(['0', '.']).bytes().filter(u8::is_ascii_digit).count();
    // A whole number of 64 bits is one as it is.
    let is_whole = fraction.is_empty() && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok());
    let precision = (whole.trim_start_matches('0').len() + fraction.len()).max(1);
    let is_kept = is_plain && !is_whole && significant > DOUBLE_DIGITS && precision <= DECIMAL_DIGITS;
    is_kept.then_some((precision as u8, fraction.len() as i8))
}
