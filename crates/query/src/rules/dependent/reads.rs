//! What sub-queries read of the queries around them, and which of them need other words.

use super::default_of;
use crate::named::has;
use crate::rules::correlated::{self, apply_own, reads_outer};
use crate::rules::correlated_keys;
use crate::rules::literals::is_comparison;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// Whether an expression is a sub-query that this rule is about.
pub(super) fn is_dependent(expr: &Expr) -> bool {
    subquery_of(expr).is_some_and(|of| is_refused(&of.subquery, false))
}

/// The sub-query that an expression asks.
pub(crate) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(of)
        | Expr::Exists(Exists { subquery: of, .. })
        | Expr::InSubquery(InSubquery { subquery: of, .. })
        | Expr::SetComparison(SetComparison { subquery: of, .. }) => Some(of),
        _ => None,
    }
}

/// Whether the joins that DataFusion makes of a sub-query would be wrong, or it makes none.
pub(crate) fn is_refused(plan: &LogicalPlan, is_lateral: bool) -> bool {
    let reads = |reads: Result<bool>| reads.is_ok_and(|reads| reads);
    if reads(read_through(plan).map(|read| !read.is_empty())) {
        return true;
    }
    reads(reads_outer(plan))
        && (correlated::check(plan).is_err()
            || correlated_keys::check(plan).is_err()
            || reads(correlated_keys::has_no_key(plan))
            || reads(has_unnest(plan))
            || reads(has_outer_member(plan))
            || reads(has_dependent(plan))
            || reads(has_outer_item(plan))
            || is_lateral && correlated_keys::check_distinct(plan).is_err())
}

/// Whether a sub-query of a plan is such that this rule is about, where what it reads depends on the query around.
fn has_dependent(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_own(plan, |plan| {
        if has(plan, is_dependent)? {
            for input in plan.inputs() {
                found |= reads_outer(input)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a sub-query inside is asked for a value of the query around.
fn has_outer_member(plan: &LogicalPlan) -> Result<bool> {
    let is_asked = |expr: &Expr| matches!(expr, Expr::InSubquery(of) if of.expr.contains_outer());
    let mut found = false;
    apply_own(plan, |plan| {
        found |= has(plan, is_asked)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether anything but a condition reads the query around.
fn has_outer_item(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_own(plan, |plan| {
        found |= !matches!(plan, LogicalPlan::Filter(_)) && plan.contains_outer_reference();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether an aggregate is one of the query around: it reads columns of that alone.
pub(super) fn has_outer_aggregate(plan: &LogicalPlan) -> Result<bool> {
    let is_outer = |expr: &Expr| {
        let Expr::AggregateFunction(call) = expr else { return false };
        let args = &call.params.args;
        args.iter().any(Expr::contains_outer) && args.iter().all(|arg| arg.column_refs().is_empty())
    };
    let mut found = false;
    apply_own(plan, |plan| {
        found |= matches!(plan, LogicalPlan::Aggregate(_)) && has(plan, is_outer)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether lists are unnested that depend on the query around.
fn has_unnest(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_own(plan, |plan| {
        if let LogicalPlan::Unnest(unnest) = plan {
            found |= reads_outer(&unnest.input)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// What a plan and its sub-queries read of queries around the plan.
pub(crate) fn around(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut read = plan.all_out_ref_exprs();
    for expr in read_through(plan)? {
        if !read.contains(&expr) {
            read.push(expr);
        }
    }
    Ok(read)
}

/// Whether it reads any.
pub(crate) fn reads_around(plan: &LogicalPlan) -> Result<bool> {
    Ok(reads_outer(plan)? || !read_through(plan)?.is_empty())
}

/// What the sub-queries of a plan read of queries around the plan.
pub(crate) fn read_through(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut read: Vec<Expr> = Vec::new();
    apply_own(plan, |plan| {
        if !has(plan, |expr| subquery_of(expr).is_some())? {
            return Ok(TreeNodeRecursion::Continue);
        }
        let own = merge_schema(&plan.inputs());
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                let Some(of) = subquery_of(expr) else { return Ok(TreeNodeRecursion::Continue) };
                for expr in around(&of.subquery)? {
                    if !is_of(&own, &expr) && !read.contains(&expr) {
                        read.push(expr);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(read)
}

/// Whether a column that a sub-query reads is of the query right around it.
pub(super) fn is_of(own: &DFSchema, expr: &Expr) -> bool {
    matches!(expr, Expr::OuterReferenceColumn(_, column) if own.maybe_index_of_column(column).is_some())
}

/// The sub-query of an expression in other words.
pub(super) fn change_subquery(
    expr: Expr,
    change: impl FnOnce(Subquery) -> Result<Subquery>,
) -> Result<Transformed<Expr>> {
    Ok(Transformed::yes(match expr {
        Expr::ScalarSubquery(of) => Expr::ScalarSubquery(change(of)?),
        Expr::Exists(of) => Expr::Exists(Exists { subquery: change(of.subquery)?, ..of }),
        Expr::InSubquery(of) => Expr::InSubquery(InSubquery { subquery: change(of.subquery)?, ..of }),
        Expr::SetComparison(of) => {
            Expr::SetComparison(SetComparison { subquery: change(of.subquery)?, ..of })
        }
        other => return Ok(Transformed::no(other)),
    }))
}

/// Whether a plan or a sub-query of it has LATERAL.
pub(super) fn has_lateral(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|plan| {
        let mut found = matches!(plan, LogicalPlan::Subquery(_));
        plan.apply_expressions(|expr| {
            found |=
                expr.exists(|expr| subquery_of(expr).map_or(Ok(false), |of| has_lateral(&of.subquery)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// Whether equal values of a column are the same to a sub-query that reads it.
pub(super) fn is_exact(expr: &Expr, within: &LogicalPlan) -> Result<bool> {
    let Expr::OuterReferenceColumn(field, _) = expr else { return Ok(false) };
    let of = field.data_type();
    if of.is_nested() || of.is_null() || default_of(of).is_err() {
        return Ok(false);
    }
    Ok(!of.is_floating() && !matches!(of, DataType::Interval(_)) || is_only_compared(expr, within)?)
}

/// Whether a plan does nothing with an expression but compare it.
fn is_only_compared(wanted: &Expr, plan: &LogicalPlan) -> Result<bool> {
    let (mut all, mut compared) = (0_usize, 0_usize);
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                all += usize::from(expr == wanted);
                let sides: Vec<&Expr> = match expr {
                    Expr::BinaryExpr(of) if is_comparison(of.op) => vec![&of.left, &of.right],
                    Expr::Between(of) => vec![&of.expr, &of.low, &of.high],
                    _ => Vec::new(),
                };
                compared += sides.into_iter().filter(|side| *side == wanted).count();
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all == compared)
}
