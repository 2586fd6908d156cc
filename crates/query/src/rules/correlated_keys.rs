//! Sub-queries that read columns of the query around them and group their rows: by what the condition compares, and no
//! row of none.
//!
//! DataFusion 55.2 makes a join of one, and an aggregate in it one by the columns of its condition. In
//! `(SELECT count(*) FROM u WHERE u.ts::DATE = t.ts::DATE)` that is `ts` and not its day: each `ts` has a row of its own.
//! The rule gives what is compared a name below the condition, so that it is the column. It must run where types agree,
//! since that adds casts.
//!
//! What the aggregate is of no rows is told by the aggregates that an item reads: one that reads none, as
//! `count(*) IS NOT NULL` once it is TRUE, is NULL then. The rule has each item read one.
//!
//! Refused is what neither such a join nor [`super::dependent`] has words for: a condition inside the side of an outer
//! join that may be NULL, which would be one of all rows; rows grouped twice, where the first group is one of no rows
//! too; and DISTINCT or GROUP BY alone in LATERAL under a condition that is no equality.

use super::correlated::{apply_own, reads_outer};
use crate::functions::maybe::maybe;
use crate::named::change_named;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct CorrelatedKeys;

impl AnalyzerRule for CorrelatedKeys {
    fn name(&self) -> &str {
        "correlated_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = 0;
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Subquery(of) if reads_outer(&of.subquery)? => {
                check(&of.subquery)?;
                let changed = keyed(Arc::unwrap_or_clone(of.subquery), &mut names)?;
                let changed = changed.transform_data(with_aggregates)?;
                let subquery = |plan| LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), ..of });
                Ok(changed.update_data(subquery))
            }
            LogicalPlan::Join(ref join) => {
                if let Some(of) = lateral(&join.right) {
                    check_distinct(&of.subquery)?;
                }
                Ok(Transformed::no(plan))
            }
            other => Ok(Transformed::no(other)),
        })?;
        if changed.transformed { renewed(changed.data) } else { Ok(changed.data) }
    }
}

/// A plan with an item that may be NULL now, which makes columns above it such.
pub(super) fn renewed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let renewed = |plan: LogicalPlan| Ok(Transformed::yes(plan.recompute_schema()?));
    Ok(plan.transform_up_with_subqueries(renewed)?.data)
}

/// Refuses a sub-query that such a join would be wrong for.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    apply_own(plan, |plan| {
        if let LogicalPlan::Join(join) = plan {
            let (left, right) = match join.join_type {
                JoinType::Inner => (false, false),
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    (false, true)
                }
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                    (true, false)
                }
                JoinType::Full => (true, true),
            };
            if left && reads_outer(&join.left)? || right && reads_outer(&join.right)? {
                return plan_err!(
                    "a condition on columns of the query around it, inside the side of an outer join that may be NULL, \
                     is not supported in a sub-query: write it in WHERE, or join the tables outside of the sub-query"
                );
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let below = above_total(plan).map_or(plan, |total| total.input.as_ref());
    apply_own(below, |plan| match plan {
        LogicalPlan::Aggregate(of) if of.group_expr.is_empty() && reads_outer(&of.input)? => plan_err!(
            "an aggregate without GROUP BY that reads columns of the query around it gives a row of no rows, and what is \
             done with that row in the sub-query, other than to calculate with it, is not supported"
        ),
        _ => Ok(TreeNodeRecursion::Continue),
    })
}

/// The aggregate without groups whose only row a plan calculates with.
fn above_total(mut plan: &LogicalPlan) -> Option<&Aggregate> {
    loop {
        plan = match plan {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Aggregate(of) => return of.group_expr.is_empty().then_some(of),
            _ => return None,
        };
    }
}

