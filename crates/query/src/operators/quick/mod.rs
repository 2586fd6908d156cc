//! Expressions in a form that is worked out more quickly for many rows: what hangs on one symbol once a symbol
//! ([`symbols`]), CASE without taking rows apart ([`choice`]), dates without a calendar ([`days`]).
//!
//! They print as what they were, and give the same. Whoever evaluates expressions over batches of a table's rows has
//! them changed by [`quick`] before.

mod choice;
mod days;
mod symbols;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// An expression over rows of `schema` in its quick form.
pub(super) fn quick(expr: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        if expr.is::<symbols::BySymbol>() {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        if let Some(found) = symbols::by_symbol(&expr, schema)? {
            return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
        }
        let found = days::days(&expr, schema).or_else(|| choice::choice(&expr, schema));
        Ok(found.map_or_else(|| Transformed::no(expr), Transformed::yes))
    };
    expr.transform_down(replace).data()
}

#[cfg(test)]
mod tests;
