//! A DATE and an INTERVAL that has a time of day, or whose length is not written in the text, give a TIMESTAMP: `DATE
//! '2024-01-01' + INTERVAL '3 hours'`. DataFusion gives a DATE and drops the hours. Days and months leave a date a DATE, as
//! SQL has it. A DATE less another is a number of days, taken of numbers: DataFusion's analysis of bounds takes it for a
//! length of time and refuses to compare it with a number. A whole number is no DATE, neither cast to one nor compared with
//! one: DataFusion takes it for days since 1970. No number is a TIME or a TIMESTAMP: DataFusion takes a whole one for
//! nanoseconds since midnight, and for seconds or nanoseconds since 1970 by its type. A DATE is compared with a TIMESTAMP
//! whatever its year: one that no TIMESTAMP is of, such as 9999-12-31 for "still valid", is after or before all of them.

use crate::rules::literals::is_comparison;
use arrow_cast::parse::Parser;
use datafusion::arrow::datatypes::{DataType, Date32Type, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast, cast, lit, when,
};

/// See the file's header.
///
/// # Errors
/// Where a number stands for a DATE, a TIME or a TIMESTAMP.
pub(crate) fn as_time(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32 | DataType::Date64));
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
    check_no_number(&expr, schema)?;
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr
        && is_comparison(*op)
        && (is_date(left) && is_number(right) || is_number(left) && is_date(right))
    {
        return Err(no_date());
    }
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = &mut expr
    else {
        return Ok(Transformed::no(expr));
    };
    if *op == Operator::Minus && is_date(left) && is_date(right) {
        for date in [left, right] {
            let days = cast(cast(date.as_ref().clone(), DataType::Date32), DataType::Int32);
            **date = cast(days, DataType::Int64);
        }
        return Ok(Transformed::yes(expr));
    }
    let date = if is_date(left) && has_time_of_day(right, schema) {
        left
    } else if *op == Operator::Plus && is_date(right) && has_time_of_day(left, schema) {
        right
    } else {
        return Ok(Transformed::no(expr));
    };
    **date = cast(date.as_ref().clone(), DataType::Timestamp(TimeUnit::Nanosecond, None));
    Ok(Transformed::yes(expr))
}

/// Refuses a number as a time: one that is cast to a time in the statement, or for the types to agree.
///
/// # Errors
/// Where it is one.
pub(super) fn check_no_number(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) = expr
    else {
        return Ok(());
    };
    let refused = match field.data_type() {
        DataType::Date32 | DataType::Date64 => no_date,
        DataType::Time32(_) | DataType::Time64(_) => no_time,
        DataType::Timestamp(..) => no_instant,
        _ => return Ok(()),
    };
    match value.get_type(schema) {
        Ok(of) if of.is_numeric() => Err(refused()),
        _ => Ok(()),
    }
}

fn no_date() -> DataFusionError {
    let message = "a number is no DATE";
    let hint = "write DATE '2024-08-08', or DATE '1970-01-01' + n for days since 1970";
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(message, None).with_help(hint, None))
}

fn no_time() -> DataFusionError {
    let message = "a number is no TIME";
    let hint = "write TIME '09:30:00', or make_time(9, 30, 0)";
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(message, None).with_help(hint, None))
}

fn no_instant() -> DataFusionError {
    let message = "a number is no TIMESTAMP";
    let hint = "say its unit: to_timestamp(n) of seconds, epoch_ms(n), epoch_us(n), epoch_ns(n)";
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(message, None).with_help(hint, None))
}

/// Days before and after 1970-01-01 whose midnights are TIMESTAMPs: 1677-09-22 to 2262-04-11.
const DAYS_MAX: i32 = 106_751;

/// A DATE that is compared with a TIMESTAMP; see the file's header.
///
/// # Errors
/// None of its own.
pub(crate) fn compared(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(..)));
    let mut sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            vec![&mut **left, &mut **right]
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            vec![&mut **expr, &mut **low, &mut **high]
        }
        Expr::InList(InList { expr, list, .. }) => {
            std::iter::once(&mut **expr).chain(list.iter_mut()).collect()
        }
        _ => return Ok(Transformed::no(expr)),
    };
    if !sides.iter().any(|side| is_time(side)) {
        return Ok(Transformed::no(expr));
    }
    let mut changed = false;
    for date in sides.iter_mut().filter(|side| is_date(side)) {
        if let Some(held) = held(date)? {
            (**date, changed) = (held, true);
        }
    }
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// A DATE as an instant: the first or the last there is in the place of one that is none; `None` where it is one already.
fn held(date: &Expr) -> Result<Option<Expr>> {
    let day = |days: i32| lit(ScalarValue::Date32(Some(days)));
    let instant = |ns: i64| lit(ScalarValue::TimestampNanosecond(Some(ns), None));
    if let Some(days) = days_of(date) {
        let end = if days > 0 { i64::MAX } else { i64::MIN };
        return Ok((days.abs() > DAYS_MAX).then(|| instant(end)));
    }
    if date.column_refs().is_empty() || date.is_volatile() {
        return Ok(None);
    }
    when(date.clone().gt(day(DAYS_MAX)), instant(i64::MAX))
        .when(date.clone().lt(day(-DAYS_MAX)), instant(i64::MIN))
        .otherwise(cast(date.clone(), DataType::Timestamp(TimeUnit::Nanosecond, None)))
        .map(Some)
}

/// Days since 1970-01-01 of a DATE that the text says.
fn days_of(date: &Expr) -> Option<i32> {
    match date {
        Expr::Literal(ScalarValue::Date32(days), _) => *days,
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => match &**expr {
            Expr::Literal(text, _) => Date32Type::parse(text.try_as_str()??),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an interval may have a part that is no whole day.
fn has_time_of_day(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => length.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(length)), _) => length.milliseconds != 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        Expr::Negative(inner) => has_time_of_day(inner, schema),
        Expr::Alias(alias) => has_time_of_day(&alias.expr, schema),
        _ => matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_))),
    }
}
