//! The default of `lag(x, 1, default)` and `lead`, of another type than x.
//!
//! DataFusion 55.2 casts the default to the type of x: `lag(n, 1, 7.5)` gives 7. As in PostgreSQL the result has a type
//! that holds both: x is cast to it. A number in the text that the type of x holds leaves it as it is, and one with a
//! fraction beside a FLOAT is the nearest FLOAT. A text is read as what x is; what has no common type is refused.

use super::approximate::common_type;
use super::literals::read_beside;
use crate::texts::{has_digits, past_numbers};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Diagnostic, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

/// See the file's header.
///
/// # Errors
/// Where the default is of no type that goes with the values.
pub(crate) fn defaulted(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
    let name = call.fun.name().to_string();
    if !matches!(name.as_str(), "lag" | "lead") {
        return Ok(Transformed::no(expr));
    }
    let [value, _, default] = call.params.args.as_mut_slice() else { return Ok(Transformed::no(expr)) };
    let changed = read_beside(vec![&mut *value, &mut *default], schema)?;
    let (of, given) = (value.get_type(schema)?, default.get_type(schema)?);
    check_range(default, &of)?;
    if of == given || given.is_null() || given.is_string() || holds(&of, default) {
        return Ok(Transformed::new_transformed(expr, changed));
    }
    let both = [std::mem::take(value), std::mem::take(default)];
    let Some(common) = common_type(&both, schema)?.filter(|common| has_kind_of(&of, common)) else {
        let message = format!("{name} of a {of} has no default of type {given}");
        let hint = "cast the default, or the values";
        return Err(plan_datafusion_err!("{message}")
            .with_diagnostic(Diagnostic::new_error(&message, None).with_help(hint, None)));
    };
    for (place, given) in [value, default].into_iter().zip(both) {
        *place = if given.get_type(schema)? == common { given } else { cast(given, common.clone()) };
    }
    Ok(Transformed::yes(expr))
}

/// Refuses a text that is a number past the largest of a type: it is cast beside the rules that read casts.
fn check_range(default: &Expr, of: &DataType) -> Result<()> {
    let Expr::Literal(value, _) = default else { return Ok(()) };
    let Some(text) = value.try_as_str().flatten().filter(|text| has_digits(text)) else { return Ok(()) };
    let is_past = match of {
        DataType::Float64 => text.trim().parse().is_ok_and(f64::is_infinite),
        DataType::Float32 => text.trim().parse().is_ok_and(f32::is_infinite),
        _ => false,
    };
    if is_past { Err(past_numbers(text, of)) } else { Ok(()) }
}

/// Whether a number in the text is one of this type.
fn holds(of: &DataType, number: &Expr) -> bool {
    let Expr::Literal(number, _) = number else { return false };
    if !number.data_type().is_numeric() || !of.is_numeric() {
        return false;
    }
    if let (DataType::Float32, ScalarValue::Float64(Some(value))) = (of, number) {
        return !value.is_finite() || (*value as f32).is_finite();
    }
    let there = number.cast_to(of).ok();
    let back = there.filter(|there| !there.is_null()).and_then(|of| of.cast_to(&number.data_type()).ok());
    back.as_ref() == Some(number)
}

/// Whether values of one type may be given as the other: numbers as numbers, times as times.
fn has_kind_of(of: &DataType, common: &DataType) -> bool {
    of == common || of.is_numeric() && common.is_numeric() || of.is_temporal() && common.is_temporal()
}
