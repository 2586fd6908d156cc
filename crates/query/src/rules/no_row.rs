//! Scalar sub-queries that may have no row: `(SELECT ts FROM t WHERE sym = 'Z')` is NULL then, also where `ts` never is.
//!
//! DataFusion 55.2 takes such a sub-query for as nullable as its item is declared: IS NULL of it becomes FALSE before it
//! runs, COALESCE fails when it has run. The rule puts a call around it whose value may be NULL.

use super::membership::gives_one_row;
use crate::functions::maybe::maybe;
use crate::named::{change_named, has};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct NoRow;

impl AnalyzerRule for NoRow {
    fn name(&self) -> &str {
        "no_row"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match has(&plan, may_be_absent)? {
            true => change_named(plan, |expr| expr.transform_up(absent)),
            false => Ok(Transformed::no(plan)),
        })?;
        Ok(changed.data)
    }
}

fn may_be_absent(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(of) = expr else { return false };
    let declared = of.subquery.schema().fields().first().is_some_and(|field| !field.is_nullable());
    declared && !gives_one_row(&of.subquery)
}

fn absent(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match may_be_absent(&expr) {
        true => Transformed::yes(maybe(expr, [])),
        false => Transformed::no(expr),
    })
}
