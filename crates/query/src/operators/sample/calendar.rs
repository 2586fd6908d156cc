//! Keys that calendar fields of the time are made of: the hour, the date, the day of the week. Between the edges of a
//! step of time (an hour, a day) such a key has one value, so that rows are cut there and the key is worked out once.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::sync::Arc;

const MINUTE: i64 = 60 * 1_000_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The step of time, in nanoseconds from the Unix epoch on, between whose edges an expression has one value, where
/// `is_time` is the designated timestamp; `None` where it has none, or one so short that looking at each row is as
/// quick.
pub(super) fn step_of(
    expr: &Arc<dyn PhysicalExpr>,
    is_time: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<i64> {
    if is_volatile(expr) {
        return None;
    }
    step(expr, is_time).filter(|step| *step < i64::MAX)
}

/// Whether an expression that has a step can be worked out for any time, those of rows that a condition leaves out too.
pub(super) fn is_plain(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_leaf = |expr: &Arc<dyn PhysicalExpr>| expr.children().is_empty();
    (expr.is::<CastExpr>() || expr.is::<ScalarFunctionExpr>()) && expr.children().into_iter().all(is_leaf)
}

/// [`step_of`]; [`i64::MAX`] of what does not hang on the time.
fn step(expr: &Arc<dyn PhysicalExpr>, is_time: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool) -> Option<i64> {
    if expr.is::<Literal>() {
        return Some(i64::MAX);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>()
        && *cast.cast_type() == DataType::Date32
        && is_time(cast.expr())
    {
        return Some(DAY);
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let [field, of] = call.args()
        && is_time(of)
    {
        let field = field.downcast_ref::<Literal>()?;
        return match call.name() {
            "date_part" | "date_trunc" => step_of_field(field.value()),
            _ => None,
        };
    }
    let children = expr.children();
    if children.is_empty() {
        return None;
    }
    children.into_iter().try_fold(i64::MAX, |least, child| Some(least.min(step(child, is_time)?)))
}

/// The step of a field of `date_part`, or a unit of `date_trunc`.
fn step_of_field(field: &ScalarValue) -> Option<i64> {
    Some(match field.try_as_str()??.to_lowercase().as_str() {
        "minute" => MINUTE,
        "hour" => HOUR,
        "day" | "dow" | "isodow" | "doy" | "week" | "month" | "quarter" | "qtr" | "year" | "isoyear" => DAY,
        _ => return None,
    })
}
