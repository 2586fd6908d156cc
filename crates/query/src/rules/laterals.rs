//! LATERAL whose sub-queries alone read what stands beside it.
//!
//! DataFusion 55.2 takes a LATERAL query for one that depends on no row where none of its own expressions reads a column of
//! the query around, and does not look into its sub-queries: `t, LATERAL (SELECT (SELECT max(x) FROM u WHERE u.k =
//! t.k))` becomes a join of two sides that know nothing of each other. The rule says that the right one depends on the
//! left.
//!
//! Columns are found by name. Where a query further out has one of that name, too, it cannot be told which is meant, and
//! the statement is refused.

use super::correlated_keys::lateral;
use super::dependent::read_through;
use crate::stack::on_enough_stack;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Spans, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Laterals;

impl AnalyzerRule for Laterals {
    fn name(&self) -> &str {
        "laterals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_joined = false;
        plan.apply_with_subqueries(|plan| {
            is_joined |= matches!(plan, LogicalPlan::Join(_));
            Ok(if is_joined { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if is_joined { Ok(settled(plan, &[])?.data) } else { Ok(plan) }
    }
}

/// A plan whose LATERAL queries are sub-queries; `around` is what the queries around it have.
fn settled(plan: LogicalPlan, around: &[DFSchema]) -> Result<Transformed<LogicalPlan>> {
    let within = |schema: DFSchema| [around, &[schema]].concat();
    on_enough_stack(|| {
        let own = within(merge_schema(&plan.inputs()));
        let inner = plan.map_subqueries(|plan| settled(plan, &own))?;
        inner.transform_data(|plan| {
            let LogicalPlan::Join(join) = plan else {
                return plan.map_children(|plan| settled(plan, around));
            };
            let left = settled(Arc::unwrap_or_clone(join.left), around)?;
            let beside = match lateral(&join.right) {
                Some(_) => within(left.data.schema().as_ref().clone()),
                None => around.to_vec(),
            };
            let right = settled(Arc::unwrap_or_clone(join.right), &beside)?;
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Arc::new(left.data), Arc::new(right.data));
            depending(Join { left, right, ..join }, around, is_changed)
        })
    })
}

fn depending(join: Join, around: &[DFSchema], is_changed: bool) -> Result<Transformed<LogicalPlan>> {
    let is_of = |schema: &DFSchema, expr: &Expr| matches!(expr, Expr::OuterReferenceColumn(_, column) if schema.maybe_index_of_column(column).is_some());
    let read = if lateral(&join.right).is_some() { Vec::new() } else { read_through(&join.right)? };
    let mut beside = read.into_iter().filter(|expr| is_of(join.left.schema(), expr)).peekable();
    if beside.peek().is_none() {
        return Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed));
    }
    let beside: Vec<Expr> = beside.collect();
    if let Some(Expr::OuterReferenceColumn(_, column)) =
        beside.iter().find(|expr| around.iter().any(|schema| is_of(schema, expr)))
    {
        return plan_err!(
            "'{column}' is a column of two queries around a sub-query: give one of the tables another alias"
        );
    }
    let right = as_subquery(&join.right, beside)?;
    Ok(Transformed::yes(LogicalPlan::Join(Join { right: Arc::new(right), ..join })))
}

/// A side of a join as a sub-query, under its alias.
fn as_subquery(plan: &Arc<LogicalPlan>, outer_ref_columns: Vec<Expr>) -> Result<LogicalPlan> {
    if let LogicalPlan::SubqueryAlias(alias) = plan.as_ref() {
        let input = Arc::new(as_subquery(&alias.input, outer_ref_columns)?);
        return Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?));
    }
    let subquery = Arc::clone(plan);
    Ok(LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans: Spans::new() }))
}
