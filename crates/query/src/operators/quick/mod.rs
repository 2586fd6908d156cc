//! Expressions in a form that is worked out more quickly for many rows: what hangs on one symbol once a symbol
//! ([`symbols`]), CASE without taking rows apart ([`choice`]), dates without a calendar ([`days`]).
//!
//! They print as what they were, and give the same. Whoever evaluates expressions over batches of a table's rows has
//! them changed by [`quick`] before.

mod choice;
mod days;
mod symbols;

use super::below::Below;
use super::give_way::GiveWayExec;
use super::rules::NodeRule;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Conditions and projections of any rows in their quick form. Must run after all rules that look into expressions.
pub(super) const QUICK_EXPRESSIONS: NodeRule = NodeRule::up("quick_expressions", |plan| {
    // Operators that read a scan's rows in its stead have the layers above it in this form by themselves.
    if Below::of(plan).is_some() {
        return Ok(None);
    }
    // What an expression says of rows, such as that a column is the same in all, is no longer seen in its other form.
    let in_place = |quick: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        Arc::new(GiveWayExec::new(quick, Some(Arc::clone(plan))))
    };
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = quick(Arc::clone(filter.predicate()), &filter.input().schema())?;
        if !Arc::ptr_eq(&predicate, filter.predicate()) {
            let quick = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
            return Ok(Some(in_place(Arc::new(quick))));
        }
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let (before, input) = (projection.expr(), projection.input());
        let after = before.iter().map(|of| {
            Ok(ProjectionExpr {
                expr: quick(Arc::clone(&of.expr), &input.schema())?,
                alias: of.alias.clone(),
            })
        });
        let after = after.collect::<Result<Vec<_>>>()?;
        if before.iter().zip(&after).any(|(before, after)| !Arc::ptr_eq(&before.expr, &after.expr)) {
            let quick = ProjectionExec::try_new(after, Arc::clone(input))?;
            return Ok(Some(in_place(Arc::new(quick))));
        }
    }
    Ok(None)
})
.of_pipeline();

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
