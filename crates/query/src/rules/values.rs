//! VALUES of expressions whose type is found when types are made to agree: `(CASE WHEN true THEN 1 ELSE 0.5 END)`.
//!
//! DataFusion 55.2 gives the column the type that such an expression seems to have before, a CASE that of its first THEN,
//! and refuses the values then. The rule finds the types first.

use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use std::sync::Arc;

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
        let mut types = vec![field.data_type().clone()];
        for value in of.values.iter_mut().map(|row| &mut row[at]).filter(|value| !is_written(value)) {
            let coerced = std::mem::take(value).rewrite(&mut TypeCoercionRewriter::new(&of.schema))?;
            *value = coerced.data;
            let found = value.get_type(&of.schema)?;
            if !found.is_null() && !types.contains(&found) {
                types.push(found);
            }
        }
        if types.len() == 1 {
            continue;
        }
        let Some(common) = type_union_resolution(&types) else {
            return plan_err!("values of {} and of {} in one column", types[0], types[1]);
        };
        for row in &mut of.values {
            row[at] = std::mem::take(&mut row[at]).cast_to(&common, &of.schema)?;
        }
        *field = Arc::new(Field::clone(field).with_data_type(common));
        has_changed = true;
    }
    of.schema = Arc::new(DFSchema::new_with_metadata(fields, of.schema.metadata().clone())?);
    Ok(Transformed::new_transformed(LogicalPlan::Values(of), has_changed))
}

/// Whether a value is one that stands in the text, or a cast of one: of these types are as they seem.
fn is_written(value: &Expr) -> bool {
    match value {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(of) => is_written(&of.expr),
        Expr::Negative(of) => is_written(of),
        _ => false,
    }
}
