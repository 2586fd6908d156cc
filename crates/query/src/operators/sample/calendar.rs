//! Keys that calendar fields of the time are made of: the hour, the date, the day of the week. Between the edges of a
//! step of time (an hour, a day; a quarter of an hour by the clocks of a zone) such a key has one value, so that rows
//! are cut there and the key is worked out once.

use crate::functions::AT_TIME_ZONE;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use std::sync::Arc;

const MINUTE: i64 = 60 * 1_000_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The clocks of every zone differ from UTC by a multiple of this, and are put forward and back at one, from
/// [`OFFSETS_FROM`] on (IANA time zone database: Monrovia, 44 minutes and 30 seconds behind, was the last before).
const OFFSETS: i64 = 15 * MINUTE;

/// 1973-01-01.
const OFFSETS_FROM: i64 = 1_096 * DAY;

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
        && let Some(clock) = step_of_clock(cast.expr(), is_time)
    {
        return Some(DAY.min(clock));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let ("date_part" | "date_trunc", [field, of]) = (call.name(), call.args())
        && let Some(clock) = step_of_clock(of, is_time)
    {
        let field = field.downcast_ref::<Literal>()?;
        return Some(step_of_field(field.value())?.min(clock));
    }
    let children = expr.children();
    if children.is_empty() {
        return None;
    }
    children.into_iter().try_fold(i64::MAX, |least, child| Some(least.min(step(child, is_time)?)))
}

/// Of the time itself, or of what the clocks of a zone showed then: between which edges they run as UTC does.
fn step_of_clock(
    expr: &Arc<dyn PhysicalExpr>,
    is_time: &dyn Fn(&Arc<dyn PhysicalExpr>) -> bool,
) -> Option<i64> {
    if is_time(expr) {
        return Some(i64::MAX);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == AT_TIME_ZONE)?;
    let [of, zone] = call.args() else { return None };
    (is_time(of) && zone.is::<Literal>()).then_some(OFFSETS)
}

/// Whether keys with a step can be worked out so for times from this one on.
pub(super) fn holds_from(expr: &Arc<dyn PhysicalExpr>, first: i64) -> bool {
    let zoned = expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.name() == AT_TIME_ZONE);
    (!zoned || first >= OFFSETS_FROM) && expr.children().into_iter().all(|child| holds_from(child, first))
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
