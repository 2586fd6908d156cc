//! Sub-queries of one row: `EXISTS (SELECT max(y) FROM u WHERE u.k = t.k)` is true of every row, also where u has no
//! such k.

use super::counted::rows;
use super::is_correlated;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Filter, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, lit,
};
use std::sync::Arc;

/// IN and EXISTS of one row as scalar sub-queries.
pub(super) fn asked(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Exists(Exists { subquery, negated }) if is_correlated(&subquery) => {
            Ok(match Rows::of(&subquery.subquery) {
                Rows::One => Transformed::yes(lit(!negated)),
                Rows::OneIf(filter) => {
                    let having = having(&filter, &subquery)?;
                    Transformed::yes(if negated { having.is_not_true() } else { having.is_true() })
                }
                Rows::Any => match skipped(&subquery)? {
                    // DataFusion drops an OFFSET here.
                    Some((subquery, skipped)) => {
                        let rows = rows(&subquery, None)?;
                        let past = lit(skipped);
                        Transformed::yes(if negated { rows.lt_eq(past) } else { rows.gt(past) })
                    }
                    None => Transformed::no(Expr::Exists(Exists { subquery, negated })),
                },
            })
        }
        Expr::InSubquery(of) if is_correlated(&of.subquery) => Ok(match Rows::of(&of.subquery.subquery) {
            Rows::One => Transformed::yes(equal(&of, &of.subquery.subquery)?),
            Rows::OneIf(filter) => {
                let having = having(&filter, &of.subquery)?.is_true();
                let then = equal(&of, &without_filter(&of.subquery.subquery)?)?;
                let case = Case {
                    expr: None,
                    when_then_expr: vec![(Box::new(having), Box::new(then))],
                    else_expr: Some(Box::new(lit(of.negated))),
                };
                Transformed::yes(Expr::Case(case))
            }
            Rows::Any => Transformed::no(Expr::InSubquery(of)),
        }),
        other => Ok(Transformed::no(other)),
    }
}

/// How many rows a plan gives.
enum Rows {
    One,
    /// One where the condition of a HAVING is true, else none.
    OneIf(Filter),
    Any,
}

impl Rows {
    fn of(plan: &LogicalPlan) -> Self {
        match plan {
            LogicalPlan::Projection(projection) => Self::of(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => Self::of(&sort.input),
            LogicalPlan::Limit(limit) if takes_one(limit) => Self::of(&limit.input),
            LogicalPlan::Filter(filter) => match Self::of(&filter.input) {
                Self::One => Self::OneIf(filter.clone()),
                _ => Self::Any,
            },
            LogicalPlan::Aggregate(Aggregate { group_expr, .. }) if group_expr.is_empty() => Self::One,
            _ => Self::Any,
        }
    }
}

/// Whether a plan gives one row, whatever it reads.
pub(crate) fn gives_one_row(plan: &LogicalPlan) -> bool {
    matches!(Rows::of(plan), Rows::One)
}

/// A sub-query without its OFFSET, and how many rows that passes over; `None` where it has none.
fn skipped(subquery: &Subquery) -> Result<Option<(Subquery, i64)>> {
    let LogicalPlan::Limit(limit) = subquery.subquery.as_ref() else { return Ok(None) };
    match (limit.get_skip_type(), limit.get_fetch_type()) {
        (Ok(SkipType::Literal(0)), _) | (_, Ok(FetchType::Literal(Some(0)))) => Ok(None),
        (Ok(SkipType::Literal(rows)), Ok(FetchType::Literal(_))) => {
            let subquery = Subquery { subquery: Arc::clone(&limit.input), ..subquery.clone() };
            Ok(Some((subquery, i64::try_from(rows).unwrap_or(i64::MAX))))
        }
        _ => plan_err!("OFFSET of a sub-query in EXISTS takes a number"),
    }
}

fn takes_one(limit: &Limit) -> bool {
    let skips = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
    skips && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(fetch)) if fetch != Some(0))
}

fn scalar(plan: LogicalPlan, of: &Subquery) -> Expr {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: of.spans.clone() })
}

/// The condition of a HAVING as a value.
fn having(filter: &Filter, of: &Subquery) -> Result<Expr> {
    let plan = LogicalPlanBuilder::from(filter.input.as_ref().clone());
    Ok(scalar(plan.project([filter.predicate.clone().alias("having")])?.build()?, of))
}

/// `x = (SELECT …)` of a sub-query of one row.
fn equal(of: &InSubquery, plan: &LogicalPlan) -> Result<Expr> {
    // Nothing is sorted or cut off of one row.
    let bare = plan.clone().transform_up(|plan| match plan {
        LogicalPlan::Sort(sort) if matches!(Rows::of(&sort.input), Rows::One) => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(sort.input)))
        }
        LogicalPlan::Limit(limit) if matches!(Rows::of(&limit.input), Rows::One) => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(limit.input)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let x = of.expr.as_ref().clone();
    let y = scalar(bare.data, &of.subquery);
    Ok(if of.negated { x.not_eq(y) } else { x.eq(y) })
}

/// The plan of a sub-query of one row without its HAVING.
fn without_filter(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let bare = plan.clone().transform_up(|plan| match plan {
        LogicalPlan::Filter(filter) if matches!(Rows::of(&filter.input), Rows::One) => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(filter.input)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(bare.data)
}
