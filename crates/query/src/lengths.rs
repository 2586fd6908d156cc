//! Lengths of time that are compared: INTERVALs, and differences of times beside them. A day is 24 hours and a month 30
//! days, as in PostgreSQL and DuckDB.
//!
//! DataFusion compares an INTERVAL month by month, day by day and nanosecond by nanosecond, so that 48 hours are less
//! than a day, and makes one of a difference of times beside it. The rule compares nanoseconds: a literal becomes a
//! length like the other side, anything else a DECIMAL by [`nanoseconds`].

mod nanoseconds;

use crate::literals::is_comparison;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, ScalarUDF};
use nanoseconds::Nanoseconds;

/// See the file's header.
///
/// # Errors
/// None; the signature is that of all rules of [`crate::meanings`].
pub(crate) fn compared(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            agree(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            agree(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            agree(std::iter::once(expr.as_mut()).chain(list.iter_mut()).collect(), schema)
        }
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Makes numbers of lengths of which some are INTERVALs; says whether it did.
fn agree(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> = sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(types) = types else { return false };
    let is_length = |of: &DataType| matches!(of, DataType::Interval(_) | DataType::Duration(_));
    let is_interval = |of: &DataType| matches!(of, DataType::Interval(_));
    if !types.iter().any(is_interval) || !types.iter().all(is_length) {
        return false;
    }
    let literals: Vec<Option<i64>> = sides.iter().map(|side| literal(side)).collect();
    let simple = types.iter().zip(&literals).all(|(of, literal)| !is_interval(of) || literal.is_some());
    let in_nanoseconds = |of: &DataType| is_interval(of) || *of == DataType::Duration(TimeUnit::Nanosecond);
    if simple && types.iter().all(in_nanoseconds) {
        for (side, literal) in sides.into_iter().zip(literals) {
            if let Some(nanos) = literal {
                *side = Expr::Literal(ScalarValue::DurationNanosecond(Some(nanos)), None);
            }
        }
        return true;
    }
    for side in sides {
        *side = ScalarUDF::from(Nanoseconds::default()).call(vec![side.clone()]);
    }
    true
}

/// The length that an INTERVAL in the text has, in nanoseconds.
fn literal(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => {
            i64::try_from(nanoseconds::of(length.months, length.days, length.nanoseconds)).ok()
        }
        Expr::Negative(inner) => literal(inner)?.checked_neg(),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}
