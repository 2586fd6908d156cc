//! A DATE and an INTERVAL that has a time of day, or whose length is not written in the text, give a TIMESTAMP:
//! `DATE '2024-01-01' + INTERVAL '3 hours'`. DataFusion gives a DATE and drops the hours. Days and months leave a date a
//! DATE, as SQL has it. A DATE less another is a number of days, taken of numbers: DataFusion's analysis of bounds takes
//! it for a length of time and refuses to compare it with a number. A whole number is no DATE, neither cast to one nor
//! compared with one: DataFusion takes it for days since 1970.

use crate::rules::literals::is_comparison;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast};

/// See the file's header.
///
/// # Errors
/// Where a whole number stands for a DATE.
pub(crate) fn as_time(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32 | DataType::Date64));
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
    match &expr {
        Expr::Cast(Cast { expr: value, field })
            if *field.data_type() == DataType::Date32 && is_number(value) =>
        {
            return Err(no_date());
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op)
                && (is_date(left) && is_number(right) || is_number(left) && is_date(right)) =>
        {
            return Err(no_date());
        }
        _ => {}
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

fn no_date() -> DataFusionError {
    let message = "a whole number is no DATE";
    let hint = "write DATE '2024-08-08', or DATE '1970-01-01' + n for days since 1970";
    plan_datafusion_err!("{message}")
        .with_diagnostic(Diagnostic::new_error(message, None).with_help(hint, None))
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
