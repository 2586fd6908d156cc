//! `x IN (a, b)` with values that are no constants: `x = a OR x = b`.
//!
//! DataFusion 55.2 finds out which values are constants by working the list out over no rows, and takes an expression for
//! one that gives a single value there, as CASE does: NULL, for every row.
//!
//! `length(l)` of an array is how many elements it has, as in DuckDB; DataFusion has that of the array's text, and lets
//! some functions of texts take that text too: they take no array here.
//!
//! `<` and its kin, BETWEEN too, have a NULL within an array after everything else.

mod text;

pub(crate) use text::cast_in_words;

use crate::functions::{elements, list_order};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Diagnostic, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, binary_expr, lit, not};

/// What a function of texts is of an array.
enum Meant {
    /// How many elements it has.
    Length,
    /// Nothing; what to write instead.
    Other(&'static str),
}

/// What a function is of an array, where DataFusion gives it the text of one.
fn of_array(function: &str) -> Option<Meant> {
    Some(match function {
        "character_length" | "char_length" | "length" => Meant::Length,
        "left" => Meant::Other("l[:n]"),
        "right" => Meant::Other("l[-n:]"),
        "lpad" | "rpad" => Meant::Other("array_resize(l, n, x)"),
        "reverse" => Meant::Other("array_reverse(l)"),
        "regexp_replace" | "translate" => Meant::Other("array_replace_all(l, x, y)"),
        _ => return None,
    })
}

/// See the file's header.
///
/// # Errors
/// Where an array is given to a function of texts, and those of types that are not known.
pub(crate) fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(call) = &expr
        && let Some(of) = call.args.first()
        && let Some(meant) = of_array(call.func.name())
        && is_list(&of.get_type(schema)?)
    {
        return match meant {
            Meant::Length => Ok(Transformed::yes(elements(of.clone()))),
            Meant::Other(instead) => {
                let message = format!("{} takes texts, and this is an array", call.func.name());
                let diagnostic = Diagnostic::new_error(&message, None);
                let diagnostic = diagnostic.with_help(format!("write {instead}"), None);
                Err(plan_datafusion_err!("{message}").with_diagnostic(diagnostic))
            }
        };
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr
        && matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
        && is_list(&left.get_type(schema)?)
        && is_list(&right.get_type(schema)?)
    {
        let order = list_order(left.as_ref().clone(), right.as_ref().clone());
        return Ok(Transformed::yes(binary_expr(order, *op, lit(0_i8))));
    }
    if let Expr::Between(Between { expr: of, negated, low, high }) = &expr
        && is_list(&of.get_type(schema)?)
        && is_list(&low.get_type(schema)?)
        && is_list(&high.get_type(schema)?)
    {
        let order =
            |bound: &Expr, op| binary_expr(list_order(of.as_ref().clone(), bound.clone()), op, lit(0_i8));
        let inside = order(low, Operator::GtEq).and(order(high, Operator::LtEq));
        return Ok(Transformed::yes(if *negated { not(inside) } else { inside }));
    }
    let Expr::InList(InList { expr, list, negated }) = expr else { return Ok(Transformed::no(expr)) };
    if list.iter().all(is_constant) {
        return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
    }
    let (constants, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_constant);
    let constants = (!constants.is_empty())
        .then(|| Expr::InList(InList { expr: expr.clone(), list: constants, negated: false }));
    let equal = others.into_iter().map(|other| expr.as_ref().clone().eq(other));
    let any = disjunction(constants.into_iter().chain(equal));
    Ok(match any {
        Some(any) => Transformed::yes(if negated { not(any) } else { any }),
        None => Transformed::no(*expr),
    })
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => is_constant(expr),
        _ => false,
    }
}
