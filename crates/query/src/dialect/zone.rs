//! `ts AT TIME ZONE 'zone'` as the call of a function: DataFusion would read the instant as a time of that zone; and bounds
//! of time that are written as the clocks of a zone show them.

use super::marker::call;
use super::walks::{each_expr, has_expr};
use crate::functions::AT_TIME_ZONE;
use sqlparser::ast::{CastKind, DataType, Expr, TimezoneInfo, Value, Visit, VisitMut};

/// Makes each AT TIME ZONE a call.
pub(super) fn place(node: &mut impl VisitMut) {
    each_expr(node, &mut |expr| {
        if let Expr::AtTimeZone { timestamp, time_zone } = expr {
            let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
            *expr = call(AT_TIME_ZONE, vec![taken(timestamp), taken(time_zone)]);
        }
    });
}

/// Whether there is one, as a call.
pub(super) fn is_in(node: &impl Visit) -> bool {
    has_expr(node, &|expr| name_of(expr) == Some(AT_TIME_ZONE))
}

/// A bound of time, such as FROM of SAMPLE BY, as an instant: what is written without an offset is what the clocks of the
/// zone show. What is worked out from the present (`is_constant` of a function's name is false) is an instant already.
pub(crate) fn bound_in(mut bound: Expr, zone: &str, is_constant: &dyn Fn(&str) -> bool) -> Expr {
    let is_instant = |expr: &Expr| match expr {
        Expr::Value(value) => text_has_offset(&value.value),
        Expr::TypedString(text) => text_has_offset(&text.value.value),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => true,
        expr => name_of(expr).is_some_and(|name| name == "to_utc" || !is_constant(name)),
    };
    let is_number = matches!(&bound, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    // Each AT TIME ZONE goes to the other side.
    let mut turns = 0;
    each_expr(&mut bound, &mut |expr| turns += usize::from(name_of(expr) == Some(AT_TIME_ZONE)));
    if is_number || turns % 2 == 0 && (turns > 0 || has_expr(&bound, &is_instant)) {
        return bound;
    }
    let time = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(bound),
        data_type: DataType::Timestamp(None, TimezoneInfo::None),
        format: None,
        array: false,
    };
    call("to_utc", vec![time, Expr::value(Value::SingleQuotedString(zone.to_string()))])
}

/// Whether the text of a time says what its clock differs from UTC by.
fn text_has_offset(value: &Value) -> bool {
    let Value::SingleQuotedString(text) = value else { return false };
    // After the date, whose parts are divided by '-'.
    text.trim().get(10..).is_some_and(|time| time.ends_with(['Z', 'z']) || time.contains(['+', '-']))
}

/// The name of a call.
fn name_of(expr: &Expr) -> Option<&str> {
    let Expr::Function(call) = expr else { return None };
    let name = call.name.0.last()?.as_ident()?;
    Some(name.value.as_str())
}
