//! Sub-queries outside of conditions: `SELECT x IN (SELECT y …)`, `sum(CASE WHEN EXISTS (…) THEN 1 END)`.
//!
//! Whether there is a row is whether a count of rows is above 0: a scalar sub-query, which DataFusion joins to rows by
//! the columns that are to be equal, and computes once where there are none.

use super::{Nulls, limited, named, outer, whole, y};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, Subquery, lit};
use std::sync::Arc;

/// EXISTS and IN as scalar sub-queries.
pub(super) fn counted(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Exists(Exists { subquery, negated }) => {
            let rows = rows(&subquery, None)?;
            Ok(Transformed::yes(if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) }))
        }
        Expr::InSubquery(of) if of.subquery.subquery.schema().fields().len() == 1 => {
            // Rows are joined by groups of y, of which a cast could make several equal: both are cast before.
            let of = named(of, schema)?;
            let wanted = of.subquery.subquery.schema().field(0).data_type().clone();
            let x = of.expr.as_ref().clone().cast_to(&wanted, schema)?;
            let any = |only| Ok(rows(&of.subquery, only)?.gt(lit(0_i64)));
            let found = any(Some(y(&of).eq(outer(x, schema)?)))?;
            let cases = match Nulls::of(&of, schema) {
                Some(nulls) => nulls.cases(&of, any)?,
                None => Vec::new(),
            };
            Ok(whole(found, cases, of.negated))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// How many rows a sub-query has, of those that `only` is true for; at most one is counted where one says it all.
pub(super) fn rows(subquery: &Subquery, only: Option<Expr>) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = limited(subquery, only)?;
    let none: [Expr; 0] = [];
    let plan = LogicalPlanBuilder::from(subquery.as_ref().clone());
    let plan = plan.aggregate(none, [count(lit(1_i64)).alias("rows")])?.build()?;
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans }))
}