/// With a name for what conditions compare with the query around, where rows are grouped above them.
fn keyed(plan: LogicalPlan, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut grouped = false;
    apply_own(&plan, |plan| {
        grouped |= matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_));
        Ok(if grouped { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !grouped {
        return Ok(Transformed::no(plan));
    }
    plan.transform_down(|plan| match plan {
        LogicalPlan::Subquery(_) => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
        LogicalPlan::Filter(filter) if split_conjunction(&filter.predicate).into_iter().any(is_computed) => {
            let named = named(filter, names)?;
            Ok(Transformed::new(named, true, TreeNodeRecursion::Continue))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The two sides of an equality, that of the sub-query first, and whether it is on the left.
fn sides(condition: &Expr) -> Option<(&Expr, &Expr, bool)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let (left, right) = (left.as_ref(), right.as_ref());
    let (own, outer) = (
        |expr: &Expr| expr.any_column_refs() && !expr.contains_outer(),
        |expr: &Expr| !expr.any_column_refs() && expr.contains_outer(),
    );
    match (own(left) && outer(right), own(right) && outer(left)) {
        (true, _) => Some((left, right, true)),
        (_, true) => Some((right, left, false)),
        _ => None,
    }
}

fn is_computed(condition: &Expr) -> bool {
    sides(condition).is_some_and(|(own, ..)| !matches!(own, Expr::Column(_)))
}

fn named(filter: Filter, names: &mut usize) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut made = Vec::new();
    let mut each = |condition: Expr| match sides(&condition) {
        Some((own, outer, on_left)) if !matches!(own, Expr::Column(_)) => {
            *names += 1;
            let name = format!("__value_{names}");
            made.push(own.clone().alias(&name));
            let own = Expr::Column(Column::new_unqualified(name));
            if on_left { own.eq(outer.clone()) } else { outer.clone().eq(own) }
        }
        _ => condition,
    };
    let conditions: Vec<Expr> =
        split_conjunction_owned(filter.predicate).into_iter().map(&mut each).collect();
    let Some(condition) = conjunction(conditions) else { return plan_err!("a condition has no parts") };
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(filter.input))
        .project(columns.iter().cloned().chain(made))?
        .filter(condition)?
        .project(columns)?
        .build()
}

/// With a column of the aggregate in each item that stands above one without groups.
fn with_aggregates(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if above_total(&plan).is_none() {
        return Ok(Transformed::no(plan));
    }
    plan.transform_down(|plan| match plan {
        LogicalPlan::Aggregate(_) => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
        LogicalPlan::Projection(Projection { ref input, .. }) => {
            let Some(first) = input.schema().columns().into_iter().next() else {
                return Ok(Transformed::no(plan));
            };
            change_named(plan, |expr| match &expr {
                Expr::Column(_) => Ok(Transformed::no(expr)),
                Expr::Alias(alias) if matches!(*alias.expr, Expr::Column(_)) => Ok(Transformed::no(expr)),
                _ => Ok(Transformed::yes(maybe(expr.unalias(), [Expr::Column(first.clone())]))),
            })
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The sub-query that a side of a join is, where it is LATERAL.
pub(super) fn lateral(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(of) => Some(of),
        LogicalPlan::SubqueryAlias(alias) => lateral(&alias.input),
        _ => None,
    }
}

/// Whether rows are sorted, cut off, put together or joined above a condition on columns of the query around them, or
/// grouped above one that is no equality: what it compares is no key.
pub(super) fn has_no_key(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_own(plan, |plan| {
        let input = match plan {
            // Without aggregates it is DISTINCT.
            LogicalPlan::Aggregate(of) if !of.aggr_expr.is_empty() => &of.input,
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Union(_) | LogicalPlan::Join(_) => {
                found |= plan.contains_outer_reference();
                for input in plan.inputs() {
                    found |= reads_outer(input)?;
                }
                return Ok(TreeNodeRecursion::Continue);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        apply_own(input, |plan| {
            if let LogicalPlan::Filter(filter) = plan {
                let conditions = split_conjunction(&filter.predicate);
                found |= conditions.into_iter().any(|of| of.contains_outer() && sides(of).is_none());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Refuses rows that are to differ where each is found for some of the rows outside, by other than an equal column.
pub(super) fn check_distinct(plan: &LogicalPlan) -> Result<()> {
    apply_own(plan, |plan| {
        let input = match plan {
            LogicalPlan::Distinct(distinct) => distinct.input(),
            LogicalPlan::Aggregate(of) if of.aggr_expr.is_empty() => &of.input,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        apply_own(input, |plan| {
            let LogicalPlan::Filter(filter) = plan else { return Ok(TreeNodeRecursion::Continue) };
            let conditions = split_conjunction(&filter.predicate);
            match conditions.into_iter().any(|of| of.contains_outer() && sides(of).is_none()) {
                true => plan_err!(
                    "DISTINCT in a LATERAL sub-query is not supported under a condition on columns of the query around \
                     it that is no equality: write it outside of the sub-query"
                ),
                false => Ok(TreeNodeRecursion::Continue),
            }
        })?;
        Ok(TreeNodeRecursion::Continue)
    })
}
