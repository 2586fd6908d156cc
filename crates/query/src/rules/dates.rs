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
use datafusion::common::{Column, DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, SetComparison};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery, TryCast,
    cast, lit, try_cast, when,
};
use std::sync::Arc;

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
pub(crate) fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(..)));
    let mixed = |one: &Expr, other: &Expr| is_time(one) && is_date(other) || is_date(one) && is_time(other);
    let compare = |left: &Expr, op: Operator, right: &Expr| match is_date(right) {
        true => comparison(left, op, right),
        false => comparison(right, op.swap().unwrap_or(op), left),
    };
    // What a comparison is once its sides agree, also where nothing is to be done.
    let agreed = |left: &Expr, op: Operator, right: &Expr| -> Result<Expr> {
        let made = if mixed(left, right) { compare(left, op, right)? } else { None };
        let plain = || Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone())));
        Ok(made.unwrap_or_else(plain))
    };
    let negate = |expr: Expr, negated: bool| if negated { Expr::Not(Box::new(expr)) } else { expr };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { ref left, op, ref right })
            if is_comparison(op) && mixed(left, right) =>
        {
            compare(left, op, right)?.map_or_else(|| Transformed::no(expr.clone()), Transformed::yes)
        }
        Expr::Between(Between { expr: of, negated, low, high })
            if !of.is_volatile() && (mixed(&of, &low) || mixed(&of, &high)) =>
        {
            let above = agreed(&of, Operator::GtEq, &low)?;
            Transformed::yes(negate(above.and(agreed(&of, Operator::LtEq, &high)?), negated))
        }
        Expr::InList(InList { expr: of, list, negated })
            if !of.is_volatile() && list.iter().any(|item| mixed(&of, item) && !is_within(item)) =>
        {
            let (others, list): (Vec<Expr>, Vec<Expr>) =
                list.into_iter().partition(|item| mixed(&of, item) && !is_within(item));
            let first = (!list.is_empty()).then(|| of.as_ref().clone().in_list(list, false));
            let others = others.iter().map(|item| agreed(&of, Operator::Eq, item));
            let each = first.map(Ok).into_iter().chain(others).collect::<Result<Vec<Expr>>>()?;
            let any = each.into_iter().reduce(Expr::or).unwrap_or_else(|| lit(false));
            Transformed::yes(negate(any, negated))
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, else_expr })
            if !of.is_volatile() && when_then_expr.iter().any(|(when, _)| mixed(&of, when)) =>
        {
            let each = when_then_expr.into_iter();
            let each = each.map(|(when, then)| Ok((Box::new(agreed(&of, Operator::Eq, &when)?), then)));
            Transformed::yes(Expr::Case(Case::new(None, each.collect::<Result<_>>()?, else_expr)))
        }
        Expr::InSubquery(of) if is_time(&of.expr) && gives_dates(&of.subquery) => {
            Transformed::yes(Expr::InSubquery(InSubquery { subquery: those_within(of.subquery)?, ..of }))
        }
        Expr::SetComparison(of) if is_time(&of.expr) && gives_dates(&of.subquery) => {
            Transformed::yes(Expr::SetComparison(SetComparison { subquery: as_instants(of.subquery)?, ..of }))
        }
        other => Transformed::no(other),
    })
}

/// An instant compared with a DATE, on its right; `None` where the two can be compared as instants.
fn comparison(time: &Expr, op: Operator, date: &Expr) -> Result<Option<Expr>> {
    let day = |days: i32| lit(ScalarValue::Date32(Some(days)));
    let instant = |ns: i64| lit(ScalarValue::TimestampNanosecond(Some(ns), None));
    let time = || time.clone();
    // True or false of every instant, and NULL of none.
    let always =
        |is_so: bool| if is_so { time().lt_eq(instant(i64::MAX)) } else { time().gt(instant(i64::MAX)) };
    let beyond = |is_after: bool| match op {
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        Operator::Lt | Operator::LtEq => always(is_after),
        Operator::Gt | Operator::GtEq => always(!is_after),
        Operator::NotEq => always(true),
        _ => always(false),
    };
    if let Some(days) = days_of(date) {
        return Ok((days.abs() > DAYS_MAX).then(|| beyond(days > 0)));
    }
    if date.is_volatile() {
        return Ok(None);
    }
    let within = date.clone().between(day(-DAYS_MAX), day(DAYS_MAX));
    let same = || Ok::<_, DataFusionError>(time().eq(held(date)?));
    Ok(Some(match op {
        // As a key of a join first.
        Operator::Eq => same()?.and(within.or(time().is_null()).or(date.clone().is_null())),
        Operator::NotEq => {
            Expr::Not(Box::new(same()?.and(within.or(time().is_null()).or(date.clone().is_null()))))
        }
        op => {
            let at = try_cast(date.clone(), DataType::Timestamp(TimeUnit::Nanosecond, None));
            let compared = Expr::BinaryExpr(BinaryExpr::new(Box::new(time()), op, Box::new(at)));
            when(date.clone().gt(day(DAYS_MAX)), beyond(true))
                .when(date.clone().lt(day(-DAYS_MAX)), beyond(false))
                .otherwise(compared)?
        }
    }))
}

/// Whether a DATE is written in the text, and its midnight is an instant.
fn is_within(date: &Expr) -> bool {
    days_of(date).is_some_and(|days| days.abs() <= DAYS_MAX)
}

/// A DATE as an instant: the first or the last there is in the place of one that is none.
fn held(date: &Expr) -> Result<Expr> {
    let day = |days: i32| lit(ScalarValue::Date32(Some(days)));
    let instant = |ns: i64| lit(ScalarValue::TimestampNanosecond(Some(ns), None));
    // What is worked out beforehand is so without its condition.
    when(date.clone().gt(day(DAYS_MAX)), instant(i64::MAX))
        .when(date.clone().lt(day(-DAYS_MAX)), instant(i64::MIN))
        .otherwise(try_cast(date.clone(), DataType::Timestamp(TimeUnit::Nanosecond, None)))
}

fn gives_dates(query: &Subquery) -> bool {
    query.subquery.schema().fields().first().is_some_and(|field| *field.data_type() == DataType::Date32)
}

/// A sub-query without the DATEs that no instant is equal to.
fn those_within(query: Subquery) -> Result<Subquery> {
    let Some((qualifier, field)) = query.subquery.schema().iter().next() else { return Ok(query) };
    let date = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let day = |days: i32| lit(ScalarValue::Date32(Some(days)));
    let within = date.clone().between(day(-DAYS_MAX), day(DAYS_MAX)).or(date.is_null());
    let plan = LogicalPlanBuilder::from(Arc::clone(&query.subquery)).filter(within)?.build()?;
    as_instants(Subquery { subquery: Arc::new(plan), ..query })
}

/// A sub-query whose DATEs are instants ([`held`]).
fn as_instants(query: Subquery) -> Result<Subquery> {
    let Some((qualifier, field)) = query.subquery.schema().iter().next() else { return Ok(query) };
    let date = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let held = held(&date)?.alias(field.name());
    let plan = LogicalPlanBuilder::from(Arc::clone(&query.subquery)).project([held])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..query })
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
