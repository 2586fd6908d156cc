//! Expressions of a plan that change and keep the names that their texts gave them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether a part of an expression of a plan is so.
///
/// # Errors
/// None of its own.
pub(crate) fn has(plan: &LogicalPlan, is_so: fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|expr| Ok(is_so(expr)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn under_its_name(
    expr: Expr,
    change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let name = expr.qualified_name();
    let changed = change(expr)?;
    if !changed.transformed || changed.data.qualified_name() == name {
        return Ok(changed);
    }
    Ok(changed.update_data(|expr| expr.alias_qualified(name.0, name.1)))
}

/// The plan with its expressions changed, each under the name it had.
///
/// # Errors
/// Those of `change`.
pub(crate) fn change_named(
    plan: LogicalPlan,
    change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let has_types =
        matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
    let changed = change_unsettled(plan, change)?;
    if changed.transformed && has_types {
        changed.map_data(LogicalPlan::recompute_schema)
    } else {
        Ok(changed)
    }
}

/// The same of a plan whose input has yet to get columns that its expressions read then.
///
/// # Errors
/// Those of `change`.
pub(crate) fn change_unsettled(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    // A condition has no name.
    let is_named = !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let change: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>> = &mut change;
    plan.map_expressions(|expr| match expr {
        expr if !is_named => change(expr),
        // Each key of the sets is a column.
        Expr::GroupingSet(_) => expr.map_children(|key| under_its_name(key, change)),
        // Its arguments are keys, which it finds among them as they are written.
        Expr::AggregateFunction(ref call) if call.func.name() == "grouping" => {
            expr.map_children(|key| under_its_name(key, change))
        }
        expr => under_its_name(expr, change),
    })
}

/// A plan whose expressions are changed; aggregates and window functions keep the names of their results.
pub(crate) fn keeping_names(
    plan: LogicalPlan,
    change: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let changed = plan.map_expressions(|expr| {
        let (qualifier, name) = expr.qualified_name();
        let changed = change(expr)?;
        let bare = |expr: &Expr| matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_));
        if !changed.transformed || !bare(&changed.data) {
            return Ok(changed);
        }
        Ok(changed.update_data(|expr| expr.alias_qualified(qualifier, name)))
    })?;
    if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
}
