//! VALUES of expressions whose type is found when types are made to agree: `(CASE WHEN true THEN 1 ELSE 0.5 END)`.
//!
//! DataFusion 55.2 gives a CASE the type of its first THEN until then: the column of VALUES gets that type, to which the
//! planner casts the values. Here a CASE has the type of all its branches at once ([`of_one_type`]), and a column the
//! type of all its values as they were before the cast. A cast that is written in the text stays: `dialect::digits`
//! writes it twice, so that the planner's own is told from it.

use super::approximate::common_type;
use super::texts::cast_to_number;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use std::sync::Arc;

/// A CASE whose branches have one type.
///
/// # Errors
/// Those of types that do not agree.
pub(crate) fn of_one_type(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(_) => TypeCoercionRewriter::new(schema).f_up(expr),
        other => Ok(Transformed::no(other)),
    }
}

/// VALUES whose columns have the types of all their values.
///
/// # Errors
/// Those of types that do not agree.
pub(crate) fn agreed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(mut of) = plan else { return Ok(Transformed::no(plan)) };
    let mut fields: Vec<_> =
        of.schema.iter().map(|(table, field)| (table.cloned(), Arc::clone(field))).collect();
    let mut has_changed = false;
    for (at, (_, field)) in fields.iter_mut().enumerate() {
        if of.values.iter().all(|row| is_literal(&row[at])) {
            continue;
        }
        let column = field.data_type();
        let given = of.values.iter().map(|row| as_given(&row[at], column, &of.schema));
        let given: Vec<Expr> = given.collect::<Result<_>>()?;
        let Some(common) = common_type(&given, &of.schema)? else {
            return plan_err!("values of several types in one column, one of them {column}");
        };
        if common == *column || field.data_type().is_null() {
            continue;
        }
        for (row, value) in of.values.iter_mut().zip(given) {
            row[at] = value.cast_to(&common, &of.schema)?;
        }
        *field = Arc::new(Field::clone(field).with_data_type(common));
        has_changed = true;
    }
    of.schema = Arc::new(DFSchema::new_with_metadata(fields, of.schema.metadata().clone())?);
    Ok(Transformed::new_transformed(LogicalPlan::Values(of), has_changed))
}

/// A number before the planner cast it to the type of its column; any other value as it is.
fn as_given(value: &Expr, column: &DataType, schema: &DFSchema) -> Result<Expr> {
    let Some(given) = cast_to_number(value) else { return Ok(value.clone()) };
    let is_cast = value.get_type(schema)? == *column && given.get_type(schema)?.is_numeric();
    Ok(if is_cast { given.clone() } else { value.clone() })
}

/// Whether a value stands in the text as it is.
fn is_literal(value: &Expr) -> bool {
    match value {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Negative(of) => is_literal(of),
        _ => false,
    }
}
