//! `ts AT TIME ZONE 'zone'` as the call of a function: DataFusion would read the instant as a time of that zone.

use super::marker::call;
use super::walks::each_expr;
use crate::functions::AT_TIME_ZONE;
use sqlparser::ast::{Expr, Value, VisitMut};

/// Makes each AT TIME ZONE a call.
pub(super) fn place(node: &mut impl VisitMut) {
    each_expr(node, &mut |expr| {
        if let Expr::AtTimeZone { timestamp, time_zone } = expr {
            let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
            *expr = call(AT_TIME_ZONE, vec![taken(timestamp), taken(time_zone)]);
        }
    });
}
