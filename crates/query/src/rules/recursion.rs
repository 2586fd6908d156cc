//! Recursive queries whose later rows would lose digits: `SELECT 1 AS x UNION ALL SELECT x + 0.5 FROM r` is refused, as by
//! PostgreSQL. DataFusion 55.2 casts the later rows to the types of the first ones, and x stays 1.
//!
//! A cast in the text is no such cast: `dialect::digits` writes it twice.

use super::texts::cast_to_number;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Diagnostic, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

/// See the file's header.
///
/// # Errors
/// Where a column would lose digits.
pub(crate) fn checked(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::RecursiveQuery(query) = plan else { return Ok(()) };
    let LogicalPlan::Projection(later) = query.recursive_term.as_ref() else { return Ok(()) };
    for (first, item) in query.static_term.schema().fields().iter().zip(&later.expr) {
        let (of, given) = (first.data_type(), as_given(item).get_type(later.input.schema())?);
        if loses(&given, of) {
            let message = format!(
                "column '{}' of the recursive query is {of} in its first rows, then {given}",
                first.name()
            );
            return Err(plan_datafusion_err!("{message}").with_diagnostic(
                Diagnostic::new_error(&message, None)
                    .with_help("cast it in the first SELECT, or in the other", None),
            ));
        }
    }
    Ok(())
}

/// An item before it was cast.
fn as_given(item: &Expr) -> &Expr {
    match item {
        Expr::Alias(alias) => as_given(&alias.expr),
        other => cast_to_number(other).unwrap_or(other),
    }
}

/// Whether a number of one type loses digits as one of another.
fn loses(from: &DataType, to: &DataType) -> bool {
    let places = |of: &DataType| match of {
        DataType::Decimal128(_, places) | DataType::Decimal256(_, places) => Some(*places),
        of => of.is_integer().then_some(0),
    };
    match (places(from), places(to)) {
        (Some(from), Some(to)) => from > to,
        (None, Some(_)) => from.is_floating(),
        (_, None) => *to == DataType::Float32 && from.is_numeric() && from != to,
    }
}
