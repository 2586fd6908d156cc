//! `x IN (a, b)` with values that are no constants: `x = a OR x = b`.
//!
//! DataFusion 55.2 finds out which values are constants by working the list out over no rows, and takes an expression for
//! one that gives a single value there, as CASE does: NULL, for every row.

mod text;

pub(crate) use text::cast_in_words;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Cast, Expr, not};

/// See the file's header.
///
/// # Errors
/// None; the signature is that of all rules of [`crate::rules::meanings`].
pub(crate) fn read(expr: Expr, _schema: &DFSchema) -> Result<Transformed<Expr>> {
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

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => is_constant(expr),
        _ => false,
    }
}
